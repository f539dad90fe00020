"""Elementwise functions against values to 50 digits (`tools/make_vectors.py`): ends of the format, zeros, limits."""

import json
from pathlib import Path

import numpy as np
import pytest
from operator_cases import TABLE

import facula

VECTORS = json.loads((Path(__file__).parents[1] / "oracles" / "vectors.json").read_text())
#: how many units in the last place a value may be off, and how many roundings of its argument that is worth
UNITS, ROUNDINGS = 4, 4


def vectors_of(name):
    """Arguments, values and sensitivities."""
    return [np.array([float.fromhex(v) for v in VECTORS[name][key]]) for key in "xyd"]


def judge(name, x, y, d, dtype):
    """Values within some units; zeros of their sign, infinities and NaN exactly."""
    kind = np.float64 if dtype == facula.float64 else np.float32
    with np.errstate(over="ignore", under="ignore"):
        wanted = y.astype(kind)
    actual = TABLE[name](facula.tensor(x).to(dtype)).numpy()
    assert actual.dtype == kind
    special = ~np.isfinite(wanted) | (y == 0)
    np.testing.assert_array_equal(actual[special], wanted[special])
    zeros = special & (wanted == 0)
    np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(wanted[zeros]))
    tiny = np.finfo(kind)
    unit = np.maximum(
        np.spacing(np.abs(wanted[~special])).astype(float), float(tiny.smallest_subnormal)
    )
    bound = UNITS * unit + ROUNDINGS * float(tiny.eps) * d[~special]
    error = np.abs(actual[~special].astype(float) - y[~special])
    off = error > bound
    assert not off.any(), list(
        zip(x[~special][off], actual[~special][off], y[~special][off], strict=True)
    )


@pytest.mark.parametrize("name", VECTORS)
def test_float64(name):
    judge(name, *vectors_of(name), facula.float64)


@pytest.mark.parametrize("name", VECTORS)
def test_float32(name):
    """The same values, where the argument is a float32."""
    x, y, d = vectors_of(name)
    with np.errstate(over="ignore", under="ignore"):
        short = (x.astype(np.float32) == x) | np.isnan(x)
    assert short.sum() >= 10
    judge(name, x[short], y[short], d[short], facula.float32)


@pytest.mark.parametrize("name", VECTORS)
def test_any_place_of_a_vector_register(name):
    """Lanes and the elements behind the last full register give the same values."""
    x = facula.tensor(vectors_of(name)[0])
    whole = TABLE[name](x).numpy()
    single = np.array([TABLE[name](x[at : at + 1].clone()).item() for at in range(len(x))])
    np.testing.assert_array_equal(whole, single)
