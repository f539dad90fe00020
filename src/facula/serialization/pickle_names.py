"""The names that a pickle asks for.

Takes the bytes of a pickle, or a checkpoint. Gives modules and names.
Keeps true: nothing of the pickle is run.
"""

from __future__ import annotations

import pickletools
from typing import Any

from facula.core.errors import fail
from facula.serialization.archive import ArchiveReader
from facula.serialization.files import opened_for_reading
from facula.serialization.rebuild import find

__all__ = ["get_unsafe_globals_in_checkpoint", "names_in"]


def names_in(data: bytes) -> dict[tuple[str, str], None]:
    """The modules and names that a pickle asks for, in order."""
    found: dict[tuple[str, str], None] = {}
    texts: list[str] = []
    memo: dict[int, str] = {}
    argument: Any
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            module, _, name = argument.partition(" ")
            found[module, name] = None
        elif opcode.name == "STACK_GLOBAL":
            found[texts[-2], texts[-1]] = None
        elif opcode.name == "MEMOIZE" and texts:
            memo[len(memo)] = texts[-1]
        elif "PUT" in opcode.name and texts:
            memo[argument] = texts[-1]
        elif "GET" in opcode.name:
            texts.append(memo.get(argument, ""))
        elif isinstance(argument, str):
            texts.append(argument)
    return found


def get_unsafe_globals_in_checkpoint(f: object) -> list[str]:
    """The names in a checkpoint that `load` would refuse, unless `add_safe_globals` allows them.

    Args:
        f: a path, or a file opened for reading bytes

    Example:
        >>> facula.save([facula.ones(2)], "list.pt")
        >>> facula.serialization.get_unsafe_globals_in_checkpoint("list.pt")
        []
    """
    with opened_for_reading(f, "get_unsafe_globals_in_checkpoint") as stream:
        data = bytes(ArchiveReader(stream).read("data.pkl"))
    try:
        names = names_in(data)
    except (ValueError, IndexError) as error:
        fail(
            RuntimeError,
            "get_unsafe_globals_in_checkpoint",
            "a well-formed pickle was required",
            str(error),
            hint="the file is damaged: fetch or save it again",
        )
    return [f"{module}.{name}" for module, name in names if not _known(module, name)]


def _known(module: str, name: str) -> bool:
    try:
        find(module, name)
    except KeyError:
        return False
    return True
