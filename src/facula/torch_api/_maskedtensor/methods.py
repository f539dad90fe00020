"""Layouts of masked tensors, and what the core does without definitions: indexing, copies, writes.

Takes: masked tensors. Gives: entries of the tables of rules.
Keeps true: in a sparse layout a masked tensor stores the places where its mask says that elements count.
"""

from __future__ import annotations

from typing import Any

from facula import core

from .arguments import BELOW, METHODS, masked_in, over, refuse, rule
from .core import is_masked_tensor, strided_only, wrapped
from .masks import common_mask


@rule("to_dense")
def to_dense(self: Any, dtype: core.dtype | None = None, masked_grad: object = None) -> Any:
    if not self.is_sparse:
        return self
    return wrapped(self.get_data().to_dense(), self.get_mask().to_dense())


def _to_layout(masked: Any, layout: core.layout | None) -> Any:
    """What counts is stored."""
    if masked.layout is layout:
        return masked
    if masked.is_sparse:
        masked = to_dense(masked)
    mask = masked.get_mask().to_sparse(layout=layout)
    mask = mask.coalesce() if layout is core.sparse_coo else mask
    return wrapped(masked.get_data().sparse_mask(mask), mask)


@rule("to_sparse")
def _to_sparse(
    self: Any, sparse_dim: object = None, layout: core.layout | None = None, *rest: object
) -> Any:
    return _to_layout(self, layout or core.sparse_coo)


@rule("to_sparse_coo")
def _to_sparse_coo(self: Any) -> Any:
    return _to_layout(self, core.sparse_coo)


@rule("to_sparse_csr")
def _to_sparse_csr(self: Any, dense_dim: object = None) -> Any:
    return _to_layout(self, core.sparse_csr)


# ------------------------------------------------------------------ what the core does without definitions
#: indexing and `contiguous` give results with history; the others run below the tape


@rule("__getitem__", table=METHODS)
def _getitem(self: Any, index: object) -> Any:
    plain = over(index, lambda m: m.get_data())
    return wrapped(self.get_data()[plain], self.get_mask()[plain])


@rule("contiguous", table=METHODS)
def _contiguous(self: Any, *, memory_format: core.memory_format = core.contiguous_format) -> Any:
    strided_only(self, "is_contiguous")
    options = {"memory_format": memory_format}
    return wrapped(self.get_data().contiguous(**options), self.get_mask().contiguous(**options))


@rule("_to_copy", table=BELOW)
def _to_copy(
    self: Any,
    *,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
    **rest: object,
) -> Any:
    data = self._masked_data.to(device=device, dtype=dtype, copy=True)
    return wrapped(data, self._masked_mask.to(device=device, copy=True))


@rule("fill_", table=BELOW)
def _fill(self: Any, value: object) -> Any:
    target = self._masked_data.values() if self.is_sparse else self._masked_data
    target.fill_(value)
    return self


@rule("zero_", table=BELOW)
def _zero(self: Any) -> Any:
    return _fill(self, 0)


@rule("copy_", table=BELOW)
def _copy(self: Any, source: Any, non_blocking: bool = False) -> Any:
    if not is_masked_tensor(self):
        refuse("copy_", "a masked tensor as what is written to was required", "an ordinary one")
    common_mask("copy_", masked_in((self, source)), self.shape)
    self._masked_data.copy_(source._masked_data if is_masked_tensor(source) else source)
    return self
