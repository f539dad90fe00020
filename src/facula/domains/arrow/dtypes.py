"""Types of columns: numbers, strings, lists, maps, structures, each of which may hold nulls or not.

Takes: types of pyarrow. Gives: types that compare and print as TorchArrow's do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from facula.core.errors import fail

from .._extras import extra

__all__ = [
    "Boolean", "DType", "Field", "Float32", "Float64", "Int16", "Int32", "Int64", "Int8", "List", "Map",
    "String", "Struct", "boolean", "float32", "float64", "from_arrow", "int16", "int32", "int64", "int8",
    "is_floating", "is_integer", "is_numerical", "string",
]  # fmt: skip


@dataclass(frozen=True)
class DType:
    """The type of a column."""

    nullable: bool = False
    name: ClassVar[str] = ""

    def with_null(self, nullable: bool = True) -> Any:
        """The same type, with nulls or without."""
        return replace(self, nullable=nullable)

    def to_arrow(self) -> Any:
        """pyarrow's type."""
        return getattr(extra("pyarrow", "arrow"), {"boolean": "bool_"}.get(self.name, self.name))()

    def __str__(self) -> str:
        return f"{type(self).__name__}(nullable=True)" if self.nullable else self.name


def _plain(name: str) -> type:
    kind = name.capitalize()
    return dataclass(frozen=True)(
        type(
            kind,
            (DType,),
            {"name": name, "__module__": __name__, "__doc__": f"Values of type {name}."},
        )
    )


Boolean, String = _plain("boolean"), _plain("string")
Int8, Int16, Int32, Int64 = (_plain(name) for name in ("int8", "int16", "int32", "int64"))
Float32, Float64 = _plain("float32"), _plain("float64")
boolean, string = Boolean(), String()
int8, int16, int32, int64 = Int8(), Int16(), Int32(), Int64()
float32, float64 = Float32(), Float64()


@dataclass(frozen=True, init=False)
class List(DType):
    """Lists of values of one type."""

    item_dtype: DType = field(default=int64)
    fixed_size: int = -1
    name: ClassVar[str] = "list"

    def __init__(self, item_dtype: DType, nullable: bool = False, fixed_size: int = -1) -> None:
        vars(self).update(item_dtype=item_dtype, nullable=nullable, fixed_size=fixed_size)

    def with_null(self, nullable: bool = True) -> Any:
        """The same type, with nulls or without."""
        return List(self.item_dtype, nullable, self.fixed_size)

    def to_arrow(self) -> Any:
        """pyarrow's type."""
        return extra("pyarrow", "arrow").list_(self.item_dtype.to_arrow(), self.fixed_size)


@dataclass(frozen=True, init=False)
class Map(DType):
    """Keys and values."""

    key_dtype: DType = field(default=string)
    item_dtype: DType = field(default=int64)
    name: ClassVar[str] = "map"

    def __init__(self, key_dtype: DType, item_dtype: DType, nullable: bool = False) -> None:
        vars(self).update(key_dtype=key_dtype, item_dtype=item_dtype, nullable=nullable)

    def with_null(self, nullable: bool = True) -> Any:
        """The same type, with nulls or without."""
        return Map(self.key_dtype, self.item_dtype, nullable)

    def to_arrow(self) -> Any:
        """pyarrow's type."""
        return extra("pyarrow", "arrow").map_(self.key_dtype.to_arrow(), self.item_dtype.to_arrow())


@dataclass(frozen=True)
class Field:
    """A part of a structure."""

    name: str
    dtype: DType


@dataclass(frozen=True, init=False)
class Struct(DType):
    """Named values."""

    fields: tuple[Field, ...] = ()
    name: ClassVar[str] = "struct"

    def __init__(self, fields: Any, nullable: bool = False) -> None:
        vars(self).update(fields=tuple(fields), nullable=nullable)

    def with_null(self, nullable: bool = True) -> Any:
        """The same type, with nulls or without."""
        return Struct(self.fields, nullable)

    def to_arrow(self) -> Any:
        """pyarrow's type."""
        return extra("pyarrow", "arrow").struct([(f.name, f.dtype.to_arrow()) for f in self.fields])


_OF_ARROW = {
    "bool": boolean, "int8": int8, "int16": int16, "int32": int32, "int64": int64, "float": float32,
    "double": float64, "string": string, "large_string": string, "string_view": string,
}  # fmt: skip


def from_arrow(kind: Any, nullable: bool = False) -> Any:
    """The type that stands for one of pyarrow's."""
    types = extra("pyarrow.types", "arrow")
    if str(kind) in _OF_ARROW:
        return _OF_ARROW[str(kind)].with_null(nullable)
    if types.is_list(kind) or types.is_large_list(kind):
        return List(from_arrow(kind.value_type), nullable)
    if types.is_fixed_size_list(kind):
        return List(from_arrow(kind.value_type), nullable, kind.list_size)
    if types.is_map(kind):
        return Map(from_arrow(kind.key_type), from_arrow(kind.item_type), nullable)
    if types.is_struct(kind):
        parts = [kind.field(i) for i in range(kind.num_fields)]
        return Struct([Field(f.name, from_arrow(f.type)) for f in parts], nullable)
    if types.is_null(kind):
        return int64.with_null(True)
    required, hint = (
        "numbers, strings, lists, maps or structures were required",
        "cast the column first",
    )
    return fail(TypeError, "arrow", required, kind, hint=hint)


def of_array(array: Any) -> Any:
    """The type of an array of pyarrow, with nulls where it holds some, inside of lists and structures too."""
    kind = from_arrow(array.type, array.null_count > 0)
    if isinstance(kind, List):
        return List(of_array(array.flatten()), kind.nullable, kind.fixed_size)
    if isinstance(kind, Map):
        return Map(kind.key_dtype, of_array(array.items), kind.nullable)
    if isinstance(kind, Struct):
        pairs = zip(kind.fields, array.flatten(), strict=True)
        return Struct([Field(f.name, of_array(part)) for f, part in pairs], kind.nullable)
    return kind


def takes(dtype: DType, found: DType) -> bool:
    """Whether values of a type that was found may stand in a column: nulls only where it says so."""
    if found.nullable and not dtype.nullable:
        return False
    if isinstance(dtype, List) and isinstance(found, List):
        return takes(dtype.item_dtype, found.item_dtype)
    if isinstance(dtype, Map) and isinstance(found, Map):
        return takes(dtype.item_dtype, found.item_dtype)
    if isinstance(dtype, Struct) and isinstance(found, Struct):
        pairs = zip(dtype.fields, found.fields, strict=True)
        return all(takes(a.dtype, b.dtype) for a, b in pairs)
    return True


def is_integer(dtype: DType) -> bool:
    """Whether values are whole numbers."""
    return isinstance(dtype, (Int8, Int16, Int32, Int64))


def is_floating(dtype: DType) -> bool:
    """Whether values are floats."""
    return isinstance(dtype, (Float32, Float64))


def is_numerical(dtype: DType) -> bool:
    """Whether values are numbers."""
    return is_integer(dtype) or is_floating(dtype)
