"""Reference layers: float layers that keep their quantized weight, and compute with its numbers.

Takes: layers that were observed or trained. Gives: `Reference`, a float layer with `get_quantized_weight`. Keeps
true: between
`dequantize` and `quantize_per_tensor` a reference layer says what the layer of integers has to compute.
"""

from __future__ import annotations

import copy
from typing import Any

import facula.nn as nn
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules.quantized import _observed, quantized_weight


def of(module: Any) -> Any:
    """The reference layer in the place of a layer."""
    if isinstance(module, nnqat._Normalized):
        layer = module.folded()
    else:
        layer = module[0] if isinstance(module, nni._FusedModule) else module
    relu = isinstance(module, nni._FusedModule) or getattr(module, "_relu", False)
    weight = quantized_weight(layer.weight, _observed(layer, module))
    if isinstance(layer, nnqat._Weighted):
        layer = layer.to_float()  # type: ignore[attr-defined]
        layer = layer[0] if isinstance(layer, nni._FusedModule) else layer
    layer = copy.copy(layer)
    layer._parameters = dict(layer._parameters)
    made = Reference(layer, weight)
    if isinstance(module, nni._FusedModule):
        return nn.Sequential(made, *list(module)[1:])
    return nn.Sequential(made, nn.ReLU()) if relu else made


class Reference(nn.Module):
    """A float layer whose weight is the numbers of a quantized one."""

    def __init__(self, layer: Any, weight: Any) -> None:
        super().__init__()
        layer.weight = nn.Parameter(weight.dequantize(), requires_grad=False)
        self.layer = layer
        self.quantized = weight

    def get_quantized_weight(self) -> Any:
        """The weight as integers."""
        return self.quantized

    def get_weight(self) -> Any:
        """The weight as numbers."""
        return self.layer.weight

    def forward(self, x: Any) -> Any:
        """The float layer's result."""
        return self.layer(x)

    def _get_name(self) -> str:
        return f"QuantizedReference{type(self.layer).__name__}"
