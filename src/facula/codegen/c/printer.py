"""Expression graphs to C statements.

Takes: output expressions of `ops.scalar`, and the C text of each leaf.
Gives: `Printer`: statements that do not change inside a loop (`invariant`), the statements of the
loop body (`body`), and
the text of any printed node.
Keeps true: each shared node is computed once; what depends on runtime attributes only is computed before the loop; the
text depends on the expression alone, so equal kernels give equal text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from facula.codegen.c.math import GUARDED
from facula.ops.scalar_node import Scalar, topological_order
from facula.ops.scalar_primitives import PRIMITIVES

C_TYPES = {"f32": "float", "f64": "double", "i64": "int64_t", "i32": "int32_t", "b8": "_Bool"}
_UNSIGNED = {
    "i64": "uint64_t",
    "i32": "uint32_t",
    "f32": "uint32_t",
    "f64": "uint64_t",
    "b8": "uint8_t",
}
_LEAVES = frozenset({"input", "result", "grad", "tangent", "real", "imag"})


def literal(value: Any, dtype: str) -> str:
    """A C literal with exactly this value."""
    if dtype == "b8":
        return "1" if value else "0"
    if dtype in ("i32", "i64"):
        suffix = "LL" if dtype == "i64" else ""
        if value == -(1 << (31 if dtype == "i32" else 63)):
            return f"(-{-(value + 1)}{suffix} - 1)"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"
    suffix = "f" if dtype == "f32" else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"__builtin_inf{suffix}()" if value > 0 else f"(-__builtin_inf{suffix}())"
    text = (
        f"{value!r}{suffix}" if dtype == "f64" and abs(value) < 1e16 and value == int(value) else ""
    )
    text = text or f"{float(value).hex()}{suffix}"
    return text if math.copysign(1, value) > 0 else f"({text})"


class Printer:
    """Prints graphs; one instance holds the names of one loop.

    Args:
        leaf: the C text of a tensor leaf (`input`, `grad`, .., and `real`, `imag` of those).
        parameter: the C text of a runtime attribute.
        fast: use the fast forms of guarded functions (the caller has checked `guards`).
    """

    def __init__(
        self, leaf: Callable[[Scalar], str], parameter: Callable[[Scalar], str], fast: bool = False
    ) -> None:
        self.invariant: list[str] = []
        self.body: list[str] = []
        self._leaf, self._parameter, self._fast = leaf, parameter, fast
        self._names: dict[int, str] = {}
        self._constant: set[int] = set()

    def fork(self, fast: bool) -> Printer:
        """A printer of another loop behind the same invariant statements."""
        other = Printer(self._leaf, self._parameter, fast)
        other.invariant, other._constant = self.invariant, self._constant
        other._names = {key: name for key, name in self._names.items() if key in self._constant}
        return other

    def add(self, outputs: Iterable[Any]) -> None:
        """Print the statements that these outputs need beyond what is printed already."""
        for current in topological_order(outputs):
            if id(current) not in self._names and not (
                current.op in _LEAVES and current.dtype not in C_TYPES
            ):
                self._print(current)

    def text(self, printed: Scalar) -> str:
        """The C text of a printed node."""
        return self._names[id(printed)]

    def _leaf_text(self, leaf: Scalar) -> str:
        return self._leaf(leaf)

    def _parameter_text(self, parameter: Scalar) -> str:
        return self._parameter(parameter)

    def _print(self, current: Scalar) -> None:
        if current.op == "constant":
            self._names[id(current)] = literal(current.value, current.dtype)
            self._constant.add(id(current))
            return
        if current.op == "parameter":
            self._declare(current, self._parameter_text(current), self.invariant)
            self._constant.add(id(current))
            return
        if current.op in _LEAVES:
            self._declare(current, self._leaf_text(current), self.body)
            return
        unchanging = all(id(arg) in self._constant for arg in current.args)
        if unchanging:
            self._constant.add(id(current))
        text = self.expression(current, self._fast and not unchanging)
        self._declare(current, text, self.invariant if unchanging else self.body)

    def _declare(self, current: Scalar, text: str, statements: list[str]) -> None:
        name = f"{'k' if statements is self.invariant else 'v'}{len(statements)}"
        statements.append(f"const {C_TYPES[current.dtype]} {name} = {text};")
        self._names[id(current)] = name

    def expression(self, current: Scalar, fast: bool = False) -> str:
        """The C expression of a node over the names of its arguments."""
        args = [self._names[id(arg)] for arg in current.args]
        if current.op == "where":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if current.op == "cast":
            return _cast(current, args[0])
        operand = current.args[0].dtype
        form = PRIMITIVES[current.op].c_form(operand)
        if "{" not in form:
            guarded = "fast_" if fast and form in GUARDED and operand in ("f32", "f64") else ""
            return f"fm_{form}_{guarded}{operand}({', '.join(args)})"
        suffix = "f" if operand == "f32" else ""
        return form.format(*args, t=C_TYPES[operand], u=_UNSIGNED[operand], f=suffix)


def _cast(current: Scalar, text: str) -> str:
    if current.dtype == "b8":
        return f"{text} != 0"
    return f"({C_TYPES[current.dtype]}){text}"


def guarded_nodes(outputs: Iterable[Any]) -> list[Scalar]:
    """The nodes whose function has a fast form that must be checked first."""
    return [
        current
        for current in topological_order(outputs)
        if current.op in GUARDED and current.args[0].dtype in ("f32", "f64")
    ]


def function_names(text: str) -> set[str]:
    """Stems with dtype of the library functions that a text calls."""
    return set(re.findall(r"\bfm_(\w+)", text))
