"""What the structural nodes of a graph do when it runs: attributes, calls, containers, exceptions, tasks.

Takes a node. Gives the function of its inputs' values.
Keeps true: names of attributes and types come from the node; nothing is imported or evaluated.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.errors import note_place, script_error
from facula.jit.ir import Node
from facula.jit.primitive_containers import format_text, percent_format
from facula.jit.value_texts import shown
from facula.namespaces._awaits import _Await, _awaitable_nowait
from facula.namespaces.futures import Future
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of

__all__ = ["RUNS", "is_instance", "own_attribute"]


def _tuple(node: Node) -> Callable[..., Any]:
    kind = node.outputs_[0].type
    if isinstance(kind, T.NamedTupleType) and kind.python is not None:
        return kind.python
    return lambda *items: items


def _get(node: Node) -> Callable[..., Any]:
    name = node.attributes["name"]
    if node.outputs_[0].type == T.INT:
        return lambda obj: number_of(getattr(obj, name))
    if node.outputs_[0].type.kind in ("List", "Dict", "Optional", "Union", "Any"):
        return lambda obj: own_attribute(obj, name)
    return lambda obj: getattr(obj, name)


def own_attribute(obj: object, name: str, *default: object) -> Any:
    """A list or dictionary of an object itself; from Python, modules hand out copies."""
    held = getattr(obj, "__dict__", {})
    return held[name] if name in held else getattr(obj, name, *default)


def number_of(value: object) -> Any:
    """An int, or the number that stands for a dtype, layout or memory format."""
    return code_of(value) if isinstance(value, CODED) else value


def _set(node: Node) -> Callable[..., Any]:
    name = node.attributes["name"]

    def put(obj: object, value: object) -> None:
        parameters = getattr(obj, "__dict__", {}).get("_parameters", ())
        if name in parameters and isinstance(value, core.Tensor):
            parameters[name] = (
                value  # a tensor may take the place of a parameter, as in PyTorch's scripts
            )
        else:
            setattr(obj, name, value)

    return put


def _method(node: Node) -> Callable[..., Any]:
    name, kind = node.attributes["name"], node.inputs_[0].type
    if isinstance(kind, T.ClassType) and not kind.is_interface:
        function = kind.methods[name]
        return lambda obj, *args: function.compiled().run(obj, *args)
    return lambda obj, *args: script_type(obj).methods[name].compiled().run(obj, *args)


def _contained(node: Node) -> Callable[..., Any]:
    """The module inside of a container that has a name or number."""

    def run(container: Any, key: Any) -> Any:
        inside = container._modules
        if str(key) not in inside:
            fail(RuntimeError, "jit.script", f"one of the modules {', '.join(inside)} was required (the container does "
                 f"not have a field with name {str(key)!r})", key,
                 hint="numbers count from 0; names are those of the ModuleDict")  # fmt: skip
        return inside[str(key)]

    return run


def _enter(node: Node) -> Callable[..., Any]:
    function: Any = node.inputs_[0].type.methods["__enter__"]
    return lambda obj: function.compiled().run(obj)


def _exit(node: Node) -> Callable[..., Any]:
    function: Any = node.inputs_[0].type.methods["__exit__"]
    return lambda obj: function.compiled().run(obj, None, None, None)


#: gives the type of a class that scripts have used, or None: it lies above, and fills this
SCRIPTED_CLASS: list[Callable[[type], T.ClassType | None]] = []


def script_type(obj: object) -> T.ClassType:
    """The class type of a scripted object: a module, or an instance of a class that a script made."""
    own = getattr(obj, "_script_type", None)
    found = SCRIPTED_CLASS[0](type(obj)) if own is None else own
    if found is None:
        fail(RuntimeError, "jit.script", "an object of a scripted class was required", type(obj).__name__,
             hint="decorate the class with jit.script")  # fmt: skip
    return found


def _function(node: Node) -> Callable[..., Any]:
    function = node.attributes["function"]
    return lambda *args: function.compiled().run(*args)


def _dict(node: Node) -> Callable[..., Any]:
    return lambda *items: dict(builtins.zip(items[::2], items[1::2], strict=True))


_EXCEPTIONS = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def _raise(node: Node) -> Callable[..., Any]:
    kind = node.attributes.get("exception")

    def run(text: Any, name: Any = None) -> None:
        named = name.rpartition(".")[2] if isinstance(name, str) else None
        made = kind or _EXCEPTIONS.get(named or "", RuntimeError)
        raise script_error(made)(text)

    return run


def _fork(node: Node) -> Callable[..., Any]:
    function = node.attributes["function"]

    def run(*args: Any) -> Future:
        made: Future = Future()
        try:
            made.set_result(function.compiled().run(*args))
        except Exception as error:
            if node.place is not None:
                note_place(error, node.place, "fork")
            made.set_exception(error)
        return made

    return run


def _later(node: Node) -> Callable[..., Any]:
    function = node.attributes["function"]
    return lambda *args: _Await(function.compiled().run, args)


def done_future(value: object) -> Future:
    """A future that has its value."""
    made: Future = Future()
    made.set_result(value)
    return made


def is_instance(value: object, kind: T.Type) -> bool:
    """Whether a value has a type at run time."""
    if kind.kind in ("Optional", "Union"):
        return any(is_instance(value, m) for m in T.members(kind))
    if kind.kind == "Any":
        return True
    if kind.kind == "List":
        return isinstance(value, list) and all(is_instance(v, kind.item) for v in value)
    if kind.kind == "Dict":
        key, item = kind.inner
        return isinstance(value, dict) and all(
            is_instance(k, key) and is_instance(v, item) for k, v in value.items()
        )
    if kind.kind == "Tuple":
        return (
            isinstance(value, tuple)
            and len(value) == len(kind.inner)
            and all(map(is_instance, value, kind.inner))
        )
    if isinstance(kind, (T.ClassType, T.EnumType)):
        return kind.python is not None and isinstance(value, kind.python)
    if kind.kind in ("Await", "AnyAwait"):
        return isinstance(value, _Await)
    found = _PLAIN.get(kind.kind)
    return found is not None and (type(value) is found if found is not _tensor else _tensor(value))


def _tensor(value: object) -> bool:
    return hasattr(value, "untyped_storage")


_PLAIN: dict[str, Any] = {
    "int": int, "float": float, "bool": bool, "str": str, "NoneType": type(None), "Tensor": _tensor,
    "AnyList": list, "AnyTuple": tuple, "complex": complex,
}  # fmt: skip


def _isinstance(node: Node) -> Callable[..., Any]:
    kinds = node.attributes["kinds"]
    return lambda value: any(is_instance(value, k) for k in kinds)


def _list_of(node: Node) -> Callable[..., Any]:
    """`tensor.tolist()` with the type that was asked for."""
    depth, item = 0, node.outputs_[0].type
    while item.kind == "List":
        depth, item = depth + 1, item.item

    def run(tensor: Any) -> Any:
        if tensor.dim() != depth:
            fail(RuntimeError, "tolist", f"a tensor of {depth} dimensions was required (Output annotation list "
                 "dimension and runtime tensor dimension must match for tolist())", tensor.dim(),
                 hint="a List for each dimension of the tensor")  # fmt: skip
        kinds = {"bool": tensor.dtype == core.bool, "float": tensor.is_floating_point(),
                 "complex": tensor.is_complex()}  # fmt: skip
        found = next((k for k, is_one in kinds.items() if is_one), "int")
        if found != item.kind:
            fail(RuntimeError, "tolist", f"elements of the type {item} were required (Output annotation element type "
                 "and runtime tensor element type must match for tolist())", found,
                 hint="x.to(torch.int64) or another conversion before tolist()")  # fmt: skip
        return tensor.tolist()

    return run


def _unpack(node: Node) -> Callable[..., Any]:
    """The items, as many as there are names; of one name the item itself."""
    count = len(node.outputs_)

    def run(items: Any) -> Any:
        if len(items) != count:
            fail(
                RuntimeError,
                "jit.script",
                f"{count} items to unpack were required (Expected {count} elements in a list)",
                len(items),
                hint="a slice takes some of them: x, y = items[:2]",
            )
        return items[0] if count == 1 else items

    return run


def _new(node: Node) -> Callable[..., Any]:
    kind: Any = node.outputs_[0].type
    python = kind.python
    return lambda: python.__new__(python)


#: what a node does, by its kind
RUNS: dict[str, Callable[[Node], Callable[..., Any]]] = {
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": lambda node: lambda *items: list(items),
    "prim::DictConstruct": _dict,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleIndex": lambda node: lambda items, i: items[i],
    "prim::TupleSlice": lambda node: (
        lambda items: items[node.attributes["beg"] : node.attributes["end"]]
    ),
    "prim::unchecked_cast": lambda node: lambda value: value,
    "prim::unchecked_unwrap_optional": lambda node: lambda value: value,
    "prim::Uninitialized": lambda node: lambda: None,
    "prim::GetAttr": _get,
    "prim::SetAttr": _set,
    "prim::CallMethod": _method,
    "prim::ModuleContainerIndex": _contained,
    "prim::Enter": _enter,
    "prim::Exit": _exit,
    "prim::CallFunction": _function,
    "prim::PythonOp": lambda node: node.attributes["function"],
    "prim::RaiseException": _raise,
    "prim::isinstance": _isinstance,
    "prim::tolist": _list_of,
    "prim::fork": _fork,
    "prim::CreateObject": _new,
    "prim::awaitable": _later,
    "prim::awaitable_wait": lambda node: lambda value: value.wait(),
    "prim::awaitable_nowait": lambda node: _awaitable_nowait,
    "prim::Print": lambda node: lambda *values: print(*map(shown, values)),
    "aten::format": lambda node: format_text,
    "aten::percentFormat": lambda node: percent_format,
}
