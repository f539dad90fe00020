"""Lowering of expressions: names, attributes, arithmetic, comparisons, subscripts, literals.

Takes syntax trees. Gives values, or what a name stands for besides a value.
Keeps true: an expression is evaluated once, from left to right; a part that runs only sometimes (`and`,
`or`, `a if c else b`) stands in a block of `prim::If`.
"""

from __future__ import annotations

import ast
import enum
import operator
import warnings
from collections.abc import Callable
from typing import Any

from facula.jit.attributes import attribute
from facula.jit.builder import Builder, constant_of
from facula.jit.ir import Value
from facula.jit.python_values import is_own
from facula.jit.source import NotSupportedError, UnsupportedNodeError
from facula.jit.values import Items, Python, Range
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of

__all__ = ["Expressions"]

BINARY: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "remainder", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__",
    ast.BitOr: "__or__", ast.BitXor: "__xor__", ast.LShift: "__lshift__", ast.RShift: "__rshift__",
}  # fmt: skip
_COMPARE: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "__is__", ast.IsNot: "__isnot__",
}  # fmt: skip
#: what a comparison is called from its other side
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
#: the methods of classes for operators
_METHODS = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "floordiv": "__floordiv__",
    "remainder": "__mod__", "pow": "__pow__", "matmul": "__matmul__", "eq": "__eq__", "ne": "__ne__",
    "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__", "__and__": "__and__", "__or__": "__or__",
    "__xor__": "__xor__", "__lshift__": "__lshift__", "__rshift__": "__rshift__",
}  # fmt: skip
#: numbers, which an operator of tensors takes on its right side
_NUMBERS = ("int", "float", "bool", "complex", "Scalar")
#: what is lowered with the type that is wanted of it
_HINTED = (
    ast.List, ast.Dict, ast.ListComp, ast.DictComp, ast.Tuple, ast.IfExp, ast.Call, ast.Subscript,
)  # fmt: skip
_UNARY: dict[type, str] = {ast.USub: "__neg__", ast.Invert: "__invert__", ast.UAdd: "__pos__"}


class Expressions(Builder):
    """The lowering of expressions."""

    env: dict[str, Any]
    absent: dict[str, str]
    look_up: Callable[[str], Any]

    def expression(self, node: ast.AST, hint: T.Type | None = None) -> Value:
        """The value of an expression."""
        return self.as_value(self.sugared(node, hint), node)

    def sugared(self, node: ast.AST, hint: T.Type | None = None) -> Any:
        """What an expression stands for; `hint` is the type that is wanted, for `[]` and `{}`."""
        method = getattr(self, "_" + type(node).__name__, None)
        before = self.place
        self.place = self.source.place(node) or before
        try:
            if method is None:
                self.refuse("an expression that TorchScript has was required",
                            f"{type(node).__name__}, which isn't supported", error=UnsupportedNodeError)  # fmt: skip
            if isinstance(node, _HINTED):
                return method(node, hint)  # type: ignore[misc]
            return method(node)  # type: ignore[misc]
        finally:
            self.place = before

    def as_value(self, thing: object, node: ast.AST | None = None) -> Value:
        """A value of what an expression stands for."""
        if isinstance(thing, Value):
            return thing
        if isinstance(thing, Python):
            return self.python_constant(thing.obj)
        if isinstance(thing, Items):
            return self.make_tuple([self.as_value(i) for i in thing.items])
        if isinstance(thing, Range):
            return self.refuse("a value was required", "an iterator", hint="loop over it")
        return self.refuse("a value was required", f"{thing!r} (a builtin cannot be used as a value)",
                           hint="call it, or use it in a call")  # fmt: skip

    def python_constant(self, obj: object) -> Value:
        """A constant of a value of the surrounding program."""
        if isinstance(obj, CODED):
            return self.constant(code_of(obj))
        if isinstance(obj, enum.Enum):
            return self.constant(obj, self.type_of_object(obj))
        if isinstance(obj, (list, tuple)) and type(obj) in (list, tuple):
            items = [self.python_constant(v) for v in obj]
            if isinstance(obj, tuple):
                return self.make_tuple(items)
            return self.make_list(items, items[0].type if items else T.TENSOR)
        try:
            return self.constant(obj)
        except TypeError:
            return self.refuse(
                "a value of the program that can be a constant was required",
                f"python value of type '{type(obj).__name__}' cannot be used as a value: "
                f"{getattr(obj, '__qualname__', '')}",
                hint="pass it as an argument, or make it an attribute of the module",
            )

    def type_of_object(self, obj: object) -> T.Type:
        raise NotImplementedError

    # ---- names
    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.env:
            found = self.env[node.id]
            if found is None:
                self.refuse(
                    f"{node.id} was required to be defined on every path, with one type",
                    self.absent.get(node.id, "a path on which it is not"),
                    hint="give it a value before the branch or loop",
                )
            return found
        return self.global_name(node.id)

    def global_name(self, name: str) -> Any:
        raise NotImplementedError

    def _Attribute(self, node: ast.Attribute) -> Any:
        return attribute(self, self.sugared(node.value), node.attr)

    # ---- literals
    def _Constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis:
            return Python(Ellipsis)
        if type(node.value) is int and node.value >= 2**63:
            self.refuse("an integer of 64 bits was required",
                        f"{node.value}: Integral value is out of bounds (out of range)",
                        hint="write it as a float")  # fmt: skip
        return self.constant(node.value)

    def _Tuple(self, node: ast.Tuple, hint: T.Type | None = None) -> Any:
        hints: Any = hint.inner if hint is not None and hint.kind == "Tuple" else ()
        if len(hints) != len(node.elts):
            hints = (None,) * len(node.elts)
        return self.make_tuple(
            [self.expression(e, h) for e, h in zip(node.elts, hints, strict=True)]
        )

    def _List(self, node: ast.List, hint: T.Type | None = None) -> Value:
        wanted = _inside(hint, "List")
        items: list[Value] = []
        for e in node.elts:
            items.append(self.expression(e, wanted.item if wanted else None))
        return self.list_of_values(items, wanted)

    def list_of_values(self, items: list[Value], wanted: T.Type | None) -> Value:
        """A list; its item type is the wanted one, or what covers all items."""
        if wanted is not None:
            fitted = [self.fitted(i, wanted.item, convert=False) for i in items]
            if None not in fitted:
                return self.make_list([f for f in fitted if f is not None], wanted.item)
        return self.make_list(
            items, self._common([i.type for i in items], "list") if items else T.TENSOR
        )

    def _common(self, kinds: list[T.Type], what: str) -> T.Type:
        """The type of all items: one that covers them, or a union, of which the user hears."""
        found: T.Type | None = kinds[0]
        for kind in kinds[1:]:
            found = T.unify(found, kind) if found is not None else None
        if found is not None:
            return found
        union = T.union_of(kinds)
        if what == "keys":
            self.refuse("keys of one type were required in a dict (Dicts may only contain homogeneous keys, but "
                        "the type "
                        f"of the first generated key was {union.annotation_str})", union.annotation_str,
                        hint="convert the keys")  # fmt: skip
        if not self.unit_is_archive():
            warnings.warn(f"[jit.script] a {what} of items of several types has the type {union.annotation_str} "
                          f"inside; "
                          "annotate it, or convert the items", stacklevel=2)  # fmt: skip
        return union

    def unit_is_archive(self) -> bool:
        """Whether the code comes from a file."""
        raise NotImplementedError

    def _Dict(self, node: ast.Dict, hint: T.Type | None = None) -> Value:
        wanted = _inside(hint, "Dict")
        key, item = wanted.inner if wanted else (None, None)
        pairs: list[Value] = []
        for k, v in zip(node.keys, node.values, strict=True):
            if k is None:
                self.refuse("a dict literal without ** was required", "**", hint="use update()")
            assert k is not None
            pairs += [self.expression(k, key), self.expression(v, item)]
        return self.dict_of_values(pairs, wanted)

    def dict_of_values(self, pairs: list[Value], wanted: T.Type | None) -> Value:
        """A dict of keys and values that follow each other."""
        if wanted is None:
            keys, values = [v.type for v in pairs[::2]], [v.type for v in pairs[1::2]]
            wanted = T.dict_of(T.STR, T.TENSOR)
            if pairs:
                wanted = T.dict_of(self._common(keys, "keys"), self._common(values, "dict"))
        return self.value("prim::DictConstruct", pairs, wanted)

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        text, values = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value).replace("{", "{{").replace("}", "}}")
                continue
            assert isinstance(part, ast.FormattedValue)
            if part.conversion != -1 or part.format_spec is not None:
                self.refuse("an f-string of plain {values} was required", ast.unparse(node),
                            hint="TorchScript has no !r and :.2f there; '%.2f' % value formats",
                            error=NotSupportedError)  # fmt: skip
            text += "{}"
            values.append(self.expression(part.value))
        return self.value("aten::format", [self.constant(text), *values], T.STR)

    # ---- arithmetic
    def _BinOp(self, node: ast.BinOp) -> Value:
        left = self.expression(node.left)
        if isinstance(node.op, ast.Mod) and left.type == T.STR:
            right = self.expression(node.right)
            return self.value("aten::percentFormat", [left, right], T.STR)
        return self.binary(BINARY[type(node.op)], left, self.expression(node.right))

    def binary(self, name: str, left: Value, right: Value) -> Value:
        """An operator between two values."""
        method = _METHODS.get(name, "")
        kind = left.type
        if isinstance(kind, T.ClassType) and method in kind.methods:
            return self.call_method(left, method, [right], {})
        if name == "add" and kind.kind == right.type.kind == "Tuple":
            return self.make_tuple(self.unpack(left) + self.unpack(right))
        if name in ("add", "mul") and kind.kind in _NUMBERS and right.type.kind == "Tensor":
            left, right = right, left  # as PyTorch's graphs have it
        if name == "floordiv" and "Tensor" in (kind.kind, right.type.kind):
            name = "floor_divide"
        if isinstance(kind, T.EnumType) and name in ("eq", "ne"):
            run = operator.is_ if name == "eq" else operator.is_not
            return self.value(f"aten::{name}", [left, right], T.BOOL, run)
        if name in ("eq", "ne") and kind.kind == right.type.kind == "Tuple":
            return self._tuples_equal(name, left, right)
        return self.call(f"aten::{name}", [left, right])

    def _tuples_equal(self, name: str, left: Value, right: Value) -> Value:
        pairs = list(zip(self.unpack(left), self.unpack(right), strict=False))
        same = self.constant(len(left.type.inner) == len(right.type.inner))
        for a, b in pairs:
            same = self.call("aten::__and__", [same, self.binary("eq", a, b)])
        return same if name == "eq" else self.call("aten::__not__", [same])

    def call_method(
        self, value: Value, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Value:
        raise NotImplementedError

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        operand = self.expression(node.operand)
        kind, method = operand.type, _UNARY[type(node.op)]
        if isinstance(kind, T.ClassType) and method in kind.methods:
            return self.call_method(operand, method, [], {})
        known, constant = constant_of(operand)
        if known and isinstance(constant, (int, float)) and not isinstance(node.op, ast.Invert):
            self.block.nodes_.remove(operand.node)
            return self.constant(-constant if isinstance(node.op, ast.USub) else constant)
        if isinstance(node.op, ast.UAdd):
            return operand
        name = "neg" if isinstance(node.op, ast.USub) else "bitwise_not"
        return self.call(f"aten::{name}", [operand])

    def _Compare(self, node: ast.Compare) -> Value:
        return self.condition(node)

    def compare(self, left: Value, operator: ast.cmpop, right: Value) -> Value:
        """One comparison."""
        if isinstance(operator, (ast.In, ast.NotIn)):
            found = self._contains(right, left)
            return found if isinstance(operator, ast.In) else self.call("aten::__not__", [found])
        name = _COMPARE[type(operator)]
        if right.type.kind == "Tensor" and left.type.kind in _NUMBERS:
            return self.binary(_MIRRORED.get(name, name), right, left)
        return self.binary(name, left, right)

    def _contains(self, container: Value, item: Value) -> Value:
        if container.type.kind == "Tuple":
            found = self.constant(False)
            for each in self.unpack(container):
                found = self.call("aten::__or__", [found, self.binary("eq", each, item)])
            return found
        if isinstance(container.type, T.ClassType):
            known = self._holds_module(container, item)
            if known is not None:
                return known
            return self.call_method(container, "__contains__", [item], {})
        return self.call("aten::__contains__", [container, item])

    def _holds_module(self, container: Value, item: Value) -> Value | None:
        """Whether the library's dict of modules has a name, which is known before the program runs."""
        kind = container.type
        before = len(self.block.nodes_)
        own = getattr(kind.python, "__contains__", None)
        items = self.items_of_module(container, kind) if own is None or is_own(own) else None
        del self.block.nodes_[before:]
        known, name = constant_of(item)
        return self.constant(name in dict(items)) if items is not None and known else None

    def items_of_module(self, value: Value, kind: T.ClassType) -> list[tuple[str, Value]] | None:
        raise NotImplementedError

    # ---- conditions: `conditions` has those that refine types
    def condition(self, node: ast.AST) -> Value:
        raise NotImplementedError

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        return self.condition(node)

    def _IfExp(self, node: ast.IfExp, hint: T.Type | None = None) -> Any:
        raise NotImplementedError


def _inside(hint: T.Type | None, kind: str) -> T.Type | None:
    """The part of a wanted type that a literal of a kind would have."""
    if hint is None:
        return None
    return next((m for m in T.members(hint) if m.kind == kind), None)
