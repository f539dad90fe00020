"""Transforms under the names of the modules in which PyTorch defines them."""

import facula
from facula.torch_api._functorch import eager_transforms
from facula.torch_api._functorch.vmap import restore_vmap


def test_transforms_are_the_public_ones():
    for name in eager_transforms.__all__:
        assert getattr(eager_transforms, name) is getattr(facula.func, name)


def test_one_value_is_a_tuple_of_one():
    x = facula.ones(1)
    assert eager_transforms._as_tuple(x) == (x,)
    assert eager_transforms._as_tuple((x, 2)) == (x, 2)


def test_entries_come_back_with_the_place_of_their_batch():
    x, y = facula.randn(4, 3), facula.randn(3, 4)

    def f(given, z):
        return {"a": given[0] + 1, "b": z, "c": None}

    found, places = restore_vmap(f, ((0,), 1), 4, "error")((x,), y)
    assert facula.equal(found["a"], x + 1) and facula.equal(found["b"], y) and found["c"] is None
    assert places == {"a": 0, "b": 1, "c": None}
    whole, none = restore_vmap(f, ((None,), None), 4, "error")((x,), y)
    assert facula.equal(whole["a"], x + 1) and none == {"a": None, "b": None, "c": None}
