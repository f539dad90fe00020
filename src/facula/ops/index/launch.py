"""Launching the gather and scatter kernels: geometry, checks of indices, accumulation dtypes.

Takes shapes and strides of the index, the addressed tensor and the other side (the result of a
gather, the source of a
scatter); drops and merges dimensions, chooses how the work is split, and calls the kernel.
Keeps true: indices are checked before anything is read or written; results do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail

#: dtype code of the kernel that adds, multiplies or compares elements of a dtype; "" where it works
#: in f32 or c64
ARITHMETIC = {
    "f32": "f32",
    "f64": "f64",
    "i64": "i64",
    "i32": "i32",
    "i16": "i16",
    "i8": "i8",
    "u8": "u8",
    "b8": "u8",
    "c64": "c64",
    "c128": "c128",
    "u16": "i16",
    "u32": "i32",
    "u64": "i64",
}
#: what compares may not take the signed kernel of the same bits
UNSIGNED = ("u16", "u32", "u64")
#: on bool, adding is `or` and multiplying is `and`
BOOL_KINDS = {"add": "max", "mul": "min", "max": "max", "min": "min"}
SERIAL = 32768
STREAM_BYTES = 48 << 20


def size_code(dtype: core.dtype) -> str:
    """Name the kernels that move elements of this dtype: b1 b2 b4 b8 b16."""
    return f"b{dtype.itemsize}"


def check_index_dtype(
    op: str,
    index: Any,
    exception: type[Exception] = RuntimeError,
    wanted: str = "Expected dtype int32/int64 for index",
) -> None:
    """Raise unless the index is int32 or int64."""
    if index.dtype is not core.int64 and index.dtype is not core.int32:
        fail(
            exception,
            op,
            wanted,
            index.dtype,
            "convert it with .long()",
        )


def index64(op: str, index: core.Tensor, exception: type[Exception] = RuntimeError) -> Any:
    """Give the index as int64; it must be int32 or int64."""
    if index.dtype is core.int64:
        return index
    check_index_dtype(op, index, exception)
    return index.to(core.int64)


def check_bounds(
    op: str,
    index: core.Tensor,
    size: int,
    dim: int,
    exception: type[Exception] = IndexError,
    negative: bool = True,
) -> None:
    """Raise unless every index is below `size`, and at least -size (or 0, when `negative` is not
    allowed).
    """
    for d, step in enumerate(index.stride()):
        if step == 0 and index.shape[d] > 1:
            index = index.narrow(d, 0, 1)
    count = index.numel()
    if count == 0:
        return
    index = index.to(core.int64).contiguous()
    bad = core.empty((1,), dtype=core.int64)
    low = -size if negative else 0
    core.kernel("index.check")((bad, index), (low, size, count), ())
    if index.is_meta:  # the check was taken into a program
        return
    if not core.passed(bad):
        out_of_bounds(op, index, bad.item(), size, dim, exception, low)


def within(index: core.Tensor, size: int) -> bool:
    """Whether all indices of a tensor are in [0, size); where not, the caller raises."""
    index = index.to(core.int64).contiguous()
    bad = core.empty((1,), dtype=core.int64)
    core.kernel("index.check")((bad, index), (0, size, index.numel()), ())
    return index.is_meta or core.passed(bad)  # of a tensor without elements a program has the check


def out_of_bounds(
    op: str,
    index: Any,
    position: int,
    size: int,
    dim: int,
    exception: type[Exception],
    low: int,
    theirs: str = "",
) -> None:
    """Raise for the index at a flat position; `theirs`: PyTorch's words for it."""
    if size == 0:
        fail(
            exception,
            op,
            f"a dimension of at least one element was required at {dim}: index is out of bounds "
            "for dimension with size 0",
            hint="no index fits an empty dimension: look at x.numel() first",
        )
    value = index.reshape(-1)[position].item()
    if low == 0 and exception is IndexError:
        theirs = " (index out of range in self)"
    fail(
        exception,
        op,
        f"index {value} is out of bounds for dimension {dim} with size {size}{theirs}",
        None,
        f"indices lie in [{low}, {size - 1}]",
    )


def take_rows(
    op: str,
    result: object,
    source: core.Tensor,
    index: Any,
    dim: int,
    negative: bool,
    exception: type[Exception] = IndexError,
) -> None:
    """result[o, i, :] = source[o, index[i], :] along `dim`; result and source are contiguous."""
    shape = source.shape
    size, count = shape[dim], index.numel()
    if count == 0:
        return
    outer = product(shape[:dim]) if dim else 1
    inner = product(shape[dim + 1 :])
    low = -size if negative else 0
    bad = core.empty((1,), dtype=core.int64)
    core.kernel(f"rows:b{source.dtype.itemsize}")(
        (result, source, index, bad), (outer, size, inner, count, low), ()
    )
    if not core.passed(bad):
        theirs = " (INDICES element is out of DATA bounds)" if exception is RuntimeError else ""
        out_of_bounds(op, index, bad.item(), size, dim, exception, low, theirs)


def merge(
    dim: int, shape: Sequence[int], *strides: Sequence[int]
) -> tuple[int, list[int], list[list[int]]]:
    """Drop dimensions of size 1 and join neighbours that are one in every operand; `dim` stays, and
    2 or more remain.
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    at, last_free = -1, False
    for d, size in enumerate(shape):
        if d == dim:
            at, last_free = len(sizes), False
        elif size == 1:
            continue
        elif last_free and all(s[-1] == t[d] * size for s, t in zip(steps, strides, strict=True)):
            sizes[-1] *= size
            for s, t in zip(steps, strides, strict=True):
                s[-1] = t[d]
            continue
        else:
            last_free = True
        sizes.append(size)
        for s, t in zip(steps, strides, strict=True):
            s.append(t[d])
    while len(sizes) < 2:  # speed only: more do as well
        sizes.insert(0, 1)
        at += 1
        for s in steps:
            s.insert(0, 0)
    return at, sizes, steps


def product(sizes: Sequence[int]) -> int:
    n = 1
    for size in sizes:
        n *= size
    return n


def gather(
    result: core.Tensor,
    source: core.Tensor,
    index: core.Tensor,
    dim: int,
    shape: Sequence[int],
    index_strides: Sequence[int],
    source_strides: Sequence[int],
    result_strides: Sequence[int],
    extent: int,
) -> None:
    """result[x] = source[x with coordinate `dim` replaced by index[x]] over `shape`; negative
    indices add `extent`.
    """
    total = product(shape)
    if total == 0:
        return
    at, sizes, steps = merge(dim, shape, index_strides, source_strides, result_strides)
    rows, length = total // sizes[-1], sizes[-1]
    split = 1 if rows < 4 and length > SERIAL else 0
    streaming = int(total * result.dtype.itemsize >= STREAM_BYTES)
    core.kernel("gather:" + size_code(source.dtype))(
        (result, source, index),
        (len(sizes), at, extent, split, streaming, *sizes, *steps[0], *steps[1], *steps[2]),
        (),
        total=length if split else rows,
        grain=SERIAL if split else max(1, SERIAL // length),
    )


def scatter(
    kind: str,
    target: core.Tensor,
    source: core.Tensor,
    index: core.Tensor,
    dim: int,
    shape: Sequence[int],
    index_strides: Sequence[int],
    target_strides: Sequence[int],
    source_strides: Sequence[int],
    extent: int,
) -> None:
    """target[x with coordinate `dim` replaced by index[x]] = or op= source[x] over `shape`; kind:
    set add mul max min.

    Later sources win, or are added in order: a thread owns outer places, columns, or a range of
    index values.
    """
    total = product(shape)
    if total == 0:
        return
    at, sizes, steps = merge(dim, shape, index_strides, target_strides, source_strides)
    outer, length = product(sizes[:at]), sizes[-1]
    if total <= SERIAL or outer >= 8:
        split, items, grain = 0, outer, max(1, SERIAL * outer // total)
    elif at != len(sizes) - 1 and length * target.dtype.itemsize >= 256:
        split, items, grain = 1, length, max(1, 128 // target.dtype.itemsize)
    elif extent > 1:
        split, items, grain = 2, extent, max(1, extent // 64)
    else:
        split, items, grain = 0, outer, outer
    kernel = core.kernel(_scatter_kernel(kind, target.dtype))
    worked = kernel.contract.dtypes[0]
    if worked is not None and worked is not target.dtype:  # the same bits in another dtype
        target, source = target.view(worked), source.view(worked)
    kernel(
        (target, source, index),
        (len(sizes), at, extent, split, 0, *sizes, *steps[0], *steps[1], *steps[2]),
        (),
        total=items,
        grain=grain,
    )


def _scatter_kernel(kind: str, dtype: core.dtype) -> str:
    if kind == "set":
        return "scatter.set:" + size_code(dtype)
    if dtype.code == "b8":
        kind = BOOL_KINDS[kind]
    if kind in ("max", "min") and dtype.code in UNSIGNED:
        return f"scatter.{kind}:{dtype.code}"
    return f"scatter.{kind}:{ARITHMETIC[dtype.code]}"


def accumulation_dtype(dtype: core.dtype) -> Any:
    """Give the dtype in which contributions of this dtype are added: half precision adds in
    float32.
    """
    if dtype.code in ARITHMETIC:
        return dtype
    return core.complex64 if dtype.is_complex else core.float32


def axis_strides(dim: int, ndim: int, stride: int) -> list[int]:
    """Strides of a one-dimensional index that runs along `dim` of an ndim-dimensional space."""
    strides = [0] * ndim
    strides[dim] = stride
    return strides


def broadcast_shapes(op: str, *shapes: Sequence[int]) -> tuple[int, ...]:
    """Give the shape to which all shapes broadcast."""
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for d, size in enumerate(shape, ndim - len(shape)):
            if size != 1 and result[d] not in (1, size):
                fail(
                    RuntimeError,
                    op,
                    f"The size of tensor a ({result[d]}) must match the size of tensor b ({size}) "
                    "at non-singleton "
                    f"dimension {d}",
                    hint="sizes must be equal or 1, from the last dimension on; unsqueeze() adds a "
                    "size of 1",
                )
            result[d] = size if size != 1 else result[d]
    return tuple(result)


def int_limits(dtype: core.dtype) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype."""
    bits = 8 * dtype.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
