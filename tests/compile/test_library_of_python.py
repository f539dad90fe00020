"""Parts of Python's library, and instances of dictionary classes, in one graph."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import keyword
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula import nn


class Flags(enum.IntFlag):
    """Bits that are numbers."""

    A = 1
    B = 2


class Batch(dict):
    """A dictionary with attributes."""

    kind = "batch"

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self.extra = 2

    @property
    def count(self) -> int:
        """How many items there are."""
        return len(self)


def same_twice(function: Callable[..., Any], *args: Any) -> None:
    """The compiled function gives what eager gives, in one graph."""
    call = facula.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(call(*args)) == repr(function(*args))


def test_members_of_flags_have_a_truth() -> None:
    def f(x: Any, flags: Flags) -> Any:
        return x * 2 if flags & Flags.B else x

    call = facula.compile(f, backend="eager", fullgraph=True)
    for flags in (Flags.A, Flags.B, Flags.A | Flags.B, Flags(0)):
        assert facula.equal(call(facula.ones(2), flags), f(facula.ones(2), flags))


def test_groups_of_items() -> None:
    def f(x: Any) -> Any:
        runs = [(key, [x * n for n in group]) for key, group in itertools.groupby([1, 1, 2, 1])]
        halves = [key for key, _ in itertools.groupby(range(6), key=lambda n: n // 2)]
        late = [list(group) for group in [group for _, group in itertools.groupby("aab")]]
        return runs, halves, late

    same_twice(f, facula.ones(1))


def test_accumulate_starts_where_it_is_told() -> None:
    def f(x: Any) -> Any:
        return (
            list(itertools.accumulate([x, x], initial=x * 5)),
            list(itertools.accumulate([1, 3, 2], func=max)),
        )

    same_twice(f, facula.ones(1))


def test_cached_functions() -> None:
    calls: list[Any] = []

    @functools.cache
    def table(n: int) -> Any:
        calls.append(n)
        return facula.arange(n) * 2.0

    class Scaled(nn.Module):
        @functools.lru_cache(maxsize=2)  # noqa: B019 - what is tested
        def scale(self, n: int) -> int:
            return n + 1

        def forward(self, x: Any) -> Any:
            return x * table(3) * self.scale(3)

    module = Scaled()
    call = facula.compile(module, backend="eager", fullgraph=True)
    x = facula.ones(3)
    assert facula.equal(call(x), module(x))
    assert facula.equal(call(x), module(x))
    assert calls == [3]
    table.cache_clear()
    assert facula.equal(call(x), x * facula.arange(3) * 8.0)


def test_attributes_of_dictionaries() -> None:
    def f(x: Any, batch: Batch) -> Any:
        batch.extra += 1
        made = Batch(a=x * batch.extra)
        made.more = batch.count
        return made, made.kind, vars(made)

    call = facula.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        one, other = Batch(b=1), Batch(b=1)
        found, wanted = call(facula.ones(1), one), f(facula.ones(1), other)
        assert type(found[0]) is Batch
        assert repr(found) == repr(wanted)
        assert vars(one) == vars(other) == {"extra": 3}


def test_state_dicts() -> None:
    module = nn.Linear(2, 2)
    saved = module.state_dict()

    def f(x: Any, state: Any) -> Any:
        return module.state_dict()["weight"] * x, len(state._metadata)

    found = facula.compile(f, backend="eager", fullgraph=True)(facula.ones(2), saved)
    assert facula.equal(found[0], saved["weight"])
    assert found[1] == len(saved._metadata)  # type: ignore[attr-defined]
    made = facula.compile(lambda: module.state_dict(), backend="eager")()
    assert type(made) is collections.OrderedDict
    assert made._metadata == saved._metadata  # type: ignore[attr-defined]


@pytest.mark.breaks("data-dependent-value")
def test_a_method_of_a_list_that_waits_for_a_number() -> None:
    def f(x: Any) -> list[float]:
        out: list[float] = []
        for row in x:
            out.append(row.sum().item())  # noqa: PERF401 - the method waits on the stack
        return out

    counters = facula._dynamo.utils.counters
    call = facula.compile(f, backend="eager")
    call(facula.ones(2, 2)), call(facula.rand(2, 2))
    before = sum(counters["recompiles"].values())
    for _ in range(4):
        x = facula.rand(2, 2)
        assert call(x) == f(x)
    assert sum(counters["recompiles"].values()) == before


def test_an_operator_that_only_writes_needs_no_fake() -> None:
    @facula.library.custom_op("tests_of_python::increment", mutates_args={"x"})
    def increment(x: facula.Tensor) -> None:
        x.add_(1)

    def f(x: Any) -> Any:
        y = x * 2
        increment(y)
        return y + 1

    x = facula.ones(3)
    for backend in ("eager", "inductor"):
        call = facula.compile(f, backend=backend, fullgraph=True)
        assert facula.equal(call(x), f(x))


def test_operators_that_write_are_functional_in_flat_graphs() -> None:
    @facula.library.custom_op("tests_of_python::accumulate_into", mutates_args={"total", "count"})
    def accumulate_into(
        x: facula.Tensor, total: facula.Tensor, scale: float = 2.0, *, count: facula.Tensor
    ) -> facula.Tensor:
        total.add_(x * scale)
        count.add_(1)
        return x.sum()

    @accumulate_into.register_fake
    def _fake(x: Any, total: Any, scale: float = 2.0, *, count: Any) -> Any:
        return x.new_empty(())

    def f(x: Any, total: Any, count: Any) -> Any:
        inner = facula.zeros(3)
        accumulate_into(x, inner[1:2], 3.0, count=count)
        found = accumulate_into(x, total.view(-1), count=count)
        return found, inner * 2

    for backend in ("eager", "aot_eager", "inductor"):
        call = facula.compile(f, backend=backend, fullgraph=True)
        for _ in range(2):
            x = facula.rand(1)
            one, other = (
                (facula.zeros(1, 1), facula.zeros(2, dtype=facula.int64)) for _ in range(2)
            )
            found, wanted = call(x, *one), f(x, *other)
            assert repr((found, one)) == repr((wanted, other))


def test_dtypes_of_promotion() -> None:
    def f(x: Any) -> Any:
        return x.to(facula.promote_types(x.dtype, facula.float64)), facula.can_cast(
            x.dtype, facula.int32
        )

    same_twice(f, facula.ones(1))


def test_what_a_partial_function_has() -> None:
    def f(x: Any, name: str) -> Any:
        p = functools.partial(lambda a, b: a + b, b=x)
        return p(x) if hasattr(p, name) else x * 0

    for name in (
        "func",
        "args",
        "__call__",
        "__eq__",
        "__doc__",
        "__reduce__",
        "nothing",
        "__name__",
    ):
        same_twice(f, facula.ones(2), name)


def test_iterators_of_texts_and_ranges_made_by_hand() -> None:
    def f(x: Any) -> Any:
        it = range(1, 5).__iter__()
        next(it)
        letters = "ab".__iter__()
        return x * next(it) + (1 if next(letters) == "a" else 2)

    same_twice(f, facula.ones(2))


def test_classes_of_named_tuples_made_inside() -> None:
    def f(x: Any) -> Any:
        pair = collections.namedtuple("pair", ["a", "b"], defaults=(3,))
        made = pair(x)
        return made.a * made.b, made._fields

    same_twice(f, facula.ones(2))


def test_dictionaries_from_keys() -> None:
    def f(x: Any) -> Any:
        d = collections.defaultdict.fromkeys("ab", x)
        d["c"] = 2 * x
        o = collections.OrderedDict.fromkeys(["z", "y"], 1)
        return d, list(o), isinstance(d, collections.defaultdict)

    same_twice(f, facula.ones(2))


def test_kinds_of_the_module_typing() -> None:
    def f(x: Any, value: Any) -> Any:
        return x + 1 if isinstance(value, typing.Sequence) else x

    for value in ([1], (2,), {1: 2}):
        same_twice(f, facula.ones(2), value)


class _Base:
    pass


class _Derived(_Base):
    pass


def test_subclasses_and_members_of_constant_sets() -> None:
    def f(x: Any) -> Any:
        return x + len(_Base.__subclasses__()) + keyword.iskeyword("for") + (sys.intern("a") == "a")

    same_twice(f, facula.ones(2))
