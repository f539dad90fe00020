"""Instance norms of integers.

Takes: quantized tensors. Gives: quantized tensors. Keeps true: the result has the scale and zero point that an
observer chose.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula.quantization import elementwise
from facula.quantization.modules.quantized import _Norm, _result_parameters

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


def _define(name: str) -> Any:
    kind = getattr(nn, name)

    def __init__(
        self: Any, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        kind.__init__(self, num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self: Any, input: Any) -> Any:
        return elementwise.instance_norm(
            input, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )  # fmt: skip

    def from_float(cls: Any, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        sizes = (mod.num_features, mod.weight, mod.bias)
        return cls(*sizes, *_result_parameters(mod), mod.eps, affine=mod.affine)

    def from_reference(cls: Any, mod: Any, scale: Any, zero_point: Any) -> Any:
        sizes = (mod.num_features, mod.weight, mod.bias)
        return cls(*sizes, float(scale), int(zero_point), mod.eps, affine=mod.affine)

    fields = {
        "__init__": __init__,
        "forward": forward,
        "from_float": classmethod(from_float),
        "from_reference": classmethod(from_reference),
        "__doc__": f"`nn.{name}` of integers.",
        "__module__": __name__,
    }
    return type(name, (_Norm, kind), fields)


InstanceNorm1d: Any = _define("InstanceNorm1d")
InstanceNorm2d: Any = _define("InstanceNorm2d")
InstanceNorm3d: Any = _define("InstanceNorm3d")
