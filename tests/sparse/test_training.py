"""Sparse gradients of embeddings, the optimizers that take them, and graphs in modules."""

from __future__ import annotations

import pytest

import facula
from facula import nn, optim


def trained(make, table, steps=4):
    rule = make(table.parameters())
    for step in range(steps):
        rule.zero_grad()
        loss = (table(facula.tensor([[1, 2], [1, 5 + step % 2]])) ** 2).sum()
        loss.backward()
        rule.step()
    return table.weight.detach()


def tables(kind=nn.Embedding, **options):
    dense, sparse = kind(9, 4, **options), kind(9, 4, sparse=True, **options)
    sparse.load_state_dict(dense.state_dict())
    return dense, sparse


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
@pytest.mark.parametrize("padding", [None, 5])
def test_sparse_gradients_are_the_dense_ones(kind, padding):
    options = {"mode": "sum"} if kind is nn.EmbeddingBag else {}
    dense, sparse = tables(kind, padding_idx=padding, **options)
    for table in (dense, sparse):
        for _ in range(2):
            (table(facula.tensor([[1, 5], [1, 3]])) ** 2).sum().backward()
    assert sparse.weight.grad.is_sparse and not dense.weight.grad.is_sparse
    assert facula.allclose(sparse.weight.grad.to_dense(), dense.weight.grad)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}])
def test_sgd(options):
    dense, sparse = tables()
    make = lambda p: optim.SGD(p, lr=0.1, **options)  # noqa: E731
    assert facula.allclose(trained(make, sparse), trained(make, dense), 1e-5, 1e-6)


def test_adagrad():
    dense, sparse = tables()
    make = lambda p: optim.Adagrad(p, lr=0.1)  # noqa: E731
    assert facula.allclose(trained(make, sparse), trained(make, dense), 1e-5, 1e-6)


def test_sparse_adam_moves_only_rows_with_gradients():
    _, sparse = tables()
    before = sparse.weight.detach().clone()
    after = trained(lambda p: optim.SparseAdam(list(p), lr=0.1), sparse)
    moved = (after != before).any(1).tolist()
    assert moved == [i in (1, 2, 5, 6) for i in range(9)]


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.RMSprop])
def test_others_refuse(kind):
    _, sparse = tables()
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        trained(lambda p: kind(p, lr=0.1), sparse)


def test_sparse_and_dense_gradients_add_up():
    table = nn.Embedding(5, 2, sparse=True)
    (table(facula.tensor([1, 1])).sum() + (table.weight * 2).sum()).backward()
    expected = facula.full((5, 2), 2.0)
    expected[1] += 2
    assert facula.equal(table.weight.grad, expected)


class Graph(nn.Module):
    """One graph convolution with its adjacency as a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("links", facula.eye(4).to_sparse_csr())
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.links @ self.layer(x).relu()


def test_modules_hold_sparse_buffers():
    module = Graph()
    other = Graph()
    other.load_state_dict(module.state_dict())
    x = facula.rand(4, 3)
    assert facula.equal(module(x), other(x))
    assert module.double().links.dtype is facula.float64


@pytest.mark.breaks("unsupported-call")  # sparse tensors stay outside of graphs
def test_compiled_functions_take_and_give_sparse_tensors():
    module = Graph()
    x = facula.rand(4, 3)
    compiled = facula.compile(module)
    assert facula.allclose(compiled(x), module(x))
    doubled = facula.compile(lambda s, d: (s * 2) @ d + 1)
    for size in (3, 4):
        links = facula.ones(size, size).to_sparse()
        d = facula.rand(size, 2)
        assert facula.allclose(doubled(links, d), 2 * links.to_dense() @ d + 1)
