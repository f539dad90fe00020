"""`facula.nested`: batches of tensors of different lengths, without padding.

Takes: lists of tensors, or values with offsets. Gives: `nested_tensor`, `as_nested_tensor`,
`nested_tensor_from_jagged`, `to_padded_tensor`, `narrow`, `masked_select`.
Keeps true: a nested tensor is one tensor of all rows with the offsets of its entries; operators work on
these rows, so that padding costs nothing and gradients are those of the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail

from . import rules, shaping  # noqa: F401  (they fill the table of operators)
from .ragged import ragged_of
from .tensor import NestedTensor, packed

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip

Tensor = core.Tensor


def _checked_layout(layout: core.layout | None) -> Any:
    found = core.strided if layout is None else layout
    if found not in (core.strided, core.jagged):
        fail(
            RuntimeError,
            "nested_tensor",
            "layout strided or jagged was required",
            layout,
            hint="layout=facula.jagged has one ragged dimension, behind the batch",
        )
    return found


def as_nested_tensor(
    ts: object,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
    layout: core.layout | None = None,
) -> NestedTensor:
    """A nested tensor of the elements of tensors; gradients flow to them.

    Args:
        ts: a list of tensors, a tensor (its first dimension is the batch), or a nested tensor
        dtype: of the elements; None for theirs
        device: where it lies; None where they do
        layout: `strided` or `jagged`

    Raises:
        TypeError: something else is given.

    Example:
        >>> rows = [facula.ones(2, requires_grad=True), facula.ones(3, requires_grad=True)]
        >>> facula.nested.as_nested_tensor(rows, layout=facula.jagged).sum().backward()
        >>> rows[1].grad
        tensor([1., 1., 1.])
    """
    if isinstance(ts, NestedTensor):
        if layout not in (None, ts.layout):
            fail(
                RuntimeError,
                "as_nested_tensor",
                f"layout {ts.layout} was required (Converting between nested tensor layouts is not supported)",
                layout,
                hint="as_nested_tensor(list(x.unbind()), layout=...) makes another one of the entries",
            )
        same: Any = ts if dtype is None or dtype is ts.dtype else ts.to(dtype)
        return same
    if isinstance(ts, Tensor):
        if ts.dim() < 2:
            fail(
                RuntimeError,
                "as_nested_tensor",
                "two dimensions or more were required (as_nested_tensor(): Expected tensor argument to have dim() > 1)",
                ts.dim(),
                hint="the first dimension is the batch; pass a list of tensors otherwise",
            )
        return _of_dense(ts.to(device=device, dtype=dtype), _checked_layout(layout))
    if not isinstance(ts, (list, tuple)) or not all(isinstance(t, Tensor) for t in ts):
        fail(
            TypeError,
            "as_nested_tensor",
            "a list of tensors was required (as_nested_tensor(): Expected first argument to be a "
            "tensor or a list / tuple of tensors)",
            type(ts).__name__,
            hint="nested_tensor takes lists of numbers too",
        )
    parts = [t.to(device=device, dtype=dtype) if dtype or device else t for t in ts]
    return _with_base(packed(parts, _checked_layout(layout)))


def _with_base(x: NestedTensor) -> NestedTensor:
    """As PyTorch sees it, a tensor of layout jagged is a view of its rows."""
    if x._form is core.jagged:
        rows = x._values
        x._viewed = rows._base if rows._is_view() else rows
    return x


def _of_dense(x: Tensor, layout: Any) -> NestedTensor:
    """The entries of a dense batch, on its memory where it is contiguous."""
    lengths = (x.shape[1],) * x.shape[0]
    rows = x.reshape(-1, *x.shape[2:])
    made = NestedTensor.make(rows, [(n, *x.shape[2:]) for n in lengths], layout)
    made._viewed = x if rows._is_view() else None
    return made if made._viewed is not None else _with_base(made)


def nested_tensor(
    tensor_list: object,
    *,
    dtype: core.dtype | None = None,
    layout: core.layout | None = None,
    device: core.device | str | int | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A nested tensor with a copy of the elements: a leaf of its own.

    Args:
        tensor_list: tensors or lists of numbers, one entry of the batch each
        dtype: of the elements; None for theirs
        layout: `strided` or `jagged`
        device: where it lies
        requires_grad: whether it asks for gradients
        pin_memory: kept for PyTorch's API

    Raises:
        TypeError: no list is given.

    Example:
        >>> batch = facula.nested.nested_tensor([facula.ones(2, 3), facula.ones(4, 3)])
        >>> [entry.shape[0] for entry in batch.unbind()]
        [2, 4]
    """
    if not isinstance(tensor_list, (list, tuple)):
        fail(
            TypeError,
            "nested_tensor",
            "a list was required (nested_tensor(): argument 'tensor_list' must be a list)",
            type(tensor_list).__name__,
            hint="pass [a, b, ...], one entry of the batch each",
        )
    parts = [
        t.detach() if isinstance(t, Tensor) else core.as_tensor(t, dtype=dtype) for t in tensor_list
    ]
    found = as_nested_tensor(parts, dtype, device, layout)
    return _with_base(found._with(found._values.detach().clone().requires_grad_(requires_grad)))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A nested tensor (layout jagged) of rows and where entries begin; gradients flow to the rows.

    Args:
        values: the rows of all entries behind each other
        offsets: where each entry begins, and the last one ends
        lengths: how many rows each entry has, in place of `offsets`, or where there are gaps
        jagged_dim: 1, the only one
        min_seqlen, max_seqlen: the least and the greatest length, where they are known

    Raises:
        RuntimeError: neither `offsets` nor `lengths` are given.
        NotImplementedError: `jagged_dim` is another one.

    Example:
        >>> rows = facula.arange(10.0).reshape(5, 2)
        >>> batch = facula.nested.nested_tensor_from_jagged(rows, facula.tensor([0, 2, 5]))
        >>> batch.unbind()[1].shape
        facula.Size([3, 2])
    """
    if offsets is None and lengths is None:
        fail(
            RuntimeError,
            "nested_tensor_from_jagged",
            "offsets or lengths were required (At least one of offsets or lengths is required.)",
            "neither",
            hint="offsets are [0, length of the first, length of both, ...]",
        )
    if jagged_dim not in (None, 1):
        fail(
            NotImplementedError,
            "nested_tensor_from_jagged",
            "jagged_dim 1 was required",
            jagged_dim,
            hint="move the ragged dimension to the front of values",
        )
    counts, ends = _numbers(lengths), _numbers(offsets)
    if ends is None:
        ends = [0, *itertools.accumulate(counts or ())]
    spans = list(zip(ends, ends[1:], strict=False))
    if counts is not None and offsets is not None:
        rows = [values.narrow(0, a, n) for (a, _), n in zip(spans, counts, strict=True)]
        return _with_base(packed(rows, core.jagged))
    if any(b < a for a, b in spans) or (ends and ends[-1] > values.shape[0]) or ends[0] < 0:
        fail(
            RuntimeError,
            "nested_tensor_from_jagged",
            f"offsets that grow from 0 to {values.shape[0]} were required",
            ends,
            hint="offsets have one number more than there are entries",
        )
    if ends[0] or ends[-1] != values.shape[0]:
        values = values[ends[0] : ends[-1]]
    shapes = [(b - a, *values.shape[1:]) for a, b in spans]
    made = NestedTensor.make(values, shapes, core.jagged)
    made._lengths_of_entries = ragged_of(offsets, tuple([s[0] for s in shapes]))
    return _with_base(made)


#: compiled programs are told these tensors' numbers, and are compiled for them
nested_tensor_from_jagged._facula_reads = ("offsets", "lengths")  # type: ignore[attr-defined]


def _numbers(given: Any) -> list[int] | None:
    """A tensor's numbers, or these themselves."""
    return given.tolist() if isinstance(given, Tensor) else given


def to_padded_tensor(
    input: core.Tensor, padding: float, output_size: Sequence[int] | None = None, out: Any = None
) -> Tensor:
    """A dense tensor: entries are filled up with `padding` to the longest one, or to `output_size`.

    Args:
        input: a nested tensor
        padding: what stands where an entry has no element
        output_size: the whole shape; None for that of the longest entries
        out: where the result goes; None for a new tensor

    Example:
        >>> batch = facula.nested.nested_tensor([facula.ones(1), facula.ones(3)])
        >>> facula.nested.to_padded_tensor(batch, 0.0)
        tensor([[1., 0., 0.],
                [1., 1., 1.]])
    """
    found = input.to_padded_tensor(padding, output_size)
    return found if out is None else out.copy_(found)


def narrow(
    tensor: Tensor, dim: int, start: object, length: Tensor, layout: core.layout | None = None
) -> NestedTensor:
    """A part of each entry of a dense batch along dimension 1: from `start` on, `length` long.

    Args:
        tensor: `[batch, rows, ...]`
        dim: 1, the only one
        start: a number, or one for each entry
        length: the same
        layout: `strided` or `jagged`

    Raises:
        RuntimeError: `dim` is another one.

    Example:
        >>> rows = facula.arange(6).reshape(2, 3)
        >>> part = facula.nested.narrow(rows, 1, 0, facula.tensor([1, 2]), layout=facula.jagged)
        >>> [entry.tolist() for entry in part.unbind()]
        [[0], [3, 4]]
    """
    if dim != 1:
        fail(
            RuntimeError,
            "nested.narrow",
            "dim 1 was required (jagged layout only supports dim=1)",
            dim,
            hint="move the dimension behind the batch",
        )
    count = tensor.shape[0]
    starts = start.tolist() if isinstance(start, Tensor) else [start] * count
    lengths = length.tolist() if isinstance(length, Tensor) else [length] * count
    rows = [tensor[k].narrow(0, starts[k], lengths[k]) for k in range(count)]
    return packed(rows, _checked_layout(layout))


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The entries of a dense batch at True, row by row.

    Args:
        tensor: `[batch, ...]`
        mask: booleans of its shape

    Example:
        >>> x = facula.tensor([[1, 2, 3], [4, 5, 6]])
        >>> [row.tolist() for row in facula.nested.masked_select(x, x > 2).unbind()]
        [[3], [4, 5, 6]]
    """
    wanted = mask.expand(tensor.shape)
    rows = [tensor[k][wanted[k]] for k in range(tensor.shape[0])]
    return packed(rows, core.jagged)
