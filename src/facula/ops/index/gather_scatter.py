"""Operators that compiled graphs call: rows gathered and reduced at once.

Takes a tensor, row numbers in it, a source of rows and their places there. Gives what
`scatter_reduce` of `index_select` gives, without the gathered rows in memory.
Keeps true: contributions arrive in the order of the indices, as there; floating-point numbers only,
16-bit ones (which graphs leave to the two operators) summed in `float32`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.index.axis import REDUCE_KINDS
from facula.ops.index.scatter import reduce_into
from facula.ops.table.registry import F, operator

#: bytes of a row that are worth a thread
_WIDE = 256


def takes_rows(self: Any, index: Any, source: core.Tensor, places: core.Tensor) -> bool:
    """Whether the operator serves tensors of these sizes and dtypes."""
    return (
        self.dtype in (core.float32, core.float64)
        and source.dtype is self.dtype
        and self.dim() >= 2
        and tuple(self.shape[1:]) == tuple(source.shape[1:])
        and index.dim() == places.dim() == 1
        and index.dtype is places.dtype is core.int64
        and index.shape == places.shape
        and index.numel() > 0
    )


def _check(operator: str, index: core.Tensor, size: int) -> None:
    """Raise what the operator that was asked for raises."""
    exception = IndexError if operator == F.index_select.name else RuntimeError
    launch.check_bounds(operator, index, size, 0, exception, negative=False)


def _combine_rows(
    target: core.Tensor, kind: str, index: core.Tensor, source: core.Tensor, places: core.Tensor
) -> None:
    rows, inner = target.shape[0], target.numel() // max(target.shape[0], 1)
    by_row = inner * target.dtype.itemsize < _WIDE * core.get_num_threads()
    source = source.to(target.dtype).contiguous()
    tensors = (target, source, index.contiguous(), places.contiguous())
    core.kernel(f"gather_scatter.{kind}:{target.dtype.code}")(
        tensors,
        (index.numel(), inner, rows, int(by_row)),
        (),
        total=rows if by_row else inner,
        grain=max(rows // 64, 1) if by_row else _WIDE // target.dtype.itemsize,
    )


@operator(
    "_gather_scatter(Tensor self, Tensor index, Tensor source, Tensor places, str reduce, "
    "bool include_self, str gather, str scatter) -> Tensor",
    names=(),
    out=False,
)
class _gather_scatter:
    """A copy of `self` into whose rows `index` the rows `places` of `source` are reduced, as the
    operators `gather` and `scatter` do it."""

    def meta(self, index, source, places, reduce, include_self, gather, scatter):
        vectors = index.dim() == places.dim() == 1 and index.shape == places.shape
        rows = self.dim() >= 1 and source.dim() == self.dim() and self.shape[1:] == source.shape[1:]
        whole = index.dtype is core.int64 and places.dtype is core.int64
        if not (vectors and rows and whole) or self.dtype is not source.dtype:
            fail(
                RuntimeError,
                "_gather_scatter",
                "rows of one size and dtype, and int64 vectors of their numbers",
                [f"{x.dtype}{list(x.shape)}" for x in (self, index, source, places)],
                hint="scatter_reduce() and index_select() take what else there is",
            )
        return core.empty(self.shape, dtype=self.dtype, device=self.device)

    def cpu(out, self, index, source, places, reduce, include_self, gather, scatter):
        _check(gather, places, source.shape[0])
        _check(scatter, index, self.shape[0])

        def combine(target: core.Tensor, kind: str) -> None:
            _combine_rows(target, kind, index, source, places)

        wide = index.reshape((-1, *[1] * (self.dim() - 1))).expand((-1, *self.shape[1:]))
        reduce_into(out, self, 0, wide, reduce, include_self, combine)

    def backward(grad, self, index, source, places, reduce, include_self, result):
        wide = index.reshape((-1, *[1] * (self.dim() - 1))).expand((-1, *self.shape[1:]))
        rows = F.index_select(source, 0, places)
        with_rows = F.scatter_reduce.definition.backward
        grads = with_rows(grad, self, 0, wide, rows, reduce, include_self, result)
        zero = F.zeros(source.shape, dtype=grad.dtype, device=grad.device)
        return grads[0], None, F.index_add(zero, 0, places, grads[2]), None

    def samples(S):
        names = ("index_select", "scatter_reduce")
        for reduce in REDUCE_KINDS:
            yield (S(4, 5), S.index(4, (6,)), S(7, 5), S.index(7, (6,)), reduce, True, *names), {}
