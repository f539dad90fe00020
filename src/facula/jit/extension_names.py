"""Types and graphs of TorchScript under the names that PyTorch's extension module has for them.

Takes types, where a type is made of others. Gives types of graphs (`torch._C.ListType(torch._C.IntType.get())`) and
the classes of graphs.
Keeps true: each type is the one that graphs and signatures have, so that they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula.core.errors import no_attribute
from facula.jit import types as T
from facula.jit.ir import Block, Graph, Node, Use, Value
from facula.jit.python_types import type_of_value
from facula.namespaces._awaits import _Await
from facula.nn import Module

__all__ = ["_Await", "Block", "Graph", "JitType", "Node", "Type", "Use", "Value"]

Type = JitType = T.Type
ClassType = T.ClassType


class _Plain:
    """A type without parts: `get()` gives it."""

    def __init__(self, kind: T.Type) -> None:
        self._kind = kind

    def get(self) -> T.Type:
        """The type."""
        return self._kind

    def __call__(self) -> T.Type:
        return self._kind


TensorType, IntType, FloatType = _Plain(T.TENSOR), _Plain(T.INT), _Plain(T.FLOAT)
BoolType, StringType, NoneType = _Plain(T.BOOL), _Plain(T.STR), _Plain(T.NONE)
ComplexType, NumberType, AnyType = _Plain(T.COMPLEX), _Plain(T.NUMBER), _Plain(T.ANY)
DeviceObjType, StreamObjType = _Plain(T.DEVICE), _Plain(T.STREAM)


def ListType(item: T.Type) -> T.Type:
    """A list of items of a type."""
    return T.list_of(item)


def DictType(key: T.Type, value: T.Type) -> T.Type:
    """A dictionary of keys and values of types."""
    return T.dict_of(key, value)


def TupleType(items: Sequence[T.Type]) -> T.Type:
    """A tuple of items of types."""
    return T.tuple_of(list(items))


def OptionalType(item: T.Type) -> T.Type:
    """A value of a type, or None."""
    return T.optional_of(item)


def UnionType(items: Sequence[T.Type]) -> T.Type:
    """A value of one of several types."""
    return T.union_of(list(items))


def FutureType(item: T.Type) -> T.Type:
    """The future of a value."""
    return T.future_of(item)


def AwaitType(item: T.Type) -> T.Type:
    """A value that is computed later."""
    return T.await_of(item)


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
        """The type."""
        return self._found if self.success() else None

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


def __getattr__(name: str) -> Any:
    """Names of passes and of what lies about them, `_jit_pass_cse`."""
    # lazily: most programs ask for types only
    from facula.jit import pass_names

    found = pass_names.named(name)
    if found is None:
        raise no_attribute(__name__, name)
    return found
