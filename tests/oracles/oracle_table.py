"""The table of oracles: for each public operator, where the truth about its values comes from.

Takes: functions over NumPy arrays, entered with `@oracle(name, kind=...)` by the files `of_*.py` of this folder.
Gives: `ORACLES` by operator name, `load()` which fills it, and `call`, the form of a sample.
Keeps true: nothing here or in `of_*.py` imports facula (`tests/ops/test_oracles.py` reads the imports), so that an
oracle shares no line with what it judges. Samples of composites stand beside their oracles: `samples(S)` makes them
with the `S` that is passed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

#: where an expected value may come from
KINDS = {
    "numpy": "NumPy",
    "scipy": "SciPy",
    "mpmath": "mpmath to 50 digits, stored",
    "loop": "a loop in plain Python",
    "differences": "finite differences",
    "identity": "an identity",
}
FOLDER = Path(__file__).parent


class Oracle:
    """What is expected of one operator.

    function: takes the call's arguments as arrays, and gives the result; of a `check`, takes the result and the
        arguments, and raises where they do not fit together.
    samples: calls to try besides those of the definition.
    factor: how many roundings of the result's dtype an element may be off.
    empty, expanded, orders: whether calls with an empty first size, with operands of stride zero and in other
        memory orders mean something.
    float32: whether calls in float32 mean something. integers: whether those of integers and bools do.
    writes: the positions of the arguments that a call writes to; the function gives (result, list of what they
        then hold).
    layout: the layout of the result, where it is a sparse one; its elements are compared as a dense array.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        kind: str,
        samples: Callable[[Any], Any] | None = None,
        check: bool = False,
        factor: float = 32,
        empty: bool = True,
        expanded: bool = True,
        orders: bool = True,
        float32: bool = True,
        integers: bool = True,
        writes: tuple[int, ...] = (),
        layout: str | None = None,
    ) -> None:
        assert kind in KINDS, kind
        self.function = function
        self.kind = kind
        self.samples = samples
        self.check = check
        self.factor = factor
        self.empty = empty
        self.expanded = expanded
        self.orders = orders
        self.float32 = float32
        self.integers = integers
        self.writes = writes
        self.layout = layout


ORACLES: dict[str, Oracle] = {}


def oracle(*names: str, kind: str, **settings: Any) -> Callable[[Any], Any]:
    """Enter a function as the oracle of operators."""

    def enter(function: Any) -> Any:
        for name in names:
            assert name not in ORACLES, f"{name} has an oracle"
            ORACLES[name] = Oracle(function, kind, **settings)
        return function

    return enter


def check(*names: str, kind: str, **settings: Any) -> Callable[[Any], Any]:
    """Enter a function `(result, *args, **kwargs)` that raises where the result is not right."""
    return oracle(*names, kind=kind, check=True, **settings)


def call(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One sample: the arguments of a call."""
    return args, kwargs


def epsilon(array: Any) -> float:
    """The rounding of an array's dtype; of integers zero."""
    dtype = numpy.asarray(array).dtype
    return float(numpy.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


def near(actual: Any, expected: Any, factor: float = 32) -> None:
    """Each element within `factor` roundings of `actual`'s dtype, of itself and of the largest element."""
    actual, expected = numpy.asarray(actual), numpy.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, {expected.shape} was expected"
    finite = numpy.abs(expected[numpy.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    bound = factor * epsilon(actual)
    numpy.testing.assert_allclose(
        actual, expected, rtol=bound, atol=bound * max(scale, 0.1), equal_nan=True
    )


def load() -> dict[str, Oracle]:
    """The table, filled by every file of the folder."""
    for path in sorted(FOLDER.glob("of_*.py")):
        if path.stem not in sys.modules:
            if str(FOLDER) not in sys.path:
                sys.path.insert(0, str(FOLDER))
            importlib.import_module(path.stem)
    return ORACLES
