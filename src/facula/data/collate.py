"""Making a batch of samples.

Takes a list of samples: tensors, arrays, numbers, strings, or nestings of them.  Gives the same
nesting of batched tensors.
Keeps true: the kind of every container is kept where it can be; samples must agree in structure and
shape.
"""

from __future__ import annotations

import collections
import copy
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

_STRING_KINDS = re.compile(r"[SaUO]")
#: PyTorch's names of the two, which copies of its collating read
np_str_obj_array_pattern = _STRING_KINDS
_FORMAT_ERROR = default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def _is_array(value: object) -> bool:
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


def _rebuild_mapping(like: Any, items: dict) -> Any:
    """A mapping of the kind of ``like``; a plain dictionary where that cannot be made."""
    try:
        if isinstance(like, collections.abc.MutableMapping):
            clone = copy.copy(like)  # keeps attributes that the constructor would not take
            clone.update(items)
            return clone
        return type(like)(items)
    except TypeError:
        return items


def _rebuild_sequence(like: Any, items: list) -> Any:
    """A sequence of the kind of ``like``; a list where that cannot be made."""
    try:
        if isinstance(like, collections.abc.MutableSequence):
            clone = copy.copy(like)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(like)(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Arrays in a nesting as tensors; everything else as it is.

    Args:
        data: a sample

    Example:
        >>> import numpy
        >>> facula.utils.data.default_convert([numpy.ones(2), "a"])
        [tensor([1., 1.], dtype=facula.float64), 'a']
    """
    if isinstance(data, core.Tensor):
        return data
    if _is_array(data):
        kind = data.dtype.str
        if type(data).__name__ in ("ndarray", "memmap") and _STRING_KINDS.search(kind):
            return data
        return facula.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, {k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(v) for v in data))
    if isinstance(data, tuple):
        return [default_convert(v) for v in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, [default_convert(v) for v in data])
    return data


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable] | None = None) -> Any:
    """Batch samples by the functions of ``collate_fn_map`` (by type), going into containers."""
    element = batch[0]
    kind = type(element)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(element, known):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(element, collections.abc.Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in element
        }
        return _rebuild_mapping(element, columns)
    if isinstance(element, tuple) and hasattr(element, "_fields"):
        return kind(*(collate(c, collate_fn_map=collate_fn_map) for c in zip(*batch, strict=True)))
    if isinstance(element, collections.abc.Sequence):
        if not all(len(sample) == len(element) for sample in batch):
            fail(
                RuntimeError,
                "default_collate",
                "each element in list of batch should be of equal size",
                hint="pass a collate_fn that pads them or keeps lists",
            )
        columns_list = [collate(c, collate_fn_map=collate_fn_map) for c in zip(*batch, strict=True)]
        if isinstance(element, tuple):
            return columns_list
        return _rebuild_sequence(element, columns_list)
    fail(
        TypeError,
        "default_collate",
        _FORMAT_ERROR.format(kind),
        hint="pass a collate_fn that turns them into tensors",
    )


def collate_tensor_fn(batch: Any, *, collate_fn_map: object = None) -> Any:
    """Stack."""
    first = batch[0]
    if first.is_nested or first.layout is not core.strided:
        kind = "nested" if first.is_nested else "sparse"
        fail(
            RuntimeError,
            "default_collate",
            f"batches of {kind} tensors are not currently supported by the default collate_fn",
            hint="pass a collate_fn, such as list",
        )
    for number, tensor in enumerate(batch):
        if not isinstance(tensor, facula.Tensor):
            fail(
                TypeError,
                "default_collate",
                f"a tensor was required as entry {number}, as the first entry is",
                type(tensor).__name__,
                hint="pass a collate_fn, or have the dataset give samples of one kind",
            )
        if tensor.shape != first.shape:
            fail(
                RuntimeError,
                "default_collate",
                (
                    "samples of one shape were required: stack expects each tensor to be equal "
                    f"size, but got {list(first.shape)} at entry 0 and {list(tensor.shape)} at "
                    f"entry {next((i for i, t in enumerate(batch) if t.shape != first.shape))}"
                ),
                hint="pad the samples, or pass a collate_fn",
            )
    return facula.stack(list(batch), 0)


def collate_numpy_array_fn(
    batch: list[Any], *, collate_fn_map: dict[Any, Any] | None = None
) -> Any:
    element = batch[0]
    if _STRING_KINDS.search(element.dtype.str) is not None:
        fail(
            TypeError,
            "default_collate",
            _FORMAT_ERROR.format(element.dtype),
            hint="pass a collate_fn that turns them into tensors",
        )
    return collate([facula.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(
    batch: list[Any], *, collate_fn_map: dict[Any, Any] | None = None
) -> Any:
    return facula.as_tensor(batch)


def collate_float_fn(batch: object, *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    return facula.tensor(batch, dtype=core.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    return facula.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: dict[Any, Any] | None = None) -> Any:
    return batch


default_collate_fn_map: dict[Any, Callable] = {core.Tensor: collate_tensor_fn}


def _with_numpy() -> None:
    """Enter the array types; NumPy itself is loaded by then or not needed."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and numpy.ndarray not in default_collate_fn_map:
        default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
        default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn


default_collate_fn_map[float] = collate_float_fn
default_collate_fn_map[int] = collate_int_fn
default_collate_fn_map[str] = collate_str_fn
default_collate_fn_map[bytes] = collate_str_fn


def default_collate(batch: object) -> Any:
    """Batches samples: tensors are stacked, arrays and numbers become tensors, containers are gone
    into.

    Strings and bytes stay as they are.

    Args:
        batch: a list of samples of one form

    Raises:
        TypeError: a sample is of another kind.
        RuntimeError: sequences are of different lengths.

    Example:
        >>> facula.utils.data.default_collate([{"x": 1, "y": 0.5}, {"x": 2, "y": 1.5}])
        {'x': tensor([1, 2]), 'y': tensor([0.5000, 1.5000], dtype=facula.float64)}
    """
    _with_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
