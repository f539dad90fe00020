"""Calls with factors among the tensors, as PyTorch once took them.

Takes an operator and the orders in which such calls come. Gives its `older`: a function that warns,
and calls the operator with the factors by their names. Keeps true: what has none of these orders
is refused as any call with too many arguments is.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core

FACTOR_SECOND = ("tnt",)
"""``add(self, alpha, other)``"""

FACTORS_BEFORE_PRODUCT = ("tntt", "nttt", "tnntt", "ntntt")
"""``self.addmm(beta, alpha, mat1, mat2)`` and ``addmm(beta, self, alpha, mat1, mat2)``; alpha may lack"""


def take_older_forms(op: Any, orders: tuple[str, ...], *names: str) -> None:
    """Let an operator take numbers (`n`) among its tensors (`t`) in these orders.

    Args:
        op: the operator.
        orders: a letter for each positional argument.
        names: the keywords that the numbers are, in the order of the numbers.
    """

    def run(called: core.Op, *given: Any, **named: Any) -> Any:
        if "".join("t" if isinstance(x, core.Tensor) else "n" for x in given) not in orders:
            core.errors.fail(
                TypeError,
                op.name,
                f"at most {orders[0].count('t')} positional arguments were required",
                len(given),
                hint=f"pass {' and '.join(names)} by name",
            )
        by_name = " and ".join(f"{name}={name}" for name in names)
        # programs filter warnings by how they begin
        warnings.warn(
            f"This overload of {called.__name__} is deprecated: pass {by_name}", stacklevel=3
        )
        tensors = [x for x in given if isinstance(x, core.Tensor)]
        numbers = [x for x in given if not isinstance(x, core.Tensor)]
        return called(*tensors, **dict(zip(names, numbers, strict=False)), **named)

    op.older = run
