"""Backward runs compiled as graphs.

Takes: small networks.  Keeps true: gradients equal the engine's; one graph serves equal tapes.
"""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula._dynamo import compiled_autograd
from facula.capture.events import COUNTERS

COMPILERS = {
    "eager": lambda module: module,
    "aot_eager": lambda module: facula.compile(module, backend="aot_eager", fullgraph=True),
}


def network() -> Any:
    facula.manual_seed(1)
    return facula.nn.Sequential(
        facula.nn.Linear(4, 8), facula.nn.ReLU(), facula.nn.LayerNorm(8), facula.nn.GELU(),
        facula.nn.Dropout(0.3), facula.nn.Linear(8, 2),
    )  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", COMPILERS)
def test_gradients_equal_the_engines_and_one_graph_serves_all_steps(
    name: str, compiled: bool
) -> None:
    first, second = network(), network()
    called = facula.compile(second, backend="aot_eager") if compiled else second
    x = facula.randn(3, 4)
    facula.manual_seed(0)
    for _ in range(3):
        first(x).square().mean().backward()
    COUNTERS["compiled_autograd"].clear()
    facula.manual_seed(0)
    with compiled_autograd._enable(COMPILERS[name]):
        for _ in range(3):
            called(x).square().mean().backward()
    assert dict(COUNTERS["compiled_autograd"]) == {"captures": 1}
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert facula.allclose(a.grad, b.grad, atol=1e-6)


def test_hooks_and_errors_are_those_of_the_engine() -> None:
    w = facula.randn(3, requires_grad=True)
    seen: list[Any] = []
    with compiled_autograd._enable(COMPILERS["eager"]):
        y = (w * w).sum()
        assert facula.allclose(facula.autograd.grad(y, w)[0], 2 * w)
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        z = w.exp()
        z.register_hook(seen.append)
        z.sum().backward()
        assert len(seen) == 1 and facula.allclose(w.grad, w.exp())
        w.grad = None
        w.register_post_accumulate_grad_hook(seen.append)
        (w.sin() * 3).sum().backward()
        assert len(seen) == 2 and facula.allclose(w.grad, 3 * w.cos())


@pytest.mark.breaks("backward")
def test_the_setting_compiles_what_a_compiled_function_starts() -> None:
    net = network().eval()
    x = facula.randn(3, 4)

    def step(x: Any) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        return loss

    step(x)
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    COUNTERS["compiled_autograd"].clear()
    with facula._dynamo.config.patch(compiled_autograd=True):
        facula.compile(step, backend="aot_eager")(x)
    assert COUNTERS["compiled_autograd"]["captures"] == 1
    for p, want in zip(net.parameters(), expected, strict=True):
        assert facula.allclose(p.grad, want, atol=1e-6)
