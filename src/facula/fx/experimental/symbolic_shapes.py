"""`facula.fx.experimental.symbolic_shapes`: sizes as symbols, under PyTorch's names.

Takes fake tensors and numbers.  Gives `ShapeEnv`, `SymInt` and questions about them.
Keeps true: it holds no state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from facula import core
from facula.fx.shape_env import ShapeEnv, ShapeGuard, node_of_number
from facula.fx.symbolic_run import geometry_of, symbols_in
from facula.fx.symbols import Expr, SymBool, SymFloat, SymInt, number, plain, symbol

__all__ = [
    "ConstraintViolationError", "DimDynamic", "Expr", "ShapeEnv", "ShapeGuard",
    "StatelessSymbolicContext", "SymBool", "SymFloat",
    "SymInt", "free_symbols", "give_symbols", "guard_bool", "guard_float", "guard_int",
    "guard_size_oblivious", "has_symbolic_sizes_strides", "hint_int", "is_concrete_int",
    "is_symbolic", "node_of_number", "statically_known_true", "symbol",
]  # fmt: skip


class ConstraintViolationError(RuntimeError):
    """What was said of a size does not hold in the program."""


class DimDynamic(Enum):
    """What becomes of a dimension."""

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2


@dataclass
class StatelessSymbolicContext:
    """Which dimensions of a tensor become symbols."""

    dynamic_sizes: Sequence[Any]

    def is_dynamic(self, dim: int) -> bool:
        """Whether a dimension becomes a symbol."""
        value = self.dynamic_sizes[dim]
        return value not in (DimDynamic.STATIC, False)


def give_symbols(t: Any, env: ShapeEnv, source: Any = None, context: Any = None) -> None:
    """Make the sizes of a fake tensor symbols."""
    shape = []
    for dim, size in enumerate(core.Tensor.size(t)):
        dynamic = context is None or context.is_dynamic(dim)
        shape.append(env.create_symbol(size, source, dim) if dynamic else number(size))
    if any(e.constant is None for e in shape):
        t._symbolic = geometry_of(t, shape, env)


def hint_int(x: Any, fallback: int | None = None) -> int:
    """The value for the example sizes; nothing is noted."""
    return plain(x)


def guard_int(x: Any) -> int:
    """The value, fixed by a guard."""
    return int(x)


def guard_bool(x: Any) -> bool:
    """The truth, fixed by a guard."""
    return bool(x)


def guard_float(x: Any) -> float:
    """The value, fixed by a guard."""
    return float(x)


def guard_size_oblivious(x: Any) -> bool:
    """The truth, fixed by a guard: sizes that are symbols are at least 2 here."""
    return bool(x)


def statically_known_true(x: Any) -> bool:
    """Whether something is true for all sizes."""
    return bool(x)


def is_symbolic(x: Any) -> bool:
    """Whether a number depends on sizes."""
    return isinstance(x, (SymInt, SymFloat, SymBool))


def is_concrete_int(x: Any) -> bool:
    """Whether a whole number is the same for all sizes."""
    return not isinstance(x, SymInt) or x.expr.constant is not None


def free_symbols(x: Any) -> set[str]:
    """The symbols on which a number, a tensor or a list of them depends."""
    if isinstance(x, SymInt):
        return x.expr.free_symbols
    env = getattr(getattr(x, "fake_mode", None), "shape_env", None)
    return symbols_in(x, env) if env is not None else set()


def has_symbolic_sizes_strides(x: Any) -> bool:
    """Whether a tensor has sizes that are symbols."""
    return getattr(x, "_symbolic", None) is not None
