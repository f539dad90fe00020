"""Operators are found by their qualified names, under PyTorch's own module names."""

import pytest

import facula
from facula._library import utils


def test_overloads_by_name():
    assert utils.lookup_op("aten::sin") is facula.ops.aten.sin.default
    assert utils.lookup_op("aten::add.Tensor") is facula.ops.aten.add.Tensor
    assert isinstance(facula.ops.aten.sin.default, facula._ops.OpOverload)
    assert isinstance(facula.ops.aten.sin, facula._ops.OpOverloadPacket)
    assert utils.parse_namespace("mylib::scale") == ("mylib", "scale")
    with pytest.raises(ValueError, match="of that form"):
        utils.parse_namespace("scale")


@pytest.mark.parametrize(
    "schema, functional",
    [
        ("foo(Tensor x) -> Tensor", True),
        ("foo(Tensor(a!) x) -> Tensor", False),
        ("foo(Tensor(a) x) -> Tensor(a)", False),
        ("foo(Tensor x) -> ()", False),
        ("foo() -> Tensor", True),
        ("foo(Tensor x) -> (Tensor, Tensor)", True),
    ],
)
def test_schemas_that_write_nothing(schema, functional):
    assert utils.is_functional_schema(schema) is functional
