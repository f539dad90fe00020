"""Forward mode: every operator's tangent is the transpose of its gradient; dual tensors."""

from __future__ import annotations

import numpy
import pytest
from test_vmap import as_function, is_inexact, samples_of

import facula
from facula import func
from facula.autograd import forward_ad
from facula.ops.table.registry import TABLE, own_operators
from facula.testing.samples import Samples

F64 = facula.float64


def _is_differentiable(name: str) -> bool:
    definition = TABLE[name].definition
    if definition.kind == "pointwise":
        return definition.differentiable
    # where the gradient follows a convention it is not the transpose of the tangent
    return bool(definition.backward) and not definition.convention


def _gradients(call, tensors) -> None:  # type: ignore[no-untyped-def]
    leaves = [t.detach().requires_grad_() if is_inexact(t) else t for t in tensors]
    outputs = [o for o in call(*leaves) if o.requires_grad]
    if outputs:
        inputs = [t for t in leaves if t.requires_grad]
        ones = [facula.ones_like(o) for o in outputs]
        facula.autograd.grad(outputs, inputs, ones, allow_unused=True)


def _check(call, tensors) -> None:  # type: ignore[no-untyped-def]
    at = [i for i, t in enumerate(tensors) if is_inexact(t)]
    primals = tuple(tensors[i] for i in at)
    tangents = tuple(Samples(t.dtype, 5)(*t.shape) for t in primals)

    def inexact(*values):  # type: ignore[no-untyped-def]
        full = list(tensors)
        for i, value in zip(at, values, strict=True):
            full[i] = value
        return tuple(t for t in call(*full) if is_inexact(t))

    if not primals or not inexact(*primals):
        return
    _, moved = func.jvp(inexact, primals, tangents)
    outputs, pull = func.vjp(inexact, *primals)
    cotangents = tuple(Samples(o.dtype, 9)(*o.shape) for o in outputs)
    left = sum(float((a.conj() * b).sum().real) for a, b in zip(cotangents, moved, strict=True))
    right = sum(
        float((a.conj() * b).sum().real) for a, b in zip(pull(cotangents), tangents, strict=True)
    )
    numpy.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, op in own_operators().items()
        if op.definition.kind != "composite" and _is_differentiable(name)
    ],
)
def test_is_the_transpose_of_the_gradient(name: str) -> None:
    for dtype in (F64, facula.complex128):
        for args, kwargs in samples_of(TABLE[name], dtype):
            call, tensors = as_function(TABLE[name], args, kwargs)
            try:
                _gradients(call, tensors)
            except (NotImplementedError, RuntimeError, TypeError):
                continue  # no derivative in reverse mode, or not in this dtype
            _check(call, tensors)


def test_against_differences() -> None:
    x, v = Samples(F64, 1)(4, 5), Samples(F64, 2)(4, 5)
    step = 1e-6
    for function in (
        lambda x: x.softmax(1),
        lambda x: facula.nn.functional.layer_norm(x, (5,)),
        lambda x: x.cumprod(1) + x.logcumsumexp(1),
        lambda x: x.mT @ x,
        lambda x: facula.nn.functional.gelu(x).sort(1).values,
        lambda x: x[[0, 2]].var(1),
    ):
        moved = func.jvp(function, (x,), (v,))[1]
        slope = (function(x + step * v) - function(x - step * v)) / (2 * step)
        numpy.testing.assert_allclose(moved.numpy(), slope.numpy(), rtol=1e-6, atol=1e-7)


def test_dual_tensors() -> None:
    x, v = Samples(F64, 1)(5), Samples(F64, 2)(5)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        assert "tangent=" in repr(dual)
        value, tangent = forward_ad.unpack_dual((dual.sin() * dual).sum())
        numpy.testing.assert_allclose(tangent.numpy(), ((x.cos() * x + x.sin()) * v).sum().numpy())
        assert forward_ad.unpack_dual(x).tangent is None
        assert forward_ad.unpack_dual(dual.detach()).tangent is None
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            forward_ad.enter_dual_level()
        with pytest.raises(RuntimeError, match="same size as the primal"):
            forward_ad.make_dual(x, v[:2])
        with pytest.raises(RuntimeError, match="out="):
            facula.sin(dual, out=facula.empty(5, dtype=F64))
    assert forward_ad.unpack_dual(dual).tangent is None
    with pytest.raises(RuntimeError, match="no level exists"):
        forward_ad.make_dual(x, v)


def test_writes_and_views() -> None:
    x, v = Samples(F64, 1)(6), Samples(F64, 2)(6)
    kept = v.clone()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        y = dual.clone()
        y.mul_(2)
        y[1:3].add_(dual[3:5])
        expected = 2 * v
        expected[1:3] += v[3:5]
        tangent = forward_ad.unpack_dual(y).tangent
        numpy.testing.assert_allclose(tangent.numpy(), expected.numpy())
        plain = facula.zeros(2, 3, dtype=F64)
        row = plain[1]
        row.copy_(dual[:3])
        expected = facula.stack([v[:3] * 0, v[:3]])
        numpy.testing.assert_allclose(
            forward_ad.unpack_dual(plain).tangent.numpy(), expected.numpy()
        )
        dual.mul_(3)
    assert (v == kept).all()


def test_reverse_over_forward() -> None:
    x, v = Samples(F64, 1)(5), Samples(F64, 2)(5)
    leaf = x.clone().requires_grad_()
    with forward_ad.dual_level():
        out = (forward_ad.make_dual(leaf, v) ** 3).sum()
        tangent = forward_ad.unpack_dual(out).tangent
    tangent.backward()
    numpy.testing.assert_allclose(leaf.grad.numpy(), (6 * x * v).numpy())


def test_tangents_of_running_sums_of_far_exponentials() -> None:
    """Beside a later maximum of 2e4 the earlier exponentials are zeros: 0 / 0."""
    x = facula.tensor([0.0, 1e4, 2e4, -1e4, 2e4], dtype=F64)
    t = facula.tensor([0.3, -0.5, 0.7, 0.9, 0.0], dtype=F64)
    _, moved = func.jvp(lambda x: x.logcumsumexp(0), (x,), (t,))
    numpy.testing.assert_allclose(moved.numpy(), [0.3, -0.5, 0.7, 0.7, 0.35], rtol=1e-11)
    near = facula.tensor([[1.0, 3.0, -2.0], [0.5, 0.0, 4.0]], dtype=F64)
    t = facula.tensor([[1.0, -2.0, 0.0], [0.0, 3.0, 5.0]], dtype=F64)
    _, moved = func.jvp(lambda x: x.logcumsumexp(1), (near,), (t,))
    e = numpy.exp(near.numpy())
    expected = numpy.cumsum(e * t.numpy(), 1) / numpy.cumsum(e, 1)
    numpy.testing.assert_allclose(moved.numpy(), expected, rtol=1e-13)


def test_logarithms_of_complex_sums_at_large_angles() -> None:
    """float32 holds an angle of 1500 to 1e-4: derivatives must not go through the result."""
    rng = numpy.random.default_rng(3)
    x = rng.uniform(1000, 2000, (4, 6)) + 1j * rng.uniform(1000, 2000, (4, 6))
    t = rng.standard_normal((4, 6)) + 1j * rng.standard_normal((4, 6))
    x, t = x.astype(numpy.complex64), t.astype(numpy.complex64)
    wide = x.astype(numpy.complex128)
    e = numpy.exp(wide - wide.real.max(1, keepdims=True))
    share = e / e.sum(1, keepdims=True)
    leaf = facula.tensor(x, requires_grad=True)
    _, moved = func.jvp(lambda x: x.logsumexp(1), (leaf.detach(),), (facula.tensor(t),))
    (pulled,) = facula.autograd.grad(leaf.logsumexp(1, True), leaf, facula.ones(4, 1) + 0j)
    numpy.testing.assert_allclose(moved.numpy(), (share * t).sum(1), rtol=2e-6)
    numpy.testing.assert_allclose(pulled.numpy(), share.conj(), rtol=2e-6, atol=1e-9)


def test_a_tangent_of_another_precision_is_taken() -> None:
    x, v = Samples(F64, 1)(4), Samples(F64, 2)(4)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v.float())
        assert forward_ad.unpack_dual(dual).tangent.dtype is facula.float32
        tangent = forward_ad.unpack_dual(dual.sin()).tangent
        numpy.testing.assert_allclose(tangent.numpy(), numpy.cos(x.numpy()) * v.numpy(), rtol=1e-6)
        with pytest.raises(ValueError, match="floating point or complex"):
            forward_ad.make_dual(x, v.long())
