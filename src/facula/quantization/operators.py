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
    onednn,
    ranges,
    scaled,
    weight_only,
    wrapped,
)
from facula.quantization.modules import recurrent_cells

__all__ = [
    "convolution",
    "create",
    "decomposed",
    "elementwise",
    "embedding",
    "fake",
    "linear",
    "onednn",
    "ranges",
    "recurrent_cells",
    "scaled",
    "weight_only",
    "wrapped",
]
