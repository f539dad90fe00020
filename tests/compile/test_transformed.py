"""Function transforms and `compile` in any order: one graph, the same values and gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from capturing import equal

import facula
from facula import nn
from facula.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from facula.nn import functional as F

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(scope="module")
def data():
    facula.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    return network, parameters, facula.randn(4, 3), facula.randn(4, 2)


def total(x):
    return (x.sin() * x).sum()


def check(function, *args, backend="aot_eager"):
    expected = function(*args)
    call = facula.compile(function, backend=backend, fullgraph=True)
    assert equal(expected, call(*args)) and equal(expected, call(*args))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "transformed",
    [
        vmap(grad(total)), grad(total), grad_and_value(total), jacrev(facula.sin),
        jacfwd(facula.sin), hessian(total), vmap(hessian(total)), vmap(total, chunk_size=2),
        vmap(lambda v: (v * 2, v.sum()), in_dims=1, out_dims=(1, 0)),
        vmap(lambda v: v.clone().add_(1).mul_(v)),
    ],
    ids=lambda f: f.__code__.co_qualname.partition(".")[0],
)  # fmt: skip
def test_a_transformed_function_is_compiled(transformed, backend, data):
    check(transformed, data[2], backend=backend)
    check(lambda x: transformed(x) if x.dim() else x, data[2], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_transforms_at_once(backend, data):
    _, _, x, _ = data

    def program(x):
        out, pull = vjp(lambda v: (v.sin(), v.sum()), x)
        rows = vmap(lambda a, b: pull((a, b))[0])(facula.eye(12).view(12, 4, 3), facula.ones(12))
        value, moved = jvp(lambda v: v.cos(), (x,), (facula.ones_like(x),))
        return out, rows, value, moved, functionalize(lambda v: v.clone().add_(1))(x)

    check(program, x, backend=backend)
    out, push = linearize(lambda v: v.sin(), x)
    call = facula.compile(lambda v: linearize(lambda w: w.sin(), v)[1](v), backend=backend)
    assert call(x).allclose(push(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_networks_as_functions(backend, data):
    network, parameters, x, y = data

    def loss(p, x, y):
        return F.mse_loss(functional_call(network, p, (x,)), y)

    def step(p, x, y):
        gradients, value = grad_and_value(loss)(p, x, y)
        return {name: p[name] - 0.1 * gradients[name] for name in p}, value

    one = vmap(grad(lambda p, x, y: loss(p, x[None], y[None])), in_dims=(None, 0, 0))
    check(step, parameters, x, y, backend=backend)
    check(one, parameters, x, y, backend=backend)
    check(lambda p: jacrev(lambda q: functional_call(network, q, (x,)))(p), parameters)


def test_ensembles(data):
    models = [nn.Linear(3, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(models)

    def one(p, b, x):
        return functional_call(models[0], (p, b), (x,))

    check(lambda x: vmap(one, in_dims=(0, 0, None))(parameters, buffers, x), data[2])


def test_values_from_outside_and_between_transforms(data):
    def program(x):
        y = x * 2

        def product(a, b):
            return a * b + y.sum()

        def inner(row):
            return grad(lambda v: vmap(product, (0, None))(v, row.sum()).sum())(row)

        return vmap(inner)(x), grad(lambda v: (v * y).sum(), has_aux=False)(x)

    check(program, data[2])
    aux = lambda x: grad(lambda v: (total(v), {"out": v * 2, "n": 3}), has_aux=True)(x)  # noqa: E731
    check(aux, data[2])


def test_training_through_transforms(data):
    first = nn.Linear(3, 2)
    second = copy.deepcopy(first)

    def loss(m, x):
        inner = grad(lambda v: m(v).square().sum())(x)
        return vmap(lambda v: m(v).sum())(x).sum() + inner.square().sum()

    loss(first, data[2]).backward()
    facula.compile(loss, fullgraph=True, backend="aot_eager")(second, data[2]).backward()
    for p, q in zip(first.parameters(), second.parameters(), strict=True):
        assert p.grad.allclose(q.grad)


def test_sizes_inside_of_a_transform():
    function = vmap(grad(lambda v: (v.sin() * v.shape[0]).sum()))
    call = facula.compile(function, backend="aot_eager")
    for n in (3, 4, 5):
        x = facula.randn(2, n)
        assert call(x).allclose(function(x))


@pytest.mark.breaks("fake-error", "unsupported-mutation")
def test_errors_and_effects_are_the_programs(data):
    seen = []

    def keep(x):
        def note(v):
            seen.append(v.shape[0])
            return v * 2

        return vmap(note)(x)

    call = facula.compile(keep, backend="eager")
    call(data[2])
    call(data[2])
    assert seen == [3, 3]
    kept = []
    leaking = facula.compile(lambda x: vmap(lambda v: (kept.append(v), v)[1])(x), backend="eager")
    assert leaking(data[2]).equal(data[2]) and len(kept) == 1
    wrong = facula.compile(lambda x: vmap(lambda a, b: a + b)(x, facula.ones(7)), backend="eager")
    with pytest.raises(ValueError, match="same size in the mapped"):
        wrong(data[2])
    inner = facula.compile(lambda v: v.sin().sum(), backend="eager")
    assert facula.compile(vmap(inner), backend="eager")(data[2]).allclose(data[2].sin().sum(1))


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
@pytest.mark.parametrize("data", [[1.0, 4.0, 9.0], [0.0, -1.0, 0.0]], ids=["true", "false"])
def test_cond_is_one_graph_with_the_chosen_gradients(data, backend):
    weight = facula.full((3,), 2.0, requires_grad=True)

    def program(x):
        chosen = (lambda v: (v.sqrt() * weight, v * 2)), (lambda v: (v - weight, v.exp()))
        return facula.cond(x.sum() > 0, *chosen, (x,))

    found = []
    for function in (program, facula.compile(program, backend=backend, fullgraph=True)):
        x = facula.tensor(data, requires_grad=True)
        weight.grad = None
        first, second = function(x)
        (first.sum() + second.sum()).backward()
        found.append((first, second, x.grad, weight.grad))
    assert all(a.allclose(b) for a, b in zip(*found, strict=True))


@pytest.mark.breaks("unsupported-mutation")
def test_a_tensor_that_becomes_a_leaf_ends_the_graph():
    x = facula.ones(2)
    call = facula.compile(lambda x: (x.requires_grad_() ** 2).sum(), backend="aot_eager")
    call(x).backward()
    assert x.requires_grad and x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers_of_entries_are_those_of_eager(randomness: str) -> None:
    def noisy(x: Any) -> Any:
        def entry(a: Any) -> Any:
            return a + facula.randn(2) + facula.randint(0, 9, (2,)) + facula.randn_like(x[0])

        return facula.func.vmap(entry, randomness=randomness)(x)

    x, found = facula.ones(4, 2), []
    for function in (noisy, facula.compile(noisy, backend="aot_eager"), facula.compile(noisy)):
        facula.manual_seed(1)
        found.append((function(x), facula.rand(1)))
    for result, after in found[1:]:
        assert facula.allclose(result, found[0][0])
        assert facula.equal(after, found[0][1])
