"""Branches and loops: which names are carried through, and what they are afterwards.

Takes the bodies as syntax trees. Gives `prim::If` and `prim::Loop` with their results.
Keeps true: a name that some path leaves without a value has none afterwards; a name keeps the type of its
first value in loops; `$returned`, `$broke` and `$continued` are flags for early exits.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from facula.jit.builder import constant_of
from facula.jit.ir import Block, Node, Value
from facula.jit.source import NotSupportedError
from facula.jit.subscripts import Subscripts
from facula.jit.values import Items, Range
from facula.ops.table.schemas import types as T

__all__ = ["Joins"]

_FLAGS = ("$returned", "$broke", "$continued")
_NO_ELSE = (
    "set a flag before `break`, and test it behind the loop: TorchScript has no else of loops"
)
_FOREVER = 9223372036854775807


class Joins(Subscripts):
    """Branches, loops and early exits."""

    declared: dict[str, T.Type]
    #: why names that some path assigns have no value
    absent: dict[str, str]
    #: the blocks in which names without an annotation got their types
    homes: dict[str, Block]
    annotated: dict[str, Block]
    result_type: T.Type | None

    # ---- early exits
    def gone(self) -> bool:
        """Whether control does not come here."""
        return "$gone" in self.env

    def may_be_gone(self) -> bool:
        """Whether control may have left on some path."""
        return any(isinstance(self.env.get(f), Value) for f in _FLAGS) and not self.gone()

    def leave(self) -> None:
        """Nothing after this runs."""
        self.env["$gone"] = True

    def set_flag(self, name: str) -> None:
        self.env[name] = self.constant(True)

    def leave_with(self, value: Value) -> None:
        """`return value`."""
        self.env["$result"] = value
        self.set_flag("$returned")
        self.leave()

    def flag(self) -> Value | None:
        """Whether control has left, where that is known only when the graph runs."""
        made: Value | None = None
        for name in _FLAGS:
            value = self.env.get(name)
            if isinstance(value, Value):
                made = value if made is None else self.call("aten::__or__", [made, value])
        return made

    def guarded(self, body: Callable[[], None]) -> None:
        """Do the rest only where control has not left."""
        flag = self.flag()
        assert flag is not None

        def rest() -> None:
            for name in _FLAGS:  # not set where this runs: loops inside have their own
                self.env.pop(name, None)
            body()
            ends.append(self.gone())

        ends: list[bool] = []
        self.branch(self.call("aten::__not__", [flag]), rest, lambda: None)
        if ends[0]:  # it has left before, or leaves here
            self.leave()

    # ---- branches
    def _If(self, node: ast.If) -> None:
        found = self.examine(node.test)
        if found.known is not None:
            self.refine(found.yes if found.known else found.no)
            self.statements(node.body if found.known else node.orelse)
            return

        def yes() -> None:
            self.refine(found.yes)
            self.statements(node.body)

        def no() -> None:
            self.refine(found.no)
            self.statements(node.orelse)

        self.branch(self.truth(found.value), yes, no)

    def statements(self, nodes: list[ast.stmt]) -> None:
        raise NotImplementedError

    def branch(self, test: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """Both sides in blocks, and the names that differ as results."""
        node = self.emit("prim::If", [test], [])
        place = self.place
        outer, before = self.block, self.env
        ends = []
        for side in (yes, no):
            self.block, self.env = node.add_block(), dict(before)
            side()
            ends.append(self.env)
        self.block, self.place = outer, place
        self.env = self._merged(node, before, *ends)

    def _merged(
        self, node: Node, before: dict[str, Any], a: dict[str, Any], b: dict[str, Any]
    ) -> dict[str, Any]:
        names = [n for n in {**a, **b} if n != "$gone" and a.get(n) is not b.get(n)]
        merged = {n: v for n, v in {**a, **b}.items() if n != "$gone" and n not in names}
        for name in names:
            made = self._one_name(node, name, before, a, b)
            if made is not None:
                merged[name] = made
            elif not name.startswith("$"):
                merged[name] = None
                self.absent[name] = self._why_absent(name, a.get(name), b.get(name))
        if "$gone" in a and "$gone" in b:
            merged["$gone"] = True
        return merged

    def _why_absent(self, name: str, x: Any, y: Any) -> str:
        """Why a name has no value behind a branch."""
        if isinstance(x, Value) and isinstance(y, Value):
            return (f"{name} is set to type {x.type.annotation_str} in the true branch and type "
                    f"{y.type.annotation_str} in the false branch")  # fmt: skip
        missing = [side for side, v in (("true", x), ("false", y)) if not isinstance(v, Value)]
        before = [self.absent[name]] if name in self.absent and len(missing) == 2 else []
        return (before or [f"{name} is not defined in the {missing[0]} branch"])[0]

    def _one_name(
        self, node: Node, name: str, old: dict[str, Any], a: dict[str, Any], b: dict[str, Any]
    ) -> Any:
        x, y, before = a.get(name), b.get(name), old.get(name)
        if name in _FLAGS:
            x = x if x is not None else self._inside(node.blocks_[0], lambda: self.constant(False))
            y = y if y is not None else self._inside(node.blocks_[1], lambda: self.constant(False))
            return self._result(node, name, x, y, T.BOOL)
        gone_a, gone_b = "$gone" in a, "$gone" in b
        if name in old and name != "$result":  # the loop, and what follows it, see these values
            gone_a, gone_b = gone_a and not _goes_on(a, old), gone_b and not _goes_on(b, old)
        if name == "$result" or gone_a or gone_b:
            if name != "$result" and gone_a and gone_b:
                return None
            return self._one_sided(node, name, x, y, gone_a, gone_b)
        if x is None or y is None or not isinstance(x, Value) or not isinstance(y, Value):
            return None
        kind = T.unify(x.type, y.type, self.declared.get(name))
        if kind is None:
            return None
        if isinstance(before, Value) and _only_casts(x, before) and _only_casts(y, before) and (
            kind == before.type
        ):  # fmt: skip
            return before
        return self._result(node, name, x, y, kind)

    def _one_sided(self, node: Node, name: str, x: Any, y: Any, gone_a: bool, gone_b: bool) -> Any:
        """A name where one side leaves, or the value of `return`."""
        if name == "$result":
            if x is not None and y is not None:
                kind = T.unify(x.type, y.type, self.result_type)
                if kind is None:
                    self.refuse("one type of all return values was required", f"{x.type} and {y.type}",
                                hint="annotate the result, or convert one of them")  # fmt: skip
                assert kind is not None
                return self._result(node, name, x, y, kind)
            gone_a = x is None
        known = y if gone_a else x
        if not isinstance(known, Value):
            return known
        if gone_a:
            x = self._inside(node.blocks_[0], lambda: self.uninitialized(known.type))
        else:
            y = self._inside(node.blocks_[1], lambda: self.uninitialized(known.type))
        return self._result(node, name, x, y, known.type)

    def _inside(self, block: Block, make: Callable[[], Value]) -> Value:
        outer, self.block = self.block, block
        made = make()
        self.block = outer
        return made

    def _result(self, node: Node, name: str, x: Value, y: Value, kind: T.Type) -> Value:
        node.blocks_[0].results.append(x)
        node.blocks_[1].results.append(y)
        made = Value(kind, node, "" if name.startswith("$") else name)
        node.outputs_.append(made)
        return made

    # ---- loops
    def _While(self, node: ast.While) -> None:
        if node.orelse:
            self.refuse("a loop without else was required (else branches of while loops aren't supported)",
                        "while ... else", hint=_NO_ELSE, error=NotSupportedError)  # fmt: skip
        limit = self.constant(_FOREVER)
        self._loop(limit, lambda: self.condition_value(node.test), node.body, None, node)

    def condition_value(self, test: ast.AST) -> Value:
        """The condition of a loop."""
        found = self.examine(test)
        return self.constant(found.known) if found.value is None else self.truth(found.value)

    def _For(self, node: ast.For) -> None:
        if node.orelse:
            self.refuse("a loop without else was required (else branches of for loops aren't supported)",
                        "for ... else", hint=_NO_ELSE, error=NotSupportedError)  # fmt: skip
        source = self.iterable(self.sugared(node.iter))
        if isinstance(source, Items):
            self._unrolled(node, source)
            return

        def start(i: Value) -> None:
            self.bind(node.target, source.item(i))

        self._loop(source.length, None, node.body, start, node)

    def _unrolled(self, node: ast.For, source: Items) -> None:
        """A loop over modules, or over a tuple: its body once for each."""
        if any(isinstance(n, (ast.Break, ast.Continue)) for n in _own_loop(node.body)):
            self.refuse("a loop over a tuple or over modules without break and continue was required (such loops are "
                        "written out, and do not support break or continue inside)",
                        "one with", hint="put the condition around the call")  # fmt: skip
        for i, item in enumerate(source.items):
            if self.gone():
                return
            rest = source.items[i:]
            if self.may_be_gone():
                self.guarded(partial(self._unrolled, node, Items(rest)))
                return
            self.unrolled_once()
            self._forget_types(node.target)
            self.bind(node.target, item)
            self.statements(node.body)

    def unrolled_once(self) -> None:
        """Another turn of a loop that is written out."""

    def _forget_types(self, target: ast.AST) -> None:
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                self.declared.pop(each.id, None)

    def simple_loop(self, source: Range, body: Callable[[Any], None]) -> None:
        """A loop that carries nothing: that of a comprehension."""
        node = self.emit("prim::Loop", [source.length, self.constant(True)], [])
        outer, self.block = self.block, node.add_block()
        body(source.item(self.block.add_parameter(T.INT)))
        self.block.results = [self.constant(True)]
        self.block = outer

    def _loop(
        self,
        limit: Value,
        test: Callable[[], Value] | None,
        body: list[ast.stmt],
        start: Callable[[Value], None] | None,
        place: ast.AST,
    ) -> None:
        flags = [f for f in _FLAGS if f in self.env]
        assert not flags, "statements behind an exit are guarded"
        condition = test() if test is not None else self.constant(True)
        known, constant = constant_of(condition)
        if test is not None and known and constant is False:
            return
        carried = self._carried(place)
        leaving = _exits(body)
        node = self.emit("prim::Loop", [limit, condition], [])
        block = node.add_block()
        outer, before = self.block, self.env
        counter = block.add_parameter(T.INT)
        self.block, self.env = block, dict(before)
        for name in carried:
            kind = self.declared.get(name, before[name].type)
            self.env[name] = block.add_parameter(kind, name)
        if start is not None:
            start(counter)
        self.statements(body)
        self._end_loop(node, block, outer, before, carried, leaving, test)

    def _end_loop(
        self,
        node: Node,
        block: Block,
        outer: Block,
        before: dict[str, Any],
        carried: list[str],
        leaving: bool,
        test: Callable[[], Value] | None,
    ) -> None:
        """The condition for another turn, and the values that go on."""
        inner = self.env
        ends: dict[str, Value] = {}
        inner.pop("$continued", None)
        inner.pop("$gone", None)
        stop = self.flag()
        result = inner.get("$result")
        if stop is None:
            again = test() if test is not None else self.constant(True)
        elif test is None:
            again = self.call("aten::__not__", [stop])
        else:
            again = self._tested(stop, test)
        for name in carried:
            value = inner.get(name)
            kind = self.declared.get(name, before[name].type)
            made = self.fitted(value, kind) if isinstance(value, Value) else None
            if made is None:
                self.refuse(f"variable {name!r} was required to keep its type {kind} in the loop",
                            getattr(value, "type", "nothing on some path"),
                            hint="annotate its first assignment")  # fmt: skip
            assert made is not None
            ends[name] = made
        self._carry(node, block, again, ends, before, outer)
        self._carry_exits(node, block, inner, result, outer)

    def _tested(self, stop: Value, test: Callable[[], Value]) -> Value:
        """The condition, asked only where nothing left the loop."""
        node = self.emit("prim::If", [stop], [])
        outer = self.block
        self.block = node.add_block()
        self.block.results = [self.constant(False)]
        self.block = node.add_block()
        self.block.results = [test()]
        self.block = outer
        node.outputs_ = [Value(T.BOOL, node)]
        return node.outputs_[0]

    def _carry(
        self,
        node: Node,
        block: Block,
        again: Value,
        ends: dict[str, Value],
        before: dict[str, Any],
        outer: Block,
    ) -> None:
        block.results = [again, *ends.values()]
        self.block, self.env = outer, dict(before)
        for name in ends:
            kind = block.parameters[1 + list(ends).index(name)].type
            node.inputs_.append(before[name])
            made = Value(kind, node, name)
            node.outputs_.append(made)
            self.env[name] = made

    def _carry_exits(
        self, node: Node, block: Block, inner: dict[str, Any], result: Value | None, outer: Block
    ) -> None:
        """`return` in a loop: the flag and the value leave it, too."""
        flag = inner.get("$returned")
        if not isinstance(flag, Value):
            return
        at = outer.nodes_.index(node)
        for name, value in (("$returned", flag), ("$result", result)):
            assert value is not None
            block.results.append(value)
            mark = len(outer.nodes_)
            first = self.constant(False) if name == "$returned" else self.uninitialized(value.type)
            made_before = outer.nodes_.pop(mark)
            outer.nodes_.insert(at, made_before)
            at += 1
            block.add_parameter(value.type)
            node.inputs_.append(first)
            made = Value(value.type, node)
            node.outputs_.append(made)
            self.env[name] = made

    def _carried(self, loop: ast.AST) -> list[str]:
        """The names from before that the loop assigns."""
        stored = {
            n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return [n for n, v in self.env.items() if n in stored and isinstance(v, Value)]


def _goes_on(end: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a path left by `break` or `continue`: names keep their values, unlike after `return`."""
    return any(end.get(f) not in (None, before.get(f)) for f in ("$broke", "$continued"))


def _only_casts(value: Value, before: Value) -> bool:
    """Whether a value is the one from before, known to be of a narrower type."""
    while value is not before:
        if value.node.kind_ == "prim::Constant" and value.type == T.NONE:
            return T.NONE in T.members(before.type)
        if value.node.kind_ != "prim::unchecked_cast":
            return False
        value = value.node.inputs_[0]
    return True


def _own_loop(nodes: list[ast.stmt]) -> list[ast.AST]:
    """All nodes of a loop's body that are not in loops inside."""
    found: list[ast.AST] = []
    for node in nodes:
        found.append(node)
        if not isinstance(node, (ast.For, ast.While)):
            found.extend(_own_loop([c for c in ast.iter_child_nodes(node)]))  # type: ignore[misc]
    return found


def _exits(nodes: list[ast.stmt]) -> bool:
    return any(
        isinstance(n, (ast.Return, ast.Break, ast.Continue)) for s in nodes for n in ast.walk(s)
    )
