"""Elementwise operators of narrow integers are those of int64, reduced to the dtype's bits.

Takes: every pointwise operator that admits integers, its samples in each integer dtype.
Keeps true: results wrap as the bits do; float results and truth values do not depend on the width.
"""

import numpy as np
import pytest
from operator_cases import (
    DEFINITIONS,
    POINTWISE,
    TABLE,
    Samples,
    admits,
    calls,
    map_tensors,
    results_near,
)

import facula

NARROW = {name: getattr(facula, name) for name in ("int32", "int16", "int8", "uint8")}


def widened(x):
    return x.to(facula.int64) if x.dtype in NARROW.values() else x


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("name", [n for n in POINTWISE if admits(n, "int")])
def test_value(name, narrow):
    refuses = getattr(DEFINITIONS[name], "unsupported", None)
    for args, kwargs in calls(name, Samples(NARROW[narrow])):
        if refuses is not None and refuses("i32", kwargs):
            continue
        actual = TABLE[name](*args, **kwargs)
        wide_args, wide_kwargs = map_tensors(widened, (args, kwargs))
        expected = TABLE[name](*wide_args, **wide_kwargs)
        assert actual.dtype == (
            NARROW[narrow] if expected.dtype == facula.int64 else expected.dtype
        )
        results_near(actual, expected.to(actual.dtype), actual.dtype, 2)


@pytest.mark.parametrize("name", [*NARROW, "int64"])
def test_scaled_sums(name):
    """`alpha` and `value`, which few samples of integers have."""
    random = np.random.default_rng(2)
    arrays = [random.integers(0, 100, 37) for _ in range(3)]
    a, b, c = (facula.tensor(x).to(getattr(facula, name)) for x in arrays)
    x, y, z = arrays
    for got, expected in (
        (facula.add(a, b, alpha=3), x + 3 * y),
        (facula.sub(a, b, alpha=3), x - 3 * y),
        (facula.rsub(a, b, alpha=3), y - 3 * x),
        (facula.addcmul(a, b, c, value=2), x + 2 * y * z),
    ):
        assert got.dtype == a.dtype
        np.testing.assert_array_equal(got.numpy(), expected.astype(name))
