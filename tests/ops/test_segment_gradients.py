"""Reductions of segments and their gradients: beside plain loops, and beside differences."""

import math

import pytest

import facula

LENGTHS = [2, 0, 3, 1]
ROWS = [[1.0, 2.0], [3.0, 2.0], [0.0, 5.0], [4.0, 0.0], [0.0, 7.0], [2.0, 3.0]]


def of_segments(kind, rows, initial):
    """The values by a loop over rows, columns and segments."""
    start = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[kind]
    results, at = [], 0
    for length in LENGTHS:
        row = []
        for column in range(2):
            value = start if initial is None else initial
            for i in range(at, at + length):
                x = rows[i][column]
                if kind in ("sum", "mean"):
                    value += x
                elif kind == "prod":
                    value *= x
                else:
                    value = x if math.isnan(x) or not math.isnan(value) and (
                        x > value if kind == "max" else x < value) else value  # fmt: skip
            if kind == "mean":
                value = value / length if length else (math.nan if initial is None else value)
            row.append(value)
        at += length
        results.append(row)
    return results


@pytest.mark.parametrize("by", ["lengths", "offsets"])
@pytest.mark.parametrize("initial", [None, 2.55])
@pytest.mark.parametrize("kind", ["sum", "mean", "prod", "max", "min"])
def test_values_and_gradients(kind, initial, by):
    data = facula.tensor(ROWS, dtype=facula.float64, requires_grad=True)
    lengths = facula.tensor(LENGTHS)
    where = {"lengths": lengths} if by == "lengths" else {
        "offsets": facula.tensor([0, 2, 2, 5, 6])}  # fmt: skip

    def reduced(x):
        return facula.segment_reduce(x, kind, initial=initial, **where)

    wanted = facula.tensor(of_segments(kind, ROWS, initial), dtype=facula.float64)
    facula.testing.assert_close(reduced(data), wanted, equal_nan=True)
    if kind in ("max", "min"):  # ties and corners have no difference quotient
        data = (data + facula.arange(12, dtype=facula.float64).reshape(6, 2) * 0.1).detach()
        data.requires_grad_()
    assert facula.autograd.gradcheck(lambda x: reduced(x)[[0, 2, 3]], (data,))
    assert facula.autograd.gradgradcheck(lambda x: reduced(x)[[0, 2, 3]], (data,))


def gradient(kind, column):
    data = facula.tensor(column, requires_grad=True)
    lengths = facula.tensor([len(column)])
    facula.segment_reduce(data, kind, lengths=lengths).sum().backward()
    return data.grad.tolist()


def test_ties_share_and_nan_is_equal_to_nan():
    nan = math.nan
    assert gradient("max", [3.0, 1.0, 3.0]) == [0.5, 0.0, 0.5]
    assert gradient("max", [nan, 3.0]) == [1.0, 0.0] and gradient("min", [2.0, nan]) == [0.0, 1.0]
    assert gradient("mean", [nan, 3.0]) == [0.5, 0.5]


def test_products_with_zeros_and_nan_are_those_of_the_others():
    assert gradient("prod", [0.0, 3.0, 4.0]) == [12.0, 0.0, 0.0]
    assert gradient("prod", [0.0, 0.0, 4.0]) == [0.0, 0.0, 0.0]
    first, second = gradient("prod", [math.nan, 3.0])
    assert first == 3.0 and math.isnan(second)
    first, second, third = gradient("prod", [math.nan, 0.0, 2.0])
    assert first == 0.0 and math.isnan(second) and math.isnan(third)


def test_nothing_in_segments():
    empty = facula.ones(0, requires_grad=True)
    result = facula.segment_reduce(empty, "sum", lengths=facula.tensor([0, 0]), initial=2.0)
    assert result.tolist() == [2.0, 2.0]
    result.sum().backward()
    assert empty.grad.tolist() == []
    none = facula.segment_reduce(facula.ones(0), "max", lengths=facula.zeros(0, dtype=facula.int64))
    assert none.tolist() == []


def test_entries_of_a_batch():
    data = facula.randn(4, 6, 2, dtype=facula.float64)
    lengths = facula.tensor(LENGTHS)

    def one(x):
        return facula.segment_reduce(x, "sum", lengths=lengths)

    facula.testing.assert_close(facula.vmap(one)(data), facula.stack([one(x) for x in data]))
