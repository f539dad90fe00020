"""Settings of `save` and `load` that hold until they are changed: checksums, the kind of mapping, files without data.

Takes settings. Gives them back, and says what applies now.
Keeps true: the files that `save` writes have right checksums whatever is set, since other programs and `load` rely on
them; a block ends with the settings with which it began.
"""

from __future__ import annotations

import mmap
from types import TracebackType

from facula.core.errors import fail

__all__ = [
    "get_crc32_options",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_mmap_options",
    "skip_data",
]

_CHECKSUMS = [True]
_MAPPING = [mmap.MAP_PRIVATE]
_SKIPPING: list[bool] = []


def get_crc32_options() -> bool:
    """What `set_crc32_options` set: whether programs want checksums in files."""
    return _CHECKSUMS[0]


def set_crc32_options(compute_crc32: bool) -> None:
    """Kept for programs that ask; files have checksums in any case, since `load` looks at them.

    Args:
        compute_crc32: whether the program wants checksums
    """
    _CHECKSUMS[0] = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps a file: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`."""
    return _MAPPING[0]


class set_default_mmap_options:  # noqa: N801 - PyTorch's name
    """Sets how `load(mmap=True)` maps a file; as a block, until its end.

    Args:
        flags: `mmap.MAP_PRIVATE` (writes stay in the process) or `mmap.MAP_SHARED` (writes go to the file)

    Raises:
        ValueError: it is neither.

    Example:
        >>> import mmap
        >>> with facula.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     facula.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            fail(
                ValueError,
                "set_default_mmap_options",
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                "mmap.MAP_SHARED",
                flags,
                hint="MAP_PRIVATE keeps the file as it is",
            )
        self.before, _MAPPING[0] = _MAPPING[0], flags

    def __enter__(self) -> None:
        """Nothing is left to do."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _MAPPING[0] = self.before


class skip_data:  # noqa: N801 - PyTorch's name
    """A block in which `save` leaves room for the data of tensors, and writes none (zeros stand there).

    The file has the size, names and places of a whole one, so that other programs may fill it.

    Args:
        materialize_fake_tensors: must be False: a fake tensor has no storage to leave room for

    Raises:
        RuntimeError: a file is loaded in the block, or fake tensors were asked for.

    Example:
        >>> with facula.serialization.skip_data():
        ...     facula.save(facula.ones(2), "room.pt")
        >>> facula.load("room.pt")
        tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            fail(
                RuntimeError,
                "skip_data",
                "tensors with storages were required: materialize_fake_tensors=False",
                materialize_fake_tensors,
                hint="make the tensors with facula.empty() on the device cpu",
            )

    def __enter__(self) -> None:
        _SKIPPING.append(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _SKIPPING.pop()


def skips_data() -> bool:
    """Whether `save` leaves the data out now."""
    return bool(_SKIPPING)


def maps_shared() -> bool:
    """Whether writes to mapped tensors go to the file."""
    return _MAPPING[0] == mmap.MAP_SHARED
