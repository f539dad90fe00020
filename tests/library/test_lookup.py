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


def test_a_namespace_is_an_attribute_that_may_be_deleted():
    first = facula.ops.some_namespace_of_mine
    assert vars(facula.ops)["some_namespace_of_mine"] is first
    del facula.ops.some_namespace_of_mine
    assert "some_namespace_of_mine" not in vars(facula.ops)
    assert facula.ops.some_namespace_of_mine is first


def test_what_a_tensor_is_taken_for():
    x = facula.ones(2, 3)
    facula._assert_tensor_metadata(x, [2, 3], [3, 1], facula.float32, device="cpu")
    for wrong in (
        {"size": [3, 2]},
        {"stride": [1, 2]},
        {"dtype": facula.int32},
        {"device": "meta"},
    ):
        with pytest.raises(RuntimeError, match="mismatch"):
            facula._assert_tensor_metadata(x, **wrong)
