"""Futures end once and tell everybody."""

from __future__ import annotations

import pickle

import pytest

import facula
from facula.futures import Future, collect_all, wait_all


def test_values_and_callbacks():
    future: Future = Future()
    heard = []
    future.add_done_callback(lambda f: heard.append(f.value()))
    after = future.then(lambda f: f.value() + 1)
    assert not future.done() and not after.done()
    future.set_result(1)
    assert heard == [1] and after.wait() == 2 and future.then(lambda f: 5).value() == 5
    with pytest.raises(RuntimeError, match="once"):
        future.set_result(2)


def test_exceptions_are_passed_on():
    future: Future = Future()
    after = future.then(lambda f: f.value())
    future.set_exception(ValueError("no"))
    with pytest.raises(RuntimeError, match="ValueError: no"):
        after.wait()
    both = [Future(), Future()]
    whole = collect_all(both)
    for f in both:
        f.set_result(3)
    assert [f.value() for f in whole.wait()] == [3, 3] and wait_all(both) == [3, 3]


def test_errors_of_callbacks():
    first = Future()
    second = first.then(lambda future: future.wait() + "text")
    first.set_result(5)
    with pytest.raises(RuntimeError, match="Got the following error .*TypeError") as caught:
        second.wait()
    assert isinstance(caught.value.__cause__, TypeError)
    failed = Future()
    failed.set_exception(KeyError("mine"))
    with pytest.raises(KeyError, match="mine"):
        failed.wait()


def test_what_is_no_future_and_what_is_no_value():
    for refused in (wait_all, collect_all, lambda futures: facula.jit.wait(futures[0])):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            refused([None])
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(Future())
