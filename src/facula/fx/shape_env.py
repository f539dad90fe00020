"""Which sizes are symbols, and what was assumed about them.

Takes example sizes, and comparisons of numbers that depend on them.  Gives symbols, guards, and nodes
of a graph for expressions.
Keeps true: sizes 0 and 1 are never symbols; equal example sizes get one symbol; what did not follow
from the expressions alone is a guard.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.symbols import Atom, Expr, Point, SymInt, expr_of, number, plain, symbol
from facula.fx.traceback import user_stack

_RELATIONS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_BEYOND = 2**62
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


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
        return _RELATIONS[self.relation](self.left.value(sizes), self.right.value(sizes))

    def __str__(self) -> str:
        return self.expr


class ShapeEnv:
    """The symbols and guards of one trace."""

    def __init__(
        self, *, duck_shape: bool = True, specialize_zero_one: bool = True, **kwargs: Any
    ) -> None:
        """Make an environment.

        Args:
            duck_shape: equal example sizes get one symbol.
            specialize_zero_one: kept for PyTorch's API; sizes 0 and 1 are never symbols.
        """
        self.duck_shape = duck_shape
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

    @property
    def example(self) -> Point:
        """The example sizes of all symbols."""
        if len(self._example) != len(self.hints):
            self._example = Point(self.hints)
        return self._example

    # ---------------------------------------------------------------- symbols

    def create_symbol(self, size: int, source: Any = None, dim: int = 0) -> Expr:
        """The symbol for an example size, or the number itself for 0 and 1."""
        if size in (0, 1):
            return number(size)
        name = self._by_size.get(size) if self.duck_shape else None
        if name is None or name in self.replacements:
            name = f"s{len(self.hints)}"
            self.hints[name] = size
            self._by_size[size] = name
        self.sources.setdefault(name, []).append((source, dim))
        return symbol(name)

    def create_symint(self, size: int, source: Any = None) -> Any:
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
        if name not in self.replacements:
            self._add(symbol(name), "==", number(self.hints[name]))
            self.replacements[name] = number(self.hints[name])

    # ---------------------------------------------------------------- guards

    def note(self, left: Expr, relation: str, right: Expr, outcome: bool) -> None:
        """Note the outcome of a comparison, unless it always comes out like this."""
        asked = (left, relation, right, outcome)
        if asked in self._asked:
            return
        self._asked.add(asked)
        if not outcome:
            relation = _OPPOSITE[relation]
        left, right = self.simplified(left), self.simplified(right)
        if self._follows(left - right, relation):
            return
        self._add(left, relation, right)
        if relation == "==":
            self._unify(left, right)

    def _follows(self, difference: Expr, relation: str) -> bool:
        """Whether `difference relation 0` holds for all sizes."""
        if difference.constant is not None:
            return _RELATIONS[relation](difference.constant, 0)
        if relation in ("<", "<=", "!=") and difference.terms.get((), 0) <= -_BEYOND:
            return True  # numbers of elements fit 64 bits
        low, high = difference.least(), (-difference).least()
        if relation in (">", ">=", "!=") and low is not None and low >= (relation != ">="):
            return True
        return relation in ("<", "<=", "!=") and high is not None and high >= (relation != "<=")

    def _unify(self, left: Expr, right: Expr) -> None:
        for a, b in ((left, right), (right, left)):
            if a.symbol is not None and a.symbol not in b.free_symbols:
                self.replacements = {
                    k: v.replaced({a.symbol: b}) for k, v in self.replacements.items()
                }
                self.replacements[a.symbol] = b
                return

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
        self, placeholders: Any, args: Any, *, ignore_static: bool = True
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


def node_of_number(tracer: Any, value: Any) -> Any:
    """What stands in a trace's graph for a number that depends on sizes."""
    if not isinstance(value, SymInt):
        return _node_of_other(tracer, value)
    expr = value.env.simplified(value.expr)
    return _node_of(tracer, expr, value.env)


class _Inputs:
    """What knows where the symbols of a finished graph are read: as a tracer does of its own."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.number_nodes: dict[Expr, Any] = {}
        self.symbol_sources: dict[str, tuple[Any, int]] = {}
        for node in graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if isinstance(value, SymInt):
                self.number_nodes[value.expr] = node
            for dim, size in enumerate(value.shape if isinstance(value, core.Tensor) else ()):
                if isinstance(size, SymInt) and size.expr.symbol is not None:
                    self.symbol_sources.setdefault(size.expr.symbol, (node, dim))

    def create_arg(self, value: Any) -> Any:
        """What stands in the graph for a number."""
        return node_of_number(self, value) if isinstance(value, SymInt) else value


def nodes_of_numbers(graph: Any, values: Any) -> list[Any]:
    """Nodes of a finished graph, made at its insertion point, for numbers that depend on its inputs."""
    inputs = _Inputs(graph)
    return [inputs.create_arg(value) for value in values]


def _node_of_other(tracer: Any, value: Any) -> Any:
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
    known = tracer.number_nodes.get(expr)
    if known is not None:
        return known
    total: Any = None
    for monomial, factor in expr.terms.items():
        product = None if factor == 1 and monomial else factor
        for atom, power in monomial:
            base = _node_of_atom(tracer, atom, env)
            for _ in range(power):
                product = base if product is None else _call(tracer, operator.mul, product, base)
        total = product if total is None else _call(tracer, operator.add, total, product)
    if hasattr(total, "meta"):
        total.meta.setdefault("val", env.number_of(expr))
    tracer.number_nodes[expr] = total
    return total


def _call(tracer: Any, function: Any, a: Any, b: Any) -> Any:
    made = tracer.graph.call_function(function, (a, b))
    values = [x.meta["val"] if hasattr(x, "meta") else x for x in (a, b)]
    made.meta["val"] = function(*values)
    return made


_OPERATIONS = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}


def _node_of_atom(tracer: Any, atom: Atom, env: ShapeEnv) -> Any:
    if atom.op == "symbol":
        return _node_of_symbol(tracer, atom.args[0], env)
    args = [_node_of(tracer, x, env) for x in atom.args]
    return _call(tracer, _OPERATIONS[atom.op], *args)


def _node_of_symbol(tracer: Any, name: str, env: ShapeEnv) -> Any:
    expr = symbol(name)
    known = tracer.number_nodes.get(expr)
    if known is not None:
        return known
    source = tracer.symbol_sources.get(name)
    if source is None:
        fail(RuntimeError, "make_fx", f"an input with the size {name} was required: the symbol stands for no "
             "input of this trace", hint="pass a tensor of that size as an input")  # fmt: skip
    node, dim = source
    made = tracer.graph.create_size_node(node, dim)
    made.meta["val"] = env.number_of(expr)
    tracer.number_nodes[expr] = made
    return made
