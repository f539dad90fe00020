"""Libraries that the domains use where they are installed: Pillow, soundfile, pyarrow, ...

Takes: the name of a module. Gives: the module, or an error that says how to install it.
Keeps true: nothing is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import fail

#: module -> the extra of facula that brings it
_EXTRAS = {
    "PIL": "vision",
    "soundfile": "audio",
    "pyarrow": "arrow",
    "sentencepiece": "text",
    "tokenizers": "text",
}


def extra(module: str, op: str) -> Any:
    """A module of a library that not everybody has.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        root = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != root:
            raise
    hint = f'pip install "facula[{_EXTRAS[root]}]"'
    fail(ModuleNotFoundError, op, f"the library {root!r} was required", "none installed", hint)
