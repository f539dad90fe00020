"""Where NVIDIA's profilers begin and end to record.

Takes nothing. Gives PyTorch's functions. Keeps true: a backend package may have them; without one they raise
RuntimeError, and `facula.profiler.profile` records on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from facula import core
from facula.core.errors import fail

__all__ = ["profile", "start", "stop"]


def _ask(name: str) -> int:
    answer = getattr(core.BACKENDS.get("cuda"), f"profiler_{name}", None)
    if answer is None:
        fail(RuntimeError, f"cuda.profiler.{name}", "a backend for CUDA was required: CUDA profiler not available",
             "none", hint="facula.profiler.profile() records on every device")  # fmt: skip
    return int(answer())


def start() -> int:
    """Begin to record; 0 where that went well."""
    return _ask("start")


def stop() -> int:
    """Record no more; 0 where that went well."""
    return _ask("stop")


@contextmanager
def profile() -> Iterator[None]:
    """A block that is recorded."""
    start()
    try:
        yield
    finally:
        stop()
