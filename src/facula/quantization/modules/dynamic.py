"""Layers with weights of 8 bits (or 16-bit floats) whose inputs are numbers, quantized by their range.

Takes: float tensors. Gives: float tensors. Keeps true: a state dictionary has PyTorch's names.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.quantization import linear
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import quantized as nnq


class Linear(nnq.Linear):
    """``x @ W.T + b`` of numbers."""

    _version = 4
    _relu = False

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias_: bool = True,
        dtype: core.dtype = core.qint8,
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype)
        self.version = 4

    def forward(self, x: core.Tensor) -> Any:
        """The product."""
        packed = self._packed_params._packed_params
        if self._packed_params.dtype == core.float16:
            return linear.linear_dynamic_fp16(x, packed).to(x.dtype)
        # activations of 7 bits, whose products PyTorch's kernels add up in 16; layers of older files have 8
        return linear.linear_dynamic(x, packed, self.version >= 4).to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU" if self._relu else "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """Sizes and the dtype of the weight."""
        text = f"in_features={self.in_features}, out_features={self.out_features}"
        text += f", dtype={self._packed_params.dtype}"
        if self._packed_params.dtype is core.qint8:
            text += f", qscheme={self.weight().qscheme()}"
        return text

    def _load_from_state_dict(
        self, state_dict: object, prefix: str, meta: Any, *rest: object
    ) -> None:
        self.version = meta.get("version") or 1
        super()._load_from_state_dict(state_dict, prefix, meta, *rest)

    @classmethod
    def from_float(cls, mod: object, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a float layer; its `qconfig` says how its weight is observed."""
        layer = mod[0] if isinstance(mod, nni._FusedModule) else mod
        if not isinstance(layer, nn.Linear):
            fail(
                AssertionError,
                f"dynamic.{cls.__name__}.from_float",
                "nn.quantized.dynamic.Linear.from_float only works for one of Linear, LinearReLU",
                type(layer).__name__,
                hint="quantize_dynamic() calls it for the layers that it takes",
            )
        observer = _weight_observer(mod, layer)
        kind = observer.dtype
        if kind not in (core.qint8, core.float16):
            fail(
                AssertionError,
                f"dynamic.{cls.__name__}",
                "The only supported dtypes for dynamic quantized linear are qint8 and float16",
                kind,
                hint="quantize_dynamic(model, dtype=facula.qint8)",
            )
        made = cls(layer.in_features, layer.out_features, dtype=kind)
        weight = layer.weight
        weight = nnq.quantized_weight(weight, observer) if kind is core.qint8 else weight.float()
        made.set_weight_bias(weight, layer.bias)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear: Any) -> Any:  # type: ignore[override]
        """In the place of a reference layer."""
        made = cls(
            ref_qlinear.in_features, ref_qlinear.out_features, dtype=ref_qlinear.weight_dtype
        )
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        return made


def _weight_observer(mod: Any, layer: Any) -> Any:
    found = getattr(mod, "weight_fake_quant", None)
    if found is not None:
        return found
    if getattr(mod, "qconfig", None) is not None and mod.qconfig.weight is not None:
        observer = mod.qconfig.weight()
    else:
        # lazily: it imports the observers only where nobody chose one
        from facula.quantization.qconfig import default_dynamic_qconfig

        observer = default_dynamic_qconfig.weight()
    if observer.dtype is core.qint8:
        observer(layer.weight)
    return observer


class LinearReLU(Linear):
    """``relu(x @ W.T + b)`` of numbers."""

    _relu = True

    def forward(self, x: core.Tensor) -> Any:
        """The product, then relu."""
        packed = self._packed_params._packed_params
        if self._packed_params.dtype == core.float16:
            return linear.linear_relu_dynamic_fp16(x, packed).to(x.dtype)
        return linear.linear_relu_dynamic(x, packed, self.version >= 4).to(x.dtype)
