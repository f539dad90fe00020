"""What a name in scripted code may stand for besides a value: Python's objects, methods, ranges.

Takes nothing. Gives small classes that the lowering tells apart.
Keeps true: none of them exists when the graph runs.
"""

from __future__ import annotations

from typing import Any

from facula.jit.ir import Value
from facula.ops.table.schemas import types as T

__all__ = ["Bound", "Items", "Python", "Range", "Sugared"]


class Python:
    """An object of the surrounding Python program: a module, function, class or constant."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __repr__(self) -> str:
        return f"the Python object {getattr(self.obj, '__qualname__', repr(self.obj)[:60])}"


class Names:
    """What the code of a file may name, step by step; its attributes in Python are none of these names."""

    def part(self, name: str) -> Any:
        """What `self.name` stands for."""
        raise NotImplementedError


class Operators:
    """A namespace of operators in an archive's code: `torch`, `ops.prim`."""

    def __init__(self, space: str) -> None:
        self.space = space

    def part(self, name: str) -> Any:
        """A namespace inside of it, or an operator."""
        return Operators(name) if self.space == "ops" else Operator(f"{self.space}::{name}")


class Operator:
    """An operator by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Special:
    """A form of the language that is written as a call: `annotate`, `uninitialized`, ..."""

    def __init__(self, name: str) -> None:
        self.name = name


class TypeName:
    """A type that the code names: the class of objects, or what a cast wants."""

    def __init__(self, type: T.Type) -> None:
        self.type = type


class Bound:
    """A method, looked up and not called yet."""

    def __init__(self, value: Value, name: str) -> None:
        self.value, self.name = value, name

    def __repr__(self) -> str:
        return f"the method {self.name} of {self.value.type}"


class Compiled:
    """The base of functions that are compiled when they are needed."""


class Unit:
    """A function that is compiled, or will be."""

    def __init__(self, function: Any) -> None:
        self.function = function


class Local:
    """A function inside of another."""

    def __init__(self, node: Any) -> None:
        self.node = node


class Items:
    """Several things whose number is known: modules of a list, the items of `zip` over them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


class Range:
    """`range`, `enumerate` or `zip` over values: how many there are, and how to get the i-th."""

    def __init__(self, length: Value, item: Any) -> None:
        self.length, self.item = length, item


Sugared = Any
