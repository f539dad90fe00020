"""Functions of quantized tensors: PyTorch's `ao.nn.quantized.functional`.

Takes: quantized tensors. Gives: quantized tensors. Keeps true: what has no parameters of its own keeps those of
its input; inputs that are no integers are errors.
"""

from __future__ import annotations

from typing import Any

from facula import core, ops
from facula.core.errors import fail
from facula.nn import functional
from facula.quantization import elementwise, operators
from facula.quantization.tensor import QuantizedTensor

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d",
    "conv2d", "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu",
    "linear", "max_pool1d", "max_pool2d", "threshold", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

assert operators is not None  # it defines what `ops.quantized` gives


def _checked(name: str, x: core.Tensor) -> Any:
    if not isinstance(x, QuantizedTensor):
        fail(ValueError, f"quantized.{name}", f"Input to 'quantized.{name}' must be quantized!",
             getattr(x, "dtype", type(x).__name__), hint="quantize_per_tensor() makes one")  # fmt: skip
    return x


def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    """Means of windows."""
    rest = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return functional.avg_pool2d(_checked("avg_pool2d", input), *rest)


def avg_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: Any = None,
) -> Any:  # fmt: skip
    """Means of windows."""
    rest = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return functional.avg_pool3d(_checked("avg_pool3d", input), *rest)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Means of as many windows as asked for."""
    return functional.adaptive_avg_pool2d(
        _checked("functional.adaptive_avg_pool2d", input), output_size
    )


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Means of as many windows as asked for."""
    return functional.adaptive_avg_pool3d(
        _checked("functional.adaptive_avg_pool3d", input), output_size
    )


def _every(value: object, count: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * count if len(values) == 1 else values


def _convolution(
    dims: int, input: core.Tensor, weight: core.Tensor, bias: core.Tensor, stride: object, padding: object,
    dilation: object,
    groups: int, padding_mode: str, scale: float, zero_point: int, dtype: core.dtype,
) -> Any:  # fmt: skip
    op = f"quantized.functional.conv{dims}d"
    hint = "the layers of ao.nn.quantized take other modes"
    if padding_mode != "zeros":
        fail(NotImplementedError, op, "Only zero-padding is supported!", padding_mode, hint)
    if input.dtype is not core.quint8:
        fail(NotImplementedError, op, "Only torch.quint8 is supported for activation tensor!",
             input.dtype, hint="quantize_per_tensor(x, scale, zero_point, facula.quint8)")  # fmt: skip
    if weight.dtype is not core.qint8:
        fail(NotImplementedError, op, "Only torch.qint8 is supported for weight tensor!",
             weight.dtype, hint="quantize_per_tensor(w, scale, 0, facula.qint8)")  # fmt: skip
    if input.dim() != dims + 2:
        fail(ValueError, op, f"Input shape must be `(N, C{', ' + ', '.join('DHW'[3 - dims :])})`!",
             list(input.shape), hint="add a dimension for the batch")  # fmt: skip
    stride, padding, dilation = (_every(v, dims) for v in (stride, padding, dilation))
    pack = getattr(ops.quantized, f"conv{dims}d_prepack")
    packed = pack(weight, bias, stride, padding, dilation, groups)
    return getattr(ops.quantized, f"conv{dims}d")(input, packed, scale, zero_point)


def conv1d(
    input: Any, weight: Any, bias: Any, stride: object = 1, padding: object = 0, dilation: object = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: core.dtype = core.quint8,
) -> Any:  # fmt: skip
    """A convolution of one extent."""
    rest = (stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)
    return _convolution(1, input, weight, bias, *rest)


def conv2d(
    input: Any, weight: Any, bias: Any, stride: object = 1, padding: object = 0, dilation: object = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: core.dtype = core.quint8,
) -> Any:  # fmt: skip
    """A convolution of two extents."""
    rest = (stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)
    return _convolution(2, input, weight, bias, *rest)


def conv3d(
    input: Any, weight: Any, bias: Any, stride: object = 1, padding: object = 0, dilation: object = 1,
    groups: int = 1, padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0,
    dtype: core.dtype = core.quint8,
) -> Any:  # fmt: skip
    """A convolution of three extents."""
    rest = (stride, padding, dilation, groups, padding_mode, scale, zero_point, dtype)
    return _convolution(3, input, weight, bias, *rest)


def interpolate(
    input: Any, size: object = None, scale_factor: object = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """Values between those of a grid."""
    x = _checked("interpolate", input)
    return functional.interpolate(x, size, scale_factor, mode, align_corners)


def linear(
    input: core.Tensor, weight: core.Tensor, bias: object = None, scale: float | None = None,
    zero_point: int | None = None,
) -> Any:  # fmt: skip
    """``input @ weight.T + bias``; scale and zero point are those of the input where none are given."""
    x = _checked("linear", input)
    scale = x.q_scale() if scale is None else scale
    zero_point = x.q_zero_point() if zero_point is None else zero_point
    return ops.quantized.linear(x, ops.quantized.linear_prepack(weight, bias), scale, zero_point)


def _no_indices(name: str, return_indices: bool) -> None:
    if return_indices:
        fail(NotImplementedError, name, "return_indices is not yet implemented!", return_indices,
             hint="dequantize() first; float pools give places")  # fmt: skip


def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The greatest of each window."""
    _no_indices("max_pool1d", return_indices)
    return functional.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)


def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The greatest of each window."""
    _no_indices("max_pool2d", return_indices)
    return functional.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)


def celu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """The continuously differentiable exponential linear unit."""
    return elementwise.celu(_checked("celu", input), scale, zero_point, alpha)


def leaky_relu(
    input: object, negative_slope: float = 0.01, inplace: bool = False, scale: float | None = None,
    zero_point: int | None = None,
) -> Any:  # fmt: skip
    """``max(x, slope * x)``; with the input's parameters where none are given."""
    if (scale is None) != (zero_point is None):
        fail(AssertionError, "leaky_relu", "both of scale and zero_point, or neither, were required",
             f"{scale} and {zero_point}", hint="without them the input's count")  # fmt: skip
    return elementwise.leaky_relu(input, negative_slope, inplace, scale, zero_point)


def hardtanh(
    input: core.Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    """Limited to an interval."""
    return functional.hardtanh(_checked("hardtanh", input), min_val, max_val, inplace)


def hardswish(input: Any, scale: float, zero_point: int) -> Any:
    """``x * relu6(x + 3) / 6``."""
    return elementwise.hardswish(_checked("hardswish", input), scale, zero_point)


def threshold(input: Any, threshold: float, value: float) -> Any:
    """`value` where ``x <= threshold``."""
    x = _checked("threshold", input)
    for name, given in (("threshold", threshold), ("value", value)):
        if given is None:
            fail(ValueError, "threshold", f"Input to '{name}' must be specified!", given,
                 hint="threshold(x, 0.0, 0.0) is relu")  # fmt: skip
    return elementwise.threshold(x, threshold, value)


def elu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """The exponential linear unit."""
    return elementwise.elu(_checked("elu", input), scale, zero_point, alpha, 1.0, 1.0)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """``relu6(x + 3) / 6``."""
    return functional.hardsigmoid(_checked("hardsigmoid", input), inplace)


def clamp(input: core.Tensor, min_: float, max_: float) -> Any:
    """Limited to an interval."""
    return elementwise.clamped(_checked("clamp", input), min_, max_)


def upsample(
    input: object, size: object = None, scale_factor: object = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_bilinear(input: object, size: object = None, scale_factor: object = None) -> Any:
    """`interpolate` between four neighbours, with the corners where they were."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def upsample_nearest(input: object, size: object = None, scale_factor: object = None) -> Any:
    """`interpolate` to the nearest."""
    return interpolate(input, size, scale_factor, "nearest")
