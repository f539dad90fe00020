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
from facula.core.errors import fail
from facula.fx.shape_env import ShapeEnv, ShapeGuard, node_of_number, symbols_of
from facula.fx.symbolic_run import geometry_of, symbols_in
from facula.fx.symbols import UNBACKED, Expr, SymBool, SymFloat, SymInt, number, plain, symbol
from facula.fx.unbacked import GuardOnDataDependentSymNode

__all__ = [
    "ConstraintViolationError", "DimDynamic", "Expr", "GuardOnDataDependentSymNode", "ShapeEnv",
    "ShapeGuard",
    "StatelessSymbolicContext", "SymBool", "SymFloat",
    "SymInt", "free_symbols", "give_symbols", "guard_bool", "guard_float", "guard_int",
    "free_unbacked_symbols", "guard_or_false", "guard_or_true", "guard_size_oblivious", "has_free_symbols",
    "has_free_unbacked_symbols", "has_static_value", "has_symbolic_sizes_strides", "hint_int",
    "is_concrete_int", "is_symbolic", "node_of_number", "statically_known_false",
    "statically_known_true", "sym_and", "sym_eq", "sym_or", "symbol",
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
    """Which dimensions of a tensor become symbols.

    dynamic_sizes: a `DimDynamic`, or a bool, for each
    constraint_sizes: None, or None for each: what a size may be follows from the program alone
    """

    dynamic_sizes: Sequence[Any]
    constraint_sizes: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if any(c is not None for c in self.constraint_sizes or ()):
            required = "sizes without constraints of their own were required"
            hint = "torch._check(size <= n) in the program says it"
            got = list(self.constraint_sizes or ())
            fail(NotImplementedError, "StatelessSymbolicContext", required, got, hint)

    def is_dynamic(self, dim: int) -> bool:
        """Whether a dimension becomes a symbol."""
        value = self.dynamic_sizes[dim]
        return value not in (DimDynamic.STATIC, False)


def give_symbols(t: core.Tensor, env: ShapeEnv, source: object = None, context: Any = None) -> None:
    """Make the sizes of a fake tensor symbols."""
    shape = []
    for dim, size in enumerate(core.Tensor.size(t)):
        dynamic = context is None or context.is_dynamic(dim)
        shape.append(env.create_symbol(size, source, dim) if dynamic else number(size))
    if any(e.constant is None for e in shape):
        t._symbolic = geometry_of(t, shape, env)


def hint_int(x: object, fallback: int | None = None) -> int:
    """The value for the example sizes; nothing is noted."""
    return plain(x)


def guard_int(x: Any) -> int:
    """The value, fixed by a guard."""
    return int(x)


def guard_bool(x: object) -> bool:
    """The truth, fixed by a guard."""
    return bool(x)


def guard_float(x: Any) -> float:
    """The value, fixed by a guard."""
    return float(x)


def guard_size_oblivious(x: object) -> bool:
    """The truth, fixed by a guard: sizes that are symbols are at least 2 here."""
    return _or(x, bool(plain(x)) if isinstance(x, SymBool) else False)


def _or(x: object, otherwise: bool) -> bool:
    if isinstance(x, SymBool) and x.condition is not None:
        known = x.env.known(x.condition)
        return otherwise if known is None else known
    return bool(x)


def guard_or_false(x: object) -> bool:
    """The truth, fixed by a guard; False where it depends on a number that is read from elements."""
    return _or(x, False)


def guard_or_true(x: object) -> bool:
    """The truth, fixed by a guard; True where it depends on a number that is read from elements."""
    return _or(x, True)


def statically_known_true(x: object) -> bool:
    """Whether something is true for all sizes."""
    return _or(x, False)


def statically_known_false(x: object) -> bool:
    """Whether something is false for all sizes."""
    return not _or(x, True)


def has_static_value(x: object) -> bool:
    """Whether a number or truth is the same for all sizes."""
    if isinstance(x, SymBool) and x.condition is not None:
        return x.env.known(x.condition) is not None
    return not is_symbolic(x) or is_concrete_int(x)


def sym_eq(x: object, y: Any) -> Any:
    """Whether numbers, or lists of numbers, are equal."""
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and sym_and(*[sym_eq(a, b) for a, b in zip(x, y, strict=True)])
    return x == y


def sym_and(*truths: Any) -> Any:
    """Whether all conditions hold; a condition itself where that is not known."""
    found: Any = True
    for truth in truths:
        found = found & truth if isinstance(found, SymBool) else truth & found
    return found


def sym_or(*truths: Any) -> Any:
    """Whether one of the conditions holds; a condition itself where that is not known."""
    found: Any = False
    for truth in truths:  # a condition in front: `False | condition` would be an int
        found = found | truth if isinstance(found, SymBool) else truth | found
    return found


def free_unbacked_symbols(x: object) -> set[str]:
    """The symbols among `free_symbols` that have no example."""
    return {name for name in free_symbols(x) if name.startswith(UNBACKED)}


def has_free_symbols(x: object) -> bool:
    """Whether something depends on symbols."""
    return bool(free_symbols(x))


def has_free_unbacked_symbols(x: object) -> bool:
    """Whether something depends on numbers that have no example."""
    return bool(free_unbacked_symbols(x))


def is_symbolic(x: object) -> bool:
    """Whether a number depends on sizes."""
    return isinstance(x, (SymInt, SymFloat, SymBool))


def is_concrete_int(x: object) -> bool:
    """Whether a whole number is the same for all sizes."""
    return not isinstance(x, SymInt) or x.expr.constant is not None


def free_symbols(x: object) -> set[str]:
    """The symbols on which a number, a tensor or a list of them depends."""
    if isinstance(x, (SymInt, SymBool)):
        return symbols_of(x.expr if isinstance(x, SymInt) else x.condition)
    if isinstance(x, (tuple, list)):
        return set().union(*[free_symbols(item) for item in x])
    env = getattr(getattr(x, "fake_mode", None), "shape_env", None)
    return symbols_in(x, env) if env is not None else set()


def has_symbolic_sizes_strides(x: object) -> bool:
    """Whether a tensor has sizes that are symbols."""
    return getattr(x, "_symbolic", None) is not None
