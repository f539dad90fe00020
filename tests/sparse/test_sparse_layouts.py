"""Every layout holds the same elements, converts to every other and says what it is."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import scipy.sparse

import facula

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")


def matrix(rows: int = 6, columns: int = 8, density: float = 0.3, seed: int = 0):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((rows, columns))
    return values * (generator.random((rows, columns)) < density)


def in_layout(dense: facula.Tensor, layout: str) -> facula.Tensor:
    if layout == "coo":
        return dense.to_sparse()
    block = ((2, 4),) if layout[0] == "b" else ()
    return getattr(dense, f"to_sparse_{layout}")(*block)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("other", LAYOUTS)
def test_conversions_keep_the_elements(layout, other):
    dense = facula.tensor(matrix())
    sparse = in_layout(in_layout(dense, layout), other)
    assert sparse.layout is getattr(facula, f"sparse_{other}")
    assert sparse.shape == dense.shape and sparse.dtype is dense.dtype
    assert facula.equal(sparse.to_dense(), dense)


@pytest.mark.parametrize(("layout", "peer"), [("csr", "csr"), ("csc", "csc"), ("bsr", "bsr")])
def test_compressed_parts_are_those_of_scipy(layout, peer):
    dense = matrix(seed=1)
    sparse = in_layout(facula.tensor(dense), layout)
    options = {"blocksize": (2, 4)} if layout == "bsr" else {}
    expected = getattr(scipy.sparse, f"{peer}_matrix")(dense, **options)
    expected.sort_indices()
    first, second = ("ccol", "row") if layout == "csc" else ("crow", "col")
    assert getattr(sparse, f"{first}_indices")().tolist() == expected.indptr.tolist()
    assert getattr(sparse, f"{second}_indices")().tolist() == expected.indices.tolist()
    assert np.array_equal(sparse.values().numpy(), expected.data)


def test_coalesce_sorts_and_adds():
    index = facula.tensor([[1, 0, 1, 1], [0, 2, 2, 0]])
    sparse = facula.sparse_coo_tensor(index, facula.tensor([1.0, 2, 3, 4]), (2, 3))
    assert not sparse.is_coalesced() and sparse._nnz() == 4
    once = sparse.coalesce()
    assert once.is_coalesced()
    assert once.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert once.values().tolist() == [2.0, 5.0, 3.0]
    assert once.coalesce() is once
    with pytest.raises(RuntimeError, match="uncoalesced"):
        sparse.indices()


def test_dense_dimensions_stay_with_the_values():
    dense = facula.zeros(4, 2, 3)
    dense[1], dense[3, 0] = 2.0, 1.0
    sparse = dense.to_sparse(1)
    assert (sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()) == (1, 2, 2)
    assert facula.equal(sparse.to_dense(), dense)
    assert facula.equal(sparse[3], dense[3])


def test_batches_of_compressed_matrices():
    dense = facula.ones(2, 3, 4)
    sparse = dense.to_sparse_csr()
    assert sparse.crow_indices().shape == (2, 4) and sparse._nnz() == 12
    assert facula.equal(sparse.to_dense(), dense)
    dense[0, 0, 0] = 0
    with pytest.raises(RuntimeError, match="same number of specified elements"):
        dense.to_sparse_csr()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_files_and_pickles(layout):
    sparse = in_layout(facula.tensor(matrix(seed=2)), layout)
    buffer = io.BytesIO()
    facula.save({"graph": sparse}, buffer)
    buffer.seek(0)
    for other in (
        facula.load(buffer)["graph"],
        pickle.loads(pickle.dumps(sparse)),
        copy.deepcopy(sparse),
        sparse.clone(),
    ):
        assert other.layout is sparse.layout and isinstance(other, facula.Tensor)
        assert facula.equal(other.to_dense(), sparse.to_dense())
    assert sparse.to(facula.float32).dtype is facula.float32


def test_printing_shows_the_parts():
    sparse = facula.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    assert repr(sparse) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=facula.sparse_coo)"
    )
    assert repr(sparse.to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([2, 0]),\n"
        "       values=tensor([3., 4.]), size=(2, 3), nnz=2, layout=facula.sparse_csr)"
    )


@pytest.mark.parametrize(
    ("starts", "plain", "invariant"),
    [
        ([1, 2, 3], [0, 1, 0], "crow_indices[..., 0] == 0"),
        ([0, 2, 4], [0, 1, 0], "crow_indices[..., -1] == nnz"),
        ([0, 2, 3], [0, 9, 0], "0 <= col_indices < ncols"),
        ([0, 2, 3], [1, 0, 0], "are sorted and distinct"),
    ],
)
def test_invariants_are_checked_on_demand(starts, plain, invariant):
    def made(**options):
        return facula.sparse_csr_tensor(starts, plain, [1.0, 2, 3], (2, 4), **options)

    made()
    with pytest.raises(RuntimeError) as raised:
        made(check_invariants=True)
    assert invariant in str(raised.value)
    with facula.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError):
        made()
    assert not facula.sparse.check_sparse_tensor_invariants.is_enabled()


def test_coo_invariants():
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        facula.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True)
    with pytest.raises(RuntimeError, match="number of dimensions must be"):
        facula.sparse_coo_tensor([[0], [1]], [1.0], (3,))
    with pytest.raises(RuntimeError, match="same nnz"):
        facula.sparse_coo_tensor([[0, 1]], [1.0], (3,))


def test_what_dense_tensors_lack_says_so():
    dense = facula.ones(2, 2)
    with pytest.raises(RuntimeError, match="indices expected sparse coordinate tensor layout"):
        dense.indices()
    with pytest.raises(RuntimeError, match="coalesce expected sparse coordinate"):
        dense.coalesce()
    assert dense.sparse_dim() == 0 and dense.dense_dim() == 2
    assert dense.to_dense() is dense


def test_tensors_without_elements():
    for layout in (facula.sparse_coo, facula.sparse_csr, facula.sparse_csc):
        empty = facula.zeros(2, 3, layout=layout)
        assert empty.layout is layout and empty._nnz() == 0
        assert facula.equal(empty.to_dense(), facula.zeros(2, 3))
        assert facula.zeros_like(empty).layout is layout


@pytest.mark.parametrize("size", [(0, 2), (2, 0), (-1, 1)])
def test_blocks_have_a_size(size):
    """It was a ZeroDivisionError."""
    with pytest.raises(RuntimeError, match=r"^\[to_sparse\] a blocksize of positive numbers"):
        facula.ones(4, 4).to_sparse_bsr(size)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_tensors_like_compressed_ones_keep_their_places(layout):
    dense = facula.tensor([[0.0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 3, 4]])
    sparse = dense.to_sparse(
        layout=getattr(facula, f"sparse_{layout}"), blocksize=(2, 2) if layout[0] == "b" else None
    )
    held = facula.where(dense == 0, 0.0, 1.0)
    if layout[0] == "b":  # whole blocks are held
        held = held.reshape(2, 2, 2, 2).amax((1, 3), keepdim=True).expand(2, 2, 2, 2).reshape(4, 4)
    facula.manual_seed(3)
    made = {
        "ones_like": (facula.ones_like(sparse), lambda v: v == 1),
        "full_like": (facula.full_like(sparse, 2.5), lambda v: v == 2.5),
        "rand_like": (facula.rand_like(sparse), lambda v: (v > 0) & (v < 1)),
        "randn_like": (facula.randn_like(sparse), lambda v: (v != 0) & (v.abs() < 6)),
        "randint_like": (facula.randint_like(sparse, 7, 9), lambda v: (v == 7) | (v == 8)),
    }
    for name, (like, expected) in made.items():
        assert like.layout is sparse.layout and like.shape == sparse.shape, name
        assert bool(expected(like.values()).all()), name
        assert facula.equal(like.to_dense() != 0, held != 0), name
    assert len(set(made["rand_like"][0].values().flatten().tolist())) > 2
    wide = facula.ones_like(sparse, dtype=facula.float64)
    assert wide.dtype == facula.float64 and facula.equal(wide.to_dense(), held.double())


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("sparse_dim", [1, 3])
def test_compressed_layouts_come_from_matrices(layout, sparse_dim):
    block = ((1, 1),) if layout.startswith("b") else ()
    coo = facula.ones(2, 3, 4).to_sparse(sparse_dim)
    with pytest.raises(RuntimeError, match=r"from Sparse to .* sparse_dim\(\)!=2 is not supported"):
        getattr(coo, f"to_sparse_{layout}")(*block)
    batch = facula.ones(2, 3, 4).to_sparse_csr()
    if block:
        with pytest.raises(RuntimeError, match="from SparseCsr to .* for batched inputs"):
            getattr(batch, f"to_sparse_{layout}")(*block)
