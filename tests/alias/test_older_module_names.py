"""Names of older programs: `functional`, `_vmap_internals`, `Storage`; limits and weak dictionaries as values."""

import copy
import gc

import numpy as np
import pytest

import facula
from facula.utils.weak import WeakIdKeyDictionary


def test_functional_has_the_operators_of_the_top_level():
    from facula.functional import einsum, meshgrid, norm

    assert (einsum, meshgrid, norm) == (facula.einsum, facula.meshgrid, facula.norm)
    assert facula.functional.stft is facula.stft
    with pytest.raises(AttributeError):
        facula.functional.nothing_of_this_name  # noqa: B018


def test_the_older_vmap():
    from facula._vmap_internals import vmap

    x = facula.randn(2, 3)
    facula.testing.assert_close(vmap(facula.sum, in_dims=1)(x), x.sum(0))


def test_storages_of_the_default_dtype():
    assert facula.Storage([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert facula.Storage(np.int64(3)).size() == 3
    assert isinstance(facula.ones(1).storage(), facula.Storage)
    assert not isinstance(facula.ones(1).double().storage(), facula.Storage)


def test_limits_are_values():
    assert facula.finfo(facula.float16) == facula.finfo(facula.float16) != facula.finfo()
    assert facula.finfo(facula.complex64) == facula.finfo(facula.float32)
    assert facula.iinfo(facula.int8) == facula.iinfo(facula.int8) != facula.iinfo(facula.uint8)
    assert len({facula.iinfo(facula.int8), facula.iinfo(facula.int8)}) == 1


def test_truths_of_numpy_functions_are_bytes():
    found = np.greater_equal(facula.tensor([1, 2, 3]), 2)
    assert found.dtype is facula.uint8 and found.tolist() == [0, 1, 1]


def test_unions_of_weak_dictionaries():
    x, y = facula.ones(1), facula.ones(1)
    one, two = WeakIdKeyDictionary({x: 1}), WeakIdKeyDictionary({x: 2, y: 3})
    both = one | two
    assert (both[x], both[y], len(one)) == (2, 3, 1)
    assert ({y: 5} | one)[y] == 5
    one |= {y: 4}
    assert one[y] == 4
    with pytest.raises(TypeError):
        one | 3  # noqa: B018
    copied = copy.deepcopy(WeakIdKeyDictionary({x: [1]}))
    assert copied[x] == [1]
    del y
    gc.collect()
    assert len(both) == len(one) == 1
