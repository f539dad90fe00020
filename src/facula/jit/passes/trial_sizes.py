"""What an operator gives for sizes that are not known: found by running it on tensors without elements.

Takes a function and its arguments, in which symbols stand for numbers. Gives what is known of the results.
Keeps true: a size of a result is a number, or one of the symbols, only where it came out so for every trial that the
operator took, of two at least; where symbols stand for numbers that are no sizes, it has to take all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from facula import core
from facula.jit.tensor_types import TensorType, new_symbol

__all__ = ["UNKNOWN", "Symbol", "trials"]


class Symbol(NamedTuple):
    """A number that is not known."""

    name: int
    #: what it is: a `size`, or an `int`, `float` or `bool` that may be anything
    kind: str = "size"


#: a value of which nothing is known
UNKNOWN = object()
#: sizes to try; the last one is beyond the bounds that slices are given
_SIZES = (12, 97, 8, 1, 4099)
_VALUES = {"int": _SIZES, "float": (1.1, 2.5), "bool": (False, True)}
#: sizes of other arguments to try: channels that have to fit
_MOST = 6


def trials(function: Callable[..., Any], arguments: list[Any], exact: bool = True) -> Any:
    """What is known of the results; UNKNOWN where no trial ran.

    Args:
        function: the operator
        arguments: for each a value, a `TensorType`, a `Symbol`, or lists of these
        exact: sizes that are not known get names
    """
    found: list[Symbol] = []
    numbers: set[int] = set()
    given = [_named(a, found, numbers) for a in arguments]
    symbols = list(dict.fromkeys(found))
    ran = []
    for values in _trial_values(
        symbols, sorted(numbers)[:_MOST], lambda v: _run(function, given, v)
    ):
        ran.append(values)
    strict = [s for s in symbols if s.kind != "size"]
    if not ran or strict and len(ran) < 2:
        return UNKNOWN
    return _Claims([v for v, _ in ran], symbols, exact).of([made for _, made in ran])


def _named(value: Any, found: list[Symbol], numbers: set[int]) -> Any:
    """The argument with a symbol for each size that is not known."""
    if isinstance(value, TensorType) and value.shape is not None:
        sizes = [
            Symbol(new_symbol()) if n is None else Symbol(n) if n < 0 else n for n in value.shape
        ]
        numbers.update(n for n in sizes if type(n) is int and n > 1)
        found.extend(n for n in sizes if isinstance(n, Symbol))
        steps = value.steps if value.is_complete() else None
        return _Made(tuple(sizes), steps, value.element or core.float32)
    if isinstance(value, Symbol):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        return [_named(v, found, numbers) for v in value]
    return value


class _Made(NamedTuple):
    """A tensor of a trial."""

    sizes: tuple[Any, ...]
    steps: Any
    dtype: Any


def _filled(value: Any, values: dict[Symbol, Any]) -> Any:
    """The argument of one trial."""
    if isinstance(value, Symbol):
        return values[value]
    if isinstance(value, _Made):
        sizes = [_filled(n, values) for n in value.sizes]
        if value.steps is not None and None not in value.steps:
            return core.empty_strided(sizes, list(value.steps), dtype=value.dtype, device="meta")
        return core.empty(sizes, dtype=value.dtype, device=core.device("meta"))
    return [_filled(v, values) for v in value] if isinstance(value, list) else value


def _run(function: Callable[..., Any], given: list[Any], values: dict[Symbol, Any]) -> Any:
    """The results of one trial; UNKNOWN where the operator refuses it."""
    before = core.set_grad_enabled(False)
    try:
        return function(*[_filled(g, values) for g in given])
    except Exception:  # what it says is for whoever runs the graph
        return UNKNOWN
    finally:
        core.set_grad_enabled(before)


def _trial_values(
    symbols: list[Symbol], numbers: list[int], run: Callable[[dict[Symbol, Any]], Any]
) -> Iterator[tuple[dict[Symbol, Any], Any]]:
    """The trials that ran: all symbols alike, one by one as other sizes are, and each changed on its own."""
    if not symbols:
        made = run({})
        if made is not UNKNOWN:
            yield {}, made
        return
    strict = any(s.kind != "size" for s in symbols)
    bases = []
    for i in range(len(_SIZES)):
        bases.append({s: _value(s, i) for s in symbols})
    if not strict:
        bases += [{**bases[0], s: n} for s in symbols for n in numbers]
    good = []
    for values in bases:
        made = run(values)
        if made is not UNKNOWN:
            good.append(values)
            yield values, made
        elif strict:
            return
    for values in good[:1] + [g for g in good[len(_SIZES) :]][:4]:
        for symbol in symbols:
            for i in range(len(_SIZES)):
                changed = {**values, symbol: _value(symbol, i)}
                if changed in good:
                    continue
                made = run(changed)
                if made is not UNKNOWN:
                    yield changed, made


def _value(symbol: Symbol, i: int) -> Any:
    choices = _VALUES.get(symbol.kind, _SIZES)
    return choices[i % len(choices)]


class _Claims:
    """What the results of all trials have in common."""

    def __init__(self, values: list[dict[Symbol, Any]], symbols: list[Symbol], exact: bool) -> None:
        self.values, self.symbols, self.exact = values, symbols, exact

    def of(self, made: list[Any]) -> Any:
        """What is known of one result."""
        first = made[0]
        if any(type(m) is not type(first) for m in made):
            return UNKNOWN
        if isinstance(first, core.Tensor):
            return self.tensor(made)
        if isinstance(first, (list, tuple)):
            if any(len(m) != len(first) for m in made):
                return UNKNOWN
            parts = [self.of(list(each)) for each in zip(*made, strict=True)]
            return parts if isinstance(first, list) else tuple(parts)
        if type(first) is int:
            number = self.number(made)
            return Symbol(new_symbol(), self._kind()) if number is None else number
        if not self.symbols:
            return first
        return (
            Symbol(new_symbol(), type(first).__name__)
            if isinstance(first, (bool, float))
            else UNKNOWN
        )

    def _kind(self) -> str:
        return "size" if all(s.kind == "size" for s in self.symbols) else "int"

    def number(self, made: list[int]) -> Any:
        """A number that is the same in all trials, or the symbol that it is in all."""
        if len(made) < 2 and self.symbols:
            return None
        for symbol in self.symbols:
            tried = [v[symbol] for v in self.values]
            if tried == made and len(set(made)) > 1:
                return symbol
        return made[0] if len(set(made)) == 1 else None

    def tensor(self, made: list[core.Tensor]) -> Any:
        """The type of a tensor."""
        dtypes = {m.dtype for m in made}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if any(m.ndim != made[0].ndim for m in made):
            return TensorType(dtype)
        numbers = [self.number(list(each)) for each in zip(*[m.shape for m in made], strict=True)]
        names = [n.name if isinstance(n, Symbol) else n for n in numbers]
        if self.exact:
            names = [new_symbol() if n is None else n for n in names]
        known = made[0].layout == core.strided and not self.symbols
        return TensorType(dtype, names, made[0].stride() if known else None)
