"""Rules that iterate: builtins and itertools.

Takes: iterables. Gives: iterators over symbolic values, or what is made of all of them.
Keeps true: an iterator whose values are computed by calls is lazy, and can not outlive its segment.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from facula.capture.interpreter.frames import STOP
from facula.capture.rules.callables import RULES, Rule, rule
from facula.capture.values.kinds import (
    IteratorValue,
    Known,
    NumberValue,
    ObjectValue,
    TensorValue,
)
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


@rule(iter)
def _iter(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.iter(args[0])


@rule(next)
def _next(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.next(args[0])
    if value is not STOP:
        return value
    return d.force(args[1]) if len(args) > 1 else d.raise_with(StopIteration, [])


def _iterator(
    d: Symbolic,
    pull: Iterator[Any],
    lazy: bool = False,
    kind: type | None = None,
    recipe: Callable[[], tuple[Callable, list[Any]]] | None = None,
) -> Any:
    """An iterator of the segment; `recipe` makes it again behind it (see `IteratorValue`)."""
    value = d.made(IteratorValue(pull, kind=kind))
    value.recipe = recipe
    if lazy:
        d.lazy_iterators.add(id(value))
        d.kept.append(value)
    return value


@rule(zip)
def _zip(d: Symbolic, args: list, kwargs: dict) -> Any:
    parts = [d.iter(arg) for arg in args]
    strict = "strict" in kwargs and d.truth(kwargs["strict"])

    def pull() -> Iterator[Any]:
        while parts:
            row = []
            for n, part in enumerate(parts):
                item = d.next(part)
                if item is STOP:
                    if strict:
                        _check_all_stop(d, parts, n)
                    return
                row.append(item)
            yield d.build_tuple(row)

    make = functools.partial(zip, strict=True) if strict else zip
    return _iterator(d, pull(), kind=zip, recipe=lambda: (make, parts))


def _check_all_stop(d: Symbolic, parts: list[Any], n: int) -> None:
    """That all parts of `zip(strict=True)` end where part number n does, the first of them all."""
    differs = (n, "shorter") if n else None
    for at in range(1, len(parts)) if not n else ():
        if d.next(parts[at]) is not STOP:
            differs = at, "longer"
            break
    if differs:
        count, how = differs
        others = "argument 1" if count == 1 else f"arguments 1-{count}"
        d.fail(ValueError, f"zip() argument {count + 1} is {how} than {others}")


@rule(enumerate)
def _enumerate(d: Symbolic, args: list, kwargs: dict) -> Any:
    start = kwargs.get("start", args[1] if len(args) > 1 else Known(0))
    part, count = d.iter(args[0]), start

    def pull() -> Iterator[Any]:
        nonlocal count
        while (item := d.next(part)) is not STOP:
            number, count = count, d.binary("+", count, Known(1))
            yield d.build_tuple([number, item])

    return _iterator(d, pull(), kind=enumerate, recipe=lambda: (enumerate, [part, count]))


@rule(map)
def _map(d: Symbolic, args: list, kwargs: dict) -> Any:
    if kwargs or len(args) < 2:
        said = (
            "map() takes no keyword arguments"
            if kwargs
            else "map() must have at least two arguments."
        )
        d.fail(TypeError, said)
    parts = [d.iter(arg) for arg in args[1:]]

    def pull() -> Iterator[Any]:
        while True:
            row = []
            for part in parts:
                row.append(d.next(part))
                if row[-1] is STOP:
                    return
            yield d.call(args[0], row, {})

    return _iterator(d, pull(), lazy=True, kind=map, recipe=lambda: (map, [args[0], *parts]))


@rule(filter)
def _filter(d: Symbolic, args: list, kwargs: dict) -> Any:
    part, test = d.iter(args[1]), args[0]

    def pull() -> Iterator[Any]:
        while (item := d.next(part)) is not STOP:
            if d.truth(item if d.is_none(test) else d.call(test, [item], {})):
                yield item

    return _iterator(d, pull(), lazy=True, kind=filter, recipe=lambda: (filter, [test, part]))


@rule(reversed)
def _reversed(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if isinstance(value, ObjectValue) and d.type_lookup(value.kind, "__reversed__"):
        return d.call_special(value, "__reversed__", [])
    return _iterator(d, iter(d.unpack_all(value)[::-1]))


@rule(sorted)
def _sorted(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.build_list(d.sorted_items(args[0], kwargs))


@rule(sum)
def _sum(d: Symbolic, args: list, kwargs: dict) -> Any:
    total = kwargs.get("start", args[1] if len(args) > 1 else Known(0))
    for item in d.iterate(args[0]):
        total = d.binary("+", total, item)
    return total


def _chosen(d: Symbolic, better: Any, other: Any, best: Any) -> Any:
    """One of two numbers in tensors, chosen where the graph runs; None for others."""
    pair = [d.force(other), d.force(best)]
    tensors = [value for value in pair if isinstance(value, TensorValue)]
    if not isinstance(better, TensorValue) or not d.whole or not tensors:
        return None
    kind = tensors[0].fake
    found = d.graph_call(F.where, [better, *pair])
    alike = all(t.fake.dtype is kind.dtype and t.fake.dim() == 0 for t in tensors)
    return found if alike and found.fake.dtype is kind.dtype else None


def _extreme(symbol: str) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        items = d.unpack_all(args[0]) if len(args) == 1 else args
        if not items:
            return kwargs.get("default") or d.fail(ValueError, "iterable argument is empty")
        key = kwargs.get("key")
        graded = [
            (item if key is None or d.is_none(key) else d.call(key, [item], {}), item)
            for item in items
        ]
        if any(isinstance(d.force(g), NumberValue) for g, _ in graded) and len(graded) == 2:
            function = min if symbol == "<" else max
            return d._number_binary(function, d.force(graded[0][0]), d.force(graded[1][0]))
        best = graded[0]
        for other in graded[1:]:
            better = d.force(d.compare(symbol, other[0], best[0]))
            chosen = _chosen(d, better, other[1], best[1])
            if chosen is not None:
                best = (chosen, chosen)
            elif d.truth(better):
                best = other
        return d.force(best[1])

    return run


RULES[min] = _extreme("<")
RULES[max] = _extreme(">")


@rule(any)
def _any(d: Symbolic, args: list, kwargs: dict) -> Any:
    return Known(any(d.truth(item) for item in d.iterate(args[0])))


@rule(all)
def _all(d: Symbolic, args: list, kwargs: dict) -> Any:
    return Known(all(d.truth(item) for item in d.iterate(args[0])))


@rule(functools.reduce)
def _reduce(d: Symbolic, args: list, kwargs: dict) -> Any:
    items = d.iterate(args[1])
    total = args[2] if len(args) > 2 else next(items, None)
    if total is None:
        d.fail(TypeError, "reduce() of empty iterable with no initial value")
    for item in items:
        total = d.call(args[0], [total, item], {})
    return total


@rule(itertools.chain)
def _chain(d: Symbolic, args: list, kwargs: dict) -> Any:
    rest = list(args)

    def pull() -> Iterator[Any]:
        while rest:
            rest[0] = d.iter(rest[0])
            while (item := d.next(rest[0])) is not STOP:
                yield item
            del rest[0]

    return _iterator(d, pull(), kind=itertools.chain, recipe=lambda: (itertools.chain, rest))


@rule(itertools.chain.from_iterable)
def _chain_from(d: Symbolic, args: list, kwargs: dict) -> Any:
    return _chain(d, d.unpack_all(args[0]), {})


def _by_position(function: Callable) -> Rule:
    """A function of itertools that only chooses and orders items."""

    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        count = 1 if function is not itertools.product else len(args)
        lists = [d.unpack_all(arg) for arg in args[:count]]
        plain = [d.constant_of(arg) for arg in args[count:]]
        words = {k: d.constant_of(v) for k, v in kwargs.items()}
        try:
            chosen = function(*[range(len(items)) for items in lists], *plain, **words)
        except (TypeError, ValueError) as error:
            d.raise_host(error)
        rows = [
            d.build_tuple([lists[n if count > 1 else 0][i] for n, i in enumerate(row)])
            for row in chosen
        ]
        return _iterator(d, iter(rows))

    return run


for _function in (itertools.permutations, itertools.combinations, itertools.product):
    RULES[_function] = _by_position(_function)
if hasattr(itertools, "pairwise"):
    RULES[itertools.pairwise] = lambda d, args, kwargs: _iterator(
        d,
        iter([d.build_tuple(list(p)) for p in itertools.pairwise(d.unpack_all(args[0]))]),
    )


@rule(itertools.islice)
def _islice(d: Symbolic, args: list, kwargs: dict) -> Any:
    plain = slice(*[d.constant_of(arg) for arg in args[1:]])
    part = d.iter(args[0])

    def pull() -> Iterator[Any]:
        stop = math.inf if plain.stop is None else plain.stop
        n = 0
        while n < stop and (item := d.next(part)) is not STOP:
            if n >= (plain.start or 0) and (n - (plain.start or 0)) % (plain.step or 1) == 0:
                yield item
            n += 1

    return _iterator(d, pull())


@rule(itertools.count)
def _count(d: Symbolic, args: list, kwargs: dict) -> Any:
    start = args[0] if args else kwargs.get("start", Known(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", Known(1))

    value = start

    def pull() -> Iterator[Any]:
        nonlocal value
        while True:
            number, value = value, d.binary("+", value, step)
            yield number

    kind = itertools.count
    return _iterator(d, pull(), lazy=True, kind=kind, recipe=lambda: (kind, [value, step]))


@rule(itertools.repeat)
def _repeat(d: Symbolic, args: list, kwargs: dict) -> Any:
    times = args[1] if len(args) > 1 else kwargs.get("times")
    kind = itertools.repeat
    if times is None:
        return _iterator(d, kind(args[0]), lazy=True, kind=kind, recipe=lambda: (kind, [args[0]]))
    pull = kind(args[0], d.constant_of(times))
    left = pull.__length_hint__
    return _iterator(d, pull, kind=kind, recipe=lambda: (kind, [args[0], Known(left())]))


@rule(itertools.accumulate)
def _accumulate(d: Symbolic, args: list, kwargs: dict) -> Any:
    given = d.force(args[1] if len(args) > 1 else kwargs.get("func", Known(None)))
    function = Known(operator.add) if isinstance(given, Known) and given.obj is None else given
    initial = d.force(kwargs.get("initial", Known(None)))
    started = not isinstance(initial, Known) or initial.obj is not None
    out: list[Any] = [initial] if started else []
    for item in d.iterate(args[0]):
        out.append(item if not out else d.call(function, [out[-1], item], {}))
    return _iterator(d, iter(out))


def _grouped(iterable: Any, key: Any = None) -> Iterator[Any]:
    """Runs of items with equal keys, each run an iterator that ends where the next one begins."""
    rest = iter(iterable)
    item = own = None
    ended, number = False, 0

    def advance() -> None:
        nonlocal item, own, ended
        try:
            item = next(rest)
        except StopIteration:
            ended = True
        else:
            own = item if key is None else key(item)

    def run(wanted: Any, at: int) -> Iterator[Any]:
        while at == number and not ended and own == wanted:
            yield item
            advance()

    advance()
    while not ended:
        wanted = own
        yield wanted, run(wanted, number)
        while not ended and own == wanted:
            advance()
        number += 1


@rule(itertools.groupby)
def _groupby(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.call(d.trusted(_grouped), args, kwargs)


@rule(itertools.zip_longest)
def _zip_longest(d: Symbolic, args: list, kwargs: dict) -> Any:
    fill = kwargs.get("fillvalue", Known(None))
    rows = itertools.zip_longest(*[d.unpack_all(arg) for arg in args], fillvalue=fill)
    return _iterator(d, iter([d.build_tuple(list(row)) for row in rows]))


@rule(itertools.starmap)
def _starmap(d: Symbolic, args: list, kwargs: dict) -> Any:
    part = d.iter(args[1])

    def pull() -> Iterator[Any]:
        while (item := d.next(part)) is not STOP:
            yield d.call(args[0], d.unpack_all(item), {})

    kind = itertools.starmap
    return _iterator(d, pull(), lazy=True, kind=kind, recipe=lambda: (kind, [args[0], part]))
