"""Helpers that PyTorch keeps in `torch._utils` and that training libraries call.

Takes: tensors, names, devices. Gives: many tensors as one and back, how tensors are made of what a file holds,
the number of a device, the exception that goes between processes.
Keeps true: what a list of tensors is packed into is a copy, what it is unpacked into are views of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate
from types import ModuleType
from typing import Any

import facula
from facula import core
from facula.core.errors import fail, no_attribute
from facula.data.worker import ExceptionWrapper, KeyErrorMessage
from facula.serialization import rebuild

from . import accelerator

__all__ = ["ExceptionWrapper", "KeyErrorMessage", "classproperty"]

_accumulate = accumulate


class classproperty:  # noqa: N801 - PyTorch's name
    """A property of a class: read on the class itself."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget if isinstance(fget, (classmethod, staticmethod)) else classmethod(fget)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.fget.__get__(instance, owner or type(instance))()


def _import_dotted_name(name: str) -> Any:
    """A module, or what stands in one, by its whole name."""
    parts = name.split(".")
    found: Any = __import__(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found


# ------------------------------------------------------------------ many tensors as one


def _flatten_dense_tensors(tensors: Sequence[core.Tensor]) -> core.Tensor:
    """The elements of all tensors one behind the other, in a tensor of one dimension."""
    return facula.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(
    flat: core.Tensor, tensors: Iterable[core.Tensor]
) -> tuple[core.Tensor, ...]:
    """Views of what `_flatten_dense_tensors` gave, of the shapes of these tensors."""
    given = list(tensors)
    pieces = flat.split([tensor.numel() for tensor in given])
    return tuple(piece.view(tensor.shape) for piece, tensor in zip(pieces, given, strict=True))


def _flatten_sparse_tensors(tensors: Sequence[core.Tensor]) -> tuple[core.Tensor, core.Tensor]:
    """(indices, values) of all sparse tensors, each packed into one tensor."""
    return (
        _flatten_dense_tensors([tensor._indices() for tensor in tensors]),
        _flatten_dense_tensors([tensor._values() for tensor in tensors]),
    )


def _unflatten_sparse_tensors(
    flat: tuple[core.Tensor, core.Tensor], tensors: Sequence[core.Tensor]
) -> tuple[core.Tensor, ...]:
    """Sparse tensors like these, of what `_flatten_sparse_tensors` gave."""
    indices = _unflatten_dense_tensors(flat[0], [tensor._indices() for tensor in tensors])
    values = _unflatten_dense_tensors(flat[1], [tensor._values() for tensor in tensors])
    return tuple(
        facula.sparse_coo_tensor(index, value, tensor.shape)
        for tensor, index, value in zip(tensors, indices, values, strict=True)
    )


def _take_tensors(tensors: Iterable[core.Tensor], size_limit: int) -> Iterator[list[core.Tensor]]:
    """Groups of tensors of one type (and kind: dense or sparse) of at most so many bytes, one tensor at least."""
    groups: dict[tuple[Any, ...], tuple[list[core.Tensor], int]] = {}
    for tensor in tensors:
        parts = [tensor._indices(), tensor._values()] if tensor.is_sparse else [tensor]
        nbytes = sum(part.numel() * part.element_size() for part in parts)
        kind = (tensor.dtype, tensor.device, tensor.is_sparse)
        group, held = groups.get(kind, ([], 0))
        if group and held + nbytes > size_limit:
            yield group
            group, held = [], 0
        group.append(tensor)
        groups[kind] = (group, held + nbytes)
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(
    tensors: Sequence[core.Tensor], ordered_tensors: Iterable[core.Tensor]
) -> tuple[Any, ...]:
    """Tensors that were grouped by type, in the order in which these stand."""
    by_type: dict[str, list[core.Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    turns = {kind: iter(group) for kind, group in by_type.items()}
    return tuple(next(turns[tensor.type()]) for tensor in ordered_tensors)


# ------------------------------------------------------------------ devices


def _get_available_device_type() -> str | None:
    """The type of the accelerator; None where there is only the CPU."""
    found = accelerator.current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type: str) -> ModuleType:
    """The module of a type of device, such as `facula.cpu`."""
    return accelerator.get_device_module(device_type)


def _get_device_index(device: object, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device: an int as it is, None (if `optional`) the one in use, the CPU (if allowed) -1."""
    if isinstance(device, str):
        device = core.device(device)
    if isinstance(device, core.device):
        if device.type == "cpu":
            if not allow_cpu:
                fail(ValueError, "_get_device_index", "an accelerator was required (Expected a non cpu device)",
                     device, hint="allow_cpu=True takes the CPU too")  # fmt: skip
            return -1
        device = -1 if device.index is None else device.index
    elif isinstance(device, int):
        return device
    elif device is not None or not optional:
        fail(ValueError, "_get_device_index", "a device with an index, or an int, was required",
             type(device).__name__, hint="torch.device('cuda:0')")  # fmt: skip
    found = device if isinstance(device, int) and device >= 0 else _get_current_device_index()
    return int(found)


def _get_current_device_index() -> int:
    """The number of the accelerator in use; -1 without one."""
    return accelerator.current_device_index() if _get_available_device_type() else -1


def _get_all_device_indices() -> list[int]:
    """The numbers of all accelerators."""
    return list(range(accelerator.device_count()))


def _element_size(dtype: core.dtype) -> int:
    """Bytes of an element."""
    if not isinstance(dtype, core.dtype):
        fail(
            RuntimeError,
            "_element_size",
            "a dtype was required",
            type(dtype).__name__,
            hint="torch.float32",
        )
    return dtype.itemsize


# ------------------------------------------------------------------ files


def _set_obj_state(obj: object, state: object) -> Any:
    """An object with the state of a pickle: its dictionary, or a pair of it and what stands in slots."""
    if isinstance(state, tuple) and len(state) != 2:
        fail(RuntimeError, "_set_obj_state", "a dictionary, or a pair of two, was required (Invalid serialized state)",
             f"{len(state)} entries", hint="copyreg.__reduce_ex__ makes such pairs")  # fmt: skip
    inside, slots = state if isinstance(state, tuple) else (state, None)
    obj.__dict__.update(inside or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)
    return obj


def __getattr__(name: str) -> Any:
    """How tensors are made of what a file holds (`_rebuild_tensor_v2`), as `facula.load` does it."""
    if name in rebuild.MAKERS:
        return rebuild.MAKERS[name]
    if name == "is_compiling":
        return import_module("facula.compiler").is_compiling
    raise no_attribute(__name__, name)
