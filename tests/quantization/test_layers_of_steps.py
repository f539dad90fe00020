"""LSTM and attention of integers: the steps are observed, and the numbers stay near those of the float layers."""

import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.nn import quantizable, quantized

CONFIG = quantization.get_default_qconfig("x86")


def bytes_of(x):
    return facula.quantize_per_tensor(x, 0.03, 128, facula.quint8)


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"batch_first": True, "bidirectional": True}, {"num_layers": 2, "bidirectional": True},
])  # fmt: skip
def test_lstm(options):
    facula.manual_seed(3)
    model = nn.Sequential(nn.LSTM(6, 5, **options)).eval()
    given = bytes_of(facula.randn(4, 3, 6))
    x = given.dequantize()
    wanted, (state, memory) = model(x)
    model.qconfig = CONFIG
    prepared = quantization.prepare(model)
    assert type(prepared[0]) is quantizable.LSTM
    seen, (last, kept) = prepared(x)
    for got, own in ((seen, wanted), (last, state), (kept, memory)):
        assert facula.allclose(got, own, atol=1e-6)
    made = quantization.convert(prepared)
    assert type(made[0]) is quantized.LSTM
    assert type(made[0].layers[0].layer_fw.cell.igates) is quantized.Linear
    result, (last, _) = made(given)
    assert result.dtype is facula.quint8 and last.is_quantized
    assert float((result.dequantize() - wanted).abs().max()) < 0.06


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}])
def test_states_that_are_given_and_gates_that_are_split(options):
    facula.manual_seed(4)
    layer = nn.LSTM(3, 4, num_layers=2, **options).eval()
    layer.qconfig = CONFIG
    rows = 4 if options else 2
    x, states = facula.randn(5, 6, 3), (facula.randn(rows, 5 if options else 6, 4),) * 2
    split = quantizable.LSTM.from_float(layer, split_gates=True)
    assert set(split.layers[0].layer_fw.cell.igates) == {"input", "forget", "cell", "output"}
    for made in (split, quantizable.LSTM.from_float(layer)):
        assert facula.allclose(made(x, states)[0], layer(x, states)[0], atol=1e-6)
    own = {k for k in made.state_dict() if "activation_post_process" not in k and "bw" not in k}
    cell = "layers.1.layer_fw.cell"
    assert {f"{cell}.{part}gates.{kind}" for part in "ih" for kind in ("weight", "bias")} <= own


class Attention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.layer = nn.MultiheadAttention(8, 2, **options)

    def forward(self, query, key, value, *masks):
        return self.layer(query, key, value, *masks)


@pytest.mark.filterwarnings(
    "ignore:.*must run observer"
)  # of a product with a number, as in PyTorch
@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 4, "vdim": 6},
    {"batch_first": True},
])  # fmt: skip
def test_attention(options):
    facula.manual_seed(5)
    model = Attention(**options).eval()
    first = options.get("batch_first", False)
    shape = (3, 4) if first else (4, 3)
    parts = [
        facula.randn(*shape, width) for width in (8, options.get("kdim", 8), options.get("vdim", 8))
    ]
    mask = facula.tensor([[False, True, False, False]] * 4)
    padding = facula.tensor([[False] * 4, [False, False, True, False], [False] * 4])
    wanted = [model(*parts), model(*parts, padding, True, mask)]
    model.qconfig = CONFIG
    prepared = quantization.prepare(model)
    seen = [prepared(*parts), prepared(*parts, padding, True, mask)]
    for (got, weights), (own, shares) in zip(seen, wanted, strict=True):
        assert facula.allclose(got, own, atol=1e-5) and facula.allclose(weights, shares, atol=1e-5)
    made = quantization.convert(prepared)
    assert type(made.layer) is quantized.MultiheadAttention
    result, shares = made(*map(bytes_of, parts))
    assert float((result.dequantize() - wanted[0][0]).abs().max()) < 0.12
    assert float((shares.dequantize() - wanted[0][1]).abs().max()) < 0.08
    back = made.layer.dequantize()
    assert float((back(*parts)[0] - wanted[0][0]).abs().max()) < 0.05


def test_what_is_asked_for_wrongly():
    layer = nn.LSTM(2, 2)
    with pytest.raises(AssertionError, match="must have 'qconfig'"):
        quantizable.LSTM.from_float(layer)
    with pytest.raises(NotImplementedError, match="non-observed LSTM"):
        quantized.LSTM.from_float(layer)
    with pytest.raises(ValueError, match="number in range"):
        quantizable.LSTM(2, 2, dropout=2.0)
    with pytest.raises(AssertionError, match="causal mask not supported"):
        x = facula.ones(2, 1, 4)
        quantizable.MultiheadAttention(4, 2)(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match="2D attn_mask is not correct"):
        quantizable.MultiheadAttention(4, 2)(x, x, x, attn_mask=facula.ones(3, 3))


def first_row(x):
    return x[0].dequantize() * 2


def test_traces_follow_subscripts_of_bytes():
    given = bytes_of(facula.randn(3, 4))
    traced = facula.jit.trace(first_row, given)
    assert facula.equal(traced(given), given.dequantize()[0] * 2)
