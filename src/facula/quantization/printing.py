"""How quantized tensors look: the numbers, then how integers stand for them.

Takes: a quantized tensor. Gives: its text, with the places of line breaks that PyTorch has.
"""

from __future__ import annotations

from facula import core
from facula.core.printing import _join, contents
from facula.quantization.tensor import PER_CHANNEL

__all__ = ["text"]


def text(tensor: core.Tensor) -> str:
    """`repr(tensor)`."""
    q = tensor._quantizer
    suffixes = [
        f"size={tuple(tensor.shape)}",
        f"dtype={tensor.dtype}",
        f"quantization_scheme={q.scheme}",
        f"scale={q.scale}",
        f"zero_point={q.zero_point}",
    ]
    if q.scheme in PER_CHANNEL:
        suffixes.append(f"axis={q.axis}")
    prefix = "tensor("
    return _join(prefix + contents(tensor.dequantize(), len(prefix)), suffixes, len(prefix), False)
