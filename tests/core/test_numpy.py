"""Arrays and tensors together: creation, operators, indices, and what is refused."""

import warnings

import numpy as np
import pytest

import facula


def test_comparisons_with_arrays():
    x, a = facula.tensor([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 3.0])
    assert (x == a).tolist() == [True, False, True]
    assert (a == x).tolist() == [True, False, True]
    assert (x != a).tolist() == [False, True, False]
    assert (x == np.float64(2)).tolist() == [False, True, False]


def test_quotient_of_an_array_by_a_tensor():
    r = np.array([1.0, 4.0]) / facula.tensor([2.0, 2.0])
    assert isinstance(r, facula.Tensor) and r.dtype is facula.float64 and r.tolist() == [0.5, 2.0]


def test_universal_functions_give_tensors():
    x = facula.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        both = np.add(np.arange(3.0), x)
        sine = np.sin(x)
    assert isinstance(both, facula.Tensor) and both.tolist() == [0, 2, 4]
    assert isinstance(sine, facula.Tensor) and sine.dtype is facula.float32
    assert x.__array_priority__ == 1000 and not hasattr(x, "__cuda_array_interface__")


def test_arrays_of_tensors():
    x = facula.arange(3.0)
    assert np.asarray(x, dtype=np.int64).tolist() == [0, 1, 2]
    assert np.shares_memory(np.asarray(x), x.numpy())
    with pytest.raises(ValueError, match="copy=False"):
        x.__array__(np.int64, copy=False)
    assert np.arange(5.0)[facula.tensor([0, 2])].tolist() == [0, 2]
    assert x[np.array([True, False, True])].tolist() == [0, 2]


@pytest.mark.parametrize("dtype", ["datetime64[s]", "U3", "O", "longdouble", "V4"])
def test_dtypes_without_tensors(dtype):
    with pytest.raises(TypeError, match="can't convert np.ndarray"):
        facula.from_numpy(np.zeros(2, dtype=dtype))


def test_what_from_numpy_refuses():
    with pytest.raises(TypeError, match="expected np.ndarray"):
        facula.from_numpy([1, 2])
    with pytest.raises(TypeError, match="expected np.ndarray"):
        facula.from_numpy(np.float64(1))
    with pytest.raises(ValueError, match="negative"):
        facula.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        facula.from_numpy(np.zeros(2, dtype=">f4"))


def test_what_tensor_refuses():
    for data in (None, [None], {1, 2}):
        with pytest.raises(RuntimeError, match="Could not infer dtype"):
            facula.tensor(data)
    with pytest.raises(TypeError):
        facula.tensor("a")
    with pytest.raises(ValueError, match="Overflow"):
        facula.tensor(2**63)
    with pytest.raises(RuntimeError, match="overflow"):
        facula.tensor(300, dtype=facula.uint8)
    with pytest.raises(TypeError, match="real number, not complex"):
        facula.tensor(1j, dtype=facula.float32)


def test_asarray():
    a = np.arange(3.0)
    shared = facula.asarray(a)
    shared[0] = 5
    assert a[0] == 5 and facula.asarray(np.float32(2)).dtype is facula.float32
    with pytest.raises(ValueError, match="alias"):
        facula.asarray(a, dtype=facula.int64, copy=False)
    x = facula.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="requires_grad"):
        assert facula.asarray(x) is x
    assert not facula.asarray(x, requires_grad=False).requires_grad
