"""Structures of containers as texts of JSON, in PyTorch's form.

Takes: a `TreeSpec`, or a text that anybody may have written. Gives: the other of the two.
Keeps true: a text names containers that were registered, and nothing else is looked up or run.
"""

from __future__ import annotations

import builtins
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.fx import _pytree as pytree

__all__ = ["named_tuples_in", "treespec_dumps", "treespec_loads"]

_PROTOCOL = 1
_OWN = {
    tuple: "builtins.tuple", list: "builtins.list", dict: "builtins.dict", OrderedDict: "collections.OrderedDict",
    defaultdict: "collections.defaultdict", deque: "collections.deque", pytree.namedtuple: "collections.namedtuple",
}  # fmt: skip
_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "str", "bool")


def _refuse(what: str, got: object) -> Any:
    return fail(
        NotImplementedError, "treespec", f"{what} was required", got,
        hint="register_pytree_node(..., serialized_type_name='...') names a container in files",
    )  # fmt: skip


def _name_of(kind: Any) -> str:
    found = _OWN.get(kind) or pytree.FILE_FORMS.get(kind, (None,))[0]
    return found or f"{kind.__module__}.{kind.__qualname__}"


def _kinds() -> dict[str, Any]:
    """Registered containers by their names in files."""
    known = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in pytree.SUPPORTED_NODES}
    known |= {form[0]: kind for kind, form in pytree.FILE_FORMS.items() if form[0]}
    return known | {name: kind for kind, name in _OWN.items()}


def _context_written(spec: Any) -> Any:
    if spec.type is pytree.namedtuple:
        form = pytree.FILE_FORMS.get(spec.context, (None,))
        if not form[0]:
            _refuse(
                "a named tuple with a name in files (Can't serialize TreeSpec of namedtuple class)",
                spec.context,
            )
        return form[0]
    if spec.type is defaultdict:
        factory, keys = spec.context
        return {
            "default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
            "dict_context": keys,
        }  # fmt: skip
    write = pytree.FILE_FORMS.get(spec.type, (None, None))[1]
    if write is not None:
        return write(spec.context)
    try:
        return json.dumps(spec.context)
    except (TypeError, ValueError) as error:
        return fail(TypeError, "treespec", "a context that JSON holds was required (Unable to serialize context)",
                    f"{error}", hint="give register_pytree_node to_dumpable_context=")  # fmt: skip


def _context_read(kind: Any, context: Any) -> Any:
    if kind is pytree.namedtuple:
        named = {form[0]: known for known, form in pytree.FILE_FORMS.items()}
        return named.get(context) or _refuse(
            "a named tuple that was registered", repr(context)[:100]
        )
    if kind is defaultdict:
        name = context["default_factory_name"]
        if context["default_factory_module"] != "builtins" or name not in _FACTORIES:
            _refuse("a type of Python's as the default of a dictionary", repr(name)[:100])
        return [getattr(builtins, name), context["dict_context"]]
    read = pytree.FILE_FORMS.get(kind, (None, None, None))[2]
    return json.loads(context) if read is None else read(context)


def _written(spec: Any) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    children = [_written(child) for child in spec.children_specs]
    return {
        "type": _name_of(spec.type),
        "context": _context_written(spec),
        "children_spec": children,
    }


def treespec_dumps(treespec: Any, protocol: int | None = None) -> str:
    """A structure as text.

    Args:
        treespec: the structure
        protocol: 1, the only one

    Raises:
        NotImplementedError: a container has no name in files.
        TypeError: what belongs to a container is no data.
    """
    if not isinstance(treespec, pytree.TreeSpec):
        fail(TypeError, "treespec_dumps", "a TreeSpec was required", type(treespec).__name__,
             hint="tree_structure(tree) gives one")  # fmt: skip
    if protocol not in (None, _PROTOCOL):
        fail(ValueError, "treespec_dumps", "protocol 1 was required (Unknown protocol)", protocol,
             hint="leave protocol out")  # fmt: skip
    return json.dumps([_PROTOCOL, _written(treespec)])


def treespec_loads(serialized: str) -> Any:
    """The structure of a text.

    Args:
        serialized: what `treespec_dumps` gave

    Raises:
        NotImplementedError: a container is not registered.
        ValueError: it is no such text.
    """
    try:
        protocol, data = json.loads(serialized)
        if protocol == _PROTOCOL:
            return _read(data, _kinds())
    except (TypeError, KeyError, RecursionError) as error:
        return fail(ValueError, "treespec_loads", "a text of treespec_dumps was required",
                    f"{type(error).__name__}: {error}", hint="pass the text as it was")  # fmt: skip
    return fail(ValueError, "treespec_loads", "protocol 1 was required (Unknown protocol)", protocol,
                hint="load it with the version that wrote it")  # fmt: skip


def _read(data: Any, known: dict[str, Any]) -> Any:
    if data["type"] is None:
        return pytree.treespec_leaf()
    kind = known.get(data["type"])
    if kind is None:
        _refuse("a container that was registered", repr(data["type"])[:100])
    children = [_read(child, known) for child in data["children_spec"]]
    return pytree.TreeSpec(kind, _context_read(kind, data["context"]), children)


def named_tuples_in(spec: Any) -> Iterator[tuple[str, list[str]]]:
    """The classes of named tuples in a structure: name in files, and fields."""
    if spec.is_leaf():
        return
    if spec.type is pytree.namedtuple and spec.context in pytree.FILE_FORMS:
        yield str(pytree.FILE_FORMS[spec.context][0]), list(spec.context._fields)
    for child in spec.children_specs:
        yield from named_tuples_in(child)
