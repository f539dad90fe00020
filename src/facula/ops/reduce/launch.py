"""Launching reductions, scans and row programs: geometry, dtypes, and the shapes of results.

Takes tensors of any layout and dtype and the dimensions to go along.
Gives the kernels what they want: contiguous memory read as `[segments, outer, reduce, inner]`, in a
storage dtype that has a kernel; and the results their shapes.
Keeps true: a dense tensor of any order of dimensions is reduced where it lies; others are copied
once.
"""

from __future__ import annotations

from _thread import _local
from collections.abc import Sequence
from math import prod
from typing import Any

from facula import core
from facula.core.errors import dim_hint, fail
from facula.ops.table.registry import F

#: what a dtype is converted to where a kernel does not read it
WIDENED = {
    "b8": core.int32,
    "u8": core.int32,
    "i8": core.int32,
    "i16": core.int32,
    "u16": core.int32,
    "i32": core.int64,
    "u32": core.int64,
    "u64": core.int64,
    "f8e4m3": core.float32,
    "f8e5m2": core.float32,
    "f8e4m3z": core.float32,
    "f8e5m2z": core.float32,
}
#: kernels that have been run, by name and dtype, and the dtypes of what they write and read
_RUN: dict[tuple[str, Any], tuple[Any, tuple[Any, ...]]] = {}
FLOATING = frozenset(("f32", "f64", "bf16", "f16"))


def wrap_dim(op: str, dim: int, ndim: int) -> int:
    """A dimension in [0, ndim) from one in [-ndim, ndim); a 0-d tensor counts as 1-d."""
    n = ndim or 1
    if not -n <= dim < n:
        fail(
            IndexError,
            op,
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})",
            dim,
            hint=dim_hint(ndim),
        )
    return dim % n


def wrap_dims(op: str, dim: Any, ndim: int) -> tuple[int, ...]:
    """Give dims (an int, several, none or None: all) sorted in [0, ndim)."""
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int) or len(dim) == 1:
        wrapped = wrap_dim(op, dim if isinstance(dim, int) else dim[0], ndim)
        return (wrapped,) if ndim else ()
    if not dim:
        return tuple(range(ndim))
    dims = sorted(wrap_dim(op, d, ndim) for d in dim)
    for first, second in zip(dims, dims[1:], strict=False):
        if first == second:
            fail(
                RuntimeError,
                op,
                f"dim {first} appears multiple times in the list of dims",
                dim,
                hint=f"name each dimension once; here -1 and {max(ndim, 1) - 1} are the same",
            )
    return tuple(dims) if ndim else ()


def reduced_shape(shape: Sequence[int], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape without `dims`, or with ones there."""
    if len(dims) == 1:
        d = dims[0]
        return (*shape[:d], 1, *shape[d + 1 :]) if keepdim else (*shape[:d], *shape[d + 1 :])
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def stored(x: core.Tensor, kernel: str) -> Any:
    """The tensor in a dtype that the kernel reads: its own, or the narrowest that holds all values."""
    while not core.has_kernel(f"{kernel}:{x.dtype.code}"):
        target = WIDENED.get(x.dtype.code)
        if target is None:
            fail(
                NotImplementedError,
                kernel,
                f'"{kernel}" not implemented for this dtype: a real number was required',
                x.dtype,
                "reduce the real and the imaginary part: view_as_real(x)",
            )
        x = x.to(target)
    return x


def dense_order(x: core.Tensor) -> tuple[int, ...] | None:
    """The order of dimensions in which `x` is contiguous, or None."""
    strides, shape = x.stride(), x.shape
    order = sorted(range(x.dim()), key=lambda d: (-strides[d], -shape[d]))
    expected = 1
    for d in reversed(order):
        if shape[d] != 1:
            if strides[d] != expected:
                return None
            expected *= shape[d]
    return tuple(order)


def geometry(shape: Sequence[int], reduced: Sequence[bool]) -> tuple[int, int, int, int] | None:
    """(outer, reduce, inner, segments) of contiguous memory, or None where four blocks are not
    enough."""
    runs: list[list[Any]] = []
    for size, flag in zip(shape, reduced, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][0] == flag:
            runs[-1][1] *= size
        else:
            runs.append([flag, size])
    inner = runs.pop()[1] if runs and not runs[-1][0] else 1
    reduce = runs.pop()[1] if runs else 1
    outer = runs.pop()[1] if runs else 1
    segments = runs.pop()[1] if runs else 1
    return None if runs else (outer, reduce, inner, segments)


def run_reduction(
    kernel: str,
    outs: tuple[Any, ...],
    x: core.Tensor,
    dims: tuple[int, ...],
    scalars: tuple[Any, ...] = (),
) -> None:
    """Reduce `x` along `dims` into contiguous `outs` (shape with or without the reduced
    dimensions); what the kernel writes in another dtype is converted."""
    if len(dims) == 1 and x.is_contiguous():
        known = _RUN.get((kernel, x.dtype))
        if known is not None and all(map(_same, outs, known[1])):
            shape, d = x.shape, dims[0]  # the usual call, as short as it can be
            known[0]((*outs, x), (prod(shape[:d]), shape[d], prod(shape[d + 1 :]), 1), scalars)
            return
    x = stored(x, kernel)
    run = core.kernel(f"{kernel}:{x.dtype.code}")
    _, dtypes = _RUN.setdefault((kernel, x.dtype), (run, run.contract.dtypes))
    results = tuple(
        out if out.dtype is dtype else core.empty(out.shape, dtype=dtype)
        for out, dtype in zip(outs, dtypes, strict=False)
    )
    _run_stored(kernel, results, x, dims, scalars)
    for out, result in zip(outs, results, strict=True):
        if result is not out:
            out.copy_(result)


def _same(out: core.Tensor, dtype: core.dtype) -> bool:
    return out.dtype is dtype


def _run_stored(
    kernel: str,
    outs: tuple[Any, ...],
    x: core.Tensor,
    dims: tuple[int, ...],
    scalars: tuple[Any, ...],
) -> None:
    """The same where everything has the dtype of a kernel."""
    ndim = x.dim()
    if x.numel() == 0:
        core.kernel(f"{kernel}:{x.dtype.code}")((*outs, x), (outs[0].numel(), 0, 1, 1), scalars)
        return
    order = tuple(range(ndim)) if x.is_contiguous() else dense_order(x)
    sizes: tuple[int, ...] | None = None
    if order is not None:
        sizes = geometry([x.shape[d] for d in order], [d in dims for d in order])
    if order is None or sizes is None:
        order = (*(d for d in range(ndim) if d not in dims), *dims)
        x = x.permute(order).contiguous()
        sizes = geometry(x.shape, [d in dims for d in order])
    assert sizes is not None, "kept dimensions before reduced ones are two blocks"
    kept = [d for d in order if d not in dims]
    if kept == sorted(kept):
        core.kernel(f"{kernel}:{x.dtype.code}")((*outs, x), sizes, scalars)
        return
    _run_permuted(kernel, outs, x, kept, sizes, scalars)


def _run_permuted(
    kernel: str,
    outs: tuple[Any, ...],
    x: core.Tensor,
    kept: list[int],
    sizes: tuple[int, ...],
    scalars: tuple[Any, ...],
) -> None:
    """The kept dimensions lie in another order: compute in it, and copy the small results."""
    ranked = sorted(kept)
    back = [kept.index(d) for d in ranked]
    sizes_kept = [n for d, n in enumerate(outs[0].shape) if d in ranked]
    if outs[0].dim() == len(kept):
        sizes_kept = list(outs[0].shape)
    lengths = dict(zip(ranked, sizes_kept, strict=True))
    scratch = [core.empty([lengths[d] for d in kept], dtype=out.dtype) for out in outs]
    core.kernel(f"{kernel}:{x.dtype.code}")((*scratch, x), sizes, scalars)
    for out, temporary in zip(outs, scratch, strict=True):
        out.copy_(temporary.permute(back).reshape(out.shape))


def along(x: core.Tensor, dim: int) -> tuple[int, int, int]:
    """(outer, length, inner) of contiguous memory around one dimension."""
    shape = x.shape
    if not shape:
        return 1, 1, 1
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def restore(grad: core.Tensor, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Put the reduced dimensions back as ones."""
    if not keepdim:
        for d in dims:
            grad = grad.unsqueeze(d)
    return grad


def spread(grad: core.Tensor, shape: Sequence[int], dims: tuple[int, ...], keepdim: bool) -> Any:
    """The gradient of a sum: the same value for every element that was added."""
    whole = not keepdim and len(dims) == len(shape)
    return (grad if whole else restore(grad, dims, keepdim)).expand(shape)


def count(shape: Sequence[int], dims: tuple[int, ...]) -> int:
    """How many elements a reduction takes together."""
    return prod(shape[d] for d in dims)


def check_nonempty(op: str, shape: Sequence[int], dims: tuple[int, ...]) -> None:
    """Raise where an extreme of nothing is asked for."""
    for d in dims:
        if shape and shape[d] == 0:
            fail(
                IndexError,
                op,
                f"Expected reduction dim {d} to have non-zero size",
                tuple(shape),
                "an extreme of no elements has no value",
            )


def full(like: core.Tensor | core.TensorMeta, shape: Sequence[int], value: float) -> Any:
    """A tensor of one value, with dtype and device of `like` (a tensor, or what is kept of it)."""
    return F.full(shape, value, dtype=like.dtype, device=like.device)


def transformed() -> bool:
    """Whether a function transform differentiates or maps what runs; one that only rewrites
    programs takes fused operators as they are."""
    return any(not getattr(level, "rewrites", False) for level in core.interpreters())


class _Plainly(_local):
    #: whether a program is noted that has one path, whatever its elements are (`deploy/noting.py`)
    on = False


PLAINLY = _Plainly()


def inside(values: core.Tensor, low: float, high: float) -> bool:
    """Whether no element lies outside of [low, high]; NaN lies nowhere. Kept calls look again; a program that
    has no other path takes them for being inside."""
    if PLAINLY.on:
        return True
    found = core.empty((1,), dtype=core.int64)
    core.kernel(f"outside:{values.dtype.code}")(
        (found, values), (1, values.numel(), 1, 1), (low, high)
    )
    return core.passed(found)
