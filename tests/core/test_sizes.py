"""Sizes: tuples that stay sizes when they are cut, and shapes of every kind that calls take."""

import pickle

import numpy as np
import pytest

import facula


def test_cuts_of_sizes_are_sizes():
    size = facula.zeros(2, 3, 4).shape
    assert size[0] == 2 and size[-1] == 4 and type(size[1]) is int
    for cut in (slice(1, None), slice(None), slice(None, None, -1), slice(5, 1)):
        assert type(size[cut]) is facula.Size and tuple(size[cut]) == (2, 3, 4)[cut]
    with pytest.raises(IndexError):
        size[3]
    with pytest.raises(TypeError):
        size["a"]
    assert size[np.int64(1)] == 3 and list(size) == [2, 3, 4] and size.index(4) == 2
    assert hash(size) == hash((2, 3, 4)) and size == (2, 3, 4)
    assert pickle.loads(pickle.dumps(size)) == size and size[1:].numel() == 12


def test_classes_of_sizes_keep_their_own_items():
    class Named(facula.Size):
        def __getitem__(self, key):
            return ("n", tuple.__getitem__(self, key))

    assert Named((2, 3))[1] == ("n", 3)
    assert facula.zeros(Named((2, 3))).shape == (2, 3)


@pytest.mark.parametrize(
    "shape", [(2, 3), [2, 3], facula.Size((2, 3)), (np.int64(2), 3), facula.tensor([2, 3])]
)
def test_shapes_of_every_kind(shape):
    assert facula.zeros(shape).shape == (2, 3)
    assert facula.arange(6.0).view(shape).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert facula.arange(6.0).reshape(shape).shape == (2, 3)


def test_shapes_that_are_none():
    for shape in ((True, 2), (2.0, 3)):
        with pytest.raises(TypeError):
            facula.zeros(shape)
    with pytest.raises(RuntimeError, match="negative dimension"):
        facula.zeros((2, -1))
    with pytest.raises(TypeError):
        facula.zeros((2**70,))
    with pytest.raises(RuntimeError, match="fits memory"):
        facula.zeros((2**40, 2**40))
    assert facula.zeros((2**40, 0, 2**20)).numel() == 0


@pytest.mark.parametrize(
    "view", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x.expand(2, 4, 6)]
)
@pytest.mark.parametrize("shape", [(-1,), (3, -1), (2, 2, -1)])
def test_reshape_copies_where_no_view_can_be_had(view, shape):
    base = facula.arange(24.0).view(4, 6).requires_grad_()
    x = view(base)
    expected = x.detach().numpy().reshape(shape)
    y = x.reshape(shape)
    assert y.tolist() == expected.tolist()
    weights = facula.arange(float(y.numel())).view(y.shape)
    (y * weights).sum().backward()
    again = view(facula.arange(24).view(4, 6)).reshape(-1)
    found = np.bincount(again.numpy(), np.arange(y.numel(), dtype=float), 24).reshape(4, 6)
    assert base.grad.numpy().tolist() == found.tolist()
    with pytest.raises(RuntimeError, match="shape '.*' is invalid for input of size"):
        x.reshape(7, 3)


def test_t_of_every_rank():
    for size in ((), (3,), (2, 3), (2, 3, 4)):
        x = facula.arange(float(np.prod(size))).view(size)
        assert x.T.tolist() == x.numpy().T.tolist()
