"""Whole quantized models in files: they give what they gave; packed parameters that are no good are refused."""

import copy
import io
import pickle

import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.serialization.rebuild import find


class Static(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.relu, self.fc = nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Linear(12, 4)

    def forward(self, x):
        x = self.relu(self.conv(self.quant(x)))
        return self.dequant(self.fc(x.flatten(1)))


def static():
    model = Static().eval()
    model = quantization.fuse_modules(model, [["conv", "relu"]])
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(facula.randn(4, 2, 6))
    return quantization.convert(prepared)


def saved(obj):
    file = io.BytesIO()
    facula.save(obj, file)
    file.seek(0)
    return file


LAYERS = {
    "linear": (nn.Linear(3, 4), facula.qint8, (2, 3)),
    "halves": (nn.Linear(3, 4), facula.float16, (2, 3)),
    "lstm": (nn.LSTM(3, 4), facula.qint8, (5, 2, 3)),
    "cell": (nn.GRUCell(3, 4), facula.qint8, (2, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_dynamic_layers_are_read_again(name):
    layer, dtype, size = LAYERS[name]
    model = quantization.quantize_dynamic(nn.Sequential(layer), {type(layer)}, dtype)[0]
    x = facula.randn(size)
    made, wanted = facula.load(saved(model))(x), model(x)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (made, wanted)), strict=True):
        assert facula.equal(
            a[0] if isinstance(a, tuple) else a, b[0] if isinstance(b, tuple) else b
        )


def test_static_layers_are_read_again():
    model, x = static(), facula.randn(4, 2, 6)
    layers = {name: facula.load(saved(child)) for name, child in model.named_children()}
    again = copy.deepcopy(model)
    again._modules.update(layers)
    assert facula.equal(again(x), model(x))


@pytest.mark.parametrize("change", [
    lambda w, b, g, e: (w, b, g, "other"),
    lambda w, b, g, e: (w.dequantize(), b, g, e),
    lambda w, b, g, e: (w, facula.zeros(9), g, e),
    lambda w, b, g, e: (w, b, ([0], *g[1:]), e),
    lambda w, b, g, e: (w, b, (*g[:4], 7, False), e),
    lambda w, b, g, e: (w, b),
])  # fmt: skip
def test_packed_parameters_that_are_no_good_are_refused(change):
    packed = static().conv._packed_params
    broken = copy.copy(packed)
    state = change(*packed.__getstate__())
    type(broken).__getstate__, kept = (lambda self: state), type(broken).__getstate__
    try:
        file = saved({"packed": broken})
    finally:
        type(broken).__getstate__ = kept
    with pytest.raises((RuntimeError, ValueError, TypeError, pickle.UnpicklingError)):
        facula.load(file)


@pytest.mark.parametrize("name", [
    "modules.quantized fail", "modules.nothing Linear", "linear linear_prepack", "eager "
    "convert", "modules.quantized nn",
])  # fmt: skip
def test_other_names_of_quantization_stand_for_nothing_in_files(name):
    module, _, own = name.partition(" ")
    with pytest.raises((KeyError, TypeError, AttributeError)):
        find(f"torch.quantization.{module}", own)
