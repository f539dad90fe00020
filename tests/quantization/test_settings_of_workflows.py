"""Settings as data, reference models in eager mode, layers for training, states of older files."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization as Q
from facula.ao.nn import qat as nnqat
from facula.ao.nn import quantized as nnq
from facula.ao.nn.qat import dynamic as nnqatd
from facula.ao.nn.quantized import dynamic as nnqd
from facula.ao.nn.quantized import reference
from facula.ao.quantization import backend_config as B
from facula.ao.quantization.fx import custom_config as C
from facula.quantization.quantize import _observer_forward_hook


class Bordered(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.quant, self.layer, self.dequant = Q.QuantStub(), layer, Q.DeQuantStub()

    def forward(self, x):
        return self.dequant(self.layer(self.quant(x)))


class BorderedTwice(nn.Module):
    """The same numbers as `Bordered` of integers has, by a float layer between borders."""

    def __init__(self, layer):
        super().__init__()
        self.quant, self.dequant, self.layer = Q.QuantStub(), Q.DeQuantStub(), layer
        self.quant2, self.dequant2 = Q.QuantStub(), Q.DeQuantStub()

    def forward(self, x):
        return self.dequant2(self.quant2(self.layer(self.dequant(self.quant(x)))))


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Linear(6, 4), (3, 6)),
        (nn.Conv2d(2, 3, 3), (2, 2, 5, 5)),
        (nn.ConvTranspose1d(2, 3, 2), (2, 2, 5)),
    ],
)
def test_reference_models_compute_what_integers_compute(layer, shape):
    x = facula.randn(*shape)
    made = []
    for kind, is_reference in ((Bordered, False), (BorderedTwice, True)):
        model = kind(layer).eval()
        model.qconfig = Q.default_qconfig
        prepared = Q.prepare(model)
        prepared(x)
        made.append(Q.convert(prepared, is_reference=is_reference))
    assert type(made[1].layer) is getattr(reference, type(layer).__name__)
    assert made[1].layer.weight.dtype is facula.float32
    np.testing.assert_allclose(made[0](x).numpy(), made[1](x).detach().numpy(), atol=1e-5)


def test_hooks_come_behind_observers():
    seen = []
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, inputs, output: seen.append("hook"))
    model = Bordered(layer).eval()
    model.qconfig = Q.default_qconfig
    prepared = Q.prepare(model)
    first = next(iter(prepared.layer._forward_hooks.values()))
    assert first is _observer_forward_hook
    prepared(facula.rand(1, 2))
    assert len(Q.convert(prepared).layer._forward_hooks) == 1 and seen == ["hook"]


def test_dynamic_training():
    model = nn.Sequential(nn.Linear(4, 3)).train()
    model.qconfig = Q.default_dynamic_qat_qconfig
    prepared = Q.prepare_qat(model, mapping={nn.Linear: nnqatd.Linear})
    assert type(prepared[0]) is nnqatd.Linear
    prepared(facula.rand(2, 4)).sum().backward()
    made = Q.convert(prepared.eval(), mapping={nnqatd.Linear: nnqd.Linear})
    assert type(made[0]) is nnqd.Linear
    with pytest.raises(ValueError, match="memoryless"):
        nnqatd.Linear(2, 2, qconfig=Q.default_qat_qconfig)


def test_models_that_never_ran_have_weights_of_integers():
    model = Bordered(nn.Linear(5, 8)).train()
    model.qconfig = Q.get_default_qat_qconfig("x86")
    with pytest.warns(UserWarning, match="must run observer"):  # of the input and the result
        made = Q.convert(Q.prepare_qat(model).eval())
    assert type(made.layer) is nnq.Linear
    wanted = model.layer.weight.detach().numpy()
    np.testing.assert_allclose(made.layer.weight().dequantize().numpy(), wanted, atol=2e-3)


def test_tables_for_training():
    bag = nn.EmbeddingBag(6, 4, mode="sum")
    bag.qconfig = Q.default_embedding_qat_qconfig
    made = nnqat.EmbeddingBag.from_float(bag)
    x = facula.tensor([[0, 1], [2, 5]])
    np.testing.assert_allclose(made(x).detach().numpy(), bag(x).detach().numpy(), atol=0.05)
    with pytest.raises(AssertionError, match="per_channel_affine_float_qparams"):
        nnqat.EmbeddingBag(6, 4, qconfig=Q.default_qat_qconfig)
    with pytest.raises(AssertionError, match="only works for EmbeddingBag"):
        nnqat.EmbeddingBag.from_float(nn.Linear(2, 2))


def test_normalized_layers_are_made_by_their_sizes():
    layer = nnqat.ConvBn2d(
        2, 3, 1, eps=1e-3, momentum=0.5, freeze_bn=True, qconfig=Q.default_qat_qconfig
    )
    assert layer.bias is None and layer.bn.num_features == 3
    assert (layer.bn.eps, layer.bn.momentum, layer.bn.training) == (1e-3, 0.5, False)


def test_states_of_older_files():
    weight = facula.quantize_per_tensor(facula.rand(3, 2), 0.01, 0, facula.qint8)
    state = {
        "weight": weight,
        "bias": facula.ones(3),
        "scale": facula.tensor(0.5),
        "zero_point": facula.tensor(3),
    }
    layer = nnq.Linear(2, 3)
    layer.load_state_dict(state)
    assert facula.equal(layer.weight(), weight) and layer.bias().tolist() == [1.0] * 3
    dynamic = nnqd.Linear(2, 3)
    dynamic.load_state_dict(state)
    assert dynamic.version == 1  # activations of 8 bits, as these had
    observer = Q.PerChannelMinMaxObserver()
    old = {"eps": facula.tensor([1e-7]), "min_vals": facula.zeros(2), "max_vals": facula.ones(2)}
    observer.load_state_dict(old)
    assert observer.max_val.tolist() == [1.0, 1.0]


# ------------------------------------------------------------------ settings


def test_backends_are_dictionaries_and_back():
    byte = B.DTypeWithConstraints(facula.quint8, quant_max_upper_bound=127)
    dtypes = B.DTypeConfig(byte, facula.quint8, facula.qint8, facula.float32)
    pattern = (
        B.BackendPatternConfig((nn.Linear, nn.ReLU))
        .set_observation_type(B.ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT)
        .add_dtype_config(dtypes)
        .set_root_module(nn.Linear)
        .set_reference_quantized_module(reference.Linear)
    )
    config = B.BackendConfig("one").set_backend_pattern_config(pattern)
    again = B.BackendConfig.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict() and again.configs[0].dtype_configs == [dtypes]
    assert list(again._pattern_complex_format_to_config) == [(nn.ReLU, nn.Linear)]
    assert dtypes.input_dtype is facula.quint8 and dtypes.to_dict()["input_dtype"] is byte
    with pytest.raises(ValueError, match="2 or 3 elements"):
        config.set_backend_pattern_config(B.BackendPatternConfig((nn.ReLU,) * 4))


def test_settings_are_dictionaries_and_back():
    settings = (
        C.PrepareCustomConfig()
        .set_standalone_module_name(
            "a", Q.QConfigMapping(), (facula.ones(1),), C.PrepareCustomConfig(), None
        )
        .set_float_to_observed_mapping(nn.Linear, nn.Bilinear)
        .set_non_traceable_module_names(["b"])
        .set_preserved_attributes(["c"])
    )
    given = settings.to_dict()
    assert given["float_to_observed_custom_module_class"] == {"static": {nn.Linear: nn.Bilinear}}
    again = C.PrepareCustomConfig.from_dict(given)
    assert again.float_to_observed_mapping == {Q.QuantType.STATIC: {nn.Linear: nn.Bilinear}}
    assert again.non_traceable_module_names == ["b"] and "a" in again.standalone_module_names
    convert = C.ConvertCustomConfig().set_observed_to_quantized_mapping(nn.ReLU, nn.GELU)
    assert C.ConvertCustomConfig.from_dict(convert.to_dict()).to_dict() == convert.to_dict()
    assert C.FuseCustomConfig.from_dict({"preserved_attributes": ["d"]}).preserved_attributes == [
        "d"
    ]
    with pytest.raises(TypeError, match="a dictionary was required"):
        C.PrepareCustomConfig.from_dict(3)


def test_attributes_that_are_to_be_kept():
    model, x = nn.Sequential(nn.Linear(2, 2)).eval(), (facula.rand(1, 2),)
    mapping = Q.get_default_qconfig_mapping()
    kept = C.PrepareCustomConfig().set_preserved_attributes(["note"])
    model.note = "kept"
    assert Q.prepare_fx(model, mapping, x, prepare_custom_config=kept).note == "kept"
