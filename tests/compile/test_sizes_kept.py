"""What a dynamic graph keeps for the sizes that it met is bounded, and forgotten sizes still compute."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import facula
from facula._dynamo import config
from facula._dynamo.utils import counters


class Plans:
    """A backend that compiles for fixed sizes, and counts its results."""

    specialises = True

    def __init__(self) -> None:
        self.alive = self.most = self.made = 0

    def __call__(self, module: Any, inputs: Any) -> Any:
        return Plan(self, module)


class Plan:
    def __init__(self, owner: Plans, module: Any) -> None:
        self.owner, self.module = owner, module
        owner.made += 1
        owner.alive += 1
        owner.most = max(owner.most, owner.alive)

    def __call__(self, *args: Any) -> Any:
        return self.module(*args)

    def __del__(self) -> None:
        self.owner.alive -= 1


def shifted(x: Any) -> Any:
    return x[0] * 2 + x.shape[0]


def test_ten_thousand_sizes_keep_no_more_than_the_last() -> None:
    plans = Plans()
    compiled = facula.compile(shifted, backend=plans, dynamic=True)
    for n in range(2, 10_002):
        assert compiled(facula.ones(n)).item() == 2 + n
    assert plans.made == 10_000
    assert plans.most <= config.sizes_kept + 1 and plans.alive <= config.sizes_kept
    assert compiled(facula.ones(3)).item() == 5.0  # forgotten, and made again
    assert plans.made == 10_001


def test_sizes_in_use_stay() -> None:
    counters.clear()
    plans = Plans()
    with config.patch(sizes_kept=3):
        compiled = facula.compile(shifted, backend=plans, dynamic=True)
        for n in (2, 3, 4, 2, 5, 2, 6, 2):  # 2 is always among the last three
            compiled(facula.ones(n))
    assert plans.made == 5 and counters["stats"]["sizes_forgotten"] == 2


@pytest.mark.parametrize("train", [False, True])
def test_compiled_graphs_of_forgotten_sizes_are_gone(train: bool) -> None:
    def kept() -> int:
        gc.collect()
        return sum(
            isinstance(o, (facula.core.GraphLaunch, facula.fx.GraphModule))
            for o in gc.get_objects()
        )

    weight = facula.rand(4, 4, requires_grad=train)

    def layer(x: Any) -> Any:
        return (x @ weight).relu().sum(0)

    with config.patch(sizes_kept=2):
        compiled = facula.compile(layer, dynamic=True)
        for n in range(30, 60):  # programs for many sizes are made first, and stay
            x = facula.rand(n, 4)
            facula.testing.assert_close(compiled(x), layer(x))
            if n == 36:
                before = kept()
    assert kept() <= before


def test_backward_of_a_forgotten_size_still_runs() -> None:
    x, y = facula.rand(3, 4, requires_grad=True), facula.rand(5, 4)
    with config.patch(sizes_kept=1):
        compiled = facula.compile(lambda x: (x * x).sum(), dynamic=True)
        result = compiled(x)
        compiled(y)
        result.backward()
    facula.testing.assert_close(x.grad, 2 * x.detach())


def test_assumptions_on_inner_sizes_hold_for_tensors_with_a_history_that_are_written_to():
    def function(x, y):
        y.copy_(x)
        return (x * 2).chunk(2)[-1]

    compiled = facula.compile(function)
    for length, needs in ((2, False), (4, True)):
        x = facula.arange(float(length)).requires_grad_(needs)
        y = facula.ones(length).requires_grad_(needs) * 1
        assert facula.equal(compiled(x, y), function(x, y.detach().clone())), length
        assert facula.equal(y, x)
