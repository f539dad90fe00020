"""Quantized models as scripts and traces: the numbers of the model, in files and out of them.

Files that PyTorch wrote are in `test_files`. Oracle: the model itself, run by Python, and integers by plain loops.
"""

import io

import numpy as np
import pytest

import facula
from facula import jit, nn, quantization
from facula.jit.packed_types import packed_type

QMODULES = facula.ao.nn.quantized


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
        self.fc = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.fc(x.reshape(x.size(0), -1)))


class Layers(nn.Module):
    """One layer of each kind whose result has a scale of its own."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv = nn.Conv1d(3, 4, 3, padding=1, padding_mode="reflect")
        self.sums, self.both = QMODULES.FloatFunctional(), QMODULES.FloatFunctional()
        self.chain = nn.Sequential(
            nn.Hardswish(), nn.ELU(), nn.LeakyReLU(), nn.LayerNorm(8), nn.GroupNorm(2, 4),
            nn.InstanceNorm1d(4), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x):
        x = self.conv(self.quant(x))
        x = self.chain(self.sums.add(x, x))
        return self.dequant(self.both.cat([x, x], 1))


class Inside(nn.Module):
    """A layer inside of a model."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def static(model, x):
    model.eval().qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(x)
    return quantization.convert(prepared)


def dynamic(layer, dtype=facula.qint8):
    return quantization.quantize_dynamic(Inside(layer), {type(layer)}, dtype=dtype)


def embedded():
    model = Inside(nn.Embedding(10, 12))
    model.layer.qconfig = quantization.float_qparams_weight_only_qconfig
    return quantization.convert(quantization.prepare(model))


MODELS = {
    "static": lambda: static(Small(), facula.randn(2, 3, 8, 8)),
    "layers": lambda: static(Layers(), facula.randn(2, 3, 8)),
    "linear": lambda: dynamic(nn.Linear(4, 5)),
    "halves": lambda: dynamic(nn.Linear(4, 5), facula.float16),
    "lstm": lambda: dynamic(nn.LSTM(4, 5, 2, bidirectional=True)),
    "gru": lambda: dynamic(nn.GRU(4, 5, batch_first=True)),
    "lstm cell": lambda: dynamic(nn.LSTMCell(4, 5)),
    "gru cell": lambda: dynamic(nn.GRUCell(4, 5)),
    "rnn cell": lambda: dynamic(nn.RNNCell(4, 5)),
    "embedding": embedded,
}
INPUTS = {
    "static": lambda: facula.randn(2, 3, 8, 8), "layers": lambda: facula.randn(2, 3, 8),
    "lstm": lambda: facula.randn(3, 2, 4), "gru": lambda: facula.randn(3, 2, 4),
    "embedding": lambda: facula.tensor([1, 7, 1]),
}  # fmt: skip


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, tuple) else [value]


def reread(program):
    file = io.BytesIO()
    jit.save(program, file)
    file.seek(0)
    return jit.load(file)


@pytest.mark.parametrize("how", ["script", "trace"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_a_quantized_model_is_scripted_and_kept(name, how):
    facula.manual_seed(0)
    model, x = MODELS[name](), INPUTS.get(name, lambda: facula.randn(3, 4))()
    program = jit.script(model) if how == "script" else jit.trace(model, x)
    wanted = flat(model(x))
    for run in (program, reread(program), reread(reread(program))):
        for a, b in zip(flat(run(x)), wanted, strict=True):
            assert facula.equal(a, b)


def test_operators_of_quantization_are_called_by_their_names():
    weight = facula.quantize_per_tensor(facula.randn(2, 3), 0.1, 0, facula.qint8)
    packed = facula.ops.quantized.linear_prepack(weight, facula.ones(2))

    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.packed = packed

        def forward(self, x):
            q = facula.quantize_per_tensor(x, 0.05, 3, facula.quint8)
            y = facula.ops.quantized.linear(q, self.packed, 0.2, 100)
            return y.dequantize(), y.q_scale(), y.q_zero_point(), self.packed.unpack()[0]

    x = facula.randn(4, 3)
    for program in (jit.script(Product()), reread(jit.script(Product()))):
        made, scale, zero, kept = program(x)
        levels = np.clip(np.rint(x.numpy() / np.float32(0.05)) + 3, 0, 255) - 3
        exact = levels * 0.05 @ weight.dequantize().numpy().T + 1
        assert np.abs(made.numpy() - exact).max() <= 0.2 / 2 + 1e-5
        assert (scale, zero) == (0.2, 100) and facula.equal(kept.int_repr(), weight.int_repr())


def test_convolutions_are_packed_again_out_of_files():
    weight = facula.quantize_per_channel(
        facula.randn(4, 2, 3), facula.rand(4) + 0.01, facula.zeros(4, dtype=facula.int64), 0, facula.qint8
    )  # fmt: skip
    ops = facula.ops.quantized

    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.packed = ops.conv1d_prepack(weight, None, [2], [1], [1], 1)

        def forward(self, x):
            return facula.ops.quantized.conv1d(x, self.packed, 0.1, 7)

    x = facula.quantize_per_tensor(facula.randn(1, 2, 9), 0.1, 5, facula.quint8)
    wanted = ops.conv1d(x, Line().packed, 0.1, 7)
    assert facula.equal(reread(jit.script(Line()))(x).int_repr(), wanted.int_repr())


def test_a_trace_sees_dequantization_and_integers():
    def both(x):
        q = facula.quantize_per_tensor(x, 0.5, 2, facula.quint8)
        return q.dequantize() + 1, q.int_repr()

    traced = jit.trace(both, facula.zeros(3))
    numbers, integers = traced(facula.tensor([1.0, 2.2, -0.6]))
    assert numbers.tolist() == [2.0, 3.0, 0.5] and integers.tolist() == [4, 6, 1]


def test_dtypes_and_schemes_are_attributes():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.kind, self.scheme = facula.qint8, facula.per_tensor_affine

        def forward(self, x):
            return facula.quantize_per_tensor(x, 0.1, 0, self.kind)

    program = jit.script(Kept())
    assert program(facula.ones(1)).dtype == facula.qint8
    assert reread(program)(facula.ones(1)).dtype == facula.qint8


_LINEAR, _CONV = (
    packed_type(f"__torch__.torch.classes.quantized.{n}PackedParamsBase")
    for n in ("Linear", "Conv2d")
)
_CELL = packed_type("__torch__.torch.classes.rnn.CellParamsBase")
_NUMBERS = facula.tensor([2, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0], dtype=facula.int16)


def integers(*size):
    return facula.quantize_per_tensor(facula.zeros(size), 0.1, 0, facula.qint8)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (_LINEAR, 5),
        (_LINEAR, (1, None)),
        (_LINEAR, (integers(2, 3), None, None)),
        (_LINEAR, (integers(2, 3, 1), None)),
        (_LINEAR, (integers(2, 3), facula.zeros(7))),
        (_CONV, ("2", [], [None])),
        (_CONV, ("2", [_NUMBERS[:-1], integers(1, 1, 1, 1)], [None])),
        (_CONV, ("3", [_NUMBERS, integers(1, 1, 1, 1)], [None])),
        (_CONV, ("2", [_NUMBERS, integers(1, 1, 1)], [None])),
        (_CONV, ("2", [-_NUMBERS, integers(1, 1, 1, 1)], [None])),
        (_CELL, ("quantized_dynamic", [], [], [], [])),
        (_CELL, ("other", [], [], [1], [])),
    ],
)
def test_states_that_fit_nothing_are_errors(kind, state):
    made = kind.python[0].__new__(kind.python[0])
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        kind.fill(made, state)
