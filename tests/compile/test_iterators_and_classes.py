"""Iterators, generators and containers of classes of their own in compiled functions: what Python gives.

PYTEST_DONT_REWRITE: captured functions hold assertions of their own.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import types
import typing

import pytest

import facula

x = facula.tensor([1.0, 2.0])


def plain(value):
    """A result in terms of Python, iterators with their class and what they still give."""
    if isinstance(value, facula.Tensor):
        return value.tolist()
    if hasattr(value, "__next__"):
        return type(value), [plain(item) for item in itertools.islice(value, 5)]
    if isinstance(value, dict):
        return type(value), {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        own = {k: plain(v) for k, v in getattr(value, "__dict__", {}).items()}
        return type(value), [plain(item) for item in list.__iter__(list(value))], own
    if isinstance(value, (Holder, Guarded)):
        return type(value), plain(vars(value))
    return value


def check(function, *args):
    """Compiled as one graph, a function gives what it gives as it stands, and changes the same."""
    given, other = copy.deepcopy(args), copy.deepcopy(args)
    expected = plain(function(*given))
    compiled = facula.compile(function, backend="eager", fullgraph=True)
    assert plain(compiled(*other)) == expected
    assert plain(other) == plain(given)


def started_iterators(v):
    made = (
        itertools.count(2), itertools.repeat(1, 4), enumerate([5, 6, 7], 1), iter((1, v)),
        zip([1, 2, 3], map(lambda n: n + 1, [1, 2, 3]), strict=False), itertools.chain([1, 2], (3, 4)),
        filter(lambda n: n > 1, [1, 2, 3]), itertools.starmap(lambda a, b: a * b, [(1, 2), (3, 4)]),
        iter([1, 2, 3]),
    )  # fmt: skip
    for one in made:
        next(one)
    return *made, v + 1


def test_iterators_outlive_their_segment_with_class_and_position():
    check(started_iterators, x)
    check(lambda v: map(lambda n: n + v, [v, v * 2]), x)


def running_sums(items):
    total = 0
    for item in items:
        total = total + item
        yield total


def told_endings(told, given):
    """A generator that tells when it ends."""
    try:
        yield given
        yield given + 1
    finally:
        told.append("ended")


def left_by_a_break(v, told):
    for item in told_endings(told, v):
        found = item
        break
    told.append("behind the loop")
    return found


def left_by_a_return(v, told):
    def inner():
        for item in told_endings(told, v):
            return item

    item = inner()
    told.append("behind the call")
    return item


def kept_in_a_variable(v, told):
    items = told_endings(told, v)
    for item in items:
        found = item
        break
    told.append("behind the loop")
    return found + next(items)


def given_back(v, told):
    items = told_endings(told, v)
    next(items)
    told.append("behind the first")
    return items


@pytest.mark.parametrize(
    "function",
    [
        left_by_a_break,
        left_by_a_return,
        kept_in_a_variable,
        pytest.param(given_back, marks=pytest.mark.breaks),
    ],
)
def test_generators_that_are_left_end_where_python_ends_them(function):
    wanted, got, again = [], [], []
    compiled = facula.compile(function, backend="eager")
    function(x, wanted)
    for told in (got, again):
        compiled(x, told)
    assert got == again == wanted and "ended" in wanted


def test_a_generator_that_has_not_started_is_made_again():
    check(lambda v: (running_sums([v, v + 1]), itertools.compress("abc", [1, 0, 1])), x)


def test_iterators_from_outside_are_moved_on():
    step = facula.compile(lambda v, it: v + next(it), backend="eager", fullgraph=True)
    for it in (iter([1, 2, 3]), iter(range(1, 4)), iter((1, 2, 3))):
        assert [step(x, it).tolist() for _ in range(3)] == [[2.0, 3.0], [3.0, 4.0], [4.0, 5.0]]
        assert list(it) == []


def test_items_are_appended_one_by_one():
    def grows(v):
        known = [1]
        known.extend(map(lambda n: n + known[-1], range(3)))
        known.extend(known)
        last = collections.deque([1], maxlen=3)
        last.extendleft(map(lambda n: n + last[0], range(4)))
        last.extend([5, 6])
        return known, last, v + 1

    check(grows, x)


class Seen(list):
    """A list that notes questions, and refuses indices."""

    def __contains__(self, item):
        self.asked = item
        return super().__contains__(item)

    def __getitem__(self, at):
        raise RuntimeError("not by index")


def test_methods_of_a_class_of_lists_are_followed():
    def asks(v, items):
        found = 3 in items
        items.append(4)
        return (v + 1 if found else v - 1), items

    check(asks, x, Seen([1, 2, 3]))
    check(lambda v: (list.__new__(list), list.__new__(Seen), dict.__new__(dict), v + 1), x)


class Pair(collections.namedtuple("Pair", "a b")):
    def __new__(cls, a, b):
        return super().__new__(cls, a, b)

    def __add__(self, other):
        return Pair(self.a + other.a, self.b + other.b)


class Indexed(typing.NamedTuple):
    a: facula.Tensor
    b: facula.Tensor

    def __getitem__(self, at):
        return 77


def test_named_tuples_keep_operators_attributes_and_fields_of_their_own():
    def uses(p, q):
        total = p + q
        total.note = total.a * 2
        refused = False
        try:
            total.a = 0
        except AttributeError:
            refused = True
        return total, total.note, len(total._fields), total._replace(a=p.a), refused

    check(uses, Pair(x, x), Pair(x, x + 1))
    check(lambda t: (t.a + t[0], len(t)), Indexed(x, x))


def test_views_of_dictionaries_come_as_arguments():
    def reads(v, d, keys, items):
        total = v + (d["c"] if "c" in keys else 7) + len(keys)
        for _, item in items:
            total = total + item
        return total

    compiled = facula.compile(reads, backend="eager", fullgraph=True)
    table = {"a": 1, "b": 2}
    for _ in range(2):
        args = x, table, table.keys(), table.items()
        assert compiled(*args).tolist() == reads(*args).tolist()
        table["c"] = 5


@dataclasses.dataclass(frozen=True)
class Inner:
    a: int
    b: tuple


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    c: float


def test_frozen_dataclasses_are_keys_by_their_fields():
    outside = {Outer(Inner(1, (2,)), 3.0): 4}

    def looks(v):
        key = Outer(Inner(1, (2,)), 3.0)
        table = {key: 2}
        table[Outer(Inner(1, (2,)), 3.5)] = 7
        found = table[Outer(Inner(1, (2,)), 3.0)] + outside[key]
        return v + found, len(table), Outer(Inner(2, (2,)), 3.0) in outside, table

    check(looks, x)


def test_sets_of_functions_and_sets_in_sets():
    chosen = frozenset([facula.add, print, running_sums])
    check(lambda v, f: v + 1 if f in chosen else v - 1, x, facula.add)
    check(lambda v, f: v + 1 if f in chosen else v - 1, x, running_sums)
    check(lambda v, f: v + 1 if f in chosen else v - 1, x, facula.mul)
    check(lambda v: v + 1 if set("abc") in {frozenset("abc")} else v, x)


class Doubles:
    """A descriptor that sets and does not get."""

    def __set__(self, owner, value):
        owner.__dict__["field"] += value * 2


class Holder:
    field = Doubles()

    def __init__(self):
        self.__dict__["field"] = 0


class Guarded:
    def __getattribute__(self, name):
        if name == "hidden":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name):
        if name == "hidden":
            return 5
        raise AttributeError(name)


def test_descriptors_without_get_and_attributes_that_getattribute_refuses():
    def writes(v, owner):
        owner.field = 10
        return v + owner.field

    check(writes, x, Holder())
    check(lambda v, owner: (v + owner.hidden, hasattr(owner, "other")), x, Guarded())


def test_descriptors_of_c_are_called():
    getter, of_class = facula.Tensor.shape, type.__dict__["__dict__"].__get__
    check(lambda v: (v + 1, getter.__get__(v), len(of_class(Holder)), Holder().__weakref__), x)


def test_annotations_are_computed():
    def annotated(v):
        def inner(
            a: None | facula.Tensor, b: typing.Callable[[int], int], c: facula.Tensor | list[int],
            d: typing.Optional[typing.List[int]] = None,  # noqa: UP006, UP007, UP045
        ):  # fmt: skip
            return a

        return inner(v + 1, 2, 3)

    check(annotated, x)


def test_attributes_of_modules_are_written_behind_the_graph():
    module = types.ModuleType("changing")
    module.v = 1

    def counts(v):
        module.v = module.v + 1
        return v + module.v

    compiled = facula.compile(counts, backend="eager", fullgraph=True)
    assert compiled(x).tolist() == [3.0, 4.0] and module.v == 2
    assert compiled(x).tolist() == [4.0, 5.0] and module.v == 3


def test_arguments_that_rules_have_no_place_for():
    check(
        lambda v: dict.fromkeys("ab", v)["a"] + collections.OrderedDict.fromkeys("a", value=v)["a"],
        x,
    )
    check(lambda v: v.new(facula.ones(5, 8).size()).shape, x)
    check(lambda v: v.type(facula.HalfTensor).dtype, x)
    for wrong in (
        lambda v: isinstance(v, int, invalid=True),
        lambda v: list(itertools.permutations()),
        lambda v: list(map(None)),
    ):
        with pytest.raises(TypeError):
            facula.compile(wrong, backend="eager")(x)


def test_named_results_are_made_of_one_sequence():
    check(lambda v: facula.return_types.max((v, v + 1)), x)


def test_data_of_a_tensor_lies_where_the_tensor_does():
    def reads(v, at):
        assert at.data.device == at.device
        return v[at.data] + v.data, str(at.data.device)

    check(reads, x, facula.tensor([1, 0]))
