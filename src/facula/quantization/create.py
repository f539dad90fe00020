"""Numbers to quantized tensors and back: `quantize_per_tensor`, `quantize_per_channel`, `dequantize` and their kin.

Takes: float32 tensors, scales and zero points. Gives: quantized tensors; and the numbers that they stand for.
Keeps true: parameters are checked before anything is computed; the integers are PyTorch's: the product with
``1 / scale`` in float32 and the zero point, rounded to the nearest with ties to even.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, SupportsFloat

import facula.quantization.engines as engines
from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order
from facula.quantization.tensor import (
    PER_BYTE,
    PER_CHANNEL,
    RANGES,
    QuantizedTensor,
    Quantizer,
    integer_dtype,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_tensor_affine,
    wrap,
)

__all__ = [
    "channel_axis",
    "check_bounds",
    "checked_quantizer",
    "choose_qparams",
    "finite",
    "integers_of",
    "numbers",
]

#: elements of one item of a kernel where all have the same scale
_PIECE = 8192


# ------------------------------------------------------------------ kernels


@operator(
    "quantization::integers(Tensor self, Tensor scale, Tensor zero_point, int axis, bool whole, "
    "dtype dtype, int low, int high, bool before) -> Tensor",
    names=(),
    out=False,
)
class integers:
    """The integers that stand for numbers; `whole`: one scale for all elements."""

    def meta(self, scale, zero_point, axis, whole, dtype, low, high, before):
        if not whole:
            channel_axis("quantization::integers", axis, self.dim())
        return memory_order.empty(
            self.shape, self, whole and memory_order.channels_last(self), dtype
        )

    def cpu(out, self, scale, zero_point, axis, whole, dtype, low, high, before):
        if not self.numel():
            return
        given = memory_order.ordered(self, whole and memory_order.channels_last(out))
        sizes, items = _sizes(given, axis, whole)
        core.kernel(f"quantize:{out.dtype.code}")(
            (out, given, scale, zero_point),
            (*sizes, int(before)),
            (float(low), float(high)),
            total=items,
            grain=1,
        )


def channel_axis(op: str, axis: int, ndim: int) -> int:
    """The dimension of the channels, in [0, ndim)."""
    if not ndim:
        fail(
            IndexError,
            op,
            "a tensor with a dimension for the channels was required",
            "a 0-d tensor",
            hint="x.reshape(1) has one channel; quantize_per_tensor() needs none",
        )
    return wrap_dim(op, axis, ndim)


def _sizes(x: core.Tensor, axis: int, whole: bool) -> tuple[tuple[int, int, int], int]:
    count = x.numel()
    if whole:
        return (1, _PIECE, count), -(-count // _PIECE)
    inner = math.prod(x.shape[axis + 1 :])
    return (x.shape[axis], inner, count), count // inner


@operator(
    "quantization::numbers(Tensor self, Tensor scale, Tensor zero_point, int axis, bool whole) -> Tensor",
    names=(),
    out=False,
)
class _numbers:
    """The numbers that integers stand for."""

    def meta(self, scale, zero_point, axis, whole):
        if not whole:
            channel_axis("quantization::numbers", axis, self.dim())
        return memory_order.empty(
            self.shape, self, whole and memory_order.channels_last(self), core.float32
        )

    def cpu(out, self, scale, zero_point, axis, whole):
        if not self.numel():
            return
        given = memory_order.ordered(self, whole and memory_order.channels_last(out))
        sizes, items = _sizes(given, axis, whole)
        core.kernel(f"dequantize:{self.dtype.code}")(
            (out, given, scale, zero_point), sizes, (), total=items, grain=1
        )


@operator(
    "quantization::to_integers(Tensor self, float scale, float zero_point, bool before, int low, int high, "
    "dtype dtype) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class to_integers:
    """The integers that stand for numbers by one scale; `before`: the zero point is added before rounding."""

    def meta(self, scale, zero_point, before, low, high, dtype):
        return memory_order.empty(self.shape, self, memory_order.channels_last(self), dtype)

    def cpu(out, self, scale, zero_point, before, low, high, dtype):
        integers.definition.cpu(
            out, self, *_pair(scale, zero_point), 0, True, dtype, low, high, before
        )

    def formula(self, scale, zero_point, before, low, high, dtype):
        levels = F.mul(self, _inverse(scale))
        levels = F.round(levels + zero_point) if before else F.round(levels) + zero_point
        return F.fmin(F.fmax(levels, float(low)), float(high)).to(_short(dtype))


@operator(
    "quantization::to_numbers(Tensor self, float scale, float zero_point) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class to_numbers:
    """The numbers that integers stand for by one scale."""

    def meta(self, scale, zero_point):
        return memory_order.empty(self.shape, self, memory_order.channels_last(self), core.float32)

    def cpu(out, self, scale, zero_point):
        _numbers.definition.cpu(out, self, *_pair(scale, zero_point), 0, True)

    #: who makes integer operators of a graph with such numbers
    lowers = "facula.quantization.lowering:integer_products"

    def formula(self, scale, zero_point):
        _short(self.dtype)
        return (self.to(core.float32) - zero_point) * _float32(scale)


@operator(
    "quantization::channel_numbers(Tensor self, Tensor scales, Tensor? zero_points, int axis) -> Tensor",
    names=(),
    out=False,
)
class channel_numbers:
    """The numbers that integers stand for by a scale for each place along an axis."""

    def meta(self, scales, zero_points, axis):
        return memory_order.empty(self.shape, self, memory_order.channels_last(self), core.float32)

    def cpu(out, self, scales, zero_points, axis):
        out.copy_(_of_channels(self, scales, zero_points, axis))

    def formula(self, scales, zero_points, axis):
        return _of_channels(self, scales, zero_points, axis)


def _of_channels(x: core.Tensor, scales: core.Tensor, zeros: core.Tensor, axis: int) -> Any:
    shape = [1] * x.dim()
    shape[axis] = -1
    values = x.to(core.float32)
    if zeros is not None:
        values = values - zeros.to(core.float32).reshape(shape)
    return values * scales.to(core.float32).reshape(shape)


def _pair(scale: float, zero_point: float) -> tuple[Any, Any]:
    # by launches, which packages note, and not by writes from here
    first, second = (
        F.full((1,), float(value), dtype=core.float32) for value in (scale, zero_point)
    )
    return first, second


def _float32(value: float) -> float:
    """A number rounded to 32 bits, as kernels read it."""
    return float(ctypes.c_float(value).value)


def _inverse(scale: float) -> float:
    return _float32(1.0 / _float32(scale))


def _short(dtype: core.dtype) -> Any:
    """A dtype whose integers are exact in 32-bit floats."""
    if dtype not in (core.uint8, core.int8):
        fail(
            NotImplementedError,
            "quantization::to_integers",
            "integers of 8 bits were required in a formula of 32-bit floats",
            dtype,
            hint="the operator's kernel computes it",
        )
    return dtype


def _vectors(quantizer: Quantizer) -> tuple[Any, Any]:
    """Scales and zero points of channels as the kernels take them."""
    scale, zero = quantizer.scale, quantizer.zero_point
    return scale.to(core.float32).contiguous(), zero.to(core.float32).contiguous()


def integers_of(x: core.Tensor, dtype: core.dtype, quantizer: Quantizer) -> Any:
    """The integers by which a quantizer stands for numbers."""
    kept, low, high = RANGES[dtype]
    x = x.detach().to(core.float32)
    if quantizer.scheme not in PER_CHANNEL:
        scale, zero = float(quantizer.scale), float(quantizer.zero_point)
        return to_integers(x, scale, zero, True, low, high, kept)
    scales, zeros = _vectors(quantizer)
    return integers(x, scales, zeros, quantizer.axis, False, kept, low, high, True)


def numbers(x: QuantizedTensor) -> Any:
    """The numbers that a quantized tensor stands for."""
    quantizer = x._quantizer
    if quantizer.scheme not in PER_CHANNEL:
        return to_numbers(x._integers, float(quantizer.scale), float(quantizer.zero_point))
    scale, zero = _vectors(quantizer)
    if quantizer.scheme is per_channel_affine_float_qparams:
        shape = [1] * x.dim()
        shape[quantizer.axis] = -1
        levels = x._integers.to(core.float32)
        return (levels - zero.reshape(shape)) * scale.reshape(shape)
    return _numbers(x._integers, scale, zero, quantizer.axis, False)


# ------------------------------------------------------------------ parameters


def _check_input(op: str, x: core.Tensor) -> None:
    if isinstance(x, QuantizedTensor) or x.dtype is not core.float32:
        word = x.dtype.type_word
        fail(
            RuntimeError,
            op,
            f"Quantize only works on Float Tensor, got {word}",
            x.dtype,
            hint="convert the tensor with .float() first",
        )


def _check_scale(op: str, scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0):
        fail(
            RuntimeError,
            op,
            "a finite scale above zero was required",
            scale,
            hint="the scale is the step between neighbouring levels, e.g. "
            "(largest - smallest) / 255",
        )


def _check_zero_point(op: str, zero: int, low: int, high: int) -> None:
    if not low <= zero <= high:
        side = "below lower" if zero < low else "above upper"
        fail(
            RuntimeError,
            op,
            f"{op} zero_point {zero} is {side} bound: one in [{low}, {high}] was required",
            zero,
            hint="the zero point is the integer that stands for 0.0",
        )


def number(op: str, name: str, value: object) -> Any:
    """A number, or what a tensor of one element has."""
    if isinstance(value, core.Tensor):
        if value.numel() != 1:
            fail(
                RuntimeError,
                op,
                f"one number was required as {name}",
                f"a tensor of shape {list(value.shape)}",
                hint="quantize_per_channel() takes a number for each channel",
            )
        value = value.item()
    if isinstance(value, complex) or not isinstance(value, SupportsFloat):
        fail(
            TypeError,
            op,
            f"a number was required as {name}",
            type(value).__name__,
            hint="give an int, a float or a tensor with one element",
        )
    return value


def finite(op: str, name: str, value: object) -> Any:
    """The same; RuntimeError for NaN and infinities."""
    value = number(op, name, value)
    if isinstance(value, float) and not math.isfinite(value):
        fail(
            RuntimeError,
            op,
            f"a finite number was required as {name}: value cannot be converted to type int",
            value,
            hint="facula.nan_to_num() replaces NaN and infinities",
        )
    return value


def checked_quantizer(op: str, scale: object, zero_point: object, dtype: Any) -> Quantizer:
    """The quantizer of a whole tensor."""
    integer_dtype(op, dtype)
    scale, zero_point = (
        float(number(op, "scale", scale)),
        int(finite(op, "zero point", zero_point)),
    )
    _check_scale(op, scale)
    _check_zero_point(op, zero_point, *RANGES[dtype][1:])
    return Quantizer(per_tensor_affine, scale, zero_point)


def channel_quantizer(op: str, shape: Any, scales: Any, zeros: Any, axis: int, dtype: Any) -> Any:
    """The quantizer of a tensor with parameters for each place along a dimension."""
    integer_dtype(op, dtype)
    dims = len(shape)
    if not -dims <= axis < dims:
        fail(
            RuntimeError,
            op,
            f"Channel axis out of range in per channel affine quantization. Expected: [0, {dims})",
            axis,
            hint="axis is a dimension of the tensor",
        )
    axis %= dims
    for name, given in (("scales", scales), ("zero_points", zeros)):
        if given.dim() != 1 or given.numel() != shape[axis]:
            fail(
                RuntimeError,
                op,
                f"length of {name} must equal to channel, expected {shape[axis]}",
                list(given.shape),
                hint=f"give a {name[:-1]} for each place along dimension {axis}",
            )
    listed = scales.tolist()
    for value in listed:
        _check_scale(op, value)
    if zeros.is_floating_point():
        scheme = per_channel_affine_float_qparams
        return Quantizer(scheme, scales.to(core.float32), zeros.to(core.float32), axis)
    for value in zeros.tolist():
        _check_zero_point(op, value, *RANGES[dtype][1:])
    return Quantizer(per_channel_affine, scales.to(core.float64), zeros.to(core.int64), axis)


# ------------------------------------------------------------------ the functions


@composite(
    "quantization::quantize_per_tensor(any self, Operand scale, Operand zero_point, any dtype) -> Tensor",
    names=("quantize_per_tensor",),
    numbers=("scale", "zero_point"),
    out=False,
    keeps=False,
)
def quantize_per_tensor(self, scale, zero_point, dtype):
    """The tensor (or each of a list) with every number as the nearest of the integers, by one scale
    and one zero point."""
    op = "quantize_per_tensor"
    if isinstance(self, (list, tuple)):
        return _each_quantized(op, self, scale, zero_point, dtype)
    tensor_of(op, self)
    integer_dtype(op, dtype)
    _check_input(op, self)
    quantizer = checked_quantizer(op, scale, zero_point, dtype)
    return wrap(integers_of(self, dtype, quantizer), dtype, quantizer)


def _each_quantized(op: str, tensors: Any, scales: Any, zeros: Any, dtype: object) -> Any:
    """Each tensor of a list, with parameters of its own."""
    for name, given in (("scales", scales), ("zero points", zeros)):
        shape = list(given.shape) if isinstance(given, core.Tensor) else type(given).__name__
        if shape != [len(tensors)]:
            fail(
                RuntimeError,
                op,
                f"{len(tensors)} {name} were required, in a tensor, for a list of tensors",
                shape,
                hint="give a tensor with a number for each tensor of the list",
            )
    rows = zip(tensors, scales, zeros, strict=True)
    return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in rows)


def tensor_of(op: str, x: core.Tensor) -> Any:
    """A tensor; TypeError for anything else."""
    if not isinstance(x, core.Tensor):
        fail(
            TypeError,
            op,
            "a tensor, or a list of tensors, was required",
            type(x).__name__,
            hint="facula.tensor(data) makes a tensor",
        )
    return x


def choose_qparams(
    low: float, high: float, quant_min: int, quant_max: int, reduce_range: bool = False
) -> tuple[float, int]:
    """The scale and the zero point by which the integers cover the numbers from `low` to `high`."""
    if reduce_range:
        quant_min, quant_max = _halved(quant_min), _halved(quant_max)
    check_bounds(low, high, quant_min, quant_max)
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (quant_max - quant_min)
    inverse = core.tensor(scale, dtype=core.float32).reciprocal().item() if scale else math.inf
    if scale == 0.0 or math.isinf(inverse):
        scale = 0.1
    smallest = 6.1e-5  # below it, products with the inverse leave float32
    if scale < smallest:
        former, scale = scale, smallest
        if low == 0.0:
            high = smallest * (quant_max - quant_min)
        elif high == 0.0:
            low = -smallest * (quant_max - quant_min)
        else:
            low, high = low * smallest / former, high * smallest / former
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    error_low = abs(quant_min) - abs(low / scale)
    error_high = abs(quant_max) - abs(high / scale)
    initial = from_low if error_low < error_high else from_high
    zero = min(max(initial, quant_min), quant_max)
    return scale, round(zero)


def check_bounds(low: float, high: float, quant_min: int, quant_max: int) -> None:
    """Raise unless there are several integers, and the numbers that they cover have bounds."""
    if quant_min >= quant_max:
        fail(
            RuntimeError,
            "choose_qparams",
            "qmin must be strictly less than qmax for a user-specified quantization range",
            f"{quant_min} and {quant_max}",
            hint="0 and 255 are the range of quint8, -128 and 127 that of qint8",
        )
    for number in (low, high):
        finite("choose_qparams", "bound of the numbers", number)


def _halved(bound: int) -> int:
    return int(bound / 2)


def _extremes(op: str, x: core.Tensor) -> tuple[float, float]:
    """The least and the greatest number, both zero where there is none."""
    if not x.numel():
        return 0.0, 0.0
    low, high = (bound.item() for bound in F.aminmax(x))
    _check_finite(op, low, high)
    return low, high


def _check_finite(op: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        fail(
            RuntimeError,
            op,
            "finite numbers were required",
            f"numbers from {low} to {high}",
            hint="facula.nan_to_num() replaces NaN and infinities",
        )


@operator(
    "quantization::parameters(Tensor low, Tensor high, int quant_min, int quant_max) -> Tensor",
    names=(),
    out=False,
)
class _parameters:
    """The scale and the zero point by which integers cover the numbers from `low` to `high`, as numbers of 32 bits."""

    def meta(low, high, quant_min, quant_max):
        check_bounds(0.0, 0.0, quant_min, quant_max)
        return core.empty((2,), dtype=core.float32, device=low.device)

    def cpu(out, low, high, quant_min, quant_max):
        bad = core.empty((1,), dtype=core.int64)
        numbers = (quant_min, quant_max)
        core.kernel("quantized_range")((out, low, high, bad), numbers, total=1, grain=1)
        if not core.passed(bad):
            least: Any = low.item()
            most: Any = high.item()
            _check_finite("quantize", least, most)


def range_parameters(op: str, x: core.Tensor, reduce_range: bool) -> tuple[Any, Any]:
    """Scale and zero point of bytes for the range of a tensor with elements, each a tensor of one element."""
    low, high = F.aminmax(x)
    pair = _parameters(low, high, 0, 127 if reduce_range else 255)
    return pair[:1], pair[1:]


@composite(
    "quantization::quantize_per_tensor_dynamic(Tensor self, any dtype, bool reduce_range) -> Tensor",
    names=("quantize_per_tensor_dynamic",),
    out=False,
    keeps=False,
)
def quantize_per_tensor_dynamic(self, dtype, reduce_range):
    """`quantize_per_tensor` with the parameters that the tensor's own range asks for."""
    op = "quantize_per_tensor_dynamic"
    integer_dtype(op, dtype)
    if dtype not in (core.quint8, core.qint8):
        fail(
            RuntimeError,
            op,
            "dtype quint8 or qint8 was required: dtype should be QInt8 or QUInt8",
            dtype,
            hint="quantize_per_tensor() takes other dtypes",
        )
    _check_input(op, self)
    if reduce_range:
        reduce_range = reduced()
    scale, zero = choose_qparams(*_extremes(op, self), *RANGES[dtype][1:], reduce_range)
    return quantize_per_tensor(self, scale, zero, dtype)


def reduced() -> bool:
    """Whether the engine takes `reduce_range`: all but qnnpack."""
    return engines.engine != "qnnpack"


@composite(
    "quantization::_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> any",
    names=("_choose_qparams_per_tensor",),
    out=False,
    keeps=False,
)
def _choose_qparams_per_tensor(self, reduce_range):
    """The scale and the zero point that a tensor's range asks for, as numbers."""
    limits = (0, 127) if reduce_range else (0, 255)
    return choose_qparams(*_extremes("_choose_qparams_per_tensor", self), *limits)


@composite(
    "quantization::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, "
    "any dtype) -> Tensor",
    names=("quantize_per_channel",),
    out=False,
    keeps=False,
)
def quantize_per_channel(self, scales, zero_points, axis, dtype):
    """The tensor as integers, with a scale and a zero point for each place along `axis`."""
    op = "quantize_per_channel"
    integer_dtype(op, dtype)
    _check_input(op, self)
    quantizer = channel_quantizer(op, self.shape, scales, zero_points, axis, dtype)
    if dtype in PER_BYTE and quantizer.scheme is per_channel_affine:
        fail(
            NotImplementedError,
            op,
            f"\"quantize_tensor_per_channel_affine\" not implemented for '{dtype.type_word}'",
            dtype,
            hint="give zero points of a floating-point dtype",
        )
    return wrap(integers_of(self, dtype, quantizer), dtype, quantizer)


@composite(
    "quantization::_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor",
    names=("_make_per_tensor_quantized_tensor",),
    out=False,
    keeps=False,
)
def _make_per_tensor_quantized_tensor(self, scale, zero_point):
    """The quantized tensor of integers that are there."""
    op = "_make_per_tensor_quantized_tensor"
    dtype = _dtype_of(op, self)
    return wrap(self.clone(), dtype, checked_quantizer(op, scale, zero_point, dtype))


@composite(
    "quantization::_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, "
    "int axis) -> Tensor",
    names=("_make_per_channel_quantized_tensor",),
    out=False,
    keeps=False,
)
def _make_per_channel_quantized_tensor(self, scale, zero_point, axis):
    """The quantized tensor of integers that are there, with parameters for each channel."""
    op = "_make_per_channel_quantized_tensor"
    dtype = _dtype_of(op, self)
    return wrap(
        self.clone(), dtype, channel_quantizer(op, self.shape, scale, zero_point, axis, dtype)
    )


_OF_INTEGERS = {core.uint8: core.quint8, core.int8: core.qint8, core.int32: core.qint32}


def _dtype_of(op: str, x: core.Tensor) -> Any:
    if x.dtype not in _OF_INTEGERS:
        fail(
            RuntimeError,
            op,
            "integers of dtype uint8, int8 or int32 were required",
            x.dtype,
            hint="quantize_per_tensor() quantizes numbers",
        )
    return _OF_INTEGERS[x.dtype]


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    given = size[0] if len(size) == 1 and isinstance(size[0], Sequence) else size
    return tuple(given)


def _empty_affine_quantized(
    *size: object,
    dtype: core.dtype | None = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool = False,
    scale: float = 1.0,
    zero_point: int = 0,
    memory_format: core.memory_format = core.contiguous_format,
    requires_grad: bool = False,
) -> Any:
    """A quantized tensor whose elements are not set."""
    op = "_empty_affine_quantized"
    quantizer = checked_quantizer(op, scale, zero_point, dtype)
    made = core.empty(_size(size), dtype=RANGES[dtype][0], device=device)
    return wrap(made.contiguous(memory_format=memory_format), dtype, quantizer)


def _empty_per_channel_affine_quantized(
    *size: object,
    scales: object,
    zero_points: object,
    axis: int,
    dtype: object = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool = False,
    memory_format: object = core.contiguous_format,
    requires_grad: bool = False,
) -> Any:
    """The same with parameters for each channel."""
    shape = _size(size)
    op = "_empty_per_channel_affine_quantized"
    quantizer = channel_quantizer(op, shape, scales, zero_points, axis, dtype)
    made = core.empty(shape, dtype=RANGES[dtype][0], device=device)
    return wrap(made.contiguous(memory_format=memory_format), dtype, quantizer)


def empty_quantized(size: Any, qtensor: Any, **_: object) -> Any:
    """A tensor of another shape with the dtype and the parameters of a quantized one.

    Args:
        size: the shape
        qtensor: whose dtype, scale and zero point are taken

    Example:
        >>> x = facula.quantize_per_tensor(facula.ones(2), 0.5, 0, facula.quint8)
        >>> facula.empty_quantized([3], x).q_scale()
        0.5
    """
    quantizer = qtensor._quantizer
    return wrap(core.empty(tuple(size), dtype=RANGES[qtensor.dtype][0]), qtensor.dtype, quantizer)


@composite(
    "quantization::dequantize(any tensor) -> any",
    names=("dequantize",),
    out=False,
    keeps=False,
)
def dequantize(tensor):
    """The numbers of a quantized tensor, or of each of a list; other tensors as float32."""
    if isinstance(tensor, (list, tuple)):
        return tuple(map(_dequantized, tensor))
    return _dequantized(tensor)


def _dequantized(x):
    if isinstance(x, QuantizedTensor):
        return numbers(x)
    return tensor_of("dequantize", x).dequantize()


def _question(name: str, schema: str, doc: str) -> Any:
    def ask(self):
        own = getattr(self, f"_{name}", None) if isinstance(self, QuantizedTensor) else None
        return getattr(self, name)() if own is None else own()

    ask.__name__, ask.__doc__ = name, doc
    made = composite(f"quantization::{schema}", names=(name,), out=False, keeps=False)
    return made(ask)


int_repr = _question("int_repr", "int_repr(Tensor self) -> Tensor", "The integers.")
q_scale = _question("q_scale", "q_scale(Tensor self) -> any", "The scale of a whole tensor.")
q_zero_point = _question("q_zero_point", "q_zero_point(Tensor self) -> any", "Its zero point.")
q_per_channel_scales = _question(
    "q_per_channel_scales", "q_per_channel_scales(Tensor self) -> Tensor", "A scale a channel."
)
q_per_channel_zero_points = _question(
    "q_per_channel_zero_points",
    "q_per_channel_zero_points(Tensor self) -> Tensor",
    "A zero point a channel.",
)
q_per_channel_axis = _question(
    "q_per_channel_axis", "q_per_channel_axis(Tensor self) -> any", "The channels' dimension."
)
