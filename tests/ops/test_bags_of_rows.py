"""Bags of rows against plain loops: where bags end, and what frequencies do to gradients."""

import numpy as np
import pytest

import facula
from facula.nn import functional

INDICES = [1, 2, 2, 0, 2, 2, 1, 3]
WEIGHTS = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def reference(table, edges, mode, padding, scales, by_frequency):
    """Values of bags, and the gradients of their sum in the table and the scales, index by index."""
    values = np.zeros((len(edges) - 1, table.shape[1]))
    to_table, to_scales = np.zeros_like(table), np.zeros(len(INDICES))
    for bag in range(len(edges) - 1):
        members = [k for k in range(edges[bag], edges[bag + 1]) if INDICES[k] != padding]
        for k in members:
            row = INDICES[k]
            factor = 1.0 if scales is None else scales[k]
            if mode == "mean":
                factor /= len(members)
            values[bag] += factor * table[row]
            to_table[row] += factor / (INDICES.count(row) if by_frequency else 1)
            to_scales[k] = table[row].sum()
    return values, to_table, to_scales


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("padding", [None, 1, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "weighted"])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("edges", [[0, 3, 3, 6], [0, 2, 8], [0]], ids=str)
def test_a_last_offset_ends_the_last_bag(compiled, padding, mode, by_frequency, edges):
    table = np.random.default_rng(3).normal(size=(5, 2))
    scales = WEIGHTS if mode == "weighted" else None
    mode = "sum" if mode == "weighted" else mode
    expected = reference(table, edges, mode, padding, scales, by_frequency)

    def bags(indices, rows, offsets, factors):
        return functional.embedding_bag(
            indices,
            rows,
            offsets,
            mode=mode,
            padding_idx=padding,
            per_sample_weights=factors,
            scale_grad_by_freq=by_frequency,
            include_last_offset=True,
        )

    rows = facula.tensor(table, requires_grad=True)
    factors = None
    if scales is not None:
        factors = facula.tensor(scales, dtype=facula.float64, requires_grad=True)
    call = facula.compile(bags) if compiled else bags
    result = call(facula.tensor(INDICES), rows, facula.tensor(edges), factors)
    result.sum().backward()
    np.testing.assert_allclose(result.detach().numpy(), expected[0], rtol=1e-12)
    np.testing.assert_allclose(rows.grad.numpy(), expected[1], rtol=1e-12)
    if factors is not None:
        np.testing.assert_allclose(factors.grad.numpy(), expected[2], rtol=1e-12)


def test_the_largest_of_a_bag_is_not_behind_its_end():
    rows = facula.arange(5.0).unsqueeze(1).requires_grad_()
    result = functional.embedding_bag(
        facula.arange(5), rows, facula.tensor([0, 2, 4]), mode="max", include_last_offset=True
    )
    result.sum().backward()
    assert result.flatten().tolist() == [1.0, 3.0]
    assert rows.grad.flatten().tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


def test_a_last_offset_is_needed_where_it_is_promised():
    with pytest.raises(RuntimeError, match="number of offset should be at least 1"):
        functional.embedding_bag(
            facula.arange(3),
            facula.ones(3, 1),
            facula.tensor([], dtype=facula.int64),
            include_last_offset=True,
        )


@pytest.mark.parametrize("padding", [None, 1, 2])
def test_frequencies_of_rows_of_bags_count_all_indices(padding):
    rows = facula.ones(5, 1, requires_grad=True)
    indices = facula.tensor(INDICES).reshape(2, 4)
    functional.embedding_bag(
        indices, rows, mode="sum", scale_grad_by_freq=True, padding_idx=padding
    ).sum().backward()
    expected = [float(row in INDICES and row != padding) for row in range(5)]
    np.testing.assert_allclose(rows.grad.flatten().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_table_may_be_written_to_before_its_gradient_is_taken(mode: str) -> None:
    """Only the gradient of weights of rows reads the table: other programs write to it meanwhile."""
    table = facula.ones(5, 3, requires_grad=True)
    indices = facula.tensor([0, 1, 1, 4])
    out = functional.embedding_bag(indices, table, facula.tensor([0, 2]), mode=mode)
    with facula.no_grad():
        table.mul_(2)
    out.sum().backward()
    share = 0.5 if mode == "mean" else 1.0
    want = facula.tensor([1.0, 2.0, 0.0, 0.0, 1.0]) * share
    if mode != "max":
        assert facula.equal(table.grad, want.unsqueeze(1).expand(5, 3))
    scales = facula.ones(4, requires_grad=True)
    if mode == "sum":
        out = functional.embedding_bag(
            indices, table, facula.tensor([0, 2]), mode=mode, per_sample_weights=scales
        )
        with facula.no_grad():
            table.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
