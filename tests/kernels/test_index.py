"""Indexing, gather, scatter, masks, joins and rearrangements against NumPy, on every layout
and number of threads.
"""

import numpy as np
import pytest

import facula
from facula import core
from facula.ops import F

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "complex64"]
REDUCTIONS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@pytest.fixture(autouse=True)
def random():
    return np.random.default_rng(0)


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = core.get_num_threads()
    core.set_num_threads(request.param)
    yield request.param
    core.set_num_threads(before)


def values(random, shape, dtype):
    if np.dtype(dtype).kind == "c":
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    return (random.standard_normal(shape) * 5).astype(dtype)


def tensor(array):
    return core.from_numpy(np.ascontiguousarray(array).copy())


def layouts(array):
    """The same values contiguous, transposed in memory, and as every second element of a
    larger tensor.
    """
    yield tensor(array)
    if array.ndim > 1:
        axes = tuple(reversed(range(array.ndim)))
        yield tensor(array.transpose(axes)).permute(axes)
        wide = np.repeat(array, 2, axis=array.ndim - 1)
        yield F.slice(tensor(wide), array.ndim - 1, 0, None, 2)


def same(result, expected):
    np.testing.assert_array_equal(result.numpy(), expected)


def close(result, expected, dtype):
    tolerance = {"f": 1e-4, "c": 1e-4}.get(np.dtype(dtype).kind, 0)
    if np.dtype(dtype).itemsize == 8 and np.dtype(dtype).kind == "f":
        tolerance = 1e-12
    np.testing.assert_allclose(result.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool", "float16", "complex128"])
@pytest.mark.parametrize("shape", [(7,), (5, 9), (4, 3, 6), (3, 2, 4, 5)])
def test_gather_and_index_select(random, dtype, shape):
    array = values(random, shape, dtype)
    for dim in range(len(shape)):
        size = list(shape)
        size[dim] = 11
        index = random.integers(0, shape[dim], size)
        line = random.integers(0, shape[dim], 6)
        for x in layouts(array):
            same(x.gather(dim, tensor(index)), np.take_along_axis(array, index, dim))
            same(x.index_select(dim, tensor(line)), np.take(array, line, dim))


def test_gather_with_a_smaller_index(random):
    array = values(random, (6, 7, 8), "float32")
    index = random.integers(0, 7, (3, 9, 2))
    expected = np.take_along_axis(array[:3, :, :2], index, 1)
    same(tensor(array).gather(1, tensor(index)), expected)


@pytest.mark.parametrize("rows,columns", [(40000, 128), (9, 300001), (100000, 1), (33000, 3)])
def test_large_gather_and_scatter_do_not_depend_on_threads(random, threads, rows, columns):
    array = values(random, (700, columns), "float32")
    index = random.integers(0, 700, rows)
    same(tensor(array).index_select(0, tensor(index)), array[index])
    source = values(random, (rows, columns), "float32")
    total = F.index_add(tensor(array), 0, tensor(index), tensor(source))
    expected = array.copy()
    np.add.at(expected, index, source)  # the same order of additions: equal to the last bit
    same(total, expected)
    expanded = tensor(index).unsqueeze(1).expand((rows, columns))
    same(F.scatter_add(tensor(array), 0, expanded, tensor(source)), expected)


@pytest.mark.parametrize(
    ("dtype", "reduce"),
    [
        (dtype, reduce)
        for dtype in DTYPES
        for reduce in REDUCTIONS
        if np.dtype(dtype).kind != "c" or reduce not in ("amax", "amin")  # these have no order
    ],
)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(random, dtype, reduce, include_self):
    for shape, dim in (((5, 6), 0), ((5, 6), 1), ((3, 4, 5), 1)):
        array, source = values(random, shape, dtype), values(random, shape, dtype)
        index = random.integers(0, shape[dim], shape)
        place = list(np.indices(shape))
        place[dim] = index
        expected = array.copy()
        if not include_self:
            first = {"sum": 0, "prod": 1}.get(reduce)
            if first is None:
                kind = np.dtype(dtype).kind
                low, high = (
                    (-np.inf, np.inf) if kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
                )
                first = low if reduce == "amax" else high
            expected[tuple(place)] = first
        with np.errstate(over="ignore"):
            REDUCTIONS[reduce].at(expected, tuple(place), source)
        for x in layouts(array):
            result = x.scatter_reduce(
                dim, tensor(index), tensor(source), reduce, include_self=include_self
            )
            close(result, expected, dtype)


def test_scatter_reduce_keeps_nan():
    x = core.tensor([0.0, float("nan"), 1.0])
    index = core.tensor([0, 1, 2])
    source = core.tensor([float("nan"), 2.0, 3.0])
    result = x.scatter_reduce(0, index, source, "amax").tolist()
    assert np.isnan(result[0]) and np.isnan(result[1]) and result[2] == 3.0


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128", "bool", "int8"])
def test_advanced_indexing(random, dtype):
    array = values(random, (4, 5, 6, 3), dtype)
    a, b = random.integers(-4, 4, (2, 1)), random.integers(-5, 5, (3,))
    c = random.integers(-3, 3, (3,))
    for x in layouts(array):
        same(F.index(x, [tensor(a)]), array[a])
        same(F.index(x, [tensor(a), tensor(b)]), array[a, b])
        same(F.index(x, [None, tensor(b)]), array[:, b])
        same(F.index(x, [tensor(a), None, None, tensor(c)]), array[a, :, :, c])
        same(F.index(x, [None, tensor(b), None, tensor(c)]), array[:, b, :, c])
    mask = random.random((4, 5)) > 0.5
    same(F.index(tensor(array), [tensor(mask)]), array[mask])
    whole = random.random(array.shape) > 0.5
    same(F.index(tensor(array), [tensor(whole)]), array[whole])


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(random, accumulate):
    array = values(random, (4, 5, 6), "float64")
    a, b = random.integers(0, 4, (7,)), random.integers(-5, 5, (7,))
    for indices, numpy_indices in (
        ([a, b], (a, b)),
        ([None, b], (slice(None), b)),
        ([a, None, b], (a, slice(None), b)),
    ):
        shape = array[numpy_indices].shape
        put = values(random, shape, "float64")
        expected = array.copy()
        if accumulate:
            np.add.at(expected, numpy_indices, put)
        else:
            expected[numpy_indices] = put
        given = [None if i is None else tensor(i) for i in indices]
        for x in layouts(array):
            same(F.index_put(x, given, tensor(put), accumulate), expected)


@pytest.mark.parametrize("accumulate", [False, True])
def test_values_put_to_places_are_broadcast(random, accumulate):
    array = values(random, (4, 5, 6), "float64")
    rows = random.permutation(4)[:3]  # places (3, 5, 6)
    fits = [
        (),
        (1,),
        (6,),
        (1, 6),
        (5, 1),
        (5, 6),
        (1, 1, 1),
        (3, 1, 6),
        (1, 5, 6),
        (1, 1, 3, 5, 1),
    ]
    for shape in fits:
        put = values(random, shape, "float64")
        expected = array.copy()
        expected[rows] = expected[rows] * accumulate + put.reshape(shape[-3:])
        for x in layouts(array):
            same(F.index_put(x, [tensor(rows)], tensor(put), accumulate), expected)
    for shape in [(2,), (5,), (6, 6), (2, 5, 6), (0, 5, 6), (2, 3, 5, 6)]:
        with pytest.raises(RuntimeError, match="cannot be broadcast"):
            F.index_put(
                tensor(array), [tensor(rows)], F.zeros(shape, dtype=core.float64), accumulate
            )


def test_the_last_of_several_writes_stays(random, threads):
    index = random.integers(0, 50, 200000)
    source = np.arange(200000)
    expected = np.zeros(50, dtype="int64")
    expected[index] = source
    zero = F.zeros(50, dtype=core.int64)
    same(F._index_put(zero, [tensor(index)], tensor(source)), expected)
    same(F.scatter(zero, 0, tensor(index), tensor(source)), expected)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "complex128"])
@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 100000])
def test_masks(random, threads, dtype, count):
    array = values(random, (count,), dtype)
    mask = random.random(count) > 0.7
    same(tensor(array).masked_select(tensor(mask)), array[mask])
    same(tensor(mask).nonzero(), np.argwhere(mask))
    source = values(random, (count,), dtype)
    expected = array.copy()
    expected[mask] = source[: mask.sum()]
    same(tensor(array).masked_scatter(tensor(mask), tensor(source)), expected)


def test_nonzero_coordinates(random):
    array = (random.random((13, 7, 211)) > 0.9).astype("float32")
    same(tensor(array).nonzero(), np.argwhere(array))
    for place, expected in zip(
        F.nonzero(tensor(array), as_tuple=True), array.nonzero(), strict=True
    ):
        same(place, expected)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
def test_searchsorted(random, dtype, right):
    rows = np.sort(values(random, (3, 40), dtype), axis=1)
    probes = values(random, (3, 77), dtype)
    expected = [
        np.searchsorted(r, p, "right" if right else "left")
        for r, p in zip(rows, probes, strict=True)
    ]
    same(F.searchsorted(tensor(rows), tensor(probes), right=right), np.stack(expected))
    same(F.bucketize(tensor(probes), tensor(rows[0]), right=right),
         np.searchsorted(rows[0], probes, "right" if right else "left"))  # fmt: skip


def test_counts(random, threads):
    array = random.integers(0, 300, 200000)
    same(tensor(array).bincount(), np.bincount(array))
    weights = random.random(200000)
    close(tensor(array).bincount(tensor(weights)), np.bincount(array, weights), "float64")
    x = random.standard_normal(5000).astype("float32")
    same(tensor(x).histc(20, -2, 2), np.histogram(x, 20, (-2, 2))[0].astype("float32"))


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "float16", "bool"])
def test_rearrangements(random, dtype):
    array = values(random, (5, 7, 6), dtype)
    for x in layouts(array):
        same(x.flip(0, 2), np.flip(array, (0, 2)))
        same(x.roll((2, -9), (1, 2)), np.roll(array, (2, -9), (1, 2)))
        same(x.roll(4), np.roll(array, 4))
        same(F.rot90(x, 3, (0, 2)), np.rot90(array, 3, (0, 2)))
        for k in (-3, 0, 2, 9):
            same(x.tril(k), np.tril(array, k))
            same(x.triu(k), np.triu(array, k))
        same(x.repeat(2, 1, 3), np.tile(array, (2, 1, 3)))
        counts = random.integers(0, 4, 7)
        same(x.repeat_interleave(tensor(counts), 1), np.repeat(array, counts, 1))


@pytest.mark.parametrize(
    "mode,numpy_mode", [("reflect",) * 2, ("replicate", "edge"), ("circular", "wrap")]
)
def test_pad(random, mode, numpy_mode):
    array = values(random, (2, 3, 5, 6, 7), "float32")
    x = tensor(array)
    same(
        F.pad(x, (3, 2, 1, 4, 2, 1), mode),
        np.pad(array, ((0, 0), (0, 0), (2, 1), (1, 4), (3, 2)), numpy_mode),
    )
    flat = tensor(array[0])
    same(F.pad(flat, (3, 2, 0, 0), mode),
         np.pad(array[0], ((0, 0), (0, 0), (0, 0), (3, 2)), numpy_mode))  # fmt: skip


def test_pad_backward_is_the_transpose(random):
    x, g = values(random, (2, 3, 5, 6), "float64"), values(random, (2, 3, 8, 11), "float64")
    for mode in ("reflect", "replicate", "circular"):
        y = F._pad_index(tensor(x), (3, 2, 1, 2), mode)
        back = F._pad_index_backward(tensor(g), x.shape, (3, 2, 1, 2), mode)
        left, right = (y.numpy() * g).sum(), (x * back.numpy()).sum()
        assert abs(left - right) < 1e-10


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_cat_and_stack(random, threads, dtype):
    for shape, dim in (((3, 4), 0), ((3, 4), 1), ((64, 3, 50), 1), ((2, 3, 4), 2)):
        parts = []
        for n in (1, 0, 5, 2):
            size = list(shape)
            size[dim] = n
            parts.append(values(random, size, dtype))
        same(F.cat([tensor(p) for p in parts], dim), np.concatenate(parts, dim))
        equal = [values(random, shape, dtype) for _ in range(3)]
        same(F.stack([tensor(p) for p in equal], dim), np.stack(equal, dim))
    many = [values(random, (2, 3), dtype) for _ in range(150)]
    same(F.cat([tensor(p) for p in many], 1), np.concatenate(many, 1))


def test_large_cat_streams(random):
    parts = [values(random, (8, 1000003), "float32") for _ in range(2)]
    same(F.cat([tensor(p) for p in parts], 1), np.concatenate(parts, 1))


def test_gradients_go_back(random):
    x = tensor(values(random, (5, 4), "float64")).requires_grad_()
    index = tensor(random.integers(0, 5, (8,)))
    weight = tensor(values(random, (8, 4), "float64"))
    (F.index_select(x, 0, index) * weight).sum().backward()
    expected = np.zeros((5, 4))
    np.add.at(expected, index.numpy(), weight.numpy())
    close(x.grad, expected, "float64")


BAD = [
    (
        lambda x: x.index_select(0, core.tensor([3])),
        IndexError,
        "index 3 .* dimension 0 with size 3",
    ),
    (lambda x: x.gather(1, core.tensor([[4]])), RuntimeError, "index 4 .* dimension 1 with size 4"),
    (lambda x: F.index(x, [core.tensor([-4])]), IndexError, "index -4 .* dimension 0 with size 3"),
    (lambda x: x.take(core.tensor([12])), IndexError, "index 12"),
    (lambda x: x.scatter(0, core.tensor([[9]]), 1.0), RuntimeError, "index 9"),
    (lambda x: F.index(x, [core.tensor([0.5])]), IndexError, "must be long, int, byte or bool"),
    (lambda x: x.masked_select(x), RuntimeError, "BoolTensor"),
    (lambda x: F.cat([]), ValueError, "non-empty"),
    (lambda x: F.cat([x, x.t()]), RuntimeError, "Sizes of tensors must match"),
    (lambda x: x.scatter_reduce(0, core.tensor([[0]]), x, "best"), RuntimeError, "reduce argument"),
]


@pytest.mark.parametrize("call,exception,text", BAD)
def test_errors_name_what_is_wrong(call, exception, text):
    x = F.zeros(3, 4)
    with pytest.raises(exception, match=text):
        call(x)


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("include", [True, False])
def test_extremes_of_unsigned_numbers_above_half_of_the_range(name, include):
    """They were compared as signed ones."""
    top = int(np.iinfo(name).max)
    source = np.array([1, top, 3, top // 2 + 2, top - 1, 7], dtype=name)
    start = np.array([top // 2, top // 2 + 5], dtype=name)
    index = [0, 0, 1, 1, 1, 0]
    for reduce, combine in (("amax", max), ("amin", min)):
        expected = []
        for place in (0, 1):
            kept = [int(start[place])] if include else []
            expected.append(
                combine(kept + [int(x) for x, at in zip(source, index, strict=True) if at == place])
            )
        for method in ("scatter_reduce", "index_reduce"):
            result = getattr(facula.from_numpy(start.copy()), method)(
                0,
                facula.tensor(index),
                facula.from_numpy(source),
                reduce,
                include_self=include,
            )
            assert result.numpy().tolist() == expected, (method, reduce)
