"""Python's built-in functions in scripted code, and the forms of the language that look like calls.

Takes the lowering and the call's syntax tree. Gives what the call stands for.
Keeps true: each is one function, found by the Python object that it stands for.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import typing
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula.jit.builder import constant_of
from facula.jit.conditions import Condition
from facula.jit.ir import Value
from facula.jit.python_types import NoType, type_of_class
from facula.jit.python_values import is_own
from facula.jit.running import done_future
from facula.jit.values import Items, Local, Python, Range
from facula.ops.table.schemas import types as T

if TYPE_CHECKING:
    from facula.jit.builder import Builder


__all__ = ["BUILTINS", "form", "type_question"]

#: Python object or name of a form -> its lowering
BUILTINS: dict[Any, Callable[[Any, ast.Call], Any]] = {}


def form(*keys: Any) -> Callable[[Any], Any]:
    """Register the lowering of calls of some objects."""

    def register(function: Callable[..., Any]) -> Any:
        BUILTINS.update(dict.fromkeys(keys, function))
        return function

    return register


# ------------------------------------------------------------------ iteration


@form(range)
def _range(b: Any, node: ast.Call) -> Range:
    args = [b.converted(b.expression(a), T.INT) for a in node.args]
    if len(args) == 1:
        return Range(args[0], lambda i: i)
    start, stop = args[0], args[1]
    step = args[2] if len(args) > 2 else b.constant(1)
    length = b.call("aten::__range_length", [start, stop, step])
    return Range(length, lambda i: b.call("aten::__derive_index", [i, start, step])
                 if len(args) > 2 else b.call("aten::add", [start, i]))  # fmt: skip


@form(enumerate)
def _enumerate(b: Any, node: ast.Call) -> Any:
    source = b.iterable(b.sugared(node.args[0]))
    given = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords), None)
    if isinstance(source, Items):
        first = constant_of(b.expression(given))[1] if given is not None else 0
        return Items(
            [Items([b.constant(first + i), v]) for i, v in builtins.enumerate(source.items)]
        )
    start = b.expression(given) if given is not None else None

    def item(i: Value) -> Items:
        counted = i if start is None else b.call("aten::add", [i, start])
        return Items([counted, source.item(i)])

    return Range(source.length, item)


@form(zip)
def _zip(b: Any, node: ast.Call) -> Any:
    sources = [b.iterable(b.sugared(a)) for a in node.args]
    fixed = [s for s in sources if isinstance(s, Items)]
    if fixed:
        if len(fixed) < len(sources):
            b.refuse("sequences of known lengths were required beside modules and tuples",
                     "one that does not have a statically determinable length",
                     hint="enumerate(modules) counts them")  # fmt: skip
        count = builtins.min(len(s.items) for s in fixed)
        columns = [s.items[:count] if isinstance(s, Items) else [s.item(b.constant(i)) for i in
                   builtins.range(count)] for s in sources]  # fmt: skip
        return Items([Items(list(row)) for row in builtins.zip(*columns, strict=True)])
    length = sources[0].length
    for other in sources[1:]:
        length = b.call("prim::min", [length, other.length])
    return Range(length, lambda i: Items([s.item(i) for s in sources]))


@form(reversed)
def _reversed(b: Any, node: ast.Call) -> Any:
    source = b.iterable(b.sugared(node.args[0]))
    if isinstance(source, Items):
        return Items(source.items[::-1])
    last = b.call("aten::sub", [source.length, b.constant(1)])
    return Range(source.length, lambda i: source.item(b.call("aten::sub", [last, i])))


@form(list)
def _list(b: Any, node: ast.Call) -> Value:
    if not node.args:
        return b.make_list([], T.TENSOR)
    thing = b.sugared(node.args[0])
    if isinstance(thing, Value) and thing.type.kind in ("List", "str"):
        return b.call("aten::list", [thing])
    source = b.iterable(thing)
    if isinstance(source, Items):
        return b.list_of_values([b.as_value(i) for i in source.items], None)
    result = b.make_list([], T.TENSOR)

    def body(item: Any) -> None:
        value = b.as_value(item)
        result.type = T.list_of(value.type)
        b.call("aten::append", [result, value])

    b.simple_loop(source, body)
    return result


@form(tuple)
def _tuple(b: Any, node: ast.Call) -> Value:
    source = b.iterable(b.sugared(node.args[0])) if node.args else Items([])
    if not isinstance(source, Items):
        b.refuse("a tuple of known length was required", "a list", hint="write its items")
    return b.make_tuple([b.as_value(i) for i in source.items])


@form(OrderedDict)
@form(dict)
def _dict(b: Any, node: ast.Call) -> Value:
    pairs: list[Value] = []
    if node.args:
        given = b.sugared(node.args[0])
        if not isinstance(given, (Items, Range)):
            return b.call("aten::dict", [b.as_value(given)])
        source = b.iterable(given)
        if isinstance(source, Range):
            return _dict_of_pairs(b, source, node)
        for item in source.items:
            pairs += [b.as_value(v) for v in b.iterable(item).items]
    for keyword in node.keywords:
        pairs += [b.constant(keyword.arg), b.expression(keyword.value)]
    return b.dict_of_values(pairs, None)


def _dict_of_pairs(b: Any, source: Range, node: ast.Call) -> Value:
    """`dict(zip(keys, values))`: a loop that enters each pair."""
    result = b.value("prim::DictConstruct", [], T.dict_of(T.STR, T.TENSOR))

    def enter(item: Any) -> None:
        pair = b.iterable(item)
        if not isinstance(pair, Items) or len(pair.items) != 2:
            b.refuse("pairs of a key and a value were required", "others")
        key, value = (b.as_value(v) for v in pair.items)
        if key.type.kind == "Union":
            b.refuse("keys of one type were required in a dict (Dicts may only contain homogeneous keys, but "
                     "the type of the "
                     f"first generated key was {key.type.annotation_str})", key.type.annotation_str,
                     hint="convert the keys")  # fmt: skip
        result.type = b.dict_of_values([key, value], None).type
        b.block.nodes_.pop()
        b.call("aten::_set_item", [result, key, value])

    b.simple_loop(source, enter)
    for keyword in node.keywords:
        b.call("aten::_set_item", [result, b.constant(keyword.arg), b.expression(keyword.value)])
    return result


# ------------------------------------------------------------------ numbers


def _conversion(word: str) -> Callable[[Any, ast.Call], Value]:
    def convert(b: Any, node: ast.Call) -> Value:
        if not node.args:
            return b.constant({"Int": 0, "Float": 0.0, "Bool": False, "Complex": 0j}[word])
        value = b.expression(node.args[0])
        if value.type.kind == word.lower():
            return value
        if word == "Bool":
            return b.truth(value)
        args = [value, *(b.expression(a) for a in node.args[1:])]
        if isinstance(value.type, T.ClassType):
            return b.call_method(value, f"__{word.lower()}__", args[1:], {})
        known, constant = constant_of(value)
        if known and word == "Float" and isinstance(constant, str):
            with contextlib.suppress(ValueError):  # an error when it runs, as of other texts
                return b.constant(float(constant))
        return b.call(f"aten::{word}", args)

    return convert


for _kind, _word in ((int, "Int"), (float, "Float"), (bool, "Bool"), (complex, "Complex")):
    BUILTINS[_kind] = _conversion(_word)


def _extreme(name: str) -> Callable[[Any, ast.Call], Value]:
    def lower(b: Any, node: ast.Call) -> Value:
        things = [b.sugared(a) for a in node.args]
        if len(things) == 1 and isinstance(things[0], Value) and things[0].type.kind == "List":
            return b.call(f"prim::{name}", [things[0]])
        values = [b.as_value(t) for t in things]
        if len(values) == 1 and values[0].type.kind == "Tensor":
            return b.call(f"aten::{name}", values)
        if len(values) == 1:
            values = b.unpack(values[0])
        made = values[0]
        for value in values[1:]:
            space = "aten" if "Tensor" in (made.type.kind, value.type.kind) else "prim"
            made = b.call(f"{space}::{name}", [made, value])
        return made

    return lower


BUILTINS[min], BUILTINS[max] = _extreme("min"), _extreme("max")


@form(len)
def _len(b: Any, node: ast.Call) -> Value:
    thing = b.sugared(node.args[0])
    if isinstance(thing, Items):
        return b.constant(len(thing.items))
    value = b.as_value(thing)
    if isinstance(value.type, T.ClassType):
        items = b.items_of_module(value, value.type)
        if items is None or _of_user(value.type, "__len__"):
            return b.call_method(value, "__len__", [], {})
        return b.constant(len(items))
    if value.type.kind == "Tuple":
        return b.constant(len(value.type.inner))
    return b.call("aten::len", [value])


def _of_user(kind: T.ClassType, name: str) -> bool:
    """Whether a class of the program, not the library's list or dict of modules, defines a method."""
    return name in kind.methods and not is_own(getattr(kind.python, name, None))


@form(slice)
def _slice(b: Any, node: ast.Call) -> Any:
    if node.keywords:
        b.refuse("bounds by position were required (Slice does not accept any keyword arguments)",
                 ", ".join(f"{k.arg}=" for k in node.keywords), hint="slice(start, stop)")  # fmt: skip
    return b.refuse(
        "a slice inside of an index was required", "slice(...) as a value", hint="x[slice(1, 2)]"
    )


@form(print)
def _print(b: Any, node: ast.Call) -> Value:
    if node.keywords:
        b.refuse("values to print were required (print doesn't accept any keyword arguments)",
                 ", ".join(f"{k.arg}=" for k in node.keywords))  # fmt: skip
    b.emit("prim::Print", [b.expression(a) for a in node.args], [])
    return b.constant(None)


@form(getattr)
def _getattr(b: Any, node: ast.Call) -> Any:
    known, name = constant_of(b.expression(node.args[1]))
    if not known or not isinstance(name, str):
        b.refuse("a constant name was required", ast.unparse(node.args[1]))
    if len(node.args) > 2:
        thing = b.sugared(node.args[0])
        kind = getattr(thing, "type", None)
        if (
            isinstance(kind, T.Type)
            and kind.kind == "Tuple"
            and not isinstance(kind, T.NamedTupleType)
        ):
            b.refuse("a NamedTuple, class or module was required, but got a normal Tuple", kind)
        found = _has(b, thing, name)
        if not found:
            return b.sugared(node.args[2])
    return b.sugared(ast.copy_location(ast.Attribute(node.args[0], name, ast.Load()), node))


def _has(b: Any, thing: Any, name: str) -> bool:
    if isinstance(thing, Python):
        return hasattr(thing.obj, name)
    kind = thing.type
    if isinstance(kind, T.ClassType):
        parts = (kind.attributes, kind.methods, kind.constants, kind.static, kind.properties)
        return (
            any(name in part for part in parts)
            or b.attribute_of_instance(thing, kind, name) is not None
        )
    if isinstance(kind, T.NamedTupleType):
        return name in kind.fields
    return False


# ------------------------------------------------------------------ questions about types


def type_question(b: Any, node: ast.Call) -> Condition | None:
    """`isinstance`, `hasattr`, `is_scripting`, ..., whose answers are known, or refine types."""
    if not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    if isinstance(node.func, ast.Name):
        if node.func.id in b.env:
            return None
        try:
            obj = b.look_up(node.func.id)
        except KeyError:
            return None
    else:
        root: Any = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name) or root.id in b.env:
            return None
        thing = b.sugared(node.func)
        obj = thing.obj if isinstance(thing, Python) else None
    question = _QUESTIONS.get(getattr(obj, "__name__", "") or getattr(obj, "name", ""))
    if question is None or not (
        obj in (isinstance, hasattr) or getattr(obj, "_jit_question", False)
    ):
        return None
    if question is _isinstance and obj is not isinstance:
        _needs_inner_types(b, node)
    return question(b, node)


def _needs_inner_types(b: Any, node: ast.Call) -> None:
    """`jit.isinstance` asks for the items as well: a bare `List` says nothing of them."""
    given = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    for each in given:
        if isinstance(each, ast.Name) and each.id not in b.env:
            obj = b.look_up(each.id)
            if getattr(obj, "__module__", "") == "typing":
                b.annotation(each)


def _isinstance(b: Any, node: ast.Call) -> Condition:
    thing = b.sugared(node.args[0])
    given = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    wanted: list[T.Type] = []
    for each in given:
        parts = each.elts if isinstance(each, ast.Tuple) else [each]
        wanted.extend(t for part in parts for t in _classes(b, part))
    if isinstance(thing, Python):
        return Condition(
            None,
            isinstance(
                thing.obj,
                tuple(p for w in wanted if isinstance(p := getattr(w, "python", None), type)),
            ),
        )
    value = b.as_value(thing)
    inside = [m for m in T.members(value.type) if any(T.is_subtype(m, w) for w in wanted)]
    others = [m for m in T.members(value.type) if m not in inside]
    name = node.args[0].id if isinstance(node.args[0], ast.Name) else ""
    if value.type.kind == "Any":
        test = b.value("prim::isinstance", [value], T.BOOL, kinds=tuple(wanted))
        exact = [w for w in wanted if w.kind not in ("AnyList", "AnyTuple")]
        return Condition(test, None, {name: T.union_of(exact)} if name and exact else {}, {})
    if not others or not inside:
        return Condition(None, bool(inside))
    test = b.value("prim::isinstance", [value], T.BOOL, kinds=tuple(wanted))
    if not name:
        return Condition(test)
    return Condition(test, None, {name: T.union_of(inside)}, {name: T.union_of(others)})


def _classes(b: Any, node: ast.AST) -> list[T.Type]:
    if isinstance(node, ast.Name):
        thing = b.wrap(b.look_up(node.id)) if node.id not in b.env else b.env[node.id]
        if isinstance(thing, Python):
            obj = thing.obj
            if isinstance(obj, tuple) and not hasattr(obj, "_fields"):
                return [t for o in obj for t in _class(b, o)]
            if obj in (list, typing.List):  # noqa: UP006
                return [T.ANY_LIST]
            if obj in (tuple, typing.Tuple):  # noqa: UP006
                return [T.ANY_TUPLE]
            return _class(b, obj)
    return [b.annotation(node)]


def _class(b: Builder, obj: type) -> list[T.Type]:
    if obj in (list, tuple):
        return [T.ANY_LIST if obj is list else T.ANY_TUPLE]
    try:
        return [type_of_class(obj)]
    except NoType:
        return [T.Type(f"class {obj.__name__}")]


def _hasattr(b: Any, node: ast.Call) -> Condition:
    known, name = constant_of(b.expression(node.args[1]))
    if not known:
        b.refuse("a constant name was required", ast.unparse(node.args[1]))
    return Condition(None, _has(b, b.sugared(node.args[0]), name))


_QUESTIONS: dict[str, Any] = {
    "isinstance": _isinstance,
    "hasattr": _hasattr,
    "is_scripting": lambda b, node: Condition(None, True),
    "is_tracing": lambda b, node: Condition(None, False),
}


# ------------------------------------------------------------------ forms of the language


def type_argument(b: Any, node: ast.AST) -> T.Type:
    """A type that stands as an argument."""
    return b.annotation(node)


@form("annotate")
def _annotate(b: Any, node: ast.Call) -> Value:
    kind = type_argument(b, node.args[0])
    if isinstance(node.args[1], ast.ListComp) and not any(
        m.kind in ("List", "Any") for m in T.members(kind)
    ):
        b.refuse(
            "Expected an annotation of type List for a list comprehension", kind.annotation_str
        )
    value = b.expression(node.args[1], kind)
    if (
        value.node.kind_ in ("prim::ListConstruct", "prim::DictConstruct")
        and not value.node.inputs_
    ):
        value.type = T.without_none(kind)
    if value.node.kind_ == "prim::tolist":
        value.type = kind
    made = b.converted(value, kind)
    if made.type != kind and kind.kind in ("Optional", "Union", "Any"):
        made = b.cast(made, kind)
    return made


@form("uninitialized")
def _uninitialized(b: Builder, node: ast.Call) -> Value:
    return b.uninitialized(type_argument(b, node.args[0]))


@form("__new__")
def _new(b: Builder, node: ast.Call) -> Value:
    return b.value("prim::CreateObject", [], type_argument(b, node.args[0]))


@form("unchecked_cast")
def _unchecked_cast(b: Any, node: ast.Call) -> Value:
    return b.cast(b.expression(node.args[1]), type_argument(b, node.args[0]))


@form("fork")
def _fork(b: Any, node: ast.Call) -> Value:
    callee = b.sugared(node.args[0])
    if isinstance(callee, Local):
        return b.forked_local(callee)
    args = [b.sugared(a) for a in node.args[1:]]
    kwargs = {k.arg: b.sugared(k.value) for k in node.keywords}
    before = b.block
    result = b.call_thing(callee, args, kwargs)
    made = result.node
    assert before is b.block
    if made.kind_ not in ("prim::CallFunction", "prim::CallMethod"):  # an operator: it runs here
        return b.value("prim::fork", [result], T.future_of(result.type), done_future)
    unit = made.attributes.get("function") or made.inputs_[0].type.methods[made.attributes["name"]]
    b.block.nodes_.remove(made)
    method = {"method": made.attributes["name"]} if made.kind_ == "prim::CallMethod" else {}
    return b.value("prim::fork", made.inputs_, T.future_of(result.type), function=unit, **method)


@form("awaitable")
def _awaitable(b: Any, node: ast.Call) -> Value:
    made = _fork(b, node)
    made.node.kind_, made.type = "prim::awaitable", T.await_of(made.type.item)
    if made.node.run is not None:  # an operator, or a function of a file: its value is there
        made.node.kind_, made.node.run = "prim::awaitable_nowait", None
    return made


@form("awaitable_wait")
def _awaitable_wait(b: Any, node: ast.Call) -> Value:
    return awaited(b, b.expression(node.args[0]))


def awaited(b: Any, value: Value) -> Value:
    """The value of what is computed later."""
    if value.type.kind != "Await":
        b.refuse("a value that is computed later was required", value.type)
    return b.value("prim::awaitable_wait", [value], value.type.item)


@form("awaitable_nowait")
def _awaitable_nowait(b: Any, node: ast.Call) -> Value:
    value = b.expression(node.args[0])
    return b.value("prim::awaitable_nowait", [value], T.await_of(value.type))


@form("wait")
def _wait(b: Any, node: ast.Call) -> Value:
    return b.call("aten::wait", [b.expression(node.args[0])])


# ------------------------------------------------------------------ operators of archives with a form of their own


def _raised(b: Builder, args: list[Value]) -> Value:
    b.emit("prim::RaiseException", args if len(args) > 1 else [*args, b.constant(None)], [])
    return b.constant(None)


def _printed(b: Builder, args: list[Value]) -> Value:
    b.emit("prim::Print", args, [])
    return b.constant(None)


def _unwrapped(b: Builder, args: list[Value]) -> Value:
    return b.value("prim::unchecked_unwrap_optional", args, T.without_none(args[0].type))


def _text(kind: str) -> Callable[[Any, list[Value]], Value]:
    return lambda b, args: b.value(kind, args, T.STR)


def _pair(name: str) -> Callable[[Any, list[Value]], Value]:
    """An operator that gives two results in files."""
    return lambda b, args: b.call(f"{name}_with_indices", args)


#: operators whose arguments are not those of a signature: name -> lowering
OPERATOR_FORMS: dict[str, Callable[[Any, list[Value]], Value]] = {
    **{name: _pair(name) for name in (f"aten::adaptive_max_pool{n}d" for n in (1, 2, 3))},
    "prim::RaiseException": _raised, "prim::Print": _printed,
    "prim::unchecked_unwrap_optional": _unwrapped, "aten::format": _text("aten::format"),
    "aten::percentFormat": _text("aten::percentFormat"),
    "prim::awaitable_wait": lambda b, args: awaited(b, args[0]),
    "prim::awaitable_nowait": lambda b, args: b.value(
        "prim::awaitable_nowait", args, T.await_of(args[0].type)
    ),
}  # fmt: skip
