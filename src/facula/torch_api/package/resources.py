"""Files of a package as `importlib.resources` reads them.

Takes records and a folder's name. Gives a reader as `importlib.resources.abc.ResourceReader` describes it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.resources.abc import ResourceReader
from typing import Any

from facula.core.errors import fail

from .readers import PackageFolder

__all__ = ["PackageResources"]


class PackageResources(ResourceReader):
    """The files beside a packaged module."""

    def __init__(self, records: Any, folder: str) -> None:
        self.records, self.folder = records, folder

    def open_resource(self, resource: str) -> io.BytesIO:
        """A file's bytes as a stream."""
        return io.BytesIO(self.records.get_record(f"{self.folder}/{resource}"))

    def resource_path(self, resource: Any) -> str:
        """Where the file lies, of a package that was unpacked."""
        if isinstance(self.records, PackageFolder) and self.is_resource(resource):
            return self.records._path(f"{self.folder}/{resource}")
        return fail(
            FileNotFoundError,
            "resource_path",
            "a file of an unpacked package was required",
            repr(resource),
            hint="open_resource() reads files of archives",
        )

    def is_resource(self, path: str) -> bool:
        """Whether there is a file of this name."""
        found: bool = self.records.has_record(f"{self.folder}/{path}")
        return found

    def contents(self) -> Iterator[str]:
        """The names of files and folders."""
        before = self.folder + "/"
        names = (n[len(before) :] for n in self.records.get_all_records() if n.startswith(before))
        return iter(dict.fromkeys(name.partition("/")[0] for name in names))
