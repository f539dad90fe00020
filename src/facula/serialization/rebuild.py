"""What a name in a checkpoint may make: tensors, parameters, sizes, devices and Python's plain
containers.

Takes a module and a name as they stand in the file; gives a `Maker` or a constant, from `TABLE` or
from what the user added.  Keeps true: a tensor is made only when its storage is one that this file
brought and its geometry lies inside it; nothing outside the table is reachable.
"""

import argparse
import contextlib
import datetime
import importlib
import os
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces.storage import TypedStorage
from facula.serialization import storages
from facula.serialization.names import CONSTANTS, STORAGE_DTYPES, layout_named
from facula.serialization.unpickle import Maker, UnpicklingError, checked_key, set_attributes

__all__ = [
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "find",
    "get_safe_globals",
    "safe_globals",
]


class StorageType:
    """The type in a persistent id: the dtype of the elements, None for plain bytes."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize


# ------------------------------------------------------------------ tensors


def _sizes(value: tuple[Any, ...], what: str) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(type(n) is int and 0 <= n < 1 << 62 for n in value):
        raise ValueError(f"{what} must be a tuple of ints >= 0")
    return tuple(value)


def _geometry(
    storage: Any, dtype: core.dtype, offset: int, size: tuple[Any, ...], stride: tuple[Any, ...]
) -> tuple[int, tuple, tuple]:
    """Checks that every element lies inside the storage."""
    size, stride = _sizes(size, "a size"), _sizes(stride, "a stride")
    if type(offset) is not int or offset < 0 or len(size) != len(stride):
        raise ValueError("an offset >= 0 and as many strides as sizes are needed")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    end = 0 if 0 in size else (last + 1) * dtype.itemsize
    if end > storage.nbytes():
        fail(
            UnpicklingError,
            "load",
            f"the storage must hold the tensor of size {list(size)}, {end} bytes",
            got=f"{storage.nbytes()} bytes",
            hint="the file is damaged",
        )
    return offset, size, stride


def _is_dtype(value: core.dtype | None) -> bool:
    return isinstance(value, core.dtype)


def tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    dtype: core.dtype | None = None,
    metadata: Any = None,
) -> Any:
    """A tensor on a storage of the file: one saved with a dtype, or untyped with `dtype`."""
    if isinstance(storage, TypedStorage):
        storage = storage.untyped()
    saved_as = vars(storage).get(_SAVED_AS) if isinstance(storage, core.UntypedStorage) else None
    if saved_as is None:
        raise TypeError("a tensor needs a storage")
    # the fourth kind of argument: v2 has metadata where v3 has a dtype
    if not _is_dtype(dtype):
        dtype, metadata = saved_as.dtype, dtype
    if dtype is None:
        raise TypeError("a tensor on an untyped storage needs a dtype")
    made = storages.tensor_on(storage, dtype, *_geometry(storage, dtype, offset, size, stride))
    if metadata:
        made = _resolved(made, metadata)
    if requires_grad:
        made.requires_grad_()
    return made


_SAVED_AS = "_saved_as"


def referenced(storage: Any, kind: StorageType) -> Any:
    """A handle of a storage that remembers under which type the file names it this time."""
    handle = storages.another_handle(storage)
    vars(handle)[_SAVED_AS] = kind
    # where nothing is made of it, the storage itself is what was saved
    return handle if kind.dtype is None else TypedStorage(wrap_storage=handle, dtype=kind.dtype)


def _resolved(made: Any, metadata: Any) -> Any:
    """Carries out what PyTorch postponed: conjugation and negation."""
    if not isinstance(metadata, dict) or set(metadata) - {"conj", "neg"}:
        raise ValueError("metadata of a tensor may name conj and neg")
    if metadata.get("conj"):
        made = made.conj()
    return -made if metadata.get("neg") else made


def _tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    meta: Any = None,
) -> Any:
    if not _is_dtype(dtype):
        raise TypeError("a tensor on an untyped storage needs a dtype")
    return tensor(storage, offset, size, stride, grad, hooks, dtype, meta)


def _meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: object) -> Any:
    if not _is_dtype(dtype):
        raise TypeError("a meta tensor needs a dtype")
    size, stride = _sizes(size, "a size"), _sizes(stride, "a stride")
    made = core.empty_strided(size, stride, dtype=dtype, device="meta")
    return made.requires_grad_() if requires_grad else made


def _upper(place: str) -> Any:
    """Something from a layer above, fetched when a file asks for it:
    `facula.nn.parameter:Parameter`.
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _parameter(
    data: core.Tensor, requires_grad: bool = True, hooks: OrderedDict | None = None
) -> Any:
    if not isinstance(data, core.Tensor):
        raise TypeError("a parameter needs a tensor")
    return _upper("facula.nn.parameter:Parameter")(data, bool(requires_grad))


def _uninitialized(kind: str) -> Callable[..., Any]:
    """The maker of a parameter or buffer whose size a lazy module has yet to see."""

    def make(requires_grad: object = False, *rest: object) -> Any:
        if rest or type(requires_grad) is not bool:
            raise TypeError("an uninitialized tensor is made from requires_grad alone")
        return _upper(f"facula.nn.parameter:{kind}")(requires_grad)

    return make


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    made = _parameter(data, requires_grad)
    set_attributes(made, state)
    return made


def _sparse(layout: object, data: Any) -> Any:
    name = str(layout).rpartition(".")[2]
    if name == "sparse_coo":
        indices, values, size = data[:3]
        made = _upper("facula:sparse_coo_tensor")(indices, values, tuple(size))
        return made._coalesced_(bool(data[3])) if len(data) > 3 else made
    compressed, plain, values, size = data
    return _upper("facula:sparse_compressed_tensor")(
        compressed, plain, values, tuple(size), layout=layout
    )


def _quantized(
    storage: TypedStorage,
    offset: int,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    parameters: tuple[Any, ...],
    grad: bool = False,
    hooks: OrderedDict | None = None,
) -> Any:
    """A quantized tensor: integers in a storage, and how they stand for numbers."""
    saved_as = vars(storage.untyped()).get(_SAVED_AS) if isinstance(storage, TypedStorage) else None
    if saved_as is None or not isinstance(parameters, tuple):
        raise TypeError("a quantized tensor needs a storage and its parameters")
    size, stride = _sizes(size, "a size"), _sizes(stride, "a stride")
    return _upper("facula.quantization.files:rebuilt")(
        lambda dtype, count: tensor(
            storage.untyped(), offset, count or size, (1,) if count else stride, dtype=dtype
        ),
        saved_as.dtype,
        size,
        stride,
        parameters,
    )


def _wrapper(
    kind: Any,
    dtype: Any,
    size: Any,
    stride: Any,
    offset: Any,
    layout: object,
    device: core.device | str | int | None,
    grad: object,
) -> Any:
    """A tensor without elements of its own, of a class that the user allowed and that handles every operator."""
    if not isinstance(kind, type) or not issubclass(kind, core.Tensor) or not _is_dtype(dtype):
        raise TypeError("a tensor type and a dtype are needed")
    if not isinstance(layout, core.layout) or not isinstance(device, (core.device, str)):
        raise TypeError("a layout and a device are needed")
    size, stride = _sizes(size, "a size"), _sizes(stride, "a stride")
    if type(offset) is not int or not 0 <= offset < 1 << 62:
        raise ValueError("an offset >= 0 is needed")
    return core.Tensor._make_wrapper_subclass(
        kind, size, strides=stride, storage_offset=offset, dtype=dtype, layout=layout, device=device,
        requires_grad=bool(grad),
    )  # fmt: skip


def _nested(*parts: object) -> Any:
    return _upper("facula.nested.files:strided")(*parts)


def _jagged(state: object) -> Any:
    return _upper("facula.nested.files:jagged")(state)


class _Hint:
    """What a file says of sizes that PyTorch's compiler may change: not kept, and an element of sets there."""


def _no_hint(value: object, state: object) -> None:
    """Nothing of the hint is read."""


def _from_type(
    function: Maker, kind: type, arguments: tuple[Any, ...], state: dict[Any, Any]
) -> Any:
    """A tensor that carried attributes, or one of a subclass that the user allowed."""
    if not isinstance(function, Maker) or function.name not in _TENSOR_MAKERS or not function.make:
        raise TypeError("a tensor is made by a function that makes tensors")
    made = function.make(*arguments)
    if function.name == _JAGGED:
        return made
    if kind is not core.Tensor and kind is not type(made):
        if not isinstance(kind, type) or not issubclass(kind, core.Tensor):
            raise TypeError("a tensor's type must be a tensor type")
        made = made.as_subclass(kind)
    if hasattr(type(made), "__setstate__") and type(made) is not core.Tensor:
        made.__setstate__(state)
    else:
        set_attributes(made, state)
    return made


_JAGGED = "torch.nested._internal.nested_tensor._rebuild_njt"
_TENSOR_MAKERS = {
    _JAGGED,
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_qtensor",
    "torch._utils._rebuild_wrapper_subclass",
}


# ------------------------------------------------------------------ plain values


def _encode(text: Any, encoding: object = "latin1") -> bytes:
    """Protocol 2 writes bytes as text and the name of an encoding."""
    if encoding not in ("latin1", "latin-1"):
        raise ValueError(f"bytes are encoded as latin1, not {encoding!r}")
    return text.encode("latin1")


def _bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    """A bytearray from what stands in the file, never one of a size that the file only names."""
    return bytearray(_encode(data, encoding) if isinstance(data, str) else bytes(memoryview(data)))


def _ordered(pairs: tuple[Any, ...] = ()) -> OrderedDict:
    items = pairs.items() if isinstance(pairs, dict) else pairs
    return OrderedDict((checked_key(key), value) for key, value in items)


def _size(values: Any = ()) -> Any:
    return core.Size(_sizes(tuple(values), "a size"))


def _default_dict(factory: Any = None, items: Any = ()) -> defaultdict:
    if factory not in (None, list, dict, set, int, float, str, tuple, bool, OrderedDict):
        raise TypeError("a defaultdict makes plain values")
    return defaultdict(factory, items)


def _attributes_of(kind: type) -> Maker:
    """For classes that are nothing but named values."""
    return Maker(kind.__name__, lambda **items: kind(**items), set_attributes, kind)


def _plain(kind: type) -> Maker:
    return Maker(kind.__name__, kind, None, kind)


def _moment(*parts: Any) -> datetime.datetime:
    return datetime.datetime(*parts)


TABLE: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): Maker("encode", _encode),
    ("argparse", "Namespace"): _attributes_of(argparse.Namespace),
    ("collections", "Counter"): _plain(Counter),
    ("collections", "OrderedDict"): Maker("OrderedDict", _ordered, set_attributes, OrderedDict),
    ("collections", "defaultdict"): Maker("defaultdict", _default_dict, None, defaultdict),
    ("collections", "deque"): _plain(deque),
    ("datetime", "date"): _plain(datetime.date),
    ("datetime", "datetime"): Maker("datetime", _moment, None, datetime.datetime),
    ("datetime", "timedelta"): _plain(datetime.timedelta),
    ("torch", "Size"): Maker("Size", _size, None, core.Size),
    ("torch", "Tensor"): Maker("torch.Tensor", None, None, core.Tensor),
    ("torch", "device"): Maker("device", core.device, None, core.device),
    ("torch._dynamo.decorators", "_DimRange"): Maker("_DimRange", _Hint, _no_hint),
    ("torch.nested._internal.nested_tensor", "NestedTensor"): Maker("NestedTensor", None),
    ("torch.nested._internal.nested_tensor", "_rebuild_njt"): Maker(_JAGGED, _jagged),
    ("torch.nn.parameter", "Parameter"): Maker("torch.nn.parameter.Parameter", _parameter),
    **{
        ("torch.nn.parameter", kind): Maker(kind, _uninitialized(kind))
        for kind in ("UninitializedParameter", "UninitializedBuffer")
    },
    ("torch.serialization", "_get_layout"): Maker("_get_layout", layout_named),
    ("torch.storage", "UntypedStorage"): StorageType(None),
    ("torch.torch_version", "TorchVersion"): Maker("TorchVersion", str),
    ("types", "SimpleNamespace"): _attributes_of(types.SimpleNamespace),
}
MAKERS: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": lambda storage, offset, size, stride: tensor(storage, offset, size, stride),
    "_rebuild_tensor_v2": tensor,
    "_rebuild_tensor_v3": _tensor_v3,
    "_rebuild_parameter": _parameter,
    "_rebuild_parameter_with_state": _parameter_with_state,
    "_rebuild_sparse_tensor": _sparse,
    "_rebuild_qtensor": _quantized,
    "_rebuild_nested_tensor": _nested,
    "_rebuild_meta_tensor_no_storage": _meta_tensor,
    "_rebuild_wrapper_subclass": _wrapper,
}
for _name, _make in MAKERS.items():
    TABLE["torch._utils", _name] = Maker(f"torch._utils.{_name}", _make)
TABLE["torch._tensor", "_rebuild_from_type_v2"] = Maker("_rebuild_from_type_v2", _from_type)
for _kind, _made in {
    set: lambda values=(): set(map(checked_key, values)),
    frozenset: lambda values=(): frozenset(map(checked_key, values)),
    bytes: lambda: b"",
    bytearray: _bytearray,
    complex: complex,
    slice: slice,
    range: range,
    **dict.fromkeys((list, dict, int, float, str, tuple, bool, object)),
}.items():
    TABLE["builtins", _kind.__name__] = Maker(_kind.__name__, _made, None, _kind)
# protocol 2 writes Python 2's names
TABLE["builtins", "xrange"] = TABLE["builtins", "range"]
TABLE["builtins", "unicode"] = TABLE["builtins", "str"]
TABLE["builtins", "long"] = TABLE["builtins", "int"]
TABLE.update({("torch", name): value for name, value in CONSTANTS.items()})
TABLE.update({("torch", name): StorageType(dtype) for name, dtype in STORAGE_DTYPES.items()})

_MOVED = {"__builtin__": "builtins", "copy_reg": "copyreg", "numpy.core": "numpy._core"}

#: the folder of networks and transforms beside the framework
_DOMAINS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "domains", "")

# what the user allowed, by module and name
_allowed: dict[tuple[str, str], Maker] = {}


def find(module: str, name: str) -> Any:
    """What stands for a name in a pickle; KeyError where nothing may."""
    if module.startswith("numpy"):
        # numpy's values are the business of a module that imports numpy, and only when a file holds
        # some
        return _upper("facula.serialization.numpy_values:find")(module, name)
    module = _MOVED.get(module, module)
    if module == "facula" or module.startswith("facula."):
        module = "torch" + module[len("facula") :]
    found = TABLE.get((module, name), _allowed.get((module, name)))
    if found is not None:
        return found
    if module.startswith("torch.nn.modules.") or module == "torch.nn.functional":
        return _of_nn(module, name)
    if module.startswith("torch.quantization."):
        return _of_quantization(module, name)
    domain = _domain_module(module)
    if domain is not None:
        return _layer(getattr(domain, name, None), name)
    if module == "torch" and name.startswith(("per_tensor_", "per_channel_")):
        return _upper("facula.quantization.tensor:SCHEMES")[name]
    raise KeyError(name)


def _of_nn(module: str, name: str) -> Any:
    """Whole models of stock layers: a module is its attributes, a function is only passed on."""
    nn = _upper("facula:nn")
    if module == "torch.nn.functional":
        found = getattr(nn.functional, name, None)
        if name.startswith("_") or not callable(found):
            raise KeyError(name)
        return Maker(name, None, None, found)
    # a layer that only other layers use is public in its own module alone
    return _layer(getattr(nn, name, None) or getattr(_stock_module(module), name, None), name)


def _layer(kind: Any, name: str) -> Maker:
    """What makes a module of facula's own without its constructor; KeyError for what is none."""
    if not isinstance(kind, type) or not issubclass(kind, _upper("facula:nn").Module):
        raise KeyError(name)
    make: Any = kind.__new__
    return Maker(name, lambda: make(kind), _restore, kind)


#: classes of packed parameters: their `__setstate__` packs what a file says again, which checks it
_PACKED = {
    "linear": ("LinearPackedParams", "LinearPackedParamsFp16"),
    "convolution": ("ConvPackedParams",),
    "embedding": ("EmbeddingPackedParams",),
    "modules.recurrent_cells": ("CellParams",),
}


def _of_quantization(module: str, name: str) -> Any:
    """Whole models of quantized layers, and their packed parameters."""
    place = module.removeprefix("torch.quantization.")
    if name not in _PACKED.get(place, ()) and not place.removeprefix("modules.").isidentifier():
        raise KeyError(name)
    if place not in _PACKED and not place.startswith("modules."):
        raise KeyError(name)
    try:
        kind: Any = _upper(f"facula.quantization.{place}:{name}")
    except ImportError:
        raise KeyError(name) from None
    if name not in _PACKED.get(place, ()) and not issubclass(kind, _upper("facula:nn").Module):
        raise KeyError(name)
    return Maker(name, lambda: kind.__new__(kind), _restore, kind)


def _stock_module(module: str) -> Any:
    """The module of facula's own layers for `torch.nn.modules.linear`; None where there is none."""
    name = module.removeprefix("torch.nn.modules.")
    if not name.isidentifier():
        return None
    return sys.modules.get(f"facula.nn.modules.{name}")


def _domain_module(module: str) -> Any:
    """The module of facula's own networks and transforms for `torch.vision.models.resnet`, where the program has
    loaded it; None otherwise.
    """
    found = sys.modules.get("facula" + module.removeprefix("torch"))
    inside = module.startswith("torch.") and getattr(found, "__file__", None) or ""
    return found if inside.startswith(_DOMAINS) else None


# ------------------------------------------------------------------ what the user allows


def _restore(value: Any, state: dict[Any, Any]) -> None:
    if hasattr(type(value), "__setstate__"):
        value.__setstate__(state)
    else:
        set_attributes(value, state)


def _maker_for(item: Any) -> tuple[tuple[str, str], Maker]:
    item, place = item if isinstance(item, tuple) else (item, None)
    place = place or f"{item.__module__}.{item.__qualname__}"
    module, _, name = place.rpartition(".")
    if isinstance(item, type):
        make = lambda *arguments: item.__new__(item, *arguments)  # noqa: E731
        return (module, name), Maker(place, make, _restore, item)
    return (module, name), Maker(place, item, _restore, item)


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allows classes and functions to be made from files: each itself, or a pair of it and the full
    name in the file.

    A class is made with its `__new__` and the arguments in the file, and gets its state by
    `__setstate__` or as attributes; a function is called with the arguments in the file.  Allow
    only what is harmless with any arguments.
    """
    _allowed.update(map(_maker_for, safe_globals))


def get_safe_globals() -> list[Any]:
    """What the user has allowed."""
    return [maker.target for maker in _allowed.values()]


def clear_safe_globals() -> None:
    """Takes back everything that the user has allowed."""
    _allowed.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Allows classes and functions for the length of a `with` block."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)
