"""Memory as a row of numbers of one dtype, as PyTorch's older programs see it.

Takes sizes, sequences or untyped memory. Gives `TypedStorage`, its named kinds (`FloatStorage`, ...)
and `UntypedStorage`. Keeps true: a typed storage owns nothing; it reads and writes the memory that
it was made of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NoReturn, SupportsIndex

from facula import core
from facula.core import UntypedStorage
from facula.core.errors import fail

__all__ = ["TypedStorage", "UntypedStorage"]


def _stored(dtype: core.dtype) -> Any:
    """The dtype of the numbers in memory: integers, of quantized tensors."""
    if core.QUANTIZED.get(dtype.name) is not dtype:
        return dtype
    return {"QInt8": core.int8, "QInt32": core.int32}.get(dtype.type_word, core.uint8)


def _swap_bytes(data: Any) -> None:
    """Turn the bytes of each number around."""
    parts = 2 if data.dtype.is_complex else 1
    if data.element_size() > parts:
        rows = data.view(core.uint8).view(-1, data.element_size() // parts)
        rows.copy_(rows.flip(1))


def _refuse(kind: type[Exception], required: str, got: object, hint: str) -> NoReturn:
    fail(kind, "TypedStorage", required, got, hint=hint)


class _Kind(type):
    """`isinstance(storage, FloatStorage)` asks for the dtype."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is TypedStorage or not type.__instancecheck__(TypedStorage, instance):
            return type.__instancecheck__(cls, instance)
        return instance.dtype is (getattr(cls, "_dtype", None) or core.get_default_dtype())


class TypedStorage(metaclass=_Kind):
    """Untyped memory together with a dtype (kept for old programs; tensors have
    ``untyped_storage()``).

    Args:
        *args: a number of elements, a sequence of them, or an `UntypedStorage`
        wrap_storage: memory that is taken as it is
        dtype: None for the default one
        device: None for the CPU

    Raises:
        RuntimeError: more than one size or sequence is given, or arguments that exclude each other.
        TypeError: an argument is of a type that makes no storage.

    Example:
        >>> facula.TypedStorage([1.0, 2.0])[1]
        2.0
    """

    is_sparse = False
    _dtype: Any = None

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: core.dtype | None = None,
        device: core.device | str | int | None = None,
        _internal: bool = False,
    ) -> None:
        self._check_arguments(args, wrap_storage, dtype, device)
        kind = self._dtype if dtype is None else dtype
        self.dtype = core.get_default_dtype() if kind is None else kind
        given: Any = wrap_storage if wrap_storage is not None else args[0] if args else 0
        if isinstance(given, UntypedStorage):
            self._untyped_storage = given
            return
        stored = _stored(self.dtype)
        if isinstance(given, SupportsIndex):
            made = core.empty((given.__index__(),), dtype=stored, device=device)
        else:
            made = core.tensor(list(given), dtype=stored, device=device)
        self._untyped_storage = made.untyped_storage()

    def _check_arguments(
        self, args: tuple[Any, ...], wrap_storage: object, dtype: object, device: object
    ) -> None:
        """Refuse what PyTorch refuses, in its words."""
        kind = type(self)
        if kind._dtype is not None:
            for name, value in (("device", device), ("dtype", dtype)):
                if value is not None:
                    required = f"{kind._dtype} numbers on the CPU were required: {name!r} cannot be specified"
                    _refuse(RuntimeError, required, value, f"TypedStorage(..., {name}=) takes one")
        elif isinstance(device, str):
            try:
                core.device(device)
            except RuntimeError:
                required = "a device was required: Storage device not recognized"
                _refuse(RuntimeError, required, device, "give 'cpu' or 'meta'")
        if len(args) > 1:
            required = "one size or one sequence was required: Too many positional arguments"
            _refuse(
                RuntimeError, required, len(args), "TypedStorage(4) or TypedStorage([1.0, 2.0])"
            )
        if dtype is not None and not isinstance(dtype, core.dtype):
            required = (
                f"a dtype was required: Argument 'dtype' must be torch.dtype, not {type(dtype)}"
            )
            _refuse(TypeError, required, dtype, "give one such as facula.float32")
        if wrap_storage is not None:
            self._check_wrapped(args, wrap_storage, dtype, device)
        elif args and isinstance(args[0], core.Tensor):
            required = "a size, numbers or memory were required: Argument type not recognized"
            _refuse(TypeError, required, type(args[0]), "tensor.untyped_storage() gives its memory")
        elif args and isinstance(args[0], str):
            required = "a size, numbers or memory were required: invalid data type 'str'"
            _refuse(TypeError, required, args[0], "give a list of numbers")

    def _check_wrapped(
        self, args: tuple[Any, ...], wrap_storage: object, dtype: object, device: object
    ) -> None:
        hint = "give wrap_storage= and dtype= alone"
        if args:
            required = "no size was required: No positional arguments should be given when using 'wrap_storage'"
            _refuse(RuntimeError, required, args[0], hint)
        if dtype is None and type(self) is TypedStorage:
            _refuse(
                RuntimeError, "a dtype was required: Argument 'dtype' must be specified", None, hint
            )
        if device is not None:
            required = "no device was required: Argument 'device' should not be specified when 'wrap_storage' is given"
            _refuse(RuntimeError, required, device, hint)
        if not isinstance(wrap_storage, UntypedStorage):
            required = "memory was required: Argument 'wrap_storage' must be UntypedStorage"
            _refuse(TypeError, required, type(wrap_storage), "tensor.untyped_storage() gives it")

    @classmethod
    def from_buffer(
        cls, *args: Any, dtype: core.dtype | None = None, **kwargs: object
    ) -> TypedStorage:
        """A storage with a copy of a buffer's bytes."""
        kind = cls._dtype if dtype is None else dtype
        kind = core.get_default_dtype() if kind is None else kind
        order = args[1] if len(args) > 1 else kwargs.get("byte_order", sys.byteorder)
        data = core.frombuffer(bytearray(args[0]), dtype=kind)
        if order not in ("native", sys.byteorder):
            _swap_bytes(data)
        return TypedStorage(wrap_storage=data.untyped_storage(), dtype=kind)

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, size: int = 0) -> TypedStorage:
        """A storage on the first `size` numbers of a file; `shared` writes reach the file."""
        kind = core.get_default_dtype() if cls._dtype is None else cls._dtype
        memory = UntypedStorage.from_file(filename, shared, size * kind.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=kind)

    def _tensor(self) -> core.Tensor:
        """The numbers as a tensor on the same memory."""
        stored = _stored(self.dtype)
        return core.empty((0,), dtype=stored, device=self.device).set_(self._untyped_storage)

    def untyped(self) -> UntypedStorage:
        """The memory without a dtype."""
        return self._untyped_storage

    @property
    def device(self) -> Any:
        """Where the memory lies."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory lies on a CUDA device."""
        return bool(self.device.type == "cuda")

    @property
    def filename(self) -> str | None:
        """The file that the memory is mapped from, where there is one."""
        return getattr(self._untyped_storage, "filename", None)

    def element_size(self) -> int:
        """How many bytes a number takes."""
        return int(self.dtype.itemsize)

    def nbytes(self) -> int:
        """How many bytes there are."""
        return int(self._untyped_storage.nbytes())

    def size(self) -> int:
        """How many numbers there are."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def data_ptr(self) -> int:
        """The address of the first number."""
        return int(self._untyped_storage.data_ptr())

    def _address(self) -> int:
        return int(core.address_of(self._untyped_storage))

    def _check_elements(self) -> None:
        """Raise where there are no numbers to read."""
        if self.device.type == "meta":
            required = "numbers were required: Not available for 'meta' device type"
            hint = "make the storage on another device"
            fail(NotImplementedError, "TypedStorage", required, hint=hint)

    def __getitem__(self, index: Any) -> Any:
        self._check_elements()
        if isinstance(index, slice):
            return self._tensor()[index]
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: object) -> None:
        self._tensor()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._address() == other._address()

    def __hash__(self) -> int:
        return hash(self._address())

    def tolist(self) -> list[Any]:
        """The numbers as a list."""
        self._check_elements()
        return list(self._tensor().tolist())

    def clone(self) -> TypedStorage:
        """A copy."""
        memory = self._tensor().clone().untyped_storage()
        return TypedStorage(wrap_storage=memory, dtype=self.dtype)

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Take the numbers of another storage."""
        self._tensor().copy_(source._tensor())
        return self

    def fill_(self, value: object) -> TypedStorage:
        """Set every number."""
        if isinstance(value, TypedStorage):
            required = f"a number was required: cannot set item with {type(value)}"
            _refuse(
                RuntimeError,
                required,
                type(value),
                "copy_(other) takes the numbers of another storage",
            )
        self._tensor().fill_(value)
        return self

    def resize_(self, size: int) -> None:
        """Make room for `size` numbers."""
        self._untyped_storage.resize_(size * self.element_size())

    def resizable(self) -> bool:
        """Whether the memory can grow."""
        return bool(self._untyped_storage.resizable())

    def to(
        self, *, device: core.device | str | int | None, non_blocking: bool = False
    ) -> TypedStorage:
        """The numbers on another device."""
        memory = self._tensor().to(device).untyped_storage()
        return TypedStorage(wrap_storage=memory, dtype=self.dtype)

    def cpu(self) -> TypedStorage:
        """The numbers in the host's memory."""
        return self if self.device.type == "cpu" else self.to(device="cpu")

    def cuda(
        self, device: core.device | str | int | None = None, non_blocking: bool = False
    ) -> TypedStorage:
        """The numbers on a CUDA device."""
        return self.to(device="cuda" if device is None else device)

    def is_shared(self) -> bool:
        """Whether other processes see the memory."""
        return bool(self._untyped_storage.is_shared())

    def share_memory_(self) -> TypedStorage:
        """Move the numbers to memory that other processes see."""
        if self.device.type != "cpu":
            required = "memory of the CPU was required: sharing is only available on CPU"
            fail(RuntimeError, "TypedStorage.share_memory_", required, self.device, "use .cpu()")
        self._untyped_storage.share_memory_()
        return self

    def _share_fd_cpu_(self, *args: object, **kwargs: object) -> Any:
        """Move the numbers to memory that goes to other processes by its descriptor."""
        self.share_memory_()
        return self._untyped_storage

    _share_filename_cpu_ = _share_fd_cpu_

    def _write_file(self, f: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Write the numbers to a file, behind their count where it is asked for."""
        _write_file(self._untyped_storage, f, is_real_file, save_size, element_size)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: Any) -> TypedStorage:
        # lazily: most storages are never copied
        import copy

        memory = copy.deepcopy(self._untyped_storage, memo)
        return TypedStorage(wrap_storage=memory, dtype=self.dtype)

    def _setitem(self, index: Any, value: object) -> None:
        self[index] = value

    @property
    def _cdata(self) -> int:
        """What tells two storages apart."""
        return int(self._untyped_storage._cdata)

    def is_pinned(self, device: core.device | str | int | None = None) -> bool:
        """Whether the memory is fixed for transfers: it never is here."""
        return False

    def pin_memory(self, device: core.device | str | int | None = None) -> TypedStorage:
        """The storage: transfers need no fixed memory here."""
        return self

    def get_device(self) -> int:
        """The number of the device."""
        return int(self.device.index or 0)

    def type(self, dtype: core.dtype | None = None, non_blocking: bool = False) -> Any:
        """The name of the kind, or the numbers in another dtype."""
        if dtype is None:
            return f"{core.DTYPE_PREFIX[0]}.{self.pickle_storage_type()}"
        wanted = dtype if isinstance(dtype, core.dtype) else dtype._dtype
        memory = self._tensor().to(wanted).untyped_storage()
        return TypedStorage(wrap_storage=memory, dtype=wanted)

    def pickle_storage_type(self) -> str:
        """The name under which files know the kind."""
        return f"{self.dtype.type_word}Storage"

    def _numbers_shown(self) -> str:
        """The numbers as `repr` shows them, whatever watches operators; dots where there are none."""
        if self.device.type == "meta":
            return "..."
        keys = core.suspend_dispatch()
        try:
            return " " + "\n ".join(map(str, self.tolist()))
        finally:
            core.set_thread_keys(keys)

    def __repr__(self) -> str:
        return (
            f"{self._numbers_shown()}\n[{core.DTYPE_PREFIX[0]}.storage.TypedStorage(dtype={self.dtype}, "
            f"device={self.device}) of size {self.size()}]"
        )


# names that programs use which must not warn in PyTorch
for _plain in (
    "resize_", "size", "is_shared", "share_memory_", "pickle_storage_type", "element_size", "data_ptr",
    "nbytes", "get_device", "cpu",
):  # fmt: skip
    setattr(TypedStorage, f"_{_plain}", getattr(TypedStorage, _plain))
TypedStorage._deepcopy = TypedStorage.__deepcopy__  # type: ignore[attr-defined]


def _write_file(
    self: UntypedStorage, f: Any, is_real_file: bool, save_size: bool, element_size: int
) -> None:
    """Write the bytes to a file, behind the number of elements in 8 bytes where it is asked for."""
    data = bytes(core.bytes_of(self))  # raises where there are none
    if save_size:
        f.write((self.nbytes() // element_size).to_bytes(8, "little"))
    f.write(data)


def _byteswap(self: UntypedStorage, dtype: core.dtype) -> None:
    """Turn the bytes of each number of a dtype around, in place."""
    _swap_bytes(core.empty((0,), dtype=dtype).set_(self))


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """The name of the kind of storage of each dtype that has one."""
    words = "Double Float Half Long Int Short Char Byte Bool BFloat16 ComplexDouble ComplexFloat"
    words = " ".join([words, *(kind.type_word for kind in core.QUANTIZED.values())])
    kinds = (globals()[f"{word}Storage"] for word in words.split())
    return {kind._dtype: kind.__name__ for kind in kinds}


def _cast(dtype: core.dtype) -> Any:
    def method(self: TypedStorage) -> TypedStorage:
        return self.type(dtype)

    method.__doc__ = f"The numbers as {dtype.name}."
    return method


#: the methods of storages and tensors that cast, and to what
CASTS = {
    "float": core.float32,
    "double": core.float64,
    "half": core.float16,
    "bfloat16": core.bfloat16,
    "long": core.int64,
    "int": core.int32,
    "short": core.int16,
    "char": core.int8,
    "byte": core.uint8,
    "bool": core.bool_,
}
_COMPLEX_CASTS = {"complex_float": core.complex64, "complex_double": core.complex128}
_DOC = """Memory of {dtype} numbers: a `TypedStorage`, kept for old programs.

Args:
    *args: a number of elements, a sequence of them, or an `UntypedStorage`
    wrap_storage: memory that is taken as it is
    dtype: no other than its own
    device: None for the CPU

Example:
    >>> facula.{name}(2).dtype
    facula.{dtype}
"""


class _LegacyStorage(TypedStorage):
    """What the kinds of storages are instances of, under PyTorch's name."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        required = "a kind of storage was required: Only child classes of _LegacyStorage can be instantiated"
        _refuse(
            RuntimeError, required, type(self), "facula.FloatStorage(2), or facula.TypedStorage(2)"
        )


class Storage(TypedStorage):
    """A typed storage of the default dtype.

    Args:
        *args: a number of elements, a sequence of them, or an `UntypedStorage`

    Example:
        >>> facula.Storage([1.0, 2.0]).dtype
        facula.float32
    """


for _name, _dtype in {**CASTS, **_COMPLEX_CASTS, **core.QUANTIZED}.items():
    if _name not in core.QUANTIZED:
        setattr(TypedStorage, _name, _cast(_dtype))
    _kind = f"{_dtype.type_word}Storage"
    globals()[_kind] = _Kind(
        _kind,
        (TypedStorage,),
        {
            "_dtype": _dtype,
            "dtype": _dtype,
            "__module__": "facula",
            "__doc__": _DOC.format(name=_kind, dtype=_dtype.name),
        },
    )
    __all__.append(_kind)

#: every kind
_storage_classes = {
    UntypedStorage,
    TypedStorage,
    *(globals()[name] for name in __all__ if name.endswith("Storage")),
}
