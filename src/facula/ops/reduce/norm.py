"""Norms of vectors, and what is built on them.

Takes floating-point or complex tensors. Keeps true: sums of powers are carried in f64 between
blocks; the gradient at a norm of zero is zero, as in PyTorch.
"""

from __future__ import annotations

from math import inf
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite, operator

_KERNELS = {0.0: "norm.0", 1.0: "norm.1", 2.0: "norm.2", inf: "norm.inf", -inf: "norm.ninf"}


def _check_kind(self: core.Tensor, dtype: core.dtype) -> None:
    kind = dtype if dtype is not None else self.dtype
    if not (kind.is_floating_point or kind.is_complex):
        fail(
            RuntimeError,
            "linalg.vector_norm",
            "Expected a floating point or complex tensor as input",
            kind,
            "convert first: x.float()",
        )
    own = self.dtype
    if dtype is None or not (own.is_floating_point or own.is_complex):
        return
    if own.is_complex is not dtype.is_complex:
        word = "complex for complex" if own.is_complex else "real for real"
        fail(
            RuntimeError,
            "linalg.vector_norm",
            f"dtype should be {word} inputs",
            dtype,
            hint="convert the result: the norm itself is real",
        )
    if core.promote_types(own, dtype) is not dtype:
        fail(
            RuntimeError,
            "linalg.vector_norm",
            f"the dtype of the input ({own}) should be convertible without narrowing to the specified dtype",
            dtype,
            hint=f"convert first, x.to({dtype}), or the result",
        )


@operator(
    "vector_norm(Tensor self, float ord=2, int[1]? dim=None, bool keepdim=False) -> Tensor",
    names=(),
    out=False,
    autocast="accelerator float32",
    node="LinalgVectorNormBackward0",
    file_form="vector_norm",
)
class VectorNorm:
    """The norm (sum |x|**ord)**(1/ord) of real elements; ord 0 counts, +-inf give the extremes."""

    shards = "norm"

    vmap = "dims"

    def meta(self, ord, dim, keepdim):
        dims = launch.wrap_dims("linalg.vector_norm", dim, self.dim())
        if self.numel() == 0 and (ord < 0 or ord == inf):
            for d in dims:
                if self.shape[d] == 0:
                    fail(
                        RuntimeError,
                        "linalg.vector_norm",
                        f"linalg.vector_norm cannot compute the {ord} norm on an empty dimension "
                        f"{d}",
                        tuple(self.shape),
                        "this norm of no elements has no value",
                    )
        shape = launch.reduced_shape(self.shape, dims, keepdim)
        return core.empty(shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, ord, dim, keepdim):
        dims = launch.wrap_dims("linalg.vector_norm", dim, self.dim())
        _run_norm(out, self, ord, dims)
        if ord != 0 and ord != 1 and abs(ord) != inf:
            count = self.numel() // max(out.numel(), 1)
            if powers_fit(out, count, ord):
                return
            out.copy_(_scaled_norm(self, ord, dims, keepdim))

    def backward(grad, self, result, ord, dim, keepdim):
        dims = launch.wrap_dims("linalg.vector_norm", dim, self.dim())
        grad, result = launch.restore(grad, dims, keepdim), launch.restore(result, dims, keepdim)
        return norm_gradient(grad, self, result, ord, dims)

    def samples(S):
        yield (S(3, 4),), {}
        yield (S(3, 4), 1.0, (1,)), {}
        yield (S(3, 4), 3.0, (0, 1), True), {}
        yield (S(3, 4), inf, (1,)), {}


def _run_norm(out: core.Tensor, x: core.Tensor, ord: float, dims: tuple[int, ...]) -> None:
    kernel = _KERNELS.get(ord)
    launch.run_reduction(kernel or "norm.p", (out,), x, dims, () if kernel else (float(ord),))


def powers_fit(out: core.Tensor, count: int, ord: float) -> bool:
    """Whether no norm in `out` (each of at most `count` elements) says that its sum of powers left
    the range where it has all digits."""
    if out.numel() == 0 or count == 0:
        return True
    limits = core.finfo(core.float64 if out.dtype is core.float64 else core.float32)
    least = count * limits.tiny  # of the sum: 24 or 53 digits behind it are lost
    bound = least ** (1 / ord) if ord > 0 or least ** (1 / -ord) > 0 else inf
    low, high = (bound, limits.max) if ord > 0 else (limits.smallest_normal, bound)
    return launch.inside(out, low, high)


def _scaled_norm(x: core.Tensor, ord: float, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The norm in f64 of elements that are divided by the one that counts most."""
    magnitude = x.abs().to(core.float64)
    scale = (F.amax if ord > 0 else F.amin)(magnitude, dims or None, True)
    if not (scale > 0).any():
        return scale.reshape(launch.reduced_shape(x.shape, dims, keepdim))
    scale = F.where(F.logical_and(F.isfinite(scale), scale > 0), scale, F.ones_like(scale))
    norm = core.empty(scale.shape, dtype=core.float64)
    _run_norm(norm, magnitude / scale, ord, dims)
    return (norm * scale).reshape(launch.reduced_shape(x.shape, dims, keepdim))


def norm_gradient(
    grad: core.Tensor, x: core.Tensor, norm: core.Tensor, ord: float, dims: tuple[int, ...] = ()
) -> Any:
    if ord == 0:
        return F.zeros_like(x)
    if ord == 1:
        return x.sign() * grad
    if ord == 2:
        zero = norm == 0  # divides by one there, so that a tangent is no NaN
        # a quotient of an element and its norm is at most 1, one of `grad` may leave the range
        return x / norm.masked_fill(zero, 1) * grad.masked_fill(zero, 0)
    magnitude = x.abs()
    if ord in (inf, -inf):
        reached = F.logical_or(magnitude == norm, F.logical_and(F.isnan(magnitude), F.isnan(norm)))
        share = grad / reached.sum(dims or None, True)
        return x.sign() * F.where(reached, share, launch.full(x, (), 0))
    by_steps = core.rounds_steps() and grad.itemsize == 2
    if ord < 0 and not by_steps:  # a norm is at most each magnitude then
        share = norm / magnitude.masked_fill(x == 0, 1)
        return (x.sign() * share ** (1 - ord)).masked_fill(x == 0, 0) * grad
    if ord < 1:
        slope = (x.sign() * magnitude ** (ord - 1)).masked_fill(x == 0, 0)
        return slope * grad * norm ** (1 - ord)
    if by_steps:
        return _norm_gradient_by_steps(grad, x, norm, ord)
    zero = norm == 0
    whole = norm.masked_fill(zero, 1)
    grad = grad.masked_fill(zero, 0)
    if ord < 2:  # two powers, each in the range: where x is 0, only its own slope is no number
        return x.sign() * (magnitude ** (ord - 1) / whole ** (ord - 1)) * grad
    share = x / whole  # in [-1, 1]: no power of it leaves the range
    return share * share.abs() ** (ord - 2) * grad


def _norm_gradient_by_steps(grad: Any, x: Any, norm: Any, ord: float) -> Any:
    """For an order above 1, with the steps in which PyTorch rounds 16-bit floats: powers may leave the range."""
    power = x.sign() * x.abs() ** (ord - 1) if ord < 2 else x * x.abs() ** (ord - 2)
    return power * (grad / norm ** (ord - 1)).masked_fill(norm == 0, 0)


@composite(
    "linalg_vector_norm(Tensor x, Number ord=2, int[1]? dim=None, bool keepdim=False, *, dtype? "
    "dtype=None) -> Tensor",
    names=("linalg.vector_norm",),
    file_arguments={"x": "self"},
    autocast="accelerator float32",
    node="LinalgVectorNormBackward0",
)
def linalg_vector_norm(x, ord, dim, keepdim, dtype):
    """The norm of the elements, over all or over some dimensions."""
    _check_kind(x, dtype)
    if dtype is not None:
        x = x.to(dtype)
    if x.dtype.is_complex:
        x = x.abs()
    return F.vector_norm(x, float(ord), dim, keepdim)


@composite(
    "norm(Tensor self, any p='fro', any dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
    "Tensor",
    autocast="accelerator float32",
    inlined=True,
    home="functional.norm",
)
def norm(self, p, dim, keepdim, dtype):
    """The norm of the elements: `p` a number, 'fro' (2), or 'nuc' (the sum of singular values of a
    matrix)."""
    if p == "nuc":
        return F.linalg_matrix_norm(
            self, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype
        )
    if p is None or p == "fro":
        p = 2
    if isinstance(p, str):
        fail(
            RuntimeError,
            "norm",
            "p as a number, 'fro' or 'nuc'",
            f"{p!r} (linalg.matrix_norm: Order {p} not supported.)",
            hint="p=2 is the Euclidean norm",
        )
    if isinstance(dim, int):
        dim = (dim,)
    return F.linalg_vector_norm(self, p, dim, keepdim, dtype=dtype)


@composite(
    "dist(Tensor self, Tensor other, Number p=2) -> Tensor",
    out=False,
    autocast="accelerator float32",
    node="DistBackward0",
)
def dist(self, other, p):
    """The p-norm of the difference."""
    if one_node(self, other):
        return F._dist(self, other, p)
    return F.linalg_vector_norm(self - other, p)


@composite(
    "renorm(Tensor self, Number p, int dim, Number maxnorm) -> Tensor",
    inplace=True,
    autocast="accelerator float32",
    node="RenormBackward0",
)
def renorm(self, p, dim, maxnorm):
    """Scale each slice along `dim` down to a norm of at most `maxnorm`."""
    d = wrap_dim("renorm", dim, self.dim())
    if self.dim() < 2:
        fail(
            RuntimeError,
            "renorm",
            "input needs at least 2 dimensions",
            f"{self.dim()} dimensions",
            hint="facula.atleast_2d(x) has two dimensions",
        )
    if not p > 0:
        fail(
            RuntimeError,
            "renorm",
            "non-positive-norm not supported: p > 0",
            p,
            hint="p=2 is the Euclidean norm",
        )
    if maxnorm < 0:
        fail(
            RuntimeError,
            "renorm",
            "expected maxnorm to be >= 0",
            maxnorm,
            hint="maxnorm is the largest norm that stays as it is",
        )
    self = (
        self.clone()
    )  # `renorm_` overwrites what the gradients of the norm and of the product read
    others = tuple(k for k in range(self.dim()) if k != d)
    size = F.linalg_vector_norm(self, p, others, True)
    scale = F.where(size > maxnorm, maxnorm / (size + 1e-7), F.ones_like(size))
    return self * scale


@composite(
    "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-8) -> Tensor",
    names=("cosine_similarity", "nn.functional.cosine_similarity"),
    out=False,
    autocast="accelerator float32",
)
def cosine_similarity(x1, x2, dim, eps):
    """The cosine of the angle: each vector is scaled to length one, or by 1 / eps where it is
    shorter than eps."""
    common = core.promote_types(x1.dtype, x2.dtype)
    x1, x2 = F.broadcast_tensors([x1.to(common), x2.to(common)])
    length1 = F.linalg_vector_norm(x1, 2, dim, True).clamp(min=eps)
    length2 = F.linalg_vector_norm(x2, 2, dim, True).clamp(min=eps)
    return ((x1 / length1) * (x2 / length2)).sum(dim)


@composite(
    "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-6, bool keepdim=False) -> "
    "Tensor",
    names=("pairwise_distance", "nn.functional.pairwise_distance"),
    out=False,
)
def pairwise_distance(x1, x2, p, eps, keepdim):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return F.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


@composite(
    "normalize(Tensor input, float p=2.0, int? dim=1, Operand eps=1e-12) -> Tensor",
    names=("nn.functional.normalize",),
    inlined=True,
)
def normalize(input, p, dim, eps):
    """Scale vectors along `dim` to p-norm one (by 1 / eps where they are shorter than eps)."""
    length = F.linalg_vector_norm(input, p, dim, True).clamp(min=eps)
    return input / length.expand(
        input.shape
    )  # gradients of gradients add up before they are summed
