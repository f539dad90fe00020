"""What conversions and tensors like a sparse one keep: the indices' dtype, dense dimensions, batches."""

import numpy as np
import pytest

import facula

LAYOUTS = (facula.sparse_csr, facula.sparse_csc, facula.sparse_bsr, facula.sparse_bsc)


def _converted(x, layout):
    blocks = (2, 2) if layout in (facula.sparse_bsr, facula.sparse_bsc) else None
    return x.to_sparse(layout=layout, blocksize=blocks)


def _parts(x):
    by_rows = x.layout in (facula.sparse_csr, facula.sparse_bsr)
    return (x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices())


@pytest.mark.parametrize("target", LAYOUTS, ids=str)
def test_conversions_keep_the_dtype_of_indices(target):
    rows, columns = facula.tensor([0, 1, 1, 2, 3]), facula.tensor([1, 3, 0])
    for dtype in (facula.int32, facula.int64):
        x = facula.sparse_csr_tensor(rows.to(dtype), columns.to(dtype), facula.ones(3), (4, 4))
        made = _converted(x, target)
        assert [part.dtype for part in _parts(made)] == [dtype, dtype]
        assert np.array_equal(made.to_dense().numpy(), x.to_dense().numpy())


def test_methods_of_sparse_tensors_are_functions_of_tensors_too():
    x = facula.eye(3).to_sparse_csr()
    assert facula.Tensor.crow_indices(x).tolist() == [0, 1, 2, 3]
    assert facula.Tensor.col_indices(x).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="sparse row compressed"):
        facula.Tensor.crow_indices(facula.eye(3))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_zeros_like_keeps_batches_and_dense_dimensions(layout):
    dense = facula.ones(2, 4, 6, 3)
    blocks = (2, 3) if layout in (facula.sparse_bsr, facula.sparse_bsc) else None
    x = dense.to_sparse(layout=layout, blocksize=blocks, dense_dim=1)
    made = facula.zeros_like(x)
    assert made.layout is layout and made.shape == x.shape
    assert (made.sparse_dim(), made.dense_dim()) == (x.sparse_dim(), x.dense_dim())
    assert made.values().shape == (2, 0, *x.values().shape[2:])
    assert [p.shape[-1] for p in _parts(made)] == [_parts(x)[0].shape[-1], 0]
    assert not made.to_dense().any()
    coo = facula.zeros_like(x, layout=facula.sparse_coo)
    assert (coo.sparse_dim(), coo.dense_dim()) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((facula.ones(2, 2, 2), facula.tensor([0, 1]), (3, 3)), "vector or matrix"),
        ((facula.ones(2, 2), facula.tensor([0, 1]), (3,)), "Output shape must be 2d"),
        ((facula.ones(2, 2), facula.tensor([[0, 1]]), (3, 3)), "scalar or vector"),
        ((facula.ones(2, 2), facula.tensor([0]), (3, 3)), r"diagonals \(2\) does not match"),
        ((facula.ones(2, 2), facula.tensor([0, 1]), (3, 3), facula.sparse_bsr), "output layouts"),
    ],
)
def test_spdiags_says_what_it_takes(arguments, text):
    with pytest.raises(RuntimeError, match=text):
        facula.sparse.spdiags(*arguments)
