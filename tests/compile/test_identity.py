"""Which objects are one, in compiled programs: the oracle is the same program, not compiled.

Each program is captured for two objects that are different ones, and then called with one under both names.
"""

import dataclasses
import enum
import itertools

import pytest

import facula


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Letter(enum.StrEnum):
    A = "a"
    B = "b"


class Plain:
    def __init__(self, value=0):
        self.value = value

    def method(self):
        return self.value


@dataclasses.dataclass
class Record:
    value: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: int


class Slotted:
    __slots__ = ("extra", "other")


def _one(x, a, b):
    return x + 1 if a is b else x - 1


def _other(x, a, b):
    return x + 1 if a is not b else x - 1


def _equal(x, a, b):
    return x + 1 if a == b else x - 1


def _unequal(x, a, b):
    return x + 1 if a != b else x - 1


def _among(x, a, b):
    return x + 1 if a in [b] else x - 1


def _key(x, a, b):
    return x + {a: 1}.get(b, 5)


def _in_set(x, a, b):
    return x + len({a, b})


def _count(x, a, b):
    return x + [a, b].count(a)


def _position(x, a, b):
    return x + [a, b].index(b)


def _tuples(x, a, b):
    return x + 1 if (a, 1) == (b, 1) else x - 1


def _attribute(x, a, b):
    holder = Plain(a)
    return x + 1 if holder.value is b else x - 1


HASHED = {
    "object": (Plain(), Plain()),
    "enum": (Colour.RED, Colour.BLUE),
    "text enum": (Letter.A, Letter.B),
    "frozen": (Frozen(1), Frozen(1)),
    "function": (_one, _other),
    "class": (Plain, Record),
    "module": (facula.nn.ReLU(), facula.nn.ReLU()),
    "method": (Plain().method, Plain().method),
    "counter": (itertools.count(), itertools.count()),
    "iterator": (iter([1]), iter([2])),
}
UNHASHED = {
    "list": ([1], [1]),
    "dict": ({}, {}),
    "set": ({1}, {1}),
    "record": (Record(1), Record(1)),
}
BY_IDENTITY = (_one, _other, _attribute)
BY_EQUALITY = (_equal, _unequal, _among, _count, _position, _tuples)
BY_HASH = (_key, _in_set)


def _check(program, a, b):
    compiled = facula.compile(program, backend="eager")
    x = facula.zeros(1)
    for first, second in ((a, b), (a, a), (b, b), (b, a)):
        assert compiled(x, first, second).item() == program(x, first, second).item()


@pytest.mark.parametrize("kind", HASHED)
@pytest.mark.parametrize("program", BY_IDENTITY + BY_EQUALITY + BY_HASH)
def test_hashable_objects_that_are_one_later(program, kind):
    _check(program, *HASHED[kind])


@pytest.mark.parametrize("kind", UNHASHED)
@pytest.mark.parametrize("program", BY_IDENTITY + BY_EQUALITY)
def test_containers_that_are_one_later(program, kind):
    _check(program, *UNHASHED[kind])


@pytest.mark.parametrize("program", [*BY_IDENTITY, *BY_HASH])
def test_tensors_that_are_one_later(program):
    _check(program, facula.ones(1), facula.ones(1))


@pytest.mark.parametrize("kind", [*HASHED, *UNHASHED])
def test_an_object_of_the_closure(kind):
    kept, other = {**HASHED, **UNHASHED}[kind]

    def program(x, a):
        return x + 1 if a is kept else x - 1

    compiled = facula.compile(program, backend="eager")
    found = [compiled(facula.zeros(1), a).item() for a in (other, kept, other, kept)]
    assert found == [-1, 1, -1, 1]


def test_what_a_kept_dictionary_has_for_another_object():
    first, second = Plain(), Plain()
    table = {first: 1.0, second: 2.0}

    def program(x, a):
        return x + table[a] + (10 if a in table else 0)

    compiled = facula.compile(program, backend="eager")
    assert [compiled(facula.zeros(1), a).item() for a in (first, second, first)] == [11, 12, 11]


def test_tensors_that_a_kept_dictionary_has():
    first, second, third = (facula.ones(1) for _ in range(3))
    table = {first: 1.0, second: 2.0}

    def found(x, a):
        return x + table.get(a, 9)

    def within(x, a):
        return x + (a in set(table))

    for program, expected in ((found, [1, 2, 9, 1]), (within, [1, 1, 0, 1])):
        compiled = facula.compile(program, backend="eager")
        called = [compiled(facula.zeros(1), a).item() for a in (first, second, third, first)]
        assert called == expected


def test_a_slot_that_is_filled_later():
    def has(x, a):
        return x + 1 if hasattr(a, "extra") else x - 1

    def given(x, a):
        return x + getattr(a, "extra", 7)

    def tried(x, a):
        try:
            return x + a.extra
        except AttributeError:
            return x - 1

    for program, expected in ((has, [-1, 1, -1]), (given, [7, 3, 7]), (tried, [-1, 3, -1])):
        compiled = facula.compile(program, backend="eager")
        a = Slotted()
        found = [compiled(facula.zeros(1), a).item()]
        a.extra = 3
        found.append(compiled(facula.zeros(1), a).item())
        del a.extra
        found.append(compiled(facula.zeros(1), a).item())
        assert found == expected


def test_new_tensors_as_keys_are_no_new_programs():
    graphs = []

    def keep(graph, examples):
        graphs.append(graph)
        return graph

    @facula.compile(backend=keep)
    def program(a, b):
        return {a: 1, b: 2}[b] + a + b

    for _ in range(3):
        assert program(facula.ones(1), facula.ones(1)).item() == 4
    assert len(graphs) == 1


def test_names_without_a_value():
    def program(x, log):
        def inner():
            return late

        for action in (inner, lambda: late):
            try:
                action()
            except NameError as error:
                log.append((type(error), str(error)))
        try:
            x = x + late
        except NameError as error:
            log.append((type(error), str(error)))
        try:
            del late
        except NameError as error:
            log.append((type(error), str(error)))
        late = 1
        return x + late

    found, expected = [], []
    facula.compile(program, backend="eager")(facula.zeros(1), found)
    program(facula.zeros(1), expected)
    assert found == expected
