"""Shapes of results as expressions, found by running an operator's shape function at several sizes.

Takes a call on fake tensors whose sizes are symbols.  Gives its results with expressions for sizes,
strides and offsets.
Keeps true: an expression gives the right numbers at every size that was tried: the example and at
least two others that differ in all symbols; where no expression does, or where the operator refuses
other sizes, the symbols are fixed to the example, with a guard. So it does not matter whether a
shape function is written in Python or runs in C.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Sequence
from math import gcd
from typing import Any, cast

from facula import core
from facula.core.nested import tensors_in
from facula.fx.ruled_shapes import ruled
from facula.fx.shape_env import sizes_of
from facula.fx.symbols import (
    LEAST,
    Expr,
    Point,
    SymBool,
    SymInt,
    expr_of,
    floordiv,
    mod,
    number,
    plain,
    symbol,
)
from facula.fx.unbacked import UnbackedFloat

#: steps between the sizes that are tried; multiples of many numbers, as sizes must often be divisible
_STEPS = (840, 12)
#: how far symbols lie apart at the points whose slope is not 1: no two pairs have one sum (Mian and
#: Chowla), so that what holds between evenly spaced sizes, as a + c = 2 b, does not hold there, too
_APART = (0, 1, 3, 7, 12, 20, 30, 44, 65, 80)
#: sizes close to the example say how quotients are rounded; they need not be possible
_NEAR = ((1, 1), (2, 3), (5, 2))

Geometry = tuple[tuple[Expr, ...], tuple[Expr, ...], Expr]


class Sizes:
    """The sizes at which a call is tried, and what came out."""

    def __init__(self, env: Any, names: list[str], args: Any, kwargs: Any, function: Any) -> None:
        self.env = env
        self.names = names
        self.args, self.kwargs, self.function = args, kwargs, function
        self.points: list[dict[str, int]] = []
        self.results: list[Any] = []
        self.required = 0
        #: symbols that move together, by the one that stands for them
        self.together: dict[str, str] = {}

    def explore(self) -> bool:
        """Run at other sizes; False where the operator refuses them."""
        for step in _STEPS:
            self.points, self.results = [], []
            far = [self._moved(step, 1, 1), self._moved(step, 3, 2)]
            if all(self._try(point) for point in far):
                self.required = len(self.points)
                for near in _NEAR:
                    self._try(self._moved(1, *near))
                if any(n in self.env.unbacked.ranges for n in self.names):
                    self._try(self._least())  # no guard says that a number is less than a size
                return True
        return False

    def explore_up_to(self, bound: int) -> bool:
        """Run at sizes up to a bound; False where there are few, or the operator refuses one."""
        (name,) = self.names
        example = self.env.hints[name]
        values = {bound, bound - 1, (2 + bound) // 2, 3, 2, example - 1, example + 1}
        for value in sorted(v for v in values if 2 <= v <= bound and v != example):
            point = Point({**self.env.hints, name: value})
            point.update({n: known.value(point) for n, known in self.env.replacements.items()})
            point.memo.clear()
            if not self._try(point):
                return False
        self.required = len(self.points)
        return self.required >= 2

    def _moved(self, step: int, first: int, slope: int) -> dict[str, int]:
        hints = self.env.hints
        replaced = self.env.replacements
        key = (step, first, slope, tuple(self.names), len(hints), len(replaced), *self.together)
        point = self.env.points.get(key)
        if point is None:
            places = [self.names.index(self.together.get(n, n)) for n in self.names]
            apart = _APART if slope > 1 and len(places) <= len(_APART) else range(len(places))
            moved = {
                n: hints[n] + step * (first + slope * apart[i])
                for n, i in zip(self.names, places, strict=True)
            }
            for n in self.names:
                if n in self.env.unbacked.ranges:
                    moved[n] = self._tried(n, step, first)
            point = Point({**hints, **moved})
            point.update({n: known.value(point) for n, known in replaced.items()})
            point.memo.clear()
            self.env.points[key] = point
        return point

    def _least(self) -> Point:
        """The example, with the least value for every size that has one."""
        backed = [n for n in self.names if n not in self.env.unbacked.ranges]
        return Point({**self.env.example, **dict.fromkeys(backed, LEAST)})

    def _tried(self, name: str, step: int, first: int) -> int:
        """A value to try for a number without an example."""
        values = self.env.unbacked.tried(name) or [self.env.hints[name]]
        place = (first > 1) if step > 1 else 2 + [near[0] for near in _NEAR].index(first)
        return values[place % len(values)]

    def _try(self, point: dict[str, int]) -> bool:
        try:
            args, kwargs = _at(self.args, point, self.env), _at(self.kwargs, point, self.env)
            self.results.append(self.function(*args, **kwargs))
        except Exception:
            return False  # sizes that the operator refuses
        self.points.append(point)
        return True


def symbols_in(x: Any, env: Any) -> set[str]:
    """The symbols on which arguments depend."""
    if isinstance(x, core.Tensor):
        geometry = getattr(x, "_symbolic", None)
        if geometry is None:
            return set()
        every = (*geometry[0], *geometry[1], geometry[2])
        return set().union(*[env.simplified(e).free_symbols for e in every])
    if isinstance(x, SymInt):
        return env.simplified(x.expr).free_symbols
    if isinstance(x, (list, tuple)):
        return set().union(*[symbols_in(v, env) for v in x])
    if isinstance(x, dict):
        return symbols_in(list(x.values()), env)
    if isinstance(x, slice):
        return symbols_in((x.start, x.stop, x.step), env)
    return set()


def _at(x: Any, point: dict[str, int], env: object) -> Any:
    """Arguments at other sizes: tensors on the meta device."""
    if isinstance(x, core.Tensor):
        geometry = getattr(x, "_symbolic", None)
        if geometry is None:
            if getattr(x, "fake_mode", None) is None and x.device.type != "meta":  # a constant
                return core.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
            return core.plain_alias(x)
        shape, stride = ([e.value(point) for e in part] for part in geometry[:2])
        offset = geometry[2].value(point)
        extent = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True) if n)
        whole = core.empty((extent,), dtype=x.dtype, device="meta")
        return core.make_view(whole, shape, stride, offset)
    if isinstance(x, SymInt):
        return x.expr.value(point)
    if isinstance(x, tuple):
        return tuple(_at(v, point, env) for v in x)
    if isinstance(x, list):
        return [_at(v, point, env) for v in x]
    if isinstance(x, dict):
        meta = {"device": "meta"} if x.get("device") is not None else {}
        return {k: _at(v, point, env) for k, v in x.items()} | meta
    if isinstance(x, slice):
        return slice(*[_at(v, point, env) for v in (x.start, x.stop, x.step)])
    return x


def run_symbolic(
    mode: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The result of a call on fake tensors, with expressions for what depends on symbols."""
    env = mode.shape_env
    names = sorted(symbols_in(args, env) | symbols_in(kwargs, env))
    result = _at_example(mode, function, args, kwargs, names)
    if not names or _is_divided(env, function, args, result):
        return result
    if _of_products(env, function, args) and ruled(env, function, args, kwargs, result):
        return result
    keys = core.suspend_dispatch()
    grad = core.set_grad_enabled(False)
    try:
        given = {**kwargs, "device": "meta"} if _makes_tensors(function, args, kwargs) else kwargs
        sizes = _explored(env, names, args, given, function)
    finally:
        core.set_grad_enabled(grad)
        core.set_thread_keys(keys)
    candidates = _candidates((args, kwargs), env)
    if sizes is None or not _describe(result, sizes, candidates):
        if not _bounded(env, names, args, given, function, result, candidates):
            for name in () if ruled(env, function, args, kwargs, result) else names:
                env.specialize(name)
    elif type(result) is int:
        found = _fitted(result, sizes.results, sizes, candidates)
        return result if found is None else env.number_of(found)
    return result


def _of_products(env: Any, function: object, args: tuple[Any, ...]) -> bool:
    """Whether an elementwise operator takes sizes that are equal by a guard only, such as `a*b` and `c*d`."""
    if getattr(getattr(function, "definition", None), "kind", "") != "pointwise":
        return False
    shapes = [sizes_of(x)[::-1] for x in args if isinstance(x, core.Tensor)]
    for column in zip(*shapes, strict=False) if len(shapes) > 1 else ():
        if any(e.symbol is None and e.constant is None for e in column):
            found = {env.simplified(e) for e in column} - {number(1)}
            if len(found) > 1:
                return True
    return False


#: views that take the sizes of the result, one of which may be -1
_RESHAPES = ("view", "reshape")


def _is_divided(env: Any, function: object, args: tuple[Any, ...], result: Any) -> bool:
    """Give `x.view(x.shape[0] - 1, -1)` its size as a quotient, with a guard that nothing remains; no other
    sizes that could be tried fit. False where the operator is another one, or the quotient is exact.
    """
    name = getattr(getattr(function, "definition", None), "name", "")
    if name not in _RESHAPES or len(args) != 2 or not isinstance(args[1], (list, tuple)):
        return False
    wanted = list(args[1])
    open_at = [i for i, n in enumerate(wanted) if type(n) is int and n == -1]
    if len(open_at) != 1 or not core.Tensor.is_contiguous(args[0]):
        return False
    whole, rest = number(1), number(1)
    for e in sizes_of(args[0]):
        whole = whole * env.simplified(e)
    for i, n in enumerate(wanted):
        rest = rest * (number(1) if i in open_at else env.simplified(expr_of(n)))
    quotient = floordiv(whole, rest)
    if rest.constant is not None or whole.unbacked or rest.unbacked or quotient * rest == whole:
        return False
    env.note(mod(whole, rest), "==", number(0), True)
    shape = [quotient if i in open_at else env.simplified(expr_of(n)) for i, n in enumerate(wanted)]
    strides: list[Expr] = []
    product = number(1)
    for e in reversed(shape):
        strides.insert(0, product)
        product = product * e
    result._symbolic = (tuple(shape), tuple(strides), number(core.Tensor.storage_offset(result)))
    return True


def _at_example(
    mode: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: list[str],
) -> Any:
    """The result for the example sizes. Where an operator refuses a number without an example, the number
    is what the operator can only mean, if there is such a one: the program checks that.
    """
    env = mode.shape_env
    try:
        return core.run_fake(function, concrete(args), concrete(kwargs), mode)
    except (RuntimeError, ValueError, IndexError):
        free = [n for n in names if n in env.unbacked.ranges and n not in env.replacements]
        wanted = _meant(env, function, args, kwargs, free)
        if wanted is None:
            raise
    env.expect(wanted)
    return core.run_fake(function, concrete(args), concrete(kwargs), mode)


def expect_broadcast(tensors: Sequence[core.Tensor]) -> None:
    """Let sizes without examples be those that an elementwise operator can only mean: as PyTorch does, another
    size stands beside them, not one that is repeated. The program checks that."""
    if len(tensors) < 2:
        return
    shapes = [tuple(t.shape)[::-1] for t in tensors]
    for column in itertools.zip_longest(*shapes, fillvalue=1):
        sizes = [n for n in column if not (type(n) is int and n == 1)]
        unknown = next((n for n in sizes if isinstance(n, SymInt) and n.expr.unbacked), None)
        if unknown is None:
            _equal(sizes)
            continue
        env = unknown.env
        for n in sizes:
            left, right = env.simplified(unknown.expr), env.simplified(expr_of(n))
            if left != right:
                env.expect((left, "==", right))


def _equal(sizes: Sequence[Any]) -> None:
    """Let sizes be equal that stand beside each other, none of which is 1: a symbol never is."""
    first = next((n for n in sizes if isinstance(n, SymInt)), None)
    if first is None:
        return
    for n in sizes:
        left, right = (first.env.simplified(expr_of(x)) for x in (first, n))
        if left != right and left.value(first.env.example) == right.value(first.env.example):
            first.env.note(left, "==", right, True)


def _meant(
    env: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    free: list[str],
) -> Any:
    """The condition under which an operator takes its arguments: that a number is another size, or at most that."""
    sizes = {e for x in tensors_in((args, kwargs)) for e in sizes_of(x)}
    sizes |= _remaining(args)
    keys, grad = core.suspend_dispatch(), core.set_grad_enabled(False)
    try:
        for name in free:
            for size in sorted((env.simplified(e) for e in sizes), key=str):
                value = size.value(env.example)
                takes = functools.partial(_takes, env, function, args, kwargs, name)
                if name in size.free_symbols or not takes(value):
                    continue
                several = takes(value - 1) and takes(value - 2) and not takes(value + 1)
                return symbol(name), "<=" if several else "==", size
    finally:
        core.set_grad_enabled(grad)
        core.set_thread_keys(keys)
    return None


def _remaining(args: tuple[Any, ...]) -> set[Expr]:
    """What a size of a new shape can only be: what the others leave of the elements."""
    found = set()
    for shape in (x for x in args if isinstance(x, (list, tuple))):
        for t in tensors_in(args[:1]):
            whole = number(1)
            for e in sizes_of(t):
                whole = whole * e
            for i, n in enumerate(shape):
                if isinstance(n, SymInt) and n.expr.symbol is not None:
                    rest = number(1)
                    for other in (*shape[:i], *shape[i + 1 :]):
                        rest = rest * expr_of(other)
                    found.add(floordiv(whole, rest))
    return found


def _takes(
    env: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
    value: int,
) -> bool:
    point = Point({**env.hints, name: value})
    try:
        function(*_at(args, point, env), **_at(kwargs, point, env))
    except Exception:
        return False
    return True


def _makes_tensors(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Whether a call makes a tensor on a device that it does not name."""
    schema = getattr(getattr(function, "definition", None), "schema", None)
    if (
        schema is None
        or "device" in kwargs
        or not any(p.type == "device" for p in schema.parameters)
    ):
        return False
    flat = [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]
    return not any(isinstance(x, core.Tensor) for x in flat)


def _explored(
    env: Any,
    names: list[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: Callable[..., Any],
) -> Sizes | None:
    """The call at other sizes; symbols that the operator does not let move are fixed. None: all were."""
    sizes = Sizes(env, names, args, kwargs, function)
    if sizes.explore():
        return sizes
    if _unified(env, names, args, kwargs, function):
        left = sorted(symbols_in(args, env) | symbols_in(kwargs, env))
        return _explored(env, left, args, kwargs, function)
    related = _related(env, args, kwargs, function)
    if related is not None:
        return related
    free = [n for n in names if Sizes(env, [n], args, kwargs, function).explore()]
    for name in names:
        if name not in free:
            env.specialize(name)
    sizes = Sizes(env, free, args, kwargs, function)
    return sizes if free and sizes.explore() else None


def _unified(
    env: Any,
    names: list[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: Callable[..., Any],
) -> bool:
    """Whether symbols of equal example sizes must be equal for the operator; a guard says so."""
    together: dict[str, str] = {}
    first: dict[int, str] = {}
    for name in names:
        known = first.setdefault(env.hints[name], name)
        if known != name:
            together[name] = known
    sizes = Sizes(env, names, args, kwargs, function)
    sizes.together = together
    if not together or not sizes.explore():
        return False
    for name, known in together.items():
        env.note(symbol(name), "==", symbol(known), True)
    return True


def _related(
    env: Any, args: tuple[Any, ...], kwargs: dict[str, Any], function: Callable[..., Any]
) -> Sizes | None:
    """The call at other sizes, where expressions of equal value must be equal for the operator, such as
    `a - 1` and `b`, or `a * b` and `c`; guards say so, and symbols that this gives stand for others.
    """
    by_value: dict[int, dict[Expr, None]] = {}
    for t in tensors_in(args) + tensors_in(kwargs):
        for e in t.shape:
            expr = env.simplified(expr_of(e))
            if expr.constant is None and not expr.unbacked:
                by_value.setdefault(expr.value(env.example), {})[expr] = None
    pairs = [(first, e) for first, *others in map(list, by_value.values()) for e in others]
    if not any(a.symbol is None or b.symbol is None for a, b in pairs):
        return None  # symbols alone were tried
    mark = env.mark()
    for a, b in pairs:
        left, right = env.simplified(a), env.simplified(b)
        if left.symbol is not None or right.symbol is not None:
            env.note(*_for_the_later(left, right), True)
    left_over = sorted(symbols_in(args, env) | symbols_in(kwargs, env))
    sizes = Sizes(env, left_over, args, kwargs, function)
    if left_over and sizes.explore():
        return sizes
    env.back(mark)
    return None


def _for_the_later(left: Expr, right: Expr) -> tuple[Expr, str, Expr]:
    """The equation, solved for the symbol that came last where one side is a symbol and the other
    differs from a symbol by a number: `b = a + 1` rather than `a = b - 1`."""
    if left.symbol is None:
        left, right = right, left
    offset = number(right.terms.get((), 0))
    other = (right - offset).symbol
    if other is not None and left.symbol is not None and int(other[1:]) > int(left.symbol[1:]):
        return symbol(other), "==", left - offset
    return left, "==", right


def _bounded(
    env: Any,
    names: list[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    function: Callable[..., Any],
    result: object,
    candidates: list[Any],
) -> bool:
    """Whether expressions fit as long as a symbol is at most a fixed size of an argument, as in
    `table[:n]`; a guard says so.
    """
    if len(names) != 1:
        return False
    (name,) = names
    example = env.hints[name]
    fixed = {
        n for x in args if isinstance(x, core.Tensor) for n in map(expr_of, x.shape)
        if n.constant is not None and n.constant >= example
    }  # fmt: skip
    keys, grad = core.suspend_dispatch(), core.set_grad_enabled(False)
    try:
        for bound in sorted(n.constant or 0 for n in fixed):
            sizes = Sizes(env, names, args, kwargs, function)
            if sizes.explore_up_to(bound) and _describe(result, sizes, candidates):
                env.note(symbol(name), "<=", number(bound), True)
                return True
    finally:
        core.set_grad_enabled(grad)
        core.set_thread_keys(keys)
    return False


def concrete(x: Any) -> Any:
    """Arguments with plain numbers."""
    if isinstance(x, SymInt):
        if x.expr.unbacked:
            return x.env.simplified(x.expr).value(x.env.example)
        return plain(x)
    if isinstance(x, (SymBool, UnbackedFloat)):
        return bool(plain(x)) if isinstance(x, SymBool) else float.__float__(x)
    if isinstance(x, tuple):
        made = [concrete(v) for v in x]
        return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
    if isinstance(x, list):
        return [concrete(v) for v in x]
    if isinstance(x, dict):
        return {k: concrete(v) for k, v in x.items()}
    if isinstance(x, slice):
        return slice(concrete(x.start), concrete(x.stop), concrete(x.step))
    return x


def _candidates(args: tuple[Any, ...], env: Any) -> list[Expr]:
    """Expressions that a size of the result may be built from."""
    found: dict[Expr, None] = {}
    strides: dict[Expr, None] = {}
    places: dict[Expr, None] = {}

    def look(x: Any) -> None:
        if isinstance(x, core.Tensor):
            geometry = getattr(x, "_symbolic", None)
            shape = [number(n) for n in x.shape] if geometry is None else list(geometry[0])
            for e in shape:
                found[env.simplified(e)] = None
            for first, last in itertools.combinations(range(len(shape) + 1), 2):
                product = number(1)
                for e in shape[first:last]:
                    product = product * e
                found[env.simplified(product)] = None
            if geometry is not None:
                for e in (*geometry[1], geometry[2]):
                    found[env.simplified(e)] = None
                strides.update(dict.fromkeys(map(env.simplified, geometry[1])))
        elif isinstance(x, SymInt):
            found[env.simplified(x.expr)] = None
            places[env.simplified(x.expr)] = None
        elif isinstance(x, (list, tuple)):
            for v in x:
                look(v)
        elif isinstance(x, dict):
            look(list(x.values()))
        elif isinstance(x, slice):
            look((x.start, x.stop, x.step))

    look(args)
    for place, stride in itertools.product(places, strides):
        if place.unbacked:  # a view that begins at a place that is read
            found[place * stride] = None
    return [e for e in found if e.constant is None]


def _describe(result: Any, sizes: Sizes, candidates: list[Expr]) -> bool:
    """Give fake tensors among the results their expressions; False where there is none."""
    if isinstance(result, (list, tuple)):
        if any(len(r) != len(result) for r in sizes.results):
            return False  # how many results there are depends on the sizes
        parts = []
        for i, part in enumerate(result):
            inner = Sizes(sizes.env, sizes.names, (), {}, None)
            inner.points, inner.required = sizes.points, sizes.required
            inner.results = [r[i] for r in sizes.results]
            parts.append(_describe(part, inner, candidates))
        return all(parts)
    if not isinstance(result, core.Tensor):
        return True
    tried = sizes.results
    if any(t.dim() != core.Tensor.dim(result) for t in tried):
        return False
    shape = _each(core.Tensor.size(result), [t.shape for t in tried], sizes, candidates)
    if shape is None:
        return False
    suffixes, product = [], number(1)
    for e in reversed(shape):
        product = product * e
        suffixes.append(product)
    more = [e for e in suffixes if e.constant is None]
    stride = _each(
        core.Tensor.stride(result), [t.stride() for t in tried], sizes, more + candidates
    )
    offset = _fitted(
        core.Tensor.storage_offset(result), [t.storage_offset() for t in tried], sizes, candidates
    )
    if stride is None or offset is None:
        return False
    if any(e.constant is None for e in (*shape, *stride, offset)):
        cast(Any, result)._symbolic = (tuple(shape), tuple(stride), offset)
        if any(e.unbacked for e in shape):
            for condition in sizes.env.unbacked.expect_sizes(shape):
                sizes.env.expect(condition)
            sizes.env.unbacked.renews(_renewal(result, sizes.env))
    return True


def _renewal(t: core.Tensor, env: Any) -> Any:
    """What gives a tensor the sizes that stand for numbers without an example now."""
    known = weakref.ref(t)

    def renew() -> None:
        tensor = known()
        geometry = getattr(tensor, "_symbolic", None)
        if tensor is None or geometry is None:
            return
        shape, stride = (
            [env.simplified(e).value(env.example) for e in part] for part in geometry[:2]
        )
        core.take_geometry(tensor, core.make_view(core.plain_alias(tensor), shape, stride))

    return renew


def _each(hints: Any, rows: list[Any], sizes: Sizes, candidates: list[Expr]) -> list[Expr] | None:
    found = []
    for i, hint in enumerate(hints):
        expr = _fitted(hint, [row[i] for row in rows], sizes, candidates)
        if expr is None:
            return None
        found.append(expr)
    return found


def _fitted(hint: int, values: list[int], sizes: Sizes, candidates: list[Expr]) -> Expr | None:
    """An expression with the right value at every size that was tried; None where none is found."""
    if all(v == hint for v in values):
        return number(hint)
    points = [sizes.env.example, *sizes.points]
    wanted = [hint, *values]
    table = [(e, [e.value(p) for p in points]) for e in candidates]
    for e, row in table:
        if row == wanted:
            return e
    for e, row in table:
        found = _quotient(e, row, wanted, sizes.required)
        if found is not None:
            return found
    for (a, row_a), (b, row_b) in itertools.combinations(table[:16], 2):
        rest = wanted[0] - row_a[0] - row_b[0]
        if all(w == x + y + rest for w, x, y in zip(wanted, row_a, row_b, strict=True)):
            return a + b + number(rest)
    return None


def _quotient(e: Expr, row: list[int], wanted: list[int], required: int) -> Expr | None:
    """`(n * e + c) // d` with the right values, if there is one."""
    other = next((k for k in range(1, required + 1) if row[k] != row[0]), None)
    if other is None:
        return None
    n, d = wanted[other] - wanted[0], row[other] - row[0]
    common = gcd(n, d) if d > 0 else -gcd(n, d)
    n, d = n // common, d // common
    if any(d * (wanted[k] - wanted[0]) != n * (row[k] - row[0]) for k in range(1, required + 1)):
        return None
    if n == 0 or d > 4096:
        return None
    least = wanted[0] * d - n * row[0]
    for c in range(least, least + d):
        if all((n * r + c) // d == w for r, w in zip(row, wanted, strict=True)):
            return floordiv(number(n) * e + number(c), number(d))
    return None


def geometry_of(t: core.Tensor, shape: list[Expr], env: object) -> Geometry:
    """Expressions for the strides of a tensor whose sizes are symbols: dense ones follow its sizes."""
    stride: list[Expr] = [number(s) for s in core.Tensor.stride(t)]
    sizes = core.Tensor.size(t)
    order = sorted(range(len(shape)), key=lambda i: (core.Tensor.stride(t, i), -i))
    expected, product = 1, number(1)
    for i in order:
        if core.Tensor.stride(t, i) == expected:
            stride[i] = product
            expected, product = expected * sizes[i], product * shape[i]
        else:
            expected = -1
    return tuple(shape), tuple(stride), number(core.Tensor.storage_offset(t))
