"""What a function for tensors without data asks for where a size depends on data.

Takes: a call of such a function that is under way. Gives: `get_ctx`, whose `new_dynamic_size` makes such a size.
Keeps true: where sizes are symbols, the new one is a symbol without a value; elsewhere the operator is one
whose result's
shape no trace knows, and says so.
"""

from __future__ import annotations

import math
from typing import Any

from facula.core.errors import fail
from facula.fx.fake_tensor import SIZES, WantedSize
from facula.fx.symbols import SymInt

from .custom import RUNNING

__all__ = ["FakeImplCtx", "get_ctx"]


_BOUNDS = "min and max say what is known of the size of every call"


class FakeImplCtx:
    """The context of one call."""

    def __init__(self, operator: object) -> None:
        self._op = operator

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:  # noqa: A002
        """A size that is known only when the operator runs.

        Raises:
            DynamicOutputShapeException: no sizes are symbols here, as under a plain `FakeTensorMode`.
        """
        if any(isinstance(bound, SymInt) for bound in (min, max)):
            required = "numbers were required as bounds, not SymInt"
            fail(ValueError, "new_dynamic_size", required, f"min={min}, max={max}", _BOUNDS)
        if min < 0:
            required = "a least size greater than or equal to 0 was required"
            fail(ValueError, "new_dynamic_size", required, min, _BOUNDS)
        found = next(SIZES[-1], None) if SIZES else None
        if found is not None:
            return found
        wanted = WantedSize(self._op)
        wanted.low, wanted.high = min, math.inf if max is None else max
        raise wanted

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeImplCtx:
    """The context of the function for results without data that runs now, which makes sizes that
    depend on data.

    Raises:
        RuntimeError: none runs.

    Example:
        >>> try:
        ...     facula.library.get_ctx()
        ... except RuntimeError:
        ...     print("none runs")
        none runs
    """
    if not RUNNING:
        fail(
            RuntimeError,
            "get_ctx",
            "a call inside of a fake implementation was required (get_ctx() called outside of one)",
            hint="call it in the function that register_fake registers",
        )
    return FakeImplCtx(RUNNING[-1])
