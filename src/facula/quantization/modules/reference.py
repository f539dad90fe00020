"""Reference layers: float layers whose weight is the numbers of a quantized one.

Takes: layers that were observed or trained, or a float layer and its weight's parameters. Gives: `Linear`,
convolutions, transposed ones and tables, each a float layer with `get_weight` and `get_quantized_weight`; `of`,
the reference layer for a layer. Keeps true: between `dequantize` and `quantize_per_tensor` a reference layer
says what the layer of integers has to compute; its state holds the float weight and, beside it, scale, zero
point and axis.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.nn import functional
from facula.nn.utils.parametrize import type_before_parametrizations
from facula.quantization.create import quantize_per_channel, quantize_per_tensor
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules.quantized import _observed
from facula.quantization.tensor import (
    PER_CHANNEL,
    RANGES,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

#: schemes that differ in how parameters are chosen only
_AFFINE = {per_tensor_symmetric: per_tensor_affine, per_channel_symmetric: per_channel_affine}
_WHOLE: dict[str, Any] = {
    "qscheme": per_tensor_affine,
    "dtype": core.quint8,
    "scale": 1.0,
    "zero_point": 0,
}


def _ops() -> Any:
    # lazily: `facula.ops.quantized_decomposed` is there once the operators are defined
    from facula import ops

    return ops.quantized_decomposed


class ReferenceQuantizedModule(nn.Module):
    """A float layer that knows how its weight becomes integers."""

    _IS_REFERENCE = True
    weight: Any
    weight_scale: Any
    weight_zero_point: Any

    def _init_weight_qparams(self, weight_qparams: Any, device: core.device | None = None) -> None:
        given = dict(weight_qparams or _WHOLE)
        scheme = given["qscheme"]
        self.weight_qscheme, self.weight_dtype = scheme, given["dtype"]
        if scheme not in (None, per_tensor_affine, *PER_CHANNEL):
            fail(
                AssertionError,
                self._get_name(),
                f"qscheme: {scheme} is not supported in reference quantized {self._get_name()}: one of "
                "per_tensor_affine and per_channel_affine was required",
                scheme,
                hint="symmetric schemes are affine ones with known zero points",
            )
        if self.weight_dtype not in RANGES:
            given.update(scale=1.0, zero_point=0, axis=0)
        self._keep("weight_scale", given["scale"], core.float32)
        self._keep("weight_zero_point", given["zero_point"], core.int32)
        axis = given.get("axis", 0) if scheme in PER_CHANNEL else 0
        self._keep("weight_axis", axis, core.int32)
        self.weight_axis_int = int(axis)
        self.is_decomposed = bool(given.get("is_decomposed", False))
        self.weight_quant_min = given.get("quant_min")
        self.weight_quant_max = given.get("quant_max")

    def _keep(self, name: str, value: object, dtype: core.dtype) -> None:
        if isinstance(value, core.Tensor):
            self.register_buffer(name, value.detach().clone())
        else:
            self.register_buffer(name, core.tensor(value, dtype=dtype))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.weight_qscheme is not None:
            destination[prefix + "weight_qscheme"] = self.weight_qscheme
            destination[prefix + "weight_dtype"] = self.weight_dtype

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in ("weight_qscheme", "weight_dtype"):
            if prefix + name in state_dict:
                setattr(self, name, state_dict.pop(prefix + name))
        for name in ("weight_scale", "weight_zero_point"):
            if prefix + name in state_dict and getattr(self, name) is None:
                self._buffers[name] = state_dict[prefix + name].detach().clone()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def get_quantized_weight(self) -> Any:
        """The weight as integers; as it is where its dtype has none."""
        if self.weight_dtype not in RANGES:
            kind = self.weight_dtype
            return self.weight if kind is core.float32 else self.weight.to(kind)
        weight, scale = self.weight.detach().float(), self.weight_scale
        if self.weight_qscheme in PER_CHANNEL:
            floats = self.weight_qscheme is per_channel_affine_float_qparams
            zero = self.weight_zero_point.to(core.float32 if floats else core.int64)
            scale = scale.to(core.float32 if floats else core.float64)
            made = quantize_per_channel(
                weight, scale, zero, self.weight_axis_int, self.weight_dtype
            )
        else:
            zero = int(self.weight_zero_point)
            made = quantize_per_tensor(weight, float(scale), zero, self.weight_dtype)
        return made

    def get_weight(self) -> Any:
        """The weight as the numbers of its integers."""
        if self.is_decomposed and self.weight_qscheme in (per_tensor_affine, per_channel_affine):
            return self._decomposed_weight()
        if self.weight_dtype in RANGES:
            return self.get_quantized_weight().dequantize()
        kind = self.weight_dtype
        return self.weight if kind is core.float32 else self.weight.to(kind).to(self.weight.dtype)

    def _decomposed_weight(self) -> Any:
        """The same through operators of plain integers, within the range that the observer had."""
        dtype, low, high = RANGES[self.weight_dtype]
        low = low if self.weight_quant_min is None else self.weight_quant_min
        high = high if self.weight_quant_max is None else self.weight_quant_max
        run, given = _ops(), [self.weight_scale, self.weight_zero_point]
        if self.weight_qscheme is per_channel_affine:
            given += [self.weight_axis_int, low, high, dtype]
            return run.dequantize_per_channel(run.quantize_per_channel(self.weight, *given), *given)
        given += [low, high, dtype]
        return run.dequantize_per_tensor(run.quantize_per_tensor(self.weight, *given), *given)

    def _get_name(self) -> str:
        return f"QuantizedReference{type(self).__name__}"


class Linear(nn.Linear, ReferenceQuantizedModule):
    """``x @ W.T + b`` with the numbers of a quantized weight."""

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, device: Any = None,
        dtype: core.dtype | None = None, weight_qparams: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias_, device, dtype)
        self._init_weight_qparams(weight_qparams, device)

    def forward(self, x: core.Tensor) -> Any:
        """The product."""
        return functional.linear(x, self.get_weight(), self.bias)

    _get_name = ReferenceQuantizedModule._get_name

    @classmethod
    def from_float(cls, float_linear: nn.Module, weight_qparams: dict[str, Any]) -> Any:
        """In the place of a float layer, with its parameters."""
        made = cls(
            float_linear.in_features, float_linear.out_features, float_linear.bias is not None,
            weight_qparams=weight_qparams,
        )  # fmt: skip
        return _with_parameters(made, float_linear)


def _with_parameters(made: ReferenceQuantizedModule, layer: nn.Module) -> Any:
    made.weight = nn.Parameter(layer.weight.detach())
    if getattr(layer, "bias", None) is not None:
        made.bias = nn.Parameter(layer.bias.detach())
    made.train(layer.training)
    return made


def _arguments_of(layer: nn.Module, transposed: bool) -> list[Any]:
    """What a convolution was made of, in the order in which its class takes it."""
    first = [layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding]
    groups, bias, dilation = layer.groups, layer.bias is not None, layer.dilation
    last = (
        [layer.output_padding, groups, bias, dilation] if transposed else [dilation, groups, bias]
    )
    return [*first, *last, layer.padding_mode]


def _define_convolution(name: str) -> Any:
    kind = getattr(nn, name)
    transposed = "Transpose" in name
    call = getattr(functional, name.lower().replace("transpose", "_transpose"))

    def __init__(self: Any, *args: Any, weight_qparams: Any = None, **keywords: Any) -> None:
        if len(args) > 11:  # the weight's parameters are the last argument, also by place
            *args, weight_qparams = args  # type: ignore[assignment]
        kind.__init__(self, *args, **keywords)
        self._init_weight_qparams(weight_qparams, keywords.get("device"))

    def forward(self: Any, x: core.Tensor, output_size: object = None) -> Any:
        weight = self.get_weight()
        if not transposed:
            return self._conv_forward(x, weight, self.bias)
        dims = len(self.kernel_size)
        more = self._output_padding(
            x, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation
        )
        return call(
            x, weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )

    def from_float(cls: Any, float_conv: nn.Module, weight_qparams: dict[str, Any]) -> Any:
        given = _arguments_of(float_conv, transposed)
        return _with_parameters(cls(*given, weight_qparams=weight_qparams), float_conv)

    fields = {
        "__init__": __init__,
        "forward": forward,
        "from_float": classmethod(from_float),
        "_get_name": ReferenceQuantizedModule._get_name,
        "__doc__": f"`nn.{name}` with the numbers of a quantized weight.",
        "__module__": __name__,
    }
    return type(name, (kind, ReferenceQuantizedModule), fields)


Conv1d: Any = _define_convolution("Conv1d")
Conv2d: Any = _define_convolution("Conv2d")
Conv3d: Any = _define_convolution("Conv3d")
ConvTranspose1d: Any = _define_convolution("ConvTranspose1d")
ConvTranspose2d: Any = _define_convolution("ConvTranspose2d")
ConvTranspose3d: Any = _define_convolution("ConvTranspose3d")


class Embedding(nn.Embedding, ReferenceQuantizedModule):
    """Rows of the numbers of a quantized table."""

    def __init__(self, *args: Any, weight_qparams: Any = None, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._init_weight_qparams(weight_qparams)

    def forward(self, input: core.Tensor) -> Any:
        """The rows."""
        return functional.embedding(
            input, self.get_weight(), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    _get_name = ReferenceQuantizedModule._get_name

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Any:
        """In the place of a float table."""
        made = cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, weight_qparams=weight_qparams,
        )  # fmt: skip
        return _with_parameters(made, mod)


class EmbeddingBag(nn.EmbeddingBag, ReferenceQuantizedModule):
    """Sums or means of rows of the numbers of a quantized table."""

    def __init__(self, *args: Any, weight_qparams: Any = None, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._init_weight_qparams(weight_qparams)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """The sums or means."""
        return functional.embedding_bag(
            input, self.get_weight(), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset,
        )  # fmt: skip

    _get_name = ReferenceQuantizedModule._get_name

    @classmethod
    def from_float(cls, mod: Any, weight_qparams: dict[str, Any]) -> Any:
        """In the place of a float table."""
        made = cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse,
            include_last_offset=mod.include_last_offset, weight_qparams=weight_qparams,
        )  # fmt: skip
        return _with_parameters(made, mod)


# ------------------------------------------------------------------ for layers that were observed

_CLASSES: dict[Any, Any] = {
    getattr(nn, name): value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, ReferenceQuantizedModule) and hasattr(nn, name)
}


def parameters_of(observer: nn.Module) -> dict[str, Any]:
    """What a reference layer takes as `weight_qparams`, by what an observer chose."""
    scheme = _AFFINE.get(observer.qscheme, observer.qscheme)
    found = {"qscheme": scheme, "dtype": observer.dtype}
    if observer.dtype not in RANGES:
        return found
    found["scale"], found["zero_point"] = observer.calculate_qparams()
    if scheme in PER_CHANNEL:
        found["axis"] = observer.ch_axis
    return found


def exists_for(module: nn.Module) -> bool:
    """Whether there is a reference layer for a layer, or for the one that a fused module begins with."""
    layer = module[0] if isinstance(module, nni._FusedModule) else module
    return type_before_parametrizations(layer) in _CLASSES or isinstance(layer, nnqat._Weighted)


def of(module: nn.Module) -> Any:
    """The reference layer in the place of a layer; with its relu behind it where that is a part of the layer."""
    if isinstance(module, nnqat._Normalized):
        layer = module.folded()
    else:
        layer = module[0] if isinstance(module, nni._FusedModule) else module
    relu = getattr(module, "_relu", False)
    parameters = parameters_of(_observed(layer, module))
    if isinstance(layer, nnqat._Weighted):
        layer = layer.to_float()  # type: ignore[attr-defined]
        layer = layer[0] if isinstance(layer, nni._FusedModule) else layer
    made = _CLASSES[type_before_parametrizations(layer)].from_float(layer, parameters)
    if isinstance(module, nni._FusedModule):
        return type(module)(made, *list(module)[1:])
    return nn.Sequential(made, nn.ReLU()) if relu else made
