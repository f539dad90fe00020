"""`Batcher`: batches of consecutive items.

Takes a pipe. Gives batches. Keeps true: only the items of the batch that is asked for are made.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import DataChunk, MapDataPipe
from facula.data.datapipes.utils.common import batch_size_checked, count_of_batches

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Batches of consecutive items (functional name: ``batch``).

    Args:
        datapipe: the source, whose indices are 0, 1, 2 ...
        batch_size: how many items a batch has
        drop_last: whether a last batch with fewer items is left out
        wrapper_class: makes the batch of a list

    Example:
        >>> from facula.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper(range(5)).batch(2)[2]
        [4]
    """

    def __init__(
        self,
        datapipe: MapDataPipe,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        self.datapipe, self.batch_size = datapipe, batch_size_checked(batch_size)
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        begin = index * self.batch_size
        end = min(begin + self.batch_size, len(self.datapipe))
        if not 0 <= index < len(self):
            fail(
                IndexError,
                "batch",
                f"Index {index} is out of bound.",
                hint="indices run from 0 to len(pipe) - 1",
            )
        return self.wrapper_class([self.datapipe[i] for i in range(begin, end)])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count_of_batches(count, self.batch_size, self.drop_last)
