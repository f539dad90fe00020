"""Schemas as objects: read, written, compared, and those of operators and scripts.

Expected texts are written out by hand from the grammar; the rules of compatibility by what a call means.
"""

import typing

import pytest

import facula
from facula import _C, jit, nn
from facula.ops.table.overloads import named_overload
from facula.ops.table.registry import own_operators
from facula.ops.table.schemas.overloads import names_of_overloads

TEXTS = [
    "f() -> ()",
    'my::f.over(Tensor(a!) self, int[2] k=1, *, float[3] z=[1., 2., 3.], str m="it\'s") -> (Tensor(a!) v, int n)',
    "f(Tensor(a -> *) x, Tensor(b|c!) y, t[](d!) l, Tensor?[] m) -> Tensor(a)[]",
    "f(Dict(str, int) d, (int, Tensor) t, Future(int) g, Union(int, str)? u=None) -> ((int, Tensor))",
    "f(Scalar? s=None, ScalarType? dtype=None, Layout? l=None, MemoryFormat? m=None, SymInt q=3) -> Tensor?",
    "f(int x, ...) -> ...",
    "f(float a=1.0000000000000001e-05, bool[2] b=[True, False], int[] c=[], Device d=cpu) -> Scalar",
]


@pytest.mark.parametrize("text", TEXTS[:-1])
def test_a_text_is_read_and_written(text):
    schema = _C.parse_schema(text)
    # futures are written with square brackets
    assert str(schema) == text.replace("Future(int)", "Future[int]").replace("it's", "it\\'s")
    again = _C.parse_schema(str(schema))
    assert again == schema and hash(again) == hash(schema)


def test_parts_of_a_schema():
    schema = _C.parse_schema(TEXTS[1])
    assert (schema.name, schema.overload_name, schema.is_mutable) == ("my::f", "over", True)
    first, second, third, fourth = schema.arguments
    assert first.alias_info.is_write and first.alias_info.before_set == {"a"} and not first.is_out
    assert (second.type, second.N, second.default_value) == (_C.ListType.ofInts(), 2, [1, 1])
    assert third.kwarg_only and third.default_value == [1.0, 2.0, 3.0]
    assert fourth.default_value == "it's" and isinstance(fourth.type, _C.StringType)
    assert [r.name for r in schema.returns] == ["v", "n"]
    dtype = _C.parse_schema("f(ScalarType? d=float) -> ()").arguments[0]
    assert dtype.type == _C.OptionalType(_C.IntType.get()) and dtype.default_value == 6
    assert str(dtype.real_type) == "Optional[ScalarType]" and dtype.type.kind() == "OptionalType"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f(", "expected ident"),
        ("f(x) -> int", "expected ident"),
        ("f(Foo x) -> int", "unknown type specifier"),
        ("f(int x=zz) -> int", "invalid numeric default value"),
        ("f(int x=1, int y) -> int", "Non-default positional argument follows default"),
        ("f(int a, int b=0, ...)", r"can't have default value args"),
        ("a::b::c(int x) -> int", "expected"),
        ("f(int[3][2] x) -> int", "expected ident"),
        ("f(" + "(" * 500 + "int x) -> int", "inside of each other"),
    ],
)
def test_what_is_no_schema_is_an_error_with_the_place(text, said):
    with pytest.raises(RuntimeError, match=said):
        _C.parse_schema(text)


@pytest.mark.parametrize(
    ("new", "old", "backward", "forward"),
    [
        ("f(Tensor x, int n=1) -> Tensor", "f(Tensor x) -> Tensor", True, True),
        ("f(Tensor x, int[2] n=1) -> Tensor", "f(Tensor x) -> Tensor", True, False),
        ("f(Tensor x, int n) -> Tensor", "f(Tensor x) -> Tensor", False, False),
        ("f(Tensor x) -> Tensor", "f(Tensor x) -> Tensor?", True, True),
        ("f(Tensor x) -> Tensor?", "f(Tensor x) -> Tensor", False, True),
        ("f(Tensor? x) -> Tensor", "f(Tensor x) -> Tensor", True, False),
        ("f(Tensor x, int n=4) -> Tensor", "f(Tensor x, int n=1) -> Tensor", False, False),
        ("f(Tensor x, int n=2) -> Tensor", "f(Tensor x, *, int n=2) -> Tensor", True, True),
        ("f(Tensor x, *, int n) -> Tensor", "f(Tensor x, int n) -> Tensor", False, False),
        ("g(Tensor x) -> Tensor", "f(Tensor x) -> Tensor", False, False),
        ("f(int a, *, Tensor(a!) out) -> Tensor(a!)", "f(int a) -> Tensor(a!)", True, False),
    ],
)
def test_which_changes_leave_programs_working(new, old, backward, forward):
    made, before = _C.parse_schema(new), _C.parse_schema(old)
    assert made.is_backward_compatible_with(before) is backward
    works, why = made.check_forward_compatible_with(before)
    assert works is forward and bool(why) is not forward


def parts_of(text):
    """The arguments in the text of a definition: commas inside of brackets and quotes part nothing."""
    found, depth, quoted = [""], 0, False
    for character in text[text.index("(") + 1 : text.rindex("->")].rstrip()[:-1]:
        quoted ^= character in "'\""
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth and not quoted:
            found.append("")
        else:
            found[-1] += character
    return [part for part in found if part.strip() not in ("", "*")]


def test_each_schema_of_the_table_reads_as_itself_and_has_the_defaults_of_the_definition():
    for name, operator in own_operators().items():
        space = name.rpartition("::")[0] or "aten"
        for own in names_of_overloads(operator):
            schema = named_overload(space, name.rpartition("::")[2], own, operator)._schema
            again = _C.parse_schema(str(schema))
            assert again == schema, name
        needed = ["=" not in part for part in parts_of(operator.definition.schema.text)]
        plain = named_overload(space, "x", names_of_overloads(operator)[0], operator)._schema
        assert [not a.has_default_value() for a in plain.arguments] == needed, name
    assert len(_C._jit_get_all_schemas()) > 1000


def test_forms_of_operators():
    aten = facula.ops.aten
    assert str(aten.add_.Tensor._schema) == (
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
    )
    assert str(aten.add.Scalar._schema.arguments[1]) == "Scalar other"
    assert str(aten.pow.Scalar._schema.arguments[0]) == "Scalar self"
    assert str(aten.transpose.int._schema).startswith("aten::transpose.int(Tensor(a) self")
    out = aten.add.out._schema
    assert out.arguments[-1].is_out and str(out.returns[0]) == "Tensor(a!)"
    assert "complex" in [s.overload_name for s in _C._jit_get_schemas_for_operator("aten::add")]
    assert _C._jit_get_schemas_for_operator("aten::there_is_none") == []
    assert _C._get_operation_overload("aten::add", "none") is None
    found, _, _tags = _C._get_operation_overload("aten::add", "Tensor")
    assert facula.equal(found(facula.ones(2), facula.ones(2)), facula.full((2,), 2.0))
    assert _C._get_schema("aten::relu", "").name == "aten::relu"
    with pytest.raises(RuntimeError, match="Found no matching schema"):
        _C._get_schema("aten::relu", "none")


class Kept(nn.Module):
    items: list[tuple[facula.Tensor]]

    def __init__(self):
        super().__init__()
        self.items = [(facula.ones(2),)]

    def forward(self, x, n: int = 3, names: typing.Optional[dict[str, int]] = None):  # noqa: UP045 - a form
        return [(self.items[0][0] + x,)], n


def test_the_schema_of_a_script():
    schema = jit.script(Kept()).forward.schema
    said = "int n=3, Dict(str, int)? names=None) -> (((Tensor)[], int))"
    assert str(schema).endswith(f"Kept self, Tensor x, {said}")
    assert [a.has_default_value() for a in schema.arguments] == [False, False, True, True]
    assert isinstance(schema.returns[0].type, _C.TupleType)
    assert schema.arguments[0].type.kind() == "ClassType"


def test_a_tuple_of_one_out_of_a_list_is_that_tuple():
    rows, _ = jit.script(Kept())(facula.ones(2))
    assert type(rows[0]) is tuple and rows[0][0].tolist() == [2.0, 2.0]
