"""`StreamReader`: what is in open files.

Takes pairs of a path and a stream. Gives pairs of the path and what was read. Keeps true: a stream
that was read to its end is closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """Pairs of a path and what its stream holds (functional name: ``read_from_stream``).

    Args:
        datapipe: pairs of a path and a stream
        chunk: how much is read at a time; None: everything at once

    Example:
        >>> import io
        >>> from facula.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([("a", io.StringIO("xyz"))]).read_from_stream(2))
        [('a', 'xy'), ('a', 'z')]
    """

    def __init__(self, datapipe: IterDataPipe, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            while data := stream.read() if self.chunk is None else stream.read(self.chunk):
                yield path, data
            stream.close()
