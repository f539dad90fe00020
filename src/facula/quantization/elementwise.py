"""`ops.quantized.*` that are no products: arithmetic, activations, joining, norms, pooling, interpolation.

Takes: quantized tensors, and the scale and zero point of the result. Gives: quantized tensors. Keeps true: each is its
float operator on the numbers, then `quantize_per_tensor`; of 8-bit tensors a function of one number is looked up in a
table of its 256 values, which the float operator itself has filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import TABLE as _OPERATORS
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order
from facula.quantization import products
from facula.quantization.create import checked_quantizer, finite, integers_of, numbers
from facula.quantization.tensor import (
    PER_CHANNEL,
    RANGES,
    QuantizedTensor,
    Quantizer,
    like,
    per_tensor_affine,
    wrap,
)

#: elements of one item of a kernel
_PIECE = 1024


def define(schema: str) -> Callable[[Any], Any]:
    """Define an operator of the namespace `quantized`."""
    return composite(f"quantized::{schema}", names=(), out=False, keeps=False)


def checked(op: str, *tensors: object) -> None:
    """Raise unless all are quantized tensors."""
    for x in tensors:
        if not isinstance(x, QuantizedTensor):
            fail(
                NotImplementedError,
                f"quantized::{op}",
                f"Could not run 'quantized::{op}' with arguments from the 'CPU' backend: a "
                "quantized tensor was required",
                getattr(x, "dtype", type(x).__name__),
                hint="quantize_per_tensor(x, scale, zero_point, facula.quint8) makes one",
            )


def quantizer(op: str, like_this: QuantizedTensor, scale: object, zero: object) -> Quantizer:
    """That of a result of the dtype of an argument; the argument's own where none is given."""
    if scale is None:
        return like_this._quantizer
    return checked_quantizer(f"quantized::{op}", scale, zero, like_this._kind)


def again(values: core.Tensor, first: core.Tensor, chosen: Quantizer) -> Any:
    """Numbers as integers of the dtype of `first`."""
    return wrap(integers_of(values, first._kind, chosen), first._kind, chosen)


def by_table(x: Any, function: Callable[[Any], Any], chosen: Quantizer) -> Any:
    """A function of single numbers, by the values that it has for all integers there are."""
    kept, low, high = RANGES[x._kind]
    if kept is core.int32 or x.numel() < 256:
        return again(function(numbers(x)), x, chosen)
    with products.computed():
        levels = F.arange(low, high + 1, dtype=core.int32).to(kept)
        table = again(function(numbers(like(x, levels))), x, chosen)._integers
        if low < 0:
            table = table.roll(low)
    return wrap(looked_up(x._integers, table), x._kind, chosen)


@operator(
    "quantization::looked_up(Tensor self, Tensor table) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class looked_up:
    """Each byte replaced by that of a table of 256."""

    def meta(self, table):
        return memory_order.empty(self.shape, self, memory_order.channels_last(self))

    def cpu(out, self, table):
        if out.numel():
            given = memory_order.ordered(self, memory_order.channels_last(out))
            core.kernel("quantized_lookup")(
                (out, given, table), (), (), total=out.numel(), grain=32768
            )


# ------------------------------------------------------------------ arithmetic


def _added(op: str, a: Any, b: Any, scale: object, zero: object, relu: bool) -> Any:
    checked(op, a, b)
    _same_dtype(op, a, b)
    chosen = quantizer(op, a, scale, zero)
    if a._kind is core.qint32 or a.shape != b.shape:
        total = numbers(a) + numbers(b)
        return again(total.relu_() if relu else total, a, chosen)
    given = (a.q_scale(), float(a.q_zero_point()), b.q_scale(), float(b.q_zero_point()))
    _, low, high = RANGES[a._kind]
    limits = (chosen.scale, float(chosen.zero_point), float(low), float(high))
    made = added(a._integers, b._integers, (*given, *limits), relu)
    return wrap(made, a._kind, chosen)


@operator(
    "quantization::added(Tensor self, Tensor other, float[] parameters, bool relu) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class added:
    """The integers of a sum; parameters: scale and zero point of both and of the result, its lowest and highest."""

    def meta(self, other, parameters, relu):
        return memory_order.empty(self.shape, self, memory_order.channels_last(self))

    def cpu(out, self, other, parameters, relu):
        last = memory_order.channels_last(out)
        first, second = (memory_order.ordered(x, last) for x in (self, other))
        core.kernel(f"quantized_add:{out.dtype.code}")(
            (out, first, second), (int(relu), out.numel()), parameters,
            total=-(-out.numel() // _PIECE), grain=4,
        )  # fmt: skip


def _summed(build: Any, given: list[Any], arguments: list[Any], at: int) -> Any:
    """A product whose integers are added to others: the sum is part of the product."""
    first, second, numbers, relu = arguments
    other, own = (second, first) if at == 0 else (first, second)
    x, y = other.meta["val"], own.meta["val"]
    taps = given[1].meta["val"].dim() == 2
    if given[products.ADDED] is not None or taps or x.shape != y.shape:
        return None
    (scale, _), more = numbers[2 * at : 2 * at + 2], numbers[2 - 2 * at : 4 - 2 * at]
    least = 0.0 if relu else float("-inf")
    given[products.ADDED] = other
    given[products.LIMITS] = [*given[products.LIMITS], scale, *more, *numbers[4:], least, 1.0]
    return build(products.product, *given)


products.FOLLOWERS[added] = _summed


def _same_dtype(op: str, a: QuantizedTensor, b: QuantizedTensor) -> None:
    if a._kind is not b._kind:
        fail(
            RuntimeError,
            f"quantized::{op}",
            f"{op} operands should have same data type.",
            f"{a._kind} and {b._kind}",
            hint="quantize both with the same dtype",
        )


def _multiplied(op: str, a: Any, b: Any, scale: object, zero: object, relu: bool) -> Any:
    checked(op, a, b)
    _same_dtype(op, a, b)
    chosen = quantizer(op, a, scale, zero)
    first = a._integers.to(core.int32) - a.q_zero_point()
    product = first * (b._integers.to(core.int32) - b.q_zero_point())
    shape = product.shape
    step = products.number(a.q_scale()) * products.number(b.q_scale())
    flat = product.reshape(-1, 1).contiguous()
    low = chosen.zero_point if relu else None
    made = products.finished(flat, 1.0, step, None, chosen, a._kind, low)
    return wrap(made.reshape(shape), a._kind, chosen)


def _scalar_added(op: str, a: Any, value: object, relu: bool) -> Any:
    """The parameters change instead of the integers, which are limited only where they must be."""
    checked(op, a)
    value = finite(f"quantized::{op}", "operand", value)
    _, low, high = RANGES[a._kind]
    scale, zero = a.q_scale(), a.q_zero_point()
    shift = round(value / scale)
    if low > zero - shift:
        scale, zero = (high - zero + shift) * 1.0 / (high - low) * scale, low
    elif high < zero - shift:
        scale, zero = (zero - shift - low) * 1.0 / (high - low) * scale, high
    else:
        made = wrap(a._integers.clone(), a._kind, Quantizer(per_tensor_affine, scale, zero - shift))
        return F.relu(made) if relu else made
    totals = (a._integers.to(core.int32) - (a.q_zero_point() - shift)).reshape(-1, 1).contiguous()
    chosen = Quantizer(per_tensor_affine, scale, zero)
    step = products.number(a.q_scale())
    made = products.finished(totals, 1.0, step, None, chosen, a._kind, zero if relu else None)
    return wrap(made.reshape(a.shape), a._kind, chosen)


def _scalar_multiplied(op: str, a: core.Tensor, value: float, relu: bool) -> Any:
    checked(op, a)
    value = finite(f"quantized::{op}", "operand", value)
    _, low, high = RANGES[a._kind]
    scale, zero = a.q_scale(), a.q_zero_point()
    if value > 0:
        made = wrap(a._integers.clone(), a._kind, Quantizer(per_tensor_affine, scale * value, zero))
    elif value == 0:
        made = wrap(a._integers.clone().fill_(0), a._kind, Quantizer(per_tensor_affine, 1.0, 0))
    else:
        turned = (low + high) - a._integers.to(core.int32)
        parameters = Quantizer(per_tensor_affine, -scale * value, high - (zero - low))
        made = wrap(turned.to(a._integers.dtype), a._kind, parameters)
    return F.relu(made) if relu else made


def _define_arithmetic(
    name: str, both: Callable[..., Any], scalar: Callable[..., Any], relu: bool
) -> None:
    def run(qa, qb, scale, zero_point, out):
        if out is not None:
            return out.copy_(both(name, qa, qb, out.q_scale(), out.q_zero_point(), relu))
        if not isinstance(qb, core.Tensor):
            return scalar(name, qa, qb, relu)
        if scale is None:
            return scalar(name, qa, qb, relu)
        return both(name, qa, qb, scale, zero_point, relu)

    run.__doc__ = f"`{name}` of two quantized tensors, or of one and a number."
    define(
        f"{name}(Tensor qa, Operand qb, Operand? scale=None, Operand? zero_point=None, *, "
        "Tensor? out=None) -> Tensor"
    )(run)

    def run_scalar(qa, b):
        return scalar(name, qa, b, relu)

    run_scalar.__doc__ = f"`{name}` of a quantized tensor and a number."
    word = name.removesuffix("_relu") + "_scalar" + ("_relu" if relu else "")
    define(f"{word}(Tensor qa, Operand b) -> Tensor")(run_scalar)

    def run_out(qa, qb, out):
        made = both(name, qa, qb, out.q_scale(), out.q_zero_point(), relu)
        return out.copy_(made)

    run_out.__doc__ = f"`{name}` with the parameters of `out`, into it."
    word = name.removesuffix("_relu") + ("_relu" if relu else "") + "_out"
    define(f"{word}(Tensor qa, Tensor qb, Tensor out) -> Tensor")(run_out)


for _name, _both, _scalar in (
    ("add", _added, _scalar_added),
    ("mul", _multiplied, _scalar_multiplied),
):
    _define_arithmetic(_name, _both, _scalar, False)
    _define_arithmetic(f"{_name}_relu", _both, _scalar, True)


@define("matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor")
def matmul(qa, qb, scale, zero_point):
    """The product of two quantized tensors."""
    checked("matmul", qa, qb)
    _same_dtype("matmul", qa, qb)
    for x in (qa, qb):
        if x._quantizer.scheme is not per_tensor_affine:
            fail(
                RuntimeError,
                "quantized::matmul",
                "only per-tensor quantization is supported",
                x._quantizer.scheme,
                hint="quantize_per_tensor(x.dequantize(), scale, zero_point, dtype)",
            )
    a = qa._integers.to(core.int32) - qa.q_zero_point()
    b = qb._integers.to(core.int32) - qb.q_zero_point()
    totals = F.matmul(a, b)
    chosen = quantizer("matmul", qa, scale, zero_point)
    step = products.number(qa.q_scale()) * products.number(qb.q_scale())
    made = products.finished(totals.reshape(-1, 1), 1.0, step, None, chosen, qa._kind)
    return wrap(made.reshape(totals.shape), qa._kind, chosen)


def _joined(op: str, tensors: Any, dim: int, scale: float, zero: int, relu: bool) -> Any:
    tensors = list(tensors)
    if not tensors:
        fail(
            RuntimeError,
            f"quantized::{op}",
            "expected a non-empty list of Tensors",
            tensors,
            hint="give at least one quantized tensor",
        )
    checked(op, *tensors)
    first = tensors[0]
    chosen = quantizer(op, first, scale, zero)
    parts = []
    for x in tensors:
        if x._quantizer.scheme in PER_CHANNEL:
            fail(RuntimeError, f"quantized::{op}", "Only per-tensor quantization is supported in 'cat'",
                 x._quantizer.scheme, hint="dequantize() first, or quantize with quantize_per_tensor()")  # fmt: skip
        if x._kind is not first._kind:
            _same_dtype(op, first, x)
        same = x._quantizer == chosen
        parts.append(x._integers if same else again(numbers(x), x, chosen)._integers)
    made = wrap(F.cat(parts, dim), first._kind, chosen)
    return F.relu(made) if relu else made


@define("cat(Tensor[] qx, int dim, Operand? scale=None, Operand? zero_point=None) -> Tensor")
def cat(qx, dim, scale, zero_point):
    """Quantized tensors joined along a dimension."""
    return _joined("cat", qx, dim, scale, zero_point, False)


@define("cat_relu(Tensor[] qx, int dim, Operand? scale=None, Operand? zero_point=None) -> Tensor")
def cat_relu(qx, dim, scale, zero_point):
    """The same, then relu."""
    return _joined("cat_relu", qx, dim, scale, zero_point, True)


def _define_joined_into(name: str, relu: bool) -> None:
    def run(qx, dim, out):
        made = _joined(name, qx, dim, out.q_scale(), out.q_zero_point(), relu)
        return out.copy_(made)

    run.__doc__ = f"`{name.removesuffix('_out')}` with the parameters of `out`, into it."
    define(f"{name}(Tensor[] qx, int dim, Tensor out) -> Tensor")(run)


_define_joined_into("cat_out", False)
_define_joined_into("cat_relu_out", True)


# ------------------------------------------------------------------ functions of single numbers


def _activation(schema: str, function: Callable[..., Any]) -> Any:
    """One whose result has parameters of its own: the last two arguments of the schema."""
    name = schema.partition("(")[0]

    def run(*arguments: Any) -> Any:
        x, *rest, scale, zero = arguments
        checked(name, x)
        return by_table(x, lambda v: function(v, *rest), quantizer(name, x, scale, zero))

    run.__doc__ = f"`{name}` of a quantized tensor."
    return define(f"{schema} -> Tensor")(run)


_OWN = "float output_scale, int output_zero_point"
hardswish = _activation(f"hardswish(Tensor input, {_OWN})", lambda x: F.hardswish(x))
sigmoid = _activation(f"sigmoid(Tensor input, {_OWN})", lambda x: F.sigmoid(x))
hardsigmoid = _activation(f"hardsigmoid(Tensor input, {_OWN})", lambda x: F.hardsigmoid(x))


@define(
    "elu(Tensor self, float output_scale, int output_zero_point, float alpha=1.0, "
    "float scale=1.0, float input_scale=1.0) -> Tensor"
)
def elu(self, output_scale, output_zero_point, alpha, scale, input_scale):
    """The exponential linear unit."""
    checked("elu", self)
    chosen = quantizer("elu", self, output_scale, output_zero_point)
    return by_table(
        self, lambda x: F.where(x > 0, x * scale, F.expm1(x * input_scale) * alpha * scale), chosen
    )


@define("celu(Tensor self, float output_scale, int output_zero_point, float alpha=1.0) -> Tensor")
def celu(self, output_scale, output_zero_point, alpha):
    """The continuously differentiable exponential linear unit."""
    if alpha == 0:
        fail(
            RuntimeError,
            "quantized::celu",
            "ZeroDivisionError: alpha cannot be 0 for CELU",
            alpha,
            hint="relu is the limit of small alpha",
        )
    return elu(self, output_scale, output_zero_point, alpha, 1.0, 1.0 / alpha)


@define(
    "leaky_relu(Tensor qx, float negative_slope, bool inplace=False, Operand? output_scale=None, "
    "Operand? output_zero_point=None) -> Tensor"
)
def leaky_relu(qx, negative_slope, inplace, output_scale, output_zero_point):
    """``x`` above zero, ``negative_slope * x`` below."""
    checked("leaky_relu", qx)
    chosen = quantizer("leaky_relu", qx, output_scale, output_zero_point)
    made = by_table(qx, lambda x: F.leaky_relu(x, negative_slope), chosen)
    return qx.copy_(made) if inplace else made


@define("threshold(Tensor qx, float threshold, float value) -> Tensor")
def threshold(qx, threshold, value):
    """`value` where ``x <= threshold``."""
    checked("threshold", qx)
    return by_table(qx, lambda x: F.where(x > threshold, x, value), qx._quantizer)


@define("relu6(Tensor qx, bool inplace=False) -> Tensor")
def relu6(qx, inplace):
    """Limited to [0, 6]."""
    checked("relu6", qx)
    made = clamped(qx, 0.0, 6.0)
    return qx.copy_(made) if inplace else made


def clamped(qx: Any, low: object, high: object) -> Any:
    """The integers limited to those that stand for the bounds."""
    scale, zero = qx.q_scale(), qx.q_zero_point()
    _, least, most = RANGES[qx._kind]
    ends = [
        None
        if v is None
        else int(
            min(max(zero + round(finite("quantized::clamp", "bound", v) / scale), least), most)
        )
        for v in (low, high)
    ]
    return like(qx, F.clamp(qx._integers, *ends))


@define("clamp(Tensor qx, Operand? min=None, Operand? max=None) -> Tensor")
def clamp(qx, min, max):
    """Limited to [min, max]."""
    checked("clamp", qx)
    return clamped(qx, min, max)


@define("prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor")
def prelu(qx, weight, output_scale, output_zero_point):
    """``x`` above zero, ``weight * x`` below, a weight for each channel."""
    checked("prelu", qx)
    checked("prelu", weight)
    chosen = quantizer("prelu", qx, output_scale, output_zero_point)
    x = qx._integers.to(core.float32) - qx.q_zero_point()
    shape = [-1] + [1] * (qx.dim() - 2) if weight.numel() > 1 else [1]
    w = (weight._integers.to(core.float32) - weight.q_zero_point()).reshape(shape)
    values = F.where(x > 0, x, x * w * weight.q_scale())
    # in steps of the input, so that ties stay ties
    steps = chosen._replace(scale=chosen.scale / qx.q_scale())
    return wrap(integers_of(values, qx._kind, steps), qx._kind, chosen)


@define("softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor")
def softmax(qx, dim, output_scale, output_zero_point):
    """Shares of the exponentials along a dimension."""
    checked("softmax", qx)
    chosen = quantizer("softmax", qx, output_scale, output_zero_point)
    return again(F.softmax(numbers(qx), dim), qx, chosen)


@define(
    "dropout(Tensor self, float output_scale, int output_zero_point, Number p=0.5, bool training=False) -> Tensor"
)
def dropout(self, output_scale, output_zero_point, p, training):
    """The tensor itself: dropout belongs to training."""
    checked("dropout", self)
    return self


# ------------------------------------------------------------------ norms


@define(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, "
    "float output_scale, int output_zero_point) -> Tensor"
)
def layer_norm(input, normalized_shape, weight, bias, eps, output_scale, output_zero_point):
    """Normalized over the last dimensions."""
    checked("layer_norm", input)
    values = F.layer_norm(numbers(input), normalized_shape, _plain(weight), _plain(bias), eps)
    return again(values, input, quantizer("layer_norm", input, output_scale, output_zero_point))


def _plain(x: Any) -> Any:
    return None if x is None else x.detach()


@define(
    "group_norm(Tensor qx, int num_groups, Tensor? weight, Tensor? bias, float eps, "
    "float output_scale, int output_zero_point) -> Tensor"
)
def group_norm(qx, num_groups, weight, bias, eps, output_scale, output_zero_point):
    """Normalized over groups of channels."""
    checked("group_norm", qx)
    values = F.group_norm(numbers(qx), num_groups, _plain(weight), _plain(bias), eps)
    return again(values, qx, quantizer("group_norm", qx, output_scale, output_zero_point))


@define(
    "instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, "
    "int output_zero_point) -> Tensor"
)
def instance_norm(input, weight, bias, eps, output_scale, output_zero_point):
    """Normalized over each channel of each image."""
    checked("instance_norm", input)
    rest = (None, None, _plain(weight), _plain(bias), True, 0.0, eps)
    values = F.instance_norm(numbers(input), *rest)
    return again(values, input, quantizer("instance_norm", input, output_scale, output_zero_point))


def _define_batch_norm(name: str, relu: bool, dims: tuple[int, ...]) -> None:
    def run(qx, weight, bias, mean, var, eps, output_scale, output_zero_point):
        checked(name, qx)
        if qx.dim() not in dims:
            fail(
                RuntimeError,
                f"quantized::{name}",
                f"Expecting the input tensor of rank {dims[0]}",
                qx.dim(),
                hint="the input is [batch, channels, ...]",
            )
        factor = (var.detach() + eps).rsqrt()
        factor = factor if weight is None else factor * weight.detach()
        shift = -mean.detach() * factor
        shift = shift if bias is None else shift + bias.detach()
        shape = [1, -1] + [1] * (qx.dim() - 2)
        values = numbers(qx) * factor.reshape(shape) + shift.reshape(shape)
        chosen = quantizer(name, qx, output_scale, output_zero_point)
        return again(values.relu_() if relu else values, qx, chosen)

    run.__doc__ = "Normalized by running means and variances."
    define(
        f"{name}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
        "float output_scale, int output_zero_point) -> Tensor"
    )(run)


for _name, _dims in (
    ("batch_norm", (2, 3, 4, 5)),
    ("batch_norm1d", (2, 3)),
    ("batch_norm2d", (4,)),
    ("batch_norm3d", (5,)),
):
    _define_batch_norm(_name, False, _dims)
    _define_batch_norm(f"{_name}_relu", True, _dims)


# ------------------------------------------------------------------ pooling


@define(
    "max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor"
)
def max_pool1d(qx, kernel_size, stride, padding, dilation, ceil_mode):
    """The greatest of each window."""
    return F.max_pool1d(qx, kernel_size, stride or None, padding, dilation, ceil_mode)


@define(
    "max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor"
)
def max_pool2d(qx, kernel_size, stride, padding, dilation, ceil_mode):
    """The greatest of each window."""
    return F.max_pool2d(qx, kernel_size, stride or None, padding, dilation, ceil_mode)


#: the operators of this module by their names without the namespace
TABLE = {
    name.removeprefix("quantized::"): operator
    for name, operator in _OPERATORS.items()
    if name.startswith("quantized::")
}
