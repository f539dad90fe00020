"""Modes do what they say, or an event says that they do not."""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula import nn
from facula._dynamo.utils import counters
from facula.compiler import tuning
from facula.compiler.api import listening


def told(function: Any, x: Any, mode: str | None) -> list[str]:
    """The modes of which events say that they have no effect."""
    events: list[Any] = []
    compiled = facula.compile(function, mode=mode)
    with listening(events.append), facula.no_grad():
        facula.testing.assert_close(compiled(x), function(x))
    found = [event for event in events if event.kind == "no effect"]
    assert all(event.rewrite for event in found)
    return [event.code for event in found]


def kernels(x: Any) -> Any:
    return x.sin() + 0.75


def with_calls(x: Any) -> Any:
    return (x + 1) @ x


def test_one_call_of_the_core_is_what_reduce_overhead_asks_for() -> None:
    assert told(kernels, facula.rand(40, 40), "reduce-overhead") == []


def test_reduce_overhead_says_where_it_has_no_effect() -> None:
    counters.clear()
    assert told(with_calls, facula.rand(40, 40), "reduce-overhead") == ["reduce-overhead"]
    assert counters["inductor"]["reduce-overhead_without_effect"] == 1


def test_max_autotune_measures_frozen_products() -> None:
    asked = tuning.ASKED[0]
    assert told(nn.Linear(32, 48), facula.rand(64, 32), "max-autotune-no-cudagraphs") == []
    assert tuning.ASKED[0] > asked


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_max_autotune_says_where_it_has_no_effect(mode: str) -> None:
    assert told(kernels, facula.rand(40, 40), mode) == ["max-autotune"]


@pytest.mark.parametrize("mode", [None, "default"])
def test_no_mode_asks_for_nothing(mode: str | None) -> None:
    assert told(with_calls, facula.rand(40, 40), mode) == []
