"""Sums and differences that have a name of their own: trace, covariance, correlation, cross product, gradient, hash.

Takes tensors; gives what reductions and arithmetic give, so gradients and devices follow. Keeps true: statistics of
integers and bools are those of the numbers in the default dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail, one_dtype, told
from facula.ops.index import launch
from facula.ops.reduce.launch import reduced_shape, wrap_dim
from facula.ops.table.registry import F, composite


@composite("trace(Tensor self) -> Tensor", autocast="cpu float32", node="TraceBackward0")
def trace(self):
    """The sum of the diagonal of a matrix."""
    if self.dim() != 2:
        fail(
            RuntimeError,
            "trace",
            "expected a matrix",
            f"{self.dim()} dimensions",
            hint="x.diagonal(dim1=-2, dim2=-1).sum(-1) traces batches of matrices",
        )
    return self.diagonal().sum()


def _check_weights(name: str, weights: Any, count: int, integral: bool) -> None:
    """Raise for weights of `cov` that are no vector of one number an observation."""
    if weights.dim() > 1 or weights.numel() != count:
        fail(
            RuntimeError,
            "cov",
            f"expected {name} to have one or fewer dimensions"
            if weights.dim() > 1
            else f"expected {name} to have the same numel as there are observations in the input",
            list(weights.shape),
            hint=f"give {name} of shape [{count}]",
        )
    if integral and (weights.is_floating_point() or weights.is_complex()):
        fail(
            RuntimeError,
            "cov",
            f"expected {name} to have integral dtype",
            weights.dtype,
            hint="aweights takes weights that are not whole numbers",
        )
    if not integral and not weights.is_floating_point():
        fail(
            RuntimeError,
            "cov",
            f"expected {name} to have floating point dtype",
            weights.dtype,
            hint="convert it with .float()",
        )
    if not weights.is_meta and bool((weights < 0).any()):
        fail(
            RuntimeError,
            "cov",
            f"{name} cannot be negative",
            hint="a weight of 0 leaves an observation out",
        )


def _check_observations(self: Any) -> None:
    if self.dim() > 2:
        fail(
            RuntimeError,
            "cov",
            "expected input to have two or fewer dimensions",
            self.dim(),
            hint="rows are variables: x.flatten(1) makes a matrix",
        )
    if self.dtype is core.bool_:
        fail(
            RuntimeError,
            "cov",
            "bool dtype is not supported for input",
            self.dtype,
            hint="convert it with .float()",
        )


@composite(
    "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    out=False,
)
def cov(self, correction, fweights, aweights):
    """The covariance matrix of the rows (variables) over the columns (observations).

    fweights: how often each observation counts. aweights: its importance.
    """
    _check_observations(self)
    x = self.reshape((1, -1)) if self.dim() < 2 else self
    count = x.shape[1]
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(name, given, count, name == "fweights")
            weights = given if weights is None else weights * given
    if weights is None:
        total: Any = count
        mean = (
            x.mean(1, True) if x.is_floating_point() or x.is_complex() else x.sum(1, True) / count
        )
    else:
        total = weights.sum()
        mean = (x * weights).sum(1, True) / total
    if weights is not None and aweights is not None and correction:
        norm = total - correction * (weights * aweights).sum() / total
    else:
        norm = total - correction
    if not isinstance(norm, core.Tensor) and norm <= 0:
        told(
            "cov",
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            "correction=0 divides by the number of observations",
        )
    norm = norm.clamp(min=0) if isinstance(norm, core.Tensor) else max(norm, 0)
    centred = x - mean
    weighted = centred if weights is None else centred * weights
    return (centred @ weighted.t().conj() / norm).squeeze()


@composite("corrcoef(Tensor self) -> Tensor", out=False)
def corrcoef(self):
    """Pearson's correlations of the rows (variables) over the columns (observations)."""
    if self.dim() > 2:
        fail(
            RuntimeError,
            "corrcoef",
            "expected input to have two or fewer dimensions",
            self.dim(),
            hint="rows are variables: x.flatten(1) makes a matrix",
        )
    covariance = F.cov(self)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = F.real(covariance.diagonal()).sqrt()
    ratio = covariance / deviation.unsqueeze(-1) / deviation.unsqueeze(0)
    if not ratio.is_complex():
        return ratio.clamp(-1, 1)
    return F.complex(F.real(ratio).clamp(-1, 1), F.imag(ratio).clamp(-1, 1))


def _cross(op: str, a: Any, b: Any, dim: int) -> Any:
    if a.dim() != b.dim():
        fail(
            RuntimeError,
            op,
            "inputs must have the same number of dimensions",
            f"{a.dim()} and {b.dim()}",
            hint="unsqueeze() adds dimensions to the smaller one",
        )
    if not a.dim():
        fail(
            IndexError,
            op,
            f"a dimension of three coordinates was required: dimension specified as {dim} but tensor "
            "has no dimensions",
            "0-d tensors",
            hint="vectors have shape [..., 3]",
        )
    one_dtype(op, a, b, "expected scalar type {0} but found {1}")
    d = wrap_dim(op, dim, a.dim())
    if a.shape[d] != 3 or b.shape[d] != 3:
        fail(
            RuntimeError,
            op,
            f"inputs dimension {dim} must have length 3",
            f"{a.shape[d]} and {b.shape[d]}",
            hint="dim is the dimension of the three coordinates",
        )
    a, b = F.broadcast_tensors([a, b])
    return a.roll(-1, d) * b.roll(-2, d) - a.roll(-2, d) * b.roll(-1, d)


@composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", node="LinalgCrossBackward0")
def cross(self, other, dim):
    """The vector product along `dim`, or along the first dimension of size 3."""
    if dim is None:
        shape = launch.broadcast_shapes("cross", self.shape, other.shape)
        found = [d for d, size in enumerate(shape) if size == 3]
        if not found:
            fail(
                RuntimeError,
                "cross",
                "no dimension of size 3 in input",
                list(shape),
                hint="the product is defined for vectors of three numbers only",
            )
        dim = found[0]
        told(
            "cross",
            "Using facula.cross without specifying the dim arg is deprecated. Please either pass the dim explicitly or "
            "simply use facula.linalg.cross.",
            "linalg.cross() takes the last dimension",
        )
    return _cross("linalg.cross", self, other, dim)


@composite(
    "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
    names=("linalg.cross",),
    node="LinalgCrossBackward0",
)
def linalg_cross(self, other, dim):
    """The vector product along `dim`."""
    return _cross("linalg.cross", self, other, dim)


def _difference_by_step(x: core.Tensor, step: Any, d: int, order: int) -> Any:
    """Derivative estimates along dimension `d` for points `step` apart."""
    n = x.shape[d]
    part = lambda i, count=1: x.narrow(d, i, count)  # noqa: E731
    inner = (part(2, n - 2) - part(0, n - 2)) / (2 * step)
    if order == 1:
        first, last = (part(1) - part(0)) / step, (part(n - 1) - part(n - 2)) / step
    else:
        first = (-1.5 * part(0) + 2 * part(1) - 0.5 * part(2)) / step
        last = (1.5 * part(n - 1) - 2 * part(n - 2) + 0.5 * part(n - 3)) / step
    return F.cat([first, inner, last], d)


def _difference_by_points(x: core.Tensor, points: Any, d: int, order: int) -> Any:
    """Derivative estimates along dimension `d` for points at given coordinates."""
    n = x.shape[d]
    steps = points.diff().reshape([-1 if k == d else 1 for k in range(x.dim())])
    part = lambda i, count=1: x.narrow(d, i, count)  # noqa: E731
    step = lambda i: steps.narrow(d, i, 1)  # noqa: E731
    before, after = steps.narrow(d, 0, n - 2), steps.narrow(d, 1, n - 2)
    inner = (
        part(0, n - 2) * (-after / (before * (before + after)))
        + part(1, n - 2) * ((after - before) / (before * after))
        + part(2, n - 2) * (before / (after * (before + after)))
    )
    if order == 1:
        first, last = (part(1) - part(0)) / step(0), (part(n - 1) - part(n - 2)) / step(n - 2)
        return F.cat([first, inner, last], d)
    a, b = step(0), step(1)
    first = (
        -(2 * a + b) / (a * (a + b)) * part(0)
        + (a + b) / (a * b) * part(1)
        - a / (b * (a + b)) * part(2)
    )
    a, b = step(n - 3), step(n - 2)
    last = (
        b / (a * (a + b)) * part(n - 3)
        - (b + a) / (a * b) * part(n - 2)
        + (2 * b + a) / (b * (a + b)) * part(n - 1)
    )
    return F.cat([first, inner, last], d)


def _spacings(spacing: Any, count: int) -> list[Any]:
    """One step or vector of coordinates a dimension."""
    if spacing is None:
        return [1] * count
    if isinstance(spacing, (int, float, complex)):
        return [spacing] * count
    given = [spacing] if isinstance(spacing, core.Tensor) else list(spacing)
    if len(given) != count:
        fail(
            RuntimeError,
            "gradient",
            "torch.gradient expected spacing to be unspecified, a scalar or a list of one value a "
            "dimension",
            f"{len(given)} for {count} dimensions",
            hint=f"for example spacing={(1.0,) * count}",
        )
    return given


def _distinct_dims(self: Any, dim: Any) -> Any:
    """The dimensions to differentiate along, in [0, ndim)."""
    rank = self.dim()
    if dim is None:
        dims: Sequence[int] = range(rank)
    else:
        given = dim if isinstance(dim, (tuple, list)) else (dim,)
        dims = [wrap_dim("gradient", one, rank) for one in given]
    if len(set(dims)) != len(dims):
        fail(
            RuntimeError,
            "gradient",
            f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims",
            dim,
            hint="leave dim out for all dimensions",
        )
    return dims


@composite(
    "gradient(Tensor self, *, any spacing=None, any dim=None, int edge_order=1) -> Tensor[]",
    names=("gradient",),
    out=False,
)
def gradient(self, spacing, dim, edge_order):
    """Central differences along dimensions, one-sided of order `edge_order` at the ends.

    spacing: the step (for all dimensions, or one each), or vectors of coordinates.
    """
    if edge_order not in (1, 2):
        fail(
            RuntimeError,
            "gradient",
            "torch.gradient only supports edge_order=1 and edge_order=2",
            edge_order,
            hint="edge_order=1 is the default",
        )
    dims = _distinct_dims(self, dim)
    results = []
    for d, step in zip(dims, _spacings(spacing, len(dims)), strict=True):
        if self.shape[d] < edge_order + 1:
            fail(
                RuntimeError,
                "gradient",
                "torch.gradient expected each dimension size to be at least edge_order+1",
                f"{self.shape[d]} in dimension {d}",
                hint=f"leave dimension {d} out of dim; edge_order=1 needs two points only",
            )
        if not isinstance(step, core.Tensor):
            results.append(_difference_by_step(self, step, d, edge_order))
            continue
        if step.dim() != 1 or step.shape[0] != self.shape[d]:
            fail(
                RuntimeError,
                "gradient",
                "expected each element of spacing to have one dimension, of the size of the input's",
                list(step.shape),
                hint=f"give the {self.shape[d]} coordinates along dimension {d} as a vector",
            )
        results.append(_difference_by_points(self, step, d, edge_order))
    return tuple(results)


@composite("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor")
def hash_tensor(self, dim, keepdim, mode):
    """The exclusive or of the elements' bits, as float64 or int64, over `dim` (all by default): uint64."""
    if mode != 0:
        fail(
            RuntimeError,
            "hash_tensor",
            "mode 0 (exclusive or) was required",
            mode,
            hint="leave mode out",
        )
    if self.is_complex():
        fail(
            NotImplementedError,
            "hash_tensor",
            "a real tensor was required",
            self.dtype,
            hint="facula.view_as_real(x) has its parts",
        )
    kind = core.float64 if self.is_floating_point() else core.int64
    bits = self.to(kind, copy=True).view(core.int64)
    dims = tuple(sorted({wrap_dim("hash_tensor", d, self.dim()) for d in dim}))
    dims = (dims if self.dim() else ()) or tuple(range(self.dim()))
    shape = reduced_shape(self.shape, dims, keepdim)
    rest = [d for d in range(self.dim()) if d not in dims]
    outer = [self.shape[d] for d in rest]
    count = 1
    for d in dims:
        count *= self.shape[d]
    x = bits.permute([*rest, *dims]).reshape([*outer, count])
    if not count:
        return F.zeros(shape, dtype=core.int64, device=self.device).view(core.uint64)
    while count > 1:
        half, odd = divmod(count, 2)
        folded = x.narrow(-1, 0, half) ^ x.narrow(-1, half, half)
        x = F.cat([folded, x.narrow(-1, count - 1, 1)], -1) if odd else folded
        count = half + odd
    return x.reshape(shape).contiguous().view(core.uint64)
