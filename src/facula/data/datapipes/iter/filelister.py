"""`FileLister`: the files below folders.

Takes paths. Gives the paths of files. Keeps true: the order is that of the names, in every pass.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes._decorator import functional_datapipe
from facula.data.datapipes.datapipe import IterDataPipe
from facula.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from facula.data.datapipes.utils.common import no_length

__all__ = ["FileListerIterDataPipe"]


@functional_datapipe("list_files")
class FileListerIterDataPipe(IterDataPipe):
    """The files below folders whose names match (functional name: ``list_files``).

    Args:
        root: a folder, several, or a pipe of folders; a file among them stands for itself
        masks: patterns of names, as `"*.csv"`; none: all files
        recursive: whether folders in folders are read
        abspath: whether the paths are absolute
        non_deterministic: has no effect: the order is always that of the names
        length: what `len` says
    """

    def __init__(
        self,
        root: Any = ".",
        masks: Any = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        if isinstance(root, (str, os.PathLike)):
            root = [root]
        self.datapipe = (
            root if isinstance(root, IterDataPipe) else IterableWrapperIterDataPipe(root)
        )
        self.masks = [masks] if isinstance(masks, str) else masks
        if not isinstance(self.masks, (list, tuple)) or any(not isinstance(m, str) for m in masks):
            required, hint = "patterns of names as texts were required", "'*.csv' is one"
            fail(TypeError, "list_files", required, repr(masks)[:60], hint=hint)
        self.recursive, self.abspath, self.length = recursive, abspath, length
        self.non_deterministic = non_deterministic

    def _matches(self, name: str) -> bool:
        return not any(self.masks) or any(fnmatch(name, mask) for mask in self.masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            folder = os.path.abspath(root) if self.abspath else os.fspath(root)
            if os.path.isfile(folder):
                if self._matches(os.path.basename(folder)):
                    yield folder
                continue
            for path, folders, names in os.walk(folder, onerror=_raise):
                folders.sort()
                for name in sorted(names):
                    if self._matches(name):
                        yield os.path.join(path, name)
                if not self.recursive:
                    break

    def __len__(self) -> int:
        return no_length(self) if self.length == -1 else self.length


def _raise(error: OSError) -> None:
    raise error
