"""`FileOpener`: paths become pairs of a path and the open file.

Takes paths. Gives open files. Keeps true: a file that nobody holds any more is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.utils.common import get_file_binaries_from_pathnames, no_length

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe):
    """Pairs of a path and the open file (functional name: ``open_files``).

    Args:
        datapipe: paths
        mode: "r" or "rt" for text, "b" or "rb" for bytes
        encoding: of text
        length: what `len` says
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            fail(
                ValueError,
                "open_files",
                "Invalid mode: one of 'r', 't', 'rt', 'b', 'rb' was required",
                mode,
                hint="save_to_disk writes files",
            )
        if "b" in mode and encoding is not None:
            fail(
                ValueError,
                "open_files",
                "binary mode doesn't take an encoding argument",
                encoding,
                hint="mode='rt' decodes text",
            )
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path in self.datapipe:
            yield from get_file_binaries_from_pathnames(path, self.mode, self.encoding)

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length
