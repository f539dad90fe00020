"""`ops.onednn`: products of plain bytes with what follows them, as PT2E's lowering for x86 calls them.

Takes: bytes with scale and zero point, signed weights with scales, a bias, and the names of what follows: a sum with
another tensor, an activation. Gives: bytes, or numbers. Keeps true: sums are exact; what follows is computed in
float32, and bytes are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.quantization import create, products

#: activations: from numbers, their settings and the algorithm
_AFTER: dict[str, Callable[..., Any]] = {
    "none": lambda y, given, how: y,
    "relu": lambda y, given, how: F.relu(y),
    "gelu": lambda y, given, how: F.gelu(y, approximate=how or "none"),
    "tanh": lambda y, given, how: F.tanh(y),
    "hardtanh": lambda y, given, how: F.clamp(y, given[0], given[1]),
    "hardswish": lambda y, given, how: F.hardswish(y),
    "swish": lambda y, given, how: F.silu(y),
}
_BYTES = (core.uint8, core.int8)


def _refuse(op: str, wanted: str, got: object, hint: str) -> Any:
    return fail(RuntimeError, f"onednn::{op}", wanted, got, hint=hint)


def _setting(op: str, name: str, value: Any) -> Any:
    """A scale or zero point, which may be a tensor of one element."""
    if not isinstance(value, core.Tensor):
        return value
    if value.numel() != 1:
        _refuse(op, f"one {name} for all inputs was required", f"{value.numel()} of them",
                "activations are quantized as a whole")  # fmt: skip
    return value.item()


def _checked(op: str, qx: Any, qw: Any, w_scale: Any, w_zero_point: Any, scale: float) -> None:
    for name, value, kinds in (("qx", qx, _BYTES), ("qw", qw, (core.int8,))):
        if value.dtype not in kinds:
            _refuse(op, f"{name}: bytes were required (signed ones for weights)", value.dtype,
                    "int_repr() gives the integers of a quantized tensor")  # fmt: skip
    for name, value in (("w_scale", w_scale), ("w_zero_point", w_zero_point)):
        if value is not None and value.numel() not in (1, qw.shape[0]):
            _refuse(op, f"{name}: 1 or {qw.shape[0]} numbers were required", value.numel(),
                    "one for each result")  # fmt: skip
    if not 0 < scale < float("inf"):
        _refuse(op, "x_scale: a finite number above zero was required", scale,
                "the scale is the step between neighbouring levels")  # fmt: skip


def _numbers(op: str, x: Any, weight: Any, bias: Any, size: Any, places: Any, groups: int) -> Any:
    """The product in float32."""
    (qx, scale, zero), (qw, w_scale, w_zero) = x, weight
    _checked(op, qx, qw, w_scale, w_zero, scale)
    if bias is not None and tuple(bias.shape) != (qw.shape[0],):
        _refuse(
            op,
            f"bias: {qw.shape[0]} numbers were required",
            tuple(bias.shape),
            "one for each result",
        )
    if qx.dtype is core.int8:
        qx, zero = (qx.to(core.int16) + 128).to(core.uint8), zero + 128
    scales = w_scale.to(core.float32).reshape(-1).expand(qw.shape[0]).contiguous()
    zeros = None
    if w_zero is not None and bool((w_zero != 0).any()):
        zeros = w_zero.to(core.int32).reshape(-1).expand(qw.shape[0]).contiguous()
    bias = None if bias is None else bias.to(core.float32)
    return products.product(
        qx, products.packed_weight(qw, groups, zeros is None), products.weight_base(qw, zeros, int(zero)),
        products.weight_multiplier(qw, scales, 1.0, float(scale), 1.0),
        products.weight_shift(qw, scales, 1.0, float(scale), bias, False),
        zeros, None, size, (*places, groups, int(zero)), (float("-inf"),), core.float32,
    )  # fmt: skip


def _with(op: str, y: Any, other: Any, scale: float, zero: int, how: str, alpha: Any) -> Any:
    """The sum with another tensor."""
    if how == "none":
        return y
    if how not in ("sum", "add"):
        _refuse(
            op,
            "binary operation: one of none, sum, add was required",
            how,
            "sum takes bytes or numbers",
        )
    if other is None or tuple(other.shape) != tuple(y.shape):
        _refuse(op, f"another tensor of shape {tuple(y.shape)} was required",
                None if other is None else tuple(other.shape), "the sum is one of equal shapes")  # fmt: skip
    value = other.to(core.float32)
    if other.dtype in _BYTES:
        value = (value - zero) * scale
    return y + value * (1.0 if alpha is None else alpha)


def _finished(op: str, y: Any, how: Any, result: Any, kind: Any) -> Any:
    """What follows, and bytes where no other dtype is asked for."""
    (name, given, algorithm), (scale, zero, dtype) = how, result
    name = "none" if name is None else name
    if name not in _AFTER:
        _refuse(
            op, f"activation: one of {sorted(_AFTER)} was required", name, "apply it to the result"
        )
    y = _AFTER[name](y, [g for g in given or () if g is not None], algorithm)
    dtype = kind if dtype is None else dtype
    if dtype not in _BYTES:
        return y.to(dtype)
    if not scale > 0:
        _refuse(op, "output_scale: a number above zero was required", scale,
                "the scale is the step between neighbouring levels")  # fmt: skip
    low = -128 if dtype is core.int8 else 0
    return create.to_integers(y, float(scale), float(zero), False, low, low + 255, dtype)


def _rows(op: str, x: Any, weight: Any, bias: Any) -> Any:
    qx, qw = x[0], weight[0]
    if qw.dim() != 2 or not qx.dim() or qx.shape[-1] != qw.shape[1]:
        _refuse(op, "a matrix as weight, with as many columns as the input has, was required",
                f"{tuple(qx.shape)} and {tuple(qw.shape)}", "a weight is [results, inputs]")  # fmt: skip
    return _numbers(op, x, weight, bias, (*qx.shape[:-1], qw.shape[0]), (), 1)


def _image(op: str, x: Any, weight: Any, bias: Any, geometry: Any, groups: int) -> Any:
    """A convolution of one to three dimensions."""
    (qx, scale, zero), (qw, *of_weight) = x, weight
    stride, padding, dilation = (list(g) for g in geometry)
    if qx.dim() != qw.dim() or not 3 <= qx.dim() <= 5 or qx.shape[1] != qw.shape[1] * groups:
        _refuse(op, "an image and a weight of the same dimensions, and their channels, were required",
                f"{tuple(qx.shape)} and {tuple(qw.shape)} in {groups} groups",
                "weights are [results, channels / groups, kernel...]")  # fmt: skip
    line = qx.dim() == 3
    if line:
        qx, qw = qx.unsqueeze(2), qw.unsqueeze(2)
        stride, padding, dilation = ([f, *g] for f, g in ((1, stride), (0, padding), (1, dilation)))
    lists = list(zip(qx.shape[2:], qw.shape[2:], stride, padding, dilation, strict=True))
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in lists]
    if min(size) < 1:
        _refuse(op, "a kernel that fits into the padded image was required", tuple(qw.shape[2:]),
                "pad more, or take a larger image")  # fmt: skip
    places: list[int] = []
    for values, fill in ((qx.shape[2:], 1), (qx.shape[1:2], None), (size, 1), (qw.shape[2:], 1), (stride, 1),
                         (padding, 0), (dilation, 1)):  # fmt: skip
        places += values if fill is None else [*[fill] * (3 - len(values)), *values]
    shape = (qx.shape[0], qw.shape[0], *size)
    made = _numbers(op, (qx, scale, zero), (qw, *of_weight), bias, shape, places, groups)
    return made.squeeze(2) if line else made


# ------------------------------------------------------------------ operators


def _define(schema: str) -> Any:
    return composite(f"onednn::{schema}", names=(), out=False)


@_define("qlinear_prepack(Tensor weight, int[]? x_shape) -> Tensor")
def qlinear_prepack(weight, x_shape):
    """The weight of a linear layer as `qlinear_pointwise` takes it."""
    return weight.clone()


@_define(
    "qconv_prepack(Tensor weight, Tensor w_scales, float x_scale, int x_zp, int[] stride, int[] padding, "
    "int[] dilation, int groups, int[]? x_shape=None) -> Tensor"
)
def qconv_prepack(weight, w_scales, x_scale, x_zp, stride, padding, dilation, groups, x_shape):
    """The weight of a convolution as `qconv_pointwise` takes it."""
    return weight.clone()


_INPUTS = "Tensor qx, Operand x_scale, Operand x_zero_point, Tensor qw, Tensor w_scale, Tensor? w_zero_point"
_RESULT = "float output_scale, int output_zero_point, dtype? output_dtype"


@_define(
    f"qlinear_pointwise({_INPUTS}, Tensor? bias, {_RESULT}, str post_op_name, any post_op_args, "
    "str? post_op_algorithm) -> Tensor"
)
def qlinear_pointwise(
    qx, x_scale, x_zero_point, qw, w_scale, w_zero_point, bias, output_scale, output_zero_point,
    output_dtype, post_op_name, post_op_args, post_op_algorithm,
):  # fmt: skip
    """A linear layer of bytes, and an activation."""
    op = "qlinear_pointwise"
    x = qx, _setting(op, "x_scale", x_scale), _setting(op, "x_zero_point", x_zero_point)
    y = _rows(op, x, (qw, w_scale, w_zero_point), bias)
    return _finished(op, y, (post_op_name, post_op_args, post_op_algorithm),
                     (output_scale, output_zero_point, output_dtype), qx.dtype)  # fmt: skip


@_define(
    f"qlinear_pointwise.binary({_INPUTS}, Tensor? other, Tensor? bias, {_RESULT}, float other_scale, int other_zp, "
    "str binary_post_op, float binary_alpha, str unary_post_op, any unary_post_op_args, "
    "str? unary_post_op_algorithm) -> Tensor"
)
def qlinear_pointwise_binary(
    qx, x_scale, x_zero_point, qw, w_scale, w_zero_point, other, bias, output_scale, output_zero_point,
    output_dtype, other_scale, other_zp, binary_post_op, binary_alpha, unary_post_op, unary_post_op_args,
    unary_post_op_algorithm,
):  # fmt: skip
    """A linear layer of bytes, a sum with another tensor, and an activation."""
    op = "qlinear_pointwise"
    x = qx, _setting(op, "x_scale", x_scale), _setting(op, "x_zero_point", x_zero_point)
    y = _rows(op, x, (qw, w_scale, w_zero_point), bias)
    y = _with(op, y, other, other_scale, other_zp, binary_post_op, binary_alpha)
    return _finished(op, y, (unary_post_op, unary_post_op_args, unary_post_op_algorithm),
                     (output_scale, output_zero_point, output_dtype), qx.dtype)  # fmt: skip


_GEOMETRY = "int[] stride, int[] padding, int[] dilation, int groups"


def _define_convolution(name: str) -> None:
    """A convolution of bytes and an activation; one name for any number of dimensions, one for each number."""

    @_define(
        f"{name}({_INPUTS}, Tensor? bias, {_GEOMETRY}, {_RESULT}, str attr, any scalars, str? algorithm) -> Tensor"
    )
    def convolution(
        qx, x_scale, x_zero_point, qw, w_scale, w_zero_point, bias, stride, padding, dilation, groups,
        output_scale, output_zero_point, output_dtype, attr, scalars, algorithm,
    ):  # fmt: skip
        """A convolution of bytes, and an activation."""
        x = qx, _setting(name, "x_scale", x_scale), _setting(name, "x_zero_point", x_zero_point)
        weight = qw, w_scale, w_zero_point
        y = _image(name, x, weight, bias, (stride, padding, dilation), groups)
        return _finished(name, y, (attr, scalars, algorithm),
                         (output_scale, output_zero_point, output_dtype), qx.dtype)  # fmt: skip

    @_define(
        f"{name}.binary({_INPUTS}, Tensor qaccum, Tensor? bias, {_GEOMETRY}, {_RESULT}, float accum_scale, "
        "int accum_zero_point, str binary_attr, any alpha, str? unary_attr, any unary_scalars, "
        "str? unary_algorithm) -> Tensor"
    )
    def convolution_binary(
        qx, x_scale, x_zero_point, qw, w_scale, w_zero_point, qaccum, bias, stride, padding, dilation, groups,
        output_scale, output_zero_point, output_dtype, accum_scale, accum_zero_point, binary_attr, alpha,
        unary_attr, unary_scalars, unary_algorithm,
    ):  # fmt: skip
        """A convolution of bytes, a sum with another tensor, and an activation."""
        x = qx, _setting(name, "x_scale", x_scale), _setting(name, "x_zero_point", x_zero_point)
        weight = qw, w_scale, w_zero_point
        y = _image(name, x, weight, bias, (stride, padding, dilation), groups)
        y = _with(name, y, qaccum, accum_scale, accum_zero_point, binary_attr, alpha)
        return _finished(name, y, (unary_attr, unary_scalars, unary_algorithm),
                         (output_scale, output_zero_point, output_dtype), qx.dtype)  # fmt: skip


for _name in ("qconv_pointwise", "qconv1d_pointwise", "qconv2d_pointwise", "qconv3d_pointwise"):
    _define_convolution(_name)


# ------------------------------------------------------------------ floats of 16 bits


@_define("linear_prepack_fp16(Tensor weight, int[]? x_shape) -> Tensor")
def linear_prepack_fp16(weight, x_shape):
    """The weight of a linear layer, rounded to floats of 16 bits."""
    return weight.to(core.float16)


@_define("linear_dynamic_fp16(Tensor x, Tensor w, Tensor? bias) -> Tensor")
def linear_dynamic_fp16(x, w, bias):
    """A linear layer with a weight of 16 bits, computed in 32."""
    return F.linear(x, w.to(x.dtype), bias)


@_define("linear_relu_dynamic_fp16(Tensor x, Tensor w, Tensor? bias) -> Tensor")
def linear_relu_dynamic_fp16(x, w, bias):
    """A linear layer with a weight of 16 bits, computed in 32, and relu."""
    return F.relu(F.linear(x, w.to(x.dtype), bias))
