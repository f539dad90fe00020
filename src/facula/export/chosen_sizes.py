"""`max`, `min` and `math.pow` of a program's sizes, as expressions, and of tensors with one element, as operators.

Takes: nothing. Gives: `sizes_are_chosen`, a block in which the built-in functions tell sizes and tensors apart from
other numbers.
Keeps true: no guard says which of two sizes is the larger; calls of others, of other numbers, and in other threads are
Python's own.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from typing import Any

from facula import core, nn
from facula.core.errors import is_own
from facula.fx import Graph
from facula.fx.symbolic_floats import fixed
from facula.fx.symbols import SymFloat, SymInt, expr_of, sym_float, sym_max, sym_min
from facula.ops.table.registry import F

Tensor = core.Tensor


def _instead(plainly: Callable[..., Any], known: Callable[[tuple[Any, ...]], Any]) -> Any:
    """A function that stands for another one in this thread, where a program calls it with what is known."""
    owner = threading.get_ident()

    @functools.wraps(plainly)
    def choose(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and threading.get_ident() == owner:
            found = known(args)
            if found is not None and not is_own(str(sys._getframe(1).f_globals.get("__name__"))):
                return found()
        return plainly(*args, **kwargs)

    return choose


def _choice(of_sizes: Any, of_tensors: Any, bound: str) -> Callable[[tuple[Any, ...]], Any]:
    def known(args: tuple[Any, ...]) -> Any:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        if len(args) < 2:
            return None
        if all(isinstance(x, int) for x in args):
            if not any(isinstance(x, SymInt) for x in args):
                return None
            different = list({expr_of(x): x for x in args}.values())
            return functools.partial(functools.reduce, of_sizes, different)
        if all(isinstance(x, Tensor) and x.dim() == 0 for x in args):
            different = list({id(x): x for x in args}.values())
            different = different if len(different) > 1 else list(args[:2])
            return functools.partial(functools.reduce, of_tensors, different)
        tensors = [x for x in args if isinstance(x, Tensor) and x.dim() == 0]
        numbers = [x for x in args if type(x) in (int, float)]
        if len(args) == 2 and tensors and numbers:
            return functools.partial(F.clamp, tensors[0], **{bound: numbers[0]})
        return None

    return known


def _power(args: tuple[Any, ...]) -> Any:
    """`math.pow` of a size and a whole number, whose result is a float."""
    if len(args) != 2 or not isinstance(args[0], SymInt) or type(args[1]) is not int:
        return None
    return (lambda: sym_float(args[0] ** args[1])) if args[1] >= 0 else None


def _fixing(args: tuple[Any, ...]) -> Any:
    """Whether a number is a float that depends on sizes: `math` gets its value, which is fixed."""
    return any(isinstance(x, SymFloat) for x in args)


class _Counted(type):
    """What `range` is for the program: sizes that it is given are fixed, as loops are unrolled."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _RANGE(*[x.__int__() if isinstance(x, SymInt) else x for x in args], **kwargs)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, _RANGE)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, _RANGE)


_RANGE = range
#: functions of `math` that ask a number for its own rule
_ASKING = ("ceil", "floor", "trunc", "pow")


@contextmanager
def _math_fixes() -> Iterator[None]:
    before = {n: f for n, f in vars(math).items() if callable(f) and n not in _ASKING}
    for name, plainly in before.items():
        setattr(math, name, _fixed_for(plainly))
    try:
        yield
    finally:
        for name, plainly in before.items():
            setattr(math, name, plainly)


@contextmanager
def _ranges_fix(module: nn.Module) -> Iterator[None]:
    """A block in which the files of a program's modules have a `range` of their own."""
    places = []
    for each in module.modules():
        known = getattr(unwrap(type(each).forward), "__globals__", None)
        if known is not None and "range" not in known and not is_own(str(known.get("__name__"))):
            known["range"] = _Counted("range", (), {})
            places.append(known)
    try:
        yield
    finally:
        for known in places:
            del known["range"]


def _fixed_for(plainly: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plainly)
    def function(*args: Any, **kwargs: Any) -> Any:
        return plainly(*map(fixed, args), **kwargs) if _fixing(args) else plainly(*args, **kwargs)

    return function


def name_choices(graph: Graph) -> None:
    """Let a graph call `sym_max` and `sym_min`, as PyTorch's do, where it chooses between sizes."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target in (max, min):
            node.target = sym_max if node.target is max else sym_min


@contextmanager
def sizes_are_chosen(module: nn.Module) -> Iterator[None]:
    """A block in which `max` and `min` of sizes are expressions of these.

    Args:
        module: the program
    """
    before: Any = builtins.max, builtins.min, math.pow
    builtins.max = _instead(max, _choice(sym_max, F.maximum, "min"))
    builtins.min = _instead(min, _choice(sym_min, F.minimum, "max"))
    math.pow = _instead(math.pow, _power)
    try:
        with _math_fixes(), _ranges_fix(module):
            yield
    finally:
        builtins.max, builtins.min, math.pow = before
