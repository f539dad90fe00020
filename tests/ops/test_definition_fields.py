"""What may be said of an operator is declared: misspelt and mistyped fields are refused where it is defined."""

import ast
import re
from pathlib import Path

import pytest

import facula
from facula import fx
from facula.ops.table.definition import Definition
from facula.ops.table.registry import (
    TABLE,
    Composite,
    Operator,
    Pointwise,
    View,
    composite,
    operator,
    pointwise,
    view,
)  # fmt: skip

SOURCE = Path(facula.__file__).parent
KINDS = (Definition, Pointwise, View, Operator, Composite)


def body_of_class(**parts):
    return type("body", (), parts)


@pytest.mark.parametrize(
    "define, fields, said",
    [
        (pointwise, {"refrence": "numpy.sin"}, "did you mean 'reference'"),
        (pointwise, {"geometry": "view"}, "kind Pointwise was required: got 'geometry'"),
        (composite, {"inplce": True}, "did you mean 'inplace'"),
        (pointwise, {"inplace": 1}, "'inplace' was required to be bool: got 1"),
        (pointwise, {"result": "floating"}, "'result' was required to be Literal.*got 'floating'"),
        (pointwise, {"strict": "self"}, "'strict' was required to be tuple.*got 'self'"),
        (pointwise, {"check": "positive"}, "'check' was required to be Callable"),
        (composite, {"overload": 3}, r"'overload' was required to be str \| None: got 3"),
    ],
)
def test_a_keyword_that_is_no_field_or_of_another_type(define, fields, said):
    with pytest.raises(TypeError, match=said):
        define("test_definition_field(Tensor self) -> Tensor", **fields)(lambda x: x)
    assert "test_definition_field" not in TABLE


@pytest.mark.parametrize(
    "define, parts, said",
    [
        (operator, {"bacward": staticmethod(lambda grad: grad)}, "did you mean 'backward'"),
        (operator, {"meta": "like"}, "'meta' was required to be Callable"),
        (view, {"geometri": "t"}, "did you mean 'geometry'"),
    ],
)
def test_a_part_of_a_class_that_is_no_field(define, parts, said):
    with pytest.raises(TypeError, match=said):
        define("test_definition_field(Tensor self) -> Tensor")(body_of_class(**parts))
    assert "test_definition_field" not in TABLE


def test_all_fields_are_annotated_and_described():
    files = (SOURCE / "ops" / "table" / "definition.py", SOURCE / "ops" / "table" / "registry.py")
    described = set()
    for file in files:
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                above = text.splitlines()[node.lineno - 2].strip()
                described |= (
                    {node.target.id} if above.startswith("#: ") or above[:2] == "#:" else set()
                )
    for kind in KINDS:
        assert not kind.FIELDS.keys() - described
        values = {n for n, v in vars(kind).items() if not n.startswith("_") and not callable(v)}
        values -= {n for n in values if isinstance(vars(kind)[n], property)}
        assert not values - kind.FIELDS.keys() - {"kind", "FIELDS"}


def test_nobody_asks_whether_a_definition_has_a_field():
    asked = re.compile(r"(getattr|hasattr)\((\w+\.)*definition,")
    texts = {p: p.read_text() for p in [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pxi")]}
    assert not [p for p, text in texts.items() if asked.search(text)]


def test_calls_of_operators_that_write_are_not_removed_as_dead():
    @facula.library.custom_op("test_fields::fill", mutates_args={"x"})
    def fill(x: facula.Tensor, value: float) -> None:
        x.fill_(value)

    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(facula.ops.test_fields.fill.default, (x, 2.0))
    graph.call_function(facula.sin, (x,))
    graph.output(x)
    assert graph.eliminate_dead_code()
    assert [node.op for node in graph.nodes] == ["placeholder", "call_function", "output"]
    module = fx.GraphModule({}, graph)
    assert module(facula.zeros(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_gradient_that_is_written_by_hand_says_why():
    by_hand = {
        name: op.definition.explicit_backward
        for name, op in TABLE.items()
        if op.definition.kind == "pointwise" and op.definition.explicit_backward is not None
    }
    assert by_hand and not [name for name, body in by_hand.items() if not body.__doc__]
