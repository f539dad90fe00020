"""Row programs: softmax, normalisations and cross-entropy, forward and backward.

Takes: the language of `ops.expr.rows`.
Gives: entries in `rows.ROW_PROGRAMS`; `softmax`, `norm` and `loss` in `ops.layers` run
them.
Keeps true: arithmetic is in the compute dtype (f32 for half precision); every exponential is
shifted by the row's largest value; a row of -inf gives NaN in softmax, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

from facula.ops.expr import scalar
from facula.ops.expr.rows import (
    row_at,
    row_length,
    row_max,
    row_mean,
    row_position,
    row_sum,
    rowwise_program,
)
from facula.ops.expr.scalar import Scalar, cast, where

# --- softmax and its logarithm


@rowwise_program("softmax", "x", "y")
def softmax(x: Scalar) -> Any:
    exponential = scalar.exp(x - row_max(x))
    return exponential * (1.0 / row_sum(exponential))


@rowwise_program("softmax.backward", "grad, y", "dx")
def softmax_backward(grad: Scalar, y: Scalar) -> Any:
    return y * (grad - row_sum(grad * y))


@rowwise_program("log_softmax", "x", "y")
def log_softmax(x: Scalar) -> Any:
    largest = row_max(x)
    shifted = x - largest
    return shifted - scalar.log(row_sum(scalar.exp(shifted)))


@rowwise_program("log_softmax.backward", "grad, y", "dx")
def log_softmax_backward(grad: Scalar, y: Scalar) -> Any:
    return grad - scalar.exp(y) * row_sum(grad)


# --- layer norm and root-mean-square norm


def _standardised(x: Scalar, eps: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    mean = row_mean(x)
    deviation = x - mean
    scale = 1.0 / scalar.sqrt(row_mean(deviation * deviation) + eps)
    return deviation * scale, mean, scale


@rowwise_program("layer_norm", "x", "y, mean:row:compute, rstd:row:compute", "eps")
def layer_norm(x: Scalar, eps: Scalar) -> Any:
    return _standardised(x, eps)


@rowwise_program(
    "layer_norm.weight", "x, weight:column:compute", "y, mean:row:compute, rstd:row:compute", "eps"
)
def layer_norm_weight(x: Scalar, weight: Scalar, eps: Scalar) -> Any:
    y, mean, scale = _standardised(x, eps)
    return y * weight, mean, scale


@rowwise_program(
    "layer_norm.weight.bias",
    "x, weight:column:compute, bias:column:compute",
    "y, mean:row:compute, rstd:row:compute",
    "eps",
)
def layer_norm_weight_bias(x: Scalar, weight: Scalar, bias: Scalar, eps: Scalar) -> Any:
    y, mean, scale = _standardised(x, eps)
    return y * weight + bias, mean, scale


def _norm_backward(scaled: Scalar, standard: Scalar, scale: Scalar) -> Scalar:
    return scale * (scaled - row_mean(scaled) - standard * row_mean(scaled * standard))


@rowwise_program("layer_norm.backward", "grad, x, mean:row:compute, rstd:row:compute", "dx")
def layer_norm_backward(grad: Scalar, x: Scalar, mean: Scalar, rstd: Scalar) -> Any:
    return _norm_backward(grad, (x - mean) * rstd, rstd)


@rowwise_program(
    "layer_norm.backward.weight",
    "grad, x, mean:row:compute, rstd:row:compute, weight:column:compute",
    "dx, dweight:column:compute, dbias:column:compute",
)
def layer_norm_backward_weight(
    grad: Scalar, x: Scalar, mean: Scalar, rstd: Scalar, weight: Scalar
) -> Any:
    standard = (x - mean) * rstd
    return _norm_backward(grad * weight, standard, rstd), grad * standard, grad


@rowwise_program("rms_norm", "x", "y, rstd:row:compute", "eps")
def rms_norm(x: Scalar, eps: Scalar) -> Any:
    scale = 1.0 / scalar.sqrt(row_mean(x * x) + eps)
    return x * scale, scale


@rowwise_program("rms_norm.weight", "x, weight:column:compute", "y, rstd:row:compute", "eps")
def rms_norm_weight(x: Scalar, weight: Scalar, eps: Scalar) -> Any:
    scale = 1.0 / scalar.sqrt(row_mean(x * x) + eps)
    return x * scale * weight, scale


@rowwise_program("rms_norm.backward", "grad, x, rstd:row:compute", "dx")
def rms_norm_backward(grad: Scalar, x: Scalar, rstd: Scalar) -> Any:
    standard = x * rstd
    return rstd * (grad - standard * row_mean(grad * standard))


@rowwise_program(
    "rms_norm.backward.weight",
    "grad, x, rstd:row:compute, weight:column:compute",
    "dx, dweight:column:compute",
)
def rms_norm_backward_weight(grad: Scalar, x: Scalar, rstd: Scalar, weight: Scalar) -> Any:
    standard = x * rstd
    scaled = grad * weight
    return rstd * (scaled - standard * row_mean(scaled * standard)), grad * standard


# --- normalisation by statistics that are already there (batch, group and instance norm): a
# statistic belongs to a row
# (contiguous [N, C, S]: row n * C + c), to a position of the row (channels last), or to a group of
# rows


def _places(layout: str, names: str) -> str:
    """Operands of the layout: statistics, then per-channel parameters."""
    statistics, parameters = {
        "row": ("row", "row"),
        "column": ("column", "column"),
        "group": ("group", "row"),
    }[layout]
    kinds = {"weight": parameters, "bias": parameters}
    return ", ".join(f"{name}:{kinds.get(name, statistics)}:compute" for name in names.split())


def standardise(
    x: Scalar,
    mean: Scalar,
    invstd: Scalar,
    weight: Scalar | None = None,
    bias: Scalar | None = None,
) -> Any:
    """(x - mean) / deviation, scaled and shifted."""
    if weight is None or bias is None:
        return (x - mean) * invstd
    return (x - mean) * (invstd * weight) + bias


def standardise_backward(
    grad: Scalar,
    x: Scalar,
    mean: Scalar,
    invstd: Scalar,
    weight: Scalar,
    mean_grad: Scalar,
    mean_product: Scalar,
) -> Any:
    """The gradient where the statistics depend on x: `mean_grad` and `mean_product` are the means
    of the scaled gradient and of its product with the standardised x, over what the statistics were
    taken."""
    return invstd * (grad * weight - mean_grad - (x - mean) * (invstd * mean_product))


for _layout in ("row", "column", "group"):
    rowwise_program(f"standardise.{_layout}", "x, " + _places(_layout, "mean invstd"), "y")(
        standardise
    )
    rowwise_program(
        f"standardise.{_layout}.weight", "x, " + _places(_layout, "mean invstd weight bias"), "y"
    )(standardise)
    rowwise_program(
        f"standardise.backward.{_layout}",
        "grad, x, " + _places(_layout, "mean invstd weight mean_grad mean_product"),
        "dx",
    )(standardise_backward)


# --- cross-entropy over class indices: rows of logits


def _log_sum(x: Scalar) -> Scalar:
    largest = row_max(x)
    return largest + scalar.log(row_sum(scalar.exp(x - largest)))


_LOSSES = "loss:row:compute, lse:row:compute"
_SETTINGS = "ignore_index smoothing"


@rowwise_program("cross_entropy", "x, target:row:i64", _LOSSES, _SETTINGS, smooth=False)
@rowwise_program("cross_entropy.smooth", "x, target:row:i64", _LOSSES, _SETTINGS, smooth=True)
@rowwise_program(
    "cross_entropy.weight",
    "x, weight:column:compute, target:row:i64",
    _LOSSES,
    _SETTINGS,
    smooth=False,
)
@rowwise_program(
    "cross_entropy.weight.smooth",
    "x, weight:column:compute, target:row:i64",
    _LOSSES,
    _SETTINGS,
    smooth=True,
)
def cross_entropy(
    x: Scalar,
    target: Scalar,
    ignore_index: Scalar,
    smoothing: Scalar,
    smooth: bool,
    weight: Scalar | None = None,
) -> Any:
    """-log softmax(x)[target], times the class's weight; 0 for ignored rows. Smoothing gives a
    share to all classes."""
    lse = _log_sum(x)
    ignored = target == cast(ignore_index, "i64")
    index = where(ignored, 0, target)
    chosen = lse - row_at(x, index)
    if weight is not None:
        chosen = chosen * row_at(weight, index)
    if smooth:
        if weight is None:
            spread = lse - row_mean(x)
        else:
            spread = (lse * row_sum(weight) - row_sum(x * weight)) / row_length()
        chosen = chosen * (1.0 - smoothing) + spread * smoothing
    return where(ignored, 0.0, chosen), lse


@rowwise_program(
    "cross_entropy.backward",
    "x, target:row:i64, lse:row:compute, grad:row:compute",
    "dx",
    _SETTINGS,
)
def cross_entropy_backward(
    x: Scalar, target: Scalar, lse: Scalar, grad: Scalar, ignore_index: Scalar, smoothing: Scalar
) -> Any:
    """grad * (softmax(x) - target distribution); `grad` is that of the row's loss."""
    ignored = target == cast(ignore_index, "i64")
    scale = where(ignored, 0.0, grad)
    share = smoothing / row_length()
    hit = row_position() == cast(target, "i32")
    return (scalar.exp(x - lse) - where(hit, 1.0 - smoothing + share, share)) * scale


@rowwise_program(
    "cross_entropy.backward.weight",
    "x, weight:column:compute, target:row:i64, lse:row:compute, grad:row:compute",
    "dx",
    _SETTINGS,
)
def cross_entropy_backward_weight(
    x: Scalar,
    weight: Scalar,
    target: Scalar,
    lse: Scalar,
    grad: Scalar,
    ignore_index: Scalar,
    smoothing: Scalar,
) -> Any:
    ignored = target == cast(ignore_index, "i64")
    scale = where(ignored, 0.0, grad)
    share = smoothing / row_length()
    hit = row_position() == cast(target, "i32")
    chosen = row_at(weight, where(ignored, 0, target)) * (1.0 - smoothing)
    probability = scalar.exp(x - lse)
    spread = row_sum(weight)
    return scale * (
        probability * (chosen + share * spread) - where(hit, chosen, 0.0) - share * weight
    )
