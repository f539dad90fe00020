"""`vmap`: against a loop for every operator of the table that has samples, its options, its errors."""

from __future__ import annotations

import warnings

import numpy
import pytest

import facula
from facula import func
from facula.ops.table.registry import TABLE, own_operators
from facula.testing.samples import Samples, map_tensors, pointwise_samples

F64 = facula.float64


def _tensors(value) -> list:  # type: ignore[no-untyped-def, type-arg]
    if isinstance(value, facula.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in _tensors(v)] if isinstance(value, (tuple, list)) else []


def samples_of(op, dtype) -> list:  # type: ignore[no-untyped-def, type-arg]
    """The samples of an operator in a dtype, those that it takes."""
    definition = op.definition
    if definition.kind == "pointwise":
        if ("complex" if dtype.is_complex else "float") not in definition.dtypes.split():
            return []
        found = list(pointwise_samples(definition, Samples(dtype)))
    elif definition.samples is not None:
        try:
            found = list(definition.samples(Samples(dtype)))
        except NotImplementedError:
            return []
    else:
        return []
    return found


def as_function(op, args, kwargs):  # type: ignore[no-untyped-def]
    """(the call as a function of its tensors that gives tensors, the tensors)."""
    tensors = _tensors((args, kwargs))

    def call(*values):  # type: ignore[no-untyped-def]
        rest = iter(values)
        a = map_tensors(lambda _: next(rest), args)
        k = map_tensors(lambda _: next(rest), kwargs)
        return tuple(_tensors(op(*a, **k)))

    return call, tensors


def is_inexact(x: facula.Tensor) -> bool:
    """Whether a tensor has a floating-point or complex dtype."""
    return x.is_floating_point() or x.is_complex()


def _dims(tensors: list, first_only: bool) -> list:  # type: ignore[type-arg]
    dims = [0 if is_inexact(t) and not (first_only and i) else None for i, t in enumerate(tensors)]
    return [0, *dims[1:]] if all(d is None for d in dims) else dims


def _compare(call, tensors, dims) -> None:  # type: ignore[no-untyped-def]
    stacked = [
        facula.stack([t, t * 0.5 if is_inexact(t) else t]) if d == 0 else t
        for t, d in zip(tensors, dims, strict=True)
    ]
    found = func.vmap(call, in_dims=tuple(dims))(*stacked)
    for index in range(2):
        row = [t[index].clone() if d == 0 else t for t, d in zip(stacked, dims, strict=True)]
        for a, b in zip(found, call(*row), strict=True):
            assert a[index].shape == b.shape and a.dtype == b.dtype
            numpy.testing.assert_allclose(a[index].numpy(), b.numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", list(own_operators()))
def test_equals_a_loop(name: str) -> None:
    checked = 0
    for dtype in (F64, facula.complex128):
        for args, kwargs in samples_of(TABLE[name], dtype):
            call, tensors = as_function(TABLE[name], args, kwargs)
            try:
                results = call(*tensors)
            except (NotImplementedError, RuntimeError, TypeError):
                continue  # the sample is for another dtype
            if not tensors or not results:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _compare(call, tensors, _dims(tensors, False))
                _compare(call, tensors, _dims(tensors, True))
            checked += 1


def test_dimensions_and_nestings() -> None:
    a, b = facula.randn(4, 3, 5, dtype=F64), facula.randn(5, 4, dtype=F64)
    out = func.vmap(lambda x, y: x @ y, in_dims=(0, 1), out_dims=1)(a, b)
    assert facula.equal(func.vmap(lambda x, y: x @ y, in_dims=(0, 1), out_dims=(1,))(a, b), out)
    numpy.testing.assert_allclose(out.numpy(), numpy.einsum("bij,jb->ib", a.numpy(), b.numpy()))
    nested = func.vmap(lambda d: {"y": (d["x"] * 2, d["x"].sum())}, in_dims=({"x": 1},))({"x": a})
    assert nested["y"][0].shape == (3, 4, 5) and nested["y"][1].shape == (3,)
    twice = func.vmap(func.vmap(facula.dot))(a, a)
    numpy.testing.assert_allclose(twice.numpy(), (a * a).sum(-1).numpy())
    assert func.vmap(lambda x: facula.ones(2))(a).shape == (4, 2)
    assert func.vmap(lambda x: x.sort(-1).values, chunk_size=3)(a).shape == a.shape


def test_promotion_is_that_of_an_entry() -> None:
    zero = facula.randn(3, dtype=F64)
    assert func.vmap(lambda s: facula.ones(2) * s)(zero).dtype == facula.float32
    assert func.vmap(lambda s: s + 1)(facula.arange(3)).dtype == facula.int64


def test_randomness() -> None:
    x = facula.zeros(4, 3)

    def noisy(x: facula.Tensor) -> facula.Tensor:
        return x + facula.rand(3)

    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.vmap(noisy)(x)
    same = func.vmap(noisy, randomness="same")(x)
    assert (same == same[0]).all()
    assert len(set(func.vmap(noisy, randomness="different")(x).flatten().tolist())) == 12
    dropped = func.vmap(facula.nn.functional.dropout, randomness="different")(facula.ones(8, 50))
    assert not (dropped == dropped[0]).all()
    orders = func.vmap(lambda _: facula.randperm(20), randomness="different")(x)
    assert (orders.sort(-1).values == facula.arange(20)).all() and not (orders == orders[0]).all()
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        func.vmap(noisy, randomness="none")


@pytest.mark.parametrize(
    ("call", "exception", "text"),
    [
        (lambda x: func.vmap(lambda: x)(), ValueError, "got no inputs"),
        (lambda x: func.vmap(lambda y: y, in_dims="0")(x), ValueError, "expected `in_dims`"),
        (lambda x: func.vmap(lambda y: y, in_dims=5)(x), ValueError, "Got in_dim=5"),
        (lambda x: func.vmap(lambda y: y, in_dims=None)(x), ValueError, "expected `in_dims`"),
        (lambda x: func.vmap(lambda y: y)(3), ValueError, "non-Tensor arguments"),
        (lambda x: func.vmap(lambda a, b: a)(x, x[:2]), ValueError, "same size"),
        (lambda x: func.vmap(lambda a, b: a, in_dims=(0,))(x, x), ValueError, "not compatible"),
        (lambda x: func.vmap(lambda y: 1.0)(x), ValueError, "must only return Tensors"),
        (lambda x: func.vmap(lambda y: y, out_dims="a")(x), ValueError, "`out_dims` must be"),
        (lambda x: func.vmap(lambda y: y if y.sum() > 0 else -y)(x), RuntimeError, "control flow"),
        (lambda x: func.vmap(lambda y: y.sum().item())(x), RuntimeError, "calling .item()"),
        (lambda x: func.vmap(lambda y: facula.zeros(3).add_(y))(x), RuntimeError, "inplace"),
        (lambda x: func.vmap(lambda y: y.requires_grad_())(x), RuntimeError, "requires_grad_"),
        (lambda x: func.vmap(lambda y: facula.nonzero(y > 0))(x), RuntimeError, "dynamic shapes"),
    ],
)
def test_errors(call, exception, text) -> None:  # type: ignore[no-untyped-def]
    x = facula.tensor([[1.0, -2.0, 3.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [4.0, -5.0, -6.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(exception, match=text.replace("(", r"\(").replace(")", r"\)")):
            call(x)


def test_an_escaped_entry_says_so() -> None:
    kept = []
    func.vmap(lambda x: kept.append(x) or x)(facula.randn(3, 2))
    with pytest.raises(RuntimeError, match="outlived its vmap"):
        kept[0] + 1


def test_writes() -> None:
    x = facula.randn(4, 3, dtype=F64)

    def write(row: facula.Tensor) -> facula.Tensor:
        y = row.new_zeros(3, 3)
        y.diagonal().copy_(row)
        y[0, 1:] = row[1:] * 2
        y.add_(1).index_add_(0, facula.tensor([2]), row[None])
        return y

    found = func.vmap(write)(x)
    for i in range(4):
        numpy.testing.assert_allclose(found[i].numpy(), write(x[i]).numpy())


def test_custom_functions() -> None:
    class Cube(facula.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):  # type: ignore[no-untyped-def]
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    x = facula.randn(4, 3, dtype=F64)
    numpy.testing.assert_allclose(func.vmap(Cube.apply)(x).numpy(), (x**3).numpy())
    rows = func.vmap(func.grad(lambda r: Cube.apply(r).sum()))(x)
    numpy.testing.assert_allclose(rows.numpy(), (3 * x**2).numpy())
    Cube.generate_vmap_rule = False
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        func.vmap(Cube.apply)(x)


def test_conversions_of_entries():
    x, like = facula.arange(6).reshape(3, 2), facula.zeros(3, 2, dtype=facula.float64)
    for change, wanted in (
        (lambda a, b: a.to(facula.float16), facula.float16),
        (lambda a, b: a.to(b), facula.float64),
        (lambda a, b: a.to("cpu", facula.int8), facula.int8),
        (lambda a, b: a.to(facula.float32, copy=True), facula.float32),
    ):
        for dims in ((0, 0), (1, 1), (0, None)):
            made = facula.vmap(change, in_dims=dims)(x, like)
            assert made.dtype is wanted
            numpy.testing.assert_array_equal(
                made.double().numpy(), x.numpy().T if dims == (1, 1) else x.numpy()
            )
