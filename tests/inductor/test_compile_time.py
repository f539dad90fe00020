"""What compiling costs grows with the program: counted, since clocks on shared machines are not."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import facula
from facula.fx import GraphModule, symbolic_trace
from facula.fx.graph_module import code_on_demand
from facula.lower.loops import fuse
from tests.inductor.support import check, compiled, same


def updates(*tensors: Any) -> tuple[Any, ...]:
    """An optimizer's arithmetic on many tensors, each by itself."""
    return tuple(t * 0.9 + t.square().sqrt() for t in tensors)


def attempts(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often fusion tries to join a step with a kernel."""
    found = []
    below = fuse.joined

    def joined(kernel: Any, step: Any) -> Any:
        found.append(step)
        return below(kernel, step)

    with monkeypatch.context() as patched:
        patched.setattr(fuse, "joined", joined)
        compiled(updates, *(facula.randn(80) for _ in range(count)))
    return len(found)


def test_fusion_looks_only_at_kernels_that_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = attempts(10, monkeypatch), attempts(40, monkeypatch)
    assert many <= 4 * few + 4


def chain(x: Any) -> Any:
    for _ in range(12):
        x = x.sin()
    return x


def test_a_chain_of_one_function_is_one_loop_in_c() -> None:
    program = check(chain, facula.randn(3000) * 3, tolerance=1e-6, kernels=1)
    assert program.c_source.count("fm_sin_fast_f32(") <= 6
    check(chain, facula.randn(700) * 1e6, tolerance=1e-6)  # where the fast form does not hold
    check(chain, facula.randn(3, 5000)[:, ::2], tolerance=1e-6)
    check(chain, facula.randn(40, 41), tolerance=1e-6, options={"dynamic": True})


def maxima(count: int) -> Any:
    """The largest of a number and `count` multiples of another."""

    def f(x: Any, y: Any) -> Any:
        for k in range(count):
            x = facula.maximum(x, y * k)
        return x

    return f


def test_the_c_compiler_sees_few_choices_in_a_row() -> None:
    """gcc looks for simpler forms ten choices deep, in all branches: 75 maxima took it 11 s."""
    x = facula.tensor([-0.0, 3.0, 40.0, float("nan"), 1.0, float("inf")])
    y = facula.tensor([-1.0, 1.0, 2.0, 1.0, float("nan"), 1.0])
    for count, cuts in ((3, 0), (4, 1), (24, 6)):
        program = check(maxima(count), x, y)
        assert program.c_source.count("= fk_whole_f32(fm_maximum_f32(") == cuts
        products = [numpy.float32(k) * y.numpy() for k in range(count)]
        want = numpy.maximum.reduce([x.numpy(), *products])
        numpy.testing.assert_array_equal(facula.compile(maxima(count))(x, y).numpy(), want)


def test_gradients_of_a_chain_of_maxima() -> None:
    x = facula.tensor([30.0, 7.0, -1.0], requires_grad=True)
    y = facula.tensor([1.0, 1.0, 1.0], requires_grad=True)
    facula.compile(maxima(8))(x, y).sum().backward()
    assert x.grad is not None and y.grad is not None
    numpy.testing.assert_array_equal(x.grad.numpy(), [1, 0.5, 0])  # halves at the tie
    numpy.testing.assert_array_equal(y.grad.numpy(), [0, 3.5, 7])


def test_passes_that_read_memory_stay_loops_of_their_own() -> None:
    def f(x: Any, y: Any) -> Any:
        for k in range(8):
            x = (x + y[k]).sin()
        return x

    program = check(f, facula.randn(3000), facula.randn(8, 3000), tolerance=1e-6)
    assert "_pass0" not in program.c_source


def test_chains_of_several_kinds_share_what_is_equal() -> None:
    def f(x: Any) -> Any:
        for _ in range(5):
            x = (x.sin() * x.exp()).tanh()
        return x

    program = check(f, facula.randn(2000), tolerance=1e-5)
    assert "_pass0" in program.c_source


def test_code_of_graph_modules_waits_on_demand() -> None:
    x = facula.randn(4)
    with code_on_demand():
        module = symbolic_trace(lambda x: x.relu() + 1)
        assert module._code is None
        module.graph.lint()
    assert "relu" in module.code
    with code_on_demand():
        other = GraphModule(module, module.graph)
    forward = other.forward
    for _ in range(2):
        same(forward(x), x.relu() + 1)
    assert other._code is not None
    (node,) = (n for n in other.graph.nodes if n.target == "relu")
    node.target = "sigmoid"
    same(other(x), x.relu() + 1)  # outside of the block, code changes when it is said
    other.renew()
    same(other(x), x.sigmoid() + 1)
