"""Steps that call a function of each value.

Takes pipes and functions. Gives what the functions make. Keeps true: a value is not changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.collate import default_collate
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import (
    applied,
    check_function,
    length_of,
    validate_input_col,
)

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of each value, or of some of its columns (functional name: ``map``).

    Args:
        datapipe: the source
        fn: the function
        input_col: the column that the function reads (an index or a key), several, or None: the
            whole value
        output_col: the column that takes the result: by default the first of `input_col` (the
            others are left out), -1 appends one

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([(1, 2), (3, 4)]).map(float, input_col=1))
        [(1, 2.0), (3, 4.0)]
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        fn: Callable[..., Any],
        input_col: object = None,
        output_col: object = None,
    ) -> None:
        check_function(fn)
        if input_col is None and output_col is not None:
            fail(
                ValueError,
                "map",
                "`output_col` must be None when `input_col` is None.",
                hint="pass input_col, the column that the function reads",
            )
        if isinstance(output_col, (list, tuple)):
            if len(output_col) != 1:
                fail(
                    ValueError,
                    "map",
                    "`output_col` must be a single-element list or tuple",
                    hint="a function has one result: name the column for it",
                )
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def of_value(self, value: object) -> Any:
        """What becomes of one value."""
        return applied(self.fn, value, self.input_col, self.output_col)

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            yield self.of_value(value)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors (functional name: ``collate``).

    Args:
        datapipe: the source, whose values are batches
        conversion: the function that makes tensors of a batch; the loader's own by default
        collate_fn: the same under another name

    Example:
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> next(iter(IterableWrapper([1, 2, 3]).batch(3).collate()))
        tensor([1, 2, 3])
    """

    def __init__(
        self,
        datapipe: IterDataPipe,
        conversion: Callable[..., Any] | None = None,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(datapipe, collate_fn or conversion or default_collate)
