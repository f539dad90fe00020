"""What a test suite may ask of facula that has no name in PyTorch.

Takes functions without arguments. Gives counts of what happened while they ran. Keeps true: nothing
is counted that did not run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.compiler import backend
from facula.deploy.native import runtime_program
from facula.nn import attention_fast_path

__all__ = ["aoti_runner", "fastpath_count", "prepack_count"]


def aoti_runner(path: str) -> list[str]:
    """The command that runs a package on .npy files, without Python."""
    return [runtime_program(), path]


def fastpath_count(function: Callable[[], Any]) -> int:
    """How many encoder layers took the fast path while `function` ran."""
    before = attention_fast_path.fastpath_count()
    function()
    return attention_fast_path.fastpath_count() - before


def prepack_count() -> int:
    """How many weights compiled inference graphs have packed so far."""
    return backend.prepack_count()
