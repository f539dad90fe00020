"""`Filter`: the values for which a function is true.

Takes a pipe and a function. Gives some of the values. Keeps true: the function answers with a bool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import (
    StreamWrapper,
    check_function,
    chosen,
    validate_input_col,
)

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The values for which a function is true (functional name: ``filter``).

    Args:
        datapipe: the source
        filter_fn: the function, which gives a bool
        input_col: the column, or columns, that the function reads; None: the whole value

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a", "2"]).filter(str.isdigit))
        ['2']
    """

    def __init__(
        self, datapipe: IterDataPipe, filter_fn: Callable[..., bool], input_col: object = None
    ) -> None:
        check_function(filter_fn)
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        several = isinstance(self.input_col, (list, tuple))
        for value in self.datapipe:
            picked = chosen(value, self.input_col)
            kept = self.filter_fn(*picked) if several else self.filter_fn(picked)
            if not isinstance(kept, bool) and not self._is_bool(kept):
                fail(
                    ValueError,
                    "filter",
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe",
                    type(kept),
                    hint="bool(...) around the result makes it one",
                )
            if kept:
                yield value
            else:
                StreamWrapper.close_streams(value)

    @staticmethod
    def _is_bool(value: object) -> bool:
        """Whether a value is a bool of NumPy's or a tensor that holds one."""
        if isinstance(value, core.Tensor):
            return value.dtype is core.bool and value.numel() == 1
        return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
