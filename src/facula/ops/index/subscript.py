"""`x[...]` with tensors, lists and masks: what basic indexing in the core cannot do.

Takes: a tensor and a subscript. Gives: the elements (`advanced`), or writes them (`assign`). Keeps
true: ints, slices, None and Ellipsis are applied first, as views; then one `index` or `index_put_`
with what is left, aligned with the dimensions of that view.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail, message
from facula.ops.table.registry import F

Tensor = core.Tensor


def _is_index_array(item: object) -> bool:
    return isinstance(item, (list, tuple, range)) or (
        hasattr(item, "dtype") and hasattr(item, "shape")
    )


def _as_items(index: Any) -> list[Any]:
    """The subscript as a list: short lists that hold lists, tensors, slices, None or Ellipsis count
    as tuples, as in NumPy of old.
    """
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, list) and len(index) < 32 and any(_stands_alone(item) for item in index):
        text = "Using a non-tuple sequence for multidimensional indexing is deprecated"
        hint = "x[tuple(places)] says the same; x[facula.tensor(places)] takes rows"
        warnings.warn(message("index", text, hint=hint), UserWarning, stacklevel=4)
        return index
    return [index]


def _stands_alone(item: object) -> bool:
    """Whether an item of a list could be an index by itself, and is no number."""
    kinds = (list, tuple, range, Tensor, slice)
    return item is None or item is Ellipsis or isinstance(item, kinds)


def _as_tensor(item: core.Tensor, device: core.device) -> Tensor:
    if isinstance(item, Tensor):
        return item
    made = core.as_tensor(list(item) if isinstance(item, range) else item)
    if made.numel() == 0 and isinstance(item, (list, tuple)):
        made = made.to(core.int64)
    if made.is_floating_point() or made.is_complex():
        fail(
            IndexError,
            "index",
            "tensors used as indices must be long, int, byte or bool tensors",
            made.dtype,
            hint="give ints for places, bools for a mask",
        )
    return made


def _width(item: object) -> int:
    """How many dimensions of the tensor an item takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and item.dtype in (core.bool_, core.uint8):
        return item.dim()
    return 1


def _check_items(self: Tensor, items: list[Any]) -> int:
    """How many dimensions the items take, checked."""
    for item in items:
        if isinstance(item, Tensor) and (item.is_floating_point() or item.is_complex()):
            fail(
                IndexError,
                "index",
                "tensors used as indices must be long, int, byte or bool tensors",
                item.dtype,
                hint="index.long() converts it; index != 0 makes a mask of it",
            )
    if sum(item is Ellipsis for item in items) > 1:
        fail(
            IndexError,
            "index",
            "at most one ellipsis was required (an index can only have a single ellipsis ('...'))",
            hint="write ':' for the other ones",
        )
    taken = sum(_width(item) for item in items)
    if taken > self.dim():
        fail(
            IndexError,
            "index",
            f"too many indices for tensor of dimension {self.dim()}",
            taken,
            hint="None and ... do not count; a mask counts once for each of its dimensions",
        )
    return taken


def _split(self: Tensor, index: Any) -> tuple[Tensor, list[Any]]:
    """The view by the basic items, and the tensors that then index its dimensions (None where there
    is none).
    """
    items = [
        _as_tensor(item, self.device)
        if not isinstance(item, (bool, slice)) and _is_index_array(item)
        else item
        for item in _as_items(index)
    ]
    taken = _check_items(self, items)
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    basic: list[Any] = []
    tensors: list[Any] = []
    for item in items:
        if item is Ellipsis:
            rest = self.dim() - taken
            basic += [slice(None)] * rest
            tensors += [None] * rest
        elif isinstance(item, bool):
            basic.append(None)
            tensors.append(core.tensor([item], dtype=core.bool_, device=self.device))
        elif item is None:
            basic.append(None)
            tensors.append(None)
        elif isinstance(item, slice):
            basic.append(item)
            tensors.append(None)
        elif isinstance(item, Tensor):
            _split_tensor(item, basic, tensors)
        else:
            basic.append(item.__index__() if hasattr(item, "__index__") else item)
    while tensors and tensors[-1] is None:
        tensors.pop()
    whole = tensors and all(isinstance(item, slice) and item == slice(None) for item in basic)
    return (self if whole else F.basic_index(self, tuple(basic))), tensors


def _split_tensor(item: Tensor, basic: list[Any], tensors: list[Any]) -> None:
    """Add a tensor to the basic items and the tensors."""
    if item.dim() == 0 and item.dtype in (core.bool_, core.uint8):
        basic.append(None)
        tensors.append(item.reshape(1).to(core.bool_))
    elif item.dim() == 0 and _has_a_number(item):
        basic.append(int(item))
    else:
        basic += [slice(None)] * _width(item)
        tensors.append(item)


def _has_a_number(item: Tensor) -> bool:
    """Whether a 0-d tensor is one number: on `meta`, and under `vmap`, it is not."""
    return not (item.is_meta or getattr(type(item), "_is_transform_wrapper", False))


def advanced(self: Tensor, index: Any) -> Tensor:
    """The elements that a subscript with tensors, lists or masks addresses: a copy."""
    view, tensors = _split(self, index)
    if not tensors:
        return view
    return F.index(view, tensors)


def assign(self: Tensor, index: Any, value: Any) -> None:
    """Write to the elements that a subscript addresses."""
    view, tensors = _split(self, index)
    if not isinstance(value, Tensor):
        value = core.tensor(value, dtype=self.dtype, device=self.device)
    if not tensors:
        while value.dim() > view.dim() and value.shape[0] == 1:
            value = value.squeeze(0)
        view.copy_(value)
        return
    if value.dtype is not view.dtype and value.dim() == 0:
        value = value.to(view.dtype)
    view.index_put_(tuple(tensors), value)


core.INDEXING[1] = advanced
core.INDEXING[2] = assign
