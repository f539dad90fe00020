"""The types of schemas and of TorchScript: tensors, numbers, text, containers, classes, and how they relate.

Takes nothing. Gives `Type` and its makers, the two spellings (of graphs, `int[]`, and of annotations,
`List[int]`), `is_subtype` and `unify`.
Keeps true: types are compared by what they say; a class is one object, equal to itself only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any as Object

from facula.core.errors import fail

__all__ = ["Type", "is_subtype", "unify"]


#: kinds that are no keys of dictionaries
NO_KEYS = ("Tuple", "List", "Dict", "Union", "Optional", "NoneType")
#: the kinds in the order in which unions name them
_ORDER = (
    "Any", "Enum", "Tensor", "Tuple", "List", "Dict", "Scalar", "float", "complex", "Future", "Await", "int",
    "NoneType", "str", "Generator", "bool", "Device", "Stream",
)  # fmt: skip
#: parts of a type: tuples of tuples double with each line of a program
LARGEST = 50_000


class Kind(str):
    """The kind of a type: a word; a call gives PyTorch's word, as programs ask `type.kind()`."""

    __slots__ = ()

    def __call__(self) -> str:
        if self.startswith("$"):
            return "VarType"
        return f"{_KINDS.get(self, str(self))}Type"


#: PyTorch's words where they are others
_KINDS = {
    "int": "Int", "float": "Float", "bool": "Bool", "complex": "Complex", "str": "String", "NoneType": "None",
    "Scalar": "Number", "Device": "DeviceObj", "Stream": "StreamObj",
}  # fmt: skip


class Type:
    """A type: its kind, and the types inside.

    `str()` of it is the annotation, `List[int]`; its method `str` gives the spelling of graphs, `int[]`.
    """

    __slots__ = ("inner", "kind", "size")
    size: int

    def __init__(self, kind: str, inner: tuple[Type, ...] = ()) -> None:
        self.kind, self.inner = Kind(kind), inner
        self.size = 1 + sum(t.size for t in inner)
        if self.size > LARGEST:
            fail(RuntimeError, "jit", f"a type of at most {LARGEST} parts was required", self.size,
                 hint="use a list, or a class, for many values")  # fmt: skip

    def __deepcopy__(self, memo: Object) -> Type:
        return self  # copies of a module are of its type

    def __call__(self) -> Type:
        """The type itself: PyTorch's graphs are asked `value.type()`."""
        return self

    def __eq__(self, other: object) -> bool:
        return (
            self is other
            or type(self) is type(other)
            and isinstance(other, Type)
            and self._key() == other._key()
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Object, ...]:
        return self.kind, self.inner

    def __repr__(self) -> str:
        return self.annotation_str

    @property
    def annotation_str(self) -> str:
        """The type as an annotation: `List[int]`."""
        return _annotation_text(self)

    @property
    def item(self) -> Type:
        """What a list, an Optional or a future holds."""
        return self.inner[0]

    # PyTorch's names
    def getElementType(self) -> Type:
        """What a list, an Optional or a future holds."""
        return self.item

    def getKeyType(self) -> Type:
        """What a dictionary is asked with."""
        return self.inner[0]

    def getValueType(self) -> Type:
        """What a dictionary gives."""
        return self.inner[1]

    def elements(self) -> list[Type]:
        """What a tuple holds."""
        return list(self.inner)

    def containedTypes(self) -> list[Type]:
        """The types inside."""
        return list(self.inner)

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether a value of the type may stand where another one is needed."""
        return is_subtype(self, other)

    def is_interface_type(self) -> bool:
        """Whether it is what several classes have in common."""
        return bool(getattr(self, "is_interface", False))

    def str(self) -> str:
        """The type as graphs and schemas spell it: `int[]`."""
        return _graph_text(self)


class NamedTupleType(Type):
    """A tuple whose items have names."""

    __slots__ = ("defaults", "fields", "name", "python")

    def __init__(
        self,
        name: str,
        fields: tuple[str, ...],
        inner: tuple[Type, ...],
        python: Object = None,
        defaults: dict[str, Object] | None = None,
    ) -> None:
        super().__init__("Tuple", inner)
        self.name, self.fields, self.python = name, fields, python
        self.defaults = defaults or {}

    def _key(self) -> tuple[Object, ...]:
        return self.name, self.fields, self.inner


class EnumType(Type):
    """An enumeration: Python's class, or the members that a file names."""

    __slots__ = ("members", "name", "python")

    def __init__(self, name: str, members: dict[str, Object], item: Type, python: Object) -> None:
        super().__init__("Enum", (item,))
        self.name, self.members, self.python = name, members, python

    def _key(self) -> tuple[Object, ...]:
        return "Enum", self.name


class ClassType(Type):
    """A class or module: attributes with types, constants, and compiled methods by name."""

    __slots__ = (
        "attributes",
        "buffers",
        "constants",
        "finals",
        "hooks",
        "is_interface",
        "is_module",
        "methods",
        "name",
        "notes",
        "parameters",
        "pre_hooks",
        "properties",
        "python",
        "setters",
        "static",
    )

    def __init__(self, name: str, is_module: bool = False, python: Object = None) -> None:
        super().__init__("Class")
        self.name, self.is_module, self.python = name, is_module, python
        self.is_interface = False
        self.attributes: dict[str, Type] = {}
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.constants: dict[str, Object] = {}
        #: the constants that the class declares as such
        self.finals: frozenset[str] = frozenset()
        #: compiled functions, or functions that compile when they are first asked for
        self.methods: dict[str, Object] = {}
        self.static: dict[str, Object] = {}
        self.properties: dict[str, Object] = {}
        #: what assigns to a property
        self.setters: dict[str, Object] = {}
        #: the names of methods that a call of the module runs before `forward`, and behind it
        self.pre_hooks: list[str] = []
        self.hooks: list[str] = []
        #: why an attribute has no type
        self.notes: dict[str, str] = {}

    def listed_names(self) -> dict[str, list[str]]:
        """The lists of names that a module has, by the names that files have for them."""
        return {
            "__parameters__": self.parameters, "__buffers__": self.buffers,
            "__forward_hooks__": self.hooks, "__forward_pre_hooks__": self.pre_hooks,
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def method(self, name: str) -> Object:
        """The compiled method of a name, or None."""
        found = self.methods.get(name)
        return None if found is None else found.compiled()


TENSOR, INT, FLOAT, BOOL = Type("Tensor"), Type("int"), Type("float"), Type("bool")
STR, NONE, DEVICE, NUMBER = Type("str"), Type("NoneType"), Type("Device"), Type("Scalar")
COMPLEX, ANY, GENERATOR, STREAM = Type("complex"), Type("Any"), Type("Generator"), Type("Stream")
QSCHEME = Type("QScheme")
ANY_LIST, ANY_TUPLE = Type("AnyList"), Type("AnyTuple")
#: a list whose item type is not known yet: `[]`
NUMBERS = (INT, FLOAT, COMPLEX, NUMBER, BOOL)


def list_of(item: Type) -> Type:
    return Type("List", (item,))


def future_of(item: Type) -> Type:
    return Type("Future", (item,))


def await_of(item: Type) -> Type:
    return Type("Await", (item,))


def dict_of(key: Type, value: Type) -> Type:
    """The type of a dictionary; what TorchScript cannot look up by is no key."""
    if key.kind in NO_KEYS:
        said = (
            f"Cannot create dict for key type '{_graph_text(key)}', only int, float, complex, Tensor, device and "
            "string keys are supported"
        )
        fail(
            RuntimeError,
            "jit.script",
            f"a type of keys that can be compared was required ({said})",
            key.annotation_str,
            hint="join the parts of a key to a str, or nest dictionaries",
        )
    return Type("Dict", (key, value))


def tuple_of(items: Sequence[Type]) -> Type:
    return Type("Tuple", tuple(items))


def optional_of(item: Type) -> Type:
    """`Optional[item]`; what may be None already stays."""
    if item.kind in ("Optional", "NoneType", "Any"):
        return item
    if item.kind == "Union" and NONE in item.inner:
        return item
    return Type("Optional", (item,))


def union_of(items: Sequence[Type]) -> Type:
    """The union, without those that another one covers; an Optional where that says the same."""
    flat: list[Type] = []
    for item in items:
        flat.extend(
            item.inner
            if item.kind == "Union"
            else (item.item, NONE)
            if item.kind == "Optional"
            else (item,)
        )
    kept: list[Type] = []
    for item in flat:
        if not any(is_subtype(item, other) for other in kept):
            kept = [other for other in kept if not is_subtype(other, item)] + [item]
    if len(kept) == 1:
        return kept[0]
    if len(kept) == 2 and NONE in kept:
        return optional_of(kept[0] if kept[1] == NONE else kept[1])
    return Type("Union", tuple(sorted(kept, key=_order)))


def _order(item: Type) -> tuple[int, str]:
    """PyTorch's order of the members of a union: by kind, then by text."""
    return _ORDER.index(item.kind) if item.kind in _ORDER else len(_ORDER), _graph_text(item)


def members(type: Type) -> tuple[Type, ...]:
    """The alternatives of a type: itself, unless it is a union."""
    if type.kind == "Optional":
        return (*members(type.item), NONE)
    return type.inner if type.kind == "Union" else (type,)


def without_none(type: Type) -> Type:
    """What is left of a type when None is excluded."""
    return union_of([m for m in members(type) if m != NONE]) if type != NONE else type


def is_subtype(a: Type, b: Type) -> bool:
    """Whether a value of type `a` may stand where `b` is needed."""
    if a == b or b.kind == "Any" or a.kind == b.kind == "Tensor":
        return True
    if a.kind in ("Union", "Optional"):
        return all(is_subtype(m, b) for m in members(a))
    if b.kind in ("Union", "Optional"):
        return any(is_subtype(a, m) for m in members(b))
    if b.kind == "Scalar":
        return a.kind in ("int", "float", "complex")
    if b.kind in ("AnyList", "AnyTuple", "AnyEnum", "AnyAwait"):
        return a.kind == b.kind[3:]
    if a.kind == b.kind == "Tuple":
        if isinstance(b, NamedTupleType):
            return False
        return len(a.inner) == len(b.inner) and all(map(is_subtype, a.inner, b.inner))
    if a.kind == b.kind and a.kind in ("Future", "Await"):
        return is_subtype(a.item, b.item)
    if isinstance(a, ClassType) and isinstance(b, ClassType) and b.is_interface:
        return not unlike_interface(a, b)
    return False


def unlike_interface(a: ClassType, b: ClassType) -> str:
    """What a class lacks to be one of an interface; nothing where it is one."""
    for name, wanted in b.methods.items():
        have: Object = a.methods.get(name)
        if have is None:
            return f"method {name!r} is missing"
        given, asked = have.parameters[1:], wanted.parameters[1:]
        if [p[0] for p in given] != [p[0] for p in asked] or not all(
            is_subtype(y[1], x[1]) for x, y in zip(given, asked, strict=True)
        ):
            return f"the arguments of {name!r} are others"
        if not is_subtype(have.result_type(), wanted.result_type()):
            return f"the result of {name!r} is another"
    return ""


def unify(a: Type, b: Type, default: Type | None = None) -> Type | None:
    """The least type that covers both; None where there is none (other than a union)."""
    if a.kind == b.kind == "Tensor":
        return b if a is b else TENSOR
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    if default is not None and is_subtype(a, default) and is_subtype(b, default):
        return default
    if a == NONE or b == NONE:
        return optional_of(b if a == NONE else a)
    if a.kind == "Optional" or b.kind == "Optional":
        inner = unify(without_none(a), without_none(b))
        return None if inner is None else optional_of(inner)
    if a.kind == b.kind == "Tuple" and len(a.inner) == len(b.inner):
        items = [unify(x, y) for x, y in zip(a.inner, b.inner, strict=True)]
        return None if None in items else tuple_of([i for i in items if i is not None])
    return None


def _graph_text(t: Type) -> str:
    if isinstance(t, ClassType):
        return t.name
    if isinstance(t, NamedTupleType):
        return f"NamedTuple({', '.join(_field_text(t, i) for i in range(len(t.fields)))})"
    if isinstance(t, EnumType):
        return f"Enum<{t.name}>"
    if t.kind == "Tensor" and type(t) is not Type:
        return t.str()
    texts = [_graph_text(i) for i in t.inner]
    if t.kind == "List":
        return f"{texts[0]}[]"
    if t.kind == "Optional":
        return f"{texts[0]}?"
    if t.kind == "Dict":
        return f"Dict({', '.join(_inside_dict(text, i) for text, i in zip(texts, t.inner, strict=True))})"
    if t.kind == "Tuple":
        return f"({', '.join(texts)})"
    if t.kind in ("Future", "RRef"):
        return f"{t.kind}[{texts[0]}]"
    return f"{t.kind}({', '.join(texts)})" if texts else t.kind.removeprefix("$")


def _inside_dict(text: str, t: Type) -> str:
    """Within a dictionary PyTorch prints futures with parentheses."""
    return f"{t.kind}({text[len(t.kind) + 1 : -1]})" if t.kind in ("Future", "RRef") else text


def _field_text(t: NamedTupleType, i: int) -> str:
    name = t.fields[i]
    text = f"{name} : {_graph_text(t.inner[i])}"
    return f"{text} = {_default_text(t.defaults[name])}" if name in t.defaults else text


def _default_text(value: Object) -> str:
    """A default as graphs print it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_default_text(v)}" for k, v in value.items()) + "}"
    return str(value)


def _annotation_text(t: Type) -> str:
    if isinstance(t, (ClassType, NamedTupleType, EnumType)):
        return t.name
    texts = [_annotation_text(i) for i in t.inner]
    if t.kind == "Scalar":
        return "number"
    if t.kind in ("Generator", "Device"):
        return t.kind if t.kind == "Device" else "Generator"
    if t.kind == "Tuple" and not texts:
        return "Tuple[()]"
    return f"{t.kind}[{', '.join(texts)}]" if texts else t.kind.removeprefix("$")
