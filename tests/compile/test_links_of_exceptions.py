"""Exceptions of captured programs know what led to them; containers notice changes while they are iterated."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest

import facula


class Coded(Exception):
    """Has attributes that classes of C give other exceptions."""

    def __init__(self, code: int, *, text: str = "text") -> None:
        super().__init__(text)
        self.code = code
        self.value = 2 * code


def own_attributes(x: Any) -> Any:
    try:
        raise Coded(3, text="other")
    except (Coded, TypeError) as error:
        return x * error.code, error.value, str(error), error.args, vars(error)


def with_cause(x: Any) -> Any:
    try:
        try:
            raise ValueError("inner")
        except ValueError as inner:
            raise RuntimeError("outer") from inner
    except RuntimeError as error:
        return x + 1, *map(repr, (error.__cause__, error.__context__)), error.__suppress_context__


def without_cause(x: Any) -> Any:
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            raise RuntimeError("outer") from None
    except RuntimeError as error:
        return x + 1, *map(repr, (error.__cause__, error.__context__)), error.__suppress_context__


def raised_below(x: Any) -> Any:
    def look_up() -> None:
        try:
            {}["a"]
        except KeyError:
            raise Coded(1)  # noqa: B904

    try:
        look_up()
    except Coded as error:
        return x, repr(error.__context__), error.__suppress_context__


def raised_again(x: Any) -> Any:
    try:
        raise ValueError(1)
    except ValueError as first:
        try:
            try:
                raise KeyError(2)
            except KeyError:
                raise first  # noqa: B904
        except ValueError as again:
            return x, repr(again.__context__), repr(again.__context__.__context__)


def class_as_cause(x: Any) -> Any:
    try:
        raise ValueError from KeyError
    except ValueError as error:
        error.__context__ = IndexError(4)
        return x, repr(error.__cause__), repr(error.__context__), vars(error)


def stopped_generator(x: Any) -> Any:
    def generator() -> Any:
        yield x
        raise StopIteration

    try:
        return list(generator())
    except RuntimeError as error:
        return x, str(error), repr(error.__cause__)


PROGRAMS = [
    own_attributes, with_cause, without_cause, raised_below, raised_again, class_as_cause,
    stopped_generator,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_links_are_those_of_the_uncompiled_program(program: Callable[[Any], Any]) -> None:
    """Cause, context and attributes of an exception are Python's."""
    call = facula.compile(program, backend="eager", fullgraph=True)
    assert repr(call(facula.ones(2))) == repr(program(facula.ones(2)))


def test_links_of_an_exception_that_leaves() -> None:
    """What leaves a compiled call has its whole history."""

    @facula.compile(backend="eager")
    def program(x: Any) -> None:
        x.add_(1)
        try:
            raise KeyError("inner")
        except KeyError:
            raise Coded(1)  # noqa: B904

    with pytest.raises(Coded) as caught:
        program(facula.ones(2))
    assert repr(caught.value.__context__) == "KeyError('inner')"


def added(x: Any) -> Any:
    d = {"a": 1}
    for key in d:
        d[key + "b"] = x


def removed(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    for key, _ in d.items():
        del d[key]


def exchanged(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    for key in d.keys():  # noqa: SIM118
        d[key + "c"] = d.pop(key)


def added_to_set(x: Any) -> Any:
    s = {1, 2}
    for item in s:
        s.add(item + 10)


def taken_from_ordered(x: Any) -> Any:
    d = collections.OrderedDict(a=1, b=2)
    for key in d:
        d.pop(key)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (added, "dictionary changed size during iteration"),
        (removed, "dictionary changed size during iteration"),
        (exchanged, "dictionary keys changed during iteration"),
        (added_to_set, "Set changed size during iteration"),
        (taken_from_ordered, "OrderedDict mutated during iteration"),
    ],
)
def test_changes_while_iterating(change: Callable[[Any], Any], text: str) -> None:
    """A container that changes while it is iterated says so, as Python's do."""

    @facula.compile(backend="eager", fullgraph=True)
    def program(x: Any) -> Any:
        try:
            change(x)
        except RuntimeError as error:
            return x + 1, str(error)

    assert program(facula.ones(2))[1] == text


def test_items_are_read_when_they_are_reached() -> None:
    """A value that is put in ahead of the iteration is the one that it finds."""

    @facula.compile(backend="eager", fullgraph=True)
    def program(x: Any, d: dict[str, Any]) -> Any:
        found = []
        for _, value in d.items():
            d["b"] = x + 5
            found.append(value)
        return found

    found = program(facula.ones(2), {"a": 1, "b": 2})
    assert found[0] == 1 and found[1].tolist() == [6, 6]
