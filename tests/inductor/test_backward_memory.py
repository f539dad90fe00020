"""Compiled backward runs let go of what was kept as they go, and keep it where it is wanted again."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import facula
from facula import nn
from facula.compiler import graph


def stack() -> tuple[Any, Any]:
    """Products and functions in turn: a backward graph with calls, whose inputs die one by one."""
    layers = [nn.Linear(70, 70) for _ in range(4)]
    net = nn.Sequential(*(m for layer in layers for m in (layer, nn.Tanh())))
    return net, facula.randn(64, 70)


@pytest.fixture
def wrappers() -> Any:
    """The texts of the wrappers that are made."""
    found: list[str] = []

    def note(wrapper: str, c_text: str) -> None:
        found.append(wrapper)

    graph.OBSERVERS.append(note)
    yield found
    graph.OBSERVERS.remove(note)


def test_inputs_of_a_backward_graph_are_released_after_their_last_use(wrappers: Any) -> None:
    net, x = stack()
    facula.compile(net)(x).sum().backward()
    forward, backward = wrappers
    assert "args.clear()" in backward and "args.clear()" not in forward
    dropped = [line for line in backward.splitlines() if line.strip().startswith("del ")]
    first = backward.splitlines()[1]
    inputs = {name.strip() for name in first.partition("=")[0].split(",") if name.strip()}
    released = {name.strip() for line in dropped for name in line.strip()[4:].split(",")}
    assert len(inputs & released) >= 4


def test_gradients_are_those_of_eager_and_a_second_run_is_an_error() -> None:
    net, x = stack()
    net(x).square().sum().backward()
    wanted = [p.grad for p in net.parameters()]
    net.zero_grad()
    compiled = facula.compile(net)
    loss = compiled(x).square().sum()
    loss.backward()
    for p, grad in zip(net.parameters(), wanted, strict=True):
        assert facula.allclose(p.grad, grad, rtol=1e-5, atol=1e-5)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_graph_that_is_retained_runs_again() -> None:
    net, x = stack()
    y = facula.compile(net)(x)
    y.sum().backward(retain_graph=True)
    first = [p.grad.clone() for p in net.parameters()]
    y.sum().backward()
    for p, grad in zip(net.parameters(), first, strict=True):
        assert facula.allclose(p.grad, 2 * grad, rtol=1e-5, atol=1e-5)


def test_hooks_of_the_node_see_the_gradients_that_came() -> None:
    net, x = stack()
    y = facula.compile(net)(x)
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs))
    y.sum().backward()
    assert seen[0][0].shape == y.shape


def test_what_only_the_backward_graph_reads_is_gone_when_it_is_done() -> None:
    net, x = stack()
    y = facula.compile(net)(x)
    kept = [weakref.ref(t) for t in y.grad_fn.saved_tensors if not isinstance(t, nn.Parameter)]
    own = [r for r in kept if r() is not None and r()._base is None and r() is not x]
    node = y.grad_fn
    y.sum().backward()
    assert node.saved_tensors == () and own
    del y, node
    assert all(r() is None or r() is x for r in own)
