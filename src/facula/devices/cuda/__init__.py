"""The device `cuda`: kernels that facula's compiler writes and Triton compiles.

Loads when the device is first named; `Cuda` is the backend. `driver` and `presence` alone load nothing else.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Cuda"]


def __getattr__(name: str) -> Any:
    if name != "Cuda":
        raise AttributeError(name)
    # lazily: the driver alone is asked without it
    from facula.devices.cuda.backend import Cuda

    return Cuda
