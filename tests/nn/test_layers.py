"""Layers against NumPy, and against each other where two ways lead to the same."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
)


def close(a, b, tolerance=1e-5):
    a = a.detach().numpy() if isinstance(a, facula.Tensor) else np.asarray(a)
    b = b.detach().numpy() if isinstance(b, facula.Tensor) else np.asarray(b)
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_reference(x, weights):
    w_ih, w_hh, b_ih, b_hh = weights
    size = w_hh.shape[1]
    h = c = np.zeros((x.shape[1], size))
    outputs = []
    for step in x:
        i, f, g, o = np.split(step @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs), h, c


def gru_reference(x, weights):
    w_ih, w_hh, b_ih, b_hh = weights
    h = np.zeros((x.shape[1], w_hh.shape[1]))
    outputs = []
    for step in x:
        ri, zi, ni = np.split(step @ w_ih.T + b_ih, 3, -1)
        rh, zh, nh = np.split(h @ w_hh.T + b_hh, 3, -1)
        z = sigmoid(zi + zh)
        n = np.tanh(ni + sigmoid(ri + rh) * nh)
        h = (1 - z) * n + z * h
        outputs.append(h)
    return np.stack(outputs), h


def parameters(module):
    return [p.detach().numpy() for p in module.parameters()]


def test_lstm_against_numpy():
    module = nn.LSTM(3, 4).double()
    x = facula.randn(5, 2, 3, dtype=facula.float64)
    out, (h, c) = module(x)
    expected, h_ref, c_ref = lstm_reference(x.numpy(), parameters(module))
    close(out, expected, 1e-10)
    close(h[0], h_ref, 1e-10)
    close(c[0], c_ref, 1e-10)


def test_gru_against_numpy():
    module = nn.GRU(3, 4).double()
    x = facula.randn(5, 2, 3, dtype=facula.float64)
    out, h = module(x)
    expected, h_ref = gru_reference(x.numpy(), parameters(module))
    close(out, expected, 1e-10)
    close(h[0], h_ref, 1e-10)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_equals_each_sequence_alone(kind):
    module = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True).double()
    lengths = [2, 5, 3]
    sequences = [facula.randn(n, 3, dtype=facula.float64) for n in lengths]
    packed, state = module(pack_sequence(sequences, enforce_sorted=False))
    final = state[0] if kind == "LSTM" else state
    for i, (sequence, out) in enumerate(zip(sequences, unpack_sequence(packed), strict=True)):
        alone, alone_state = module(sequence)
        close(out, alone, 1e-10)
        close(final[:, i], alone_state[0] if kind == "LSTM" else alone_state, 1e-10)


def test_packed_gradients_equal_those_alone():
    module = nn.LSTM(3, 4, bidirectional=True).double()
    sequences = [facula.randn(n, 3, dtype=facula.float64) for n in (4, 2)]
    packed, _ = module(pack_sequence(sequences))
    packed.data.pow(2).sum().backward()
    together = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    sum(module(s)[0].pow(2).sum() for s in sequences).backward()
    for a, p in zip(together, module.parameters(), strict=True):
        close(a, p.grad, 1e-9)


def test_batch_first_and_unbatched():
    module = nn.GRU(3, 4, batch_first=True)
    x = facula.randn(2, 5, 3)
    out, _ = module(x)
    close(out[0], module(x[0])[0])


def test_cells_follow_the_layer():
    layer, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
    for mine, theirs in zip(cell.parameters(), layer.parameters(), strict=True):
        mine.data = theirs.data
    x = facula.randn(3, 2, 3)
    state = None
    for step in x:
        state = cell(step, state)
    close(state[0], layer(x)[1][0][0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.LSTM(3, 0), ValueError, "greater than zero"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
        (lambda: nn.LSTM(3, 4)(facula.ones(2, 2, 5)), RuntimeError, "input_size"),
        (
            lambda: nn.LSTM(3, 4)(facula.ones(2, 2, 3), (facula.ones(1, 3, 4),) * 2),
            RuntimeError,
            r"Expected hidden\[0\] size",
        ),
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "divisible by groups"),
        (lambda: nn.Dropout(2.0), ValueError, "between 0 and 1"),
        (lambda: nn.MultiheadAttention(5, 2), AssertionError, "divisible"),
        (lambda: nn.BatchNorm2d(3)(facula.ones(2, 3)), ValueError, "expected 4D"),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_packing_round_trip():
    sequences = [facula.arange(n).float() for n in (3, 1, 2)]
    padded = pad_sequence(sequences, batch_first=True, padding_value=-1.0)
    packed = pack_padded_sequence(padded, [3, 1, 2], batch_first=True, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    again, lengths = pad_packed_sequence(packed, batch_first=True, padding_value=-1.0)
    close(again, padded)
    assert lengths.tolist() == [3, 1, 2]
    left = pad_sequence(sequences, batch_first=True, padding_side="left")
    assert left[1].tolist() == [0.0, 0.0, 0.0]


def attention_reference(module, q, k, v, mask=None):
    w = {n: p.detach().numpy() for n, p in module.named_parameters()}
    wq, wk, wv = np.split(w["in_proj_weight"], 3)
    bq, bk, bv = np.split(w["in_proj_bias"], 3)
    heads, size = module.num_heads, module.head_dim

    def split(x):
        n, t, _ = x.shape
        return x.reshape(n, t, heads, size).transpose(0, 2, 1, 3)

    queries, keys, values = split(q @ wq.T + bq), split(k @ wk.T + bk), split(v @ wv.T + bv)
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(size)
    if mask is not None:
        scores = np.where(mask, -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = (weights @ values).transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[1], -1)
    return out @ w["out_proj.weight"].T + w["out_proj.bias"], weights.mean(1)


def test_attention_against_numpy():
    module = nn.MultiheadAttention(8, 2, batch_first=True).double()
    q = facula.randn(2, 3, 8, dtype=facula.float64)
    k = facula.randn(2, 5, 8, dtype=facula.float64)
    padding = facula.tensor([[False] * 5, [False, False, False, True, True]])
    out, weights = module(q, k, k, key_padding_mask=padding)
    expected, expected_weights = attention_reference(
        module, q.numpy(), k.numpy(), k.numpy(), padding.numpy()[:, None, None]
    )
    close(out, expected, 1e-9)
    close(weights, expected_weights, 1e-9)
    close(module(q, k, k, key_padding_mask=padding, need_weights=False)[0], expected, 1e-9)


def test_encoder_fast_path_gives_the_same():
    from facula.nn import attention_fast_path as fast

    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    x = facula.randn(3, 4, 8)
    padding = facula.tensor([[False] * 4, [False, False, True, True], [False, False, False, True]])
    before = fast.fastpath_count()
    with facula.no_grad():
        quick = encoder(x, src_key_padding_mask=padding)
    assert fast.fastpath_count() == before + 2
    fast.set_fastpath_enabled(False)
    try:
        with facula.no_grad():
            slow = encoder(x, src_key_padding_mask=padding)
    finally:
        fast.set_fastpath_enabled(True)
    keep = ~padding
    close(quick[keep], slow[keep])
    assert float(quick[padding].abs().max()) == 0


def test_batch_norm_statistics():
    module = nn.BatchNorm1d(3, momentum=None)
    batches = [facula.randn(8, 3) for _ in range(4)]
    for batch in batches:
        module(batch)
    mean = np.mean([b.numpy().mean(0) for b in batches], 0)
    close(module.running_mean, mean)
    assert int(module.num_batches_tracked) == 4
    module.eval()
    x = facula.randn(2, 3)
    expected = (x.numpy() - mean) / np.sqrt(module.running_var.numpy() + 1e-5)
    close(module(x), expected)


def test_adaptive_log_softmax_sums_to_one():
    module = nn.AdaptiveLogSoftmaxWithLoss(32, 12, [4, 8])
    x = facula.randn(5, 32)
    log_prob = module.log_prob(x)
    close(log_prob.exp().sum(1), np.ones(5))
    target = facula.tensor([0, 3, 5, 9, 11])
    output, loss = module(x, target)
    close(output, log_prob.gather(1, target.unsqueeze(1)).squeeze(1))
    close(loss, -output.mean())
    assert module.predict(x).tolist() == log_prob.argmax(1).tolist()


def test_linear_cross_entropy_in_chunks():
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    whole, parts = nn.LinearCrossEntropyLoss(4, 6), nn.LinearCrossEntropyLoss(4, 6, options=options)
    parts.load_state_dict(whole.state_dict())
    x, target = facula.randn(5, 4), facula.tensor([0, 1, 5, -100, 2])
    a, b = whole(x, target), parts(x, target)
    close(a, b)
    a.backward()
    b.backward()
    close(whole.linear.weight.grad, parts.linear.weight.grad)


def test_transposed_convolution_output_size():
    module = nn.ConvTranspose2d(2, 3, 3, stride=2)
    assert tuple(module(facula.ones(1, 2, 4, 4), output_size=[10, 10]).shape) == (1, 3, 10, 10)
    with pytest.raises(ValueError, match="output_size"):
        module(facula.ones(1, 2, 4, 4), output_size=[20, 20])


def test_initial_values():
    w = facula.empty(64, 128)
    bound = np.sqrt(6 / (64 + 128))
    nn.init.xavier_uniform_(w)
    assert float(w.abs().max()) <= bound
    nn.init.kaiming_normal_(w, nonlinearity="relu")
    assert abs(float(w.std()) - np.sqrt(2 / 128)) < 0.01
    nn.init.trunc_normal_(w, std=1.0, a=-1.0, b=1.0)
    assert float(w.abs().max()) <= 1.0
    nn.init.eye_(w)
    assert float(w.sum()) == 64
    kernel = nn.init.dirac_(facula.empty(3, 3, 3))
    x = facula.randn(1, 3, 7)
    close(nn.functional.conv1d(x, kernel, padding=1), x)
    with pytest.raises(ValueError, match="fewer than 2"):
        nn.init.xavier_normal_(facula.empty(3))
    assert nn.init.calculate_gain("tanh") == 5 / 3
