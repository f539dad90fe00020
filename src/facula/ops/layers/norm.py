"""Normalisations: layer, root-mean-square, batch, group, instance, local response.

Takes floating-point tensors; statistics are computed in f32 (f64 for f64) from blocks joined by
Chan's formula. Keeps true: forward and backward are fused kernels, the same for every number of
threads; where a gradient is to be differentiated again (`create_graph`), it is computed by
operators instead.
"""

from __future__ import annotations

from math import prod
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator


def wide_of(dtype: core.dtype) -> Any:
    """The dtype in which statistics are kept."""
    return core.float64 if dtype.code == "f64" else core.float32


def widened(*tensors: Any) -> list[Any]:
    """Tensors in the dtype of their statistics: squares of 16-bit floats overflow, and means of
    them lose what a second derivative lives on.
    """
    return [None if x is None else x.to(wide_of(x.dtype)) for x in tensors]


def by_steps(x: core.Tensor) -> Any:
    """Whether a gradient of 16-bit floats is to be differentiated again, in steps that round."""
    return core.rounds_steps() and x.itemsize == 2 and not core.interpreters() and x.numel()


def second() -> Any:
    """The module of second gradients, which few programs need."""
    # lazily: for gradients of gradients
    from facula.ops.layers import norm_second

    return norm_second


def _check_float(op: str, x: core.Tensor) -> None:
    if x.dtype.code not in launch.FLOATING:
        fail(
            RuntimeError,
            op,
            f'a floating-point input ("{op}" not implemented for this dtype)',
            x.dtype,
            hint="convert it with .float()",
        )


def _wide(x: core.Tensor, wide: core.dtype) -> Any:
    """A parameter as kernels read it."""
    return None if x is None else x.to(wide).contiguous()


# --- layer norm and root-mean-square norm


def _check_normalized(op: str, x: core.Tensor, shape: tuple[int, ...], *parameters: Any) -> None:
    _check_float(op, x)
    if not shape:
        fail(
            RuntimeError,
            op,
            "Expected normalized_shape to be at least 1-dimensional",
            "none",
            hint="it holds the sizes of the input's last dimensions",
        )
    if tuple(x.shape[x.dim() - len(shape) :]) != tuple(shape) or x.dim() < len(shape):
        expected = "[*, " + ", ".join(map(str, shape)) + "]"
        fail(
            RuntimeError,
            op,
            f"Given normalized_shape={list(shape)}, expected input with shape {expected}",
            f"input of size{list(x.shape)}",
            hint=f"normalized_shape={list(x.shape[-len(shape) :])} fits"
            if x.dim()
            else "x.reshape(1) has one",
        )
    for name, parameter in zip(("weight", "bias"), parameters, strict=False):
        if parameter is not None and tuple(parameter.shape) != tuple(shape):
            fail(
                RuntimeError,
                op,
                f"Expected {name} to be of same shape as normalized_shape, {list(shape)}",
                f"{name} of shape {list(parameter.shape)}",
                hint=f"leave {name} out, or reshape it",
            )
        if parameter is not None:
            check_parameter_dtype(op, x, parameter)


def check_parameter_dtype(op: str, x: core.Tensor, parameter: core.Tensor) -> None:
    """Raise unless a parameter has the input's dtype, or float32 where that is narrower."""
    wanted = core.float32 if x.dtype in (core.float16, core.bfloat16) else x.dtype
    if parameter.dtype not in (x.dtype, wanted):
        fail(
            RuntimeError,
            op,
            f"mixed dtype (CPU): expect parameter to have scalar type of {wanted.type_word}",
            f"{parameter.dtype} for an input of {x.dtype}",
            hint="parameters have the input's dtype, or float32 beside half precision",
        )


def _row_shape(x: core.Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of one value a row."""
    kept = x.dim() - len(shape)
    return (*x.shape[:kept], *([1] * len(shape)))


def _row_length(x: core.Tensor, statistic: core.Tensor) -> int:
    """How many elements are normalised together; rows of none have a length too."""
    return prod(n // m for n, m in zip(x.shape, statistic.shape, strict=True) if m)


_LAYER = "Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps"


@operator(
    f"native_layer_norm({_LAYER}) -> (Tensor, Tensor, Tensor)",
    names=("native_layer_norm",),
    out=False,
    nondifferentiable=(1, 2),
    autocast="accelerator float32",
)
class LayerNorm:
    """The normalised tensor, and the mean and inverse deviation of each row."""

    shards = "normalized"

    vmap = batch_forms.layer_norm

    def meta(input, normalized_shape, weight, bias, eps):
        _check_normalized("layer_norm", input, normalized_shape, weight, bias)
        statistics = _row_shape(input, normalized_shape)
        wide = wide_of(input.dtype)
        return (
            core.empty(input.shape, dtype=input.dtype, device=input.device),
            core.empty(statistics, dtype=wide, device=input.device),
            core.empty(statistics, dtype=wide, device=input.device),
        )

    def cpu(out, input, normalized_shape, weight, bias, eps):
        length = prod(normalized_shape)
        wide = out[1].dtype
        parameters: tuple[Any, ...] = ()
        kernel = "layer_norm"
        if weight is not None or bias is not None:
            if weight is None:
                weight = F.ones_like(bias)
            kernel += ".weight" if bias is None else ".weight.bias"
            parameters = tuple(_wide(p, wide) for p in (weight, bias) if p is not None)
        core.kernel(f"{kernel}:{input.dtype.code}")(
            (*out, input.contiguous(), *parameters),
            (out[1].numel(), length, 1, 0, 0),
            (float(eps),),
        )

    def backward(grads, input, normalized_shape, weight, bias_meta, eps, result_1, result_2, needs):
        if grads[0] is None:
            return None, None, None
        if (core.is_grad_enabled() or core.interpreters()) and not by_steps(input):
            found = _layer_norm_formula(grads[0], input, normalized_shape, weight, eps, needs)
            return *found[:2], found[2].to(bias_meta.dtype) if needs[2] else None
        dx, dweight, dbias = F.layer_norm_backward(
            grads[0], input, result_1, result_2, weight, needs[1] or needs[2]
        )
        if needs[1]:
            dweight = dweight.reshape(weight.shape).to(weight.dtype)
        if needs[2]:
            dbias = dbias.reshape(normalized_shape).to(bias_meta.dtype)
        return dx, dweight if needs[1] else None, dbias if needs[2] else None

    def samples(S):
        yield (S(3, 4), (4,), S(4), S(4), 1e-5), {}
        yield (S(2, 3, 4), (3, 4), None, None, 1e-5), {}


def _check_statistics(
    grad: core.Tensor,
    input: core.Tensor,
    mean: core.Tensor,
    rstd: core.Tensor,
    weight: core.Tensor | None,
) -> None:
    """Raise unless the statistics are those of the input's rows, [*leading, 1, ..., 1]."""
    fits = mean.dim() == input.dim() and mean.shape == rstd.shape and mean.dtype is rstd.dtype
    rows = fits and all(m in (1, n) for m, n in zip(mean.shape, input.shape, strict=True))
    length = _row_length(input, mean) if rows else 0
    whole = mean.is_contiguous() and rstd.is_contiguous() if rows else False
    alike = grad.shape == input.shape and (weight is None or weight.numel() == length)
    if not (rows and whole and alike):
        given = [list(x.shape) for x in (grad, input, mean, rstd, weight) if x is not None]
        fail(
            RuntimeError,
            "layer_norm_backward",
            "a gradient like the input, its rows' contiguous statistics, a weight as long as a row",
            given,
            hint="native_layer_norm() gives the statistics",
        )


@operator(
    "layer_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, "
    "bool parameters) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
class LayerNormBackward:
    """The gradients of input and, where asked for, of weight and bias (statistics' dtype)."""

    shards = "normalized_backward"

    def meta(grad, input, mean, rstd, weight, parameters):
        _check_statistics(grad, input, mean, rstd, weight)
        size = (_row_length(input, mean),) if parameters else (0,)
        return (
            core.empty(input.shape, dtype=input.dtype, device=input.device),
            core.empty(size, dtype=mean.dtype, device=input.device),
            core.empty(size, dtype=mean.dtype, device=input.device),
        )

    def cpu(out, grad, input, mean, rstd, weight, parameters):
        rows, length = mean.numel(), _row_length(input, mean)
        sizes = (rows, length, 1, 0, 0)
        code = input.dtype.code
        wide = mean.dtype
        tensors = (grad.to(input.dtype).contiguous(), input.contiguous(), mean, rstd)
        if not parameters and weight is None:
            core.kernel(f"layer_norm.backward:{code}")((out[0], *tensors), sizes)
            return
        sums = out[1:] if parameters else tuple(core.empty((length,), dtype=wide) for _ in "ab")
        if rows == 0:
            for total in sums:
                total.zero_()
            return
        weight = F.ones((length,), dtype=wide) if weight is None else _wide(weight, wide)
        core.kernel(f"layer_norm.backward.weight:{code}")((out[0], *sums, *tensors, weight), sizes)

    def backward(grads, grad, input, mean, rstd, weight):
        return second().layer(grads, grad, input, mean, rstd, weight)


def _over_rows(x: core.Tensor, shape: tuple[int, ...]) -> Any:
    """The sum over everything but the normalised dimensions."""
    kept = x.dim() - len(shape)
    return x.sum(tuple(range(kept))) if kept else x


def _layer_norm_formula(
    grad: core.Tensor,
    x: core.Tensor,
    shape: tuple[int, ...],
    weight: core.Tensor | None,
    eps: float,
    needs: tuple[bool, ...],
) -> tuple[Any, Any, Any]:
    """The gradients by operators. The statistics are made anew from x, since their own gradients
    matter here."""
    dtype, weight_dtype = x.dtype, None if weight is None else weight.dtype
    grad, x, weight = widened(grad, x, weight)
    dims = tuple(range(x.dim() - len(shape), x.dim()))
    centred = x - x.mean(dims, True)
    scale = ((centred * centred).mean(dims, True) + eps).rsqrt()
    standard = centred * scale
    scaled = grad if weight is None else grad * weight
    dx = scale * (
        scaled - scaled.mean(dims, True) - standard * (scaled * standard).mean(dims, True)
    )
    dweight = _over_rows(grad * standard, shape).to(weight_dtype) if needs[1] else None
    return dx.to(dtype), dweight, _over_rows(grad, shape) if needs[2] else None


@composite(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-5, "
    "bool cudnn_enable=True) -> Tensor",
    names=("layer_norm", "nn.functional.layer_norm"),
    home="nn.functional.layer_norm",
    out=False,
    autocast="accelerator float32",
    quantizers={"fx": "own"},
)
def layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions. [Ba, Kiros, Hinton
    2016]"""
    return F.native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@operator(
    "fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor, "
    "Tensor)",
    names=(),
    out=False,
    nondifferentiable=(1,),
    file_form="rms_norm",
)
class RmsNorm:
    """The scaled tensor, and the inverse root mean square of each row."""

    shards = "root_mean_square"

    vmap = batch_forms.rms_norm

    def meta(input, normalized_shape, weight, eps):
        _check_normalized("rms_norm", input, normalized_shape, weight)
        return (
            core.empty(input.shape, dtype=input.dtype, device=input.device),
            core.empty(
                _row_shape(input, normalized_shape), dtype=wide_of(input.dtype), device=input.device
            ),
        )

    def cpu(out, input, normalized_shape, weight, eps):
        kernel = "rms_norm" if weight is None else "rms_norm.weight"
        parameters = () if weight is None else (_wide(weight, out[1].dtype),)
        core.kernel(f"{kernel}:{input.dtype.code}")(
            (*out, input.contiguous(), *parameters),
            (out[1].numel(), prod(normalized_shape), 1, 0, 0),
            (float(eps),),
        )

    def backward(grads, input, normalized_shape, weight, eps, result_1, needs):
        if grads[0] is None:
            return None, None
        if core.is_grad_enabled() or core.interpreters():
            return _rms_norm_formula(grads[0], input, normalized_shape, weight, eps, needs)
        dx, dweight = F.rms_norm_backward(grads[0], input, result_1, weight)
        return dx, dweight.reshape(weight.shape).to(weight.dtype) if needs[1] else None

    def samples(S):
        yield (S(3, 4), (4,), S(4), 1e-5), {}


@operator(
    "rms_norm_backward(Tensor grad, Tensor input, Tensor rstd, Tensor? weight) -> (Tensor, Tensor)",
    names=(),
    out=False,
)
class RmsNormBackward:
    """The gradients of input and weight, the second in the statistics' dtype."""

    shards = "root_mean_square_backward"

    def meta(grad, input, rstd, weight):
        size = (0,) if weight is None else (weight.numel(),)
        return (
            core.empty(input.shape, dtype=input.dtype, device=input.device),
            core.empty(size, dtype=rstd.dtype, device=input.device),
        )

    def cpu(out, grad, input, rstd, weight):
        rows = rstd.numel()
        sizes = (rows, input.numel() // rows if rows else 0, 1, 0, 0)
        tensors = (grad.to(input.dtype).contiguous(), input.contiguous(), rstd)
        if weight is None:
            core.kernel(f"rms_norm.backward:{input.dtype.code}")((out[0], *tensors), sizes)
        elif rows == 0:
            out[1].zero_()
        else:
            core.kernel(f"rms_norm.backward.weight:{input.dtype.code}")(
                (*out, *tensors, _wide(weight, rstd.dtype)), sizes
            )


def _rms_norm_formula(
    grad: core.Tensor,
    x: core.Tensor,
    shape: tuple[int, ...],
    weight: core.Tensor | None,
    eps: float,
    needs: tuple[bool, ...],
) -> tuple[Any, Any]:
    dtype, weight_dtype = x.dtype, None if weight is None else weight.dtype
    grad, x, weight = widened(grad, x, weight)
    dims = tuple(range(x.dim() - len(shape), x.dim()))
    scale = ((x * x).mean(dims, True) + eps).rsqrt()
    standard = x * scale
    scaled = grad if weight is None else grad * weight
    dx = scale * (scaled - standard * (scaled * standard).mean(dims, True))
    dweight = _over_rows(grad * standard, shape).to(weight_dtype) if needs[1] else None
    return dx.to(dtype), dweight


@composite(
    "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
    "Tensor",
    names=("rms_norm", "nn.functional.rms_norm"),
    home="nn.functional.rms_norm",
    out=False,
)
def rms_norm(input, normalized_shape, weight, eps):
    """x / sqrt(mean(x**2) + eps) * weight over the last dimensions; eps defaults to the dtype's.
    [Zhang, Sennrich 2019]"""
    if eps is None:
        eps = core.finfo(input.dtype).eps
    if input.is_complex():
        dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
        result = input * ((input * input).mean(dims, True) + eps).rsqrt()
        return result if weight is None else result * weight
    return F.fused_rms_norm(input, normalized_shape, weight, eps)[0]


@composite(
    "local_response_norm(Tensor input, int size, Operand alpha=1e-4, Operand beta=0.75, Operand k=1.0) "
    "-> Tensor",
    names=("nn.functional.local_response_norm",),
    out=False,
    inlined=True,
)
def local_response_norm(input, size, alpha, beta, k):
    """x / (k + alpha * mean of x**2 over `size` neighbouring channels)**beta. [Krizhevsky et al.
    2012]"""
    if input.dim() < 3:
        fail(
            ValueError,
            "local_response_norm",
            "Expected 3D or higher dimensionality input",
            f"{input.dim()} dimensions",
            hint="the shape is [N, C, ...]; unsqueeze() adds what is missing",
        )
    if size < 1:
        fail(
            RuntimeError,
            "local_response_norm",
            "kernel size should be greater than zero",
            size,
            hint="size=1 takes each channel alone",
        )
    if input.numel() == 0:
        return input
    # mean over the window; of integers without its fraction, as PyTorch's pooling has it
    # running sums along the channels would cancel: the window is a sum of `size` shifted copies
    squares = input * input
    shape = list(squares.shape)
    channels = input.shape[1]  # neighbours further away than these are zeros for all
    shape[1] = lead = min(size // 2, channels)
    before = F.zeros(shape, dtype=input.dtype, device=input.device)
    shape[1] = min((size - 1) // 2, channels)
    after = F.zeros(shape, dtype=input.dtype, device=input.device)
    padded = F.cat([before, squares, after], 1)
    window = padded.narrow(1, 0, channels)
    for shift in range(1, lead + shape[1] + 1):
        window = window + padded.narrow(1, shift, channels)
    if not input.is_floating_point() and not input.is_complex():
        return input / (F.div(window, size, rounding_mode="trunc") * alpha + k) ** beta
    return input / (window * (alpha / size) + k) ** beta
