"""Layers of integers: linear layers, convolutions, norms and activations, each with the parameters of its result.

Takes: quantized tensors. Gives: quantized tensors. Keeps true: a layer's state has PyTorch's names, so that its state
dictionary loads there and the other way round; weight and bias live in packed parameters, which `weight()` and
`bias()` show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.quantization import convolution, elementwise, linear
from facula.quantization.create import (
    _empty_affine_quantized,
    quantize_per_channel,
    quantize_per_tensor,
)
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.state_parts import number_in, weight_and_bias
from facula.quantization.tensor import (
    RANGES,
    like,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
)

_BY_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)


def quantized_weight(weight: core.Tensor, observer: nn.Module) -> Any:
    """A weight as integers, by what an observer chose."""
    scale, zero = observer.calculate_qparams()
    weight = weight.detach().float()
    if observer.qscheme in _BY_CHANNEL:
        floats = observer.qscheme is per_channel_affine_float_qparams
        zero = zero.to(core.float32 if floats else core.int64)
        axis = getattr(observer, "ch_axis", 0)
        made = quantize_per_channel(weight, scale.double(), zero, axis, observer.dtype)
    else:
        made = quantize_per_tensor(weight, float(scale), int(zero), observer.dtype)
    low, high = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    _, least, most = RANGES[observer.dtype]
    if low is None or high is None or (low <= least and high >= most):
        return made
    return like(made, made._integers.clamp(low, high))


def _observed(layer: nn.Module, mod: nn.Module) -> Any:
    """The observer of a float layer's weight, which has looked at it."""
    observer = getattr(mod, "weight_fake_quant", None)
    if observer is not None:
        low = getattr(getattr(observer, "activation_post_process", observer), "min_val", None)
        if low is not None and (not low.numel() or bool(low.isinf().any())):
            observer(layer.weight)  # the model was never run
        return observer
    observer = mod.qconfig.weight()
    observer(layer.weight)
    return observer


def _result_parameters(mod: nn.Module) -> tuple[float, int]:
    """Scale and zero point of the result, by the observer behind a layer."""
    observer = getattr(mod, "activation_post_process", None)
    if observer is None:
        return 1.0, 0
    made = observer.calculate_qparams()
    return float(made[0]), int(made[1])


def _check_kind(cls: Callable[..., Any], observer: nn.Module) -> None:
    if observer.dtype is not core.qint8:
        fail(
            AssertionError,
            cls.__name__,
            "Weight observer must have a dtype of qint8",
            observer.dtype,
            hint="default_weight_observer is one",
        )


class WeightedQuantizedModule(nn.Module):
    """What layers with packed parameters have in common: the result's parameters, and copies."""

    scale: Any
    zero_point: Any

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"  # without the elements that are packed

    def __deepcopy__(self, memo: Any) -> Any:
        # lazily: who copies has imported it, others need not
        import copy

        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in vars(self).items()})
        return made

    def _save_result(self, state: Any, prefix: str) -> None:
        state[prefix + "scale"] = core.tensor(self.scale)
        state[prefix + "zero_point"] = core.tensor(self.zero_point)

    def _load_result(self, state: Any, prefix: str) -> None:
        self.scale = number_in(state, prefix + "scale", float)
        self.zero_point = number_in(state, prefix + "zero_point", int)


class LinearPackedParams(nn.Module):
    """The packed parameters of a linear layer as a module, with their place in state dictionaries."""

    _version = 3

    def __init__(self, dtype: core.dtype = core.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        empty = _empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=core.qint8)
        if dtype is core.float16:
            self.set_weight_bias(F.zeros((1, 1)), None)
        else:
            self.set_weight_bias(empty, None)

    def set_weight_bias(self, weight: object, bias: core.Tensor | None) -> None:
        """Pack a weight and a bias."""
        bias = None if bias is None else bias.detach()
        if self.dtype is core.float16:
            self._packed_params = linear.linear_prepack_fp16(weight, bias)
        else:
            self._packed_params = linear.linear_prepack(weight, bias)

    def _weight_bias(self) -> Any:
        return self._packed_params.unpack()

    def forward(self, x: core.Tensor) -> Any:
        """The argument."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, meta: Any, strict: object, missing: Any,
                              unexpected: Any, errors: Any) -> None:  # fmt: skip
        if (meta.get("version") or 1) < 3 and prefix + "weight" in state_dict:
            # files of older versions have weight and bias by themselves
            parts = tuple(state_dict.pop(prefix + name, None) for name in ("weight", "bias"))
            state_dict[prefix + "_packed_params"] = parts
        if prefix + "_packed_params" not in state_dict:
            missing.append(prefix + "_packed_params")
            return
        self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
        key = prefix + "_packed_params"
        self.set_weight_bias(*weight_and_bias(key, state_dict.pop(key)))
        super()._load_from_state_dict(state_dict, prefix, meta, False, missing, unexpected, errors)

    def __deepcopy__(self, memo: Any) -> Any:
        made = LinearPackedParams(self.dtype)
        made.set_weight_bias(*(x if x is None else x.clone() for x in self._weight_bias()))
        return made

    def __repr__(self) -> str:
        return str(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """``x @ W.T + b`` of integers."""

    _version = 3
    _FLOAT_MODULE = (nn.Linear,)

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias_: bool = True,
        dtype: core.dtype = core.qint8,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = F.zeros((out_features,)) if bias_ else None
        self._packed_params = LinearPackedParams(dtype)
        if dtype is core.qint8:
            size = [out_features, in_features]
            weight = _empty_affine_quantized(size, scale=1, zero_point=0, dtype=core.qint8)
        else:
            weight = F.zeros((out_features, in_features))
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        """Sizes and parameters."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def forward(self, x: core.Tensor) -> Any:
        """The product."""
        packed = self._packed_params._packed_params
        return linear.linear(x, packed, self.scale, self.zero_point)

    def _weight_bias(self) -> Any:
        return self._packed_params._weight_bias()

    def weight(self) -> Any:
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take another weight and bias."""
        self._packed_params.set_weight_bias(w, b)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._save_result(destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, meta: Any, strict: object, missing: Any,
                              unexpected: Any, errors: Any) -> None:  # fmt: skip
        if (meta.get("version") or 1) == 1:  # the layer itself had weight and bias
            for name in ("weight", "bias"):
                if prefix + name in state_dict:
                    state_dict[f"{prefix}_packed_params.{name}"] = state_dict.pop(prefix + name)
        for name in ("scale", "zero_point"):
            if prefix + name not in state_dict:
                missing.append(prefix + name)
                return
        self._load_result(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, meta, False, missing, unexpected, errors)

    @classmethod
    def from_float(cls, mod: nn.Module, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a layer that was observed, or trained with fake quantization."""
        layer = _float_layer(cls, mod, nn.Linear)
        observer = _observed(layer, mod)
        _check_kind(cls, observer)
        made = cls(layer.in_features, layer.out_features, dtype=observer.dtype)
        made.set_weight_bias(quantized_weight(layer.weight, observer), layer.bias)
        made.scale, made.zero_point = _result_parameters(mod)
        return made

    @classmethod
    def from_reference(cls, ref_qlinear: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """In the place of a reference layer."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


def _float_layer(cls: Callable[..., Any], mod: nn.Module, kind: type) -> Any:
    """The float layer inside of a fused module, with a norm folded into it; or the module itself."""
    if isinstance(mod, nnqat._Normalized):
        return mod.folded()
    if isinstance(mod, nni._FusedModule):
        if not hasattr(mod, "activation_post_process"):
            mod.activation_post_process = getattr(mod[-1], "activation_post_process", None)
        mod = mod[0]
    if not isinstance(mod, kind):
        fail(
            AssertionError,
            f"{cls.__name__}.from_float",
            f"nnq.{cls.__name__}.from_float only works for {kind.__name__} or fused layers of it",
            type(mod).__name__,
            hint="prepare() and convert() call it for the layers that it takes",
        )
    return mod


class LinearReLU(Linear):
    """``relu(x @ W.T + b)`` of integers."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: core.dtype = core.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias, dtype)

    def forward(self, x: core.Tensor) -> Any:
        """The product, then relu."""
        packed = self._packed_params._packed_params
        return linear.linear_relu(x, packed, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class LinearLeakyReLU(Linear):
    """``leaky_relu(x @ W.T + b)`` of integers."""

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float = 0.01, bias: bool = True,
        dtype: core.dtype = core.qint8,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: core.Tensor) -> Any:
        """The product."""
        packed = self._packed_params._packed_params
        return linear.linear_leaky_relu(x, packed, self.scale, self.zero_point, self.negative_slope)

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a fused layer."""
        made = super().from_float(mod)
        made.negative_slope = mod[1].negative_slope
        return made


class LinearTanh(Linear):
    """``tanh(x @ W.T + b)`` of integers."""

    def forward(self, x: core.Tensor) -> Any:
        """The product, then tanh."""
        packed = self._packed_params._packed_params
        return linear.linear_tanh(x, packed, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"


class _ConvNd(WeightedQuantizedModule):
    """A convolution of integers."""

    _kind = "conv2d"
    _relu = False
    _FLOAT_MODULE: Any = nn.Conv2d
    _word = "QuantizedConv2d"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: object, stride: object = 1, padding: object = 0,
        dilation: object = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        output_padding: object = 0, device: core.device | str | int | None = None, dtype: core.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_mode not in ("zeros", "reflect"):
            fail(
                ValueError,
                type(self).__name__,
                "padding_mode zeros or reflect was required",
                padding_mode,
                hint="pad the input before the layer",
            )
        count = int(self._kind[-2])
        every = lambda v: (v,) * count if isinstance(v, int) else tuple(v)  # noqa: E731
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = map(every, (kernel_size, stride, padding))
        self.dilation, self.output_padding = every(dilation), every(output_padding)
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = [p for p in reversed(self.padding) for _ in (0, 1)]
        self.transposed = "transpose" in self._kind
        rows = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        size = [rows[0], rows[1] // groups, *self.kernel_size]
        empty = _empty_affine_quantized(size, scale=1, zero_point=0, dtype=core.qint8)
        self.set_weight_bias(empty, F.zeros((out_channels,)) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take another weight and bias."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * len(self.padding)
        more = (self.output_padding,) if self.transposed else ()
        geometry = (self.stride, padding, *more, self.dilation, self.groups)
        pack = getattr(_ops(), f"{self._kind}_prepack")
        self._packed_params = pack(w, None if b is None else b.detach(), *geometry)

    def _weight_bias(self) -> Any:
        return self._packed_params.unpack()

    def weight(self) -> Any:
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias, or None."""
        return self._weight_bias()[1]

    def _get_name(self) -> str:
        return self._word

    def extra_repr(self) -> str:
        """Geometry and parameters."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
            + (f", padding={self.padding}" if any(self.padding) else "")
            + (f", dilation={self.dilation}" if any(d != 1 for d in self.dilation) else "")
            + (f", groups={self.groups}" if self.groups != 1 else "")
            + (", bias=False" if self.bias() is None else "")
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        self._save_result(destination, prefix)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, meta: Any, strict: object, missing: Any,
                              unexpected: Any, errors: Any) -> None:  # fmt: skip
        for name in ("weight", "scale", "zero_point"):
            if prefix + name not in state_dict:
                missing.append(prefix + name)
                return
        pair = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None)
        self.set_weight_bias(*weight_and_bias(prefix + "weight", pair))
        self._load_result(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, meta, False, missing, unexpected, errors)

    @classmethod
    def from_float(cls, mod: nn.Module, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a layer that was observed, or trained with fake quantization."""
        layer = _float_layer(cls, mod, cls._FLOAT_MODULE)
        observer = _observed(layer, mod)
        _check_kind(cls, observer)
        made = cls._of(layer)
        made.set_weight_bias(quantized_weight(layer.weight, observer), layer.bias)
        made.scale, made.zero_point = _result_parameters(mod)
        return made

    @classmethod
    def _of(cls, layer: _ConvNd) -> Any:
        padding = layer.padding
        if isinstance(padding, str):
            rest = zip(layer.dilation, layer.kernel_size, strict=True)
            padding = 0 if padding == "valid" else tuple(d * (k - 1) // 2 for d, k in rest)
        return cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, padding,
            layer.dilation, layer.groups, layer.bias is not None, layer.padding_mode,
            getattr(layer, "output_padding", 0),
        )  # fmt: skip

    @classmethod
    def from_reference(cls, ref_qconv: Any, output_scale: Any, output_zero_point: Any) -> Any:
        """In the place of a reference layer."""
        made = cls._of(ref_qconv)
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


def _ops() -> Any:
    # lazily: `facula.ops.quantized` is there once the operators are defined
    from facula import ops

    return ops.quantized


assert convolution is not None  # it defines the operators that `_ops` gives


def _define_convolution(name: str, kind: str, relu: bool) -> Any:
    fields = {
        "_kind": kind,
        "_relu": relu,
        "_FLOAT_MODULE": getattr(nn, name.replace("ReLU", "")),
        "_word": f"Quantized{name}",
        "__doc__": f"A convolution{', then relu,' if relu else ''} of integers.",
        "__module__": __name__,
    }
    return type(name, (_ConvNd,), {**fields, "forward": _forward(kind, relu)})


def _forward(kind: str, relu: bool) -> Any:
    """`forward` of a convolution, as scripts compile it, too."""
    run = getattr(_ops(), kind + ("_relu" if relu else ""))
    dims = int(kind[-2]) + 2

    def forward(self: Any, input: core.Tensor) -> Any:
        if input.dim() != dims:
            raise ValueError(
                f"[conv] Input shape must be of {dims} dimensions: got {input.dim()}\nhint: [batch, channels, extents]"
            )
        if self.padding_mode != "zeros":
            input = nn.functional.pad(
                input, self._reversed_padding_repeated_twice, self.padding_mode
            )
        return run(input, self._packed_params, self.scale, self.zero_point)

    forward.__doc__ = "The convolution."
    return forward


Conv1d: Any = _define_convolution("Conv1d", "conv1d", False)
Conv2d: Any = _define_convolution("Conv2d", "conv2d", False)
Conv3d: Any = _define_convolution("Conv3d", "conv3d", False)
ConvReLU1d: Any = _define_convolution("ConvReLU1d", "conv1d", True)
ConvReLU2d: Any = _define_convolution("ConvReLU2d", "conv2d", True)
ConvReLU3d: Any = _define_convolution("ConvReLU3d", "conv3d", True)


def _define_transposed(name: str, kind: str) -> Any:
    made = _define_convolution(name, kind, False)

    def __init__(
        self: Any, in_channels: int, out_channels: int, kernel_size: object, stride: object = 1,
        padding: object = 0, output_padding: object = 0, groups: int = 1, bias: bool = True,
        dilation: object = 1, padding_mode: str = "zeros", device: object = None, dtype: object = None,
    ) -> None:  # fmt: skip
        _ConvNd.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, output_padding,
        )  # fmt: skip

    def _of(cls: Any, layer: _ConvNd) -> Any:
        return cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
            layer.output_padding, layer.groups, layer.bias is not None, layer.dilation,
        )  # fmt: skip

    made.__init__ = __init__
    made._of = classmethod(_of)
    return made


ConvTranspose1d: Any = _define_transposed("ConvTranspose1d", "conv_transpose1d")
ConvTranspose2d: Any = _define_transposed("ConvTranspose2d", "conv_transpose2d")
ConvTranspose3d: Any = _define_transposed("ConvTranspose3d", "conv_transpose3d")


# ------------------------------------------------------------------ activations and norms


class ReLU6(nn.ReLU):
    """Limited to [0, 6]."""

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """In the place of a float module."""
        return ReLU6(mod.inplace)


class _WithResult(nn.Module):
    """A function whose result has parameters of its own."""

    _attributes: tuple[str, ...] = ()

    def __init__(self, scale: float, zero_point: int, *values: object, **named: object) -> None:
        super().__init__()
        self.register_buffer("scale", core.tensor(float(scale)))
        self.register_buffer("zero_point", core.tensor(int(zero_point)))
        for name, value in [*zip(self._attributes, values, strict=False), *named.items()]:
            setattr(self, name, value)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a module that was observed."""
        values = [getattr(mod, name) for name in cls._attributes]
        return cls(*_result_parameters(mod), *values)


class Hardswish(_WithResult):
    """``x * relu6(x + 3) / 6`` of integers."""

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.hardswish(input, float(self.scale), int(self.zero_point))


class ELU(_WithResult):
    """The exponential linear unit of integers."""

    _attributes = ("alpha",)
    alpha = 1.0

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.elu(input, float(self.scale), int(self.zero_point), self.alpha)


class LeakyReLU(_WithResult):
    """``max(x, slope * x)`` of integers."""

    _attributes = ("negative_slope",)
    negative_slope = 0.01

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        scale, zero_point = float(self.scale), int(self.zero_point)
        return elementwise.leaky_relu(input, self.negative_slope, False, scale, zero_point)


class Sigmoid(_WithResult):
    """The logistic function of integers."""

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.sigmoid(input, float(self.scale), int(self.zero_point))


class Softmax(_WithResult):
    """Shares of exponentials, of integers."""

    _attributes = ("dim",)
    dim: Any = None

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        dim = -1 if self.dim is None else self.dim
        return elementwise.softmax(input, dim, float(self.scale), int(self.zero_point))


class PReLU(_WithResult):
    """``max(x, slope * x)`` of integers, with slopes that were learned."""

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__(output_scale, output_zero_point)
        self.num_parameters = num_parameters
        self.weight = quantize_per_tensor(F.rand((num_parameters,)), 1.0, 0, core.quint8)

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.prelu(input, self.weight, float(self.scale), int(self.zero_point))

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a module that was observed."""
        made = cls(*_result_parameters(mod), mod.num_parameters)
        observer = mod.qconfig.weight()
        observer(mod.weight.detach().float())
        scale, zero = observer.calculate_qparams()
        kind = core.quint8
        zero = int(zero) + (128 if observer.dtype is core.qint8 else 0)
        made.weight = quantize_per_tensor(mod.weight.detach().float(), float(scale), zero, kind)
        return made


class _Norm:
    """What norms of integers have in common."""

    _run: Any

    def _put(self, scale: float, zero: int) -> None:
        me: Any = self
        me.register_buffer("scale", core.tensor(float(scale)))
        me.register_buffer("zero_point", core.tensor(int(zero)))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


def _norm_forward(name: str) -> Any:
    """`forward` of a norm by running statistics, as scripts compile it, too."""
    run = getattr(_ops(), name)

    def forward(self: Any, input: core.Tensor) -> Any:
        return run(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale),
            int(self.zero_point),
        )  # fmt: skip

    forward.__doc__ = "The result."
    return forward


class BatchNorm2d(_Norm, nn.BatchNorm2d):
    """A norm by running statistics."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, **_: object
    ) -> None:
        super().__init__(num_features, eps, momentum)
        self._put(1.0, 0)

    forward = _norm_forward("batch_norm2d")

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a module that was observed."""
        parameters = _result_parameters(mod)
        layer = mod[0] if isinstance(mod, nni._FusedModule) else mod
        made = cls(layer.num_features, layer.eps)
        made.weight, made.bias = layer.weight, layer.bias
        made.running_mean, made.running_var = layer.running_mean, layer.running_var
        made._put(*parameters)
        return made


class BatchNorm3d(BatchNorm2d):
    """A norm by running statistics."""

    forward = _norm_forward("batch_norm3d")

    def _check_input_dim(self, input: core.Tensor) -> None:
        pass


class BNReLU2d(BatchNorm2d):
    """A norm by running statistics, then relu."""

    forward = _norm_forward("batch_norm2d_relu")


class BNReLU3d(BatchNorm3d):
    """A norm by running statistics, then relu."""

    forward = _norm_forward("batch_norm3d_relu")


class LayerNorm(_Norm, nn.LayerNorm):
    """A norm over the last dimensions."""

    def __init__(self, normalized_shape: object, weight: object, bias: object, scale: float, zero_point: int,
                 eps: float = 1e-5, elementwise_affine: bool = True, **_: object) -> None:  # fmt: skip
        nn.LayerNorm.__init__(self, normalized_shape, eps, elementwise_affine)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a module that was observed."""
        scale, zero = _result_parameters(mod)
        shape = mod.normalized_shape
        return cls(shape, mod.weight, mod.bias, scale, zero, mod.eps, mod.elementwise_affine)


class GroupNorm(_Norm, nn.GroupNorm):
    """A norm over groups of channels."""

    def __init__(self, num_groups: int, num_channels: int, weight: object, bias: object, scale: float,
                 zero_point: int, eps: float = 1e-5, affine: bool = True, **_: object) -> None:  # fmt: skip
        nn.GroupNorm.__init__(self, num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self, input: core.Tensor) -> Any:
        """The result."""
        return elementwise.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, float(self.scale), int(self.zero_point)
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a module that was observed."""
        sizes = (mod.num_groups, mod.num_channels)
        return cls(*sizes, mod.weight, mod.bias, *_result_parameters(mod), mod.eps, mod.affine)


class Dropout(nn.Dropout):
    """The identity."""

    def forward(self, input: core.Tensor) -> Any:
        """The argument."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a float module."""
        return cls(mod.p, mod.inplace)
