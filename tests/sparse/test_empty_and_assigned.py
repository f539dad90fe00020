"""Sparse tensors without entries in sums, and what is not assigned to."""

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("alpha", [1, 3])
def test_what_has_no_entries_adds_nothing_whatever_its_sparse_dimensions(alpha):
    rows = facula.tensor([[1.0, 2.0], [0.0, 0.0], [0.0, 5.0]], dtype=facula.float64).to_sparse(1)
    empty = facula.sparse_coo_tensor((3, 2), dtype=facula.float64)
    assert empty.sparse_dim() == 2
    assert rows.sparse_dim() == 1
    left = facula.add(rows, empty, alpha=alpha)
    np.testing.assert_array_equal(left.to_dense().numpy(), rows.to_dense().numpy())
    right = facula.add(empty, rows, alpha=alpha)
    np.testing.assert_array_equal(right.to_dense().numpy(), alpha * rows.to_dense().numpy())
    left.values().fill_(0.0)
    np.testing.assert_array_equal(rows.to_dense().numpy(), [[1, 2], [0, 0], [0, 5]])
    with pytest.raises(RuntimeError, match="same number of sparse dimensions"):
        _ = rows + rows.to_dense().to_sparse(2)


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_elements_of_sparse_tensors_are_not_assigned(layout):
    x = getattr(facula.eye(3), layout)()
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        x[0] = 1.0


def test_only_iterables_are_asked_for_overrides():
    with pytest.raises(TypeError, match="expected a sequence"):
        facula.overrides.has_torch_function(5)
    assert not facula.overrides.has_torch_function([facula.ones(1)])
