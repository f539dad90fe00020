"""Operators that only arrange other operators: at-least-n dimensions, broadcasting of lists,
differences, trapezoids.

Takes tensors or lists of them; gives what the primitives give, so gradients and devices follow.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite


def _rank1(x: core.Tensor) -> Any:
    return x.reshape((1,)) if x.dim() == 0 else x


def _rank2(x: core.Tensor) -> Any:
    return x.reshape((1, 1)) if x.dim() == 0 else x.unsqueeze(0) if x.dim() == 1 else x


def _rank3(x: core.Tensor) -> Any:
    if x.dim() == 0:
        return x.reshape((1, 1, 1))
    if x.dim() == 1:
        return x.unsqueeze(0).unsqueeze(-1)
    return x.unsqueeze(-1) if x.dim() == 2 else x


def _define_atleast(rank: int, change: Any) -> None:
    def atleast(tensors: Any) -> Any:
        if isinstance(tensors, core.Tensor):
            return change(tensors)
        return tuple(change(t) for t in tensors)

    atleast.__doc__ = f"The tensors with at least {rank} dimension(s)."
    composite(
        f"atleast_{rank}d(any... tensors) -> any",
        names=(f"atleast_{rank}d",),
        home=f"functional.atleast_{rank}d",
        file_arguments={"tensors": "self"},
        out=False,
    )(atleast)


for _rank, _change in ((1, _rank1), (2, _rank2), (3, _rank3)):
    _define_atleast(_rank, _change)


@composite(
    "broadcast_tensors(Tensor[]... tensors) -> Tensor[]",
    names=("broadcast_tensors",),
    home="functional.broadcast_tensors",
    out=False,
)
def broadcast_tensors(tensors):
    """The tensors expanded to their common shape."""
    shape = launch.broadcast_shapes("broadcast_tensors", *(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def _check_joined(self: core.Tensor, part: core.Tensor, dim: int) -> None:
    """Whether `diff` may join a part to its input."""
    if part.dim() != self.dim():
        fail(
            RuntimeError,
            "diff",
            "diff expects prepend or append to be the same dimension as input",
            f"{part.dim()} and {self.dim()}",
            hint="unsqueeze() adds the dimensions that one of them lacks",
        )
    along = wrap_dim("diff", dim, self.dim())
    for d, (size, own) in enumerate(zip(part.shape, self.shape, strict=True)):
        if size != own and d != along:
            fail(
                RuntimeError,
                "diff",
                "diff expects the shape of tensor to prepend or append to match that of input "
                "except along the differencing dimension",
                f"input.size({d}) = {own}, but got tensor.size({d}) = {size}",
                hint="expand() repeats a size of 1",
            )


@composite(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    out_cast=True,
)
def diff(self, n, dim, prepend, append):
    """n-fold differences of neighbours along `dim`, after joining `prepend` and `append`."""
    if self.dim() == 0:
        fail(
            RuntimeError,
            "diff",
            "diff expects input to be at least one-dimensional",
            "0-d",
            hint="x.reshape(1) is one-dimensional",
        )
    if n < 0:
        fail(
            RuntimeError,
            "diff",
            f"order must be non-negative but got {n}",
            n,
            hint="n=0 returns the input",
        )
    if n == 0:
        return self.clone()
    parts = [x for x in (prepend, self, append) if x is not None]
    for part in parts:
        _check_joined(self, part, dim)
    x = F.cat(parts, dim) if len(parts) > 1 else self
    for _ in range(n):
        size = x.shape[dim]
        if size == 0:
            break
        ahead, behind = x.narrow(dim, 1, size - 1), x.narrow(dim, 0, size - 1)
        x = ahead ^ behind if x.dtype is core.bool_ else ahead - behind
    return x


def _areas(op: str, y: core.Tensor, x: core.Tensor, dim: int) -> Any:
    """Twice the area between neighbours; without points `x`, for a spacing of 1."""
    if not y.dim():
        fail(
            IndexError,
            op,
            f"a dimension to integrate along was required: dimension specified as {dim} but tensor "
            "has no dimensions",
            "a 0-d tensor",
            hint="y.reshape(1) has one sample point",
        )
    dim = wrap_dim(op, dim, y.dim())
    size = y.shape[dim]
    pairs = y.narrow(dim, 0, max(size - 1, 0)) + y.narrow(dim, min(1, size), max(size - 1, 0))
    if x is None:
        return pairs
    if x.dim() == 1:
        if x.shape[0] != size:
            fail(
                RuntimeError,
                op,
                f"{op}: There must be one `x` value for each sample point",
                f"{x.shape[0]} and {size}",
                hint=f"give {size} values, or dx for equal steps",
            )
        x = x.reshape([size if d == dim else 1 for d in range(y.dim())])
    if x.dim() < y.dim():
        x = x.reshape((1,) * (y.dim() - x.dim()) + tuple(x.shape))
    return pairs * F.diff(x, dim=dim)


def _define_trapezoid(name: str, cumulative: bool) -> None:
    def rule(y: core.Tensor, x: core.Tensor, dx: Any, dim: int) -> Any:
        if isinstance(x, (int, float)):
            x, dx = None, x
        areas = _areas(name, y, x, dim)
        areas = areas.cumsum(dim) if cumulative else areas.sum(dim)
        # the spacing comes after the sum, which has room for what narrow integers have not
        return areas / 2 if x is not None else areas * (dx / 2)

    what = "running integral" if cumulative else "integral"
    rule.__doc__ = f"The {what} along `dim` by the trapezoidal rule; points `x`, or spacing `dx`."
    names = (name,) if cumulative else (name, "trapz")
    composite(
        f"{name}(Tensor y, any x=None, *, Number dx=1, int dim=-1) -> Tensor",
        names=names,
        out=False,
        inlined=True,
    )(rule)


_define_trapezoid("trapezoid", False)
_define_trapezoid("cumulative_trapezoid", True)


@composite("where_nonzero(Tensor condition) -> Tensor[]", names=(), out=False)
def where_nonzero(condition):
    """`where` with one argument: the coordinates of what is true, one vector a dimension."""
    return F.nonzero(condition, as_tuple=True)
