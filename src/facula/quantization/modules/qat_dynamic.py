"""Layers for training with fake quantization whose inputs are quantized by their range.

Takes: float layers with a `qconfig`. Gives: `Linear`. Keeps true: what observes the inputs remembers nothing.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.quantization.modules import qat as nnqat

__all__ = ["Linear"]


def _forgets(qconfig: Any) -> bool:
    """Whether activations are quantized by each input's range, without those before it."""
    made = qconfig.activation()
    observer = getattr(made, "activation_post_process", made)
    if hasattr(observer, "averaging_constant"):
        return bool(observer.averaging_constant == 1)
    return bool(getattr(made, "is_dynamic", False))


class Linear(nnqat.Linear):
    """A linear layer whose weight passes through its levels, to be quantized dynamically."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: object = None, dtype: object = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not _forgets(qconfig):
            fail(
                ValueError,
                "nn.qat.dynamic.Linear",
                "Dynamic QAT requires a memoryless observer.This means a MovingAverage observer with "
                "averaging constant equal to 1",
                qconfig.activation,
                hint="default_dynamic_qat_qconfig has one",
            )
