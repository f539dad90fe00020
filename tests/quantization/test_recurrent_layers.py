"""Recurrent layers with weights of few bits: against formulas in float64 over the numbers of their weights."""

import io

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization as Q
from facula.ao.nn.quantized import dynamic as nnqd


@pytest.fixture
def numbers():
    return np.random.default_rng(5)


def _logistic(x):
    return 1 / (1 + np.exp(-x))


def _levels(x):
    """Numbers by the 128 levels of their range, as dynamic layers quantize them."""
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    if low == high:
        return x
    step = np.float32((high - low) / 127)
    zero = np.clip(np.rint(-low / step), 0, 127)
    return (np.clip(np.rint(x / step) + zero, 0, 127) - zero) * step


def _lstm(x, weights, biases, h, c):
    """One layer in one direction, [steps, batch, features]."""
    wi, wh = (
        weights[f"weight_{w}_l0"].dequantize().numpy().astype("float64") for w in ("ih", "hh")
    )
    bi, bh = (biases[f"bias_{w}_l0"].numpy().astype("float64") for w in ("ih", "hh"))
    out = []
    of_x = _levels(x) @ wi.T + bi
    for gates in of_x:
        i, f, g, o = np.split(gates + _levels(h) @ wh.T + bh, 4, -1)
        c = _logistic(f) * c + _logistic(i) * np.tanh(g)
        h = _logistic(o) * np.tanh(c)
        out.append(h)
    return np.stack(out), h, c


def test_lstm_is_its_formula_over_levels(numbers):
    layer = Q.quantize_dynamic(nn.Sequential(nn.LSTM(5, 7)), {nn.LSTM})[0]
    assert type(layer) is nnqd.LSTM
    x = numbers.standard_normal((6, 3, 5)).astype("float32")
    y, (h, c) = layer(facula.tensor(x))
    zeros = np.zeros((3, 7))
    wanted = _lstm(x, layer.get_weight(), layer.get_bias(), zeros, zeros)
    for made, expected in zip((y, h[0], c[0]), wanted, strict=True):
        np.testing.assert_allclose(made.numpy(), expected, rtol=0, atol=2e-2)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_near_the_float_layer(numbers, name, bidirectional):
    floats = getattr(nn, name)(6, 8, 2, bidirectional=bidirectional)
    layer = Q.quantize_dynamic(nn.Sequential(floats), {getattr(nn, name)})[0]
    x = facula.tensor(numbers.standard_normal((5, 4, 6)).astype("float32"))
    np.testing.assert_allclose(layer(x)[0].numpy(), floats(x)[0].detach().numpy(), atol=3e-2)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_packed_sequences_end_by_themselves(numbers, name):
    floats = getattr(nn, name)(6, 8)
    layer = Q.quantize_dynamic(nn.Sequential(floats), {getattr(nn, name)})[0]
    x = facula.tensor(numbers.standard_normal((5, 3, 6)).astype("float32"))
    packed = nn.utils.rnn.pack_padded_sequence(x, [2, 5, 3], enforce_sorted=False)
    made, last = layer(packed)
    wanted, ends = floats(packed)
    np.testing.assert_allclose(made.data.numpy(), wanted.data.detach().numpy(), atol=3e-2)
    last, ends = (last[0], ends[0]) if name == "LSTM" else (last, ends)
    np.testing.assert_allclose(last.numpy(), ends.detach().numpy(), atol=3e-2)


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_are_near_float_cells(numbers, name):
    floats = getattr(nn, name)(6, 8)
    cell = Q.quantize_dynamic(nn.Sequential(floats), {getattr(nn, name)})[0]
    x = facula.tensor(numbers.standard_normal((4, 6)).astype("float32"))
    made, wanted = cell(x), floats(x)
    made, wanted = (made[0], wanted[0]) if name == "LSTMCell" else (made, wanted)
    np.testing.assert_allclose(made.numpy(), wanted.detach().numpy(), atol=3e-2)


@pytest.mark.parametrize("dtype", [facula.qint8, facula.float16])
def test_states_come_back_from_files(numbers, dtype):
    layer, other = (nnqd.LSTM(4, 5, 2, dtype=dtype) for _ in range(2))
    file = io.BytesIO()
    facula.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(facula.load(file))
    x = facula.tensor(numbers.standard_normal((3, 2, 4)).astype("float32"))
    np.testing.assert_array_equal(layer(x)[0].numpy(), other(x)[0].numpy())


def test_refusals():
    with pytest.raises(RuntimeError, match="input_size: 4 was required"):
        nnqd.LSTM(4, 5)(facula.zeros(3, 2, 6))
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        nnqd.GRU(4, 5)(facula.zeros(3, 2, 4), facula.zeros(1, 3, 5))
    with pytest.raises(RuntimeError, match="qint8 or float16"):
        nnqd.LSTM(4, 5, dtype=facula.quint8)
    with pytest.raises(ValueError, match="dropout should be a number"):
        nnqd.LSTM(4, 5, dropout=1.5)
    with pytest.raises(RuntimeError, match="inconsistent input_size"):
        nnqd.GRUCell(4, 5)(facula.zeros(2, 6))
