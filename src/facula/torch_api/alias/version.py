"""The version of PyTorch whose interface facula speaks, as programs ask for it.

Takes nothing. Gives `API_VERSION` and `TorchVersion`. Keeps true: the text is that of the folder
`site/torch-<version>.dist-info`, which answers `importlib.metadata.version("torch")`.
"""

from __future__ import annotations

import re
from pathlib import Path

from facula.core.errors import fail

__all__ = ["API_VERSION", "SITE", "TorchVersion"]

#: the folder that child processes have on their path: a package `torch` and its metadata
SITE = Path(__file__).parent / "site"


def _version_of_site() -> str:
    (folder,) = SITE.glob("torch-*.dist-info")
    return folder.name.removeprefix("torch-").removesuffix(".dist-info")


API_VERSION = _version_of_site()
_PRE_RELEASE = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1}


def _key(version: object) -> tuple[tuple[int, ...], tuple[int, int]]:
    """What versions are ordered by: the release, then how far before it. Local parts do not count."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    found = re.match(r"v?(\d+(?:\.\d+)*)[._-]?(?:(dev|alpha|beta|a|b|rc)[._-]?(\d*))?", text)
    if found is None:
        fail(
            ValueError,
            "TorchVersion",
            f"a version was required: got {text!r}",
            hint="for example '2.13.0' or (2, 13)",
        )
    release = [int(part) for part in found[1].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    return tuple(release), (_PRE_RELEASE.get(found[2], 0), int(found[3] or 0))


class TorchVersion(str):
    """A version as text that compares, by its numbers, with versions, texts and tuples of ints."""

    def _compare(self, other: object) -> int:
        mine, its = _key(self), _key(other)
        return (mine > its) - (mine < its)

    def __lt__(self, other: object) -> bool:
        return self._compare(other) < 0

    def __le__(self, other: object) -> bool:
        return self._compare(other) <= 0

    def __gt__(self, other: object) -> bool:
        return self._compare(other) > 0

    def __ge__(self, other: object) -> bool:
        return self._compare(other) >= 0

    def __eq__(self, other: object) -> bool:
        try:
            return self._compare(other) == 0
        except ValueError:
            return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
