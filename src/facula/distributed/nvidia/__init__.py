"""NCCL and the CUDA driver by ctypes: what the engine `nccl` stands on.

Takes: libraries of C that the wheel `nvidia-nccl-cu12` or `-cu13` and the driver bring. Gives: `library`, `driver`,
`communicator`, which need the standard library only.
Keeps true: nothing is loaded by importing this.
"""

from __future__ import annotations

import ctypes
import importlib.util

__all__ = ["is_there"]


def is_there() -> bool:
    """Whether NCCL's wheel is installed, and a driver of CUDA."""
    try:
        if importlib.util.find_spec("nvidia.nccl") is None:
            return False
        ctypes.CDLL("libcuda.so.1")
    except (ImportError, OSError):
        return False
    return True
