"""Operators that draw counts and gamma variates: samples that take an unknown number of draws each.

Takes: tensors of parameters and a generator. Gives: samples in the parameters' dtype.
Keeps true: element i is a function of (seed, offset, i) and its parameters; only gamma and Dirichlet samples
(and what is made of them) have a gradient, by implicit reparametrisation [Figurnov et al. 2018].
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.random.draws import SOURCE
from facula.ops.table.registry import F, composite, operator

#: above it a double has all of its digits
_LEAST = 1e-290


def _check_floating(op: str, tensor: core.Tensor) -> None:
    if not tensor.dtype.is_floating_point:
        fail(
            NotImplementedError,
            op,
            f"a floating-point dtype was required: \"{op}\" not implemented for '{tensor.dtype}'",
            hint="convert it with .float()",
        )


def _doubles(tensor: core.Tensor) -> Any:
    return tensor.detach().to(device="cpu", dtype=core.float64).contiguous()


@operator(
    "_poisson_draws(Tensor self, generator? generator=None) -> Tensor",
    names=(),
    out=False,
    nondifferentiable=(0,),
)
class poisson_draws:
    """Samples of `poisson`; traces keep the call."""

    random = True
    vmap = "drawn"

    def meta(self, generator):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, generator):
        if self.numel() and not (self >= 0).all().item():
            fail(
                RuntimeError,
                "poisson",
                "invalid Poisson rate, expected rate to be non-negative",
                hint="x.clamp(min=0) has no negative rates, x.exp() makes rates of logarithms",
            )
        out.copy_(core.random_draws("poisson", _doubles(self), None, generator))


@operator(
    "_binomial_draws(Tensor count, Tensor prob, generator? generator=None) -> Tensor",
    names=(),
    out=False,
    nondifferentiable=(0, 1),
)
class binomial_draws:
    """Samples of `binomial` for tensors of one shape; traces keep the call."""

    random = True
    vmap = "drawn"

    def meta(count, prob, generator):
        return core.empty(count.shape, dtype=count.dtype, device=count.device)

    def cpu(out, count, prob, generator):
        out.copy_(core.random_draws("binomial", _doubles(count), _doubles(prob), generator))


@composite(f"poisson(Tensor self, {SOURCE}) -> Tensor", names=("poisson",), out=False)
def poisson(self, generator):
    """Counts of rare events with the tensor's elements as rates."""
    _check_floating("poisson", self)
    result = F._poisson_draws(self, generator)
    # the gradient of a sample is defined as zero
    return result + self * 0 if self.requires_grad and core.is_grad_enabled() else result


@composite(
    f"binomial(Tensor count, Tensor prob, {SOURCE}) -> Tensor", names=("binomial",), out=False
)
def binomial(count, prob, generator):
    """How many of `count` trials succeed, each with probability `prob`."""
    for tensor in (count, prob):
        _check_floating("binomial", tensor)
    if count.dtype is not prob.dtype:
        fail(
            RuntimeError,
            "binomial",
            "one dtype was required: Found dtype of count and prob to differ",
            f"{count.dtype} and {prob.dtype}",
            hint=f"count.to({prob.dtype}) has the dtype of prob",
        )
    count, prob = F.broadcast_tensors(count, prob)
    result = F._binomial_draws(count, prob, generator)
    needs = core.is_grad_enabled() and (count.requires_grad or prob.requires_grad)
    return result + count * 0 + prob * 0 if needs else result


@operator(
    "_standard_gamma_grad(Tensor self, Tensor output) -> Tensor",
    names=("_standard_gamma_grad",),
    out=False,
    nondifferentiable=(0, 1),
)
class standard_gamma_grad:
    """The derivative of a standard gamma sample by its shape, at a fixed probability."""

    def meta(self, output):
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, output):
        out.copy_(core.gamma_rate(_doubles(self), _doubles(output)))


@operator(
    "_standard_gamma(Tensor self, generator? generator=None) -> Tensor",
    names=("_standard_gamma",),
    out=False,
)
class standard_gamma:
    """Gamma samples of rate 1 with the tensor's elements as shapes. [Marsaglia & Tsang 2000]"""

    random = True
    vmap = "drawn"

    def meta(self, generator):
        _check_floating("_standard_gamma", self)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, generator):
        tiny = core.finfo(self.dtype).tiny
        kind = "gamma" if self.dtype is core.float64 else "gamma of f32"
        wide = core.random_draws(kind, _doubles(self), None, generator)
        # a sample that underflows stays positive: its logarithm is asked for
        out.copy_(F.where(wide < tiny, tiny, wide))

    def backward(grad, self, result):
        return grad * F._standard_gamma_grad(self, result)


@operator(
    "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    names=("_dirichlet_grad",),
    out=False,
    nondifferentiable=(0, 1, 2),
)
class dirichlet_grad:
    """How a part `x` of a Dirichlet point moves with its concentration, at a fixed probability, over `1 - x`.

    `total` is the sum of all concentrations. Part by part the points follow beta laws."""

    def meta(x, alpha, total):
        if not (x.shape == alpha.shape == total.shape):
            fail(
                RuntimeError,
                "_dirichlet_grad",
                "tensors of one shape were required",
                f"{tuple(x.shape)}, {tuple(alpha.shape)} and {tuple(total.shape)}",
                hint="facula.broadcast_tensors(x, alpha, total) brings them to one shape",
            )
        return core.empty(x.shape, dtype=x.dtype, device=x.device)

    def cpu(out, x, alpha, total):
        first = _doubles(alpha)
        out.copy_(core.beta_rate(_doubles(x), first, _doubles(total) - first))


@operator(
    "_sample_dirichlet(Tensor self, generator? generator=None) -> Tensor",
    names=("_sample_dirichlet",),
    out=False,
)
class sample_dirichlet:
    """Points of a simplex: gamma samples over their sum along the last dimension."""

    random = True
    vmap = "drawn"

    def meta(self, generator):
        _check_floating("_sample_dirichlet", self)
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, generator):
        shapes = _doubles(self)
        logs = core.empty(shapes.shape, dtype=core.float64)
        wide = core.random_draws("gamma", shapes, None, generator, logs)
        # where the concentrations are small, the samples underflow, and their logarithms do not
        plain, limits = wide / wide.sum(-1, keepdim=True), core.finfo(self.dtype)
        points = F.where(wide > _LEAST, plain, F.softmax(logs, -1))
        # inside of (0, 1), also where the dtype would round to an end of it
        out.copy_(points.clamp(limits.tiny, 1 - limits.eps / 2))

    def backward(grad, self, result):
        alpha, point, grad = (t.to(core.float64) for t in (self, result, grad))
        total = alpha.sum(-1, keepdim=True).expand(alpha.shape)
        # one part moves by its law, and the others make room in proportion to their sizes
        moved = grad - (point * grad).sum(-1, keepdim=True)
        return (F._dirichlet_grad(point, alpha, total) * moved).to(self.dtype)
