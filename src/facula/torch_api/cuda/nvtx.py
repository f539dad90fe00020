"""Marks for NVIDIA's profiler.

Takes texts. Gives PyTorch's functions. Keeps true: a backend package may have them; without one they raise
PyTorch's RuntimeError, and `profiler.record_function` marks ranges on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _ask(name: str, *args: object) -> Any:
    answer = getattr(core.BACKENDS.get("cuda"), f"nvtx_{name}", None)
    if answer is None:
        fail(
            RuntimeError,
            f"cuda.nvtx.{name}",
            "a backend for CUDA was required: NVTX functions not installed",
            "none",
            hint="facula.profiler.record_function(text) marks a range on every device",
        )
    return answer(*args)


def range_push(msg: str) -> int:
    """Begins a range inside of the current one; gives its depth."""
    return _ask("range_push", msg)


def range_pop() -> int:
    """Ends the innermost range; gives its depth."""
    return _ask("range_pop")


def range_start(msg: str) -> int:
    """Begins a range that any thread may end; gives its number."""
    return _ask("range_start", msg)


def range_end(range_id: int) -> None:
    """Ends a range that `range_start` began."""
    _ask("range_end", range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    _ask("mark", msg)


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A block that is a range; the text is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
