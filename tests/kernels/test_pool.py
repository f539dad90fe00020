"""Pooling, embeddings, windows and interpolation against NumPy; gradients as transposes.

Takes: the public operators, and with them the kernel library of this processor.
Keeps true: maxima and copies are exact; what is linear is checked against its transpose by inner
products, and against a reference written out in float64.
"""

import itertools

import numpy as np
import pytest

import facula
from facula.nn import functional as F

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def make(shape, name="float64", seed=0):
    """A tensor of the dtype, and exactly its values in float64."""
    values = np.random.default_rng(seed).standard_normal(shape)
    tensor = facula.from_numpy(values).to(getattr(facula, name))
    return tensor, tensor.to(facula.float64).numpy()


def close(got, expected, name="float64", steps=32):
    error = np.abs(got.detach().to(facula.float64).numpy() - expected)
    assert (error <= steps * EPS[name] * max(1.0, np.abs(expected).max(initial=0))).all(), (
        error.max()
    )


def transpose_holds(function, shape, seed=3):
    """<f(x), g> equals <x, backward(g)>, for a linear function of float64."""
    x = make(shape, seed=seed)[0].requires_grad_()
    y = function(x)
    g = facula.empty_like(y.detach()).copy_(make(tuple(y.shape), seed=seed + 1)[0])
    y.backward(g)  # which lies in memory as the result does
    left, right = float((y * g).sum()), float((x * x.grad).sum())
    (nothing,) = facula.autograd.grad(function(x), x, facula.zeros_like(g))
    assert not nothing.any()
    assert abs(left - right) <= 1e-10 * max(1.0, abs(left))


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """For each output position of each dimension, the input positions of its window."""
    result = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        count = (size + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1
        result.append([[o * s - p + t * d for t in range(k)] for o in range(count)])
    return result


def pool_reference(x, places, choose):
    """`choose(values, flat positions)` on the window of each output, by plane."""
    space = len(places)
    sizes, counts = x.shape[-space:], [len(p) for p in places]
    flat = x.reshape(-1, *sizes)
    outs = [np.empty((len(flat), *counts)), np.empty((len(flat), *counts), np.int64)]
    for n, at in itertools.product(range(len(flat)), itertools.product(*map(range, counts))):
        inside = [
            [i for i in p[o] if 0 <= i < s] for p, o, s in zip(places, at, sizes, strict=True)
        ]
        where = [np.ravel_multi_index(i, sizes) for i in itertools.product(*inside)]
        value, place = choose(flat[n].reshape(-1)[where], where)
        outs[0][(n, *at)], outs[1][(n, *at)] = value, place
    return [o.reshape(*x.shape[:-space], *counts) for o in outs]


def largest(values, where):
    best, place = -np.inf, where[0]
    for value, position in zip(values, where, strict=True):
        if value > best or np.isnan(value):
            best, place = value, position
    return best, place


WINDOWS = [
    ((11, 13), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ((11, 13), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((6, 90), (3, 2), (1, 3), (1, 0), (2, 1), True),
    ((5, 140), (1, 5), (1, 1), (0, 2), (1, 1), False),
    ((37,), (3,), (2,), (1,), (1,), True),
    ((7, 8, 9), (2, 3, 1), (1, 2, 3), (1, 1, 0), (1, 2, 1), False),
    ((3, 60), (2, 2), (1, 40), (0, 0), (1, 30), False),
]
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", EPS)
@pytest.mark.parametrize("window", WINDOWS)
def test_max_pool(window, name, last):
    sizes, *rest = window
    x, values = make((2, 3, *sizes), name)
    x, values = x.clone(), values.copy()
    for place, value in ((7, np.nan), (11, -np.inf)):
        values.reshape(-1)[place] = value
    values[1, 2] = -np.inf
    x = facula.from_numpy(values).to(x.dtype)
    if last and len(sizes) == 2:
        x = x.contiguous(memory_format=facula.channels_last)
    y, indices = MAX[len(sizes)](x, *rest, return_indices=True)
    expected, places = pool_reference(values, windows(sizes, *rest), largest)
    assert np.array_equal(y.to(facula.float64).numpy(), expected, equal_nan=True)
    assert np.array_equal(indices.numpy(), places)


def test_max_pool_of_integers_and_gradient():
    x = facula.arange(2 * 3 * 6 * 8).reshape((2, 3, 6, 8))
    assert (F.max_pool2d(x, 2) == x[..., 1::2, 1::2]).all()
    leaf = make((2, 3, 7, 9))[0].requires_grad_()
    y, indices = F.max_pool2d(leaf, 3, 2, 1, return_indices=True)
    g = make(tuple(y.shape), seed=4)[0]
    for wanted in (y, F.max_pool2d(leaf, 3, 2, 1)):
        leaf.grad = None
        wanted.backward(g)
        expected = np.zeros((6, 63))
        for plane in range(6):
            np.add.at(
                expected[plane],
                indices.numpy().reshape(6, -1)[plane],
                g.numpy().reshape(6, -1)[plane],
            )
        close(leaf.grad, expected.reshape(leaf.shape))
    back = F.max_unpool2d(*F.max_pool2d(leaf, 2, return_indices=True), 2, output_size=(7, 9))
    assert tuple(back.shape) == (2, 3, 7, 9) and float(back.sum()) == pytest.approx(
        float(F.max_pool2d(leaf, 2).sum())
    )


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("window", [w for w in WINDOWS if max(w[4]) == 1])
def test_avg_pool(window, include):
    sizes, kernel, stride, padding, dilation, ceil_mode = window
    x, values = make((2, 3, *sizes))
    places = windows(sizes, kernel, stride, padding, dilation, ceil_mode)
    function = AVERAGE[len(sizes)]
    got = function(x, kernel, stride, padding, ceil_mode, include)
    sums, _ = pool_reference(values, places, lambda v, w: (v.sum(), 0))
    counts = np.ones(())
    for d, (size, pad) in enumerate(zip(sizes, padding, strict=True)):
        low, high = (-pad, size + pad) if include else (0, size)
        inside = np.array([sum(low <= i < high for i in p) for p in places[d]], float)
        counts = counts[..., None] * inside
    close(got, sums / counts)
    transpose_holds(
        lambda t: function(t, kernel, stride, padding, ceil_mode, include), (2, 3, *sizes)
    )
    if len(sizes) == 2:
        last = x.contiguous(memory_format=facula.channels_last)
        close(function(last, kernel, stride, padding, ceil_mode, include), sums / counts)
        transpose_holds(
            lambda t: function(
                t.contiguous(memory_format=facula.channels_last),
                kernel,
                stride,
                padding,
                ceil_mode,
                include,
            ),
            (2, 3, *sizes),
        )


@pytest.mark.parametrize("out", [(1, 1), (3, 2), (9, 11)])
def test_adaptive_pool(out):
    x, values = make((2, 3, 7, 8))
    places = [
        [list(range(o * s // n, -(-(o + 1) * s // n))) for o in range(n)]
        for s, n in zip((7, 8), out, strict=True)
    ]
    mean, _ = pool_reference(values, places, lambda v, w: (v.mean(), 0))
    close(F.adaptive_avg_pool2d(x, out), mean)
    close(F.adaptive_avg_pool2d(x.contiguous(memory_format=facula.channels_last), out), mean)
    transpose_holds(lambda t: F.adaptive_avg_pool2d(t, out), (2, 3, 7, 8))
    best, where = pool_reference(values, places, largest)
    y, indices = F.adaptive_max_pool2d(x, out, return_indices=True)
    assert np.array_equal(y.numpy(), best) and np.array_equal(indices.numpy(), where)


AVERAGES = [
    lambda t: F.avg_pool3d(t, (2, 3, 1), (1, 2, 3), (1, 1, 0)),
    lambda t: F.avg_pool3d(t, (2, 3, 1), (1, 2, 3), (1, 1, 0), count_include_pad=False),
    lambda t: F.avg_pool3d(t, 2, divisor_override=5),
    lambda t: F.adaptive_avg_pool3d(t, (2, 3, 5)),
    lambda t: F.adaptive_avg_pool3d(t, (5, 4, 7)),
    lambda t: F.adaptive_avg_pool2d(t.flatten(2, 3), (3, 5)),
    lambda t: F.avg_pool2d(t.flatten(2, 3), (3, 2), (2, 1), (1, 0)),
]


@pytest.mark.parametrize("name", EPS)
@pytest.mark.parametrize("channels", [3, 70])
@pytest.mark.parametrize("function", AVERAGES)
def test_averages_of_channels_last_are_those_of_channels_first(function, channels, name):
    x, values = make((2, channels, 4, 5, 6), name)
    last = x.contiguous(memory_format=facula.channels_last_3d).requires_grad_()
    y = function(last)
    assert y.stride(1) == 1
    wide = facula.from_numpy(values).requires_grad_()
    expected = function(wide)
    close(y, expected.detach().numpy(), name)
    g, exact = make(tuple(y.shape), name, seed=4)
    y.backward(facula.empty_like(y.detach()).copy_(g))
    expected.backward(facula.from_numpy(exact))
    close(last.grad, wide.grad.numpy(), name)
    if name == "float64":
        transpose_holds(
            lambda t: function(t.contiguous(memory_format=facula.channels_last_3d)), tuple(x.shape)
        )


@pytest.mark.parametrize("name", EPS)
def test_embedding(name):
    table, values = make((10, 37), name)
    indices = np.random.default_rng(1).integers(0, 10, (6, 11))
    got = F.embedding(facula.from_numpy(indices), table)
    assert np.array_equal(got.to(facula.float64).numpy(), values[indices])
    leaf = table.clone().requires_grad_()
    grad, grad64 = make((6, 11, 37), name, 2)
    F.embedding(facula.from_numpy(indices), leaf, padding_idx=-2).backward(grad)
    expected = np.zeros((10, 37))
    np.add.at(expected, indices, grad64)
    expected[8] = 0
    close(leaf.grad, expected, name)
    with pytest.raises(IndexError, match="out of bounds"):
        F.embedding(facula.from_numpy(np.array([10])), table)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    table, values = make((10, 5))
    indices = np.random.default_rng(1).integers(0, 10, 9)
    bags = [indices[0:3], indices[3:3], indices[3:9]]
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    expected = np.stack([reduce(values[b], 0) if len(b) else np.zeros(5) for b in bags])
    leaf = table.clone().requires_grad_()
    offsets = facula.from_numpy(np.array([0, 3, 3]))
    out = F.embedding_bag(facula.from_numpy(indices), leaf, offsets, mode=mode)
    close(out, expected)
    grad = make((3, 5), seed=4)[0]
    out.backward(grad)  # linear, or piecewise so: <out, g> is <table, gradient>
    assert float((out * grad).sum()) == pytest.approx(float((leaf * leaf.grad).sum()), abs=1e-12)


def linear_reference(x, axis, size, align):
    """Linear interpolation along one axis, by the rules for corners."""
    n = x.shape[axis]
    at = np.arange(size)
    place = (
        at * ((n - 1) / max(size - 1, 1)) if align else np.maximum((at + 0.5) * n / size - 0.5, 0)
    )
    low = np.minimum(place.astype(int), n - 1)
    high, t = np.minimum(low + 1, n - 1), place - low
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    t = t.reshape(shape)
    return np.take(x, low, axis) * (1 - t) + np.take(x, high, axis) * t


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("name", EPS)
def test_bilinear(name, align):
    x, values = make((2, 3, 7, 9), name)
    expected = linear_reference(linear_reference(values, 2, 5, align), 3, 20, align)
    for given in (x, x.contiguous(memory_format=facula.channels_last)):
        got = F.interpolate(given, (5, 20), mode="bilinear", align_corners=align)
        close(got, expected, name)


@pytest.mark.parametrize("size", [(14, 18), (3, 4), (7, 20)])
def test_nearest(size):
    x, values = make((2, 3, 7, 9))
    rows, columns = (np.arange(o) * n // o for o, n in zip(size, (7, 9), strict=True))
    expected = values[:, :, rows][:, :, :, columns]
    assert np.array_equal(F.interpolate(x, size).numpy(), expected)
    whole = (x * 100).to(facula.int32)
    assert np.array_equal(F.interpolate(whole.to(facula.uint8), size).shape, expected.shape)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "nearest"},
        {"mode": "nearest-exact"},
        {"mode": "bilinear"},
        {"mode": "bilinear", "align_corners": True},
        {"mode": "bicubic"},
        {"mode": "bilinear", "antialias": True},
        {"mode": "bicubic", "antialias": True},
        {"mode": "area"},
    ],
)
def test_interpolation_keeps_constants_and_transposes(options):
    ones = facula.ones(1, 2, 7, 9, dtype=facula.float64)
    for size in ((5, 20), (14, 4)):
        close(F.interpolate(ones, size, **options), np.ones((1, 2, *size)))
        transpose_holds(lambda t, s=size: F.interpolate(t, s, **options), (2, 3, 7, 9))


def test_unfold_and_fold():
    x, values = make((2, 3, 6, 7))
    got = F.unfold(x, (3, 2), padding=(1, 0), stride=(2, 1)).numpy()
    padded = np.pad(values, ((0, 0), (0, 0), (1, 1), (0, 0)))
    expected = np.stack(
        [
            padded[:, c, i : i + 5 : 2, j : j + 6].reshape(2, -1)
            for c in range(3)
            for i in range(3)
            for j in range(2)
        ],
        1,
    )
    assert np.array_equal(got, expected)
    transpose_holds(lambda t: F.unfold(t, (3, 2), (1, 2), (1, 0), (2, 1)), (2, 3, 6, 7))
    transpose_holds(lambda t: F.fold(t, (6, 7), 3), (2, 27, 20))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample(mode, padding):
    x = make((2, 3, 5, 6))[0]
    identity = facula.tensor([[[1.0, 0, 0], [0, 1, 0]]] * 2, dtype=facula.float64)
    grid = F.affine_grid(identity, (2, 3, 5, 6), align_corners=True)
    close(F.grid_sample(x, grid, mode, padding, True), x.numpy(), steps=256)
    places = make((2, 4, 3, 2), seed=5)[0] * 0.9
    transpose_holds(lambda t: F.grid_sample(t, places, mode, padding, False), (2, 3, 5, 6))
    leaf, step = places.clone().requires_grad_(), make((2, 4, 3, 2), seed=6)[0]
    F.grid_sample(x, leaf, mode, padding, False).sum().backward()
    ends = [
        float(F.grid_sample(x, places + a * step, mode, padding, False).sum())
        for a in (1e-6, -1e-6)
    ]
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(float((leaf.grad * step).sum()), rel=1e-5)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "space"), [("bilinear", 2), ("bicubic", 2), ("bilinear", 3)])
def test_grid_sample_second_derivative(mode, space, padding, align):
    x = make((1, 2, *(3, 4, 3)[:space]))[0].requires_grad_()
    # not near a border or between two cells, where there is no second derivative
    places = facula.linspace(-0.83, 1.17, 2 * space * 2, dtype=facula.float64)
    places = places.reshape((1, *(2, 2, 1)[:space], space)).requires_grad_()
    assert facula.autograd.gradgradcheck(
        lambda image, grid: F.grid_sample(image, grid, mode, padding, align), (x, places)
    )


def test_pixel_rearrangement():
    x, values = make((2, 8, 3, 4))
    shuffled = F.pixel_shuffle(x, 2)
    expected = values.reshape(2, 2, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 8)
    assert np.array_equal(shuffled.numpy(), expected)
    assert np.array_equal(F.pixel_unshuffle(shuffled, 2).numpy(), values)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: F.max_pool2d(x, 3, padding=2), RuntimeError, "at most half"),
        (lambda x: F.max_pool2d(x, 9), RuntimeError, "too small"),
        (
            lambda x: F.avg_pool2d(x, 2, divisor_override=0),
            RuntimeError,
            "divisor must be not zero",
        ),
        (lambda x: F.interpolate(x), ValueError, "either size or scale_factor"),
        (lambda x: F.interpolate(x, 2, mode="linear"), NotImplementedError, "a mode for 4D"),
        (lambda x: F.interpolate(x, 2, align_corners=True), ValueError, "align_corners option"),
        (lambda x: F.unfold(x, 9), RuntimeError, "must be at least one"),
        (lambda x: F.grid_sample(x, x), RuntimeError, "size 2 in last dimension"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(facula.zeros(1, 2, 4, 5))
