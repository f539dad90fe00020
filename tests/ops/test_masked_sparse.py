"""Masked reductions of sparse tensors: as of dense ones, where only what is stored (or what the mask says) counts."""

import pytest

import facula
from facula import masked

DENSE = facula.tensor([[1.0, 0.0, -3.0], [0.0, 0.0, 0.0], [4.0, 5.0, 0.0]])
REDUCTIONS = {
    "sum": masked.sum, "prod": masked.prod, "amax": masked.amax, "amin": masked.amin, "mean": masked.mean,
}  # fmt: skip
CONVERT = {"coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr()}


@pytest.mark.parametrize("kind", CONVERT)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("with_mask", [False, True])
def test_reductions_of_what_counts(kind, name, dim, with_mask):
    x = CONVERT[kind](DENSE)
    mask = facula.tensor([[True, False, True], [False, False, False], [False, True, True]])
    counted = mask if with_mask else DENSE != 0
    found = REDUCTIONS[name](x, dim, keepdim=True, mask=mask if with_mask else None)
    wanted = REDUCTIONS[name](DENSE, dim, keepdim=True, mask=counted)
    assert found.layout is x.layout
    there = counted.any(dim, keepdim=True)
    assert facula.equal(found.to_dense()[there], wanted[there])
    assert facula.count_nonzero(found.to_dense()[~there]) == 0


def test_sparse_masks_of_dense_tensors():
    mask = (DENSE > 0).to_sparse()
    assert masked.sum(DENSE, 1, mask=mask).tolist() == [1, 0, 9]
    assert masked.amin(DENSE, 0, mask=mask).tolist()[:2] == [1, 5]


def test_where_of_sparse_tensors():
    mask = facula.tensor([[True, True, False], [False, False, False], [False, False, True]])
    for convert in CONVERT.values():
        found = masked._where(convert(mask), convert(DENSE), facula.tensor(7.0))
        assert found.to_dense().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
        assert found._nnz() == 3
    hybrid = masked._where(mask.to_sparse(1), DENSE.to_sparse(1), facula.tensor(7.0))
    assert hybrid.values().tolist() == [[1, 0, 7], [7, 7, 0]]
