"""Dtypes, layouts, memory formats and devices, and what nodes call, as PyTorch's files name them.

Takes: one of them, or its name in a file. Gives: the other of the two.
Keeps true: a file names operators of the table, functions of numbers that graphs may call, and what
`register_extension` was given; nothing else is looked up.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

from facula import core
from facula.export.description import FUNCTIONS
from facula.export.description_reader import read_target
from facula.export.pt2 import operators  # noqa: F401 - defines what files name
from facula.export.pt2 import records as R
from facula.export.pt2.plain import SerializeError, refuse
from facula.fx import symbols
from facula.fx.higher_order.operator import HigherOrderOperator
from facula.ops.layers.loss import REDUCTIONS
from facula.ops.table.overloads import OpOverload, named_overload
from facula.ops.table.registry import TABLE

__all__ = [
    "DTYPES", "LAYOUTS", "MEMORY_FORMATS", "ExtensionHandler", "device_of", "named", "read_device",
    "register_extension", "target_named", "value_of",
]  # fmt: skip

_DTYPES = {
    "uint8": "BYTE", "int8": "CHAR", "uint16": "UINT16", "int16": "SHORT", "int32": "INT", "int64": "LONG",
    "uint32": "UINT32", "uint64": "UINT64", "float16": "HALF", "float32": "FLOAT", "float64": "DOUBLE",
    "complex32": "COMPLEXHALF", "complex64": "COMPLEXFLOAT", "complex128": "COMPLEXDOUBLE", "bool": "BOOL",
    "bfloat16": "BFLOAT16", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e5m2": "FLOAT8E5M2",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ", "float8_e8m0fnu": "FLOAT8E8M0FNU",
}  # fmt: skip
#: dtype -> its number
DTYPES = {
    getattr(core, name): R.ScalarType[code] for name, code in _DTYPES.items() if hasattr(core, name)
}
LAYOUTS = {
    getattr(core, name): code
    for name, code in (
        ("strided", R.Layout.Strided), ("sparse_coo", R.Layout.SparseCoo), ("sparse_csr", R.Layout.SparseCsr),
        ("sparse_csc", R.Layout.SparseCsc), ("sparse_bsr", R.Layout.SparseBsr), ("sparse_bsc", R.Layout.SparseBsc),
    )
    if hasattr(core, name)
}  # fmt: skip
MEMORY_FORMATS = {
    core.contiguous_format: R.MemoryFormat.ContiguousFormat,
    core.channels_last: R.MemoryFormat.ChannelsLast,
    core.channels_last_3d: R.MemoryFormat.ChannelsLast3d,
    core.preserve_format: R.MemoryFormat.PreserveFormat,
}


def value_in_file(name: str, value: object) -> Any:
    """An argument as PyTorch's operators take it: reductions are numbers."""
    if name == "reduction" and isinstance(value, str) and value in REDUCTIONS:
        return REDUCTIONS.index(value)
    return value


def value_from_file(parameter: Any, value: Any) -> Any:
    """An argument as operators here take it."""
    if parameter is None or parameter.name != "reduction" or parameter.type != "str":
        return value
    known = type(value) is int and 0 <= value < len(REDUCTIONS)
    return REDUCTIONS[value] if known else refuse("a reduction of 0, 1 or 2", value)


def names_in_file(target: object) -> dict[str, str]:
    """Argument -> its name in files, of those that have another one; `*` in front where it is given by keyword, `[]`
    behind it where it is a list."""
    definition = getattr(target, "_definition", None)
    given = {} if definition is None else definition.file_arguments or {}
    public = _of_special(definition)
    if definition is not None and public is not None:
        pairs = zip(definition.schema.parameters, public.schema.parameters, strict=True)
        return {own.name: other.name for own, other in pairs}
    overload = getattr(target, "_overloadname", "")
    plain = {name: other for name, other in given.items() if "." not in name}
    own = {n.partition(".")[2]: o for n, o in given.items() if n.partition(".")[0] == overload}
    return plain | own


def value_of(known: dict[Any, Any], code: object) -> Any:
    """What a number of the format stands for."""
    return next((x for x, c in known.items() if c == code), None) or refuse("a known number", code)


def device_of(device: core.device) -> R.Device:
    """A device."""
    return R.Device(device.type, device.index)


def read_device(device: R.Device) -> core.device:
    """The device."""
    return core.device(device.type if device.index is None else f"{device.type}:{device.index}")


# ------------------------------------------------------------------ what nodes call


class ExtensionHandler(ABC):
    """Names the operators of a class of a program's own, for files; `register_extension` makes it known."""

    @classmethod
    @abstractmethod
    def namespace(cls) -> str:
        """What the names begin with."""

    @classmethod
    @abstractmethod
    def to_op_name(cls, op: object) -> str:
        """The name of an operator."""

    @classmethod
    @abstractmethod
    def from_op_name(cls, name: str) -> Any:
        """The operator of a name."""

    @classmethod
    @abstractmethod
    def op_schema(cls, op: object) -> Any:
        """The schema of an operator."""


#: class of operators -> its handler
EXTENSIONS: dict[type, type[ExtensionHandler]] = {}


def register_extension(op_type: type, extension_handler: type[ExtensionHandler]) -> None:
    """Let files name operators of a class.

    Args:
        op_type: the class
        extension_handler: names them

    Raises:
        AssertionError: the class or the namespace is known, or is PyTorch's own.
    """
    space = extension_handler.namespace()
    taken = {handler.namespace() for handler in EXTENSIONS.values()}
    if op_type in EXTENSIONS or space in taken or space.startswith(("torch", "_operator", "math")):
        raise AssertionError(
            f"[register_extension] a class and a namespace that are free were required: got {op_type}, {space!r}\n"
            "hint: each class is registered once"
        )
    EXTENSIONS[op_type] = extension_handler


_SYMBOLIC = (
    "sym_int",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_ite",
    "sym_float",
    "sym_sqrt",
    "sym_sum",
)
_NUMBER_FUNCTIONS = {
    f"torch.{name}": getattr(symbols, name) for name in _SYMBOLIC if hasattr(symbols, name)
}
_BY_NAME = {
    **{f"_{name}" if name.startswith("operator.") else name: f for name, f in FUNCTIONS.items()},
    **_NUMBER_FUNCTIONS,
}
_NAMES: dict[Any, str] = {}
for _name, _function in reversed(_BY_NAME.items()):
    if not _name.startswith("_operator._"):
        _NAMES[_function] = _name
#: Python's `not` of a condition is PyTorch's function
_NAMES[FUNCTIONS["operator.not_"]] = "torch.sym_not"


def named(target: Any) -> str:
    """The name of what a node calls."""
    if isinstance(target, OpOverload):
        other = None if target._definition is None else target._definition.file_name
        if other is None:
            return f"torch.ops.{_special_name(target) or target}"
        return f"torch.ops.aten.{other if '.' in other else f'{other}.{target._overloadname}'}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    handler = EXTENSIONS.get(type(target))
    if handler is not None:
        return f"#{handler.namespace()}:{handler.to_op_name(target)}"
    found = _NAMES.get(target) if callable(target) else None
    return found if found is not None else refuse("an operator", target)


def _special_name(target: OpOverload) -> str:
    """PyTorch's name of the elementwise function that an operator of `special` is made of; nothing of others."""
    public = _of_special(target._definition)
    if public is None:
        return ""
    numbers = {"Scalar": "other_scalar", "ScalarSelf": "self_scalar"}
    return f"aten.{public.name}.{numbers.get(target._overloadname, 'default')}"


def _of_special(definition: Any) -> Any:
    """The definition of the operator of `special` that stands for an elementwise function without a public name."""
    public = (
        None if definition is None or definition.names else TABLE.get(f"special_{definition.name}")
    )
    if public is None:
        return None
    found, own = public.definition, definition.schema.parameters
    return found if len(found.schema.parameters) == len(own) else None


@functools.cache
def _file_names() -> dict[str, Any]:
    """PyTorch's names of operators that are called otherwise here, with the overload or without."""
    return {op.definition.file_name: op for op in TABLE.values() if op.definition.file_name}


def _other_name(name: str) -> Any:
    """The operator that is called otherwise here."""
    own = name.removeprefix("torch.ops.aten.")
    packet, _, overload = own.partition(".")
    found = _file_names().get(own) or _file_names().get(packet)
    return found and named_overload("aten", packet, overload, found)


def target_named(name: str) -> Any:
    """What a node calls, by its name."""
    if name.startswith("#"):
        space, _, operator = name[1:].partition(":")
        for handler in EXTENSIONS.values():
            if handler.namespace() == space:
                return handler.from_op_name(operator)
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    if not name.startswith("torch.ops."):
        return refuse(
            "an operator that this version knows (We failed to resolve it to an operator)", name
        )
    try:
        return _other_name(name) or read_target(name.removeprefix("torch.ops."))
    except RuntimeError as error:
        raise SerializeError(str(error)) from error
