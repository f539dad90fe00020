"""The older `size_average` and `reduce` arguments of losses, as a `reduction` name.

Takes the two flags.  Gives "mean", "sum" or "none".
Keeps true: using either flag warns.
"""

from __future__ import annotations

import warnings

from facula.core.errors import fail

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction name."""
    if reduction not in _NUMBERS:
        fail(
            ValueError,
            "reduction",
            f"{reduction} is not a valid value for reduction",
            hint="'none', 'mean' and 'sum' are there",
        )
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the two flags ask for; None is True."""
    average = True if size_average is None else size_average
    reduced = True if reduce is None else reduce
    name = "none" if not reduced else "mean" if average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{name}' "
            "instead.",
            stacklevel=3,
        )
    return name


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """As `legacy_get_string`, as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
