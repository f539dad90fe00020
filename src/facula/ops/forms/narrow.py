"""What PyTorch computes by one operator, for 16-bit floats whose gradients are differentiated again.

Takes: calls of composites here that are one operator there, and gradients that are one there. Gives: operators with
gradients in the steps in which PyTorch rounds 16-bit floats.
Keeps true: values are those of the composites; programs that map, rewrite or trace what runs hear nothing of these.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.ops.index import launch
from facula.ops.reduce.norm import norm_gradient
from facula.ops.table import pointwise_rules
from facula.ops.table.registry import TABLE, F, operator
from facula.ops.table.stepwise import cube

_LN2 = math.log(2)


def _share(x: Any, mean: bool, like: Any) -> Any:
    """The part of a mean over the elements of `like` that each has."""
    return x / like.numel() if mean and like.numel() else x


# --- activations


@operator(
    "_gelu_slope(Tensor grad_output, Tensor self, str approximate) -> Tensor", names=(), out=False
)
class GeluSlope:
    """The gradient of the argument of `gelu`, which rounds once."""

    def meta(grad_output, self, approximate):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, grad_output, self, approximate):
        out.copy_(pointwise_rules.pull(TABLE["gelu"], (self, approximate), 0, grad_output))

    def backward(grad, grad_output, self, approximate, needs):
        first = F._gelu_slope(grad, self, approximate) if needs[0] else None
        bend = _tanh_bend if approximate == "tanh" else _erf_bend
        return first, grad * grad_output * bend(self) if needs[1] else None

    def samples(S):
        yield (S(3, 4), S(3, 4), "none"), {}
        yield (S(3, 4), S(3, 4), "tanh"), {}


def _erf_bend(x: Any) -> Any:
    """The second derivative of `x Phi(x)`."""
    square = x * x
    density = (square * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return density * 2 - square * density


def _tanh_bend(x: Any) -> Any:
    """The second derivative of the approximation by a hyperbolic tangent."""
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    inner = (x + cube(x) * cubic) * scale
    slow, narrow = inner.tanh(), inner.cosh().reciprocal()
    half, open_ = x * 0.5, 1 - slow * slow
    slope = (x * (3 * cubic) * x + 1) * scale
    bend = x * (6 * cubic) * scale
    falling = narrow * 2 * (-narrow * slow) * slope
    return open_ * 0.5 * slope * 2 + half * slope * falling + half * open_ * bend


@operator("_log_sigmoid_slope(Tensor grad_output, Tensor self) -> Tensor", names=(), out=False)
class LogSigmoidSlope:
    """The gradient of the argument of `logsigmoid`, from an exponential that is stored."""

    def meta(grad_output, self):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, grad_output, self):
        wide = core.promote_types(self.dtype, core.float32)
        stored = (-self.abs()).exp().to(wide)
        part = stored / (1 + stored)
        out.copy_(grad_output.to(wide) * F.where(self < 0, 1 - part, part))

    def backward(grad, grad_output, self, needs):
        second = None
        if needs[1]:
            open_ = self.sigmoid()
            second = grad * grad_output * (open_ - 1) * open_
        return F._log_sigmoid_slope(grad, self) if needs[0] else None, second

    def samples(S):
        yield (S(3, 4), S(3, 4)), {}


@operator("_glu(Tensor self, int dim) -> Tensor", names=(), out=False)
class Glu:
    """`glu` as one node."""

    def meta(self, dim):
        shape = list(self.shape)
        shape[dim] //= 2
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, dim):
        value, gate = F.chunk(self.to(core.float32), 2, dim)
        out.copy_(value * gate.sigmoid())

    def backward(grad, self, dim):
        return F._glu_slope(grad, self, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator("_glu_slope(Tensor grad_output, Tensor self, int dim) -> Tensor", names=(), out=False)
class GluSlope:
    """The gradient of the argument of `glu`, which rounds once."""

    def meta(grad_output, self, dim):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, grad_output, self, dim):
        wide = core.promote_types(self.dtype, core.float32)
        value, gate = F.chunk(self.to(wide), 2, dim)
        grad, open_ = grad_output.to(wide), gate.sigmoid()
        out.copy_(F.cat([grad * open_, grad * value * ((1 - open_) * open_)], dim))

    def backward(grad, grad_output, self, dim, needs):
        value, gate = F.chunk(self, 2, dim)
        by_value, by_gate = F.chunk(grad, 2, dim)
        open_ = gate.sigmoid()
        shut = 1 - open_
        slope = open_ * shut
        scaled = by_gate * value
        to_grad = by_value * open_ + scaled * slope if needs[0] else None
        if not needs[1]:
            return to_grad, None
        first = by_gate * grad_output * slope
        bend = slope * shut - open_ * slope
        second = scaled * grad_output * bend + by_value * grad_output * slope
        return to_grad, F.cat([first, second], dim)

    def samples(S):
        yield (S(3, 2), S(3, 4), 1), {}


# --- powers of two, distances, outer products


@operator("_ldexp(Tensor self, Tensor other) -> Tensor", names=(), out=False)
class Ldexp:
    """`ldexp` of two tensors of floats as one node."""

    def meta(self, other):
        shape = launch.broadcast_shapes("ldexp", self.shape, other.shape)
        dtype = core.result_type(self, other)
        return core.empty(shape, dtype=dtype, device=self.device)

    def cpu(out, self, other):
        out.copy_(F.ldexp(self, other))

    def backward(grad, self_meta, other, result, needs):
        first = second = None
        if needs[0]:
            first = F.sum_to_size(grad * F.pow(2, other), self_meta.shape)
        if needs[1]:
            second = F.sum_to_size(grad * result * _LN2, other.shape)
        return first, second

    def samples(S):
        yield (S(3, 4), S(3, 4)), {}
        yield (S(3, 4), S(4)), {}


@operator("_dist(Tensor self, Tensor other, Number p) -> Tensor", names=(), out=False)
class Dist:
    """`dist` as one node: each of its gradients takes the difference anew."""

    def meta(self, other, p):
        return core.empty((), dtype=core.result_type(self, other), device=self.device)

    def cpu(out, self, other, p):
        out.copy_(F.dist(self, other, p))

    def backward(grad, self, other, p, result, needs):
        found: list[Any] = [None, None]
        for place in (1, 0):
            if needs[place]:
                slope = norm_gradient(grad, self - other, result, float(p))
                own = (self, other)[place]
                found[place] = F.sum_to_size(slope if place == 0 else -slope, own.shape)
        return tuple(found)

    def samples(S):
        yield (S(3, 4), S(3, 4), 2.0), {}
        yield (S(3, 4), S(3, 4), 3.0), {}


@operator(
    "_addr(Tensor self, Tensor vec1, Tensor vec2, Number beta, Number alpha) -> Tensor",
    names=(),
    out=False,
)
class Addr:
    """`addr` as one node, whose gradients are products with vectors."""

    def meta(self, vec1, vec2, beta, alpha):
        shape = (vec1.shape[0], vec2.shape[0])
        return core.empty(shape, dtype=vec1.dtype, device=vec1.device)

    def cpu(out, self, vec1, vec2, beta, alpha):
        out.copy_(F.addr(self, vec1, vec2, beta=beta, alpha=alpha))

    def backward(grad, self_meta, vec1, vec2, beta, alpha, needs):
        to_self = (
            F.sum_to_size(grad if beta == 1 else grad * beta, self_meta.shape) if needs[0] else None
        )
        first = F.mv(grad, vec2) if needs[1] else None
        second = F.mv(grad.t(), vec1) if needs[2] else None
        scaled = (t if t is None or alpha == 1 else t * alpha for t in (first, second))
        return to_self, *scaled

    def samples(S):
        yield (S(3, 4), S(3), S(4), 1, 1), {}
        yield (S(4), S(3), S(4), 0.5, 2.0), {}


# --- losses


@operator(
    "_mse_slope(Tensor grad_output, Tensor self, Tensor target, bool mean) -> Tensor",
    names=(),
    out=False,
)
class MseSlope:
    """The gradient of `self` in the sum or mean of squared differences, which rounds once."""

    def meta(grad_output, self, target, mean):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, grad_output, self, target, mean):
        wide = core.promote_types(self.dtype, core.float32)
        apart = self.to(wide) - target.to(wide)
        out.copy_(apart * _share(grad_output.to(wide) * 2, mean, self))

    def backward(grad, grad_output, self, target, mean, needs):
        to_grad = None
        if needs[0]:
            to_grad = (_share((self - target) * 2, mean, self) * grad).sum()
        to_self = _share(grad * grad_output * 2, mean, self)
        return to_grad, to_self if needs[1] else None, -to_self if needs[2] else None

    def samples(S):
        yield (S(), S(3, 4), S(3, 4), True), {}
        yield (S(), S(3, 4), S(3, 4), False), {}


_LOSS = "Tensor self, Tensor target, Tensor? weight, Tensor? pos_weight, str reduction"


def _reduced(self: Any, reduction: str) -> Any:
    shape = self.shape if reduction == "none" else ()
    return core.empty(shape, dtype=self.dtype, device=self.device)


def _weighted(x: Any, weight: Any) -> Any:
    return x if weight is None else x * weight


@operator(f"_bce_logits({_LOSS}) -> Tensor", names=(), out=False)
class BceLogits:
    """`binary_cross_entropy_with_logits` as one node."""

    def meta(self, target, weight, pos_weight, reduction):
        return _reduced(self, reduction)

    def cpu(out, self, target, weight, pos_weight, reduction):
        loss = F.binary_cross_entropy_with_logits(
            self, target, weight, reduction=reduction, pos_weight=pos_weight
        )
        out.copy_(loss)

    def backward(grad, self, target, weight, pos_weight, reduction, needs):
        first = second = None
        mean = reduction == "mean"
        if needs[0]:
            if pos_weight is None:
                first = self.sigmoid() - target
            else:
                counted = pos_weight * target
                first = (counted + 1 - target) * self.sigmoid() - counted
            first = _share(_weighted(first * grad, weight), mean, self)
        if needs[1]:
            if pos_weight is None:
                second = -self
            else:
                second = F.logsigmoid(-self) - F.logsigmoid(self) * pos_weight
            second = _share(_weighted(second * grad, weight), mean, self)
        return first, second, None, None

    def samples(S):
        yield (S(3, 4), S(3, 4, low=0.0, high=1.0), None, None, "mean"), {}


@operator(
    "_bce(Tensor self, Tensor target, Tensor? weight, str reduction) -> Tensor", names=(), out=False
)
class Bce:
    """`binary_cross_entropy` as one node."""

    def meta(self, target, weight, reduction):
        return _reduced(self, reduction)

    def cpu(out, self, target, weight, reduction):
        out.copy_(F.binary_cross_entropy(self, target, weight, reduction=reduction))

    def backward(grad, self, target, weight, reduction, needs):
        first = second = None
        mean = reduction == "mean"
        if needs[0]:
            first = F._bce_slope(grad, self, target, weight, mean)
        if needs[1]:
            second = _share(_weighted(-F.logit(self) * grad, weight), mean, self)
        return first, second, None

    def samples(S):
        yield (S(3, 4, low=0.1, high=0.9), S(3, 4, low=0.0, high=1.0), None, "mean"), {}


@operator(
    "_bce_slope(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, bool mean) -> Tensor",
    names=(),
    out=False,
)
class BceSlope:
    """The gradient of `self` in the binary cross-entropy, which rounds once."""

    def meta(grad_output, self, target, weight, mean):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, grad_output, self, target, weight, mean):
        wide = core.promote_types(self.dtype, core.float32)
        grad, x, y = (t.to(wide) for t in (grad_output, self, target))
        slope = grad * (x - y) / ((1 - x) * x).clamp(min=1e-12)
        out.copy_(_share(_weighted(slope, weight), mean, self))

    def backward(grad, grad_output, self, target, weight, mean, needs):
        to_grad = to_self = to_target = None
        room = ((1 - self) * self).clamp(min=1e-12)
        if needs[0]:
            to_grad = _share(_weighted(grad * (self - target) / room, weight), mean, self)
            to_grad = F.sum_to_size(to_grad, grad_output.shape)
        if needs[1]:
            below, above = (self + 1e-12).pow(2), (1 - self + 1e-12).pow(2)
            bend = (self * self - self * 2 * target + target) / (below * above)
            to_self = _share(_weighted(bend * (grad * grad_output), weight), mean, self)
        if needs[2]:
            to_target = _share(_weighted(-grad * grad_output, weight) / room, mean, self)
        return to_grad, to_self, to_target, None

    def samples(S):
        yield (S(), S(3, 4, low=0.1, high=0.9), S(3, 4, low=0.0, high=1.0), None, True), {}
