"""Operators that find distinct values: `unique`, `unique_consecutive`.

Takes any real tensor; gives the distinct values (or slices along `dim`), where each input went, and
how many there are.
Keeps true: `unique` is always sorted; results have data-dependent shapes and no gradient.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.index.search import searchable
from facula.ops.reduce.launch import wrap_dim
from facula.ops.reduce.sort import check_ordered, sortable
from facula.ops.table.registry import F, composite, operator


@operator("_run_starts(Tensor rows) -> Tensor", names=(), inplace=False, out=False)
class _run_starts:
    """Mark where a row [rows, length] differs from the one before; the first one always does."""

    def meta(rows):
        return core.empty((rows.shape[0],), dtype=core.bool_, device=rows.device)

    def cpu(mark, rows):
        count = rows.shape[0]
        if count:
            mark.narrow(0, 0, 1).fill_(True)
        if count > 1:
            if rows.numel() == 0:
                mark.narrow(0, 1, count - 1).fill_(False)
            else:
                rows = searchable("unique", rows)
                core.kernel("runs:" + rows.dtype.code)(
                    (mark, rows), (rows.numel() // count,), (), total=count - 1, grain=8192
                )

    def samples(S):
        yield (S(5, 2, dtype=core.int64),), {}


@operator("_row_order(Tensor rows) -> Tensor", names=(), inplace=False, out=False)
class _row_order:
    """Positions that sort rows lexicographically."""

    def meta(rows):
        return core.empty((rows.shape[0],), dtype=core.int64, device=rows.device)

    def cpu(order, rows):
        code, source = sortable(rows)
        shape = (rows.shape[0], rows.shape[1])
        core.kernel(f"lexsort:{code}")((order, source.contiguous()), shape, ())

    def samples(S):
        yield (S(5, 2, dtype=core.int64),), {}


def _groups(rows: core.Tensor, numbered: bool) -> tuple[Any, Any, Any]:
    """First row of each run, the run number of each row (on request), the length of each run."""
    mark = F._run_starts(rows)
    first = F._nonzero(mark).reshape(-1)
    number = mark.cumsum(0) - 1 if numbered else None
    if rows.shape[0] == 0:
        return first, number, first
    end = F.full((1,), rows.shape[0], dtype=core.int64, device=rows.device)
    counts = F.cat((first.narrow(0, 1, first.shape[0] - 1), end)) - first
    return first, number, counts


def _rows(op: str, self: Any, dim: int | None) -> tuple[Any, Any]:
    """What is compared: one value a row, or one flattened slice a row; and the slices in their own
    shape.
    """
    if dim is None:
        flat = self.reshape(-1)
        return flat.reshape((-1, 1)), flat
    moved = self.movedim(wrap_dim(op, dim, self.dim()), 0).contiguous()
    length = launch.product(moved.shape[1:])
    if length == 0 and moved.shape[0]:
        fail(
            RuntimeError,
            op,
            "there are sizes of 0 besides the chosen dimension, so unique cannot be applied",
            list(self.shape),
            hint="there is nothing to compare in an empty tensor: look at x.numel() first",
        )
    return moved.reshape((moved.shape[0], length)), moved


def _order(rows: core.Tensor) -> Any:
    """Positions that sort the rows lexicographically."""
    if rows.shape[-1] == 1:
        return F.sort(rows.reshape(-1))[1]
    return F._row_order(rows)


def _distinct(
    op: str, self: Any, dim: int | None, ordered: bool, numbered: bool
) -> tuple[Any, Any, Any]:
    """Distinct values, the number of each input (on request) and the counts."""
    check_ordered(op, self)
    if self.device.type == "meta":
        fail(
            NotImplementedError,
            op,
            "a tensor with values was required: the result's shape depends on them",
            hint="make the tensor on the cpu: a meta tensor has a shape only",
        )
    self = self.detach()
    rows, slices = _rows(op, self, dim)
    if not ordered:
        first, inverse, counts = _groups(rows, numbered)
        values = F.index_select(slices, 0, first)
    else:
        if dim is None:
            in_order, order = F.sort(slices)
            first, number, counts = _groups(in_order.reshape((-1, 1)), numbered)
            values = F.index_select(in_order, 0, first)
        else:
            order = _order(rows)
            first, number, counts = _groups(F.index_select(rows, 0, order), numbered)
            values = F.index_select(slices, 0, F.index_select(order, 0, first))
        inverse = F.scatter(core.empty_like(number), 0, order, number) if numbered else None
    if dim is None:
        return values, inverse.reshape(self.shape) if numbered else None, counts
    return values.movedim(0, wrap_dim(op, dim, self.dim())), inverse, counts


def _chosen(results: tuple[Any, Any, Any], inverse: bool, counts: bool) -> Any:
    picked = [results[0]] + [results[1]] * inverse + [results[2]] * counts
    return picked[0] if len(picked) == 1 else tuple(picked)


@composite(
    "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, "
    "int? dim=None) -> any",
    out=False,
    inlined=True,
    home="functional.unique",
)
def unique(self, sorted, return_inverse, return_counts, dim):
    """The distinct values in order (slices along `dim`), on request with the number of each input
    and the counts.
    """
    return _chosen(
        _distinct("unique", self, dim, True, return_inverse), return_inverse, return_counts
    )


@composite(
    "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? "
    "dim=None) -> any",
    out=False,
    home="functional.unique_consecutive",
)
def unique_consecutive(self, return_inverse, return_counts, dim):
    """The values with consecutive repeats dropped, on request with the run of each input and the
    run lengths.
    """
    return _chosen(
        _distinct("unique_consecutive", self, dim, False, return_inverse),
        return_inverse,
        return_counts,
    )
