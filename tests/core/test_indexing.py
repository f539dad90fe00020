"""Reading and writing by subscript, in every form, against NumPy."""

import numpy as np
import pytest

import facula

ARRAY = np.arange(2 * 3 * 4).reshape(2, 3, 4)
I = np.array  # noqa: E741

INDICES = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2, 3),
    "slice": slice(1, None),
    "slices": (slice(None), slice(0, 3, 2), slice(1, 3)),
    "negative slice": (slice(-1, None), slice(None, -1)),
    "out of range slice": (slice(5, 9), slice(-9, 1)),
    "empty slice": (slice(None), slice(2, 1)),
    "ellipsis": (Ellipsis, 1),
    "ellipsis between": (0, Ellipsis, 1),
    "ellipsis alone": Ellipsis,
    "none": None,
    "nones": (None, 0, None, slice(None), None),
    "empty tuple": (),
    "numpy int": np.int64(1),
    "list": ([0, 1, 1],),
    "bare list": [1, 0],
    "array": (I([1, 0]),),
    "arrays": (I([1, 0]), I([2, 0])),
    "three arrays": (I([1, 0]), I([2, 0]), I([3, 1])),
    "broadcast arrays": (I([[1], [0]]), I([2, 0, 1])),
    "array and slice": (slice(None), I([2, 0, 0])),
    "array, slice, array": (I([1, 0]), slice(None), I([3, 3])),
    "slice, arrays": (slice(0, 1), I([1, 2]), I([3, 0])),
    "array and int": (1, I([2, 0])),
    "int between": (I([1, 0]), 2, I([3, 1])),
    "array and none": (None, I([1, 0]), slice(1, 2)),
    "ellipsis and array": (Ellipsis, I([0, 3])),
    "negative array": (I([-1, 0]), I([-3, -1])),
    "2-d array": I([[0, 1], [1, 1]]),
    "empty array": (I([], dtype=np.int64),),
    "mask": ARRAY > 7,
    "mask of the first": (I([True, False]),),
    "mask of the second": (slice(None), I([True, False, True])),
    "mask of two": ARRAY[:, :, 0] > 6,
    "mask and int": (1, I([True, False, True])),
    "mask and array": (I([0, 1]), I([True, False, True])),
    "true": True,
    "false": False,
    "nothing selected": ARRAY > 99,
    "0-d array": (I(1), I(2)),
}


def converted(index):
    """The index with tensors in place of arrays."""
    if isinstance(index, tuple):
        return tuple(converted(part) for part in index)
    return facula.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", INDICES)
def test_read(name):
    index = INDICES[name]
    for array in (ARRAY, np.asfortranarray(ARRAY), np.repeat(ARRAY, 2, 2)[:, :, ::2]):
        x = facula.from_numpy(array)
        np.testing.assert_array_equal(x[converted(index)].numpy(), array[index])


@pytest.mark.parametrize("name", INDICES)
def test_write_number(name):
    expected, index = ARRAY.copy(), INDICES[name]
    expected[index] = 99
    x = facula.tensor(ARRAY)
    x[converted(index)] = 99
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("name", INDICES)
def test_write_tensor(name):
    expected, index = ARRAY.copy(), INDICES[name]
    value = -np.arange(expected[index].size).reshape(expected[index].shape)
    distinct = np.unique(np.arange(24).reshape(ARRAY.shape)[index]).size == value.size
    value = value if distinct else np.full_like(value, -5)
    expected[index] = value
    x = facula.tensor(ARRAY).transpose(0, 2).contiguous().transpose(0, 2)
    x[converted(index)] = facula.tensor(value)
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("name", INDICES)
def test_write_broadcast(name):
    expected, index = ARRAY.copy(), INDICES[name]
    if expected[index].ndim == 0 or expected[index].size == 0:
        value = np.array(7)
    else:
        value = np.full(expected[index].shape[-1:], 7)
    expected[index] = value
    x = facula.tensor(ARRAY)
    x[converted(index)] = facula.tensor(value)
    np.testing.assert_array_equal(x.numpy(), expected)


@pytest.mark.parametrize("name", [n for n in INDICES if n not in ("true", "false")])
def test_gradient_of_reading_and_writing(name):
    index = INDICES[name]
    x = facula.randn(2, 3, 4, dtype=facula.float64, requires_grad=True)
    counts = np.zeros(ARRAY.shape)
    np.add.at(counts, index, 1)
    x[converted(index)].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), counts)
    x.grad = None
    y = x * 2
    y[converted(index)] = 5.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.where(counts > 0, 0, 2))


def test_basic_indices_are_views_and_others_are_not():
    x = facula.zeros(3, 4)
    for index in (1, slice(1, 2), None, Ellipsis, (0, slice(None, None, 2))):
        assert x[index]._base is x
    for index in ([0], facula.tensor([0]), facula.tensor([True, False, True]), True):
        assert x[index]._base is None


def test_writing_twice_to_one_place():
    x = facula.zeros(3)
    x[facula.tensor([1, 1])] = facula.tensor([5.0, 5.0])
    assert x.tolist() == [0, 5, 0]
    x.index_put_((facula.tensor([1, 1]),), facula.tensor([1.0, 2.0]), accumulate=True)
    assert x.tolist() == [0, 8, 0]


def test_written_values_are_cast():
    x = facula.zeros(2, dtype=facula.int64)
    x[0] = 2.9
    x[1] = facula.tensor(True)
    assert x.tolist() == [2, 1]
    y = facula.zeros(2, dtype=facula.bool)
    y[1] = 3
    assert y.tolist() == [False, True]


def test_augmented_assignment():
    x = facula.arange(6).view(2, 3)
    x[0] += 10
    x[:, 1] *= 2
    x[facula.tensor([1, 1])] += 1
    assert x.tolist() == [[10, 22, 12], [4, 9, 6]]


def test_index_tensors_of_every_integer_dtype():
    x = facula.arange(5)
    for dtype in (facula.int64, facula.int32):
        assert x[facula.tensor([4, 0], dtype=dtype)].tolist() == [4, 0]
    assert x[facula.tensor([True, False, False, True, False])].tolist() == [0, 3]
    assert x[facula.tensor(2)].tolist() == 2


def test_iteration_length_and_membership():
    x = facula.arange(6).view(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]] and len(x) == 3
    assert 5 in x and 9 not in x
    a, b, c = x
    assert b.tolist() == [2, 3]
    with pytest.raises(TypeError, match="0-d"):
        iter(facula.tensor(1))
    with pytest.raises(TypeError, match="0-d"):
        len(facula.tensor(1))


@pytest.mark.parametrize(
    "index, kind, message",
    [
        (2, IndexError, "out of bounds"),
        (-3, IndexError, "out of bounds"),
        ((0, 3), IndexError, "out of bounds"),
        ((0, 0, 0, 0), IndexError, "too many indices"),
        ((Ellipsis, 0, Ellipsis, 0), IndexError, "ellipsis"),
        (slice(None, None, -1), ValueError, "greater than zero"),
        (slice(None, None, 0), ValueError, "greater than zero|zero"),
        (1.5, (IndexError, TypeError), "integers|int"),
        ("a", (IndexError, TypeError), "integers|int|slices"),
        ([0, 5], IndexError, "out of (bounds|range)"),
        (facula.tensor([True] * 3), IndexError, "mask|match"),
        ((facula.tensor([0, 1]), facula.tensor([0, 1, 2])), IndexError, "broadcast"),
        (facula.tensor([0.5]), IndexError, "tensors used as indices"),
    ],
)
def test_errors(index, kind, message):
    x = facula.arange(6).view(2, 3)
    with pytest.raises(kind, match=message):
        x[index]
    with pytest.raises(kind, match=message):
        x[index] = 0
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_wrong_shapes_of_values():
    x = facula.zeros(2, 3)
    for index, value in (
        (0, facula.ones(2)),
        (slice(None), facula.ones(3, 3)),
        ([0, 1], facula.ones(2, 2)),
    ):
        with pytest.raises(RuntimeError, match="shape|size"):
            x[index] = value
    assert not x.any()


def test_a_short_list_of_lists_or_tensors_counts_as_a_tuple():
    x = facula.arange(12).view(4, 3)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 0]]].tolist() == [1, 3]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[facula.tensor([0, 3]), slice(1, 3)]].tolist() == [[1, 2], [10, 11]]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        x[[[0, 1], [1, 0]]] = -1
    assert x[[0, 1]].tolist() == [[0, -1, 2], [-1, 4, 5]]


def test_a_mask_of_bytes_warns():
    x = facula.arange(3)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[facula.tensor([1, 0, 1], dtype=facula.uint8)].tolist() == [0, 2]


def test_ranges_are_index_lists():
    x = facula.zeros(3, 3)
    x[range(3), range(3)] = facula.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    assert x[range(1, 3)].tolist() == [[0, 2, 0], [0, 0, 3]]


def test_bounds_and_dimensions_that_no_tensor_has():
    with pytest.raises(TypeError, match="slice indices must be integers"):
        facula.ones(3)["0":"1"]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        facula.tensor(1)[0]
    with pytest.raises(IndexError, match="for dimension with size 0"):
        facula.ones(2, 0)[:, [0]]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        facula.arange(4)[[0, 1]] = facula.ones(3)
