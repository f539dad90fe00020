"""Pickles that PyTorch reads: tensors by reference to storages, everything under PyTorch's names.

Takes an object; gives the pickle, and the storages that it refers to.  Keeps true: tensors that
share a storage share it in the file; the names in the file are PyTorch's whatever facula's modules
are called; a value that cannot be saved is an error before any file is touched.
"""

import pickle
from collections import OrderedDict
from typing import Any, BinaryIO

from facula import core
from facula.namespaces.storage import TypedStorage
from facula.serialization import storages
from facula.serialization.locations import location_tag
from facula.serialization.names import dtype_word, storage_name

__all__ = ["CheckpointPickler"]


class _Name:
    """A name to be written as it stands, whether or not it can be imported here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        raise TypeError("a name in a file is not called")


class _StorageReference:
    """A storage and the type under which the file is to name it."""

    def __init__(self, storage: object, dtype: object) -> None:
        self.storage, self.dtype = storage, dtype


_ENCODE = _Name("torch._utils", "_rebuild_tensor_v2")
_ENCODE_UNTYPED = _Name("torch._utils", "_rebuild_tensor_v3")
_ENCODE_META = _Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_ENCODE_SPARSE = _Name("torch._utils", "_rebuild_sparse_tensor")
_ENCODE_QUANTIZED = _Name("torch._utils", "_rebuild_qtensor")
_ENCODE_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_ENCODE_PARAMETER_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_ENCODE_WRAPPER = _Name("torch._utils", "_rebuild_wrapper_subclass")
_ENCODE_NESTED = _Name("torch._utils", "_rebuild_nested_tensor")
_JAGGED = "torch.nested._internal.nested_tensor"
_ENCODE_JAGGED = _Name(_JAGGED, "_rebuild_njt")
_NESTED = _Name(_JAGGED, "NestedTensor")
_ENCODE_TYPED = _Name("torch._tensor", "_rebuild_from_type_v2")
_TENSOR = _Name("torch", "Tensor")
_SIZE = _Name("torch", "Size")
_DEVICE = _Name("torch", "device")
_LAYOUT = _Name("torch.serialization", "_get_layout")
_UNTYPED = _Name("torch.storage", "UntypedStorage")


# the pickler written in Python: the one in C cannot write a name that it cannot import
_Pickler: Any = vars(pickle)["_Pickler"]


class CheckpointPickler(_Pickler):
    """Pickles one object; `storages` then holds what goes beside the pickle, by key."""

    def __init__(self, stream: BinaryIO, protocol: int = 2) -> None:
        super().__init__(stream, protocol)
        self.storages: dict[str, Any] = {}
        self._keys: dict[tuple[int, int], str] = {}
        self._dtypes: dict[str, Any] = {}
        self._names: dict[tuple[str, str], _Name] = {}

    def named(self, module: str, name: str) -> _Name:
        """The same object each time, so that the pickle's memo knows it."""
        return self._names.setdefault((module, name), _Name(module, name))

    # ---- hooks of the pickler
    def persistent_id(self, obj: object) -> tuple | None:
        if isinstance(obj, _StorageReference):
            return self._reference(obj.storage, obj.dtype)
        if isinstance(obj, core.UntypedStorage):
            return self._reference(obj, None)
        if isinstance(obj, TypedStorage) and obj.device.type != "meta":
            return self._reference(obj.untyped(), obj.dtype)
        return None

    def save_global(self, obj: object, name: str | None = None) -> None:
        module = obj.module if isinstance(obj, _Name) else "torch"
        if isinstance(obj, (_Name, core.dtype, core.memory_format)) or _is_scheme(obj):
            self.write(f"c{module}\n{name}\n".encode())
            self.memoize(obj)
        else:
            super().save_global(obj, name)

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, _Name):
            return obj.name
        if isinstance(obj, core.Tensor):
            return self._tensor(obj)
        if isinstance(obj, core.dtype):
            return dtype_word(obj)
        if isinstance(obj, core.Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, core.device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, core.layout):
            return _LAYOUT, (f"torch.{_last(obj)}",)
        if isinstance(obj, core.memory_format) or _is_scheme(obj):
            return _last(obj)
        return NotImplemented

    # ---- storages
    def key_of(self, storage: object) -> str:
        """The name of the record that holds a storage."""
        key = self._keys.setdefault(storages.identity(storage), str(len(self._keys)))
        self.storages.setdefault(key, storage)
        return key

    def _reference(self, storage: Any, dtype: Any) -> tuple:
        name = None if dtype is None else storage_name(dtype)
        kind = _UNTYPED if name is None else self.named("torch", name)
        count = storage.nbytes() // (1 if name is None else dtype.itemsize)
        return "storage", kind, self.key_of(storage), location_tag(storage), count

    # ---- tensors
    def _tensor(self, value: core.Tensor) -> tuple:
        plain, grad = type(value), bool(value.requires_grad)
        if hasattr(plain, "cls_to_become"):  # no shape yet: nothing but its kind is saved
            return self.named("torch.nn.parameter", plain.__name__), (grad,)
        if getattr(value, "is_nested", False):
            parts = value._file_parts()
            if len(parts) > 1:
                return _ENCODE_NESTED, parts
            return _ENCODE_TYPED, (_ENCODE_JAGGED, _NESTED, parts, {})
        if _last(value.layout) != "strided":
            return self._dense_or_not(value, grad)
        state = dict(getattr(value, "__dict__", None) or {})
        if _is_wrapper(value):
            return _ENCODE_TYPED, (_ENCODE_WRAPPER, plain, self._wrapper(value), state)
        if getattr(plain, "__name__", "") == "Parameter" or getattr(value, "_is_param", False):
            state.pop("_is_param", None)
            data = value.detach().as_subclass(core.Tensor)
            if state:
                return _ENCODE_PARAMETER_STATE, (data, grad, OrderedDict(), state)
            return _ENCODE_PARAMETER, (data, grad, OrderedDict())
        if value.is_quantized:
            return self._dense_or_not(value, grad)
        function, arguments = self._dense_or_not(value, grad)
        if plain is core.Tensor and not state:
            return function, arguments
        kind = _TENSOR if plain is core.Tensor else plain
        return _ENCODE_TYPED, (function, kind, arguments, state)

    def _wrapper(self, value: Any) -> tuple:
        """What a tensor shows that has no elements of its own: those are in its attributes."""
        shown = (
            tuple(value.shape),
            value.stride(),
            value.storage_offset(),
            value.layout,
            value.device,
        )
        return type(value), value.dtype, *shown, bool(value.requires_grad)

    def _dense_or_not(self, value: Any, grad: bool) -> tuple[_Name, tuple]:
        if _last(value.layout) != "strided":
            return _ENCODE_SPARSE, (value.layout, _sparse_parts(value))
        size, stride = tuple(value.shape), value.stride()
        if value.is_quantized:
            return _ENCODE_QUANTIZED, self._quantized(value, grad)
        if value.device.type == "meta":
            return _ENCODE_META, (value.dtype, size, stride, grad)
        storage, dtype = value.untyped_storage(), value.dtype
        key = self.key_of(storage)
        geometry: tuple = (value.storage_offset(), size, stride, grad, OrderedDict())
        # one typed storage has one dtype: another view of its bytes names its own
        typed = storage_name(dtype) is not None
        typed = typed and self._dtypes.setdefault(key, dtype) == dtype
        typed = typed and storage.nbytes() % dtype.itemsize == 0
        if typed:
            return _ENCODE, (_StorageReference(storage, dtype), *geometry)
        return _ENCODE_UNTYPED, (_StorageReference(storage, None), *geometry, dtype)

    def _quantized(self, value: core.Tensor, grad: bool) -> tuple:
        """The parts of a quantized tensor: its integers, and how they stand for numbers."""
        scheme, *parameters = value._parameters()
        integers = value._stored_integers()
        storage = _StorageReference(integers.untyped_storage(), value.dtype)
        geometry = (integers.storage_offset(), tuple(value.shape), value.stride())
        named = self.named("torch", scheme.name)
        return storage, *geometry, (named, *parameters), grad, OrderedDict()


def _is_wrapper(value: core.Tensor) -> bool:
    """Whether a tensor's class handles every operator, and it has no bytes (`_make_wrapper_subclass`)."""
    if getattr(type(value), "__torch_dispatch__", None) is None or hasattr(value, "fake_mode"):
        return False
    return bool(value.untyped_storage().data_ptr() == 0)


def _is_scheme(obj: object) -> bool:
    """Whether it is a constant such as `per_tensor_affine`, whose class is imported only by who has one."""
    return type(obj).__name__ == "qscheme"


def _last(constant: object) -> str:
    return str(constant).rpartition(".")[2]


def _sparse_parts(value: Any) -> tuple:
    """What a sparse tensor consists of, in the order in which the file has it."""
    kind, size = _last(value.layout), core.Size(value.shape)
    if kind == "sparse_coo":
        return value._indices(), value._values(), size, value.is_coalesced()
    rows = kind in ("sparse_csr", "sparse_bsr")
    compressed = value.crow_indices() if rows else value.ccol_indices()
    plain = value.col_indices() if rows else value.row_indices()
    return compressed, plain, value.values(), size
