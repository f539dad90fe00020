"""The numeric suite of graph mode: pairs of layers, what they give, shadows, and several configurations at once.

Oracle: NumPy from the model's own weights and inputs: products, rounding to scale and zero point, decibels.
"""

import copy

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.ns import _numeric_suite_fx as ns
from facula.ao.ns.fx import graph_matcher, mappings, utils
from facula.ao.ns.fx.n_shadows_utils import (
    create_results_comparison,
    group_results_by_subgraph,
)
from facula.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
from facula.ao.quantization import (
    QConfigMapping,
    default_dynamic_qconfig,
    default_qconfig,
    get_default_qconfig_mapping,
)
from facula.ao.quantization.backend_config import get_native_backend_config
from facula.ao.quantization.quantize_fx import convert_fx, prepare_fx
from facula.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.relu, self.last = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x):
        x = self.relu(self.first(x))
        return self.last(x + x)


def numbers(value):
    value = value.dequantize() if value.is_quantized else value
    return value.detach().numpy().astype(np.float64)


def by_hand(model, x):
    """What the layers give, in float64."""
    w0, b0, w1, b1 = (numbers(p) for p in (*model.first.parameters(), *model.last.parameters()))
    first = np.maximum(numbers(x) @ w0.T + b0, 0)
    return {"first": first, "add": 2 * first, "last": 2 * first @ w1.T + b1}


@pytest.fixture
def models():
    facula.manual_seed(3)
    model, x = Model().eval(), facula.randn(16, 3)
    prepared = prepare_fx(copy.deepcopy(model), {"": default_qconfig}, example_inputs=(x,))
    prepared(x)
    return model, prepared, convert_fx(copy.deepcopy(prepared)), x


def test_weights_of_both_models_stand_beside_each_other(models):
    model, prepared, integers, _ = models
    found = ns.extract_weights("float", prepared, "bytes", integers)
    assert list(found) == ["first", "last"]
    for name, layer in (("first", model.first), ("last", model.last)):
        pair, weight = found[name]["weight"], numbers(layer.weight)
        assert np.array_equal(numbers(pair["float"][0]["values"][0]), weight)
        scale = np.abs(weight).max() / 127.5
        wanted = np.clip(np.rint(weight / scale), -128, 127) * scale
        np.testing.assert_allclose(numbers(pair["bytes"][0]["values"][0]), wanted, rtol=1e-6)
        assert [pair[k][0]["fqn"] for k in ("float", "bytes")] == [name, name]


@pytest.mark.parametrize("inputs", [False, True])
def test_results_of_layers_are_kept_in_pairs(models, inputs):
    model, prepared, integers, x = models
    a, b = ns.add_loggers("float", prepared, "bytes", integers, ns.OutputLogger, inputs)
    assert facula.equal(a(x), prepared(x)) and facula.equal(b(x), integers(x))
    found = ns.extract_logger_info(a, b, ns.OutputLogger, "bytes")
    wanted = by_hand(model, x)
    for (name, by_type), key in zip(found.items(), wanted, strict=True):
        kinds = ["node_input", "node_output"] if inputs else ["node_output"]
        assert sorted(by_type) == kinds, name
        pair = by_type["node_output"]
        (float_one,), (byte_one,) = (pair[k][0]["values"] for k in ("float", "bytes"))
        np.testing.assert_allclose(numbers(float_one), wanted[key], atol=1e-5)
        assert byte_one.dtype is facula.quint8
        np.testing.assert_allclose(numbers(byte_one), wanted[key], atol=4 * byte_one.q_scale())


def test_a_shadow_gets_the_inputs_of_the_other_model(models):
    model, prepared, integers, x = models
    both = ns.add_shadow_loggers("float", prepared, "bytes", integers, ns.OutputLogger, True)
    assert facula.equal(both(x), integers(x))
    found = ns.extract_shadow_logger_info(both, ns.OutputLogger, "bytes")
    assert sorted(found) == ["first", "last"]  # sums have two inputs
    given = found["last"]["node_input"]
    given_bytes, given_floats = (numbers(given[k][0]["values"][0]) for k in ("bytes", "float"))
    assert np.array_equal(given_bytes, given_floats)
    weight, bias = (numbers(p) for p in model.last.parameters())
    shadow = found["last"]["node_output"]["float"][0]["values"][0]
    np.testing.assert_allclose(numbers(shadow), given_bytes @ weight.T + bias, atol=1e-5)


def test_integers_in_the_shadow_of_floats_get_the_parameters_that_they_take(models):
    _, prepared, integers, x = models
    both = ns.add_shadow_loggers("bytes", integers, "float", prepared, ns.OutputLogger)
    assert facula.equal(both(x), prepared(x))
    assert both.first_input_scale_0 == integers.first_input_scale_0
    found = ns.extract_shadow_logger_info(both, ns.OutputLogger, "float")
    for by_type in found.values():
        pair = by_type["node_output"]
        assert pair["bytes"][0]["values"][0].is_quantized
        assert numbers(utils.compute_sqnr(*(pair[k][0]["values"][0] for k in pair))) > 30


def test_comparisons_are_those_of_numpy():
    x, y = facula.randn(5, 4), facula.randn(5, 4)
    a, b = numbers(x), numbers(y)
    cosine = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    ratio = 20 * np.log10(np.linalg.norm(a) / np.linalg.norm(a - b))
    error = np.linalg.norm(a - b) / np.linalg.norm(a)
    for function, wanted in (
        (utils.compute_sqnr, ratio),
        (utils.compute_normalized_l2_error, error),
        (utils.compute_cosine_similarity, cosine),
    ):
        np.testing.assert_allclose(numbers(function(x, y)).item(), wanted, rtol=1e-5)
        assert numbers(function((x, [x]), (y, [y]))[1][0]) == numbers(function(x, y))
        assert function(x.long(), y.long()) is None


def test_comparisons_join_the_records_of_the_second_model(models):
    _, prepared, integers, _ = models
    found = ns.extract_weights("a", prepared, "b", integers)
    ns.extend_logger_results_with_comparison(found, "a", "b", utils.compute_sqnr, "sqnr")
    for by_type in found.values():
        left, right = (by_type["weight"][k][0] for k in "ab")
        a, b = (numbers(e["values"][0]) for e in (left, right))
        wanted = 20 * np.log10(np.linalg.norm(a) / np.linalg.norm(a - b))
        np.testing.assert_allclose(numbers(right["sqnr"][0]), wanted, rtol=1e-4)
        assert "sqnr" not in left
    with pytest.raises(AssertionError, match="name of a model"):
        ns.extend_logger_results_with_comparison(found, "a", "c", utils.compute_sqnr, "x")


def test_graphs_of_other_layers_are_refused():
    one = facula.fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 1, 1)))
    for other, text in (
        (nn.Sequential(nn.Linear(1, 1)), "no forms of the same"),
        (nn.Sequential(nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1)), "more of them"),
    ):
        with pytest.raises(graph_matcher.GraphMatchingException, match=text):
            graph_matcher.get_matching_subgraph_pairs(one, facula.fx.symbolic_trace(other))


def test_functions_that_a_program_names_are_compared():
    class Wrapped(nn.Module):
        def forward(self, x):
            return mine(F.hardswish(x))

    graphs = [facula.fx.symbolic_trace(Wrapped()) for _ in range(2)]
    sets = mappings.get_base_name_to_sets_of_related_ops()
    pairs = graph_matcher.get_matching_subgraph_pairs(*graphs, sets)
    assert [a.base_op_node.name for a, _ in pairs.values()] == ["hardswish"]
    mappings.add_op_to_sets_of_related_ops(sets, mine, F.hardswish)
    pairs = graph_matcher.get_matching_subgraph_pairs(*graphs, sets)
    assert [a.base_op_node.name for a, _ in pairs.values()] == ["hardswish", "mine"]
    assert mappings.get_base_name_for_op(sets, mine) == mappings.get_base_name_for_op(
        sets, nn.Hardswish
    )


@facula.fx.wrap
def mine(x):
    return x + 1


def test_loggers_stay_in_scripts(models):
    _, prepared, integers, x = models
    made = [
        facula.jit.script(m) for m in ns.add_loggers("a", prepared, "b", integers, ns.OutputLogger)
    ]
    for m in made:
        m(x)
        m(x)
    found = ns.extract_logger_info(*made, ns.OutputLogger, "b")
    kept = [e["node_output"]["b"][0]["values"] for e in found.values()]
    assert [len(values) for values in kept] == [2, 2, 2]


# ------------------------------------------------------------------ several configurations


def test_forms_of_parts_run_beside_the_float_model():
    facula.manual_seed(5)
    model, x = Model().eval(), facula.randn(16, 3)
    multi = QConfigMultiMapping().set_global([default_qconfig, default_dynamic_qconfig])
    multi.set_module_name("last", [default_dynamic_qconfig])
    made = ns.prepare_n_shadows_model(model, (x,), multi, get_native_backend_config())
    made(x)
    made = ns.convert_n_shadows_model(made)
    assert facula.equal(made(x), model(x))
    assert not hasattr(made, "shadow_wrapper_2_2")
    assert all(not m.stats for m in made.modules() if isinstance(m, ns.OutputLogger))
    ns.loggers_set_enabled(made, True)
    made(x)
    grouped = group_results_by_subgraph(ns.extract_results_n_shadows_model(made))
    compared = create_results_comparison(grouped)
    wanted = by_hand(model, x)
    for (part, entry), right in zip(compared.items(), wanted.values(), strict=True):
        base, form = (numbers(grouped[part][k]["values"][0]) for k in "01")
        np.testing.assert_allclose(base, right, atol=1e-5)
        ratio = 20 * np.log10(np.linalg.norm(form) / np.linalg.norm(form - base))
        np.testing.assert_allclose(
            numbers(entry["candidates"]["1"]["cmp_mean"]), ratio, rtol=1e-3, atol=1e-3
        )
        assert ratio > 25
    assert [list(e["candidates"]) for e in compared.values()] == [["1", "2"], ["1", "2"], ["1"]]


def test_a_whole_quantized_model_runs_in_the_shadow(models):
    model, _, _, x = models
    mapping = get_default_qconfig_mapping().set_module_name("last", None)
    made = ns._prepare_n_shadows_add_loggers_model(
        copy.deepcopy(model), (x,), mapping, get_native_backend_config()
    )
    made(x)
    made = ns.convert_n_shadows_model(made)
    ns.loggers_set_enabled(made, True)
    assert facula.equal(made(x), model(x))
    kept = ns.extract_results_n_shadows_model(made)["model"]["node_output"]
    prepared = prepare_fx(copy.deepcopy(model), mapping, (x,))
    prepared(x)
    wanted = numbers(convert_fx(prepared)(x))
    last = list(kept)[-1]
    np.testing.assert_allclose(numbers(kept[last][0]["values"][-1]), wanted, atol=1e-5)


def test_weights_of_functions_are_compared():
    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(facula.randn(3, 3))

        def forward(self, x):
            return F.relu(F.linear(x, self.w))

    model, x = Calls().eval(), facula.randn(2, 3)
    mapping = QConfigMapping().set_global(default_qconfig)
    found = ns._n_shadows_compare_weights(model, (x,), mapping, get_native_backend_config())
    found = found["model"]["weight"]
    weight, form = (found[f"subgraph_0_{i}"][0]["values"][0] for i in (0, 1))
    right = numbers(model.w)
    scale = np.abs(right).max() / 127.5
    np.testing.assert_allclose(numbers(weight), right)
    wanted = np.clip(np.rint(right / scale), -128, 127) * scale
    np.testing.assert_allclose(numbers(form), wanted, rtol=1e-6)


def test_lists_of_configurations_are_distinct_and_padded():
    multi = QConfigMultiMapping().set_object_type(nn.Linear, [default_qconfig, default_qconfig])
    assert len(multi.qconfig_mappings_list) == 1
    multi.set_global([default_qconfig, None, default_dynamic_qconfig])
    first, second = multi.qconfig_mappings_list
    assert first.object_type_qconfigs[nn.Linear] is default_qconfig
    assert second.object_type_qconfigs[nn.Linear] is None
    assert second.global_qconfig is default_dynamic_qconfig
    made = QConfigMultiMapping.from_list_qconfig_mapping([first, second])
    assert [m.object_type_qconfigs[nn.Linear] is None for m in made.qconfig_mappings_list] == [
        False,
        True,
    ]
    with pytest.raises(TypeError, match="a list of configurations was required"):
        multi.set_global(default_qconfig)


def test_keywords_that_parts_decide_are_refused():
    model = nn.Sequential(nn.Linear(2, 2)).eval()
    multi = QConfigMultiMapping().set_global([default_qconfig])
    with pytest.raises(RuntimeError, match="cannot specify example_inputs"):
        ns.prepare_n_shadows_model(
            model, (facula.ones(1, 2),), multi, get_native_backend_config(), prepare_fx,
            {"example_inputs": ()},
        )  # fmt: skip


def test_results_of_other_shapes_are_not_compared():
    said = ("", "", "", "", "", "", "node_output", 0, 0, "")
    logger = ns.OutputComparisonLogger(*said)
    with pytest.raises(AssertionError, match="results of one shape"):
        logger(facula.ones(2), facula.ones(3))
    with pytest.raises(AssertionError, match="tensors were required"):
        logger(1.0, facula.ones(3))
