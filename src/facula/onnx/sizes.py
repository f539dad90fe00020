"""Whole numbers that depend on sizes, as values of an ONNX graph.

Takes expressions of symbols, and the inputs whose sizes they are. Gives int64 values.
Keeps true: a symbol is read off the first input that has it; each expression is written once.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.symbolic_run import sizes_of
from facula.fx.symbols import Atom, Expr, SymInt
from facula.onnx.errors import OnnxExporterError
from facula.onnx.graph import Graph, Value

_KINDS = {"max": "Max", "min": "Min"}


class Sizes:
    """The symbols of a program and what is made of them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: symbol -> the inputs and dimensions that are made of it, those that are it alone first
        self._places: dict[str, tuple[Value, int, Expr]] = {}
        self._known: dict[Expr, Any] = {}

    def note(self, value: Value, fake: core.Tensor) -> None:
        """An input, whose sizes may be symbols."""
        for dim, expr in enumerate(sizes_of(fake)):
            for name in expr.free_symbols:
                held = self._places.get(name)
                if held is None or (held[2].symbol is None and expr.symbol is not None):
                    self._places[name] = (value, dim, expr)

    def number(self, x: object) -> Any:
        """A number, or the value of one that depends on sizes."""
        return (
            self.of(x.env.simplified(x.expr) if x.env else x.expr) if isinstance(x, SymInt) else x
        )

    def shape_of(self, fake: core.Tensor) -> list[Any]:
        """The sizes of a result, as numbers and values."""
        return [self.of(expr) for expr in sizes_of(fake)]

    def of(self, expr: Expr) -> Any:
        """An expression as a number or a value without dimensions."""
        if expr.constant is not None:
            return expr.constant
        if expr not in self._known:
            self._known[expr] = self._written(expr)
        return self._known[expr]

    def _written(self, expr: Expr) -> Any:
        if expr.symbol is not None:
            return self._symbol(expr.symbol)
        total: Any = None
        for monomial, factor in expr.terms.items():
            product: Any = factor
            for atom, power in monomial:
                for _ in range(power):
                    value = self._atom(atom)
                    product = value if product == 1 else self.arithmetic("Mul", value, product)
            total = product if total is None else self.arithmetic("Add", total, product)
        return total

    def arithmetic(self, kind: str, a: object, b: object) -> Any:
        """A node on whole numbers of which one at least is a value."""
        if not isinstance(a, Value):
            a = self.graph.value(a, core.int64)
        return self.graph.op(kind, a, b, gives=core.int64)

    def floordiv(self, a: object, b: object) -> Any:
        """`a // b`: ONNX divides towards zero, so the remainder is taken off first."""
        rest = self.arithmetic("Mod", a, b)
        return self.arithmetic("Div", self.arithmetic("Sub", a, rest), b)

    def _atom(self, atom: Atom) -> Any:
        if atom.op == "symbol":
            return self.of(Expr({((atom, 1),): 1}))
        a, b = (self.of(x) for x in atom.args)
        if atom.op == "floordiv":
            return self.floordiv(a, b)
        if atom.op == "mod":
            return self.arithmetic("Mod", a, b)
        return self.arithmetic(_KINDS[atom.op], a, b)

    def _symbol(self, name: str) -> Any:
        if name not in self._places:
            fail(
                OnnxExporterError,
                "onnx.export",
                "sizes that follow from the sizes of inputs were required",
                name,
                hint="fix this size, or pass a tensor that has it as an input",
            )
        value, dim, expr = self._places[name]
        prefix, self.graph.prefix = self.graph.prefix, f"size_{name}"
        size = self.graph.size(value, dim)
        if expr.symbol is None:  # the dimension is made of the symbol: offset + factor * symbol
            offset = expr.value({name: 0})
            factor = expr.value({name: 1}) - offset
            size = self.arithmetic("Sub", size, offset)
            size = self.arithmetic("Div", size, factor)
        self.graph.prefix = prefix
        return size
