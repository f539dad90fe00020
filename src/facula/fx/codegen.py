"""A graph as Python source.

Takes the nodes of a graph.  Gives `PythonCode`: the text of a `forward` function and the globals that
it needs; `CodeGen` is what writes it, and may be replaced by a subclass.
Keeps true: running the text does what interpreting the graph does; values are let go after their last
use; a name stands in the text as an identifier or as a quoted literal, whatever the graph holds.
"""

from __future__ import annotations

import enum
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import _pytree as pytree
from facula.fx import names
from facula.fx.node import Argument, Node
from facula.fx.symbols import SymInt
from facula.fx.wrapping import is_wrapped, wrap

#: what code shows of magic methods: `operator.add` and `Tensor.__add__` as `{} + {}`
MAGIC_METHODS: dict[str, str] = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}",
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
    "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}",
    "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
INPLACE_METHODS: dict[str, str] = {
    f"i{name.rstrip('_')}": text.replace("{} ", "{} ", 1).replace(" {}", "= {}", 1)
    for name, text in MAGIC_METHODS.items()
    if name.rstrip("_") in names.INPLACE or name in names.INPLACE
}
REFLECTABLE_METHODS: dict[str, str] = {
    name: text
    for name, text in MAGIC_METHODS.items()
    if name.rstrip("_")
    in "add sub mul floordiv truediv mod pow lshift rshift and or xor getitem matmul".split()
}


@dataclass
class PythonCode:
    """What was generated: the text of `forward`, and the globals that it reads."""

    src: str
    globals: dict[str, Any]
    #: line of the text -> position of the node that it belongs to
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0
    node_names: list[str] = field(default_factory=list)


class Globals:
    """The global names that a text uses."""

    def __init__(self, namespace: names.Namespace) -> None:
        self.namespace = namespace
        self.values: dict[str, Any] = {}
        self.builtins = names.custom_builtins()

    def add(self, hint: str, obj: object) -> str:
        """The name of a global object."""
        for name, builtin in self.builtins.items():
            if obj is builtin.obj or (isinstance(obj, float) and obj != obj and name == "nan"):
                self.values[name] = builtin.obj
                return name
        root = hint.partition(".")[0]
        if root == names.prefix() and names.is_path(hint) and self._reaches(hint, obj):
            self.values[root] = self.builtins[root].obj
            return hint
        name = self.namespace.create_name(hint.replace(".", "_"), obj)
        self.values.setdefault(name, obj)
        return name

    def _reaches(self, path: str, obj: object) -> bool:
        """Whether a dotted name below facula leads to the object."""
        found: Any = self.builtins[names.prefix()].obj
        for part in path.split(".")[1:]:
            try:
                found = getattr(found, part)
            except (AttributeError, ImportError):
                return False
        return found is obj or found == obj

    def type_text(self, annotation: object) -> str:
        """An annotation, its modules brought in."""
        text = names.type_text(annotation)
        for module in set(re.findall(r"\b([A-Za-z_]\w*)\.", text)):
            self._import(module)
        return text

    def _import(self, module: str) -> None:
        if module in self.builtins:
            self.values[module] = self.builtins[module].obj
        elif module in sys.modules:
            self.values.setdefault(module, sys.modules[module])


class _Writer:
    """The text of one graph while it is written."""

    def __init__(self, root: str, namespace: names.Namespace, verbose: bool, shown: Any) -> None:
        self.root = root
        self.globals = Globals(namespace)
        self.verbose = verbose
        self.shown = shown
        self.lines: list[str] = []
        self.marks: list[int | None] = []
        self.parameters: list[str] = []
        self.wrapped: list[str] = []
        self.annotation = ""
        self.last_trace: str | None = None

    def emit(self, text: str, mark: int | None) -> None:
        for line in text.split("\n"):
            self.lines.append(line)
            self.marks.append(mark)

    # ---------------------------------------------------------------- arguments

    def argument(self, a: Argument) -> str:
        """An argument as an expression."""
        if isinstance(a, Node):
            return repr(a)
        if type(a) in (int, bool, str, bytes, type(None)):
            return repr(a)
        if isinstance(a, tuple):
            return self._tuple(a)
        if isinstance(a, list):
            return f"[{', '.join(self.argument(x) for x in a)}]"
        if isinstance(a, dict):
            inner = ", ".join(f"{self.argument(k)}: {self.argument(v)}" for k, v in a.items())
            return f"{{{inner}}}"
        if isinstance(a, slice):
            return (
                f"slice({self.argument(a.start)}, {self.argument(a.stop)}, {self.argument(a.step)})"
            )
        return self._object(a)

    def _tuple(self, a: tuple[Any, ...]) -> str:
        inner = ", ".join(self.argument(x) for x in a)
        if hasattr(a, "_fields"):
            return f"{self.globals.add(names.qualified_name(type(a)), type(a))}({inner})"
        if type(a) is core.Size:
            return f"{self.globals.add(f'{names.prefix()}.Size', core.Size)}([{inner}])"
        return f"({inner},)" if len(a) == 1 else f"({inner})"

    def _object(self, a: Any) -> str:
        if isinstance(a, enum.Enum):
            kind = self.globals.add(type(a).__qualname__.replace(".", "_"), type(a))
            return f"{kind}.{a.name}" if names.is_name(a.name) else f"{kind}[{a.name!r}]"
        if isinstance(a, float):
            if a != a or a in (float("inf"), -float("inf")):
                name = self.globals.add("nan" if a != a else "inf", a if a != a else abs(a))
                return f"-{name}" if a < 0 else name
            return float.__repr__(a)
        if isinstance(a, complex) and math.isfinite(a.real) and math.isfinite(a.imag):
            # read as code, a sum or difference forgets the sign of a zero
            return complex.__repr__(a) if a.real and a.imag else f"complex({a.real!r}, {a.imag!r})"
        if isinstance(a, int):
            return repr(a) if isinstance(a, SymInt) else int.__repr__(a)
        if isinstance(a, core.device):
            self.globals.values["device"] = core.device
            return repr(a)
        if isinstance(a, (core.dtype, core.layout, core.memory_format)):
            self.globals.add(names.prefix(), self.globals.builtins[names.prefix()].obj)
            return repr(a)
        if isinstance(a, core.Tensor):
            return self.globals.add("_tensor_constant", a)
        if isinstance(a, type) or callable(a):
            return self.globals.add(names.qualified_name(a), a)
        if a is Ellipsis:
            return "..."
        return self.globals.add(f"_constant_{type(a).__name__}", _ByIdentity(a))

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """The arguments of a call."""
        given = [self.argument(x) for x in args]
        for key, value in kwargs.items():
            text = self.argument(value)
            given.append(f"{key} = {text}" if names.is_name(key) else f"**{{{str(key)!r}: {text}}}")
        return ", ".join(given)

    # ---------------------------------------------------------------- nodes

    def node(self, node: Node) -> str | None:
        """The statement of a node; placeholders go into the head of the function."""
        typed = f" : {self.globals.type_text(node.type)}" if node.type is not None else ""
        if self.verbose and "val" in node.meta:
            typed = _shape_text(node.meta["val"], self.shown) or typed
        if node.op == "placeholder":
            default = f" = {self.argument(node.args[0])}" if node.args else ""
            target = names.checked_name(
                node.target, "fx", "the target of a placeholder", names.is_parameter
            )
            self.parameters.append(f"{target}{typed}{default}")
            raw = target.lstrip("*")
            return None if raw == repr(node) else f"{node!r} = {raw}"
        left = f"{node!r}{typed} = "
        if node.op == "call_method":
            first = self.argument(node.args[0])
            if not isinstance(node.args[0], Node):
                first = f"({first})"
            method = _read(first, str(node.target))
            return f"{left}{method}({self.arguments(node.args[1:], node.kwargs)})"
        if node.op == "call_function":
            return self._function(node, left)
        if node.op == "call_module":
            called = self.attribute(str(node.target))
            return f"{left}{called}({self.arguments(node.args, node.kwargs)})"
        return f"{left}{self.attribute(str(node.target))}"

    def _function(self, node: Node, left: str) -> str:
        target: Any = node.target
        if getattr(target, "__module__", None) == "_operator" and not node.kwargs:
            plain = MAGIC_METHODS.get(target.__name__)
            if plain is not None and len(node.args) == plain.count("{}"):
                return left + plain.format(*[self._operand(a) for a in node.args])
            inplace = INPLACE_METHODS.get(target.__name__)
            if inplace is not None and len(node.args) == 2:
                written = inplace.format(*[self.argument(a) for a in node.args])
                return f"{written};  {left}{self.argument(node.args[0])}"
        name = self.globals.add(names.qualified_name(target), target)
        if is_wrapped(target):  # the code says so again, for those who trace it
            self.wrapped.append(name)
        if name == "getattr" and len(node.args) == 2 and names.is_name(node.args[1]):
            return f"{left}{self.argument(node.args[0])}.{node.args[1]}"
        return f"{left}{name}({self.arguments(node.args, node.kwargs)})"

    def _operand(self, a: object) -> str:
        text = self.argument(a)
        return (
            f"({text})" if isinstance(a, (int, float, complex)) and text.startswith("-") else text
        )

    def attribute(self, path: str) -> str:
        """Reading an attribute of the root by its path."""
        text = self.root
        for part in path.split("."):
            text = _read(text, part)
        return text

    # ---------------------------------------------------------------- comments

    def comments(self, node: Node) -> None:
        """Where the node comes from, when it is another line than that of the node before."""
        trace = node.meta.get("stack_trace") or ""
        if trace == self.last_trace:
            return
        self.last_trace = trace
        if self.lines:
            self.emit("", None)  # between groups of statements
        if not trace:
            self.emit("# No stacktrace found for following nodes", None)
            return
        lines = [line.strip() for line in trace.strip().split("\n")]
        frames = [i for i, line in enumerate(lines) if line.startswith('File "')]
        if frames:
            place = re.match(r'File "(.*)", line (\d+), in (.*)', lines[frames[-1]])
            code = lines[frames[-1] + 1] if frames[-1] + 1 < len(lines) else ""
            if place is not None:
                text = f"# File: {place[1]}:{place[2]} in {place[3]}, code: {code}"
                self.emit(_in_one_line(text), None)


class _ByIdentity:
    """An object that may not be hashable as a global value."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _read(owner: str, name: str) -> str:
    """Reading an attribute of what an expression gives."""
    return f"{owner}.{name}" if names.is_name(name) else f"getattr({owner}, {json.dumps(name)})"


def _in_one_line(text: str) -> str:
    """A comment: nothing in it ends its line."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


class CodeGen:
    """Writes the `forward` function of a graph."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head of the function, and what unpacks its arguments."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        arguments = ", ".join(free_vars)
        if expanded_def:
            arguments = "\n    " + ",\n    ".join(free_vars) + ",\n"
        return f"def {self._func_name}({arguments}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: object = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """The statement that returns the result."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: object) -> Any:
        """What the placeholders get of what the function is called with."""
        return args

    def process_outputs(self, outputs: object) -> Any:
        """What the caller gets of what the output node has."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further globals of the code: names and values."""
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: names.Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        nodes = list(nodes)
        names.checked_name(self._func_name, "fx", "the name of the function")
        names.checked_name(root_module, "fx", "what attributes are read from", names.is_path)
        writer = _Writer(root_module, namespace, verbose, (include_stride, include_device))
        for name, value in self.additional_globals():
            writer.globals.add(name, value)
        self._write_nodes(writer, nodes, additional_meta)
        if not writer.lines:
            writer.emit("pass", None)
        body = [f"{line}\n" for line in writer.lines]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(writer.parameters, writer.annotation, expanded_def=expanded_def)
        before = f"\n{self._wraps(writer)}\n\n"
        start = before.count("\n")
        text = "".join(
            "    " + line if line.strip() else "\n" for line in "".join(body).splitlines(True)
        )
        src = f"{before}{head}\n{text}    "
        shift = start + head.count("\n") + 2
        marks = {i + shift: mark for i, mark in enumerate(writer.marks)}
        values = {
            k: v.value if isinstance(v, _ByIdentity) else v
            for k, v in writer.globals.values.items()
        }
        return PythonCode(src, values, marks, start, [n.name for n in nodes])

    def _wraps(self, writer: _Writer) -> str:
        """The lines that say which functions are leaves, if there are any."""
        if not writer.wrapped:
            return ""
        name = writer.globals.add(f"{names.prefix()}.fx._symbolic_trace.wrap", wrap)
        return "\n".join(f'{name}("{function}")' for function in dict.fromkeys(writer.wrapped))

    def _write_nodes(
        self, writer: _Writer, nodes: list[Node], additional_meta: list[str] | None
    ) -> None:
        last_uses = _last_uses(nodes)
        for position, node in enumerate(nodes):
            if writer.verbose and node.op not in ("placeholder", "output"):
                writer.comments(node)
            if node.op == "output":
                if node.type is not None:
                    writer.annotation = f" -> {writer.globals.type_text(node.type)}"
                writer.emit(self.generate_output(node.args[0], repr_fn=writer.argument), position)
                continue
            statement = writer.node(node)
            if statement is None:
                # a placeholder that nobody reads is let go at once
                continue
            released = last_uses.get(node, [])
            if not node.users and node.op != "placeholder":
                released = [*released, node]
            if released:
                chain = " = ".join(repr(n) for n in released)
                statement = f"{statement};  {chain} = None"
            for key in additional_meta or ():
                if key in node.meta:
                    statement += _in_one_line(f"  # {key}: {node.meta[key]}")
            writer.emit(statement, position)


def _last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """For each node the values that nobody reads after it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for value in reversed(user._input_nodes):
            if value not in seen:
                seen.add(value)
                if user.op != "output":
                    found.setdefault(user, []).append(value)
    return {user: values[::-1] for user, values in found.items()}


def _shape_text(value: Any, shown: tuple[bool, bool]) -> str:
    """dtype and shape of a value as an annotation: `: "f32[2, 3]"`; a number's formula: `: "Sym(2*s0)"`."""
    if getattr(value, "_is_symbolic", False):
        return f": {json.dumps(f'Sym({value})')}"
    if not isinstance(value, core.Tensor):
        return ""
    text = f"{value.dtype.code}[{', '.join(map(str, value.shape))}]"
    if shown[0]:
        text += f"[{', '.join(map(str, value.stride()))}]"
    return f": {json.dumps(f'{text}{value.device}' if shown[1] else text)}"


@dataclass
class _PyTreeInfo:
    """How the inputs and outputs of a graph are nested."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any

    def _replace_out(self, out_spec: object) -> _PyTreeInfo:
        return _PyTreeInfo(self.orig_args, self.in_spec, out_spec)


class PyTreeCodeGen(CodeGen):
    """Code whose function takes and gives nested values, while the graph has their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: object) -> Any:
        """The leaves of the arguments."""
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        """The nested result."""
        if self.pytree_info.out_spec is None:
            return outputs
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        return pytree.tree_unflatten(list(outputs), self.pytree_info.out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The head, with the arguments of the traced function, and a statement that flattens them."""
        info = self.pytree_info
        if info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        arguments = [
            names.checked_name(a, "fx", "an argument of the function", names.is_parameter)
            for a in info.orig_args
        ]
        if not arguments or arguments[0] != "self":
            arguments.insert(0, "self")
        head = super().gen_fn_def(arguments, maybe_return_annotation, expanded_def=expanded_def)
        leaves = [v.partition(" :")[0].partition(" =")[0].strip() for v in free_vars if v != "self"]
        if not leaves:
            return head
        given = ", ".join(a.lstrip("*") for a in arguments[1:])
        return f"{head}\n    {', '.join(leaves)}, = fx_pytree.tree_leaves(({given},))"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: object = None,
        repr_fn: Callable[[Any], str] | None = None,
    ) -> str:
        """The statement that returns the nested result."""
        text = (repr_fn or repr)(output_args)
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return f"return {text}"
        return f"return pytree.tree_unflatten({text}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        """The module that flattens."""
        return [("fx_pytree", _ByIdentity(pytree)), ("pytree", _ByIdentity(pytree))]


def check_codegen(codegen: object) -> CodeGen:
    """The argument, if it can write code."""
    if not isinstance(codegen, CodeGen):
        fail(
            TypeError,
            "set_codegen",
            "a CodeGen was required",
            got=type(codegen).__name__,
            hint="pass an instance, as CodeGen()",
        )
    return codegen
