"""`_native_multi_head_attention`: beside NumPy, and of nested tensors beside their entries."""

import numpy as np
import pytest

import facula


def attended(query, key, value, heads, parameters, mask):
    """The same in NumPy, head by head."""
    qkv_weight, qkv_bias, out_weight, out_bias = (p.numpy() for p in parameters)
    size = query.shape[-1]
    parts = [
        x.numpy() @ qkv_weight[i * size : (i + 1) * size].T + qkv_bias[i * size : (i + 1) * size]
        for i, x in enumerate((query, key, value))
    ]
    wide = size // heads
    results, weights = (
        np.zeros(query.shape),
        np.zeros((len(query), heads, query.shape[1], key.shape[1])),
    )
    for b in range(len(query)):
        for h in range(heads):
            q, k, v = (p[b, :, h * wide : (h + 1) * wide] for p in parts)
            scores = q @ k.T / np.sqrt(wide)
            if mask is not None:
                scores = np.where(mask(b, h), -np.inf, scores)
            raised = np.exp(scores - scores.max(-1, keepdims=True))
            weights[b, h] = raised / raised.sum(-1, keepdims=True)
            results[b, :, h * wide : (h + 1) * wide] = weights[b, h] @ v
    return results @ out_weight.T + out_bias, weights


def parameters_of(size):
    shapes = ((3 * size, size), (3 * size,), (size, size), (size,))
    return [facula.randn(*shape, dtype=facula.float64) for shape in shapes]


@pytest.mark.parametrize("kind", [None, 0, 1, 2])
def test_values_and_weights(kind):
    query, key = facula.randn(2, 3, 8).double(), facula.randn(2, 4, 8).double()
    value = facula.randn(2, 4, 8).double()
    parameters = parameters_of(8)
    shape = {None: None, 0: (3, 4), 1: (2, 4), 2: (2, 2, 3, 4)}[kind]
    left_out = None if shape is None else facula.rand(*shape) < 0.4
    if left_out is not None:
        left_out[..., 0] = False
    rows = {
        None: None,
        0: lambda b, h: left_out.numpy(),
        1: lambda b, h: left_out[b].numpy()[None],
        2: lambda b, h: left_out[b, h].numpy(),
    }[kind]
    wanted, weights = attended(query, key, value, 2, parameters, rows)

    def call(**words):
        return facula._native_multi_head_attention(
            query, key, value, 8, 2, *parameters, left_out, mask_type=kind, **words
        )

    result, averaged = call()
    np.testing.assert_allclose(result.numpy(), wanted, atol=1e-12)
    np.testing.assert_allclose(averaged.numpy(), weights.mean(1), atol=1e-12)
    np.testing.assert_allclose(call(average_attn_weights=False)[1].numpy(), weights, atol=1e-12)
    assert call(need_weights=False)[1] is None


def test_entries_of_nested_tensors_attend_to_themselves():
    rows = [facula.randn(n, 8).double() for n in (3, 1, 4)]
    parameters = parameters_of(8)
    batch = facula.nested.nested_tensor(rows)
    result, _ = facula._native_multi_head_attention(batch, batch, batch, 8, 2, *parameters)
    for entry, row in zip(result.unbind(), rows, strict=True):
        alone, _ = attended(row[None], row[None], row[None], 2, parameters, None)
        np.testing.assert_allclose(entry.numpy(), alone[0], atol=1e-12)


def test_sizes_are_checked():
    x = facula.randn(1, 2, 8).double()
    with pytest.raises(RuntimeError, match="3 heads divide"):
        facula._native_multi_head_attention(x, x, x, 8, 3, *parameters_of(8))
