"""Second gradients of normalisations: in 16-bit floats they round after each step, as PyTorch's do.

Takes: what the first gradient took, and gradients of its results. Gives: the gradients of what it took.
Keeps true: the statistics count as functions of the input, so that they have no gradient of their own; what is
differentiated once more is made anew from the input.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from facula import core
from facula.ops.table.registry import F, operator
from facula.ops.table.stepwise import cube


class _Rows:
    """The terms of second gradients of values that are standardised together."""

    def __init__(
        self,
        grad: Any,
        x: Any,
        statistics: tuple[Any, Any],
        total: Callable[[Any], Any],
        count: int,
    ) -> None:
        """
        Args:
            grad: the gradient that came first, as it goes into the sums
            x: the input
            statistics: mean and inverse deviation, to be broadcast
            total: the sum over what is standardised together, to be broadcast
            count: how much that is
        """
        mean, self.rstd = statistics
        self.grad, self.total, self.count = grad, total, count
        self.centred = x - mean
        self.square, self.cube = self.rstd.pow(2), cube(self.rstd)
        self.slope = self.centred * self.cube

    def of_input(self, second: Any) -> Any:
        """What the input's first gradient gives for the input."""
        n, grad, total = self.count, self.grad, self.total
        along, sums = total(grad * self.centred), total(grad)
        second_along, second_sums = total(second * self.centred), total(second)
        inner = second_sums * sums / n - total(grad * second)
        factor = core.tensor(3.0 / n, dtype=grad.dtype)  # a number that is stored, too
        inner = inner + self.square * along * second_along * factor
        own = self.slope * inner / n
        crossed = second_along * self.cube / n * (sums / n - grad)
        return own + crossed + along * self.cube / n * (second_sums / n - second)

    def of_weight(self, grad: Any) -> Any:
        """What the weight's first gradient gives for the input, for a gradient that it is scaled by."""
        n, total = self.count, self.total
        found = grad * self.rstd + self.rstd * total(grad) / -n
        return found + self.slope * total(grad * self.centred) / -n

    def linear(self, scale: Any, second: Any) -> Any:
        """The first gradient of `second`, in which it is linear."""
        n, total = self.count, self.total
        along = self.centred * self.square * total(second * self.centred)
        return scale / n * (second * n - total(second) - along)


def _followed(x: Any, statistics: tuple[Any, Any], dims: tuple[int, ...]) -> tuple[Any, Any]:
    """Mean and inverse deviation in the dtype of `x`; from it where they are differentiated once more."""
    mean, rstd = statistics
    if core.is_grad_enabled():
        wide = x.to(mean.dtype)
        centre = wide.mean(dims, True)
        variance = ((wide - centre) ** 2).mean(dims, True)
        mean, rstd = centre, (variance + (rstd.pow(-2) - variance).detach()).rsqrt()
    return mean.to(x.dtype), rstd.to(x.dtype)


def _sum(*terms: Any) -> Any:
    """The sum of the terms that there are, in their order."""
    present = [t for t in terms if t is not None]
    return (
        None if not present else present[0] if len(present) == 1 else sum(present[1:], present[0])
    )


def _in_range(formula: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """The gradients in steps, or in float32 where a step of float16 leaves the range."""

    def within(grads: Any, grad: Any, x: Any, mean: Any, rstd: Any, weight: Any) -> tuple[Any, ...]:
        found = formula(grads, grad, x, mean, rstd, weight)
        if x.dtype is not core.float16 or all(t is None or t.isfinite().all() for t in found):
            return found
        scale = None if weight is None else weight.to(mean.dtype)
        found = formula(grads, grad.to(mean.dtype), x.to(mean.dtype), mean, rstd, scale)
        to_grad, to_input, _, _, to_weight = found
        if to_weight is not None:
            to_weight = to_weight.to(weight.dtype)
        return (
            to_grad.to(grad.dtype),
            None if to_input is None else to_input.to(x.dtype),
            None,
            None,
            to_weight,
        )

    return within


@_in_range
def layer(grads: Any, grad: Any, x: Any, mean: Any, rstd: Any, weight: Any) -> tuple[Any, ...]:
    """Those of a layer norm: gradients of grad, input, mean, rstd and weight.

    Args:
        grads: of the gradients of input, weight and bias; None where undefined
        grad: the gradient that came first, of the shape of `x`
        x: the input
        mean: of each row
        rstd: the inverse deviation of each row
        weight: as long as a row, or None
    """
    shape, length = x.shape, x.numel() // max(1, mean.numel())
    second, by_weight, by_bias = (
        None if g is None else g.to(x.dtype).reshape((-1, length)) for g in grads
    )
    grad, x = grad.reshape((-1, length)), x.reshape((-1, length))
    statistics = _followed(x, (mean.reshape((-1, 1)), rstd.reshape((-1, 1))), (1,))
    scale = None if weight is None else weight.to(x.dtype).reshape((1, length))
    rows = _Rows(
        grad if scale is None else grad * scale, x, statistics, lambda t: t.sum(1, True), length
    )
    to_input = to_grad = to_weight = None
    if second is not None:
        to_input = rows.of_input(second)
        to_grad = rows.linear(rows.rstd if scale is None else scale * rows.rstd, second)
        if scale is not None:
            to_weight = (
                (grad * rows.linear(rows.rstd, second))
                .sum(0)
                .reshape(weight.shape)
                .to(weight.dtype)
            )
    if by_weight is not None:
        to_input = _sum(to_input, rows.of_weight(grad * by_weight))
        to_grad = _sum(to_grad, by_weight * rows.centred * rows.rstd)
    to_grad = _sum(to_grad, None if by_bias is None else by_bias.expand(x.shape))
    found = (None if t is None else t.reshape(shape) for t in (to_grad, to_input))
    return *found, None, None, to_weight


def _about(mean: Any, invstd: Any, dtype: core.dtype) -> Any:
    """The inverse deviation from the mean as it is stored."""
    return (invstd.pow(-2) + (mean - mean.to(dtype)) ** 2).rsqrt()


def _over_channels(x: Any) -> Any:
    """The sum over all dimensions but that of the channels, one after the other."""
    x = x.sum(0, True)
    for dim in range(x.dim() - 1, 1, -1):
        x = x.sum(dim, True)
    return x


@_in_range
def batch(grads: Any, grad: Any, x: Any, mean: Any, invstd: Any, weight: Any) -> tuple[Any, ...]:
    """Those of a batch norm in training: gradients of grad, input, mean, invstd and weight.

    Args:
        grads: of the gradients of input, weight and bias; None where undefined
        grad: the gradient that came first, of the shape of `x`
        x: the input [N, C, ...]
        mean: of each channel
        invstd: the inverse deviation of each channel
        weight: of each channel, or None
    """
    each = (1, -1, *([1] * (x.dim() - 2)))
    second, by_weight, by_bias = (None if g is None else g.to(x.dtype) for g in grads)
    by_weight, by_bias, scale = (
        None if t is None else t.to(x.dtype).reshape(each) for t in (by_weight, by_bias, weight)
    )
    statistics = mean.reshape(each), _about(mean, invstd, x.dtype).reshape(each)
    statistics = _followed(x, statistics, (0, *range(2, x.dim())))
    rows = _Rows(grad, x, statistics, _over_channels, x.numel() // max(1, x.shape[1]))
    to_input = to_grad = to_weight = None
    if second is not None:
        to_input = rows.of_input(second)
        to_input = to_input if scale is None else scale * to_input
        to_grad = rows.linear(rows.rstd if scale is None else scale * rows.rstd, second)
        if scale is not None:
            to_weight = (
                _over_channels(second * rows.linear(rows.rstd, grad))
                .reshape((-1,))
                .to(weight.dtype)
            )
    if by_weight is not None:
        to_input = _sum(to_input, by_weight * rows.of_weight(grad))
        to_grad = _sum(to_grad, by_weight * rows.centred * rows.rstd)
    to_grad = _sum(to_grad, None if by_bias is None else by_bias.expand(x.shape))
    return to_grad, to_input, None, None, to_weight


# --- group norm: its first gradient is steps already


@operator(
    "_group_statistics(Tensor input, Tensor mean, Tensor invstd) -> (Tensor, Tensor)",
    names=(),
    out=False,
)
class GroupStatistics:
    """Mean and inverse deviation [N, groups, 1, 1] of an input [N, groups, members, places], in its dtype."""

    def meta(input, mean, invstd):
        shape = (*input.shape[:2], 1, 1)
        return tuple(core.empty(shape, dtype=input.dtype, device=input.device) for _ in "ab")

    def cpu(out, input, mean, invstd):
        out[0].copy_(mean.reshape(out[0].shape))
        out[1].copy_(invstd.reshape(out[1].shape))

    def backward(grads, input, result_1):
        found, count = None, prod(input.shape[2:])
        if grads[1] is not None:
            to_variance = result_1 * result_1 * result_1 * -0.5 * grads[1]
            found = to_variance * (2.0 / count) * (input - input.mean((2, 3), True))
        to_mean = None if grads[0] is None else grads[0].expand(input.shape) / count
        return _sum(found, to_mean), None, None

    def samples(S):
        x = S(2, 3, 2, 4)
        if x.dtype.is_floating_point:  # others have no statistics
            mean = x.mean((2, 3))
            yield (x, mean, (x.var((2, 3), correction=0) + 1e-5).rsqrt()), {}


def steps_fit(grad: Any, x: Any, invstd: Any) -> Any:
    """Whether sums of products of float16 values of a group norm, times the third power of an inverse deviation, stay
    in its range."""
    if x.dtype is not core.float16:
        return True
    most = x.abs().amax().to(core.float32) * grad.abs().amax().to(core.float32)
    third = invstd.amax().clamp(min=1.0) ** 3
    return most.clamp(min=1.0) * third * (x.numel() // x.shape[0]) < core.finfo(core.float16).max


def group(
    grad: Any, x: Any, groups: int, mean: Any, invstd: Any, weight: Any
) -> tuple[Any, Any, Any]:
    """The first gradients of a group norm, of input, weight and bias, in steps that are differentiated again.

    Args:
        grad: of the shape of `x`
        x: the input [N, C, ...]
        groups: how many the channels make
        mean: [N, groups]
        invstd: [N, groups]
        weight: of each channel, or None
    """
    members = x.shape[1] // groups
    shape = (x.shape[0], groups, members, prod(x.shape[2:]))
    rows, grads = x.reshape(shape), grad.reshape(shape)
    centre, rstd = F._group_statistics(rows, mean, invstd)
    along, sums = (grads * rows).sum(3).unsqueeze(-1), grads.sum(3).unsqueeze(-1)
    share = 1.0 / (members * shape[3])
    scale = None if weight is None else weight.to(x.dtype).reshape((1, groups, members, 1))
    third = rstd * rstd * rstd
    factor = rstd if scale is None else rstd * scale
    scaled_along = (along if scale is None else along * scale).sum(2).unsqueeze(-2)
    scaled_sums = (sums if scale is None else sums * scale).sum(2).unsqueeze(-2)
    slope = (scaled_sums * centre - scaled_along) * third * share
    shift = scaled_sums * rstd * share
    shift = -slope * centre - shift
    scaled = slope * rows
    dx = factor * grads + scaled + shift
    to_weight = ((along - sums * centre) * rstd).sum(0).reshape((-1,))
    return dx.reshape(x.shape), to_weight, sums.sum(0).reshape((-1,))
