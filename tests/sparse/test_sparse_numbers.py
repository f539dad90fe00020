"""Sparse tensors without dimensions beside others: they are numbers."""

import numpy as np
import pytest

import facula


@pytest.mark.parametrize("dtype", [facula.float32, facula.int16, facula.bool])
def test_a_product_with_one_without_dimensions(dtype):
    x = facula.tensor([[0, 2], [3, 0]], dtype=facula.float32).to_sparse()
    number = facula.tensor(1, dtype=dtype).to_sparse()
    for product in (x * number, number * x):
        assert product.layout is facula.sparse_coo and product.dtype is facula.float32
        assert product.to_dense().tolist() == [[0.0, 2.0], [3.0, 0.0]]


def test_several_entries_at_its_only_place_add_up():
    x = facula.tensor([[0, 2], [3, 0]], dtype=facula.int16).to_sparse()
    places, values = facula.empty((0, 3), dtype=facula.int64), facula.tensor([1, 2, 4])
    number = facula.sparse_coo_tensor(places, values.to(facula.int16), ())
    assert (x * number).to_dense().tolist() == [[0, 14], [21, 0]]
    assert (x * number).dtype is facula.int16
    nothing = facula.sparse_coo_tensor(places[:, :0], values[:0].to(facula.int16), ())
    assert not (x * nothing).to_dense().any()


def test_gradients_of_such_products():
    x = facula.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse().requires_grad_()
    number = facula.tensor(4.0).to_sparse().requires_grad_()
    (x * number).to_dense().sum().backward()
    assert x.grad.to_dense().tolist() == [[0.0, 4.0], [4.0, 0.0]]
    assert number.grad.to_dense().item() == 5.0


def test_a_sparse_divisor_is_refused_by_the_name_of_the_division():
    x = facula.ones(2, 2).to_sparse()
    with pytest.raises(RuntimeError, match="Sparse floor division requires"):
        x // x
    with pytest.raises(RuntimeError, match="Sparse division requires"):
        x / x


def test_norms_of_complex_elements():
    array = np.array([[3 + 4j, 0, -1], [0, 1j, 0]])
    lengths = np.abs(array)
    for sparse in (facula.tensor(array).to_sparse(), facula.tensor(array).to_sparse_csr()):
        assert sparse.norm().item() == pytest.approx(np.sqrt((lengths**2).sum()))
        assert sparse.norm(p=1).item() == pytest.approx(lengths.sum())
        assert sparse.norm(p=float("inf")).item() == 5
        assert not sparse.norm().is_complex()


def test_indices_from_the_end():
    array = np.array([[3.0, 0, -1], [0, 2, 0]])
    taken = facula.tensor(array).to_sparse().index_select(1, facula.tensor([-1, 0, -3]))
    assert np.array_equal(taken.to_dense().numpy(), array[:, [-1, 0, -3]])
    with pytest.raises(IndexError, match=r"in \[-3, 3\)"):
        facula.tensor(array).to_sparse().index_select(1, facula.tensor([-4]))
