"""References compute small integers as kernels do, and conversions have names."""

import pytest

import facula
from facula import _refs


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "int32", "int64"])
def test_small_integers(dtype):
    x = facula.tensor([0, 1, 5], dtype=getattr(facula, dtype))
    for name in ("isclose", "maximum", "eq"):
        assert getattr(_refs, name)(x, x).equal(getattr(facula, name)(x, x))
    assert _refs.nn.functional.hardtanh(x).equal(facula.nn.functional.hardtanh(x))
    assert _refs.isneginf(x).tolist() == [False] * 3


@pytest.mark.parametrize("name", ["half", "double", "long", "byte", "bool", "cfloat"])
def test_conversions(name):
    x = facula.tensor([0.0, 1.5])
    assert getattr(_refs._conversions, name)(x).equal(getattr(x, name)())
    assert _refs._conversions.complex(x, x).equal(facula.complex(x, x))
