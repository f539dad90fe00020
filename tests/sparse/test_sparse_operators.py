"""Operators on sparse tensors give what they give on the same elements in a dense one."""

from __future__ import annotations

import copy

import pytest

import facula
from facula.ops.sparse_layouts.rules import INPLACE_RULES, RULES
from facula.ops.table.registry import TABLE


def pair(seed: int = 0, shape: tuple[int, ...] = (4, 5)):
    generator = facula.Generator().manual_seed(seed)
    dense = facula.rand(shape, generator=generator, dtype=facula.float64) - 0.3
    dense = dense * (facula.rand(shape, generator=generator) < 0.5)
    return dense.to_sparse(), dense


def repeated() -> tuple[facula.Tensor, facula.Tensor]:
    index = facula.tensor([[0, 1, 0, 1], [2, 0, 2, 1]])
    values = facula.tensor([0.5, -1.0, 0.25, 2.0], dtype=facula.float64)
    sparse = facula.sparse_coo_tensor(index, values, (2, 3))
    return sparse, sparse.to_dense()


def dense_of(value):
    return value.to_dense() if value.layout is not facula.strided else value


def test_rules_name_operators():
    assert set(RULES) | set(INPLACE_RULES) <= set(TABLE)


ZERO_PRESERVING = (
    "sin tanh abs neg sqrt relu sign expm1 log1p erf asin atan isnan square trunc".split()
)


@pytest.mark.parametrize("name", ZERO_PRESERVING)
def test_operators_that_keep_zero_run_on_the_values(name):
    for sparse, dense in (pair(), repeated()):
        got = getattr(facula, name)(sparse)
        assert got.layout is facula.sparse_coo
        expected = getattr(facula, name)(dense)
        assert facula.allclose(got.to_dense().double(), expected.double(), equal_nan=True)
    csr = pair()[0].to_sparse_csr()
    assert getattr(facula, name)(csr).layout is facula.sparse_csr


@pytest.mark.parametrize("name", ["cos", "exp", "log", "sigmoid", "reciprocal"])
def test_operators_that_do_not_keep_zero_raise(name):
    with pytest.raises(NotImplementedError, match="Could not run"):
        getattr(facula, name)(pair()[0])


ARITHMETIC = {
    "a + b": lambda a, b, d: a + b,
    "a - b": lambda a, b, d: a - b,
    "a * b": lambda a, b, d: a * b,
    "d + a": lambda a, b, d: d + a,
    "d - a": lambda a, b, d: d - a,
    "a * d": lambda a, b, d: a * d,
    "d * a": lambda a, b, d: d * a,
    "a * row": lambda a, b, d: a * d[:1],
    "a * 3": lambda a, b, d: a * 3,
    "a / 4": lambda a, b, d: a / 4,
    "a ** 2": lambda a, b, d: a**2,
    "-a": lambda a, b, d: -a,
    "add(alpha)": lambda a, b, d: facula.add(a, b, alpha=0.5),
    "a + a": lambda a, b, d: a + a,
}


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name, layout):
    (a, x), (b, y) = pair(1), pair(2)
    d = facula.arange(20.0, dtype=facula.float64).reshape(4, 5)
    turn = lambda s: s if layout == "coo" else getattr(s, f"to_sparse_{layout}")()  # noqa: E731
    got = ARITHMETIC[name](turn(a), turn(b), d)
    assert facula.allclose(dense_of(got), ARITHMETIC[name](x, y, d))


def test_a_number_added_raises():
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        pair()[0] + 1


SHAPES = {
    "t": lambda s: s[0].t(),
    "transpose": lambda s: s.transpose(0, 2),
    "permute": lambda s: s.permute(2, 0, 1),
    "select": lambda s: s[:, 1],
    "select last": lambda s: s[..., -1],
    "element": lambda s: s[1, 0, 2],
    "range": lambda s: s[:, 1:],
    "step": lambda s: s[:, :, ::2],
    "narrow": lambda s: s.narrow(2, 1, 2),
    "index_select": lambda s: s.index_select(2, facula.tensor([2, 0, 2])),
    "unsqueeze": lambda s: s.unsqueeze(1),
    "squeeze": lambda s: s[:1].squeeze(0),
    "cat": lambda s: facula.cat([s, s], 1),
    "stack": lambda s: facula.stack([s, s], 2),
    "sum": lambda s: s.sum((0, 2)),
    "sum keepdim": lambda s: s.sum(1, keepdim=True),
    "sum all": lambda s: s.sum(),
    "norm": lambda s: s.norm(),
    "unbind": lambda s: facula.stack([dense_of(x) for x in s.unbind(1)]),
}


@pytest.mark.parametrize("sparse_dim", [3, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_reductions(name, sparse_dim):
    dense = pair(3, (2, 3, 4))[1]
    mixed = {"transpose", "permute", "t"}
    if sparse_dim == 2 and name in mixed:
        with pytest.raises(RuntimeError, match="sparse"):
            SHAPES["transpose"](dense.to_sparse(2))
        return
    sparse = dense.to_sparse(sparse_dim)
    assert facula.allclose(dense_of(SHAPES[name](sparse)), SHAPES[name](dense))


def test_in_place_forms():
    sparse, dense = pair(4)
    work = sparse.clone()
    assert work.mul_(2) is work and facula.allclose(work.to_dense(), dense * 2)
    work.add_(sparse)
    assert facula.allclose(work.to_dense(), dense * 3)
    target = facula.ones(4, 5, dtype=facula.float64)
    assert target.add_(sparse, alpha=-2) is target
    assert facula.allclose(target, 1 - 2 * dense)
    assert facula.ones(5, 4, dtype=facula.float64).t().add_(sparse).sum() == 20 + dense.sum()
    assert work.zero_()._nnz() == 0
    with pytest.raises(RuntimeError, match="same size"):
        sparse.clone().add_(sparse.t())


def test_sparse_mask():
    sparse, _ = pair(5)
    dense = facula.arange(20.0, dtype=facula.float64).reshape(4, 5)
    for mask in (sparse, sparse.to_sparse_csr()):
        got = dense.sparse_mask(mask)
        assert got.layout is mask.layout
        assert facula.equal(got.to_dense(), dense * (sparse.to_dense() != 0))
    other = pair(6)[0]
    assert facula.equal(
        other.sparse_mask(sparse).to_dense(), other.to_dense() * (sparse.to_dense() != 0)
    )


def test_softmax_counts_specified_elements_only():
    sparse, dense = pair(7)
    hidden = dense.masked_fill(dense == 0, -float("inf"))
    for dim in (0, 1):
        expected = hidden.softmax(dim).nan_to_num()
        assert facula.allclose(facula.sparse.softmax(sparse, dim).to_dense(), expected)
        got = facula.sparse.log_softmax(sparse, dim)
        assert facula.allclose(got.values().exp(), facula.sparse.softmax(sparse, dim).values())


def test_spdiags():
    diagonals = facula.arange(9.0).reshape(3, 3)
    got = facula.sparse.spdiags(diagonals, facula.tensor([0, -1, 2]), (3, 3))
    expected = facula.tensor([[0.0, 0, 8], [3, 1, 0], [0, 4, 2]])
    assert facula.equal(got.to_dense(), expected)
    with pytest.raises(RuntimeError, match="duplicate"):
        facula.sparse.spdiags(diagonals, facula.tensor([0, 0, 2]), (3, 3))


def test_an_entry_keeps_the_dtype():
    """Sums of places that are given twice, where a sum of integers would be of int64."""
    places = facula.tensor([[0, 0, 1]])
    for dtype in (facula.int16, facula.uint8, facula.float32):
        x = facula.sparse_coo_tensor(places, facula.tensor([1, 2, 3], dtype=dtype), (2,))
        assert x[0].dtype is dtype and x[0].item() == 3


def test_copies_of_leaves_keep_their_gradient():
    leaf = facula.ones(3).to_sparse().requires_grad_()
    leaf.grad = facula.full((3,), 2.0).to_sparse()
    made = copy.deepcopy(leaf)
    assert made.grad.to_dense().tolist() == [2.0] * 3
    assert made.grad is not leaf.grad and made.requires_grad
