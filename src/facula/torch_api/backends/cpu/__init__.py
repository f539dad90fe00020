"""The CPU as a backend: which kernels it runs, and what it made on first use.

Takes: nothing. Gives: `get_cpu_capability`, `events`, `clear_events`, `MissingKernelWarning`.
Keeps true: importing this module imports no code generator.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.runtime import libraries

__all__ = ["MissingKernelWarning", "clear_events", "events", "get_cpu_capability"]

_CAPABILITIES = {
    "v2": "DEFAULT",
    "v3": "AVX2",
    "v4": "AVX512",
    "v4x": "AVX512",
    "v4a": "AVX512",
    "neon": "DEFAULT",
}


def _get_cpu_capability() -> str:
    """What a script asks where it runs, as an operator of this name."""
    return _CAPABILITIES[libraries.kernel_variant()]


def get_cpu_capability() -> str:
    """The instruction set of the loaded kernels by PyTorch's names: `DEFAULT`, `AVX2` or `AVX512`."""
    return _get_cpu_capability()


def __getattr__(name: str) -> Any:
    if name in ("MissingKernelWarning", "clear_events", "events"):
        # lazily: they bring in the code generator
        from facula.devices import cpu as kernels

        return getattr(kernels, name)
    raise _no_attribute(__name__, name)
