"""Layers for training with fake quantization, by the names that PyTorch's modules have.

Re-exports the names of the modules below, which are imported when a name is asked for.
"""

from __future__ import annotations

from facula.quantization.forwarding import forwarded as _forwarded

__getattr__ = _forwarded(
    globals(),
    modules=("modules.qat",),
    parts=(
        "conv",
        "embedding_ops",
        "linear",
    ),
)
