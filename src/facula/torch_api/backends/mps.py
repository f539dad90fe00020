"""PyTorch's questions about Apple's GPUs.

Takes: nothing. Gives: `is_built`, `is_available`, `is_macos_or_newer`.
Keeps true: the device is there when a backend package offers it.
"""

from __future__ import annotations

import platform

from facula.devices import load, registered

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]


def is_available() -> bool:
    """Whether tensors can be put on the device `mps`."""
    return "mps" in registered() or load("mps")


is_built = is_available


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of at least that version."""
    found = platform.mac_ver()[0]
    return bool(found) and tuple(int(part) for part in found.split(".")[:2]) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13.minor or later."""
    return is_macos_or_newer(13, minor)
