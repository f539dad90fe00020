"""The CPU as a device among others: what `cuda` offers, where it has a meaning.

Takes nothing. Gives the questions and the streams of PyTorch's `torch.cpu`.
Keeps true: work on the CPU is done when a call returns, so streams and synchronisation wait for nothing.
"""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from facula import core
from facula.runtime import cpu_features

from . import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """The one queue of the CPU, always empty."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: object) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: object) -> None:
        """Nothing to wait for."""


class Event:
    """A point in the queue of the CPU: always reached."""

    def query(self) -> bool:
        """Whether the work before is done: always."""
        return True

    def record(self, stream: object = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: object = None) -> None:
        """Nothing to wait for."""


class StreamContext(AbstractContextManager):
    """A region in which a stream is the current one."""

    cur_stream: Any

    def __init__(self, stream: object) -> None:
        self.stream = stream

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        return None


_STREAM = Stream()


def current_stream(device: core.device | str | int | None = None) -> Stream:
    """The one stream."""
    return _STREAM


def stream(stream: object) -> AbstractContextManager:
    """A region in which a stream is the current one; None changes nothing."""
    return nullcontext() if stream is None else StreamContext(stream)


def synchronize(device: core.device | str | int | None = None) -> None:
    """Wait until all work is done: it is."""


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: core.device | str | int | None) -> None:
    """There is one CPU device: nothing to choose."""


def get_capabilities() -> dict[str, Any]:
    """What the processor can do, and the kernel variant that fits it."""
    return {
        "architecture": platform.machine(),
        "variant": cpu_features.detected(),
        **{name: True for name in sorted(cpu_features.features())},
    }


def _has(*features: str) -> bool:
    return set(features) <= set(cpu_features.features())


def _is_avx2_supported() -> bool:
    """Whether the processor has vectors of 256 bits for integers."""
    return _has("avx2")


def _is_avx512_supported() -> bool:
    """Whether the processor has vectors of 512 bits for all sizes of elements."""
    return _has("avx512f", "avx512bw", "avx512dq", "avx512vl")


def _is_avx512_bf16_supported() -> bool:
    """Whether the processor multiplies bfloat16."""
    return _has("avx512_bf16")


def _is_vnni_supported() -> bool:
    """Whether the processor multiplies bytes into 32 bits."""
    return _has("avx512_vnni")


def _is_amx_tile_supported() -> bool:
    """Whether the processor has matrix registers."""
    return _has("amx_tile")


def _is_amx_fp16_supported() -> bool:
    """Whether the matrix registers multiply float16."""
    return _has("amx_fp16")
