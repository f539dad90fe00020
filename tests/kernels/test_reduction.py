"""Reduction and scan kernels against NumPy, in every layout.

Takes: the kernel library of this processor, through `facula.core.kernel`.
Gives: values in float64 and long double compared by the dtype's own precision; independence of the
number of threads.
Keeps true: tolerances follow from the dtype and from how many blocks are joined, not from what
happens to pass.
"""

import warnings

import numpy as np
import pytest

import facula
from facula import core

# (segments, outer, reduce, inner)
LAYOUTS = [
    (1, 1, 1, 1),
    (1, 5, 7, 1),
    (1, 37, 1000, 1),
    (1, 3, 4096 * 2 + 17, 1),
    (1, 1, 300_001, 1),
    (3, 4, 129, 1),
    (1, 3, 70, 5),
    (4, 2, 33, 65),
    (1, 1, 3000, 300),
    (1, 1, 40_000, 7),
    (2, 3, 5, 1100),
]
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
FLOATS = ["f32", "f64", "f16", "bf16"]


def values(layout, code, seed=0, shift=0.0):
    """Random values and the tensor that holds them: what NumPy computes with is exactly what the
    kernel reads."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(layout) + shift
    if code == "bf16":
        tensor = core.from_numpy(x.astype(np.float32)).to(core.bfloat16)
        return tensor.to(core.float32).numpy().astype(np.float64), tensor
    x = x.astype(DTYPES[code])
    return x.astype(np.float64), core.from_numpy(x)


def eps(code):
    """The distance from 1 to the next value."""
    return {"f32": 2.0**-23, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}[code]


def run(name, code, layout, outputs, inputs, scalars=()):
    segments, outer, reduce, inner = layout
    core.kernel(f"{name}:{code}")((*outputs, *inputs), (outer, reduce, inner, segments), scalars)


def cells(x):
    """`[segments, outer, reduce, inner]` as `[outer, segments * reduce, inner]`."""
    segments, outer, reduce, inner = x.shape
    return x.transpose(1, 0, 2, 3).reshape(outer, segments * reduce, inner)


def as_float(tensor):
    return tensor.to(core.float64).numpy()


ORACLES = {
    "sum": (lambda x: x.sum(1), ()),
    "mean": (lambda x: x.mean(1), ()),
    "norm.1": (lambda x: np.abs(x).sum(1), ()),
    "norm.2": (lambda x: np.sqrt((x * x).sum(1)), ()),
    "norm.p": (lambda x: (np.abs(x) ** 3.0).sum(1) ** (1 / 3), (3.0,)),
    "norm.0": (lambda x: (x != 0).sum(1).astype(float), ()),
    "norm.inf": (lambda x: np.abs(x).max(1), ()),
    "norm.ninf": (lambda x: np.abs(x).min(1), ()),
    "amax": (lambda x: x.max(1), ()),
    "amin": (lambda x: x.min(1), ()),
    "logsumexp": (lambda x: np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1), ()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("name", ORACLES)
def test_reduction(name, code, layout):
    x, tensor = values(layout, code)
    oracle, scalars = ORACLES[name]
    expected = oracle(cells(x.astype(np.longdouble)))
    out = core.empty(expected.shape, dtype=tensor.dtype)
    run(name, code, layout, (out,), (tensor,), scalars)
    # sums: 128 additions of the compute dtype at most before f64 takes over, relative to the sum of
    # magnitudes
    compute = eps("f64" if code == "f64" else "f32")
    scale = np.abs(cells(x)).sum(1) if name == "sum" else np.abs(expected)
    if name == "mean":
        scale = np.abs(cells(x)).mean(1)
    tolerance = 16 * compute * scale + eps(code) * np.abs(expected) + 1e-300
    with np.errstate(over="ignore"):
        limit = np.finfo(np.float16).max if code == "f16" else np.inf
    fits = np.abs(expected) < limit
    assert (np.abs(as_float(out) - expected) <= tolerance)[fits].all()


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout[0] * layout[2] > 1])
@pytest.mark.parametrize("code", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("name", ["var", "std"])
def test_variance(name, code, layout):
    x, tensor = values(layout, code, shift=50.0)
    expected = getattr(cells(x), name)(1, ddof=1)
    out = core.empty(expected.shape, dtype=tensor.dtype)
    run(name, code, layout, (out,), (tensor,), (1.0,))
    compute = eps("f64" if code == "f64" else "f32")
    # a mean of 50 deviations costs as many units in the last place of each difference
    tolerance = (16 * compute * 50 + eps(code)) * np.abs(expected)
    assert (np.abs(as_float(out) - expected) <= tolerance + 1e-12 * (code == "f64")).all()


def test_variance_of_large_mean():
    x = 1e6 + np.arange(100_000, dtype=np.float64) % 7
    out = core.empty((1, 1), dtype=core.float64)
    run("var", "f64", (1, 1, 100_000, 1), (out,), (core.from_numpy(x),), (0.0,))
    assert out.item() == pytest.approx(np.var(x.astype(np.longdouble)), rel=1e-13)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout[0] == 1])
@pytest.mark.parametrize("name", ["max", "min"])
def test_positions(name, layout):
    rng = np.random.default_rng(1)
    x = rng.integers(-20, 20, layout).astype(np.float32)  # many ties
    expected = getattr(cells(x), f"arg{name}")(1)
    value = core.empty(expected.shape, dtype=core.float32)
    place = core.empty(expected.shape, dtype=core.int64)
    tensor = core.from_numpy(x)
    run(f"{name}.dim", "f32", layout, (value, place), (tensor,))
    assert np.array_equal(place.numpy(), expected)
    assert np.array_equal(value.numpy(), getattr(cells(x), name)(1))
    run(f"arg{name}", "f32", layout, (place,), (tensor,))
    assert np.array_equal(place.numpy(), expected)


@pytest.mark.parametrize("layout", [(1, 3, 9001, 1), (1, 2, 300, 9)])
def test_first_nan_wins(layout):
    x = np.zeros(layout, np.float32)
    x[0, 1, 123, 0] = np.nan
    x[0, 1, 200, 0] = np.nan
    x[0, 1, 7, 0] = np.inf
    shape = (layout[1], layout[3])
    value, place = core.empty(shape, dtype=core.float32), core.empty(shape, dtype=core.int64)
    for name in ("max", "min"):
        run(f"{name}.dim", "f32", layout, (value, place), (core.from_numpy(x),))
        assert np.isnan(value.numpy()[1, 0]) and place.numpy()[1, 0] == 123
        assert not np.isnan(value.numpy()[0]).any()


@pytest.mark.parametrize("code", ["i64", "i32", "u8", "b8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_integer_sum(code, layout):
    rng = np.random.default_rng(2)
    kinds = {"i64": np.int64, "i32": np.int32, "u8": np.uint8, "b8": np.bool_}
    low, high = {"b8": (0, 2), "u8": (0, 256)}.get(code, (-(2**30), 2**30))
    x = rng.integers(low, high, layout).astype(kinds[code])
    expected = cells(x).sum(1, dtype=np.int64)
    out = core.empty(expected.shape, dtype=core.int64)
    run("sum", code, layout, (out,), (core.from_numpy(x),))
    assert np.array_equal(out.numpy(), expected)


def test_sum_is_more_accurate_than_pairwise():
    x = np.random.default_rng(3).random(1 << 22, dtype=np.float32)
    exact = x.astype(np.float64).sum()
    out = core.empty((1, 1), dtype=core.float32)
    run("sum", "f32", (1, 1, x.size, 1), (out,), (core.from_numpy(x),))
    assert abs(out.item() - exact) <= max(abs(float(x.sum()) - exact), 2.0**-24 * exact)


def test_infinite_sum_is_infinite():
    for code, kind in (("f32", np.float32), ("f64", np.float64)):
        x = np.ones(10_000, kind)
        x[77] = np.inf
        out = core.from_numpy(np.empty((1, 1), kind))
        run("sum", code, (1, 1, x.size, 1), (out,), (core.from_numpy(x),))
        assert out.item() == np.inf


@pytest.mark.parametrize("name", ["sum", "var", "logsumexp", "norm.2"])
@pytest.mark.parametrize("layout", [(1, 1, 500_000, 1), (1, 1, 20_000, 30), (8, 3, 1000, 1)])
def test_threads_do_not_matter(name, layout):
    _, tensor = values(layout, "f32")
    scalars = (1.0,) if name == "var" else ()
    results = []
    before = core.get_num_threads()
    try:
        for threads in (1, 2, 3):
            core.set_num_threads(threads)
            out = core.empty((layout[1], layout[3]), dtype=core.float32)
            run(name, "f32", layout, (out,), (tensor,), scalars)
            results.append(out.numpy().copy())
    finally:
        core.set_num_threads(before)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_nothing():
    x = core.empty((0,), dtype=core.float32)
    out = core.empty((2, 3), dtype=core.float32)
    for name, expected in (("sum", 0.0), ("prod", 1.0), ("logsumexp", -np.inf)):
        run(name, "f32", (1, 2, 0, 3), (out,), (x,))
        assert (out.numpy() == expected).all()
    run("var", "f32", (1, 2, 0, 3), (out,), (x,), (1.0,))
    assert np.isnan(out.numpy()).all()


SCANS = [(1, 1, 1), (3, 17, 1), (20, 64, 1), (2, 90_001, 1), (9, 9000, 1), (2, 10, 7), (2, 33, 300)]


@pytest.mark.parametrize("shape", SCANS)
@pytest.mark.parametrize("code", FLOATS)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_scan(name, code, shape):
    x, tensor = values(shape, code)
    if name == "cumprod":
        # so close to 1 that the product of thousands of factors stays in the range
        spread = 0.1 / np.sqrt(max(1, shape[1] / 64))
        tensor = (tensor.to(core.float64) * spread + 1).to(tensor.dtype)
        x = as_float(tensor)
    oracle = {"cumsum": np.cumsum, "cumprod": np.cumprod}.get(name)
    expected = oracle(x, 1) if oracle else np.logaddexp.accumulate(x, axis=1)
    out = core.empty(shape, dtype=tensor.dtype)
    core.kernel(f"{name}:{code}")((out, tensor), shape)
    compute = 2.0**-52 if code == "f64" else 2.0**-53 * 4
    steps = np.sqrt(shape[1]) * 8
    scale = np.cumsum(np.abs(x), 1) if name == "cumsum" else np.maximum(np.abs(expected), 1)
    single = 4 * eps("f64" if code == "f64" else "f32") if name == "logcumsumexp" else 0.0
    tolerance = (compute * steps + single) * scale + eps(code) * np.abs(expected)
    fits = np.abs(expected) < (6e4 if code == "f16" else np.inf)
    assert (np.abs(as_float(out) - expected) <= tolerance)[fits].all()


def test_running_log_sum_of_infinities():
    x = np.array([-np.inf, -np.inf, 0.0, -np.inf, 1.0, np.inf, 0.0], np.float32)
    out = facula.from_numpy(x).logcumsumexp(0).numpy()
    expected = [-np.inf, -np.inf, 0, 0, np.log1p(np.e), np.inf, np.inf]
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", SCANS)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extreme(name, shape):
    x = np.random.default_rng(4).integers(-9, 9, shape).astype(np.float32)
    if shape[1] > 10:
        x[0, shape[1] // 2, 0] = np.nan
    expected = (np.maximum if name == "cummax" else np.minimum).accumulate(x, axis=1)
    value, place = core.empty(shape, dtype=core.float32), core.empty(shape, dtype=core.int64)
    core.kernel(f"{name}:f32")((value, place, core.from_numpy(x)), shape)
    assert np.array_equal(value.numpy(), expected, equal_nan=True)
    taken = np.take_along_axis(x, place.numpy(), 1)
    assert np.array_equal(taken, expected, equal_nan=True)
    # the last of equal values: where the element itself ties with the extreme, it is the one named
    ties = (x == expected) | np.isnan(x)
    here = np.broadcast_to(np.arange(shape[1])[None, :, None], shape)
    assert (place.numpy()[ties] == here[ties]).all()


@pytest.mark.parametrize("dims", [None, 0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_operator_on_any_layout(dims, order, keepdim):
    x = np.random.default_rng(5).standard_normal((3, 4, 5)).astype(np.float32)
    lying = np.ascontiguousarray(x.transpose(order))
    tensor = facula.from_numpy(lying).permute(*np.argsort(order).tolist())
    expected = x.astype(np.float64).sum(dims, keepdims=keepdim)
    got = tensor.sum(dims, keepdim)
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(
        tensor.amax(() if dims is None else dims, keepdim).numpy(), x.max(dims, keepdims=keepdim)
    )
    sliced = facula.from_numpy(np.repeat(x, 2, 2))[:, :, ::2]
    np.testing.assert_allclose(sliced.sum(dims, keepdim).numpy(), expected, rtol=0, atol=1e-5)


def test_gradients():
    rng = np.random.default_rng(6)
    x = facula.from_numpy(rng.standard_normal((3, 4)))
    checks = {
        "sum": lambda t: t.sum(1),
        "mean": lambda t: t.mean((0, 1)),
        "prod": lambda t: t.prod(1),
        "var": lambda t: t.var(1),
        "std": lambda t: t.std(0, keepdim=True),
        "logsumexp": lambda t: t.logsumexp(1),
        "norm2": lambda t: facula.norm(t, 2, 1),
        "norm3": lambda t: facula.norm(t, 3, 1),
        "amax": lambda t: t.amax(1),
        "max": lambda t: t.max(1).values,
        "cumsum": lambda t: t.cumsum(1),
        "cumprod": lambda t: t.cumprod(1),
        "logcumsumexp": lambda t: t.logcumsumexp(1),
        "cummax": lambda t: t.cummax(1).values,
    }
    for name, function in checks.items():
        compare_gradient(function, x, name)
    with_zero = x.clone()
    with_zero[0, 1] = 0
    with_zero[1, 0] = with_zero[1, 3] = 0
    compare_gradient(checks["prod"], with_zero, "prod with zeros")
    compare_gradient(checks["cumprod"], with_zero, "cumprod with zeros")


def compare_gradient(function, x, name):
    """Reverse mode against central differences, in float64."""
    leaf = x.clone().requires_grad_()
    out = function(leaf)
    weight = facula.from_numpy(np.random.default_rng(7).standard_normal(tuple(out.shape)))
    (out * weight).sum().backward()
    numeric = np.zeros(tuple(x.shape))
    step = 1e-6
    for index in np.ndindex(*numeric.shape):
        moved = []
        for sign in (1, -1):
            shifted = x.numpy().copy()
            shifted[index] += sign * step
            moved.append(float((function(facula.from_numpy(shifted)) * weight).sum()))
        numeric[index] = (moved[0] - moved[1]) / (2 * step)
    np.testing.assert_allclose(leaf.grad.numpy(), numeric, rtol=1e-6, atol=1e-7, err_msg=name)


def test_errors():
    x = facula.zeros(3)
    with pytest.raises(IndexError, match=r"\[sum\] Dimension out of range"):
        x.sum(1)
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        x.to(facula.int64).mean()
    with pytest.raises(IndexError, match="non-zero size"):
        facula.zeros(0, 3).amax(0)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        facula.zeros(2, 3).sum((0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        facula.zeros(2, 3).sum()
