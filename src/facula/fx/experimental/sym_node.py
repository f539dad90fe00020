"""`facula.fx.experimental.sym_node`: what a symbolic number is made of, under PyTorch's name.

Takes an expression of an environment's symbols and the value for the example sizes.  Gives `SymNode`, of which
`SymInt`, `SymFloat` and `SymBool` are made.
Keeps true: a node is not changed; the numbers made of it read its expression and its environment.
"""

from __future__ import annotations

from typing import Any

from facula.core.errors import fail
from facula.fx.symbols import Expr, number

__all__ = ["SymNode"]


class SymNode:
    """An expression with the kind and the example value of the number that it stands for.

    Args:
        expr: the expression, as `ShapeEnv.create_symbol` gives it, or a whole number.
        shape_env: the environment that knows the symbols.
        pytype: `int`, `float` or `bool`.
        hint: the value for the example sizes; None asks the environment for it.
        constant: the value of a number that is the same for all sizes.
        fx_node: the node of a graph that computes it, which is kept for the caller.

    Raises:
        RuntimeError: there is neither a hint nor an example of the symbols.

    Example:
        >>> from facula.fx.experimental.sym_node import SymNode
        >>> from facula.fx.experimental.symbolic_shapes import ShapeEnv
        >>> env = ShapeEnv()
        >>> rows = facula.SymInt(SymNode(env.create_symbol(5), env, int, hint=5))
        >>> rows * 2
        2*s0
    """

    def __init__(
        self,
        expr: Any,
        shape_env: Any,
        pytype: type,
        hint: Any = None,
        constant: Any = None,
        fx_node: Any = None,
    ) -> None:
        self.expr: Expr = expr if isinstance(expr, Expr) else number(int(expr))
        self.shape_env = shape_env
        self.pytype = pytype
        self.constant = constant
        self.fx_node = fx_node
        self._hint = constant if hint is None else hint

    @property
    def hint(self) -> Any:
        """The value for the example sizes, or None where there are none."""
        if self._hint is None and not self.expr.unbacked:
            return self.pytype(self.expr.value(self.shape_env.example))
        return self._hint

    def has_hint(self) -> bool:
        """Whether there is a value for the example sizes."""
        return self.hint is not None

    def require_hint(self) -> Any:
        """The value for the example sizes."""
        found = self.hint
        if found is None:
            required = "a number with an example was required"
            hint = "numbers that are read from elements have none: torch._check says what they are"
            fail(RuntimeError, "SymNode", required, got=str(self.expr), hint=hint)
        return found

    def is_int(self) -> bool:
        """Whether it stands for a whole number."""
        return self.pytype is int

    def is_float(self) -> bool:
        """Whether it stands for a float."""
        return self.pytype is float

    def is_bool(self) -> bool:
        """Whether it stands for a truth."""
        return self.pytype is bool

    def maybe_as_int(self) -> int | None:
        """The whole number that it is for all sizes; None where it depends on them."""
        return self.expr.constant

    def __index__(self) -> int:
        return int(self.require_hint())

    def __float__(self) -> float:
        return float(self.require_hint())

    def __bool__(self) -> bool:
        return bool(self.require_hint())

    def __str__(self) -> str:
        return str(self.expr)

    __repr__ = __str__
