"""Attention against its formula in float64: values, gradients, masks, dropout, second order.

Takes: the public operator, and with it the kernel library of this processor.
Gives: sizes that fill tiles and that do not, every dtype, shared heads, strided inputs.
Keeps true: references are written out in NumPy; tolerances follow from the dtype.
"""

import math

import numpy as np
import pytest

import facula
from facula import core
from facula.nn import functional as F
from facula.nn.attention import SDPBackend, sdpa_kernel

EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# batch, heads, key heads, queries, keys, depth, value depth
SHAPES = [
    (2, 3, 3, 64, 64, 64, 64),
    (1, 2, 2, 100, 230, 33, 17),
    (2, 4, 2, 5, 77, 16, 24),
    (2, 4, 1, 1, 200, 64, 64),
    (1, 1, 1, 3, 1, 1, 1),
    (1, 2, 1, 150, 70, 128, 128),
    (2, 2, 2, 7, 64, 12, 5),
]
MASKS = ["none", "bool", "full", "key"]


def make(shape, name, seed):
    """A tensor of the dtype, and exactly its values in float64."""
    values = np.random.default_rng(seed).standard_normal(shape)
    tensor = facula.from_numpy(values).to(getattr(facula, name))
    return tensor, tensor.to(facula.float64).numpy()


def mask_of(kind, batch, heads, queries, keys, seed=9):
    """A mask as (array or None, what it adds to the scores)."""
    rng = np.random.default_rng(seed)
    if kind == "none":
        return None, 0.0
    if kind == "full":
        added = rng.standard_normal((1, heads, queries, keys)).astype("float32")
        return added, added.astype("float64")
    shape = (batch, 1, queries, keys) if kind == "bool" else (batch, 1, 1, keys)
    allowed = rng.random(shape) > 0.6
    return allowed, np.where(allowed, 0.0, -np.inf)


def reference(q, k, v, added, causal, scale, grad=None):
    """Output, and with `grad` three gradients too; zeros where nothing is allowed."""
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = q @ keys.swapaxes(-1, -2) * scale + added
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    out = weights @ values
    if grad is None:
        return out
    to_weights = grad @ values.swapaxes(-1, -2)
    to_scores = weights * (to_weights - (weights * to_weights).sum(-1, keepdims=True)) * scale
    shape = (k.shape[0], k.shape[1], group, k.shape[2], -1)
    to_key = (to_scores.swapaxes(-1, -2) @ q).reshape(shape).sum(2)
    to_value = (weights.swapaxes(-1, -2) @ grad).reshape(shape).sum(2)
    return out, to_scores @ keys, to_key, to_value


def close(got, expected, name, steps):
    """Within `steps` roundings of the dtype, relative to the largest value."""
    error = np.abs(got.detach().to(facula.float64).numpy() - expected)
    limit = steps * EPS[name] * max(1.0, np.abs(expected).max(initial=0))
    assert (error <= limit).all(), (error.max(initial=0), limit)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", EPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(shape, name, kind, causal):
    batch, heads, key_heads, queries, keys, depth, value_depth = shape
    q, q64 = make((batch, heads, queries, depth), name, 1)
    k, k64 = make((batch, key_heads, keys, depth), name, 2)
    v, v64 = make((batch, key_heads, keys, value_depth), name, 3)
    grad, grad64 = make((batch, heads, queries, value_depth), name, 4)
    mask, added = mask_of(kind, batch, heads, queries, keys)
    mask = None if mask is None else facula.from_numpy(mask)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(
        *leaves, attn_mask=mask, is_causal=causal, enable_gqa=heads != key_heads
    )
    out.backward(grad)
    expected = reference(q64, k64, v64, added, causal, 1 / math.sqrt(depth), grad64)
    close(out, expected[0], name, 8)
    for leaf, gradient in zip(leaves, expected[1:], strict=True):
        close(leaf.grad, gradient, name, 64)


def test_strides_and_leading_dimensions():
    x, x64 = make((2, 70, 3, 16), "float32", 5)
    rows = x.transpose(1, 2)
    out = F.scaled_dot_product_attention(rows, rows, rows)
    close(out, reference(*[x64.swapaxes(1, 2)] * 3, 0.0, False, 0.25), "float32", 8)
    assert out.stride() == rows.stride()
    flat = facula.from_numpy(x64)
    five = flat.reshape((1, 2, 70, 3, 16)).transpose(2, 3)
    got = F.scaled_dot_product_attention(five, five, five)
    expected = reference(*[x64.swapaxes(1, 2)] * 3, 0.0, False, 0.25)
    close(got.reshape(expected.shape), expected, "float64", 8)
    two = flat[0, :, 0]
    single = x64[:1, :, :1].swapaxes(1, 2)
    got = F.scaled_dot_product_attention(two, two, two)
    close(got, reference(*[single] * 3, 0.0, False, 0.25)[0, 0], "float64", 8)
    turned = facula.from_numpy(np.ascontiguousarray(single.swapaxes(-1, -2))).transpose(-1, -2)
    got = F.scaled_dot_product_attention(turned, turned, turned)
    close(got, reference(*[single] * 3, 0.0, False, 0.25), "float64", 8)


@pytest.mark.parametrize("scale", [-0.7, 0.0, 30.0])
def test_any_scale(scale):
    q, q64 = make((1, 2, 20, 8), "float32", 1)
    k, k64 = make((1, 2, 300, 8), "float32", 2)
    got = F.scaled_dot_product_attention(q, k, k, scale=scale)
    close(got, reference(q64, k64, k64, 0.0, False, scale), "float32", 8 + 64 * abs(scale))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("growth", [1, 40])
@pytest.mark.parametrize("name", EPS)
def test_late_keys_that_outweigh_the_first(name, growth, causal):
    q, q64 = make((1, 2, 70, 8), name, 1)
    k, _ = make((1, 2, 1000, 8), name, 2)
    v, v64 = make((1, 2, 1000, 24), name, 3)
    k[..., 500:, :] *= growth
    k64 = k.to(facula.float64).numpy()
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    expected = reference(q64, k64, v64, 0.0, causal, 1 / math.sqrt(8))
    close(out, expected, name, 8 * growth)  # a score's rounding is relative to its size


@pytest.mark.parametrize("name", EPS)
def test_late_key_that_outweighs_all_others(name):
    """Beyond what 2**127 times the weights of the first keys could hold."""
    q = facula.ones(1, 1, 70, 8, dtype=getattr(facula, name))
    k, v = facula.ones_like(q).repeat(1, 1, 10, 1), make((1, 1, 700, 24), name, 3)[0]
    k[..., 600, :] = 1000
    out = F.scaled_dot_product_attention(q, k, v)
    close(out, v[..., 600:601, :].expand(1, 1, 70, 24).to(facula.float64).numpy(), name, 2)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_late_key_that_is_not_finite(value):
    """A key of infinities or NaN beyond the first ones acts as one among the first."""
    q, k, v = (make((1, 1, 64, 8), "float32", 1)[0].expand(1, 1, 64, 8).abs() for _ in range(3))
    k, v = k.repeat(1, 1, 4, 1), v.repeat(1, 1, 4, 1)
    k[..., 200, :] = value
    out = F.scaled_dot_product_attention(q, k, v)
    swapped = k.clone()
    swapped[..., 3, :], swapped[..., 200, :] = k[..., 200, :], k[..., 3, :]
    values = v.clone()
    values[..., 3, :], values[..., 200, :] = v[..., 200, :], v[..., 3, :]
    facula.testing.assert_close(
        out, F.scaled_dot_product_attention(q, swapped, values), equal_nan=True
    )
    assert bool(out.isnan().all()) == (value != -math.inf)


def test_no_keys_and_not_a_number():
    q, _ = make((1, 1, 4, 4), "float32", 1)
    none = facula.zeros(1, 1, 0, 4)
    assert (F.scaled_dot_product_attention(q, none, none) == 0).all()
    x = q.numpy().copy()
    x[0, 0, 2, 1] = np.nan
    got = F.scaled_dot_product_attention(facula.from_numpy(x), q, q).numpy()
    assert np.isnan(got[0, 0, 2]).all() and not np.isnan(got[0, 0, [0, 1, 3]]).any()


@pytest.mark.parametrize("name", ["MATH", "FLASH_ATTENTION"])
def test_queries_whose_scores_are_all_minus_infinity(name):
    """They allow no key, with or without a mask; their neighbours do not change."""
    values = np.abs(np.random.default_rng(3).standard_normal((3, 1, 2, 70, 8)).astype("float32"))
    values[0, 0, 1, 5] = -np.inf
    q, k, v = (facula.from_numpy(x) for x in values)
    with sdpa_kernel(getattr(SDPBackend, name)):
        out = F.scaled_dot_product_attention(q, k, v)
        masked = F.scaled_dot_product_attention(q, k, v, facula.ones(70, 70, dtype=facula.bool))
    values[0, 0, 1, 5] = 0
    expected = reference(*values.astype("float64"), 0.0, False, 8**-0.5)
    expected[0, 1, 5] = 0
    close(out, expected, "float32", 16)
    close(masked, expected, "float32", 16)


def test_threads_do_not_change_results():
    leaves = [make((1, 2, 300, 32), "float32", seed)[0].requires_grad_() for seed in range(3)]
    before, results = facula.get_num_threads(), []
    try:
        for threads in (1, 2):
            core.set_num_threads(threads)
            facula.manual_seed(1)
            results.append(F.scaled_dot_product_attention(*leaves, dropout_p=0.3, is_causal=True))
    finally:
        core.set_num_threads(before)
    assert (results[0] == results[1]).all()


def test_dropout():
    n, rate = 400, 0.25
    zero, one = facula.zeros(1, 1, n, 4), facula.ones(1, 1, n, 4)
    facula.manual_seed(0)
    out = F.scaled_dot_product_attention(zero, zero, one, dropout_p=rate).numpy()
    again = F.scaled_dot_product_attention(zero, zero, one, dropout_p=rate).numpy()
    facula.manual_seed(0)
    same = F.scaled_dot_product_attention(zero, zero, one, dropout_p=rate).numpy()
    assert abs(out.mean() - 1) < 0.01
    assert abs(out.std() - math.sqrt(rate / (1 - rate) / n)) < 0.01
    assert not np.array_equal(out, again) and np.array_equal(out, same)
    nothing = F.scaled_dot_product_attention(zero, zero, one, dropout_p=1.0)
    assert (nothing == 0).all()


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_gradients_and_second_order_by_differences(rate):
    base = [make((1, 2, 6, 4), "float64", seed)[0] for seed in range(3)]
    weight = make((1, 2, 6, 4), "float64", 5)[0]
    ways = [make((1, 2, 6, 4), "float64", 6 + seed)[0] for seed in range(3)]
    steps = [make((1, 2, 6, 4), "float64", 16 + seed)[0] for seed in range(3)]

    def value(amount):
        facula.manual_seed(3)
        leaves = [(x + amount * s).requires_grad_() for x, s in zip(base, steps, strict=True)]
        out = F.scaled_dot_product_attention(*leaves, dropout_p=rate, is_causal=True)
        first = facula.autograd.grad(out, leaves, weight, create_graph=True)
        total = sum(((g * w).sum() for g, w in zip(first, ways, strict=True)), facula.zeros(()))
        return (out * weight).sum(), first, total, leaves

    plain, first, total, leaves = value(0.0)
    second = facula.autograd.grad(total, leaves)
    high, low = value(1e-5), value(-1e-5)
    slope = sum(float((g * s).sum()) for g, s in zip(first, steps, strict=True))
    assert abs(float(high[0] - low[0]) / 2e-5 - slope) < 1e-7 * max(1, abs(slope))
    slope = sum(float((g * s).sum()) for g, s in zip(second, steps, strict=True))
    assert abs(float(high[2] - low[2]) / 2e-5 - slope) < 1e-6 * max(1, abs(slope))


def test_gradient_of_an_additive_mask():
    q, k, v = (make((2, 2, 9, 4), "float64", seed)[0] for seed in range(3))
    mask, step = make((9, 9), "float64", 7)[0], make((9, 9), "float64", 8)[0]
    leaf = mask.clone().requires_grad_()
    F.scaled_dot_product_attention(q, k, v, leaf).sum().backward()
    ends = [
        float(F.scaled_dot_product_attention(q, k, v, mask + amount * step).sum())
        for amount in (1e-5, -1e-5)
    ]
    assert abs((ends[0] - ends[1]) / 2e-5 - float((leaf.grad * step).sum())) < 1e-7


@pytest.mark.parametrize(
    ("shapes", "options", "text"),
    [
        (((2, 3, 4, 8), (2, 3, 5, 7), (2, 3, 5, 8)), {}, "same size in the last dimension"),
        (((2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 6, 8)), {}, "same sequence length"),
        (((2, 4, 4, 8), (2, 2, 5, 8), (2, 2, 5, 8)), {}, "must match the size"),
        (((2, 4, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8)), {"enable_gqa": True}, "must divide"),
        (((2, 4, 4, 8),) * 3, {"dropout_p": 1.5}, "between 0 and 1"),
        (((8,),) * 3, {}, "at least 2 dimensional"),
    ],
)
def test_errors(shapes, options, text):
    with pytest.raises(RuntimeError, match=text):
        F.scaled_dot_product_attention(*[facula.zeros(*s) for s in shapes], **options)
