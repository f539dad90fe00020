"""Signatures of the core's functions and classes, read out of its Cython source.

Takes the `.pxi` files. Gives, by name, the parameters of `def` functions, of the methods and properties
of classes, and the public fields of `cdef class`es, as annotated Python text.
Keeps true: what the source does not say about a type is `Any`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

#: C and Cython types as annotations; aliases of builtins since Tensor has methods of their names
TYPES = {
    "bint": "_bool",
    "int": "_int",
    "float": "_float",
    "double": "_float",
    "str": "str",
    "bytes": "bytes",
    "list": "list[Any]",
    "tuple": "tuple[Any, ...]",
    "dict": "dict[Any, Any]",
    "object": "Any",
    "Tensor": "Tensor",
    "Generator": "Generator",
    "dtype": "_dtype",
    "UntypedStorage": "UntypedStorage",
    **{f"{kind}{bits}_t": "_int" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
_DEF = re.compile(
    r"^(?P<indent> *)def (?P<name>\w+)\((?P<arguments>.*?)\)\s*(?:->.*)?:\s*(?:#.*)?$", re.S
)
_CLASS = re.compile(r"^(?:cdef )?class (?P<name>\w+)(?:\((?P<bases>[^)]*)\))?:")
_FIELD = re.compile(r"^    cdef (?:readonly|public) (?P<type>\w+) (?P<names>[\w, ]+)")


@dataclass
class Class:
    """A class of the core: its methods, properties and public fields."""

    name: str
    bases: str = ""
    methods: dict[str, str] = field(default_factory=dict)
    properties: dict[str, bool] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


@dataclass
class Source:
    """Everything found: functions by name, classes by name."""

    functions: dict[str, str] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside of brackets and quotes."""
    parts, depth, quote, current = [], 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            parts.append(current.strip())
            current = ""
            continue
        current += character
    return [part for part in [*parts, current.strip()] if part]


def annotated(argument: str) -> str:
    """One Cython parameter as annotated Python."""
    if argument in ("*", "/"):
        return argument
    stars = argument[: len(argument) - len(argument.lstrip("*"))]
    declaration, equals, _ = argument.lstrip("*").partition("=")
    *kind, name = declaration.replace(" not None", "").split()
    if name in ("self", "cls"):
        return name
    type_name = TYPES.get(kind[-1], "Any") if kind else "Any"
    if equals and "None" in argument.rpartition("=")[2]:
        type_name = type_name if type_name == "Any" else f"{type_name} | None"
    return f"{stars}{name}: {type_name}" + (" = ..." if equals else "")


def parameters(text: str) -> str:
    """The whole parameter list as annotated Python."""
    return ", ".join(annotated(part) for part in split_arguments(" ".join(text.split())))


def _logical_lines(text: str) -> list[str]:
    """Lines, with the parameter lists of functions joined into one."""
    joined: list[str] = []
    for line in text.splitlines():
        if joined and joined[-1].lstrip().startswith("def ") and not _DEF.match(joined[-1]):
            joined[-1] += " " + line.strip()
        else:
            joined.append(line)
    return joined


def _read_file(text: str, source: Source) -> None:
    current: Class | None = None
    decorator = ""
    for line in _logical_lines(text):
        opened = _CLASS.match(line)
        if opened:
            name = opened["name"]
            current = source.classes.setdefault(name, Class(name, opened["bases"] or ""))
        elif line and not line[0].isspace() and not line.startswith(("#", ")", "@")):
            current = None if not line.startswith("def ") else current
        definition = _DEF.match(line)
        if definition and not definition["indent"]:
            current = None
            source.functions[definition["name"]] = parameters(definition["arguments"])
        elif definition and current is not None and len(definition["indent"]) == 4:
            name = definition["name"]
            if decorator == "@property":
                current.properties.setdefault(name, False)
            elif decorator.endswith(".setter"):
                current.properties[name] = True
            else:
                current.methods[name] = parameters(definition["arguments"])
        elif current is not None and (found := _FIELD.match(line)):
            for name in found["names"].split(","):
                current.fields[name.strip()] = TYPES.get(found["type"], "Any")
        decorator = line.strip() if line.strip().startswith("@") else ""


def read(folder: Path) -> Source:
    """Read every `.pxi` file of the core."""
    source = Source()
    for path in sorted(folder.rglob("*.pxi")):
        _read_file(path.read_text(), source)
    return source
