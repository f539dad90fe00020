"""Running sums and extremes of rows so long, and so few, that threads take pieces of a row.

Takes: one to three rows of some hundred thousand elements. Keeps true: sums of whole numbers are exact in any order.
"""

import numpy as np
import pytest

import facula

LENGTH = 400_003


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = facula.get_num_threads()
    facula.set_num_threads(request.param)
    yield
    facula.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("rows", [1, 3])
def test_pieces_are_joined(threads, rows, dtype):
    random = np.random.default_rng(rows)
    x = random.integers(-3, 4, (rows, LENGTH)).astype(dtype)
    given = facula.tensor(x)
    np.testing.assert_array_equal(given.cumsum(1).numpy(), np.cumsum(x, 1, dtype))
    signs = np.where(random.random((rows, LENGTH)) < 0.5, -1, 1).astype(dtype)
    np.testing.assert_array_equal(
        facula.tensor(signs).cumprod(1).numpy(), np.cumprod(signs, 1, dtype)
    )
    for function, oracle in ((facula.cummax, np.maximum), (facula.cummin, np.minimum)):
        y = random.integers(0, 1 << 20, (rows, LENGTH)).astype(dtype)
        values, places = function(facula.tensor(y), 1)
        np.testing.assert_array_equal(values.numpy(), oracle.accumulate(y, axis=1))
        np.testing.assert_array_equal(np.take_along_axis(y, places.numpy(), 1), values.numpy())
    if dtype != "int64":
        z = random.uniform(-1, 1, (rows, LENGTH)).astype(dtype)
        found = facula.tensor(z).logcumsumexp(1).numpy()
        expected = np.log(np.cumsum(np.exp(z.astype("float64")), 1))
        np.testing.assert_allclose(found, expected, rtol=64 * np.finfo(dtype).eps, atol=1e-5)
