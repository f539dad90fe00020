"""Programs that hold tensors, draw, write and differentiate: compiled as they run.

Takes: small functions.  Keeps true: results, gradients, writes and random numbers equal eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula.func import grad, hessian, jacfwd, jacrev, vmap
from facula.lower.aot.api import aot_function, nop
from facula.lower.passes.small_products import replace_small_products


def equal(a: Any, b: Any) -> bool:
    return facula.allclose(a, b, equal_nan=True)


def test_tensors_that_a_function_holds_get_gradients_and_are_read_at_each_call() -> None:
    weight = facula.randn(4, requires_grad=True)
    shift = facula.zeros(4)
    f = aot_function(lambda x: x * weight + shift, nop)
    x = facula.randn(4)
    f(x).sum().backward()
    assert equal(weight.grad, x)
    shift.add_(1)
    assert equal(f(x), x * weight + 1)


def test_writes_to_a_held_tensor_reach_it() -> None:
    count = facula.zeros(())
    f = aot_function(lambda x: count.add_(1) + x, nop)
    assert [f(facula.zeros(())).item() for _ in range(3)] == [1, 2, 3]
    assert count.item() == 3


DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": facula.rand_like,
    "dropout": lambda x: facula.nn.functional.dropout(x, 0.5),
    "poisson": lambda x: facula.poisson(x.abs() * 3),
    "binomial": lambda x: facula.binomial(facula.full((5,), 10.0), facula.full((5,), 0.3)),
    "gamma": lambda x: facula._standard_gamma(x.abs() + 1),
    "multinomial": lambda x: facula.multinomial(x.abs().view(5, 10), 3),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_eager_from_the_first_call_on(name: str, backend: str) -> None:
    f, x = DRAWS[name], facula.randn(50)
    facula.manual_seed(3)
    expected = [f(x), f(x)]
    compiled = facula.compile(f, backend=backend, fullgraph=True)
    facula.manual_seed(3)
    for want in expected:
        assert facula.equal(compiled(x), want)


def test_masked_scatter_is_differentiated_in_a_graph() -> None:
    mask = facula.tensor([True, False, True, False])

    def gradients(f: Any) -> list[Any]:
        x = facula.arange(4.0).requires_grad_()
        source = facula.arange(5.0, 9.0).requires_grad_()
        f(x, source).backward()
        return [x.grad, source.grad]

    def f(x: Any, source: Any) -> Any:
        return x.masked_scatter(mask, source).sin().sum()

    for got, want in zip(gradients(aot_function(f, nop)), gradients(f), strict=True):
        assert equal(got, want)


def test_inputs_on_one_memory_may_have_different_dtypes() -> None:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b.clone()

    a = facula.arange(4, dtype=facula.float32)
    b = a.view(facula.int32)
    got = aot_function(f, nop)(a, b)
    assert facula.equal(got, (facula.arange(4.0) + 1).view(facula.int32))
    assert facula.equal(b, got)


def test_inference_graphs_write_to_inputs_where_that_is_asked_for() -> None:
    texts: list[str] = []

    def compiler(module: Any, inputs: Any) -> Any:
        texts.append(module.code)
        return module

    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x + y, y

    for keep in (False, True):
        x, y = facula.ones(3), facula.ones(3)
        total, same = aot_function(f, compiler, keep_inference_input_mutations=keep)(x, y)
        assert same is y
        assert total.tolist() == [3, 3, 3] and x.tolist() == [2, 2, 2]
    assert ["copy_" in text for text in texts] == [False, True]


def _wave(r: Any) -> Any:
    return (r.sin() * r).sum()


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "grad": lambda x: grad(_wave)(x),
    "vmap of grad": lambda x: vmap(grad(_wave))(x),
    "grad of grad": lambda x: grad(lambda y: grad(_wave)(y).sum())(x),
    "jacrev": lambda x: jacrev(facula.sin)(x),
    "jacfwd": lambda x: jacfwd(facula.sin)(x),
    "hessian": lambda x: hessian(_wave)(x[0]),
    "grad of writes": lambda x: grad(lambda r: _wave(r.clone().mul_(2)))(x),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_function_transforms_run_inside_of_a_program(name: str, training: bool) -> None:
    f = TRANSFORMED[name]
    x = facula.randn(3, 4, requires_grad=training)
    y = x.detach().clone().requires_grad_(training)
    got, want = aot_function(f, nop)(x), f(y)
    assert equal(got, want)
    if training:
        got.sum().backward()
        want.sum().backward()
        assert equal(x.grad, y.grad)


def test_the_gradient_of_a_compiled_gradient_is_refused() -> None:
    f = facula.compile(lambda x: (x**3).sum())
    x = facula.randn(3, requires_grad=True)
    (g,) = facula.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        facula.autograd.grad((g**2).sum(), x)


def test_kept_tensors_are_checked_for_writes_and_freed() -> None:
    f = facula.compile(lambda x: x.exp().sin(), backend="aot_eager")
    x = facula.randn(3, requires_grad=True)
    y = (x * 1).detach().requires_grad_()
    out = f(y)
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
    held = facula.randn(3)
    out = facula.compile(lambda x: x * held, backend="aot_eager")(x)
    held.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("bias", [False, True])
def test_small_products_become_sums(bias: bool) -> None:
    from facula.fx.experimental.proxy_tensor import make_fx

    def f(x: Any, w: Any, b: Any) -> Any:
        y = facula.nn.functional.linear(x, w, b if bias else None)
        return y @ w + facula.addmm(b, y, w) + facula.bmm(x[None], w[None])[0]

    inputs = facula.randn(3, 4), facula.randn(4, 4), facula.randn(4)
    module = make_fx(f)(*inputs)
    assert replace_small_products(module.graph) == 4
    module.recompile()
    assert facula.allclose(module(*inputs), f(*inputs), atol=1e-5)


def test_large_products_stay() -> None:
    from facula.fx.experimental.proxy_tensor import make_fx

    module = make_fx(lambda x: x @ x)(facula.randn(32, 32))
    assert replace_small_products(module.graph) == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.unsqueeze_(0).mT,
        lambda x: (x.t_()[0], x * 2),
        lambda x: (x[0], x.unsqueeze_(0)[0, 1]),
        lambda x: (x.unsqueeze_(0).add_(1).view(-1), x),
    ],
)
def test_views_of_an_input_whose_geometry_changes(function):
    given, other = facula.arange(6.0).view(2, 3), facula.arange(6.0).view(2, 3)
    wanted, found = function(given), facula.compile(function, backend="aot_eager")(other)
    assert repr((found, other)) == repr((wanted, given))
