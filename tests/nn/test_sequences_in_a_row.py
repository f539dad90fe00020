"""Attention over sequences in a row: each query by itself, in float64 with NumPy."""

import numpy as np
import pytest

import facula
from facula.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

LENGTHS = [(3, 5), (1, 1), (4, 4), (2, 7)]


def expected(q, k, v, window, scale):
    out, lse = np.zeros(q.shape), np.full((q.shape[1], q.shape[0]), -np.inf)
    a = b = 0
    for n, m in LENGTHS:
        for i in range(n):
            place = i + m - n
            low = 0 if window[0] < 0 else max(0, place - window[0])
            high = m if window[1] < 0 else min(m, place + window[1] + 1)
            for head in range(q.shape[1]):
                keys = range(b + low, b + high)
                scores = np.array([q[a + i, head] @ k[j, head] * scale for j in keys])
                if len(scores):
                    weights = np.exp(scores - scores.max())
                    lse[head, a + i] = np.log(weights.sum()) + scores.max()
                    out[a + i, head] = weights @ v[b + low : b + high, head] / weights.sum()
        a, b = a + n, b + m
    return out, lse


def starts(which):
    return facula.tensor(np.cumsum([0] + [pair[which] for pair in LENGTHS]), dtype=facula.int32)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1), (0, 2)])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("groups", [1, 2])
def test_every_query_by_itself(window, scale, groups):
    random = np.random.default_rng(0)
    q = random.standard_normal((10, 4, 8))
    k, v = (random.standard_normal((17, 4 // groups, 8)) for _ in range(2))
    want, wanted_lse = expected(
        q, k.repeat(groups, 1), v.repeat(groups, 1), window, scale or 8**-0.5
    )
    tensors = [facula.tensor(x, dtype=facula.float32) for x in (q, k, v)]
    keys = dict(window_size=window, scale=scale, enable_gqa=groups > 1)
    args = (*tensors, starts(0), starts(1), 4, 7)
    out, lse = varlen_attn(*args, return_aux=AuxRequest(lse=True), **keys)
    np.testing.assert_allclose(out.numpy(), want, atol=1e-5)
    np.testing.assert_allclose(lse.numpy(), wanted_lse, atol=1e-5)
    into = facula.empty(10, 4, 8)
    assert varlen_attn_out(into, *args, **keys) is into and facula.equal(into, out)
    tensors[0].requires_grad_()
    varlen_attn(*args, **keys).sum().backward()
    assert tensors[0].grad.isfinite().all()


def test_keys_in_pages_and_lengths_that_count():
    q, k, v = facula.randn(10, 2, 8), facula.randn(17, 2, 8), facula.randn(17, 2, 8)
    used = [pair[1] for pair in LENGTHS]
    want = varlen_attn(q, k, v, starts(0), starts(1), 4, 7)
    pages, table, at = facula.zeros(12, 2, 2, 8), facula.zeros(4, 4, dtype=facula.int32), 0
    values, number = facula.zeros(12, 2, 2, 8), 0
    for row, length in enumerate(used):
        for place in range(length):
            if place % 2 == 0:
                table[row, place // 2] = number
                number += 1
            pages[number - 1, place % 2], values[number - 1, place % 2] = k[at], v[at]
            at += 1
    counted = facula.tensor(used, dtype=facula.int32)
    got = varlen_attn(q, pages, values, starts(0), None, 4, 7, seqused_k=counted, block_table=table)
    assert facula.allclose(got, want, atol=1e-6)
    less = varlen_attn(
        q, k, v, starts(0), starts(1), 4, 7, seqused_k=facula.ones(4, dtype=facula.int32)
    )
    assert facula.allclose(less[3], v[5], atol=1e-6)


def test_refusals():
    q = facula.ones(2, 4, 8)
    begin = facula.tensor([0, 2])
    with pytest.raises(ValueError, match="as many heads of keys.*got 4 and 2\nhint: "):
        varlen_attn(q, q[:, :2], q[:, :2], begin, begin, 2, 2)
    with pytest.raises(ValueError, match="multiple"):
        varlen_attn(q, q[:, :3], q[:, :3], begin, begin, 2, 2, enable_gqa=True)
    with pytest.raises(ValueError, match="neither cu_seq_k nor seqused_k"):
        varlen_attn(q, q, q, begin, None, 2, 2)
