"""Function transforms: identities between them, and against closed forms.

Every nesting of reverse mode, forward mode and mapping gives the same derivatives.
"""

from __future__ import annotations

import threading

import numpy
import pytest

import facula
from facula import func, nn

F64 = facula.float64


def _random(*shape: int, seed: int = 0) -> facula.Tensor:
    return facula.tensor(numpy.random.default_rng(seed).standard_normal(shape))


def _close(a: facula.Tensor, b: facula.Tensor, tolerance: float = 1e-10) -> None:
    numpy.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
    )


A, X, V = _random(5, 5, seed=1), _random(5, seed=2), _random(5, seed=3)


def _sines(x: facula.Tensor) -> facula.Tensor:
    return (A @ x).sin()


def _total(x: facula.Tensor) -> facula.Tensor:
    return _sines(x).sum()


JACOBIAN = (A @ X).cos()[:, None] * A
HESSIAN = A.mT @ facula.diag(-(A @ X).sin()) @ A


def test_jacobians() -> None:
    for transform in (func.jacrev, func.jacfwd):
        _close(transform(_sines)(X), JACOBIAN)
    _close(func.jacrev(_sines, chunk_size=2)(X), JACOBIAN)


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd])
def test_jacobians_of_several(transform) -> None:  # type: ignore[no-untyped-def]
    """Every output by every input, of several shapes; aux comes once."""
    matrix, x = _random(2, 5, seed=4), X

    def both(m, x):  # type: ignore[no-untyped-def]
        return (m @ x, x.sin()), x.exp()

    (product, sines), aux = transform(both, (0, 1), has_aux=True)(matrix, x)
    _close(aux, x.exp())
    eye = facula.eye(2, dtype=matrix.dtype)
    _close(product[0], eye[:, :, None] * x)
    _close(product[1], matrix)
    _close(sines[0], facula.zeros(5, 2, 5))
    _close(sines[1], facula.diag(x.cos()))
    alone = transform(lambda m, x: m @ x, 1)(matrix, x)
    _close(alone, matrix)


def test_a_primal_keeps_the_tangents_of_other_levels() -> None:
    def inner(x):  # type: ignore[no-untyped-def]
        value, tangent = func.jvp(facula.sin, (x,), (facula.ones_like(x),))
        return value * tangent

    value, tangent = func.jvp(inner, (X,), (V,))
    _close(value, X.sin() * X.cos())
    _close(tangent, (2 * X).cos() * V)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_gradients_of_what_all_entries_share(shape) -> None:  # type: ignore[no-untyped-def]
    """`autograd.grad` inside of `vmap`, in a tensor that is the same for all entries."""
    batch = _random(3, *shape, seed=7)
    weight = _random(*shape, seed=8).requires_grad_()
    cotangents = _random(3, *shape, seed=9)

    def entry(x, c):  # type: ignore[no-untyped-def]
        return facula.autograd.grad((weight * x).sin(), weight, c)[0]

    expected = (weight * batch).cos() * batch * cotangents
    _close(func.vmap(entry)(batch, cotangents), expected)
    same = func.vmap(entry, in_dims=(0, None))(batch, cotangents[0])
    _close(same, (weight * batch).cos() * batch * cotangents[0])
    if shape:
        moved = func.vmap(entry, in_dims=(-1, 0))(batch.movedim(0, -1), cotangents)
        _close(moved, expected)


@pytest.mark.parametrize("in_dim", [0, -1])
def test_rows_of_jacobians_by_mapped_cotangents(in_dim) -> None:  # type: ignore[no-untyped-def]
    """`autograd.grad` inside of two `vmap`, in a tensor of each entry of the outer one."""
    batch, cotangents = _random(3, 5, seed=7), _random(4, 5, seed=8)

    def entry(x):  # type: ignore[no-untyped-def]
        y = (A @ x).sin()
        rows = func.vmap(lambda c: facula.autograd.grad(y, x, c, retain_graph=True)[0])(cotangents)
        columns = func.vmap(lambda c: facula.autograd.grad(y, x, c)[0], in_dims=-1)(cotangents.mT)
        return rows, columns

    given = (batch if in_dim == 0 else batch.mT.contiguous()).requires_grad_()
    found = func.vmap(entry, in_dims=in_dim)(given)
    for part in found:
        for row, x in zip(part, batch, strict=True):
            _close(row, cotangents @ ((A @ x).cos()[:, None] * A))


@pytest.mark.parametrize("outer", [func.jacrev, func.jacfwd])
@pytest.mark.parametrize("inner", [func.jacrev, func.jacfwd, func.grad])
def test_hessians(outer, inner) -> None:  # type: ignore[no-untyped-def]
    _close(outer(inner(_total))(X), HESSIAN)


def test_hessian_under_vmap() -> None:
    batch = facula.stack([X, V])
    rows = [func.hessian(_total)(x) for x in batch]
    _close(func.vmap(func.hessian(_total))(batch), facula.stack(rows))


def test_products() -> None:
    value, moved = func.jvp(_sines, (X,), (V,))
    _close(value, _sines(X))
    _close(moved, JACOBIAN @ V)
    value, pull = func.vjp(_sines, X)
    _close(pull(V)[0], V @ JACOBIAN)
    value, push = func.linearize(_sines, X)
    _close(push(V), JACOBIAN @ V)
    _close(push(X), JACOBIAN @ X)
    assert not value.requires_grad and not push(V).requires_grad
    weight = X.clone().requires_grad_()
    assert func.linearize(lambda x: x.sin() * weight, X)[1](V).requires_grad


def test_third_derivative() -> None:
    first = func.grad(lambda x: x**4)
    assert float(func.grad(func.grad(first))(facula.tensor(2.0, dtype=F64))) == 48.0
    third = func.jacfwd(func.jacrev(first))
    assert float(third(facula.tensor(2.0, dtype=F64))) == 48.0


def test_grad_of_vmap_and_vmap_of_grad() -> None:
    batch = facula.stack([X, V])
    rows = facula.stack([func.grad(_total)(x) for x in batch])
    _close(func.vmap(func.grad(_total))(batch), rows)
    _close(func.grad(lambda b: func.vmap(_total)(b).sum())(batch), rows)
    _close(func.jacrev(lambda b: func.vmap(_total)(b))(batch).sum(1), rows)


def test_per_sample_gradients() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 4)).double()
    x, y = _random(6, 2, 4, 4), facula.arange(6) % 4

    def loss(parameters, image, label):  # type: ignore[no-untyped-def]
        out = func.functional_call(net, parameters, (image[None],))
        return nn.functional.cross_entropy(out, label[None])

    parameters = {k: v.detach() for k, v in net.named_parameters()}
    found = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for i in range(6):
        net.zero_grad()
        nn.functional.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
        for name, parameter in net.named_parameters():
            _close(found[name][i], parameter.grad)


def test_history_only_where_it_is_wanted() -> None:
    w = _random(5, seed=5).requires_grad_()
    assert not func.grad(_total)(X).requires_grad
    gradient = func.grad(lambda x: (x * w).sin().sum())(X)
    assert gradient.requires_grad
    gradient.sum().backward()
    _close(w.grad, (X * w).cos() - w * X * (X * w).sin())
    assert X.grad is None
    leaf = _random(5, seed=6).requires_grad_()
    func.grad(lambda x: (x**3).sum())(leaf).sum().backward()
    _close(leaf.grad, 6 * leaf)


def test_aux_and_argnums() -> None:
    gradient, aux = func.grad(lambda a, b: ((a * b**2).sum(), a + b), (0, 1), True)(X, V)
    _close(gradient[0], V**2)
    _close(gradient[1], 2 * X * V)
    _close(aux, X + V)
    (pair, value) = func.grad_and_value(lambda a: (a["x"] ** 2).sum())({"x": X})
    _close(pair["x"], 2 * X)
    _close(value, (X**2).sum())


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="return a scalar tensor"):
        func.grad(_sines)(X)
    with pytest.raises(RuntimeError, match="return a Tensor"):
        func.grad(lambda x: 1.0)(X)
    with pytest.raises(RuntimeError, match="Got argnum=3"):
        func.grad(_total, 3)(X)
    with pytest.raises(RuntimeError, match="same python structure"):
        func.jvp(_sines, (X,), (V, V))
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        func.jvp(lambda x: A, (X,), (V,), strict=True)
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        func.functionalize(_sines, remove="views")


def test_dropout_and_in_place_under_transforms() -> None:
    def write(x):  # type: ignore[no-untyped-def]
        y = facula.zeros_like(x)
        y[1:] = x[:-1] * 2
        y.mul_(x)
        return y.sum()

    expected = func.grad(lambda x: (x[:-1] * 2 * x[1:]).sum())(X)
    _close(func.grad(write)(X), expected)
    _close(func.jacfwd(write)(X), expected)
    _close(func.vmap(func.grad(write))(X[None])[0], expected)


def test_threads_have_their_own_transforms() -> None:
    found: dict[int, facula.Tensor] = {}

    def work(i: int) -> None:
        for _ in range(20):
            found[i] = func.vmap(func.grad(_total))(facula.stack([X, V]) * (i + 1))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(3):
        _close(found[i][0], func.grad(_total)(X * (i + 1)))


def test_batched_backward() -> None:
    x = X.clone().requires_grad_()
    y = _sines(x)
    (rows,) = facula.autograd.grad(y, x, facula.eye(5, dtype=F64), is_grads_batched=True)
    _close(rows, JACOBIAN)


def test_stacked_modules() -> None:
    nets = [nn.Linear(3, 2, dtype=F64) for _ in range(4)]
    parameters, buffers = func.stack_module_state(nets)
    x = _random(5, 3)
    y = func.vmap(lambda p, b: func.functional_call(nets[0], (p, b), (x,)))(parameters, buffers)
    _close(y, facula.stack([net(x) for net in nets]))
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([nets[0], nn.ReLU()])


def test_functional_call_leaves_a_layer_with_two_names_alone():
    layer = facula.nn.Linear(2, 2)
    net = facula.nn.Sequential(layer, facula.nn.ReLU(), layer)
    weight = layer.weight
    others = {name: value + 1 for name, value in net.named_parameters()}
    facula.func.functional_call(net, others, (facula.ones(1, 2),))
    assert net[0].weight is weight and type(net[2].bias) is facula.nn.Parameter
