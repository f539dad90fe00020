"""Scripts read the parts of sparse tensors of every layout."""

from __future__ import annotations

import numpy
import pytest
import scipy.sparse

import facula

VALUES = numpy.array([[1, 0, 2, 0], [0, 0, 3, 0], [4, 0, 0, 5], [0, 6, 0, 0]], numpy.float32)


def rows(x: facula.Tensor):
    y = x.to_sparse_csr()
    return y.crow_indices(), y.col_indices(), y.values()


def columns(x: facula.Tensor):
    y = x.to_sparse_csc()
    return y.ccol_indices(), y.row_indices(), y.values()


def blocks(x: facula.Tensor):
    y = x.to_sparse_bsr([2, 2])
    return y.crow_indices(), y.col_indices(), y.values()


def coordinates(x: facula.Tensor):
    y = x.to_sparse()
    return y._indices()[0], y._indices()[1], y._values()


@pytest.mark.parametrize(
    ("function", "matrix", "names"),
    [
        (rows, scipy.sparse.csr_array(VALUES), ("indptr", "indices", "data")),
        (columns, scipy.sparse.csc_array(VALUES), ("indptr", "indices", "data")),
        (blocks, scipy.sparse.bsr_array(VALUES, blocksize=(2, 2)), ("indptr", "indices", "data")),
        (coordinates, scipy.sparse.coo_array(VALUES), ("row", "col", "data")),
    ],
)
def test_parts_are_scipys(function, matrix, names):
    found = facula.jit.script(function)(facula.from_numpy(VALUES))
    for part, name in zip(found, names, strict=True):
        numpy.testing.assert_array_equal(part.numpy(), getattr(matrix, name))


def stored(x: facula.Tensor) -> int:
    return x.to_sparse()._nnz()


def test_the_number_of_stored_elements():
    assert facula.jit.script(stored)(facula.from_numpy(VALUES)) == 6
