"""Recurrent layers, their cells and attention with heads, against loops over time (`tests/oracles`)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import facula
from facula import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracles"))

import recurrent_layers as loops  # noqa: E402

KINDS = {
    "RNN": (nn.RNN, nn.RNNCell, loops.rnn, 1),
    "GRU": (nn.GRU, nn.GRUCell, loops.gru, 1),
    "LSTM": (nn.LSTM, nn.LSTMCell, loops.lstm, 2),
}
DTYPES = [facula.float64, facula.float32]


def arrays(module):
    return {name: p.detach().double().numpy() for name, p in module.named_parameters()}


def draw(shape, dtype, seed=0):
    return facula.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def near(actual, expected):
    eps = float(np.finfo(actual.detach().numpy().dtype).eps)
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=64 * eps, atol=64 * eps)


def pair(states):
    """States as modules take them: one tensor, or a tuple of two."""
    return states[0] if len(states) == 1 else tuple(states)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_cells(kind, bias, dtype):
    facula.manual_seed(1)
    _, make, step, count = KINDS[kind]
    cell = make(4, 3, bias=bias, dtype=dtype)
    x, states = draw((5, 4), dtype), [draw((5, 3), dtype, n + 1) for n in range(count)]
    found = cell(x, pair(states))
    wide = [s.double().numpy() for s in states]
    wanted = step(x.double().numpy(), wide, arrays(cell))
    for got, want in zip([found] if count == 1 else found, wanted, strict=True):
        near(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2},
        {"num_layers": 2, "bidirectional": True},
        {"bias": False, "batch_first": True},
        {"bidirectional": True, "batch_first": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_layers(kind, options, dtype):
    facula.manual_seed(2)
    make, _, step, count = KINDS[kind]
    module = make(4, 3, dtype=dtype, **options)
    deep, ways = options.get("num_layers", 1), 1 + options.get("bidirectional", False)
    x = draw((6, 2, 4), dtype)
    states = [draw((deep * ways, 2, 3), dtype, n + 1) for n in range(count)]
    first = options.get("batch_first", False)
    output, end = module(x.transpose(0, 1) if first else x, pair(states))
    wanted, ends = loops.layers(
        step, x.double().numpy(), [s.double().numpy() for s in states], arrays(module), deep,
        ways == 2,
    )  # fmt: skip
    near(output.transpose(0, 1) if first else output, wanted)
    for got, want in zip([end] if count == 1 else end, ends, strict=True):
        near(got, want)


def test_rectified_rnn():
    module = nn.RNN(4, 3, nonlinearity="relu", dtype=facula.float64)
    x, state = draw((6, 2, 4), facula.float64), draw((1, 2, 3), facula.float64, 1)
    output, _ = module(x, state)
    start = [state.numpy()]
    near(
        output,
        loops.layers(loops.rnn, x.numpy(), start, arrays(module), 1, False, nonlinearity="relu")[0],
    )


def test_projected_lstm():
    module = nn.LSTM(4, 5, proj_size=2, num_layers=2, dtype=facula.float64)
    x = draw((6, 2, 4), facula.float64)
    output, (h, c) = module(x)
    start = [np.zeros((2, 2, 2)), np.zeros((2, 2, 5))]
    wanted, ends = loops.layers(loops.lstm, x.numpy(), start, arrays(module), 2, False)
    for got, want in ((output, wanted), (h, ends[0]), (c, ends[1])):
        near(got, want)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_with_heads(masked):
    facula.manual_seed(3)
    module = nn.MultiheadAttention(6, 3, dtype=facula.float64)
    q, k, v = (draw((n, 2, 6), facula.float64, n) for n in (4, 5, 5))
    mask = np.triu(np.ones((4, 5), bool), 2) if masked else None
    found = module(q, k, v, attn_mask=None if mask is None else facula.tensor(mask))
    wanted = loops.heads(q.numpy(), k.numpy(), v.numpy(), arrays(module), 3, mask)
    for got, want in zip(found, wanted, strict=True):
        near(got, want)
