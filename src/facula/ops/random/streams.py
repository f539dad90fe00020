"""Draws from PyTorch's stream: what depends on the order of elements, and calls that traces keep.

Takes: tensors, a distribution, a generator whose stream is "torch". Gives: tensors with PyTorch's numbers.
Keeps true: such a stream is drawn from one number behind the other, so every draw is an operator of its
own in a trace, is done once, and stands there in the order of the program. What is not contiguous is
drawn in the order of memory, as PyTorch does.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.table.registry import F, composite, operator


@operator(
    "_stream_fill(int[] size, str kind, any a=0.0, any b=1.0, *, generator? generator=None, "
    "dtype? dtype=None, device? device=None) -> Tensor",
    names=(),
    out=False,
)
class StreamFill:
    """New elements drawn from a generator; `kind`, `a` and `b` are those of `core.random_fill`."""

    #: two calls are two draws
    random = True

    def meta(size, kind, a, b, generator, dtype, device):
        return core.empty(size, dtype=dtype, device=device)

    def cpu(out, size, kind, a, b, generator, dtype, device):
        core.random_fill(out, kind, a, b, generator)


@operator(
    "_multinomial_draws(Tensor self, int count, bool single, generator? generator=None) -> Tensor",
    names=(),
    out=False,
    nondifferentiable=(0,),
)
class MultinomialDraws:
    """Class numbers `[..., count]` for float64 weights `[..., classes]`, as PyTorch draws them."""

    random = True
    vmap = "drawn"

    def meta(self, count, single, generator):
        return core.empty((*self.shape[:-1], count), dtype=core.int64, device=self.device)

    def cpu(out, self, count, single, generator):
        rows = self.reshape(-1, self.shape[-1])
        out.copy_(core.random_choices(rows, count, single, generator).reshape(out.shape))


@operator(
    "_rrelu_slopes(Tensor self, float lower, float upper, generator? generator=None) -> Tensor",
    names=(),
    out=False,
    nondifferentiable=(0,),
)
class RReluSlopes:
    """A slope for each element that is not positive, 1 for the others, as PyTorch draws them: in
    double precision, between bounds of the dtype that it computes in."""

    random = True
    vmap = "drawn"

    def meta(self, lower, upper, generator):
        return core.empty(self.shape, dtype=_computed_in(self.dtype), device=self.device)

    def cpu(out, self, lower, upper, generator):
        low, high = (core.tensor(x, dtype=out.dtype).item() for x in (lower, upper))
        below = (self <= 0).flatten()
        draws = core.empty((len(below.nonzero()),), dtype=core.float64)
        core.random_fill(draws, "uniform", 0.0, 1.0, generator)
        slopes = F.ones((below.numel(),), dtype=out.dtype)
        slopes[below] = (draws * (high - low) + low).to(out.dtype)
        out.copy_(slopes.reshape(out.shape))


def _computed_in(dtype: core.dtype) -> Any:
    return dtype if dtype is core.float64 else core.float32


@composite(
    "_rrelu_drawn(Tensor self, float lower, float upper, generator? generator=None) -> Tensor",
    names=(),
    out=False,
)
def rrelu_drawn(self, lower, upper, generator):
    """`rrelu` in training with PyTorch's slopes."""
    slopes = F._rrelu_slopes(self.detach(), lower, upper, generator)
    return (self.to(slopes.dtype) * slopes).to(self.dtype)


def of_a_part(kind: str, a: Any, b: Any) -> tuple[str, Any, Any]:
    """The distribution of the real and of the imaginary part of complex numbers."""
    return kind, a, b / 2**0.5 if kind.startswith("normal") else b


def memory_order(tensor: core.Tensor) -> list[int]:
    """The dimensions, the one with the longest step in memory first."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda d: -strides[d])


def in_memory_order(
    draw: Any, tensor: core.Tensor, kind: str, a: Any, b: Any, generator: core.Generator | None
) -> Any:
    """`draw` for a tensor that is not contiguous, which stays as it is: the result is a new one."""
    order = memory_order(tensor)
    fresh = core.empty([tensor.shape[d] for d in order], dtype=tensor.dtype, device=tensor.device)
    if isinstance(a, core.Tensor):
        a = a.permute(order).contiguous()
    made = draw(fresh, "normal each" if kind == "normal" else kind, a, b, generator)
    return made.permute(sorted(range(len(order)), key=order.__getitem__))
