"""Fused layers of integers, by the names that PyTorch's modules have.

Re-exports the names of the modules below, which are imported when a name is asked for.
"""

from __future__ import annotations

from facula.quantization.forwarding import forwarded as _forwarded

__getattr__ = _forwarded(
    globals(),
    modules=("modules.quantized", "modules.convolution_sums"),
    parts=(
        "bn_relu",
        "conv_add",
        "conv_relu",
        "linear_relu",
    ),
)
