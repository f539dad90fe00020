"""Builtin functions in compiled programs: what they write, what they look for, what they raise.

The oracle is the same program, not compiled, on arguments of its own.
"""

import bisect
import collections
import enum
import functools
import operator

import pytest

import facula


class Colour(enum.Enum):
    RED = 1


WRITES = {
    "insort": lambda items: bisect.insort(items, 2),
    "insort_left": lambda items: bisect.insort_left(items, 0),
    "iconcat": lambda items: operator.iconcat(items, [7]),
    "delitem": lambda items: operator.delitem(items, 0),
    "delitem of a slice": lambda items: operator.delitem(items, slice(None, None, 2)),
}
QUESTIONS = {
    "index": lambda items: [*items, *items].index(3, 3),
    "index between": lambda items: tuple([*items, *items]).index(1, -3, 5),
    "index of a deque": lambda items: collections.deque([1, 2, 1]).index(1, 1),
    "first of several": lambda items: [3, 1, 3].index(3),
    "pow by name": lambda items: pow(base=2, exp=items[0] + 2),
    "cached": lambda items: functools.lru_cache(None)(lambda v: v * 2)(items[0]),
}
REFUSED = {
    "step": lambda items: items[::0],
    "member": lambda items: Colour["BLUE"],
    "times": lambda items: items * 1.5,
    "place": lambda items: items.insert("a", 1),
    "name": lambda items: getattr(items, 5),
    "question": lambda items: hasattr(items, 5),
    "kinds": lambda items: isinstance(items, 5),
    "constant": lambda items: facula.cuda.is_available(5),
    "absent": lambda items: items.index(3, 9),
    "free": lambda items: (items, undefined_name),  # noqa: F821 - that is the case
}


def _both(program):
    compiled = facula.compile(program, backend="eager")
    return [function(facula.ones(1), [1, 2, 3]) for function in (compiled, program)]


@pytest.mark.breaks("data-dependent-value", "unsupported-call")
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_an_argument(name):
    write = WRITES[name]

    def program(x, items):
        kept = items
        write(items)
        return (x + len(items)).item(), items, kept

    found, expected = _both(program)
    assert found == expected
    assert found[1] is found[2]


@pytest.mark.breaks("unsupported-call", "data-dependent-value")
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_asked(name):
    question = QUESTIONS[name]
    found, expected = _both(lambda x, items: (x + question(items)).item())
    assert found == expected


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    action = REFUSED[name]

    def program(x, items):
        try:
            action(items)
        except Exception as error:
            return type(error), str(error)
        return None

    found, expected = _both(program)
    assert found[0] is expected[0]


@pytest.mark.breaks("data-dependent-value", "recompile-limit")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("action", ["//", "%", "/", "**", "<<", ">>", "unused"])
def test_numbers_that_change_and_are_not_always_allowed(action, dynamic):
    """A quotient of a number that was 5 and is 0 now, and powers that turn into fractions."""

    def program(x, n):
        m = n - 3
        if action == "//":
            return (x + 7 // m).item()
        if action == "%":
            return (x + 7 % m).item()
        if action == "/":
            return (x + 7 / m).item()
        if action == "**":
            return x.item(), type(2**m), 2**m
        if action == "<<":
            return (x + (1 << m)).item()
        if action == ">>":
            return (x + (64 >> m)).item()
        1 // m  # the result is used by nobody
        return x.item()

    def outcome(function, n):
        try:
            return function(facula.ones(1), n)
        except (ZeroDivisionError, ValueError) as error:
            return type(error)

    compiled = facula.compile(program, backend="eager", dynamic=dynamic)
    for n in (5, 7, 4, 3, 9, 2, 3, 1):
        assert outcome(compiled, n) == outcome(program, n)
