"""Tensors with sparse and dense dimensions: what changes shapes acts on both kinds as NumPy does on the whole.

Takes: an array of four dimensions, of which the first one to four are sparse.
Keeps true: every dimension is tried, so that sparse and dense ones, the first and the last, are hit.
"""

import itertools

import numpy as np
import pytest

import facula

SHAPE = (2, 3, 4, 5)


def both(sparse_dim, shape=SHAPE, seed=0):
    """A sparse tensor, and its elements as an array: some slices are empty."""
    random = np.random.default_rng(seed)
    array = random.standard_normal(shape) * (random.random(shape) < 0.5)
    array[:, 1] = 0
    return facula.tensor(array).to_sparse(sparse_dim), array


def same(got, expected):
    if isinstance(got, facula.Tensor) and got.layout is not facula.strided:
        assert tuple(got.shape) == expected.shape
        got = got.to_dense()
    np.testing.assert_array_equal(got.numpy(), expected)


OF_ONE_DIMENSION = {
    "select": (lambda x, d: x.select(d, 1), lambda a, d: np.take(a, 1, d)),
    "select last": (lambda x, d: x.select(d, -1), lambda a, d: np.take(a, -1, d)),
    "narrow": (lambda x, d: x.narrow(d, 1, 1), lambda a, d: np.take(a, [1], d)),
    "narrow from the end": (lambda x, d: x.narrow(d, -2, 2), lambda a, d: np.take(a, [-2, -1], d)),
    "index_select": (
        lambda x, d: x.index_select(d, facula.tensor([1, 0, 1])),
        lambda a, d: np.take(a, [1, 0, 1], d),
    ),
    "unsqueeze": (lambda x, d: x.unsqueeze(d), np.expand_dims),
    "squeeze": (lambda x, d: x.narrow(d, 1, 1).squeeze(d), lambda a, d: np.take(a, 1, d)),
    "cat": (lambda x, d: facula.cat([x, x * 2], d), lambda a, d: np.concatenate([a, a * 2], d)),
    "stack": (lambda x, d: facula.stack([x, x * 2], d), lambda a, d: np.stack([a, a * 2], d)),
    "unbind": (lambda x, d: x.unbind(d)[-1], lambda a, d: np.take(a, -1, d)),
}


@pytest.mark.parametrize("dim", [*range(4), -1])
@pytest.mark.parametrize("sparse_dim", [1, 2, 3, 4])
@pytest.mark.parametrize("name", OF_ONE_DIMENSION)
def test_along_one_dimension(name, sparse_dim, dim):
    ours, numpys = OF_ONE_DIMENSION[name]
    x, array = both(sparse_dim)
    same(ours(x, dim), numpys(array, dim))


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("sparse_dim", [1, 2, 3, 4])
def test_ranges(sparse_dim, dim):
    x, array = both(sparse_dim)
    for part in (slice(1, None), slice(None, -1), slice(None, None, 2), slice(1, 1)):
        place = (slice(None),) * dim + (part,)
        same(x[place], array[place])


@pytest.mark.parametrize("sparse_dim", [1, 2, 3, 4])
def test_permutations_of_each_kind(sparse_dim):
    x, array = both(sparse_dim)
    for order in itertools.permutations(range(4)):
        if sorted(order[:sparse_dim]) == list(range(sparse_dim)):
            same(x.permute(order), array.transpose(order))
        else:
            with pytest.raises(RuntimeError, match="stay apart"):
                x.permute(order)


@pytest.mark.parametrize("sparse_dim", [1, 2, 3, 4])
def test_transposes_of_each_kind(sparse_dim):
    x, array = both(sparse_dim)
    for a, b in itertools.product(range(4), repeat=2):
        if (a < sparse_dim) == (b < sparse_dim):
            same(x.transpose(a, b), array.swapaxes(a, b))
        else:
            with pytest.raises(RuntimeError, match="sparse"):
                x.transpose(a, b)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("sparse_dim", [1, 2, 3, 4])
def test_sums(sparse_dim, keepdim):
    x, array = both(sparse_dim)
    array = np.round(array * 8)  # sums in any order are exact
    x = facula.tensor(array).to_sparse(sparse_dim)
    for count in (1, 2, 3, 4):
        for dims in itertools.combinations(range(4), count):
            same(x.sum(dims, keepdim=keepdim), array.sum(dims, keepdims=keepdim))
