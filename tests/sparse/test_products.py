"""Products of sparse matrices against scipy.sparse, and their gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import facula


def graph(rows=17, columns=13, seed=0, dtype="float64"):
    made = scipy.sparse.random(
        rows, columns, 0.2, "csr", random_state=np.random.default_rng(seed), dtype=dtype
    )
    made.sort_indices()
    return made


def csr(matrix, **options):
    parts = (facula.tensor(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return facula.sparse_csr_tensor(*parts, size=matrix.shape, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 3, 16, 40, 150])
def test_kernels_of_every_width(dtype, width):
    matrix = graph(40, 30, dtype=dtype)
    dense = np.random.default_rng(1).standard_normal((30, width)).astype(dtype)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    got = csr(matrix) @ facula.tensor(dense)
    assert np.allclose(got.numpy(), matrix @ dense, tolerance, tolerance)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr"])
def test_products_in_every_layout(layout):
    dense = graph(8, 6).toarray()
    whole = facula.tensor(dense)
    block = ((2, 2),) if layout == "bsr" else ()
    sparse = getattr(whole, f"to_sparse_{layout}")(*block)
    x = facula.rand(6, 4, dtype=facula.float64)
    y = facula.rand(4, 8, dtype=facula.float64)
    assert facula.allclose(sparse @ x, whole @ x)
    assert facula.allclose(y @ sparse, y @ whole)
    assert facula.allclose(sparse @ x[:, 0], whole @ x[:, 0])
    assert facula.allclose(
        facula.addmm(y.t()[:, :4], sparse, x, beta=0.5, alpha=2), y.t() / 2 + 2 * whole @ x
    )
    assert facula.allclose((sparse @ sparse.t()).to_dense(), whole @ whole.t())


@pytest.mark.parametrize("dtype", ["int64", "complex64", "bfloat16", "float16"])
def test_other_dtypes(dtype):
    kind = getattr(facula, dtype)
    whole = facula.tensor([[0, 2, 0], [1, 0, 3]]).to(kind)
    x = facula.tensor([[1, 2], [3, 4], [5, 6]]).to(kind)
    assert facula.equal(whole.to_sparse() @ x, whole @ x)
    assert facula.equal(whole.to_sparse_csr() @ x, whole @ x)


def test_repeated_entries_add_up():
    index = facula.tensor([[1, 0, 1], [2, 1, 2]])
    sparse = facula.sparse_coo_tensor(index, facula.tensor([1.0, 2, 3]), (2, 3))
    assert (sparse @ facula.ones(3, 1)).tolist() == [[2.0], [4.0]]


def test_batches():
    dense = facula.rand(3, 4, 5) * (facula.rand(3, 4, 5) < 0.5)
    x = facula.rand(3, 5, 2)
    assert facula.allclose(facula.bmm(dense.to_sparse(), x), dense @ x)
    assert facula.allclose(dense[0].to_sparse() @ x, dense[0] @ x)


@pytest.mark.parametrize("how", ["sum", "mean", "amax", "amin"])
def test_reductions_over_a_rows_entries(how):
    whole = graph(9, 7, seed=3).toarray()
    whole[2] = 0
    matrix = scipy.sparse.csr_matrix(whole)
    x = facula.rand(7, 3, dtype=facula.float64) - 0.5
    got = facula.sparse.mm(csr(matrix), x, how)
    for row in range(9):
        first, last = matrix.indptr[row], matrix.indptr[row + 1]
        if first == last:
            assert facula.equal(got[row], facula.zeros(3, dtype=facula.float64))
            continue
        entries = facula.tensor(matrix.data[first:last]).unsqueeze(1)
        products = entries * x[facula.tensor(matrix.indices[first:last].astype("int64"))]
        assert facula.allclose(got[row], getattr(products, how)(0))


def gradcheck(function, *inputs):
    assert facula.autograd.gradcheck(function, inputs)


def leaf(*shape):
    return facula.randn(*shape, dtype=facula.float64, requires_grad=True)


@pytest.mark.parametrize("how", ["sum", "mean", "amax", "amin"])
def test_gradients_of_products(how):
    matrix = graph(6, 5, seed=4)

    def product(values, dense):
        sparse = facula.sparse_csr_tensor(
            facula.tensor(matrix.indptr), facula.tensor(matrix.indices), values, matrix.shape
        )
        return facula.sparse.mm(sparse, dense, how)

    inputs = leaf(matrix.nnz), leaf(5, 3)
    gradcheck(product, *inputs)
    if how in ("sum", "mean"):
        assert facula.autograd.gradgradcheck(product, inputs)


def coo(values, index=((0, 1, 1, 2), (1, 0, 2, 1)), size=(3, 3)):
    return facula.sparse_coo_tensor(facula.tensor(index), values, size)


CHAINS = {
    "to_dense": lambda v, d: coo(v).to_dense() * d,
    "sin": lambda v, d: coo(v).sin().to_dense() * d,
    "softmax": lambda v, d: facula.sparse.softmax(coo(v), 1).to_dense() * d,
    "sum": lambda v, d: facula.sparse.sum(coo(v), 0).to_dense() * d[0],
    "mul": lambda v, d: (coo(v) * d).to_dense(),
    "add": lambda v, d: d + coo(v),
    "transpose": lambda v, d: coo(v).t() @ d,
    "sparse product": lambda v, d: (coo(v) @ coo(v * 2)).to_dense() * d,
    "layouts": lambda v, d: coo(v).to_sparse_csr().to_sparse_csc().to_dense() * d,
    "select": lambda v, d: coo(v)[1].to_dense() * d[0],
    "mask": lambda v, d: (d * d).sparse_mask(coo(v)).to_dense() * coo(v).to_dense(),
    "repeated": lambda v, d: coo(v, ((0, 0, 1, 0), (1, 1, 2, 1))).coalesce().to_dense() * d,
    "sampled": lambda v, d: facula.sparse.sampled_addmm(coo(v).to_sparse_csr(), d, d).to_dense(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_gradients_pass_through_values(name):
    gradcheck(CHAINS[name], leaf(4), leaf(3, 3))


def test_a_sparse_leaf_gets_a_sparse_gradient():
    sparse = coo(facula.tensor([1.0, 2, 3, 4])).coalesce().requires_grad_()
    dense = facula.arange(9.0).reshape(3, 3)
    (sparse @ dense).sum().backward()
    assert sparse.grad.layout is facula.sparse_coo
    assert sparse.grad.coalesce().values().tolist() == [12.0, 3.0, 21.0, 12.0]
    (sparse @ dense).sum().backward()
    assert sparse.grad.coalesce().values().tolist() == [24.0, 6.0, 42.0, 24.0]
    with pytest.raises(RuntimeError, match="leaf"):
        sparse.mul_(2)


def test_gradients_of_repeated_places_count_once():
    index = facula.tensor([[0, 0], [1, 1]])
    sparse = facula.sparse_coo_tensor(index, facula.tensor([1.0, 2.0]), (2, 2)).requires_grad_()
    sparse.to_dense().sum().backward()
    assert sparse.grad.to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_entries_outside_the_matrix_raise_before_memory_is_read():
    with pytest.raises(IndexError, match="out of bounds"):
        facula.sparse_csr_tensor([0, 1], [5], [1.0], (1, 2)) @ facula.ones(2, 2)
    with pytest.raises(RuntimeError, match="start in order"):
        facula.sparse_csr_tensor([0, 2, 1, 2], [0, 1], [1.0, 2.0], (3, 2)) @ facula.ones(2, 2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        facula.sparse_csr_tensor([0, 1], [0], [1.0], (1, 2)) @ facula.ones(3, 2)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("fast_mode", [True, False])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_gradient_checks_take_sparse_inputs(layout, masked, fast_mode):
    plain = facula.autograd.gradcheck
    block = ((2, 1),) if layout.startswith("b") else ()
    made = getattr(coo(facula.rand(4, dtype=facula.float64)).to_dense()[:2], f"to_sparse_{layout}")
    sparse, dense = made(*block).requires_grad_(), leaf(3, 3)
    options = {"masked": masked, "fast_mode": fast_mode}
    for check in (plain, facula.sparse.as_sparse_gradcheck(plain)):
        assert check(lambda s: (s.to_dense() ** 2, s.sum()), (sparse,), **options)
        assert check(lambda s, d: (s @ d, s * 2), (sparse, dense), **options)


class OnlySpecified(facula.autograd.Function):
    """The elements of a sparse tensor, with a gradient for those that are specified alone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.to_dense()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad.sparse_mask(x) * ctx.factor if hasattr(ctx, "factor") else grad.sparse_mask(x)


class Doubled(OnlySpecified):
    """The same with a gradient that is wrong."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = 2.0
        return OnlySpecified.forward(ctx, x)


def test_gradient_checks_of_sparse_inputs_find_what_is_wrong():
    sparse = coo(facula.rand(4, dtype=facula.float64)).coalesce().requires_grad_()
    assert facula.autograd.gradcheck(OnlySpecified.apply, (sparse,), masked=True)
    for options in ({"masked": True}, {"masked": False}):
        with pytest.raises(RuntimeError, match="Jacobian"):
            facula.autograd.gradcheck(Doubled.apply, (sparse,), **options)
