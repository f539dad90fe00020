"""Compiled optimizer steps: one segment for the first step and those that follow it."""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula import nn, optim
from facula.capture.events import COUNTERS

KINDS = [optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adagrad, optim.RMSprop]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    facula.compiler.reset()
    yield
    facula.compiler.reset()


def parameters(count: int = 3) -> list[Any]:
    made = [nn.Parameter(facula.linspace(-1, 1, 6 + k)) for k in range(count)]
    for p in made[:-1]:
        p.grad = p.detach().square() + 0.1
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_step_serves_the_second(kind: Any) -> None:
    eager, compiled = parameters(), parameters()
    plain, watched = kind(eager, lr=0.05), kind(compiled, lr=0.05)
    step = facula.compile(watched.step)
    for _ in range(3):
        plain.step()
        step()
    assert not COUNTERS["recompiles"]
    for p, q in zip(eager, compiled, strict=True):
        assert facula.allclose(p, q, rtol=1e-5, atol=1e-6)
    assert len(watched.state) == len(plain.state)  # nothing for what has no gradient
    assert float(watched.state[compiled[0]]["step"]) == 3


def test_what_the_segment_has_seen_is_not_changed_behind_its_back() -> None:
    (p,) = parameters(2)[:1]
    optimizer = optim.Adam([p], lr=0.1)

    @facula.compile
    def step() -> int:
        before = len(optimizer.state)
        optimizer.step()
        return before

    assert [step(), step()] == [0, 1]
    assert float(optimizer.state[p]["step"]) == 2


def test_gradients_that_the_segment_takes_away_make_no_state() -> None:
    made = parameters(2)
    optimizer = optim.AdamW(made, lr=0.1)

    @facula.compile
    def step() -> None:
        made[0].grad = None
        optimizer.step()

    step()
    assert not optimizer.state


def test_sparse_gradients_are_still_refused() -> None:
    p = nn.Parameter(facula.zeros(4, 2))
    p.grad = facula.sparse_coo_tensor(facula.tensor([[1]]), facula.ones(1, 2), (4, 2))
    with pytest.raises(RuntimeError, match="sparse gradients"):
        facula.compile(optim.Adam([p]).step)()
