"""Types and graphs of TorchScript under the names that PyTorch's extension module has for them.

Takes types, where a type is made of others. Gives types of graphs (`torch._C.ListType(torch._C.IntType.get())`) and
the classes of graphs.
Keeps true: each type is the one that graphs and signatures have, so that they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from facula import core
from facula.core.errors import fail, no_attribute
from facula.jit.archive_code import ScriptObject
from facula.jit.ir import Block, Graph, Node, Use, Value
from facula.jit.python_types import type_of_value
from facula.jit.running import is_instance
from facula.jit.script_schemas import (
    all_schemas,
    operation,
    overload_of_name,
    schema_of_name,
    schemas_for,
)
from facula.jit.tensor_types import SOME, of_tensor
from facula.namespaces._awaits import _Await
from facula.nn import Module
from facula.ops.table.overloads import namespace, overload_of
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.function import AliasInfo as _AliasInfo
from facula.ops.table.schemas.function import Argument, FunctionSchema
from facula.ops.table.schemas.reading import parse_schema

__all__ = [
    "Argument", "_AliasInfo", "_Await", "Block", "FunctionSchema", "Graph", "JitType", "Node", "ScriptObject", "Type",
    "Use", "Value", "parse_schema",
]  # fmt: skip

Type = JitType = T.Type
ClassType = T.ClassType
_jit_get_schemas_for_operator, _jit_get_all_schemas = schemas_for, all_schemas
_jit_get_operation, _get_operation_overload, _get_schema = (
    operation,
    overload_of_name,
    schema_of_name,
)


def _jit_resolve_packet(qualname: str, *args: object, **kwargs: object) -> str:
    """The name of the overload of an operator that takes these arguments.

    Raises:
        RuntimeError: none does.
    """
    space, _, name = qualname.partition("::")
    function = getattr(namespace(space), name)._function
    try:
        bound, _ = core.bind_arguments(core.operator_of(function), args, kwargs)
    except TypeError as error:
        fail(
            RuntimeError,
            qualname,
            f"arguments of one of its schemas were required (failed to match any schema): {error}",
            hint=f"str(facula.ops.{space}.{name}.default._schema) says what it takes",
        )
    del bound
    return overload_of(function, args, kwargs)._overloadname or "default"


class _Named(type):
    """A name for types of some kinds: `isinstance(type, torch.ListType)` asks for the kind."""

    kinds: tuple[str, ...] = ()

    def __instancecheck__(cls, instance: object) -> bool:
        kind = getattr(instance, "kind", "")
        variable = "$" in cls.kinds and str(kind).startswith("$")
        return isinstance(instance, T.Type) and (kind in cls.kinds or variable)

    def __or__(self, other: object) -> Any:
        """`DeviceObjType | None` in annotations: classes in PyTorch."""
        return Union[self, other]  # noqa: UP007 - `|` asks this method

    def __ror__(self, other: object) -> Any:
        return Union[other, self]  # noqa: UP007


def _plain(name: str, kind: T.Type) -> Any:
    """The class of a type without parts: `get()`, or a call, gives the type."""
    give = staticmethod(lambda *names: kind)
    return _Named(name, (), {"kinds": (str(kind.kind),), "get": give, "__new__": give,
                             "__doc__": f"The type `{kind.annotation_str}`."})  # fmt: skip


TensorType, IntType, FloatType = (
    _plain("TensorType", SOME),
    _plain("IntType", T.INT),
    _plain("FloatType", T.FLOAT),
)
BoolType, StringType, NoneType = (
    _plain("BoolType", T.BOOL),
    _plain("StringType", T.STR),
    _plain("NoneType", T.NONE),
)
ComplexType, NumberType, AnyType = (
    _plain("ComplexType", T.COMPLEX),
    _plain("NumberType", T.NUMBER),
    _plain("AnyType", T.ANY),
)
DeviceObjType, StreamObjType = _plain("DeviceObjType", T.DEVICE), _plain("StreamObjType", T.STREAM)
SymIntType, SymBoolType = (
    _plain("SymIntType", T.Type("SymInt")),
    _plain("SymBoolType", T.Type("SymBool")),
)
_GeneratorType = _plain("_GeneratorType", T.GENERATOR)
TensorType.getInferred = TensorType.get
TensorType.create_from_tensor = staticmethod(of_tensor)


class ListType(metaclass=_Named):
    """A list of items of a type."""

    kinds = ("List",)

    def __new__(cls, item: T.Type | None) -> Any:
        if item is None:
            fail(RuntimeError, "ListType", "a type of items was required (Can not create ListType with None type)",
                 None, hint="ListType(IntType.get())")  # fmt: skip
        return T.list_of(item)

    ofInts = staticmethod(lambda: T.list_of(T.INT))
    ofFloats = staticmethod(lambda: T.list_of(T.FLOAT))
    ofBools = staticmethod(lambda: T.list_of(T.BOOL))
    ofStrings = staticmethod(lambda: T.list_of(T.STR))
    ofTensors = staticmethod(lambda: T.list_of(T.TENSOR))
    ofComplexDoubles = staticmethod(lambda: T.list_of(T.COMPLEX))


class DictType(metaclass=_Named):
    """A dictionary of keys and values of types."""

    kinds = ("Dict",)

    def __new__(cls, key: T.Type, value: T.Type) -> Any:
        return T.dict_of(key, value)


class TupleType(metaclass=_Named):
    """A tuple of items of types."""

    kinds = ("Tuple",)

    def __new__(cls, items: Sequence[T.Type]) -> Any:
        return T.tuple_of(list(items))


class OptionalType(metaclass=_Named):
    """A value of a type, or None."""

    kinds = ("Optional",)

    def __new__(cls, item: T.Type) -> Any:
        return T.optional_of(item)

    ofTensor = staticmethod(lambda: T.optional_of(T.TENSOR))


class UnionType(metaclass=_Named):
    """A value of one of several types."""

    kinds = ("Union", "Optional")

    def __new__(cls, items: Sequence[T.Type]) -> Any:
        return T.union_of(list(items))


class FutureType(metaclass=_Named):
    """The future of a value."""

    kinds = ("Future",)

    def __new__(cls, item: T.Type) -> Any:
        return T.future_of(item)


class AwaitType(metaclass=_Named):
    """A value that is computed later."""

    kinds = ("Await",)

    def __new__(cls, item: T.Type) -> Any:
        return T.await_of(item)


class RRefType(metaclass=_Named):
    """A value on another worker."""

    kinds = ("RRef",)

    def __new__(cls, item: T.Type) -> Any:
        return T.Type("RRef", (item,))


class EnumType(metaclass=_Named):
    """An enumeration."""

    kinds = ("Enum",)


def unify_type_list(types: Sequence[T.Type]) -> Any:
    """The least type that covers all; None where there is none."""
    found: T.Type | None = types[0]
    for kind in types[1:]:
        found = None if found is None else T.unify(found, kind)
    return found


class InferredType:
    """The type of a value, or why it has none."""

    def __init__(self, found: T.Type | str) -> None:
        self._found = found

    def success(self) -> bool:
        """Whether there is a type."""
        return isinstance(self._found, T.Type)

    def type(self) -> Any:
        """The type.

        Raises:
            RuntimeError: there is none.
        """
        if not self.success():
            fail(RuntimeError, "InferredType.type", "a type was required (Tried to get the type from an "
                                                    "InferredType but "
                 "the type is null.)", self._found, hint="success() says whether there is one")  # fmt: skip
        return self._found

    def reason(self) -> str:
        """Why there is none."""
        return "" if self.success() else str(self._found)


def _jit_try_infer_type(value: object) -> InferredType:
    """The type that a script takes a value for."""
    if isinstance(value, Module):
        return InferredType("Cannot infer concrete type of torch.nn.Module")
    if isinstance(value, (list, dict)) and not value:
        return InferredType(f"{type(value).__name__.capitalize()} trace inputs must have elements")
    try:
        return InferredType(type_of_value(value))
    except Exception as error:
        return InferredType(str(error))


def _jit_assert_is_instance(value: object, kind: T.Type) -> None:
    """Raise unless a value of Python's is one of a type.

    Raises:
        RuntimeError: it is none.
    """
    if not is_instance(value, kind):
        fail(RuntimeError, "_jit_assert_is_instance", f"a value of type {kind.annotation_str} was required",
             type(value).__name__, hint="torch._C._jit_try_infer_type(value) says what it is taken for")  # fmt: skip


def __getattr__(name: str) -> Any:
    """Names of passes and of what lies about them, `_jit_pass_cse`."""
    # lazily: most programs ask for types only
    from facula.jit import pass_names

    found = pass_names.named(name)
    if found is None:
        raise no_attribute(__name__, name)
    return found
