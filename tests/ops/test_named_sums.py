"""Statistics, segments, copies of views and gradients of steps: against NumPy, or against what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import facula


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def test_covariance_and_correlation_are_numpys():
    x, frequency, weight = _random(3, 7), np.array([1, 2, 0, 3, 1, 1, 2]), np.linspace(0.5, 2, 7)
    given = facula.from_numpy(x)
    weights = {"fweights": facula.from_numpy(frequency), "aweights": facula.from_numpy(weight)}
    np.testing.assert_allclose(given.cov().numpy(), np.cov(x))
    expected = np.cov(x, fweights=frequency, aweights=weight, ddof=0)
    np.testing.assert_allclose(given.cov(correction=0, **weights).numpy(), expected)
    expected = np.cov(x, fweights=frequency, aweights=weight)
    np.testing.assert_allclose(given.cov(**weights).numpy(), expected)
    np.testing.assert_allclose(given.corrcoef().numpy(), np.corrcoef(x))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_is_numpys(order: int):
    x, points = _random(4, 5), np.array([0.0, 0.5, 2.0, 2.5, 4.0])
    for spacing, by_numpy in ((0.5, (0.5, 0.5)), ((1.0, 2.0), (1.0, 2.0))):
        got = facula.gradient(facula.from_numpy(x), spacing=spacing, edge_order=order)
        for a, b in zip(got, np.gradient(x, *by_numpy, edge_order=order), strict=True):
            np.testing.assert_allclose(a.numpy(), b)
    coordinates = (facula.from_numpy(points),)
    got = facula.gradient(facula.from_numpy(x), spacing=coordinates, dim=1, edge_order=order)
    np.testing.assert_allclose(got[0].numpy(), np.gradient(x, points, axis=1, edge_order=order))


def test_cross_and_trace_are_numpys():
    a, b = _random(4, 3), _random(4, 3, seed=1)
    got = facula.cross(facula.from_numpy(a), facula.from_numpy(b), dim=1)
    np.testing.assert_allclose(got.numpy(), np.cross(a, b))
    assert facula.from_numpy(a).trace().item() == pytest.approx(np.trace(a))


@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min"])
def test_segments_are_reductions_of_slices(kind: str):
    x, lengths = _random(6, 2), [2, 3, 1]
    cuts = np.split(x, np.cumsum(lengths)[:-1])
    expected = np.stack([getattr(piece, kind)(0) for piece in cuts])
    data = facula.from_numpy(x)
    by_length = facula.segment_reduce(data, kind, lengths=facula.tensor(lengths))
    by_offset = facula.segment_reduce(data, kind, offsets=facula.tensor([0, 2, 5, 6]))
    np.testing.assert_allclose(by_length.numpy(), expected)
    np.testing.assert_allclose(by_offset.numpy(), expected)


def test_hash_is_the_exclusive_or_of_the_bits():
    x = _random(5, 4)
    expected = np.bitwise_xor.reduce(x.view(np.uint64), axis=0)
    np.testing.assert_array_equal(facula.hash_tensor(facula.from_numpy(x), 0).numpy(), expected)


def test_copies_of_views_are_in_memory_of_their_own():
    x = facula.from_numpy(_random(3, 4))
    for copy, view in (
        (facula.t_copy(x), x.t()),
        (facula.expand_copy(x, (2, 3, 4)), x.expand(2, 3, 4)),
        (facula.narrow_copy(x, 1, 1, 2), x.narrow(1, 1, 2)),
        (facula.split_copy(x, 2)[1], x.split(2)[1]),
        (x.repeat(1, 2), facula.cat([x, x], 1)),
    ):
        assert copy.is_contiguous() and facula.equal(copy, view)
        copy.zero_()
    np.testing.assert_array_equal(x.numpy(), _random(3, 4))


def test_repeating_a_number_gives_places_of_their_own():
    x = facula.tensor(1.0)
    repeated = x.repeat(2, 3)
    repeated[0, 0] = 5.0
    assert x.item() == 1.0 and repeated.sum().item() == 10.0


def test_one_value_may_be_written_to_expanded_memory():
    x = facula.zeros(3, 1)
    x.expand(3, 4).fill_(2.0)
    assert x.tolist() == [[2.0]] * 3


def test_the_gradient_of_steps_is_zero_and_not_nothing():
    x = facula.tensor([0.5, 1.5], requires_grad=True)
    facula.floor(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_second_derivatives_of_kinks_and_means_are_zero():
    x = facula.randn(1, 1, 6, requires_grad=True)
    for function in (facula.relu, lambda v: facula.nn.functional.avg_pool1d(v, 2)):
        (first,) = facula.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = facula.autograd.grad(first.sum(), x)
        assert not second.any()


@pytest.mark.parametrize("name", ["maximum", "fmin", "hypot", "logical_and", "atan2", "gcd"])
def test_numbers_are_no_tensors_where_pytorch_takes_none(name: str):
    x = facula.ones(2, dtype=facula.int64 if name == "gcd" else facula.float32)
    with pytest.raises(TypeError, match="must be Tensor"):
        getattr(facula, name)(x, 1)
    with pytest.raises(TypeError):
        facula.cat([x, None])


def test_out_decides_the_dtype_of_a_factory():
    out = facula.empty(0, dtype=facula.int64)
    assert facula.arange(0, 6.5, 1.5, out=out).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="step must be nonzero"):
        facula.arange(0, 4, 0.5, out=out)
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        facula.ones(3, dtype=facula.float32, out=out)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (3, 1), (2, 5, 3, 5)])
def test_areas_over_points(shape):
    """Of one row of points for all, or of points for each value; a row of another length is refused."""
    random = np.random.default_rng(4)
    y = random.standard_normal(shape)
    for dim in range(-1, len(shape)):
        line = random.standard_normal(shape[dim]).cumsum()
        every = random.standard_normal(shape).cumsum(dim)
        for x in (line, every):
            points = (
                np.moveaxis(np.broadcast_to(x, np.moveaxis(y, dim, -1).shape), -1, dim)
                if x is line
                else x
            )
            values, places = np.moveaxis(y, dim, -1), np.moveaxis(points, dim, -1)
            parts = (values[..., 1:] + values[..., :-1]) / 2 * np.diff(places)
            given = facula.tensor(y), facula.tensor(x)
            np.testing.assert_allclose(facula.trapezoid(*given, dim=dim).numpy(), parts.sum(-1))
            sums = np.moveaxis(parts.cumsum(-1), -1, dim)
            np.testing.assert_allclose(facula.cumulative_trapezoid(*given, dim=dim).numpy(), sums)
        for function in (facula.trapezoid, facula.cumulative_trapezoid):
            with pytest.raises(RuntimeError, match="one `x` value for each sample point"):
                function(facula.tensor(y), facula.zeros(shape[dim] + 1), dim=dim)


@pytest.mark.parametrize("order", [1, 2, 3, np.inf, -np.inf])
def test_norms_of_zeros_have_derivatives_of_zero(order):
    """By convention, the first and the second one; elsewhere the norm's are its own."""
    x = facula.zeros(3, dtype=facula.float64, requires_grad=True)
    (first,) = facula.autograd.grad(facula.linalg.vector_norm(x, order), x, create_graph=True)
    assert first.tolist() == [0, 0, 0]
    if first.requires_grad:
        (second,) = facula.autograd.grad(first @ facula.tensor([1.0, 2, 3]).double(), x)
        assert second.tolist() == [0, 0, 0]
