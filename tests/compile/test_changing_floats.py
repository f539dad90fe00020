"""Floats from outside that change: one graph serves them where they are operands or are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula import nn


def counted(function: Callable[..., Any], **options: Any) -> tuple[Any, list[Any]]:
    """The compiled function, and the graphs that it was captured as."""
    graphs: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module

    return facula.compile(function, backend=backend, **options), graphs


VALUES = (0.5, 0.25, 1.5, -3.0, 1e30, 0.7, 2.5, 4.0, 5.5, 6.0, 7.0)


def test_an_operand_that_changes_is_captured_twice() -> None:
    def scaled(x: Any, s: float) -> Any:
        t = s * 2 + 1 - s / 4
        return x * t + s, (x.sum() * s, t, -s, [s])

    call, graphs = counted(scaled)
    x = facula.rand(3)
    for s in VALUES:
        found, wanted = call(x, s), scaled(x, s)
        assert facula.allclose(found[0], wanted[0])
        assert facula.allclose(found[1][0], wanted[1][0])
        assert found[1][0].dtype is facula.float32
        assert found[1][1:] == wanted[1][1:]
    assert len(graphs) == 2


def test_comparisons_are_guards() -> None:
    def branch(x: Any, s: float) -> Any:
        return x * s if s > 1 else x - s

    call, graphs = counted(branch)
    for s in VALUES:
        x = facula.rand(3)
        assert facula.allclose(call(x, s), branch(x, s))
    assert len(graphs) <= 4


@pytest.mark.parametrize("dtype", [facula.int64, facula.bfloat16, facula.float16, facula.float64])
def test_other_dtypes_give_what_eager_gives(dtype: Any) -> None:
    def scaled(x: Any, s: float) -> Any:
        return x * s, x.add(s), s - x

    call, _ = counted(scaled)
    x = facula.arange(1, 5).to(dtype)
    for s in (0.1, 0.3, 0.7):
        for found, wanted in zip(call(x, s), scaled(x, s), strict=True):
            assert found.dtype is wanted.dtype
            assert facula.equal(found, wanted)


def test_zeros_keep_their_sign_and_nan_is_no_number() -> None:
    def described(x: Any, s: float) -> Any:
        return x, f"{s * 0:.1f} {s:.1f}", s != s

    call, _ = counted(described)
    x = facula.ones(1)
    for s in (0.5, 1.5, 0.0, -0.0, -2.0, 2.0, float("nan"), float("inf")):
        assert call(x, s)[1:] == described(x, s)[1:]


def test_a_division_by_zero_is_the_programs_own() -> None:
    def inverse(x: Any, s: float) -> Any:
        try:
            return x * (1 / s)
        except ZeroDivisionError:
            return x

    call, _ = counted(inverse)
    x = facula.ones(2)
    for s in (0.5, 0.25, 0.125, 0.0, 2.0):
        assert facula.equal(call(x, s), inverse(x, s))


@pytest.mark.breaks("data-dependent-value")
def test_a_number_out_of_a_tensor_behind_a_break() -> None:
    def by_mean(x: Any) -> Any:
        mean = x.mean().item()
        return x if mean > 100 else x * mean

    call, graphs = counted(by_mean)
    for _ in range(12):
        x = facula.randn(4)
        assert facula.allclose(call(x), by_mean(x))
    assert len(graphs) <= 3


@pytest.mark.breaks("disabled")
@pytest.mark.parametrize("rate", [0.01, facula.tensor(0.01)])
def test_rates_of_a_schedule_are_captured_at_most_twice(rate: Any) -> None:
    def trained(wrap: Callable[[Any], Any]) -> Any:
        facula.manual_seed(0)
        model = nn.Linear(3, 1)
        start = rate.clone() if isinstance(rate, facula.Tensor) else rate
        optimizer = facula.optim.AdamW(model.parameters(), lr=start)
        schedule = facula.optim.lr_scheduler.LinearLR(optimizer, total_iters=12)

        def step() -> None:
            optimizer.step()
            schedule.step()

        run = wrap(step)
        for _ in range(12):
            optimizer.zero_grad()
            model(facula.randn(4, 3)).pow(2).mean().backward()
            run()
        return model.weight.detach()

    graphs: list[Any] = []

    def wrap(function: Any) -> Any:
        call, made = counted(function)
        graphs.append(made)
        return call

    assert facula.allclose(trained(wrap), trained(lambda f: f), atol=1e-6)
    assert len(graphs[0]) <= 2
