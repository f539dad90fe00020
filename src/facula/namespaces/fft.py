"""Fourier transforms.

Re-exports the operators of the table whose place is `fft`; nothing else.
"""

from facula.ops.table.registry import PLACES as _PLACES

globals().update(_PLACES.get("fft", {}))
__all__ = sorted(_PLACES.get("fft", {}))
