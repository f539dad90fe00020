"""The numeric suite, equalization and the correction of biases: pairs of what both models have, errors that go away.

Oracle: the models' own weights and results; ranges by NumPy.
"""

import copy

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.nn.quantized import FloatFunctional, QFunctional
from facula.ao.ns import _numeric_suite as ns
from facula.ao.quantization import _correct_bias, _equalize


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.relu, self.sums = nn.Linear(3, 4), nn.ReLU(), FloatFunctional()
        self.rest = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

    def forward(self, x):
        x = self.relu(self.first(self.quant(x)))
        return self.dequant(self.rest(self.sums.add(x, x)))


@pytest.fixture
def models():
    facula.manual_seed(0)
    model = Model().eval()
    model = quantization.fuse_modules(model, [["first", "relu"]])
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared, x = quantization.prepare(model), facula.randn(8, 3)
    prepared(x)
    return model, quantization.convert(prepared), x


def test_weights_stand_beside_each_other(models):
    model, integers, _ = models
    found = ns.compare_weights(model.state_dict(), integers.state_dict())
    names = ["first", "rest.0", "rest.1"]
    assert list(found) == [f"{n}._packed_params._packed_params" for n in names]
    for pair, weight in zip(
        found.values(), (model.first[0], model.rest[0], model.rest[1]), strict=True
    ):
        assert facula.equal(pair["float"], weight.weight)
        assert (pair["quantized"].dequantize() - weight.weight).abs().max() < 0.01


def test_weights_of_recurrent_layers_are_lists():
    layer = nn.Sequential(nn.LSTM(3, 4, 2, bidirectional=True))
    integers = quantization.quantize_dynamic(layer)
    found = ns.compare_weights(layer.state_dict(), integers.state_dict())
    assert [k.rpartition("values.")[2] for k in found] == [f"{i}.param" for i in range(4)]
    wanted = [layer[0].weight_ih_l0_reverse, layer[0].weight_hh_l0_reverse]
    pair = list(found.values())[1]
    assert all(map(facula.equal, pair["float"], wanted))
    assert [w.shape for w in pair["quantized"]] == [w.shape for w in wanted]


def test_results_of_both_models_are_kept(models):
    model, integers, x = models
    wanted = model.first(x).detach()
    found = ns.compare_model_outputs(model, integers, x)
    assert set(found) == {
        "quant.stats",
        "first.stats",
        "sums.stats",
        "rest.0.stats",
        "rest.1.stats",
    }
    assert facula.equal(found["first.stats"]["float"][0], wanted)
    assert found["first.stats"]["quantized"][0].is_quantized
    assert all(
        (p["float"][0] - p["quantized"][0].dequantize()).abs().max() < 0.05 for p in found.values()
    )


def test_float_layers_run_in_the_shadow(models):
    model, integers, x = models
    before = integers(x)
    found = ns.compare_model_stub(
        model, integers, [type(model.first), FloatFunctional, nn.Linear], x
    )
    assert set(found) == {"first.stats", "sums.stats", "rest.0.stats", "rest.1.stats"}
    assert isinstance(integers.sums, ns.Shadow) and isinstance(
        integers.sums.orig_module, QFunctional
    )
    assert facula.equal(integers(x), before)
    inputs = integers.first.orig_module(integers.quant(x)).dequantize()
    shadow = found["sums.stats"]["float"][0]
    assert facula.equal(shadow, inputs + inputs)


def test_modules_of_other_classes_stay(models):
    model, integers, x = models
    found = ns.compare_model_stub(model, integers, [nn.Conv2d], x)
    assert found == {} and not any(isinstance(m, ns.Shadow) for m in integers.modules())


def ranges(weight, axis):
    rows = np.moveaxis(weight.detach().numpy(), axis, 0).reshape(weight.shape[axis], -1)
    return rows.max(1) - rows.min(1)


def test_equalized_layers_have_equal_ranges_and_the_same_results():
    facula.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 5, 1), nn.Conv2d(5, 2, 1))
    with facula.no_grad():
        model[0].weight[1] *= 100
        model[0].weight[2] = 0  # a channel that is constant stays
    model = quantization.fuse_modules(model.eval(), [["0", "1"]])
    before = copy.deepcopy(model)
    _equalize.equalize(model, [["0", "2"], ["2", "3"]], 1e-6)
    x = facula.randn(2, 3, 2, 2)
    assert facula.allclose(model(x), before(x), rtol=1e-4, atol=1e-4)
    first, second, third = model[0][0].weight, model[2].weight, model[3].weight
    moving = [0, 1, 3]
    assert np.allclose(ranges(first, 0)[moving], ranges(second, 1)[moving], rtol=1e-4)
    assert np.allclose(ranges(second, 0), ranges(third, 1), rtol=1e-4)
    assert facula.equal(
        _equalize.equalize(before, [["2", "3"]], inplace=False)[0][0].weight, before[0][0].weight
    )


def test_what_cannot_be_equalized_is_an_error():
    with pytest.raises(ValueError, match="not supported"):
        _equalize.cross_layer_equalization(nn.ReLU(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="as many results"):
        _equalize.cross_layer_equalization(nn.Linear(2, 3), nn.Linear(2, 2))
    with pytest.raises(ValueError, match="same names"):
        _equalize.converged({"a": nn.Linear(1, 1)}, {"b": nn.Linear(1, 1)})


def test_a_wrong_bias_is_corrected():
    facula.manual_seed(0)
    model = quantization.QuantWrapper(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5)))
    model.qconfig = quantization.default_qconfig
    prepared, data = quantization.prepare(model), [(facula.rand(10, 3), None) for _ in range(20)]
    for x, _ in data:
        prepared(x)
    integers = quantization.convert(prepared)
    for layer in integers.module:
        layer.set_weight_bias(layer.weight(), layer.bias() + 0.1)
    _correct_bias.bias_correction(model, integers, data)
    for layer, shadow in zip(model.module, integers.module, strict=True):
        corrected = shadow.orig_module.bias()
        assert (corrected - layer.bias).norm() < 0.03 * layer.bias.norm()
