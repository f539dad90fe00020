"""Hooks on tensors that a compiled program computes."""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula import nn
from facula.capture.events import COUNTERS

BACKENDS = pytest.mark.parametrize("backend", ["eager", "inductor"])


def gradient(function: Any, calls: int = 2) -> list[Any]:
    """The result of each of some calls, and the gradient behind each."""
    found = []
    x = facula.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for _ in range(calls):
        y = function(x)
        y.sum().backward()
        found.append((y.detach().tolist(), x.grad.tolist()))
    return found


def replaced(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y * y


def closed_over(x: Any) -> Any:
    limit, y = 5.0, x.sin()

    def clip(g: Any) -> Any:
        return g.clamp(max=limit)

    y.register_hook(clip)
    y.register_hook(lambda g: g + x.detach())
    return y * 100


def looked_at(x: Any) -> Any:
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: None)
    return y + 1


def written_behind(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * (2 if g.shape[0] == 3 else 1))
    y.mul_(3)
    return y


class Scaled(nn.Module):
    """A module whose hook is a method."""

    scale = 4

    def hook(self, g: Any) -> Any:
        """The gradient, scaled."""
        return g * self.scale

    def forward(self, x: Any) -> Any:
        """Twice as much."""
        y = x * 2
        y.register_hook(self.hook)
        return facula.relu(y)


@BACKENDS
@pytest.mark.parametrize("program", [replaced, closed_over, looked_at, written_behind, Scaled()])
def test_hooks_are_part_of_the_graph(program, backend):
    call = facula.compile(program, backend=backend, fullgraph=True)
    assert gradient(call) == gradient(program)


@pytest.mark.breaks("data-dependent-value")
@BACKENDS
def test_hooks_that_keep_gradients_break(backend):
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        return y * y

    wanted = gradient(f)
    kept = list(seen)
    seen.clear()
    COUNTERS.clear()
    assert gradient(facula.compile(f, backend=backend)) == wanted
    assert seen == kept
    assert sum(COUNTERS["graph_break"].values()) == 1


@pytest.mark.breaks("unsupported-call", "unsupported-value")
@BACKENDS
def test_hooks_that_are_removed(backend):
    def f(x: Any) -> Any:
        y = x * 2
        handle = y.register_hook(lambda g: g * 3)
        z = y * y
        handle.remove()
        return z

    assert gradient(facula.compile(f, backend=backend)) == gradient(f)


@pytest.mark.breaks("unsupported-mutation")
def test_variables_that_are_set_behind_a_hook():
    def f(x: Any) -> Any:
        scale, y = 2.0, x * 2
        y.register_hook(lambda g: g * scale)
        scale = 5.0
        return y * y

    assert gradient(facula.compile(f, backend="eager")) == gradient(f)


@pytest.mark.breaks("backward", "unsupported-mutation")
@BACKENDS
def test_hooks_on_inputs_and_leaves(backend):
    def on_input(x: Any) -> Any:
        x.register_hook(lambda g: g * 10)
        return x * x

    def leaf(x: Any) -> Any:
        y = (x * 2).detach_().requires_grad_()
        (y * y).sum().backward()
        return (x * y.grad).requires_grad_()

    for program in (on_input, leaf):
        assert gradient(facula.compile(program, backend=backend)) == gradient(program)


@BACKENDS
def test_hooks_of_parameters_outside(backend):
    def run(compiled: bool) -> Any:
        module, seen = nn.Linear(3, 2), []
        nn.init.ones_(module.weight)
        module.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
        module.bias.register_hook(lambda g: g * 2)
        call = facula.compile(module, backend=backend, fullgraph=True) if compiled else module
        for _ in range(2):
            call(facula.ones(1, 3)).sum().backward()
        return seen, module.bias.grad.tolist()

    assert run(True) == run(False)
