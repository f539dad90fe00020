"""Sorting, top-k, order statistics and distinct values against NumPy, with NaN, signed zeros
and ties.
"""

import numpy as np
import pytest

from facula import core
from facula.ops import F

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8"]
SHAPES = [(3, 1), (5, 7), (4, 33), (3, 500), (2, 5000), (1, 70000)]


@pytest.fixture
def random():
    return np.random.default_rng(1)


def values(random, shape, dtype):
    array = (random.standard_normal(shape) * 20).astype(dtype)
    if np.dtype(dtype).kind == "f":
        flat = array.reshape(-1)
        flat[::7], flat[::5], flat[::11] = np.nan, -0.0, 0.0
        flat[::13], flat[::17] = np.inf, -np.inf
    return array


def tensor(array):
    return core.from_numpy(np.ascontiguousarray(array).copy())


def order(array, descending):
    """Stable positions with NaN as the largest value."""
    if not descending:
        return np.argsort(array, axis=-1, kind="stable")
    if array.dtype.kind != "f":  # bools and unsigned integers too
        return np.argsort(-array.astype("int64"), axis=-1, kind="stable")
    with np.errstate(over="ignore"):
        finite = np.nan_to_num(array.astype("float64"), nan=0, posinf=1e300, neginf=-1e300)
    return np.lexsort((-finite, ~np.isnan(array)), axis=-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sort(random, dtype, shape, descending):
    array = values(random, shape, dtype)
    result, places = F.sort(tensor(array), -1, descending)
    expected = order(array, descending)
    np.testing.assert_array_equal(places.numpy(), expected)
    np.testing.assert_array_equal(result.numpy(), np.take_along_axis(array, expected, -1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("largest", [False, True])
def test_topk_is_the_head_of_the_sorted_row(random, dtype, shape, largest):
    array = values(random, shape, dtype)
    places = order(array, largest)
    for k in {1, min(5, shape[1]), shape[1] // 2 or 1, shape[1]}:
        result, found = F.topk(tensor(array), k, -1, largest)
        np.testing.assert_array_equal(found.numpy(), places[:, :k])
        np.testing.assert_array_equal(result.numpy(), np.take_along_axis(array, places[:, :k], -1))


@pytest.fixture(params=[1, 4])
def threads(request):
    before = core.get_num_threads()
    core.set_num_threads(request.param)
    yield
    core.set_num_threads(before)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("shape", [*SHAPES, (60, 1700)])
@pytest.mark.parametrize("descending", [False, True])
def test_values_alone(random, threads, dtype, shape, descending):
    """What graphs call that do not read where the values stood: with the signs of zeros."""
    array = values(random, shape, dtype)
    expected = np.take_along_axis(array, order(array, descending), -1)
    result = F._sort_values(tensor(array), -1, descending).numpy()
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result * 1.0), np.signbit(expected * 1.0))
    for k in {1, min(5, shape[1]), shape[1] // 2 or 1, shape[1]}:
        result = F._topk_values(tensor(array), k, -1, descending).numpy()
        np.testing.assert_array_equal(result, expected[:, :k])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_kthvalue(random, dtype, shape):
    array = values(random, shape, dtype)
    places = order(array, False)
    for k in {1, shape[1] // 3 + 1, shape[1]}:
        result, found = F.kthvalue(tensor(array), k)
        np.testing.assert_array_equal(found.numpy(), places[:, k - 1])


def test_other_dimensions(random):
    array = values(random, (4, 5, 6), "float32")
    for dim in range(3):
        result, places = F.sort(tensor(array), dim)
        np.testing.assert_array_equal(result.numpy(), np.sort(array, dim))
        moved = tensor(array.transpose(2, 0, 1)).permute(1, 2, 0)
        np.testing.assert_array_equal(F.sort(moved, dim)[1].numpy(), places.numpy())


def test_medians(random):
    array = random.standard_normal((6, 101)).astype("float32")
    np.testing.assert_array_equal(F.median(tensor(array), 1)[0].numpy(), np.median(array, 1))
    array[2, 5] = np.nan
    assert np.isnan(F.median(tensor(array), 1)[0].numpy()[2])
    assert F.median(tensor(array), 1)[1].numpy()[2] == 5
    expected = np.sort(array[2][~np.isnan(array[2])])[49]
    assert F.nanmedian(tensor(array), 1)[0].numpy()[2] == expected
    assert np.isnan(F.median(tensor(array)).item())
    assert F.median(core.tensor([4, 1, 3, 2])).item() == 2


def test_mode():
    rows = core.tensor([[2, 1, 1, 2, 3], [5, 4, 5, 5, 4]])
    result, places = F.mode(rows)
    assert result.tolist() == [1, 5] and places.tolist() == [2, 3]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(random, interpolation):
    array = random.standard_normal((7, 40))
    q = np.array([0.0, 0.1, 0.5, 0.83, 1.0])
    expected = np.quantile(array, q, axis=1, method=interpolation)
    result = F.quantile(tensor(array), tensor(q), 1, interpolation=interpolation)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)
    array[0, 0] = np.nan
    expected = np.nanquantile(array, q, axis=1, method=interpolation)
    result = F.nanquantile(tensor(array), tensor(q), 1, interpolation=interpolation)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_unique(random, dtype):
    array = (random.standard_normal(3000) * 4).astype("int8").astype(dtype)
    expected = np.unique(array, return_inverse=True, return_counts=True)
    result = F.unique(tensor(array), True, True, True)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    rows = random.integers(0, 3, (50, 4)).astype(dtype)
    expected = np.unique(rows, axis=0, return_counts=True)
    result, counts = F.unique(tensor(rows), True, False, True, 0)
    np.testing.assert_array_equal(result.numpy(), expected[0])
    np.testing.assert_array_equal(counts.numpy(), expected[1])


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
@pytest.mark.parametrize(
    ("shape", "dim"), [((40,), 0), ((40, 1), 0), ((1, 40), 1), ((9, 2, 30), -1)]
)
def test_unique_slices(random, shape, dim, dtype):
    array = random.integers(0, 3, shape).astype(dtype)
    expected = np.unique(array, axis=dim, return_inverse=True, return_counts=True)
    result, inverse, counts = F.unique(tensor(array), True, True, True, dim)
    np.testing.assert_array_equal(result.numpy(), expected[0])
    np.testing.assert_array_equal(inverse.numpy(), expected[1].reshape(-1))
    np.testing.assert_array_equal(counts.numpy(), expected[2])


def test_unique_consecutive():
    x = core.tensor([1, 1, 2, 2, 2, 1, 3, 3])
    result, number, counts = F.unique_consecutive(x, True, True)
    assert result.tolist() == [1, 2, 1, 3]
    assert number.tolist() == [0, 0, 1, 1, 1, 2, 3, 3]
    assert counts.tolist() == [2, 3, 1, 2]


def test_isin(random):
    a, b = random.integers(0, 100, (30, 4)), random.integers(0, 100, 20)
    np.testing.assert_array_equal(F.isin(tensor(a), tensor(b)).numpy(), np.isin(a, b))
    np.testing.assert_array_equal(
        F.isin(tensor(a), tensor(b[:3]), invert=True).numpy(), np.isin(a, b[:3], invert=True)
    )


def test_sorted_values_carry_gradients():
    x = core.tensor([3.0, 1.0, 2.0]).requires_grad_()
    (F.sort(x)[0] * core.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


def test_empty_rows():
    result, places = F.sort(F.zeros(3, 0))
    assert tuple(result.shape) == (3, 0) and places.dtype is core.int64
    assert tuple(F.topk(F.zeros(3, 4), 0)[0].shape) == (3, 0)
    assert tuple(F.sort(F.zeros(0, 5))[0].shape) == (0, 5)


BAD = [
    (lambda x: F.topk(x, 9), RuntimeError, "selected index k out of range"),
    (lambda x: F.kthvalue(x, 0), RuntimeError, "out of range"),
    (lambda x: F.sort(x, 5), IndexError, "Dimension out of range"),
    (lambda x: F.sort(x.to(core.complex64)), RuntimeError, "complex"),
    (lambda x: F.quantile(x, 2.0), RuntimeError, r"range \[0, 1\]"),
]


@pytest.mark.parametrize("call,exception,text", BAD)
def test_errors_name_what_is_wrong(call, exception, text):
    with pytest.raises(exception, match=text):
        call(F.zeros(3, 4))
