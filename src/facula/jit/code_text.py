"""The text of a graph in the restricted Python of PyTorch's files: `.code`, and what `jit.save` writes.

Takes compiled units. Gives text, and collects the types, functions and tensors that it names.
Keeps true: PyTorch reads it: operators have PyTorch's names and argument orders (`code_operators`), and
whatever has no such spelling is an error that names it.
"""

from __future__ import annotations

import contextlib
import keyword
from collections.abc import Iterator
from typing import Any

from facula.core.errors import fail
from facula.jit.code_operators import operator_text
from facula.jit.functions import Empty
from facula.jit.inlined_texts import inlined, is_counted
from facula.jit.ir import Block, Node, Value
from facula.jit.portable import PortableFunction, portable_text
from facula.ops.table.schemas import types as T

__all__ = ["Names", "code_and_constants", "unit_text"]

#: the limit of loops that have none
_FOREVER = 9223372036854775807
_TAKEN = {"torch", "ops", "CONSTANTS", "annotate", "uninitialized", "unchecked_cast", "fork", "wait", "inf", "nan",
          "range", "getattr", "isinstance", "print", "int", "float", "bool", "str", "list", "dict"}  # fmt: skip


class Names:
    """The names of classes and functions in one text, and the tensors that it refers to."""

    def __init__(self) -> None:
        self.types: dict[Any, str] = {}
        self.functions: dict[Any, str] = {}
        self.constants: list[Any] = []
        self._used: set[str] = set()

    def _unique(self, name: str) -> str:
        module, _, own = name.rpartition(".")
        made, count = name, 0
        while made in self._used:
            made = f"{module}.___torch_mangle_{count}.{own}"
            count += 1
        self._used.add(made)
        return made

    def of_type(self, kind: Any) -> str:
        """The name of a class."""
        if kind not in self.types:
            self.types[kind] = self._unique(kind.name)
        return self.types[kind]

    def of_function(self, unit: Any) -> str:
        """The name of a function."""
        unit = unit.compiled()
        if unit not in self.functions:
            # a function of a class lies beside it: the class has the name below which it would be
            python = getattr(unit, "python", None)
            own = getattr(python, "__qualname__", "").rpartition("<locals>.")[2]
            if "." in own and unit.name.endswith(f".{own}"):
                return self._function_beside(unit, own)
            name = unit.name if unit.name.startswith("__torch__") else f"__torch__.{unit.name}"
            self.functions[unit] = self._unique(name.replace("<lambda>", "lambda_"))
        return self.functions[unit]

    def _function_beside(self, unit: Any, own: str) -> str:
        name = unit.name.removesuffix(own) + own.replace(".", "_")
        made = self.functions[unit] = self._unique(name)
        return made

    def constant(self, value: object) -> str:
        """A tensor beside the code."""
        for i, known in enumerate(self.constants):
            if known is value:
                return f"CONSTANTS.c{i}"
        self.constants.append(value)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    def annotation(self, kind: T.Type) -> str:
        """A type as an annotation."""
        if isinstance(kind, T.NamedTupleType) and "." not in kind.name:
            return f"Tuple[{', '.join(map(self.annotation, kind.inner))}]"
        if isinstance(kind, (T.ClassType, T.NamedTupleType, T.EnumType)):
            return self.of_type(kind)
        inner = [self.annotation(i) for i in kind.inner]
        if kind.kind == "Tuple" and not inner:
            return "Tuple[()]"
        return f"{kind.kind}[{', '.join(inner)}]" if inner else kind.annotation_str


def literal(value: object, names: Names) -> str:
    """A constant."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return '"' + "".join(_character(c) for c in value) + '"'
    if isinstance(value, (list, tuple)):
        items = ", ".join(literal(v, names) for v in value)
        return (
            f"[{items}]"
            if isinstance(value, list)
            else f"({items}{',' if len(value) == 1 else ''})"
        )
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, dict):
        pairs = ", ".join(f"{literal(k, names)}: {literal(v, names)}" for k, v in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if hasattr(value, "untyped_storage"):
        return names.constant(value)
    if type(value).__name__ == "device":
        return f'torch.device("{value}")'
    return fail(RuntimeError, "jit.code", "a constant that text can hold was required",
                type(value).__name__, hint="make it an attribute of the module")  # fmt: skip


def _character(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    if c == "\n":
        return "\\n"
    return c if c.isprintable() else "".join(f"\\{b:03o}" for b in c.encode())


class _Body:
    """The text of one function's body."""

    def __init__(self, names: Names, parameters: list[str], inlined: set[Node]) -> None:
        self.names, self.lines, self.depth = names, [], 1  # type: ignore[var-annotated]
        self.inlined = inlined
        self.texts: dict[Value, str] = {}
        self.used = set(_TAKEN) | set(parameters)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextlib.contextmanager
    def indented(self) -> Iterator[None]:
        """A body below a head; one of constants and unused names alone has no lines of its own."""
        before = len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def fresh(self, value: Value) -> str:
        """A new name for a value."""
        said = value.hint
        if value.node.kind_ == "prim::GetAttr":
            said = said or value.node.attributes["name"]
        hint = "".join(c if c.isalnum() or c == "_" else "_" for c in said) or "_"
        if keyword.iskeyword(hint) or hint[0].isdigit():
            hint = "_" + hint
        made, count = hint, 0
        while made in self.used or made == "_":
            made, count = f"{hint}{count}", count + 1
        self.used.add(made)
        self.texts[value] = made
        return made

    def __getitem__(self, value: Value) -> str:
        return self.texts[value]

    def block(self, block: Block) -> None:
        """All nodes of a block."""
        for node in block.nodes_:
            form = _FORMS.get(node.kind_)
            if form is not None:
                form(self, node)
            else:
                self.operator(node)

    def operator(self, node: Node) -> None:
        """A call of an operator."""
        given = [self[v] for v in node.inputs_]
        text = portable_text(node, given, self.names) or operator_text(node, given)
        self.result(node, text)

    def result(self, node: Node, text: str) -> None:
        if not node.outputs_:
            self.line(f"_{self.counter()} = {text}" if node.kind_ != "prim::SetAttr" else text)
            return
        if node in self.inlined:
            self.texts[node.outputs_[0]] = text
            return
        self.line(f"{', '.join(self.fresh(v) for v in node.outputs_)} = {text}")

    def counter(self) -> str:
        count = 0
        while f"_n{count}" in self.used:
            count += 1
        self.used.add(f"_n{count}")
        return f"n{count}"

    def assign(self, targets: list[str], sources: list[Value], kinds: Any = None) -> None:
        """Assigns at once; values of types that only the name's type covers say that type."""
        if not targets:
            return
        texts = [self[s] for s in sources]
        for i, kind in enumerate(kinds or ()):
            if kind.kind in ("Any", "Union", "Optional") and kind != sources[i].type:
                texts[i] = f"annotate({self.names.annotation(kind)}, {texts[i]})"
        self.line(f"{', '.join(targets)} = {', '.join(texts)}")


def _constant(b: _Body, node: Node) -> None:
    value: Any = node.attributes.get("value")
    kind = node.outputs_[0].type
    if isinstance(kind, T.EnumType):
        b.texts[node.outputs_[0]] = f"{b.names.of_type(kind)}.{value.name}"
        return
    text = literal(value, b.names)
    if kind.kind in ("List", "Dict"):
        text = f"annotate({b.names.annotation(kind)}, {text})"
    b.texts[node.outputs_[0]] = f"({text})" if text.startswith("-") else text


def _list(b: _Body, node: Node) -> None:
    kind = node.outputs_[0].type
    text = f"[{', '.join(b[v] for v in node.inputs_)}]"
    plain = node.inputs_ and all(v.type == kind.item for v in node.inputs_)
    b.result(node, text if plain else f"annotate({b.names.annotation(kind)}, {text})")


def _tuple(b: _Body, node: Node) -> None:
    kind = node.outputs_[0].type
    items = ", ".join(b[v] for v in node.inputs_)
    if isinstance(kind, T.NamedTupleType) and "." in kind.name:
        b.result(node, f"{b.names.of_type(kind)}({items})")
    else:
        b.result(node, f"({items}{',' if len(node.inputs_) == 1 else ''})")


def _dict(b: _Body, node: Node) -> None:
    pairs = zip(node.inputs_[::2], node.inputs_[1::2], strict=True)
    body = ", ".join(f"{b[k]}: {b[v]}" for k, v in pairs)
    b.result(node, f"annotate({b.names.annotation(node.outputs_[0].type)}, {{{body}}})")


def _unpack(b: _Body, node: Node) -> None:
    if node.outputs_:
        b.line(f"{', '.join(b.fresh(v) for v in node.outputs_)}, = {b[node.inputs_[0]]}")


def _get(b: _Body, node: Node) -> None:
    name, owner = node.attributes["name"], b[node.inputs_[0]]
    plain = name.isidentifier() and not keyword.iskeyword(name)
    b.result(node, f"{owner}.{name}" if plain else f'getattr({owner}, "{name}")')


def _set(b: _Body, node: Node) -> None:
    owner, value = node.inputs_
    b.line(f"{b[owner]}.{node.attributes['name']} = {b[value]}")


def _method(b: _Body, node: Node) -> None:
    owner, *rest = node.inputs_
    kind: Any = owner.type
    if node.attributes["name"] in (
        *kind.hooks,
        *kind.pre_hooks,
    ):  # PyTorch has them apart from the methods
        name = f"{b.names.of_type(kind)}.{node.attributes['name']}"
        b.result(node, f"{name}({''.join(b[v] + ', ' for v in node.inputs_)})")
        return
    b.result(node, f"({b[owner]}).{node.attributes['name']}({''.join(b[v] + ', ' for v in rest)})")


def _function(b: _Body, node: Node) -> None:
    name = b.names.of_function(node.attributes["function"])
    b.result(node, f"{name}({''.join(b[v] + ', ' for v in node.inputs_)})")


def _if(b: _Body, node: Node) -> None:
    targets = [b.fresh(v) for v in node.outputs_]
    for head, block in zip((f"if {b[node.inputs_[0]]}:", "else:"), node.blocks_, strict=True):
        b.line(head)
        with b.indented():
            b.block(block)
            b.assign(targets, block.results, [v.type for v in node.outputs_])


def _loop(b: _Body, node: Node) -> None:
    body = node.blocks_[0]
    limit, start, *first = node.inputs_
    carried = [b.fresh(v) for v in node.outputs_]
    for name, value in zip(carried, first, strict=True):
        b.assign([name], [value])
    for value, name in zip(body.parameters[1:], carried, strict=True):
        b.texts[value] = name
    if _is_endless(node):
        _while(b, node, carried)
        return
    counter = b.fresh(body.parameters[0])
    if is_counted(node):
        b.line(f"for {counter} in range({b[limit]}):")
        with b.indented():
            b.block(body)
            b.assign(carried, body.results[1:])
        return
    go = "_" + b.counter()
    b.line(f"{counter} = 0")
    b.line(f"{go} = torch.__and__({b[start]}, torch.gt({b[limit]}, 0))")
    b.line(f"while {go}:")
    b.depth += 1
    b.block(body)
    again = f"torch.__and__({b[body.results[0]]}, torch.lt(torch.add({counter}, 1), {b[limit]}))"
    ends = [again, f"torch.add({counter}, 1)", *(b[v] for v in body.results[1:])]
    b.line(f"{', '.join([go, counter, *carried])} = {', '.join(ends)}")
    b.depth -= 1


def _is_endless(loop: Node) -> bool:
    """Whether only a condition ends a loop, in which nobody counts."""
    body, limit = loop.blocks_[0], loop.inputs_[0].node
    most = limit.kind_ == "prim::Constant" and limit.attributes.get("value") == _FOREVER
    return most and not body.parameters[0].uses()


def _while(b: _Body, loop: Node, carried: list[str]) -> None:
    """A loop with a condition."""
    body = loop.blocks_[0]
    go = b.fresh(Value(T.BOOL, loop))
    b.line(f"{go} = {b[loop.inputs_[1]]}")
    b.line(f"while {go}:")
    with b.indented():
        b.block(body)
        b.assign([go, *carried], body.results)


def _raise(b: _Body, node: Node) -> None:
    given = [b[v] for v in node.inputs_]
    b.line(f"ops.prim.RaiseException({', '.join(g for g in given if g != 'None')})")


def _typed(head: str) -> Any:
    def form(b: _Body, node: Node) -> None:
        given = [b.names.annotation(node.outputs_[0].type), *(b[v] for v in node.inputs_)]
        b.result(node, f"{head}({', '.join(given)})")

    return form


def _isinstance(b: _Body, node: Node) -> None:
    kinds = ", ".join(b.names.annotation(k) for k in node.attributes["kinds"])
    b.result(node, f"isinstance({b[node.inputs_[0]]}, ({kinds},))")


def _print(b: _Body, node: Node) -> None:
    b.line(f"print({', '.join(b[v] for v in node.inputs_)})")


def _new(b: _Body, node: Node) -> None:
    name = b.names.annotation(node.outputs_[0].type)
    b.result(node, f"{name}.__new__({name})")


def _enter(b: _Body, node: Node) -> None:
    b.line(f"with {b[node.inputs_[0]]} as {b.fresh(node.outputs_[0])}:")
    b.depth += 1
    b.line("pass")


def _exit(b: _Body, node: Node) -> None:
    b.depth -= 1


def _of_enum(name: str) -> Any:
    return lambda b, node: b.result(node, f"({b[node.inputs_[0]]}).{name}")


def _index(b: _Body, node: Node) -> None:
    b.result(node, f"{b[node.inputs_[0]]}[{b[node.inputs_[1]]}]")


def _contained(b: _Body, node: Node) -> None:
    """A module that is known by its interface only: the name says which."""
    (made,), (owner, key) = node.outputs_, node.inputs_
    text = f"{b[owner]}[{b[key]}]"
    b.line(f"{b.fresh(made)} : {b.names.annotation(made.type)} = {text}")


def _fork(b: _Body, node: Node) -> None:
    function = node.attributes.get("function")
    given = "".join(b[v] + ", " for v in node.inputs_)
    word = "awaitable" if node.kind_ == "prim::awaitable" else "fork"
    name = f"__{'forked' if word == 'fork' else word}_function{b.counter()}"
    b.line(f"def {name}():")
    if function is None:
        done = b[node.inputs_[0]]
    elif "method" in node.attributes:
        owner, rest = b[node.inputs_[0]], "".join(b[v] + ", " for v in node.inputs_[1:])
        done = f"({owner}).{node.attributes['method']}({rest})"
    else:
        done = f"{b.names.of_function(function)}({given})"
    b.line(f"  return {done}")
    b.result(node, f"{word}({name})")


def _python(b: _Body, node: Node) -> None:
    b.result(node, f"^{node.attributes['name']}({', '.join(b[v] for v in node.inputs_)})")


_FORMS: dict[str, Any] = {
    "prim::Constant": _constant, "prim::ListConstruct": _list, "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict, "prim::TupleUnpack": _unpack, "prim::ListUnpack": _unpack,
    "prim::GetAttr": _get, "prim::SetAttr": _set, "prim::CallMethod": _method,
    "prim::CallFunction": _function, "prim::If": _if, "prim::Loop": _loop, "prim::RaiseException": _raise,
    "prim::unchecked_cast": _typed("unchecked_cast"), "prim::Uninitialized": _typed("uninitialized"),
    "prim::isinstance": _isinstance, "prim::Print": _print, "prim::CreateObject": _new,
    "prim::Enter": _enter, "prim::Exit": _exit, "prim::TupleIndex": _index,
    "prim::ModuleContainerIndex": _contained,
    "prim::EnumName": _of_enum("name"), "prim::EnumValue": _of_enum("value"),
    "prim::fork": _fork, "prim::awaitable": _fork, "prim::PythonOp": _python,
}  # fmt: skip


def unit_text(unit: Any, name: str, names: Names, *, typed_self: bool = False) -> str:
    """The definition of a compiled function."""
    unit = unit.compiled()
    if isinstance(unit, PortableFunction):
        return unit.text(name, names)
    body = _Body(names, [], inlined(unit.graph))
    heads: list[str] = []
    for value, (own, kind, default) in zip(unit.graph.parameters, unit.parameters, strict=True):
        value.hint = value.hint or own
        text = body.fresh(value)
        plain = isinstance(kind, T.ClassType) and kind.is_module and not heads and not typed_self
        head = text if plain else f"{text}: {names.annotation(kind)}"
        heads.append(head if default is Empty else f"{head}={literal(default, names)}")
    body.block(unit.graph)
    result = unit.graph.results[0]
    head = ",\n    ".join(heads)
    return "\n".join([
        f"def {name}({head}) -> {names.annotation(unit.result_type())}:", *body.lines,
        f"  return {body[result]}", "",
    ])  # fmt: skip


def code_and_constants(unit: Any) -> tuple[str, list[Any]]:
    """The text of one function, as `.code` gives it, and the tensors beside it."""
    definition, names = getattr(unit, "definition", None), Names()
    text = unit_text(unit, definition.name if definition is not None else "forward", names)
    return text, names.constants
