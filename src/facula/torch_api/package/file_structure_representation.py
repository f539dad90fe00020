"""What a package holds, as folders and files.

Takes the names of records. Gives `Directory`, which prints as a tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from .glob_group import GlobGroup, GlobPattern

__all__ = ["Directory"]


class Directory:
    """A folder of a package, or a file of it (`is_dir` is False)."""

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def has_file(self, filename: str) -> bool:
        """Whether there is a file of this path below the folder."""
        here = self
        for part in filename.split("/"):
            if part not in here.children:
                return False
            here = here.children[part]
        return not here.is_dir

    def _add(self, path: str) -> None:
        here = self
        *folders, last = path.split("/")
        for folder in folders:
            here = here.children.setdefault(folder, Directory(folder, True))
        here.children[last] = Directory(last, False)

    def __str__(self) -> str:
        return "\n".join(["─── " + self.name, *self._lines("    ")]) + "\n"

    def _lines(self, before: str) -> list[str]:
        """Folders first, then files, each in the order of their names."""
        found: list[str] = []
        children = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for number, child in enumerate(children):
            last = number == len(children) - 1
            found.append(before + ("└── " if last else "├── ") + child.name)
            found += child._lines(before + ("    " if last else "│   "))
        return found


def directory_of(
    name: str, records: Iterable[str], include: GlobPattern, exclude: GlobPattern
) -> Directory:
    """The folder of the records whose paths the patterns mean."""
    wanted = GlobGroup(include, exclude=exclude, separator="/")
    found = Directory(name, True)
    for record in records:
        if wanted.matches(record):
            found._add(record)
    return found
