"""What is compared with a 16-bit float is first rounded to its dtype, as promotion says."""

import operator

import numpy as np
import pytest

import facula

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
NUMBERS = [0.1, -1e4, 0.3, 0.7, 1e-9, 257, 2049, 1e6, float("inf"), float("nan")]


def nearest(values, dtype):
    """The float32 values that a 16-bit dtype has nearest to these, ties to even, by NumPy's integers."""
    if dtype is facula.float16:
        with np.errstate(over="ignore"):
            return np.asarray(values, np.float64).astype(np.float16).astype(np.float32)
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    kept = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    found = kept.astype(np.uint32).view(np.float32)
    return np.where(np.isnan(np.asarray(values, np.float32)), np.float32("nan"), found)


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
@pytest.mark.parametrize("name", COMPARISONS)
def test_numbers(name, dtype):
    x = facula.tensor(NUMBERS, dtype=dtype)
    for number in NUMBERS:
        expected = getattr(operator, name)(nearest(NUMBERS, dtype), nearest([number], dtype))
        found = [
            getattr(facula, name)(x, number),
            getattr(operator, name)(x, number),
            getattr(facula, name)(x, facula.tensor(number, dtype=facula.float64)),
            getattr(facula, name)(x.expand(2, -1).t(), number)[:, 1],
            getattr(facula, name)(x, number, out=facula.empty(0, dtype=facula.bool)),
            getattr(x.clone(), name + "_")(number) != 0,
        ]
        for result in found:
            assert result.tolist() == expected.tolist(), number


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
@pytest.mark.parametrize("name", COMPARISONS)
def test_integers_of_as_many_elements(name, dtype):
    integers = np.arange(-5000, 5000)
    x = facula.tensor(nearest(integers[::-1] / 2, dtype)).to(dtype)
    expected = getattr(operator, name)(
        nearest(integers[::-1] / 2, dtype), nearest(integers.astype(np.float64), dtype)
    )
    for kind in (facula.int64, facula.int16):
        other = facula.tensor(integers, dtype=kind)
        assert getattr(facula, name)(x, other).tolist() == expected.tolist()
        compiled = facula.compile(lambda a, b: getattr(facula, name)(a, b), fullgraph=True)
        assert compiled(x, other).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
def test_compiled_numbers(dtype):
    x = facula.tensor(NUMBERS, dtype=dtype)
    for name in COMPARISONS:
        for number in (0.1, -1e4, 257):
            expected = getattr(operator, name)(nearest(NUMBERS, dtype), nearest([number], dtype))
            compiled = facula.compile(lambda a: getattr(facula, name)(a, number), fullgraph=True)  # noqa: B023
            assert compiled(x).tolist() == expected.tolist()


def test_wider_operands_keep_their_places():
    """float32 is what 16-bit floats and float32 of as many dimensions promote to."""
    x = facula.tensor([0.1], dtype=facula.float16)
    assert (x == facula.tensor([0.1])).tolist() == [False]
    assert (x == x.float()).tolist() == [True]
    assert (facula.tensor([0.1]) == 0.1).tolist() == [True]
