"""Writes to views inside of nested transforms, against finite differences of the same program run plainly."""

import pytest

import facula
from facula import func

X = facula.tensor([0.5, 1.2, -0.7, 0.9], dtype=facula.float64)
BATCH = facula.stack([X, 2 * X])


def item(x):
    y = x.clone()
    y[0] = x[1] * x[2]
    return y.pow(3)


def into_zeros(x):
    y = facula.zeros_like(x)
    y[1:3] = x[:2] * x[2]
    return y + x.sin()


def slices(x):
    y = x * 2
    y[1:].mul_(x[:-1])
    return y * y


def matrix(x):
    y = facula.zeros_like(x)
    y.copy_(x)
    y.view(2, 2).t().mul_(x.view(2, 2))
    return y.sin()


def two_views(x):
    y = x.clone()
    first, second = y[:2], y.view(2, 2)[1]
    first.mul_(x[3])
    second.add_(first)
    return y * x


def three_steps(x):
    y = x.sin()
    a, b = y[0], y[1]
    a.mul_(x[2])
    b.add_(a)
    y.mul_(x)
    a.add_(b)
    return y


PROGRAMS = [item, into_zeros, slices, matrix, two_views, three_steps]


def jacobian(f, x, step=1e-6):
    """Central differences, a column for each input."""
    columns = []
    for i in range(x.numel()):
        move = facula.zeros_like(x)
        move[i] = step
        columns.append((f(x + move) - f(x - move)) / (2 * step))
    return facula.stack(columns, -1)


def rows(f, batch):
    return facula.stack([f(row) for row in batch])


def close(found, wanted):
    facula.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("transform", [func.jacfwd, func.jacrev])
def test_jacobians_of_entries(f, transform):
    close(func.vmap(transform(f))(BATCH), rows(lambda x: jacobian(f, x), BATCH))


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("dim", [0, 1])
def test_tangents_of_entries(f, dim):
    moved = func.vmap(lambda x: func.jvp(f, (x,), (x.cos(),))[1], in_dims=dim)
    wanted = rows(lambda x: jacobian(f, x) @ x.cos(), BATCH)
    close(moved(BATCH.movedim(0, dim).contiguous()), wanted)


@pytest.mark.parametrize("f", PROGRAMS)
def test_hessians_of_entries(f):
    def total(x):
        return f(x).square().sum()

    wanted = rows(lambda x: jacobian(func.grad(total), x), BATCH)
    close(func.vmap(func.hessian(total))(BATCH), wanted)
    close(rows(func.jacfwd(func.jacfwd(total)), BATCH), wanted)


def test_entries_of_a_list_of_views():
    def f(x):
        y = x.clone()
        first, second = y.view(2, 2).unbind(0)
        first.mul_(second)
        return y

    close(func.vmap(func.jacfwd(f))(BATCH), rows(lambda x: jacobian(f, x), BATCH))


def test_a_tangent_of_the_caller_is_not_written_to_through_a_view():
    def f(x):
        x[1:].mul_(3)
        return x.sum()

    tangent = facula.ones(4, dtype=facula.float64)
    assert func.jvp(f, (X.clone(),), (tangent,))[1].item() == 10
    assert tangent.tolist() == [1.0] * 4
    part = func.jvp(f, (facula.arange(6, dtype=facula.float64)[1:5],), (tangent,))
    assert part[1].item() == 10 and tangent.tolist() == [1.0] * 4


def test_new_tensors_inside_of_three_levels_are_mapped_over():
    def filled(row, value):
        return row.new_zeros(2).copy_(row[:2] * value)

    def of_rows(x):
        return func.vmap(lambda row: filled(row, x[0, 0]))(x)

    batch = facula.arange(24, dtype=facula.float64).reshape(2, 3, 4)
    found = func.vmap(lambda x: func.jvp(of_rows, (x,), (facula.ones_like(x),))[1])(batch)
    close(found, batch[:, :, :2] + batch[:, :1, :1])


@pytest.mark.parametrize("f", [lambda x: (x.roll(1, -1) * x).sum(), lambda x: x.prod()])
def test_hessians_of_hessians(f):
    def inner(x):
        return func.hessian(lambda z: f(z) ** 2)(x).square().sum()

    close(func.hessian(inner)(X), jacobian(func.grad(inner), X))


def test_values_under_forward_mode_have_no_history():
    _, value = func.jacfwd(func.grad_and_value(lambda x: x.sin().sum()))(X)
    assert not value.requires_grad and value.grad_fn is None
    close(value, X.cos())
    pulled = func.jacfwd(lambda x: func.vjp(lambda z: (z * z).sum(), x)[0])(X)
    assert not pulled.requires_grad
    close(pulled, 2 * X)
