"""Nested tensors in files: what stands for one in PyTorch's checkpoints, and one from that.

Takes nested tensors, or the parts that a file names. Gives ordinary tensors and numbers, or nested tensors.
Keeps true: parts that do not fit each other are an error; no entry reaches beyond the elements of the file.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.core.errors import fail

from .tensor import NestedTensor, packed


def _refuse(text: str) -> Any:
    return fail(
        TypeError, "load", text, "others", hint="the file is damaged; fetch or save it again"
    )


def parts_of(x: NestedTensor) -> tuple[Any, ...]:
    """What a file has of one: of layout strided four tensors, of layout jagged one dictionary."""
    if x._form is core.strided:
        shapes = x._nested_tensor_size(), x._nested_tensor_strides()
        return (x._values.detach().reshape(-1), *shapes, x._nested_tensor_storage_offsets())
    rows = [row.detach() for row in x._rows()]
    values = facula.cat(rows, dim=x._ragged_idx - 1) if rows else x._values.detach()
    return (
        {
            "values": values,
            "offsets": x.offsets(),
            "lengths": None,
            "_ragged_idx": x._ragged_idx,
            "_metadata_cache": {},
            "requires_grad": x.requires_grad,
        },
    )


def strided(buffer: Any, sizes: Any, strides: Any, storage_offsets: Any) -> NestedTensor:
    """One of layout strided: entries of a buffer.

    Raises:
        TypeError: a part is no tensor, or not one of numbers that fit each other.
        RuntimeError: an entry lies beyond the buffer.
    """
    given = (buffer, sizes, strides, storage_offsets)
    if not all(isinstance(v, core.Tensor) for v in given) or tuple(sizes.shape) != tuple(
        strides.shape
    ):
        _refuse("a nested tensor is made of a buffer, sizes, strides and offsets")
    geometry = zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist(), strict=True)
    rows = [buffer.as_strided(size, stride, start) for size, stride, start in geometry]
    return packed(rows, core.strided)


def jagged(state: Any) -> NestedTensor:
    """One of layout jagged.

    Raises:
        TypeError: a part is missing, or of another kind.
        RuntimeError: an entry lies beyond the values.
    """
    given: dict[str, Any] = state if isinstance(state, dict) else {}
    values, offsets = given.get("values"), given.get("offsets")
    if not isinstance(values, core.Tensor) or not isinstance(offsets, core.Tensor):
        return _refuse("a nested tensor is made of values and offsets")
    ragged, lengths = given.get("_ragged_idx", 1), given.get("lengths")
    if type(ragged) is not int or not 1 <= ragged <= values.dim():
        _refuse("the ragged dimension is one of the values'")
    starts = offsets.tolist()
    counts = offsets.diff().tolist() if lengths is None else lengths.tolist()
    begins = starts[:-1] if lengths is None else starts[: len(counts)]
    rows = [values.narrow(ragged - 1, a, n) for a, n in zip(begins, counts, strict=True)]
    made = packed(rows, core.jagged, ragged)
    return made.requires_grad_(bool(given.get("requires_grad", False)))
