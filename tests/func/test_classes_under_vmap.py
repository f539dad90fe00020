"""Classes of tensors with a dispatch of their own, mapped: what vmap wraps stays an entry of the batch."""

import numpy

import facula
from facula.fx._pytree import tree_map


class Held(facula.Tensor):
    """A tensor that holds another one and runs everything on it."""

    @staticmethod
    def __new__(cls, held):
        return facula.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def inner(value):
            return value.held if isinstance(value, cls) else value

        result = func(*tree_map(inner, args), **tree_map(inner, kwargs or {}))
        return tree_map(lambda r: cls(r) if isinstance(r, facula.Tensor) else r, result)


def test_a_held_tensor_meets_entries_of_a_batch():
    factor = numpy.array([1.0, 2.0, 3.0], numpy.float32)
    batch = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
    held = Held(facula.tensor(factor))
    mapped = facula.vmap(lambda row: (held * row).view(3) * 2)(facula.tensor(batch))
    assert isinstance(mapped, Held)
    assert mapped.shape == (4, 3)
    numpy.testing.assert_array_equal(mapped.held.numpy(), batch * factor * 2)


def test_a_mapped_held_tensor():
    batch = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
    mapped = facula.vmap(lambda row: (row * 3).sum())(Held(facula.tensor(batch)))
    assert isinstance(mapped, Held)
    numpy.testing.assert_array_equal(mapped.held.numpy(), batch.sum(1) * 3)
