"""What errors and graphs say of types: members of unions, keys of dictionaries, inputs of traces."""

from typing import Optional, Union

import pytest

import facula


def test_a_union_names_its_members_in_the_order_of_files():
    @facula.jit.script
    def numbers(x: int | None | float | str):
        return 0

    assert "Union(float, int, NoneType, str)" in str(numbers.graph)


def test_an_argument_of_no_member_is_told_the_union_and_its_own_type():
    @facula.jit.script
    def one(x: int | str):
        return x

    match = r"Expected a value of type 'Union\[int, str\]' for argument 'x'.*found type List\[str\]"
    with pytest.raises(RuntimeError, match=match):
        one(["a"])
    with pytest.raises(RuntimeError, match="found type dict"):
        one({})


def keyed_by_tuples(x: dict[tuple[int, int], str]):
    return x


def keyed_by_unions():
    x: dict[int | str, str] = {}
    return x


@pytest.mark.parametrize("function", [keyed_by_tuples, keyed_by_unions])
def test_keys_that_no_file_can_hold(function):
    with pytest.raises(
        RuntimeError, match="(?s)Cannot create dict for key type.*hint: join the parts"
    ):
        facula.jit.script(function)


def test_a_slice_is_not_deleted():
    def program(x: list[int]):
        del x[1:3]
        return x

    with pytest.raises(RuntimeError, match="deletion at a single index"):
        facula.jit.script(program)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1, r"Type 'Tuple\[int\]' cannot be traced"),
        ({"a": 1}, r"Type 'Tuple\[Dict\[str, int\]\]' cannot be traced"),
        ([], "List trace inputs must have elements"),
        ({1: []}, "List trace inputs must have elements"),
        ({}, "Dictionary inputs must have entries"),
        (
            [facula.ones(1), (facula.ones(1),)],
            r"consistent element type.*Tensor and Tuple\[Tensor\]",
        ),
    ],
)
def test_inputs_that_a_trace_cannot_take(given, said):
    with pytest.raises(RuntimeError, match=said):
        facula.jit.trace(lambda x: x, (given,))


def test_sizes_that_are_symbols_are_kept():
    @facula.jit.script
    def like(x, y):
        return x.view(y.size())

    graph = like.graph
    *_, other = graph.inputs()
    symbol = facula._C._new_symbolic_shape_symbol()
    other.setType(other.type().with_sizes([5, 8, symbol]))
    facula._C._jit_pass_propagate_shapes_on_graph(graph)
    (result,) = graph.outputs()
    assert result.type().symbolic_sizes() == [5, 8, symbol]


def test_a_list_type_needs_a_type():
    with pytest.raises(RuntimeError, match="Can not create ListType with None type"):
        facula._C.ListType(None)


def test_a_dictionary_that_no_file_can_hold_stays_in_python():
    class Cached(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {(1, 2): 3}

        def forward(self, x):
            return x + 1

    assert facula.jit.script(Cached())(facula.ones(1)).tolist() == [2.0]


def test_an_optional_union_is_one_union():
    @facula.jit.script
    def chosen(flag: bool) -> str:
        x: Optional[Union[int, str]] = None  # noqa: UP007, UP045
        if flag:
            x = "a"
        return "none" if x is None else "some"

    assert "Union(int, NoneType, str)" in str(chosen.graph)
    assert (chosen(True), chosen(False)) == ("some", "none")
