"""Lowering of `with`: objects that are entered before its body and left behind it.

Takes the statement. Gives `prim::Enter` and `prim::Exit` nodes around the body's.
Keeps true: both nodes of a context stand in one block, in the order of brackets; the interpreter leaves the
context where the body raises, too.
"""

from __future__ import annotations

import ast
from typing import Any

from facula.jit.ir import Value
from facula.jit.subscripts import Subscripts
from facula.ops.table.schemas import types as T

__all__ = ["Contexts"]

_CLASS = (
    "class C:  def __enter__(self): ...;  def __exit__(self, type: Any, value: Any, tb: Any): ..."
)


class Contexts(Subscripts):
    """The lowering of `with`."""

    def _With(self, node: ast.With) -> None:
        opened: list[Value] = []
        for item in node.items:
            value = self.expression(item.context_expr)
            entered = self._entered(value)
            opened.append(value)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, entered)
        self.statements(node.body)
        for value in reversed(opened):
            self._left(value)

    def _entered(self, value: Value) -> Value:
        kind = value.type
        if not isinstance(kind, T.ClassType):
            self.refuse("With item expression must return an object: a context manager was required", kind,
                        hint=_CLASS)  # fmt: skip
        assert isinstance(kind, T.ClassType)
        if "__enter__" not in kind.methods or "__exit__" not in kind.methods:
            self.refuse("a context manager was required", f"{kind} does not define __enter__ and __exit__ methods",
                        hint=_CLASS)  # fmt: skip
        enter, leave = kind.methods["__enter__"].compiled(), kind.methods["__exit__"].compiled()
        if len(enter.parameters) != 1:
            self.refuse("__enter__ must have only one argument and one return value",
                        f"{len(enter.parameters)} arguments", hint=_CLASS)  # fmt: skip
        if len(leave.parameters) != 4:
            self.refuse("__exit__ must have four arguments", len(leave.parameters), hint=_CLASS)
        for i, (_, given, _default) in enumerate(leave.parameters[1:], 1):
            if given.kind != "Any":
                self.refuse(f"argument {i} of __exit__ must have Any type", given, hint=_CLASS)
        return self.value("prim::Enter", [value], enter.result_type())

    def _left(self, value: Value) -> None:
        result = value.type.methods["__exit__"].result_type()
        self.value("prim::Exit", [value], result)

    def statements(self, nodes: list[ast.stmt]) -> None:
        raise NotImplementedError

    def bind(self, target: ast.AST, thing: Any) -> None:
        raise NotImplementedError
