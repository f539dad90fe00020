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


ARRAYS = {
    "matrix": lambda: np.arange(12.0).reshape(3, 4),
    "columns": lambda: np.arange(12.0).reshape(3, 4)[:, 1:3],
    "every second": lambda: np.arange(12, dtype=np.int16)[::2],
    "transposed": lambda: np.arange(6, dtype=np.complex64).reshape(2, 3).T,
    "one row": lambda: np.arange(3, dtype=np.uint8).reshape(1, 3),
    "empty": lambda: np.zeros((2, 0)),
    "number": lambda: np.array(3.0, dtype=np.float16),
    "truth": lambda: np.array([True, False]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_and_tensors_share_memory_there_and_back(name):
    for _ in range(2):  # the first array of a process comes another way than those after it
        array = ARRAYS[name]()
        x = facula.from_numpy(array)
        assert tuple(x.shape) == array.shape and x.tolist() == array.tolist()
        if array.size > 1:
            assert tuple(s * array.itemsize for s in x.stride()) == array.strides
        back = x.numpy()
        assert back.dtype == array.dtype and back.tolist() == array.tolist()
        assert not array.size or np.shares_memory(back, array)
        if array.size:
            x.fill_(1)
            assert (array == 1).all() and (back == 1).all()


def test_an_array_keeps_its_memory_alive():
    array = facula.arange(1000.0)[10:20:3].numpy()
    other = [facula.full((1000,), 7.0) for _ in range(50)]
    assert array.tolist() == [10, 13, 16, 19] and len(other) == 50
    x = facula.from_numpy(np.arange(1000.0)[10:20:3])
    assert x.tolist() == [10, 13, 16, 19]


def test_memory_that_may_not_be_written_stays_so():
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = facula.from_numpy(array)
    assert not x.numpy().flags.writeable
    with pytest.raises(RuntimeError, match="writable memory was required"):
        x.add_(1)


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (np.arange(3.0)[::-1], ValueError, "non-negative strides"),
        (np.zeros(2, ">f4"), ValueError, "native byte order"),
        (np.array(["a"]), TypeError, "numeric dtype"),
        (np.zeros(2, "M8[s]"), TypeError, "numeric dtype"),
        (np.zeros(2, [("a", "u1"), ("b", "f4")])["b"], ValueError, "multiples of the element size"),
    ],
)
def test_arrays_that_no_tensor_can_be(array, error, words):
    facula.from_numpy(np.zeros(2))
    with pytest.raises(error, match=words):
        facula.from_numpy(array)
