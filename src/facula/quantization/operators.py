"""All operators of quantization: importing this fills the operator table with them.

Gives: the modules whose operators `facula.ops.quantized` and its neighbours have.
"""

from facula.quantization import (
    convolution,
    create,
    decomposed,
    elementwise,
    embedding,
    fake,
    linear,
    ranges,
    scaled,
    weight_only,
)

__all__ = [
    "convolution",
    "create",
    "decomposed",
    "elementwise",
    "embedding",
    "fake",
    "linear",
    "ranges",
    "scaled",
    "weight_only",
]
