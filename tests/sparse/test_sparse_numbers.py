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


def _twice() -> facula.Tensor:
    """2 at [0, 1], and -4 at [1, 0] in two parts."""
    places = facula.tensor([[0, 1, 1], [1, 0, 0]])
    return facula.sparse_coo_tensor(places, facula.tensor([2.0, 4.0, -8.0]), (2, 3))


@pytest.mark.parametrize("exponent", [-2, -1.0, 0.5, 3])
def test_powers_are_those_of_the_sums_of_what_lies_in_one_place(exponent):
    made = _twice() ** exponent
    with np.errstate(invalid="ignore"):
        wanted = np.array([2.0, -4.0]) ** exponent
    assert made.layout is facula.sparse_coo and made.indices().tolist() == [[0, 1], [1, 0]]
    assert np.allclose(made.values().numpy(), wanted, equal_nan=True)


def test_gradients_of_negative_powers():
    x = _twice().coalesce().requires_grad_()
    facula.sparse.sum(x**-2).backward()
    assert np.allclose(x.grad.to_dense().numpy(), [[0, -2 * 2.0**-3, 0], [-2 * (-4.0) ** -3, 0, 0]])


def test_a_sum_over_no_dimensions_is_the_tensor():
    dense = [[0.0, 2.0, 0.0], [-4.0, 0.0, 0.0]]
    for made in (facula.sparse.sum(_twice(), ()), _twice().sum(())):
        assert made.layout is facula.sparse_coo and made.is_coalesced()
        assert made.to_dense().tolist() == dense
    assert facula.sparse.sum(_twice(), (), dtype=facula.float64).dtype is facula.float64
    whole = facula.tensor(dense).to_sparse_csr().sum((), keepdim=True)
    assert whole.to_dense().tolist() == [[-2.0]]


def test_resize_as_takes_the_shape_of_another_sparse_tensor():
    x = _twice()
    assert x.resize_as_(facula.zeros(3, 5).to_sparse()) is x and list(x.shape) == [3, 5]
    wanted = np.zeros((3, 5))
    wanted[0, 1], wanted[1, 0] = 2, -4
    assert np.array_equal(x.to_dense().numpy(), wanted)
    with pytest.raises(RuntimeError, match="shrink no sparse one"):
        x.resize_as_(facula.zeros(1, 1).to_sparse())
    with pytest.raises(NotImplementedError, match="resize_"):
        x.resize_as_(facula.zeros(3, 5))
    nothing = facula.sparse_coo_tensor(size=(2, 3)).resize_as_(facula.ones(1, 1, 1).to_sparse())
    assert list(nothing.shape) == [1, 1, 1] and nothing._nnz() == 0
