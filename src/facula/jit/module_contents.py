"""What a module holds, by the methods that ask for it: `children()`, `items()`, `named_parameters()`.

Takes the builder and a module. Gives the parts, with their names where the method gives names.
Keeps true: this is the one list of such methods.
"""

from __future__ import annotations

from typing import Any

from facula.jit.ir import Value
from facula.jit.values import Items
from facula.ops.table.schemas import types as T

__all__ = ["asks_for_contents", "contents"]


def _children(builder: Any, value: Value) -> list[tuple[str, Value]]:
    return builder.items_of_module(value, value.type) or builder.children(value, value.type)


def _all(builder: Any, value: Value, what: str, prefix: str = "") -> list[tuple[str, Value]]:
    """Parameters, buffers or modules with their names, those of modules inside as well."""
    kind: Any = value.type
    made = [(prefix, value)] if what == "modules" else []
    for name in {"parameters": kind.parameters, "buffers": kind.buffers}.get(what, ()):
        if kind.attributes[name].kind == "Tensor":
            part = builder.value("prim::GetAttr", [value], kind.attributes[name], name=name)
            made.append((f"{prefix}.{name}" if prefix else name, part))
    for name, child in builder.children(value, kind):
        made += _all(builder, child, what, f"{prefix}.{name}" if prefix else name)
    return made


#: methods of one level, which classes of containers define in Python -> whether names and parts are given
_CHILDREN = {
    "items": (True, True), "named_children": (True, True), "keys": (True, False),
    "values": (False, True), "children": (False, True),
}  # fmt: skip
#: methods of all levels -> what they look for, and whether they give names
_ALL = {
    prefix + what: (what, bool(prefix))
    for what in ("parameters", "buffers", "modules")
    for prefix in ("named_", "")
}


def asks_for_contents(kind: T.ClassType, name: str) -> bool:
    """Whether a method of a module gives what the module holds, and no method of the user's does."""
    return kind.is_module and (name in _CHILDREN or (name in _ALL and name not in kind.methods))


def contents(builder: Any, value: Value, name: str) -> Any:
    """The parts of a module that one of these methods gives."""
    if name in _ALL:
        what, names = _ALL[name]
        found, parts = _all(builder, value, what), True
    else:
        names, parts = _CHILDREN[name]
        found = _children(builder, value)
    if not names:
        return Items([part for _, part in found])
    if not parts:
        return Items([builder.constant(n) for n, _ in found])
    return Items([Items([builder.constant(n), part]) for n, part in found])
