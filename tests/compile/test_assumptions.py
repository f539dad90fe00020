"""Branches that only raise are assumed not to be taken: no break, and eager's error where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula import distributions
from facula.compiler.api import listening


def compiled(function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], list[str]]:
    """The compiled function, and the kinds of events of its calls."""
    kinds: list[str] = []
    inner = facula.compile(function, **options)

    def call(*args: Any) -> Any:
        with listening(lambda event: kinds.append(event.kind)):
            return inner(*args)

    return call, kinds


def asserting(x: Any) -> Any:
    y = x * 2
    assert (y > 0).all(), f"negative: {y.tolist()}"
    return y + 1


def test_an_assert_is_checked_behind_the_graph() -> None:
    call, kinds = compiled(asserting, fullgraph=True)
    ones = facula.ones(3)
    assert facula.equal(call(ones), asserting(ones))
    with pytest.raises(AssertionError, match=r"negative: \[-2.0, -2.0, -2.0\]"):
        call(-ones)
    assert facula.equal(call(ones), asserting(ones))
    assert kinds == ["assumption"]


def test_random_numbers_go_on_as_in_eager() -> None:
    def draws(x: Any) -> Any:
        noise = facula.rand(3)
        if facula.isnan(x).any() or (x < 0).any():
            raise ValueError(f"bad: {noise.tolist()}")
        return x + noise

    call, kinds = compiled(draws, fullgraph=True)
    good, bad = facula.ones(3), facula.tensor([1.0, float("nan"), 2.0])
    found = []
    for function in (draws, call):
        facula.manual_seed(3)
        first = function(good)
        with pytest.raises(ValueError, match="bad") as caught:
            function(bad)
        found.append((first.tolist(), str(caught.value), function(good).tolist()))
    assert found[0] == found[1]
    assert kinds == ["assumption"]


def test_a_caught_error_gives_what_the_handler_gives() -> None:
    def caught(x: Any) -> Any:
        try:
            if (x < 0).any():
                raise ValueError
            return x + 1
        except ValueError:
            return x - 1

    call, _ = compiled(caught, fullgraph=True)
    for x in (facula.ones(3), -facula.ones(3)):
        assert facula.equal(call(x), caught(x))


def test_an_error_of_the_graph_is_the_one_that_python_meets_first() -> None:
    def rows(table: Any, index: Any) -> Any:
        assert (index < 5).all(), "no such row"
        return table[index] * 2

    call, _ = compiled(rows, fullgraph=True)
    table = facula.randn(5, 2)
    assert facula.equal(call(table, facula.tensor([1, 2])), rows(table, facula.tensor([1, 2])))
    with pytest.raises(AssertionError, match="no such row"):
        call(table, facula.tensor([1, 7]))
    with pytest.raises(IndexError):
        call(table, facula.tensor([1, -7]))


@pytest.mark.breaks("data-dependent-branch")
def test_written_inputs_are_not_written_twice() -> None:
    def counts(x: Any) -> Any:
        x.add_(1)
        if not (x > 0).all():
            raise ValueError("negative")
        return x * 2

    call, kinds = compiled(counts)
    x = facula.zeros(3)
    assert facula.equal(call(x), facula.full((3,), 2.0))
    low = facula.full((3,), -5.0)
    with pytest.raises(ValueError, match="negative"):
        call(low)
    assert facula.equal(low, facula.full((3,), -4.0))
    assert "assumption" not in kinds


def test_gradients_flow_behind_an_assumption() -> None:
    x = facula.randn(4, requires_grad=True)
    call, kinds = compiled(lambda x: asserting(x.exp()).sum(), fullgraph=True)
    call(x).backward()
    assert x.grad is not None and facula.allclose(x.grad, 2 * x.detach().exp())
    assert kinds == []


@pytest.mark.breaks("data-dependent-branch")
def test_branches_that_do_not_only_raise_break_the_graph() -> None:
    def logs(x: Any) -> Any:
        if (x < 0).any():
            x = -x
        return x + 1

    call, kinds = compiled(logs)
    assert facula.equal(call(-facula.ones(3)), facula.full((3,), 2.0))
    assert "graph break" in kinds


def test_distributions_check_their_arguments_in_one_graph() -> None:
    def density(mean: Any, scale: Any) -> Any:
        other = distributions.Normal(0.0, 1.0)
        made = distributions.Normal(mean, scale)
        return made.log_prob(mean + 1), distributions.kl_divergence(made, other)

    call, kinds = compiled(density, fullgraph=True)
    mean, scale = facula.randn(3), facula.rand(3) + 0.5
    for got, want in zip(call(mean, scale), density(mean, scale), strict=True):
        assert facula.allclose(got, want)
    assert kinds == []
    with pytest.raises(ValueError, match="Expected parameter scale"):
        call(mean, -scale)
