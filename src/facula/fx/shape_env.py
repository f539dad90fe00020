"""Which sizes are symbols, and what was assumed about them.

Takes example sizes, and comparisons of numbers that depend on them.  Gives symbols, guards, and nodes
of a graph for expressions.
Keeps true: sizes 0 and 1 are never symbols; equal example sizes get one symbol; what did not follow
from the expressions alone is a guard.
"""

from __future__ import annotations

import hashlib
import math
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail, is_own, message
from facula.fx.node import map_aggregate
from facula.fx.symbols import (
    ANY_INT,
    OPPOSITE,
    Atom,
    Expr,
    Point,
    SymBool,
    SymInt,
    condition_text,
    expr_of,
    negated,
    number,
    plain,
    sym_max,
    sym_min,
    symbol,
)
from facula.fx.traceback import user_stack
from facula.fx.unbacked import (
    HOLDS,
    GuardOnDataDependentSymNode,
    Unbacked,
    UnbackedFloat,
    asserted,
    tightest,
    undecided,
)

if TYPE_CHECKING:
    from facula.fx.node import Node


_BEYOND = 2**62
#: where truths are asked for on behalf of other code
_ASKING = ("fx.symbols", "fx.shape_env", "fx.unbacked")


@dataclass
class Defaults:
    """What new environments do unless they are told otherwise."""

    #: equal example sizes get one symbol
    use_duck_shape: bool = True


DEFAULTS = Defaults()


@dataclass(frozen=True)
class ShapeGuard:
    """Something that was true of the example sizes and that a trace relies on."""

    left: Expr
    relation: str
    right: Expr
    stack: str = ""

    @property
    def expr(self) -> str:
        """The guard as text."""
        return f"{self.left} {self.relation} {self.right}"

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is true of other sizes."""
        return HOLDS[self.relation](self.left.value(sizes), self.right.value(sizes))

    def __str__(self) -> str:
        return self.expr


class ShapeEnv:
    """The symbols and guards of one trace."""

    def __init__(
        self,
        *,
        duck_shape: bool | None = None,
        specialize_zero_one: bool = True,
        allow_scalar_outputs: bool = True,
        allow_dynamic_output_shape_ops: bool = True,
        **kwargs: object,
    ) -> None:
        """Make an environment.

        Args:
            duck_shape: equal example sizes get one symbol; None: as `DEFAULTS` says.
            specialize_zero_one: kept for PyTorch's API; sizes 0 and 1 are never symbols.
            allow_scalar_outputs: numbers that are read from elements are symbols without an example.
            allow_dynamic_output_shape_ops: so are sizes that depend on elements.
        """
        self.duck_shape = DEFAULTS.use_duck_shape if duck_shape is None else duck_shape
        self.guards: list[ShapeGuard] = []
        self._noted: set[tuple[Any, ...]] = set()
        #: symbol -> its example size
        self.hints: dict[str, int] = {}
        #: symbol -> where it is read: (name of the input, dimension)
        self.sources: dict[str, list[tuple[Any, int]]] = {}
        #: symbols that were fixed to a number, or are equal to another
        self.replacements: dict[str, Expr] = {}
        self._by_size: dict[int, str] = {}
        self.frozen = False
        #: operation and operands -> expression
        self.computed: dict[tuple[Any, ...], Expr] = {}
        self._asked: set[tuple[Any, ...]] = set()
        #: whether a quotient that is no whole number fixes the sizes, as nothing could note how it is used
        self.fixes_quotients = False
        #: other sizes at which operators are tried (`symbolic_run`)
        self.points: dict[Any, Point] = {}
        self._example = Point({})
        #: numbers that are read from elements
        self.unbacked = Unbacked(self.hints)
        #: what was read of an example (`real_examples`), by the name of the number
        self.examples: dict[Any, Any] = {}
        self.allow_scalar_outputs = allow_scalar_outputs
        self.allow_dynamic_output_shape_ops = allow_dynamic_output_shape_ops
        #: whether a comparison is a guard when its truth is asked for, so that `cond` may keep it as its predicate
        self.keeps_conditions = False

    @property
    def var_to_val(self) -> dict[str, int]:
        """Symbol -> its example size, under PyTorch's name."""
        return self.hints

    @property
    def example(self) -> Point:
        """The example sizes of all symbols."""
        if len(self._example) != len(self.hints):
            self._example = Point(self.hints)
        return self._example

    # ---------------------------------------------------------------- numbers without an example
    def create_unbacked_symint(self, low: float = -math.inf, high: float = math.inf) -> Any:
        """A whole number that is known only where the program runs."""
        return self.number_of(self.unbacked.new(low, high))

    def create_unbacked_symbool(self) -> SymBool:
        """A truth that is known only where the program runs."""
        return SymBool(True, (self.unbacked.new(0, 1), "==", number(1)), self)

    def create_unbacked_symfloat(self) -> UnbackedFloat:
        """A float that is known only where the program runs."""
        return UnbackedFloat(self)

    def compared(self, left: Expr, relation: str, right: Expr, outcome: bool) -> Any:
        """A comparison with numbers that have no example: its truth, where it is known."""
        left, right = self.simplified(left), self.simplified(right)
        condition = (left, relation, right)
        if not (left - right).unbacked:
            if self.keeps_conditions and self._is_open(condition, outcome):
                return SymBool(outcome, condition, self)
            self.note(left, relation, right, outcome)
            return outcome
        known = self.unbacked.truth(condition)
        return SymBool(outcome, condition, self) if known is None else known

    def _is_open(self, condition: tuple[Any, ...], outcome: bool) -> bool:
        """Whether no guard says how a comparison of numbers with examples comes out."""
        left, relation, right = condition
        if (left, relation, right, outcome) in self._asked:
            return False
        return not self._follows(left - right, relation if outcome else OPPOSITE[relation])

    def backed(self, condition: Any) -> bool:
        """Whether all numbers of a condition have examples."""
        if condition[0] in ("and", "or", "not"):
            return all(map(self.backed, condition[1:]))
        return condition[0] != "test" and not (condition[0] - condition[2]).unbacked

    def _guarded(self, condition: tuple[Any, ...]) -> bool:
        """The truth of a condition for the examples, with guards."""
        word = condition[0]
        if word == "not":
            return not self._guarded(condition[1])
        if word in ("and", "or"):
            return (all if word == "and" else any)(map(self._guarded, condition[1:]))
        left, relation, right = condition
        outcome = HOLDS[relation](left.value(self.example), right.value(self.example))
        self.note(left, relation, right, outcome)
        return outcome

    def decided(self, condition: Any) -> bool:
        """The truth of a condition on numbers that have no example; an operator's own check of its
        arguments becomes one of the program.

        Raises:
            GuardOnDataDependentSymNode: what was checked does not decide it.
        """
        condition = self._simple(condition)
        if self.backed(condition):
            return self._guarded(condition)
        if (known := self.unbacked.truth(condition)) is not None:
            return known
        if self.examples and (known := self._by_example(condition)) is not None:
            return known
        if not _asked_by_operator():
            return asserted(self, condition)
        # a check of an operator: it comes out as for the example where the program runs, too
        left, relation, right = condition
        known = HOLDS[relation](left.value(self.example), right.value(self.example))
        self.expect(condition if known else negated(condition))
        return known

    def _by_example(self, condition: Any) -> bool | None:
        """The truth of a condition for numbers that were read of an example, checked from now on; None for others."""
        if condition[0] == "test":
            args = [getattr(x, "example", x) for x in condition[2:]]
            if any(isinstance(x, UnbackedFloat) for x in args):
                return None
            known = bool(condition[1](*args))
        elif condition[0] in ("and", "or", "not"):
            return None
        else:
            left, relation, right = condition
            if not (left - right).unbacked <= self.examples.keys():
                return None
            values = {**self.hints, **self.examples}
            known = HOLDS[relation](left.value(values), right.value(values))
        self.expect(condition if known else negated(condition))
        return known

    def known(self, condition: Any) -> bool | None:
        """The truth of a condition on numbers that have no example; None where it is not known."""
        return self.unbacked.truth(self._simple(condition))

    def current(self, x: SymInt) -> SymInt:
        """A number with the value that stands for it now, where checks have changed that."""
        if not x.expr.unbacked:
            return x
        value = x.expr.value(self.example)
        return x if value == plain(x) else SymInt(value, x.expr, self)

    def whole(self, expr: Expr) -> int:
        """The number itself, of one without an example: where what was checked leaves one value."""
        found = self.simplified(expr).constant
        if found is None:
            raise GuardOnDataDependentSymNode(str(expr), message("ShapeEnv", "a number that follows from "
                "what was checked was required: Could not extract specialized integer from data-dependent "
                f"expression {expr} (unhinted: {expr})", hint="compute with the number as it is, or with "
                "the tensor that it was read from"))  # fmt: skip
        return found

    def _simple(self, condition: tuple[Any, ...]) -> Any:
        if condition[0] in ("and", "or", "not"):
            return (condition[0], *map(self._simple, condition[1:]))
        if condition[0] == "test":
            return condition
        return self.simplified(condition[0]), condition[1], self.simplified(condition[2])

    def expect(self, condition: Any, said: object = None) -> bool:
        """From now on a condition is true (and so is the result); it is checked where the program runs."""
        before = dict(self.hints)
        condition = self._simple(condition)
        self.unbacked.expect(condition, said)
        if condition[1] == "==" and isinstance(condition[0], Expr):
            self._unify(condition[0], condition[2])
        for name, (low, high) in self.unbacked.ranges.items():
            if low == high and name not in self.replacements:
                self._unify(symbol(name), number(int(low)))
        if before != self.hints or self._example.memo:
            self._example = Point(self.hints)
            self.points.clear()
            self.unbacked.renewed()
        return True

    # ---------------------------------------------------------------- symbols

    def create_symbol(
        self,
        size: int,
        source: object = None,
        dim: int = 0,
        called: str | None = None,
        *,
        dynamic_dim: Any = None,
        constraint_dim: None = None,
    ) -> Expr:
        """The symbol for an example size, or the number itself for 0 and 1.

        called: how programs write the size; the symbol is named after it, as PyTorch's are.
        dynamic_dim: a `DimDynamic`: DYNAMIC makes a symbol of its own, STATIC none; None as the environment says.
        constraint_dim: none, as PyTorch's may be: what a size may be follows from the program.
        """
        wanted = getattr(dynamic_dim, "name", "")
        if size in (0, 1) or wanted == "STATIC":
            return number(int(size))
        shared = self.duck_shape and wanted != "DYNAMIC"
        name = self._by_size.get(size) if shared else None
        if name is None or name in self.replacements:
            name = f"s{len(self.hints)}" if called is None else self._name_after(called)
            self.hints[name] = size
            self._by_size[size] = name
        self.sources.setdefault(name, []).append((source, dim))
        return symbol(name)

    def _name_after(self, called: str) -> str:
        """A name that is the same whatever other symbols there are, as far as it is free."""
        number = int(hashlib.sha256(called.encode()).hexdigest(), 16) % 100
        while f"s{number}" in self.hints:
            number += 1
        return f"s{number}"

    def create_number(self, value: int, source: object = None) -> Expr:
        """The symbol for an int that is an input, which may be 0, 1 or negative."""
        name = f"{ANY_INT}{len(self.hints)}"
        self.hints[name] = value
        self.sources.setdefault(name, []).append((source, -1))
        return symbol(name)

    def create_symint(self, size: int, source: object = None) -> Any:
        """A number that is an input of a trace."""
        return self.number_of(self.create_symbol(size, source, -1))

    def simplified(self, expr: Expr) -> Expr:
        """The expression with what is known of its symbols."""
        return expr.replaced(self.replacements) if self.replacements else expr

    def number_of(self, expr: Expr) -> Any:
        """The number of an expression: a plain int where it is constant."""
        expr = self.simplified(expr)
        if expr.constant is not None:
            return expr.constant
        return SymInt(expr.value(self.example), expr, self)

    def specialize(self, name: str) -> None:
        """Fix a symbol to its example size, with a guard."""
        if name in self.unbacked.ranges:
            undecided(f"{name} == {self.hints[name]}")
        if name not in self.replacements:
            self._add(symbol(name), "==", number(self.hints[name]))
            self.replacements[name] = number(self.hints[name])

    # ---------------------------------------------------------------- guards

    def note(self, left: Expr, relation: str, right: Expr, outcome: bool) -> None:
        """Note the outcome of a comparison, unless it always comes out like this."""
        if left.unbacked or right.unbacked:
            self._decide(left, relation, right)
            return
        asked = (left, relation, right, outcome)
        if asked in self._asked:
            return
        self._asked.add(asked)
        if not outcome:
            relation = OPPOSITE[relation]
        left, right = self.simplified(left), self.simplified(right)
        if self._follows(left - right, relation):
            return
        self._add(left, relation, right)
        if relation == "==":
            self._unify(left, right)

    def _decide(self, left: Expr, relation: str, right: Expr) -> None:
        left, right = self.simplified(left), self.simplified(right)
        if (left - right).unbacked and not self.unbacked.truth((left, relation, right)):
            undecided((left, relation, right))

    def _follows(self, difference: Expr, relation: str) -> bool:
        """Whether `difference relation 0` holds for all sizes."""
        if difference.constant is not None:
            return HOLDS[relation](difference.constant, 0)
        if relation in ("<", "<=", "!=") and difference.terms.get((), 0) <= -_BEYOND:
            return True  # numbers of elements fit 64 bits
        if relation in (">", ">=", "!=") and difference.terms.get((), 0) >= _BEYOND:
            return True
        low, high = difference.least(), (-difference).least()
        if relation in (">", ">=", "!=") and low is not None and low >= (relation != ">="):
            return True
        return relation in ("<", "<=", "!=") and high is not None and high >= (relation != "<=")

    def _unify(self, left: Expr, right: Expr) -> None:
        for one, other in ((left, right), (right, left)):
            later = self._shifted(one, other)
            if later is not None:
                left, right = later, one - (other - later)
                break
        pairs = [(left, right), (right, left)]
        if right.symbol is not None and right.unbacked and not (left.symbol and left.unbacked):
            pairs.reverse()  # what is read from elements is known by what has an example
        elif self._came_first(left, right):
            pairs.reverse()  # the later symbol is known by the earlier one
        for a, b in pairs:
            if a.symbol is not None and a.symbol not in b.free_symbols:
                self.replacements = {
                    k: v.replaced({a.symbol: b}) for k, v in self.replacements.items()
                }
                self.replacements[a.symbol] = b
                if a.unbacked:
                    self.unbacked.replace(a.symbol, b)
                return

    def _shifted(self, left: Expr, right: Expr) -> Expr | None:
        """The symbol of which `right` is a sum with a number, where `left` is an earlier symbol."""
        names = right.free_symbols
        if left.symbol is None or right.symbol is not None or len(names) != 1:
            return None
        found = symbol(next(iter(names)))
        shifted = (right - found).constant is not None
        return found if shifted and self._came_first(left, found) else None

    def _came_first(self, left: Expr, right: Expr) -> bool:
        """Whether both are symbols of sizes, or of numbers without examples, and the left one is the earlier."""
        if (
            bool(left.unbacked) != bool(right.unbacked)
            or {left.symbol, right.symbol} - self.hints.keys()
        ):
            return False
        order = list(self.hints)
        return order.index(str(left.symbol)) < order.index(str(right.symbol))

    def _add(self, left: Expr, relation: str, right: Expr) -> None:
        key = (left, relation, right)
        if key not in self._noted:
            self._noted.add(key)
            self.guards.append(ShapeGuard(left, relation, right, user_stack()))

    def mark(self) -> Any:
        """What was noted so far, to go `back` to."""
        return len(self.guards), dict(self.replacements)

    def back(self, mark: Any) -> None:
        """Forget what was noted since: what it was noted for is not part of the trace after all."""
        count, self.replacements = mark
        if count != len(self.guards):
            for g in self.guards[count:]:
                self._noted.discard((g.left, g.relation, g.right))
            del self.guards[count:]
            self._asked.clear()

    def format_guards(self, verbose: bool = False) -> str:
        """The guards as lines of text."""
        return "\n".join(f" - {g}" + (f"\n{g.stack}" if verbose else "") for g in self.guards)

    def evaluate_guards(self, sizes: Mapping[str, int]) -> bool:
        """Whether all guards hold for other values of the symbols."""
        return all(g.holds(sizes) for g in self.guards)

    def evaluate_guards_for_args(
        self, placeholders: Any, args: tuple[Any, ...], *, ignore_static: bool = True
    ) -> bool:
        """Whether other inputs fit a trace: one value for each symbol, no size below 2, all guards.

        Args:
            placeholders: the fake tensors that were traced with.
            args: tensors in their place.
        """
        sizes: dict[str, int] = {}
        for fake, real in zip(placeholders, args, strict=True):
            if not isinstance(real, core.Tensor):
                continue
            if real.dim() != fake.dim():
                return False
            for expected, got in zip(fake.shape, real.shape, strict=True):
                name = expr_of(expected).symbol
                if name is None:
                    if not isinstance(expected, SymInt) and expected != got:
                        return False
                elif got < 2 or sizes.setdefault(name, got) != got:
                    return False
        for name, known in self.replacements.items():
            if name in self.hints and not (known.free_symbols - sizes.keys()):
                sizes.setdefault(name, known.value(sizes))
        return self.evaluate_guards({**self.hints, **sizes})

    def freeze(self) -> None:
        """Say that nothing is to be added any more."""
        self.frozen = True


# ------------------------------------------------------------------ expressions as nodes


def node_of_number(tracer: object, value: SymInt) -> Any:
    """What stands in a trace's graph for a number that depends on sizes."""
    if not isinstance(value, SymInt):
        return _node_of_other(tracer, value)
    expr = value.env.simplified(value.expr)
    return _node_of(tracer, expr, value.env)


class _Inputs:
    """What knows where the symbols of a finished graph are read: as a tracer does of its own."""

    def __init__(self, graph: Any, symbols_alone: bool = False, nodes: Any = None) -> None:
        self.graph = graph
        self.number_nodes: dict[Any, Any] = {}
        self.symbol_sources: dict[str, tuple[Any, int]] = {}
        self.derived_sources: dict[str, tuple[Any, int, Expr]] = {}
        #: whether powers are nodes of their own
        self.powers = nodes is not None
        for node in graph.nodes if nodes is None else nodes:
            value = node.meta.get("val")
            leaf = leaf_of(value)
            alone = not isinstance(leaf, Expr) or leaf.symbol is not None
            if leaf is not None and (alone or not symbols_alone):
                self.number_nodes.setdefault(leaf, node)
            for dim, size in enumerate(sizes_of(value) if isinstance(value, core.Tensor) else ()):
                if node.op == "placeholder" or size.unbacked:
                    note_source(self, size, node, dim)

    def place_of(self, name: str) -> Any:
        """The node behind which a symbol can be read."""
        known = self.number_nodes.get(symbol(name))
        if known is None:
            source = self.symbol_sources.get(name) or self.derived_sources.get(name)
            known = None if source is None else source[0]
        return known

    def create_arg(self, value: Any) -> Any:
        """What stands in the graph for a number."""
        return node_of_number(self, value) if getattr(value, "_is_symbolic", False) else value


def note_source(tracer: Any, size: Expr, node: Node, dim: int) -> None:
    """Note that a symbol can be read, or computed, from a size of a node's result."""
    if size.symbol is not None:
        tracer.symbol_sources.setdefault(size.symbol, (node, dim))
    elif len(size.free_symbols) == 1 and _linear(size) is not None:
        (name,) = size.free_symbols
        tracer.derived_sources.setdefault(name, (node, dim, size))


def _linear(size: Expr) -> tuple[int, int] | None:
    """The factor and the offset of `factor * symbol + offset`; None for others."""
    (name,) = size.free_symbols
    offset = size.terms.get((), 0)
    factor = size.value({name: 1}) - offset
    return (factor, offset) if size == symbol(name) * number(factor) + number(offset) else None


def nodes_of_numbers(graph: object, values: Any) -> list[Any]:
    """Nodes of a finished graph, made at its insertion point, for numbers that depend on its inputs."""
    inputs = _Inputs(graph)
    return [inputs.create_arg(value) for value in values]


def _asked_by_operator() -> bool:
    """Whether the innermost Python code that asks for a truth is an operator's definition."""
    frame: Any = sys._getframe(2)
    while frame is not None and _own_module(frame) in _ASKING:
        frame = frame.f_back
    return frame is not None and _own_module(frame).startswith("ops.")


def _own_module(frame: Any) -> str:
    """The name of the frame's module behind the package's name, under either name; "" for others."""
    name = str(frame.f_globals.get("__name__"))
    return name.partition(".")[2] if is_own(name) else ""


def leaf_of(value: object) -> Any:
    """What a number that stands for itself is known by among a tracer's numbers; None for others."""
    if isinstance(value, UnbackedFloat):
        return value if value.function is None else None
    if isinstance(value, SymBool):
        # a truth that was read: a number that is 0 or 1; `u0 != 0` is computed from a number
        left, *rest = value.condition or (None,)
        read = isinstance(left, Expr) and left.symbol and left.unbacked
        return left if read and rest == ["==", number(1)] else None
    return value.expr if isinstance(value, SymInt) else None


def write_checks(graph: Any, env: ShapeEnv, function: Callable[..., Any]) -> None:
    """Enter into a finished graph what the program says of numbers without an example.

    Args:
        function: takes a condition and the text of the error.
    """
    behind: dict[Any, Any] = {}
    for check in tightest(env.unbacked.checks):
        inputs = _Inputs(graph, symbols_alone=True)  # others may be computed later
        order = {node: i for i, node in enumerate(graph.nodes)}
        places = [inputs.place_of(name) for name in symbols_of(check.condition)]
        places += [inputs.number_nodes.get(x) for x in _floats_of(check.condition)]
        if not places or None in places:
            continue  # nothing that the graph gives depends on it
        place = max(places, key=order.__getitem__)
        with graph.inserting_after(behind.get(place, place)):
            condition = _node_of_condition(
                inputs, SymBool(True, check.condition, env), check.condition
            )
        with graph.inserting_after(condition):
            text = condition_text(check.condition)
            said = f"Runtime assertion failed for expression {text} on node '{condition}'"
            if isinstance(check.message, str):
                said = check.message
            behind[place] = made = graph.call_function(function, (condition, said))
            made.meta["val"] = None
            made.meta["stack_trace"] = condition.meta["stack_trace"] = check.stack
    env.unbacked.checks.clear()


def write_guards(
    graph: Any,
    env: ShapeEnv,
    guards: list[ShapeGuard],
    function: Callable[..., Any],
    text: Callable[[ShapeGuard], str],
) -> None:
    """Enter guards into a finished graph as checks behind its inputs: calls of `function(condition, error)`."""
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    if not guards or not placeholders:
        return
    inputs = _Inputs(graph, nodes=placeholders)
    with graph.inserting_after(placeholders[-1]):
        for guard in guards:
            parts = (guard.left, guard.relation, guard.right)
            condition = _node_of_condition(inputs, SymBool(True, parts, env), parts)
            said = f"Runtime assertion failed for expression {text(guard)} on node '{condition}'"
            made = graph.call_function(function, (condition, said))
            made.meta["val"] = None
            made.meta["stack_trace"] = condition.meta["stack_trace"] = guard.stack


def _floats_of(condition: Any) -> list[Any]:
    """The floats that were read, in a condition or an operation on such ones."""
    if isinstance(condition, UnbackedFloat):
        if condition.function is None:
            return [condition]
        condition = condition.args
    return [x for c in condition for x in _floats_of(c)] if isinstance(condition, tuple) else []


def symbols_of(condition: Expr | None) -> set[str]:
    """The names of the symbols in a condition."""
    if isinstance(condition, Expr):
        return condition.free_symbols
    if isinstance(condition, SymInt):
        return condition.expr.free_symbols
    parts = condition if isinstance(condition, tuple) else ()
    return set().union(*[symbols_of(part) for part in parts]) if parts else set()


def sizes_of(t: Any) -> tuple[Expr, ...]:
    """The sizes of any tensor as expressions."""
    geometry = getattr(t, "_symbolic", None)
    return tuple(map(expr_of, t.shape)) if geometry is None else geometry[0]


def _node_of_condition(tracer: _Inputs, value: SymBool, condition: tuple[Any, ...]) -> Any:
    """The node of a condition, or of a part of one."""
    kind = condition[0]
    if kind == "not":
        return _called(tracer, operator.not_, _node_of_condition(tracer, value, condition[1]))
    if kind in ("and", "or"):
        function = operator.and_ if kind == "and" else operator.or_
        parts = [_node_of_condition(tracer, value, part) for part in condition[1:]]
        return _called(tracer, function, *parts)
    if kind == "test":
        return _called(tracer, condition[1], *map(tracer.create_arg, condition[2:]))
    left, relation, right = condition
    first, second = map(value.env.simplified, (left, right))
    ends = [] if first == second else [_node_of(tracer, e, value.env) for e in (first, second)]
    # what was checked made it a constant, or both ends the same: it is checked of what is read
    if not any(hasattr(end, "meta") for end in ends):
        ends = [_node_of(tracer, e, value.env) for e in (left, right)]
    made = _called(tracer, HOLDS[relation], *ends)
    if hasattr(made, "meta"):
        made.meta["val"] = SymBool(True, condition, value.env)
    return made


def _called(tracer: _Inputs, function: Callable[..., Any], *args: object) -> Any:
    if not any(hasattr(x, "meta") for x in args):
        return function(*args)
    return tracer.graph.call_function(function, args)


def numbers_as_nodes(graph: object, args: tuple[Any, ...]) -> Any:
    """Arguments of a node of a finished graph, with nodes for numbers that depend on its inputs."""
    inputs: list[_Inputs] = []

    def node_for(value: Any) -> Any:
        if not getattr(value, "_is_symbolic", False):
            return value
        if not inputs:
            inputs.append(_Inputs(graph))
        return node_of_number(inputs[0], value)

    return map_aggregate(args, node_for)


def _node_of_other(tracer: Any, value: Any) -> Any:
    if isinstance(value, SymBool) and value.condition is not None:
        return _node_of_condition(tracer, value, value.condition)
    if hasattr(value, "function"):
        if (known := tracer.number_nodes.get(value)) is None and value.function is not None:
            args = map(tracer.create_arg, value.args)
            known = tracer.number_nodes[value] = _called(tracer, value.function, *args)
            known.meta["val"] = value
        return known
    top, bottom = getattr(value, "top", None), getattr(value, "bottom", None)
    if top is None or bottom is None:
        return float(value) if isinstance(value, float) else plain(value)
    left, right = tracer.create_arg(top), tracer.create_arg(bottom)
    made = tracer.graph.call_function(operator.truediv, (left, right))
    made.meta["val"] = value
    return made


def _node_of(tracer: Any, expr: Expr, env: ShapeEnv) -> Any:
    if expr.constant is not None:
        return expr.constant
    if (known := tracer.number_nodes.get(expr)) is not None:
        return known
    total: Any = None
    powers = getattr(tracer, "powers", False)
    for monomial, factor in sorted(expr.terms.items(), key=lambda term: powers and term[1] < 0):
        function = operator.add
        if powers and total is not None and factor < 0:
            function, factor = operator.sub, -factor
        product = None if factor == 1 and monomial else factor
        for atom, power in monomial:
            base = _node_of_atom(tracer, atom, env)
            if power > 1 and powers:
                base, power = _power_of(tracer, base, power), 1
            for _ in range(power):
                product = base if product is None else _call(tracer, operator.mul, product, base)
        total = product if total is None else _call(tracer, function, total, product)
    if hasattr(total, "meta"):
        total.meta.setdefault("val", env.number_of(expr))
    tracer.number_nodes[expr] = total
    return total


def _power_of(tracer: Any, base: Any, power: int) -> Any:
    key = (operator.pow, base, power)
    if key not in tracer.number_nodes:
        tracer.number_nodes[key] = _call(tracer, operator.pow, base, power)
    return tracer.number_nodes[key]


def _call(tracer: Any, function: Any, a: object, b: object) -> Any:
    made = tracer.graph.call_function(function, (a, b))
    values = [x.meta["val"] if hasattr(x, "meta") else x for x in (a, b)]
    made.meta["val"] = _OF_NUMBERS.get(function, function)(*values)
    return made


sym_max.__module__ = sym_min.__module__ = "facula"  # where users find them
#: what computes with numbers that are not known; graphs call what Python has
_OF_NUMBERS = {max: sym_max, min: sym_min}
_OPERATIONS = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}


def _node_of_atom(tracer: object, atom: Atom, env: ShapeEnv) -> Any:
    if atom.op == "symbol":
        return _node_of_symbol(tracer, atom.args[0], env)
    args = [_node_of(tracer, x, env) for x in atom.args]
    return _call(tracer, _OPERATIONS[atom.op], *args)


def _node_of_symbol(tracer: Any, name: str, env: ShapeEnv) -> Any:
    expr = symbol(name)
    if (known := tracer.number_nodes.get(expr)) is not None:
        return known
    source = tracer.symbol_sources.get(name)
    if source is None and name in tracer.derived_sources:
        made = tracer.number_nodes[expr] = _solved(tracer, name, env)
        return made
    if source is None:
        fail(RuntimeError, "make_fx", f"an input with the size {name} was required: the symbol stands for no "
             "input of this trace", hint="pass a tensor of that size as an input")  # fmt: skip
    node, dim = source
    made = tracer.graph.create_size_node(node, dim)
    made.meta["val"] = env.number_of(expr)
    tracer.number_nodes[expr] = made
    return made


def _solved(tracer: Any, name: str, env: ShapeEnv) -> Any:
    """The node of a symbol that inputs hold only within a linear expression, such as `2*s0 + 1`."""
    node, dim, size = tracer.derived_sources[name]
    factor, offset = _linear(size) or (1, 0)
    if (made := tracer.number_nodes.get(size)) is None:
        made = tracer.number_nodes[size] = tracer.graph.create_size_node(node, dim)
        made.meta["val"] = env.number_of(size)
    if offset:
        made = _call(tracer, operator.sub, made, offset)
    return made if factor == 1 else _call(tracer, operator.floordiv, made, factor)
