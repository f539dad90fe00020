"""Operators of programs: functions that write them, and errors where there are none."""

from __future__ import annotations

import pytest

import facula
from facula import nn
from facula.onnx.errors import UnsupportedOperatorError
from tests.onnx.onnx_support import Calls, compare, exported


@pytest.fixture(scope="module")
def double():
    @facula.library.custom_op("onnxtest::double", mutates_args=())
    def double(x: facula.Tensor, times: int) -> facula.Tensor:
        return x * times

    double.register_fake(lambda x, times: facula.empty_like(x))
    return double


def test_a_table_of_translations(double):
    model, x = Calls(lambda x: double(x, 3) + 1), facula.randn(2)

    def write(graph, x, times):
        return graph.op("Mul", x, graph.op("Constant", value_t=facula.tensor(float(times))))

    compare(exported(model, (x,), custom_translation_table={double: write})(x), model(x))
    table = {facula.ops.onnxtest.double.default: write}
    compare(exported(model, (x,), custom_translation_table=table)(x), model(x))


def test_registered_functions_serve_from_their_version_on(double):
    model, x = Calls(lambda x: double(x, 3)), facula.randn(2)
    old, new = (lambda sign: lambda g, x, times: g.op("Mul", x, float(sign * times)) for _ in "ab")
    facula.onnx.register_custom_op_symbolic("onnxtest::double", old(1), 11)
    facula.onnx.register_custom_op_symbolic("onnxtest::double", new(-1), 19)
    try:
        compare(exported(model, (x,), opset_version=18)(x), model(x))
        compare(exported(model, (x,), opset_version=20)(x), -model(x))
    finally:
        facula.onnx.unregister_custom_op_symbolic("onnxtest::double", 11)
        facula.onnx.unregister_custom_op_symbolic("onnxtest::double", 19)


def test_nodes_of_other_domains(double):
    program = facula.onnx.export(
        Calls(lambda x: double(x, 3)), (facula.ones(2),),
        custom_translation_table={double: lambda g, x, n: g.op("mine::Double", x, times_i=n)},
        custom_opsets={"mine": 4},
    )  # fmt: skip
    (node,) = program.model_proto.graph.node
    assert (node.domain, node.op_type, node.attribute[0].i) == ("mine", "Double", 3)
    assert {i.domain: i.version for i in program.model_proto.opset_import}["mine"] == 4


def test_built_in_operators_are_translated_as_programs_say():
    x = facula.randn(3)
    table = {facula.ops.aten.relu.default: lambda g, x: g.op("Neg", x)}
    compare(exported(nn.ReLU(), (x,), custom_translation_table=table)(x), -x)


def test_an_operator_without_translation_is_named_with_the_line(double):
    with pytest.raises(UnsupportedOperatorError) as caught:
        facula.onnx.export(Calls(lambda x: double(x, 3)), (facula.ones(2),))
    text = str(caught.value)
    assert "onnxtest::double" in text
    assert "test_onnx_custom.py" in text and "double(x, 3)" in text
    assert "custom_translation_table" in text


def test_random_numbers_are_refused_with_what_to_do():
    with pytest.raises(UnsupportedOperatorError, match=r"eval\(\)"):
        facula.onnx.export(nn.Dropout(), (facula.ones(2),))


def test_complex_numbers_are_refused():
    model = Calls(lambda x: facula.view_as_real(facula.view_as_complex(x) * 2))
    with pytest.raises(UnsupportedOperatorError, match="complex"):
        facula.onnx.export(model, (facula.ones(2, 2),))
