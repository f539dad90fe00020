"""Extremes: largest and smallest values, and where they stand.

Takes tensors of any real dtype but uint64, and of any layout. Keeps true: NaN wins; of equal values the first is
named; gradients go to the named element (`max(dim)`), or in equal shares to all that reach the
extreme (`amax`, `max()`).
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce import launch
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite, operator, return_type_of


def _check(op: str, self: core.Tensor) -> None:
    if self.dtype.is_complex:
        fail(
            NotImplementedError,
            op,
            f"{op}: a real dtype (complex numbers have no order)",
            f"{op}(): does not support complex input; \"{op}\" not implemented for '{self.dtype.type_word}'",
            hint="x.abs() and x.real are ordered",
        )
    core.refuse_unsigned(op, self)


def _values(op: str, self: core.Tensor, dim: Any, keepdim: bool) -> Any:
    _check(op, self)
    dims = launch.wrap_dims(op, dim, self.dim())
    if self.numel() == 0 and (dim is None or dim == ()):
        fail(
            RuntimeError,
            op,
            f"{op}(): Expected reduction dim to be specified for input.numel() == 0",
            tuple(self.shape),
            "an extreme of no elements has no value; specify the reduction dim with dim=",
        )
    launch.check_nonempty(op, self.shape, dims)
    shape = launch.reduced_shape(self.shape, dims, keepdim)
    return core.empty(shape, dtype=self.dtype, device=self.device)


def _shared(
    grad: core.Tensor, self: Any, result: core.Tensor, dims: tuple[int, ...], keepdim: bool
) -> Any:
    """The gradient in equal shares to all elements that reach the extreme (to the NaNs, if it is
    NaN)."""
    result = launch.restore(result, dims, keepdim)
    reached = F.logical_or(self == result, F.logical_and(F.isnan(self), F.isnan(result)))
    share = launch.restore(grad, dims, keepdim) / reached.sum(dims or None, True)
    return F.where(reached, share, launch.full(self, (), 0))


@operator("amax(Tensor self, int[1]? dim=(), bool keepdim=False) -> Tensor", quantized="moves")
class Amax:
    """The largest elements along some dimensions."""

    shards = "reduction max"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _values("amax", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        launch.run_reduction("amax", (out,), self, launch.wrap_dims("amax", dim, self.dim()))

    def backward(grad, self, result, dim, keepdim):
        return _shared(grad, self, result, launch.wrap_dims("amax", dim, self.dim()), keepdim)

    def samples(S):
        yield (S(3, 4), 1), {}
        yield (S(3, 4, 5), (0, 2), True), {}

    def errors(S):
        yield (S(0, 3), 0), {}, IndexError, "non-zero size"


@operator("amin(Tensor self, int[1]? dim=(), bool keepdim=False) -> Tensor", quantized="moves")
class Amin:
    """The smallest elements along some dimensions."""

    shards = "reduction min"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _values("amin", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        launch.run_reduction("amin", (out,), self, launch.wrap_dims("amin", dim, self.dim()))

    def backward(grad, self, result, dim, keepdim):
        return _shared(grad, self, result, launch.wrap_dims("amin", dim, self.dim()), keepdim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator(
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    overload="default",
)
class Aminmax:
    """The smallest and the largest elements, in one pass."""

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _values("aminmax", self, dim, keepdim), _values("aminmax", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        launch.run_reduction("aminmax", out, self, launch.wrap_dims("aminmax", dim, self.dim()))

    def backward(grads, self, results, dim, keepdim):
        dims = launch.wrap_dims("aminmax", dim, self.dim())
        parts = [
            _shared(grad, self, result, dims, keepdim)
            for grad, result in zip(grads, results, strict=True)
            if grad is not None
        ]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def samples(S):
        yield (S(3, 4),), {"dim": 1}


def _position(op: str, self: Any, dim: int | None, keepdim: bool) -> Any:
    _check(op, self)
    if dim is None:
        if self.numel() == 0:
            fail(
                IndexError,
                op,
                f"{op}(): Expected reduction dim to be specified for input.numel() == 0",
                0,
                hint="there is no element to choose from: look at x.numel() first",
            )
        shape = (1,) * self.dim() if keepdim else ()
    else:
        d = wrap_dim(op, dim, self.dim())
        launch.check_nonempty(op, self.shape, (d,))
        shape = launch.reduced_shape(self.shape, (d,) if self.dim() else (), keepdim)
    return core.empty(shape, dtype=core.int64, device=self.device)


def _run_position(op: str, out: object, self: Any, dim: int | None) -> None:
    if dim is None:
        launch.run_reduction(op, (out,), self.reshape(-1), (0,))
    else:
        launch.run_reduction(op, (out,), self, launch.wrap_dims(op, dim, self.dim()))


@operator("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", overload="default")
class Argmax:
    """Where the largest element stands: in the flattened tensor, or along one dimension. int64."""

    shards = "reduction -"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _position("argmax", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        _run_position("argmax", out, self, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", overload="default")
class Argmin:
    """Where the smallest element stands: in the flattened tensor, or along one dimension. int64."""

    shards = "reduction -"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _position("argmin", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        _run_position("argmin", out, self, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


def _chosen(op: str, self: core.Tensor, dim: int, keepdim: bool) -> tuple[Any, Any]:
    _check(op, self)
    d = wrap_dim(op, dim, self.dim())
    launch.check_nonempty(op, self.shape, (d,))
    shape = launch.reduced_shape(self.shape, (d,) if self.dim() else (), keepdim)
    return (
        core.empty(shape, dtype=self.dtype, device=self.device),
        core.empty(shape, dtype=core.int64, device=self.device),
    )


def _to_chosen(
    grad: core.Tensor, self_meta: Any, positions: core.Tensor, dim: int, keepdim: bool
) -> Any:
    if self_meta.dim() == 0:
        return grad
    d = wrap_dim("max", dim, self_meta.dim())
    zero = launch.full(self_meta, self_meta.shape, 0)
    return F.scatter(
        zero, d, launch.restore(positions, (d,), keepdim), launch.restore(grad, (d,), keepdim)
    )


@operator(
    "max_dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    names=(),
    file_name="max.dim",
    node="MaxBackward0",
)
class MaxDim:
    """The largest elements along one dimension and their positions."""

    shards = "reduction - 2"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _chosen("max", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        launch.run_reduction("max.dim", out, self, launch.wrap_dims("max", dim, self.dim()))

    def backward(grads, self_meta, result_1, dim, keepdim):
        return _to_chosen(grads[0], self_meta, result_1, dim, keepdim)

    def samples(S):
        yield (S(3, 4), 1), {}


@operator(
    "min_dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    names=(),
    file_name="min.dim",
    node="MinBackward0",
)
class MinDim:
    """The smallest elements along one dimension and their positions."""

    shards = "reduction - 2"

    vmap = "dims"

    def meta(self, dim, keepdim):
        return _chosen("min", self, dim, keepdim)

    def cpu(out, self, dim, keepdim):
        launch.run_reduction("min.dim", out, self, launch.wrap_dims("min", dim, self.dim()))

    def backward(grads, self_meta, result_1, dim, keepdim):
        return _to_chosen(grads[0], self_meta, result_1, dim, keepdim)

    def samples(S):
        yield (S(3, 4), 1), {}


#: what `max` and `min` along a dimension give: there before the first call, so that it can be named
_PAIRS = {op: return_type_of(op, ("values", "indices")) for op in ("max", "min")}


def _extreme(op: str, self: core.Tensor, dim: int | None, keepdim: bool, other: object) -> Any:
    """The three forms of max and min: of all elements, along a dimension, of two tensors."""
    other = dim if isinstance(dim, core.Tensor) else other
    if other is not None:
        return (F.maximum if op == "max" else F.minimum)(self, other)
    if dim is not None:
        pair = (F.max_dim if op == "max" else F.min_dim)(self, dim, keepdim)
        return _PAIRS[op](*pair)
    if self.numel() == 0:
        fail(
            RuntimeError,
            op,
            f"{op}(): Expected reduction dim to be specified for input.numel() == 0",
            tuple(self.shape),
            "an extreme of no elements has no value",
        )
    return (F.amax if op == "max" else F.amin)(self)


@composite(
    "max(Tensor self, any dim=None, bool keepdim=False, *, Tensor? other=None) -> any",
    overload="dim:Tensor=other, other=other, dim=dim",
    file_arguments={"other.dim": "other"},
    quantized="moves",
    quantizers={"fx": "shared"},
    node=lambda result, self, dim, keepdim, other: (
        None if dim is not None or other is not None else "MaxBackward1"
    ),
)
def max_(self, dim, keepdim, other):
    """The largest element; or (values, indices) along `dim`; or, with a tensor, the larger of each
    pair."""
    return _extreme("max", self, dim, keepdim, other)


@composite(
    "min(Tensor self, any dim=None, bool keepdim=False, *, Tensor? other=None) -> any",
    overload="dim:Tensor=other, other=other, dim=dim",
    file_arguments={"other.dim": "other"},
    quantized="moves",
    quantizers={"fx": "shared"},
    node=lambda result, self, dim, keepdim, other: (
        None if dim is not None or other is not None else "MinBackward1"
    ),
)
def min_(self, dim, keepdim, other):
    """The smallest element; or (values, indices) along `dim`; or, with a tensor, the smaller of
    each pair."""
    return _extreme("min", self, dim, keepdim, other)
