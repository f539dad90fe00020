"""A compiled program that gives one input another's elements, and then writes to that one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import facula

BACKENDS = ("aot_eager", "inductor")


def copied(x: Any, y: Any) -> None:
    y.copy_(x)


def replaced(x: Any, y: Any) -> None:
    y[:] = x


def copied_for_each(x: Any, y: Any) -> None:
    facula._foreach_copy_([y], [x])


def copied_as_same(x: Any, y: Any) -> None:
    y.copy_(x.contiguous().real.to(facula.float32))


def copied_and_turned(x: Any, y: Any) -> None:
    y.copy_(x)
    y.t_()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "give", [copied, replaced, copied_for_each, copied_as_same, copied_and_turned]
)
def test_old_elements_are_kept(give: Callable[..., None], backend: str) -> None:
    """A buffer of what was there before: given first, written over second."""

    @facula.compile(backend=backend, fullgraph=True)
    def program(x: Any, y: Any) -> Any:
        after = x + 1
        give(x, y)
        x.fill_(7)
        return after

    x, y = facula.arange(9.0).reshape(3, 3), facula.zeros(3, 3)
    old = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    assert np.array_equal(program(x, y).numpy(), old + 1)
    assert np.array_equal(x.numpy(), np.full((3, 3), 7, np.float32))
    assert np.array_equal(y.numpy(), old.T if give is copied_and_turned else old)


@pytest.mark.parametrize("backend", BACKENDS)
def test_turned_inputs_are_exchanged(backend: str) -> None:
    """Two inputs exchange their elements, and both are transposed in place."""

    @facula.compile(backend=backend, fullgraph=True)
    def program(x: Any, y: Any) -> None:
        x.t_()
        y.t_()
        kept = y.clone()
        y.copy_(x)
        x.copy_(kept)

    x, y = facula.arange(6.0).reshape(2, 3), facula.arange(6.0).reshape(2, 3) + 10
    first = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    program(x, y)
    assert np.array_equal(y.numpy(), first.T) and np.array_equal(x.numpy(), first.T + 10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_read_old_elements_through_views(backend: str) -> None:
    """What backward needs of an input is kept, though it is a view and the input is written later."""

    @facula.compile(backend=backend, fullgraph=True)
    def program(x: Any, w: Any) -> Any:
        loss = (x[0].expand(3, 3) * w).sum()
        x.zero_()
        return loss

    x = facula.arange(9.0).reshape(3, 3)
    w = facula.ones(3, 3, requires_grad=True)
    program(x, w).backward()
    assert np.array_equal(w.grad.numpy(), np.tile(np.arange(3.0, dtype=np.float32), (3, 1)))
