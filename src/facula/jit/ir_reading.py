"""Graphs from their text, as `str(graph)` writes it: `parse_ir`.

Takes text. Gives a `Graph`; nodes find their operators when they run.
Keeps true: text is read, never evaluated; what is no graph is an error that names the place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.node_operators import resolved
from facula.jit.running import RUNS
from facula.jit.tensor_types import SCALAR_NAMES, TensorType
from facula.ops.table.schemas import types as T

__all__ = ["parse_ir", "parse_type"]

_TOKEN = re.compile(r"""(?:\s|\#[^\n]*)*(?:
    (?P<value>%[A-Za-z0-9_.$]+) | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*') | (?P<arrow>->)
  | (?P<number>-?\d+\.?\d*(?:[eE][-+]?\d+)?|-?\.\d+) | (?P<name>[A-Za-z_][\w.]*(?:::\w+)?) | (?P<mark><Tensor>|[^\s])
)""", re.VERBOSE)  # fmt: skip
_DTYPES = {name: dtype for dtype, name in SCALAR_NAMES.items()}
_PLAIN = {
    "Tensor": T.TENSOR, "int": T.INT, "float": T.FLOAT, "bool": T.BOOL, "str": T.STR, "NoneType": T.NONE,
    "None": T.NONE,    "Device": T.DEVICE, "Scalar": T.NUMBER, "number": T.NUMBER, "complex": T.COMPLEX, "Any": T.ANY,
    "Generator": T.GENERATOR, "Stream": T.STREAM, "QScheme": T.QSCHEME, "Layout": T.INT, "ScalarType": T.INT,
}  # fmt: skip
_DEPTH = 200


class _Reader:
    """Tokens in order."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[tuple[str, str, int]] = []
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                break
            if found.lastgroup is not None:
                self.tokens.append(
                    (found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
                )
            place = found.end() if found.end() > place else place + 1
        self.tokens.append(("end", "", len(text)))

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)][1]

    def kind(self) -> str:
        return self.tokens[self.at][0]

    def next(self) -> str:
        found = self.tokens[self.at][1]
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return found

    def take(self, wanted: str) -> bool:
        if self.peek() == wanted and self.kind() != "text":
            self.next()
            return True
        return False

    def expect(self, wanted: str) -> None:
        if not self.take(wanted):
            self.refuse(repr(wanted))

    def refuse(self, wanted: str) -> Any:
        line = self.text.count("\n", 0, self.tokens[self.at][2]) + 1
        return fail(RuntimeError, "parse_ir", f"{wanted} was required in line {line}", self.peek() or "the end",
                    hint="the text is that of str(graph)")  # fmt: skip

    def listed(self, item: Callable[[], Any], end: str) -> list[Any]:
        """Items with commas between, up to a mark."""
        found = []
        while not self.take(end):
            found.append(item())
            if not self.take(","):
                self.expect(end)
                break
        return found


class _Parser(_Reader):
    def __init__(
        self, text: str, tensors: bool, classes: Callable[[str], Any] | None = None
    ) -> None:
        super().__init__(text)
        self.tensors, self.classes = tensors, classes
        self.values: dict[str, Value] = {}
        self.depth = 0

    # ---- types
    def type(self) -> T.Type:
        self.depth += 1
        if self.depth > _DEPTH:
            self.refuse(f"a type of at most {_DEPTH} parts inside of each other")
        kind = self._base()
        while True:
            if self.peek() == "[" and self.peek(1) == "]":
                self.next(), self.next()
                kind = T.list_of(kind)
            elif self.take("?"):
                kind = T.optional_of(kind)
            else:
                self.depth -= 1
                return kind

    def _base(self) -> T.Type:
        if self.take("("):
            return T.tuple_of(self.listed(self.type, ")"))
        name = self.next()
        if name in (
            "Dict",
            "Future",
            "Await",
            "Optional",
            "Union",
            "List",
            "Tuple",
        ) and self.peek() in ("(", "["):
            end = ")" if self.next() == "(" else "]"
            parts = self.listed(self.type, end)
            if not parts or name == "Dict" and len(parts) != 2:
                self.refuse(f"the parts of a {name}")
            makers: dict[str, Any] = {"Dict": T.dict_of, "Future": T.future_of, "Await": T.await_of,
                                      "Optional": T.optional_of, "List": T.list_of}  # fmt: skip
            if name == "Union":
                return T.union_of(parts)
            return T.tuple_of(parts) if name == "Tuple" else makers[name](*parts)
        if (
            name in _DTYPES
            and (self.peek() == "(" or name not in ("Int", "Bool"))
            or name == "Tensor"
            and self.peek() == "("
        ):
            return self._tensor(name)
        found = _PLAIN.get(name)
        if found is None and self.classes is not None:
            found = self.classes(name)
        return (
            found
            if found is not None
            else self.refuse(f"a type that exists (unknown type name {name!r})")
        )

    def _tensor(self, name: str) -> T.Type:
        made = TensorType(_DTYPES.get(name))
        if not self.take("("):
            return made
        sizes: list[int | None] = []
        while not self.take(")"):
            word = self.next()
            if word in ("strides", "requires_grad", "device"):
                self.expect("=")
                self._said(made, word)
            elif word == "*":
                sizes.append(None)
            elif word.lstrip("-").isdigit():
                sizes.append(int(word))
            elif word == "SS":
                self.expect("(")
                sizes.append(int(self.next()))
                self.expect(")")
            else:
                self.refuse("a size")
            self.take(",")
        made.shape = tuple(sizes)
        return made

    def _said(self, made: TensorType, word: str) -> None:
        if word == "strides":
            self.expect("[")
            made.steps = tuple(int(n) for n in self.listed(self.next, "]"))
        elif word == "requires_grad":
            made.wants_gradient = self.next() == "1"
        else:
            name = self.next()
            if self.take(":"):
                name += ":" + self.next()
            made.place = core.device(name)

    # ---- nodes
    def graph(self) -> Graph:
        if self.next() != "graph":
            self.at = 0
            self.refuse("'graph'")
        made = Graph()
        self.expect("(")
        self._parameters(made)
        self.expect(":")
        self._nodes(made, "return")
        self.expect("(")
        made.results = self.listed(self.read, ")")
        if self.kind() != "end":
            self.refuse("the end")
        return made

    def _parameters(self, block: Block) -> None:
        for name, kind in self.listed(self._declared, ")"):
            value = block.add_parameter(kind, _hint(name))
            self._name(name, value)

    def _name(self, name: str, value: Value) -> None:
        self.values[name] = value

    def _declared(self) -> tuple[str, T.Type]:
        if self.kind() != "value":
            self.refuse("a value such as %x")
        name = self.next()
        return name, self.type() if self.take(":") else T.TENSOR

    def read(self) -> Value:
        if self.kind() != "value" or self.peek() not in self.values:
            self.refuse("a value that is made before")
        return self.values[self.next()]

    def _nodes(self, block: Block, end: str) -> None:
        while not self.take(end):
            if self.kind() == "end":
                self.refuse(repr(end))
            self._node(block)

    def _node(self, block: Block) -> None:
        outputs: list[tuple[str, T.Type]] = []
        while self.kind() == "value":
            outputs.append(self._declared())
            if not self.take(","):
                break
        if outputs or self.peek() == "=":
            self.expect("=")
        if self.kind() != "name":
            self.refuse("an operator such as aten::add")
        kind = self.next()
        attributes = dict(self.listed(self._attribute, "]")) if self.take("[") else {}
        self.expect("(")
        inputs = self.listed(self.read, ")")
        node = Node(block, kind, inputs, [t for _, t in outputs], attributes)
        block.nodes_.append(node)
        if kind == "prim::Constant":
            self._constant(node)
        for (name, _), value in zip(outputs, node.outputs_, strict=True):
            value.hint = _hint(name)
        if kind not in RUNS:
            resolved(node)
        while re.fullmatch(r"block\d+", self.peek()):
            self._block(node)
        for (name, _), value in zip(outputs, node.outputs_, strict=True):
            self._name(name, value)

    def _block(self, node: Node) -> None:
        self.depth += 1
        if self.depth > _DEPTH:
            self.refuse(f"at most {_DEPTH} blocks inside of each other")
        self.next()
        inner = node.add_block()
        outer = dict(self.values)
        self.expect("(")
        self._parameters(inner)
        self.expect(":")
        self._nodes(inner, "->")
        self.expect("(")
        inner.results = self.listed(self.read, ")")
        self.values = outer
        self.depth -= 1

    # ---- attributes
    def _attribute(self) -> tuple[str, Any]:
        name = self.next()
        self.expect("=")
        return name, self.value()

    def value(self) -> Any:
        self.depth += 1
        if self.depth > _DEPTH:
            self.refuse(f"a value of at most {_DEPTH} parts inside of each other")
        made = self._value()
        self.depth -= 1
        return made

    def _value(self) -> Any:
        kind, word = self.kind(), self.next()
        if kind == "text":
            return ast.literal_eval(word)
        if kind == "number":
            return float(word) if re.search(r"[.eE]", word) else int(word)
        if word in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[word]
        if word in ("[", "("):
            made = self.listed(self.value, "]" if word == "[" else ")")
            return made if word == "[" else tuple(made)
        if word == "{":
            return core.tensor(self._numbers())
        if word == "annotate":
            self.expect("(")
            self.type()
            self.expect(",")
            made = self.value()
            self.expect(")")
            return made
        if word == "<Tensor>":
            if not self.tensors:
                self.at -= 1
                self.refuse(
                    "a value that the text holds (tensor constants are not parsed: parse_tensor_constants=True)"
                )
            return _SOME
        if kind == "name":
            return word
        self.at -= 1
        return self.refuse("a constant")

    def _numbers(self) -> Any:
        found = self.listed(self.value, "}")
        return found[0] if len(found) == 1 else found

    def _constant(self, node: Node) -> None:
        """A constant as its type has it: bools are written as numbers, tensors by what is known of them."""
        kind, value = node.outputs_[0].type, node.attributes.get("value")
        if kind == T.BOOL and value in (0, 1):
            node.attributes["value"] = bool(value)
        elif kind == T.FLOAT and type(value) is int:
            node.attributes["value"] = float(value)
        elif kind == T.DEVICE and isinstance(value, str):
            node.attributes["value"] = core.device(value)
        elif kind == T.list_of(T.BOOL) and isinstance(value, list):
            node.attributes["value"] = [bool(v) for v in value]
        elif (
            isinstance(kind, TensorType)
            and isinstance(value, core.Tensor)
            and kind.element is not None
        ):
            known = (
                kind.sizes() if value.numel() == 1 else None
            )  # {5} is one number of any shape of ones
            value = value if known is None else value.reshape(known)
            node.attributes["value"] = value.to(kind.element)
        elif value is _SOME:
            node.attributes["value"] = _some(kind)


_SOME = object()


def _some(kind: T.Type) -> core.Tensor:
    """A tensor of a type; its elements are not in the text."""
    sizes = getattr(kind, "shape", None) or ()
    if None in sizes:
        fail(RuntimeError, "parse_ir", "a tensor constant of known sizes was required", kind,
             hint="Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)")  # fmt: skip
    steps = getattr(kind, "steps", None)
    dtype = getattr(kind, "element", None)
    made = core.empty(list(sizes), dtype=dtype)
    return made if steps is None else core.empty_strided(list(sizes), list(steps), dtype=dtype)


def _hint(name: str) -> str:
    """The name of a value, unless it is a number."""
    return "" if name[1:].isdigit() else name[1:]


def parse_ir(input: str, parse_tensor_constants: bool = False) -> Graph:  # noqa: A002 - PyTorch's name
    """The graph that a text shows.

    Args:
        input: the text, as `str(graph)` gives it
        parse_tensor_constants: whether constants that are tensors are made, with elements of no meaning

    Raises:
        RuntimeError: the text is none of a graph.

    Example:
        >>> print(facula._C.parse_ir("graph(%x : int):\\n  return (%x)"))
        graph(%x : int):
          return (%x)
        <BLANKLINE>
    """
    return _Parser(input, parse_tensor_constants).graph()


def parse_type(text: str, classes: Callable[[str], Any] | None = None) -> T.Type:
    """The type that a text shows.

    Args:
        text: a type as graphs write it
        classes: finds classes by their names
    """
    return _Parser(text, False, classes).type()
