"""Graph mode by a backend's patterns: what is observed, what becomes integers, and which integers."""

import copy

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import nn
from facula.ao import quantization as Q
from facula.ao.quantization import backend_config as B
from facula.ao.quantization.fx import custom_config as C
from facula.ao.quantization.quantize_fx import (
    convert_fx,
    convert_to_reference_fx,
    fuse_fx,
    prepare_fx,
    prepare_qat_fx,
)
from facula.quantization.graph.matching import MatchAllNode, is_match

EVERYWHERE = Q.QConfigMapping().set_global(Q.default_qconfig)


def observers(model):
    """How many places of a graph observe."""
    modules = dict(model.named_modules(remove_duplicate=False))
    calls = [n for n in model.graph.nodes if n.op == "call_module"]
    return sum(isinstance(modules[n.target], Q.ObserverBase) for n in calls)


def words(model):
    """What the nodes of a graph call."""
    return [getattr(n.target, "__name__", str(n.target)) for n in model.graph.nodes]


class Functions(nn.Module):
    """A linear function with a weight of the model, and relu."""

    def __init__(self):
        super().__init__()
        self.w, self.b = facula.randn(5, 4), facula.randn(5)

    def forward(self, x):
        return F.relu(F.linear(x, self.w, self.b))


def integers(x, scale, zero, low, high):
    return np.clip(np.rint(x / scale) + zero, low, high)


def test_functions_with_weights_become_integers():
    facula.manual_seed(1)
    model, x = Functions().eval(), facula.randn(6, 4)
    prepared = prepare_fx(model, EVERYWHERE, (x,))
    assert observers(prepared) == 3  # the input, the weight, the result
    wanted = prepared(x)
    made = convert_fx(prepared)
    assert any(w.endswith("linear_relu") for w in words(made))
    # the integers, by NumPy: the ranges are those of the example, bytes of activations have 7 bits
    given, weight = x.numpy().astype(np.float64), model.w.numpy().astype(np.float64)
    low, high = min(given.min(), 0), max(given.max(), 0)
    scale = np.float32((high - low) / 127)
    zero = np.clip(0 - np.rint(np.float32(low) / scale), 0, 127)
    rows = (integers(given, scale, zero, 0, 127) - zero) * scale
    step = np.float32(np.abs(weight).max() / 127.5)
    columns = integers(weight, step, 0, -128, 127) * step
    numbers = np.maximum(rows @ columns.T + model.b.numpy(), 0)
    out = np.float32(wanted.max().item() / 127)
    found = made(x).numpy()
    assert np.abs(found - np.clip(numbers, 0, 127 * out)).max() <= out * 0.501
    # and they are the same that the reference model's floats stand for
    assert (
        np.abs(found - convert_to_reference_fx(prepared)(x).detach().numpy()).max() <= out * 1.001
    )


def test_packed_weights_are_part_of_the_state():
    facula.manual_seed(2)
    x = facula.randn(3, 4)
    first, second = (convert_fx(_seen(Functions().eval(), x)) for _ in range(2))
    assert "_packed_weight_0" in first.state_dict()
    assert not first(x).equal(second(x))
    second.load_state_dict(first.state_dict())
    assert first(x).equal(second(x)) and first(x).equal(copy.deepcopy(first)(x))


def _seen(model, x, mapping=EVERYWHERE, **settings):
    prepared = prepare_fx(model, mapping, (x,), **settings)
    prepared(x)
    return prepared


def test_a_backend_says_what_is_quantized():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).eval(), facula.randn(2, 3)
    bytes_of = B.DTypeConfig(facula.quint8, facula.quint8, facula.qint8, facula.float32)
    linear = B.BackendPatternConfig(nn.Linear).add_dtype_config(bytes_of).set_root_module(nn.Linear)
    only = B.BackendConfig("one").set_backend_pattern_config(linear)
    assert observers(_seen(model, x, backend_config=only)) == 2
    assert observers(_seen(model, x, backend_config=B.BackendConfig("none"))) == 0
    shared = B.BackendPatternConfig(nn.Tanh).add_dtype_config(
        B.DTypeConfig(facula.quint8, facula.quint8)
    )
    shared.set_observation_type(B.ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT)
    found = _seen(model, x, backend_config=only.set_backend_pattern_config(shared))
    assert observers(found) == 3
    assert found.activation_post_process_1 is found.activation_post_process_2


def test_limits_of_a_backend_count():
    wide = Q.QConfig(
        Q.MinMaxObserver.with_args(quant_min=0, quant_max=255), Q.default_weight_observer
    )
    limits = B.DTypeWithConstraints(facula.quint8, 0, 127)
    config = B.BackendPatternConfig(nn.Linear).set_root_module(nn.Linear)
    config.add_dtype_config(B.DTypeConfig(limits, limits, facula.qint8, facula.float32))
    backend = B.BackendConfig("narrow").set_backend_pattern_config(config)
    model, x = nn.Sequential(nn.Linear(3, 3)).eval(), facula.randn(2, 3)
    mapping = Q.QConfigMapping().set_global(wide)
    assert observers(_seen(model, x, mapping, backend_config=backend)) == 0
    assert observers(_seen(model, x, backend_config=backend)) == 2


def test_a_program_fuses_its_own_patterns():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act, self.other = nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)

        def forward(self, x):
            return self.act(facula.add(self.other(x), self.first(x)))

    class Sum(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x, y):
            return facula.tanh(self.layer(x) + y)

    pattern = (nn.Tanh, (facula.add, MatchAllNode, nn.Linear))
    config = B.BackendPatternConfig()._set_pattern_complex_format(pattern)
    config.set_fuser_method(lambda is_qat, act, total: Sum(total[2]))
    config._set_root_node_getter(lambda parts: parts[1][2])
    config._set_extra_inputs_getter(lambda parts: [parts[1][1]])
    model, x = Model().eval(), facula.randn(2, 3)
    made = fuse_fx(model, backend_config=B.BackendConfig("own").set_backend_pattern_config(config))
    assert type(made.first) is Sum and not hasattr(made, "act")
    assert made(x).allclose(model(x))


def test_a_relu_that_is_used_twice_is_fused_twice():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.act = nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU()

        def forward(self, x):
            return self.act(self.second(self.act(self.first(x))))

    model, x = Model().eval(), facula.randn(2, 3)
    made = fuse_fx(model)
    kinds = [type(m).__name__ for m in (made.first, made.second)]
    assert kinds == ["LinearReLU", "LinearReLU"] and made(x).equal(model(x))


def test_borders_of_integers():
    model = nn.Sequential(nn.Linear(3, 3)).eval()
    x = facula.randn(4, 3)
    settings = (
        C.PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
    )
    prepared = prepare_fx(model, EVERYWHERE, (x,), prepare_custom_config=settings)
    assert observers(prepared) == 1  # that of the result
    prepared(x)
    made = convert_fx(prepared)
    given = facula.quantize_per_tensor(x, 0.05, 64, facula.quint8)
    found = made(given)
    assert found.is_quantized and "dequantize" not in words(made)
    assert (found.dequantize() - model(given.dequantize())).abs().max() < 0.2


def test_modules_by_themselves():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.inner = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def forward(self, x):
            return self.inner(self.first(x))

    x = facula.randn(4, 3)
    for indexes in ([], [0]):
        inner = C.PrepareCustomConfig().set_input_quantized_indexes(indexes)
        inner.set_output_quantized_indexes(indexes)
        settings = C.PrepareCustomConfig().set_standalone_module_name(
            "inner", None, (x,), inner, None
        )
        model = Model().eval()
        prepared = prepare_fx(model, EVERYWHERE, (x,), prepare_custom_config=settings)
        prepared(x)
        assert observers(prepared.inner) == (1 if indexes else 2)
        made = convert_fx(prepared)
        assert ("quantize_per_tensor" in words(made.inner)) == (not indexes)
        assert (made(x) - model(x)).abs().max() < 0.1


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)


class Observed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)

    @classmethod
    def from_float(cls, module):
        assert module.qconfig is not None
        return cls(module.layer)


class Integers(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)

    @classmethod
    def from_observed(cls, module):
        module.layer.activation_post_process = module.activation_post_process
        module.layer.qconfig = module.qconfig
        return cls(nn.quantized.Linear.from_float(module.layer))


def test_modules_with_forms_of_their_own():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.custom = Twice()

        def forward(self, x):
            return self.custom(x) + self.custom(x)

    settings = C.PrepareCustomConfig().set_float_to_observed_mapping(Twice, Observed)
    model, x = Model().eval(), facula.randn(4, 3)
    prepared = _seen(model, x, prepare_custom_config=settings)
    assert type(prepared.custom) is Observed
    table = C.ConvertCustomConfig().set_observed_to_quantized_mapping(Observed, Integers)
    made = convert_fx(prepared, convert_custom_config=table)
    assert type(made.custom) is Integers
    assert (made(x) - model(x)).abs().max() < 0.1


def test_what_writes_to_integers_is_seen():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            y = self.layer(x)
            y.relu_()
            return y.reshape(-1)

    model, x = Model().eval(), facula.randn(8, 3)
    made = convert_fx(_seen(model, x))
    assert made(x).min() == 0 and (made(x) - model(x)).abs().max() < 0.1


def test_a_mapping_for_conversion_takes_configurations_away():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).eval(), facula.randn(4, 3)
    prepared = _seen(model, x)
    less = Q.QConfigMapping().set_global(Q.default_qconfig).set_module_name("1", None)
    made = convert_fx(prepared, qconfig_mapping=less)
    kinds = [type(getattr(made, n)) for n in ("0", "1")]
    assert kinds == [nn.quantized.Linear, nn.Linear]
    other = Q.QConfigMapping().set_global(Q.default_dynamic_qconfig)
    with pytest.raises(ValueError, match="the configurations that the model was prepared with"):
        convert_fx(prepared, qconfig_mapping=other)


def test_configurations_of_fused_parts_have_to_agree():
    mapping = Q.QConfigMapping().set_object_type(nn.Linear, Q.default_qconfig)
    mapping.set_object_type(nn.ReLU, Q.default_per_channel_qconfig)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval()
    with pytest.raises(LookupError, match="same qconfigs for all module types in LinearReLU"):
        prepare_fx(model, mapping, (facula.randn(1, 3),))


def test_dynamic_functions():
    facula.manual_seed(3)
    model, x = Functions().eval(), facula.randn(6, 4)
    mapping = Q.QConfigMapping().set_global(Q.default_dynamic_qconfig)
    made = convert_fx(prepare_fx(model, mapping, (x,)))
    assert any(w.endswith("linear_relu_dynamic") for w in words(made))
    assert (made(x) - model(x)).abs().max() < 0.1


def test_reference_layers_keep_scheme_and_dtype_in_their_state():
    model, x = nn.Sequential(nn.Linear(3, 3)).eval(), facula.randn(4, 3)
    made = convert_to_reference_fx(_seen(model, x))
    state = made.state_dict()
    assert state["0.weight_dtype"] is facula.qint8
    assert state["0.weight_qscheme"] is facula.per_tensor_symmetric or (
        state["0.weight_qscheme"] is facula.per_tensor_affine
    )
    made.load_state_dict(state)


def test_trained_layers_in_graphs():
    facula.manual_seed(4)
    model, x = (
        nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.ReLU()),
        facula.randn(2, 2, 4, 4),
    )
    prepared = prepare_qat_fx(model.train(), Q.get_default_qat_qconfig_mapping("x86"), (x,))
    assert type(getattr(prepared, "0")).__name__ == "ConvBnReLU2d"
    for _ in range(3):
        prepared(x)
    prepared.eval()
    made = convert_fx(prepared)
    assert type(getattr(made, "0")).__name__ == "ConvReLU2d"
    assert (made(x) - prepared(x)).abs().max() <= 2 * getattr(made, "0").scale


def test_patterns_in_graphs():
    from facula import fx

    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    modules, nodes = dict(traced.named_modules()), list(traced.graph.nodes)
    assert is_match(modules, nodes[2], (nn.ReLU, nn.Linear))
    assert is_match(modules, nodes[2], (nn.ReLU, MatchAllNode))
    assert not is_match(modules, nodes[2], (nn.ReLU, nn.Conv2d))
    assert not is_match(modules, nodes[1], nn.ReLU)


def test_parts_of_modules_that_stay_calls_are_not_trained():
    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

    model, x = nn.Sequential(nn.Linear(3, 3), Closed()).train(), facula.randn(4, 3)
    settings = C.PrepareCustomConfig().set_non_traceable_module_classes([Closed])
    mapping = Q.get_default_qat_qconfig_mapping("x86")
    prepared = prepare_qat_fx(model, mapping, (x,), prepare_custom_config=settings)
    assert type(getattr(prepared, "1").layer) is nn.Linear
    assert type(getattr(prepared, "0")) is not nn.Linear


def test_transposed_convolutions_with_scales_by_channel_are_refused_early():
    model, x = nn.Sequential(nn.ConvTranspose2d(1, 1, 1)).eval(), facula.randn(1, 1, 1, 1)
    mapping = Q.QConfigMapping().set_global(Q.get_default_qconfig("fbgemm"))
    with pytest.raises(AssertionError, match="Per channel weight observer is not supported yet"):
        prepare_fx(model, mapping, (x,))


def test_a_layer_that_is_called_twice_has_a_scale_for_each_call():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(3, 3), nn.BatchNorm2d(2)

        def forward(self, x):
            y = self.layer(x) * 1.0
            return self.layer(y * 20.0) + self.norm(self.norm(x) * 5.0)

    facula.manual_seed(5)
    model, x = Model().eval(), facula.randn(4, 2, 3, 3)
    prepared = _seen(model, x, Q.get_default_qconfig_mapping("x86"))
    made, reference = convert_fx(prepared), convert_to_reference_fx(prepared)
    quantized = [m for m in made.modules() if type(m) is nn.quantized.Linear]
    assert len({m.scale for m in quantized}) == 2
    step = max(m.scale for m in quantized)
    assert (made(x) - reference(x)).abs().max() <= 3 * step


def test_one_call_of_a_layer_may_stay_in_floats():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            y = self.layer(x)
            return self.layer(facula.sin(y))

    facula.manual_seed(6)
    model, x = Model().eval(), facula.randn(8, 3)
    mapping = Q.QConfigMapping().set_module_name_object_type_order(
        "", nn.Linear, 1, Q.default_qconfig
    )
    made = convert_fx(_seen(model, x, mapping))
    assert (made(x) - model(x)).abs().max() < 0.1


def test_recurrent_layers_quantize_their_inputs_as_those_of_eager_mode_do() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru, self.cell = nn.LSTM(4, 5), nn.GRU(4, 5), nn.LSTMCell(4, 5)
            self.last = nn.Linear(5, 3)

        def forward(self, x):
            return self.last(self.lstm(x)[0]) + self.last(self.gru(x)[0]), self.cell(x[0])[0]

    facula.manual_seed(0)
    model, x = Model().eval(), facula.randn(3, 2, 4)
    eager = facula.ao.quantization.quantize_dynamic(
        copy.deepcopy(model), {nn.LSTM, nn.GRU, nn.LSTMCell, nn.Linear}
    )
    mapping = facula.ao.quantization.QConfigMapping().set_global(
        facula.ao.quantization.default_dynamic_qconfig
    )
    prepared = prepare_fx(copy.deepcopy(model), mapping, (x,))
    graph = convert_fx(prepared)
    kinds = {name: type(part) for name, part in graph.named_children()}
    assert kinds == {name: type(part) for name, part in eager.named_children()}
    for found, expected, exact in zip(graph(x), eager(x), model(x), strict=True):
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-6, atol=1e-7)
        assert 0 < np.abs(found.detach().numpy() - exact.detach().numpy()).max() < 0.05
