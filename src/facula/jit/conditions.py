"""Lowering of conditions: comparisons, `and`, `or`, `not`, and what they say about types.

Takes syntax trees. Gives a bool value, or a truth that is known while compiling, and the narrower types of
names where it is true and where it is false.
Keeps true: code behind a condition that is known is not compiled, so it need not fit the types.
"""

from __future__ import annotations

import ast
from typing import Any

from facula.jit.builder import constant_of
from facula.jit.expressions import Expressions
from facula.jit.ir import Block, Value
from facula.jit.values import Python
from facula.ops.table.schemas import types as T

__all__ = ["Condition", "Conditions"]

Refined = dict[str, T.Type]


class Condition:
    """A condition: its value, its truth where that is known, and what it says about types."""

    def __init__(
        self,
        value: Any,
        known: bool | None = None,
        yes: Refined | None = None,
        no: Refined | None = None,
    ) -> None:
        self.value, self.known, self.yes, self.no = value, known, yes or {}, no or {}


class Conditions(Expressions):
    """The lowering of conditions."""

    #: whether `==` of constants is decided while compiling: in the library's own source
    folds: bool

    def condition(self, node: ast.AST) -> Value:
        """A bool value."""
        found = self.examine(node)
        return self.constant(found.known) if found.value is None else found.value

    def examine(self, node: ast.AST) -> Condition:
        """A condition with all that it says."""
        before = self.place
        self.place = self.source.place(node) or before
        try:
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return self._negated(self.examine(node.operand))
            if isinstance(node, ast.BoolOp):
                return self._chain(node.values, isinstance(node.op, ast.And))
            if isinstance(node, ast.Compare):
                return self._comparison(node)
            if isinstance(node, ast.Call):
                special = self.type_question(node)
                if special is not None:
                    return special
            return self._truth(self.sugared(node))
        finally:
            self.place = before

    def type_question(self, node: ast.Call) -> Condition | None:
        """`isinstance`, `hasattr`, `is_scripting`: None for other calls."""
        raise NotImplementedError

    def _negated(self, found: Condition) -> Condition:
        if found.known is not None:
            return Condition(None, not found.known, found.no, found.yes)
        assert found.value is not None
        value = self.truth(found.value)
        return Condition(self.call("aten::__not__", [value]), None, found.no, found.yes)

    def _truth(self, thing: object) -> Condition:
        if isinstance(thing, Python) and isinstance(thing.obj, bool):
            return Condition(None, thing.obj)
        value = self.as_value(thing)
        known, constant = constant_of(value)
        if known and not isinstance(constant, str):
            return Condition(None, bool(constant))
        return Condition(self.truth(value))

    def truth(self, value: Value) -> Value:
        """A value as a bool, as `if` takes it."""
        kind = value.type.kind
        if kind == "bool":
            return value
        if kind in ("Tensor", "int", "float", "Scalar"):
            return self.call("aten::Bool", [value])
        if kind in ("List", "Dict", "str"):
            return self.call("aten::gt", [self.call("aten::len", [value]), self.constant(0)])
        if kind == "Class" and "__bool__" in value.type.methods:
            made = self.call_method(value, "__bool__", [], {})
            return made if made.type == T.BOOL else self.truth(made)
        return self.refuse("a condition was required to be a bool, a number or a tensor (expected a bool "
                           "expression for "
                           "condition)", value.type,
                           hint="compare it: `x is not None`, `len(x) > 0`")  # fmt: skip

    def _comparison(self, node: ast.Compare) -> Condition:
        left = self.sugared(node.left)
        pairs = list(zip(node.ops, node.comparators, strict=True))
        if len(pairs) == 1:
            return self._one(node.left, left, pairs[0][0], pairs[0][1])
        return Condition(self._links(self.as_value(left), pairs))

    def _links(self, left: Value, pairs: list[tuple[ast.cmpop, ast.expr]]) -> Value:
        """A chain of comparisons: each operand once, and only where those before hold."""
        right = self.expression(pairs[0][1])
        part = self.compare(left, pairs[0][0], right)
        if len(pairs) == 1:
            return part
        made = self.emit("prim::If", [self.truth(part)], [T.BOOL])
        outer, self.block = self.block, made.add_block()
        self.block.results = [self.truth(self._links(right, pairs[1:]))]
        self.block = made.add_block()
        self.block.results = [self.constant(False)]
        self.block = outer
        return made.outputs_[0]

    def _one(self, name: ast.AST, left: object, operator: ast.cmpop, other: ast.AST) -> Condition:
        if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)) and _is_none(other):
            value = self.as_value(left)
            found = self._none(name, value, isinstance(operator, (ast.Is, ast.Eq)))
            if found is not None:
                return found
        right = self.sugared(other)
        if isinstance(left, Python) and isinstance(right, Python) and (
            isinstance(operator, (ast.Is, ast.IsNot))
        ):  # fmt: skip
            return Condition(None, (left.obj is right.obj) == isinstance(operator, ast.Is))
        a, b = self.as_value(left), self.as_value(right)
        (known, first), (also, second) = constant_of(a), constant_of(b)
        if self.folds and known and also and isinstance(operator, (ast.Eq, ast.NotEq)):
            return Condition(None, (first == second) == isinstance(operator, ast.Eq))
        made = self.compare(a, operator, b)
        if made.type.kind == "Tensor":
            return Condition(made)
        return Condition(made)

    def _none(self, name: ast.AST, value: Value, wanted: bool) -> Condition | None:
        """`x is None`."""
        kind = value.type
        if kind == T.NONE:
            return Condition(None, wanted)
        if T.NONE not in T.members(kind) and kind.kind != "Any":
            return Condition(None, not wanted)
        test = self.call(
            "aten::__is__" if wanted else "aten::__isnot__", [value, self.constant(None)]
        )
        present: Refined = {}
        absent: Refined = {}
        if isinstance(name, ast.Name):
            absent[name.id] = T.NONE
            if kind.kind != "Any":
                present[name.id] = T.without_none(kind)
        return Condition(test, None, absent if wanted else present, present if wanted else absent)

    # ---- and, or: each later part runs only where those before say so
    def _chain(self, nodes: list[ast.expr], both: bool) -> Condition:
        first = self.examine(nodes[0])
        for node in nodes[1:]:
            if first.known is not None:
                if first.known != both:
                    return first
                yes, no = first.yes, first.no
                first = self._under(yes if both else no, node)
                first = Condition(
                    first.value, first.known,
                    {**yes, **first.yes} if both else first.yes,
                    first.no if both else {**no, **first.no},
                )  # fmt: skip
                continue
            first = self._pair(first, node, both)
        return first

    def _under(self, refined: Refined, node: ast.AST) -> Condition:
        saved = dict(self.env)
        self.refine(refined)
        found = self.examine(node)
        self.env = saved
        return found

    def _pair(self, first: Condition, node: ast.AST, both: bool) -> Condition:
        made = self.emit("prim::If", [self.truth(first.value)], [T.BOOL])
        yes, no = made.add_block(), made.add_block()
        runs, stays = (yes, no) if both else (no, yes)
        outer, self.block = self.block, runs
        second = self._under(first.yes if both else first.no, node)
        value = self.constant(second.known) if second.value is None else self.truth(second.value)
        runs.results = [value]
        self.block = stays
        stays.results = [self.constant(not both)]
        self.block = outer
        if second.value is None and second.known is both:  # nothing new
            return Condition(made.outputs_[0], None, {**first.yes, **second.yes} if both else {},
                             {} if both else {**first.no, **second.no})  # fmt: skip
        if both:
            return Condition(made.outputs_[0], None, {**first.yes, **second.yes}, {})
        return Condition(made.outputs_[0], None, {}, {**first.no, **second.no})

    def refine(self, refined: Refined) -> None:
        """Give names the narrower types that a condition says."""
        for name, kind in refined.items():
            value = self.env.get(name)
            if isinstance(value, Value) and value.type != kind:
                made = self.constant(None) if kind == T.NONE else self.cast(value, kind)
                made.hint = value.hint
                self.env[name] = made

    def _IfExp(self, node: ast.IfExp, hint: T.Type | None = None) -> Any:
        found = self.examine(node.test)
        if found.known is not None:
            self.refine(found.yes if found.known else found.no)
            return self.sugared(node.body if found.known else node.orelse, hint)
        made = self.emit("prim::If", [self.truth(found.value)], [])
        outer, saved = self.block, self.env
        for side, refined in ((node.body, found.yes), (node.orelse, found.no)):
            self.block, self.env = made.add_block(), dict(saved)
            self.refine(refined)
            self.block.results = [self.expression(side, hint)]
        self.block, self.env = outer, saved
        a, b = (block.results[0] for block in made.blocks_)
        kind = T.unify(a.type, b.type, hint)
        if kind is None:
            kind = self._fit_branches(made.blocks_)
        made.outputs_ = [Value(kind, made)]
        return made.outputs_[0]

    def _fit_branches(self, blocks: list[Block]) -> T.Type:
        a, b = (block.results[0] for block in blocks)
        return self.refuse("both branches of `a if c else b` were required to have one type",
                           f"{a.type} and {b.type}", hint="convert one of them")  # fmt: skip


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
