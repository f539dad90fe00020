"""The tensor types of PyTorch's first years: `FloatTensor(2, 3)`, `LongTensor([1, 2])`, `isinstance(x, FloatTensor)`.

Takes sizes or data; gives tensors of one dtype. Keeps true: there is one class, Tensor; these only look like others.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

from .storage import TypedStorage


def of_sizes_or_data(args: tuple[Any, ...], dtype: core.dtype, device: Any) -> core.Tensor:
    """What the older constructors make of sizes one by one, of a `Size`, or of one sequence."""
    if len(args) == 1 and isinstance(args[0], core.Size):
        return core.empty(args[0], dtype=dtype, device=device)
    if core.are_sizes(args):
        return core.empty(args or (0,), dtype=dtype, device=device)
    if len(args) == 1:
        core.check_sequence(args[0])
        return core.tensor(args[0], dtype=dtype, device=device)
    fail(
        TypeError,
        "Tensor",
        "sizes, data or a tensor were required: new() received an invalid combination of arguments",
        got=f"({', '.join(type(a).__name__ for a in args)})",
        hint="facula.tensor(data) takes numbers or lists, facula.empty(sizes) a shape",
    )


class _TypedTensor(type):
    """Makes tensors of one dtype, and counts them as instances."""

    dtype: Any
    is_sparse = is_cuda = is_xpu = False

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> Any:
        if bases:
            fail(
                TypeError,
                "Tensor",
                f"a class of tensors was required (type 'torch.{bases[0].__name__}' is not an "
                "acceptable base type)",
                hint="derive from Tensor",
            )
        return super().__new__(cls, name, bases, names)

    def __call__(cls, *args: Any, device: core.device | str | int | None = None) -> core.Tensor:
        if len(args) == 1 and isinstance(args[0], core.Tensor):
            return args[0].to(cls.dtype)
        if len(args) == 1 and isinstance(args[0], (TypedStorage, core.UntypedStorage)):
            return core.empty((0,), dtype=cls.dtype, device=device).set_(args[0])
        return of_sizes_or_data(args, cls.dtype, device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, core.Tensor) and instance.dtype is cls.dtype


_DOC = """Tensors of {dtype}, as PyTorch's first years made them; `tensor` takes a dtype.

Called with sizes it gives elements that are not set, with data a copy; `isinstance` asks for the dtype.

Args:
    *args: sizes, or one sequence of numbers, tensor or storage
    device: None for the default one

Example:
    >>> facula.{name}([1, 0]).dtype
    facula.{dtype}
"""


def _make(name: str, dtype: core.dtype) -> _TypedTensor:
    doc = _DOC.format(name=name, dtype=dtype.name)
    return _TypedTensor(name, (), {"dtype": dtype, "__module__": "facula", "__doc__": doc})


FloatTensor = _make("FloatTensor", core.float32)
DoubleTensor = _make("DoubleTensor", core.float64)
HalfTensor = _make("HalfTensor", core.float16)
BFloat16Tensor = _make("BFloat16Tensor", core.bfloat16)
LongTensor = _make("LongTensor", core.int64)
IntTensor = _make("IntTensor", core.int32)
ShortTensor = _make("ShortTensor", core.int16)
CharTensor = _make("CharTensor", core.int8)
ByteTensor = _make("ByteTensor", core.uint8)
BoolTensor = _make("BoolTensor", core.bool_)


class _TypedTensorOfDevice(_TypedTensor):
    """The same for one type of device."""

    device: str

    def __call__(cls, *args: Any, device: core.device | str | int | None = None) -> core.Tensor:
        if device is None and len(args) == 1 and isinstance(args[0], core.Tensor):
            return args[0].to(cls.device, cls.dtype)
        return super().__call__(*args, device=cls.device if device is None else device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) and instance.device.type == cls.device


def typed_tensors(device: str) -> dict[str, type]:
    """The types of a device, by name."""
    place = f"facula.{device}"
    return {
        kind.__name__: _TypedTensorOfDevice(
            kind.__name__,
            (),
            {
                "dtype": kind.dtype,
                "device": device,
                f"is_{device}": True,
                "__module__": place,
                "__doc__": f"Tensors of {kind.dtype.name} on '{device}', as PyTorch's first years made them.",
            },
        )
        for kind in sorted(_tensor_classes, key=lambda kind: kind.__name__)
    }


class _TypedSparse(_TypedTensor):
    """The same for sparse tensors of coordinates."""

    is_sparse = True

    def __call__(cls, *args: Any, device: core.device | str | int | None = None) -> core.Tensor:
        if not args or isinstance(args[0], (int, core.Size)):
            sizes = args[0] if args and isinstance(args[0], core.Size) else args or (0,)
            nothing = core.empty((len(sizes), 0), dtype=core.int64, device=device)
            args = (nothing, core.empty((0,), dtype=cls.dtype, device=device), sizes)
        positions, values, *size = args
        if not isinstance(values, core.Tensor) or values.dtype is not cls.dtype:
            fail(TypeError, f"sparse.{cls.__name__}", f"values of {cls.dtype} were required",
                 getattr(values, "dtype", type(values).__name__), hint="sparse_coo_tensor takes any")  # fmt: skip
        return F.sparse_coo_tensor(positions, values, *size, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) and instance.is_sparse


def sparse_tensors() -> dict[str, type]:
    """`facula.sparse.FloatTensor` and the others, by name."""
    return {
        kind.__name__: _TypedSparse(
            kind.__name__,
            (),
            {
                "dtype": kind.dtype,
                "__module__": "facula.sparse",
                "__doc__": f"Sparse tensors of {kind.dtype.name}, as PyTorch's first years made them.",
            },
        )
        for kind in sorted(_tensor_classes, key=lambda kind: kind.__name__)
    }


#: all of them
_tensor_classes = {kind for kind in list(globals().values()) if isinstance(kind, _TypedTensor)}
