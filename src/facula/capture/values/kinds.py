"""Symbolic values: what the interpreter knows of the objects that a program works on.

Takes: real objects with their sources, nodes of the graph, or parts that are symbolic themselves.
Gives: one class for each kind of thing; the operations on them stand in the mixins of `Symbolic`.
Keeps true: two names for one object are one symbolic value; a value made in the segment has no source;
`birth` is the number of the root frame's instruction that made it.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.values.sources import Source

if TYPE_CHECKING:
    from facula.fx import Node


LITERAL_TYPES = (int, float, bool, str, bytes, complex, type(None), type(...), type(NotImplemented))


class Value:
    """Anything."""

    __slots__ = ("birth", "source")
    #: a `Source`, None for what was made in the segment
    source: Any
    birth: int

    def __init__(self, source: Source | None = None) -> None:
        self.source = source
        self.birth = -1

    @property
    def cls(self) -> type:
        """The type of the object."""
        raise NotImplementedError


class Known(Value):
    """A real object: a literal, a class, a function written in C, a module, an object of the outside."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        super().__init__(source)
        self.obj = obj

    @property
    def cls(self) -> type:
        return type(self.obj)

    def __repr__(self) -> str:
        return f"Known({self.obj!r})"


class Lazy(Value):
    """An object of the outside that has not been looked at; not a value until it is forced."""

    __slots__ = ("obj", "value")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(source)
        self.obj = obj
        self.value: Value | None = None


class TensorValue(Value):
    """A tensor: a node of the graph (made when it is first used) and a fake tensor."""

    __slots__ = ("dynamic", "fake", "marked", "named", "node", "real", "unbacked")

    def __init__(
        self, fake: Any, node: Node | None = None, real: Any = None, source: Any = None
    ) -> None:
        super().__init__(source)
        self.fake = fake
        #: whether its node has the name of a variable
        self.named = False
        self.node = node
        self.real = real
        self.dynamic: frozenset[int] = frozenset()
        #: dimensions that have to be dynamic, and those that no decision may depend on
        self.marked: frozenset[int] = frozenset()
        self.unbacked: frozenset[int] = frozenset()

    @property
    def cls(self) -> type:
        return type(self.real) if self.real is not None else core.Tensor

    def __repr__(self) -> str:
        return f"TensorValue({self.node or self.source})"


class ArrayValue(Value):
    """A NumPy array on the memory of a tensor, or (`scalar`) a number of NumPy's with its element.

    Where NumPy has a view that tensors do not have, the tensor is a copy, and `view_of` says how the
    view is made behind the graph: a function, the array that it is of, and more arguments. An array
    that is known has `content`; its tensor is made when the graph needs it.
    """

    __slots__ = ("content", "kind", "real", "scalar", "tensor", "view_of")

    def __init__(
        self, tensor: TensorValue | Callable[[], TensorValue], kind: type, scalar: bool,
        source: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(source)
        self.tensor = tensor
        self.content: Any = None
        self.kind = kind
        self.scalar = scalar
        self.real: Any = None
        self.view_of: tuple[Any, ArrayValue, tuple[Any, ...]] | None = None

    @property
    def inner(self) -> TensorValue:
        """The tensor on the same memory."""
        if not isinstance(self.tensor, TensorValue):
            self.tensor = self.tensor()
        return self.tensor

    @property
    def cls(self) -> type:
        return self.kind


class NodeValue(Value):
    """An object that a node gives and only nodes take: a function that a transform returned."""

    __slots__ = ("fake", "node")

    def __init__(self, fake: Any, node: Node) -> None:
        super().__init__()
        self.fake = fake
        self.node = node

    @property
    def cls(self) -> type:
        return type(self.fake)


class NumberValue(Value):
    """A number that may be another one in the next call: a size, an int argument, or arithmetic on them.

    `function` and `args` are its expression; a leaf has `function` None and either a source (an int
    argument), `args` = (tensor, dimension), or is read from `tensor`.
    """

    __slots__ = ("args", "function", "hint", "node", "tensor")

    def __init__(
        self,
        hint: Any,
        function: Callable | None = None,
        args: tuple = (),
        source: Source | None = None,
    ) -> None:
        super().__init__(source)
        self.hint = hint
        self.function = function
        self.args = args
        self.tensor: Any = None
        self.node: Any = None

    @property
    def cls(self) -> type:
        return type(self.hint)

    def __repr__(self) -> str:
        return f"NumberValue({self.hint})"


def follows_float(value: Any) -> bool:
    """Whether a number depends on a float from outside that may change."""
    if not isinstance(value, NumberValue):
        return False
    if value.source is not None or value.tensor is not None:
        return type(value.hint) is float
    return value.function is not None and any(follows_float(arg) for arg in value.args)


class SequenceValue(Value):
    """A list, tuple, named tuple, size or deque."""

    __slots__ = ("attributes", "changed", "items", "kind", "maxlen", "real")
    kind: Any

    def __init__(self, kind: type, items: list[Any], source: Source | None = None) -> None:
        super().__init__(source)
        self.kind = kind
        self.items = items
        self.real: Any = None
        self.changed = False
        self.maxlen: int | None = None
        #: what an instance of a class of lists or tuples has beside its items
        self.attributes: DictValue | None = None

    @property
    def cls(self) -> type:
        return self.kind

    @property
    def basic(self) -> type:
        """The class of what arithmetic and slices make of it."""
        return next((base for base in (list, tuple) if issubclass(self.kind, base)), self.kind)

    @property
    def mutable(self) -> bool:
        """Whether items may be put into it."""
        return issubclass(self.kind, (list, collections.deque))


class Identity:
    """A dictionary key that stands for one object."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)


class DictValue(Value):
    """A dictionary; of one from outside only the keys that were asked for are known.

    `items` maps a key (see `Symbolic.key_of`) to the key's value and the item's value.
    """

    __slots__ = (
        "attributes",
        "changed",
        "complete",
        "deleted",
        "dropped",
        "factory",
        "items",
        "kind",
        "overwritten",
        "real",
    )

    def __init__(self, kind: type, source: Source | None = None, real: Any = None) -> None:
        super().__init__(source)
        self.kind = kind
        self.items: dict[Hashable, tuple[Value, Value]] = {}
        self.real = real
        self.complete = real is None
        self.deleted: set[Hashable] = set()
        #: what was taken out once; what is put in again stands at the end
        self.dropped: set[Hashable] = set()
        self.overwritten: set[Hashable] = set()
        self.changed = False
        self.factory: Value | None = None
        #: what an instance of a class of dictionaries has beside its items
        self.attributes: DictValue | None = None

    @property
    def cls(self) -> type:
        return self.kind


class SetValue(Value):
    """A set or frozenset."""

    __slots__ = ("changed", "items", "kind")

    def __init__(self, kind: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.kind = kind
        self.items: dict[Hashable, Value] = {}
        self.changed = False

    @property
    def cls(self) -> type:
        return self.kind


class SliceValue(Value):
    """A slice with parts that are not all known."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Value]) -> None:
        super().__init__()
        self.parts = parts

    @property
    def cls(self) -> type:
        return slice


class CellValue(Value):
    """A closure cell."""

    __slots__ = ("changed", "content", "real")

    def __init__(self, content: Any, source: Source | None = None, real: Any = None) -> None:
        super().__init__(source)
        self.content = content
        self.real = real
        self.changed = False

    @property
    def cls(self) -> type:
        return types.CellType


class FunctionValue(Value):
    """A function written in Python: one of the outside (`real`), or one made in the segment."""

    __slots__ = (
        "attributes", "cells", "code", "defaults", "globals", "kwdefaults", "name", "real",
        "special",
    )  # fmt: skip

    def __init__(self, code: Any, globals_: dict[str, Any], name: str) -> None:
        super().__init__()
        self.code = code
        self.globals = globals_
        self.name = name
        self.real: Any = None
        self.cells: list[CellValue] = []
        self.defaults: list[Value] = []
        self.kwdefaults: dict[str, Value] = {}
        self.attributes: DictValue | None = None
        #: `__doc__` and the like, where they were set
        self.special: dict[str, Value] = {}

    @property
    def cls(self) -> type:
        return types.FunctionType


class MethodValue(Value):
    """A bound method: of a Python function, or (`function` a str) of a builtin type."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Any, owner: Value) -> None:
        super().__init__()
        self.function = function
        self.owner = owner

    @property
    def cls(self) -> type:
        return types.BuiltinMethodType if isinstance(self.function, str) else types.MethodType


class ObjectValue(Value):
    """An instance of a class written in Python: of the outside (`real`), or made in the segment."""

    __slots__ = ("args", "attributes", "kind", "real", "slots")

    def __init__(self, kind: type, source: Source | None = None, real: Any = None) -> None:
        super().__init__(source)
        self.kind = kind
        self.real = real
        self.attributes: DictValue | None = None
        self.slots: dict[str, tuple[Any, Value]] = {}
        self.args: SequenceValue | None = None

    @property
    def cls(self) -> type:
        return self.kind


class SuperValue(Value):
    """`super(cls, owner)`."""

    __slots__ = ("after", "owner")

    def __init__(self, after: type, owner: Value) -> None:
        super().__init__()
        self.after = after
        self.owner = owner

    @property
    def cls(self) -> type:
        return super


class PartialValue(Value):
    """`functools.partial(function, *args, **kwargs)`."""

    __slots__ = ("args", "function", "kwargs")

    def __init__(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
        super().__init__()
        self.function = function
        self.args = args
        self.kwargs = kwargs

    @property
    def cls(self) -> type:
        return functools.partial


class ReplayIterator:
    """An iterator over values that are there: what an iterator of a segment becomes behind it."""

    __slots__ = ("rest",)

    def __init__(self, rest: list[Any]) -> None:
        self.rest = rest

    def __iter__(self) -> ReplayIterator:
        return self

    def __next__(self) -> Any:
        if not self.rest:
            raise StopIteration
        value, self.rest = self.rest[0], self.rest[1:]
        return value


#: iterators of Python that tell where they stand
ITERATORS: tuple[type, ...] = (type(iter(())), type(iter([])), type(iter(range(0))))


def rest_of(iterator: Any) -> list[Any]:
    """What an iterator of Python over items that are there has still to give; it stays where it is."""
    _, (items,), *at = iterator.__reduce__()
    return list(items[at[0] :] if at else items)


def advance(iterator: Iterator[Any], count: int) -> None:
    """Take items from an iterator."""
    collections.deque(itertools.islice(iterator, count), maxlen=0)


def iterator_at(items: Any, at: int) -> Iterator[Any]:
    """An iterator over a sequence, as it stands when it has given `at` items."""
    made = iter(items)
    advance(made, at)
    return made


class IteratorValue(Value):
    """An iterator over symbolic values, pulled one by one from a host iterator.

    `kind` is its class in Python. `recipe` makes it again behind the segment, as it stands by then: it
    gives the callable and the arguments, which are values.
    """

    __slots__ = ("consumed", "kind", "pull", "real", "recipe")

    def __init__(
        self, pull: Iterator[Value], source: Source | None = None, kind: type | None = None
    ) -> None:
        super().__init__(source)
        self.pull = pull
        self.kind = ReplayIterator if kind is None else kind
        self.recipe: Callable[[], tuple[Callable, list[Any]]] | None = None
        self.real: Any = None
        self.consumed = 0

    @property
    def cls(self) -> type:
        return self.kind


class GeneratorValue(Value):
    """A generator of the segment: its frame waits.

    `recipe` is the call that gave it, which gives another one as long as it has not started.
    """

    __slots__ = ("done", "frame", "recipe", "started")

    def __init__(self, frame: Any) -> None:
        super().__init__()
        self.frame = frame
        self.done = False
        self.started = False
        self.recipe: tuple[Value, list[Any], dict[str, Any]] | None = None

    @property
    def cls(self) -> type:
        return types.GeneratorType


#: the classes of a dictionary's views, and the methods that give them
VIEWS: dict[type, str] = {type(getattr({}, part)()): part for part in ("keys", "values", "items")}


def dict_of(view: Any) -> dict[Any, Any]:
    """The dictionary that a view is of."""
    return next(owner for owner in gc.get_referents(view) if isinstance(owner, dict))


class ViewValue(Value):
    """`keys()`, `values()` or `items()` of a dictionary, or a mapping proxy."""

    __slots__ = ("owner", "part")

    def __init__(self, owner: DictValue, part: str) -> None:
        super().__init__()
        self.owner = owner
        self.part = part

    @property
    def cls(self) -> type:
        return next((k for k, part in VIEWS.items() if part == self.part), types.MappingProxyType)


class Raised(Exception):
    """An exception of the program that is interpreted."""

    def __init__(self, value: ObjectValue) -> None:
        self.value = value
        super().__init__(getattr(value.kind, "__name__", "exception"))
