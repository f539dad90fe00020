"""Scripted functions and modules give what Python gives for the same source."""

import copy
import typing

import pytest
import scripted_code as code

import facula
from facula import jit
from facula.jit.annotations import BroadcastingList2, BroadcastingList3


def example():
    return facula.arange(6.0).reshape(2, 3) / 5


def fresh(arguments):
    return [a.clone() if isinstance(a, facula.Tensor) else copy.copy(a) for a in arguments]


def same(a, b):
    if isinstance(a, facula.Tensor):
        return facula.equal(a, b)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


CALLS = [
    (code.optional, (example(),)),
    (code.optional, (example(), example())),
    (code.loops, (9,)),
    (code.loops, (2,)),
    (code.early, (5, 3)),
    (code.early, (2, 3)),
    (code.endless, (3,)),
    (code.lists, ([example(), example() + 1],)),
    (code.indexing, (example(),)),
    (code.dicts, ({"a": 1, "b": 9}, code.Color.RED)),
    (code.dicts, ({"b": 9}, code.Color.BLUE)),
    (code.union, (3,)),
    (code.union, ("ab",)),
    (code.union, ([1, 2],)),
    (code.numbers, (1.5, 4)),
    (code.numbers, (-2.5, 1)),
    (code.texts, ("ab,cd",)),
    (code.anything, (4,)),
    (code.anything, ("x",)),
    (code.object_of_a_class, (5,)),
    (code.functional, (example(),)),
    (code.forked, (example(),)),
    (code.asserted, (example(),)),
    (code.swapped, ((3, example()),)),
    *((code.goes_on, (n,)) for n in (2, 4, 9)),
    (code.exits_of_exits, (7,)),
    *((code.chained, ([0, 1], n)) for n in (0, 1, 2)),
    (code.chained_tensors, (example(),)),
    (code.items_once, ([1, 2, 3], {"a": 1}, example())),
    (code.stripped, ("\t ab \n ",)),
]


@pytest.mark.parametrize(
    ("function", "arguments"), CALLS, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(CALLS)]
)
def test_a_scripted_function_gives_what_python_gives(function, arguments):
    assert same(jit.script(function)(*fresh(arguments)), function(*fresh(arguments)))


def test_is_scripting_is_true_in_scripts_only():
    x = example()
    assert same(jit.script(code.where_it_runs)(x), x + 1)
    assert same(code.where_it_runs(x), x)


def test_a_scripted_module_is_a_module():
    facula.manual_seed(0)
    model = code.Net().eval()
    scripted = jit.script(model)
    x = facula.randn(2, 1, 6, 6)
    assert same(scripted(x), model(x))
    assert list(scripted.state_dict()) == list(model.state_dict())
    assert isinstance(scripted, jit.ScriptModule) and scripted.original_name == "Net"
    scripted.train()
    assert scripted.training and scripted.conv.training and not model.training
    assert scripted.to(facula.float64).conv.weight.dtype == facula.float64


def test_exported_methods_compile_and_ignored_ones_stay():
    scripted = jit.script(code.Scaled())
    assert scripted.other(4) == 6
    assert "prim::PythonOp" not in str(scripted.graph)


def test_gradients_flow_through_scripts():
    x = example().requires_grad_()
    jit.script(code.functional)(x).square().sum().backward()
    y = example().requires_grad_()
    code.functional(y).square().sum().backward()
    assert same(x.grad, y.grad)


def test_the_graph_is_ssa_with_pytorchs_kinds():
    graph = jit.script(code.endless).graph
    assert str(graph).startswith("graph(%r : int):\n")
    assert graph.findNode("prim::Loop") is not None
    names = [v.debugName() for n in graph.all_nodes() for v in n.outputs()]
    assert len(names) == len(set(names))
    assert {"aten::add", "aten::remainder", "aten::eq"} <= {n.kind() for n in graph.all_nodes()}


def test_assertions_and_exceptions_keep_their_types():
    with pytest.raises(AssertionError, match="want 2 got 1"):
        jit.script(code.asserted)(facula.ones(3))
    with pytest.raises(ValueError, match="same"):
        jit.script(code.larger)(3, 3)


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (code.Unfit(), ["return x + 1", "str was required", "got Tensor", "HERE"]),
        (code.unfit_operand, ["return y - 1", "aten::sub", "(str, int)", "HERE"]),
        (code.unfit_loop, ['x = "a"', "keep its type int", "got str", "HERE"]),
        (code.with_try, ["try", "hint: test the condition beforehand"]),
    ],
)
def test_an_error_names_the_line_and_both_types(function, texts):
    with pytest.raises(RuntimeError) as caught:
        jit.script(function)
    assert "scripted_code.py" in str(caught.value)
    for text in texts:
        assert text in str(caught.value)


def test_arguments_are_checked_before_anything_runs():
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'n'"):
        jit.script(code.loops)("a")
    with pytest.raises(RuntimeError, match="a value for argument 'n'"):
        jit.script(code.loops)()


def test_a_class_stays_a_class():
    assert jit.script(code.Counter) is code.Counter
    assert jit.script(code.Color) is code.Color


@jit.script
class Signed:
    def __init__(self, x: int):
        self.x = x

    def __neg__(self) -> "Signed":
        return Signed(-self.x)

    def __invert__(self) -> int:
        return 7

    def __or__(self, other: "Signed") -> int:
        return self.x | other.x


def with_signed(a: int):
    v = Signed(a)
    return (-v).x, ~v, v | Signed(1)


def test_unary_operators_and_bits_of_a_class():
    assert jit.script(with_signed)(4) == (-4, 7, 5)


def into_out(x):
    o = facula.empty(2, 3)
    facula.add(x, x, out=o)
    facula.mul(o, 2.0, out=o)
    return o


def test_results_are_written_to_out():
    x = facula.arange(6.0).reshape(2, 3)
    assert facula.equal(jit.script(into_out)(x), x * 4)

    class Out(facula.nn.Module):
        def forward(self, x):
            return into_out(x)

    frozen = jit.freeze(jit.script(Out()).eval())  # the write is no dead code
    assert facula.equal(frozen(x), x * 4)


def test_an_argument_that_does_not_fit_shows_the_declaration():
    with pytest.raises(
        RuntimeError, match=r"Position: 0\nValue: 'a'\nDeclaration: with_signed\(int a\)"
    ):
        jit.script(with_signed)("a")
    with pytest.raises(RuntimeError, match=r"at most 1 argument\(s\) but received 2 argument\(s\)"):
        jit.script(with_signed)(1, 2)


def broadcast(
    x: BroadcastingList3[float],
    y: typing.Optional[BroadcastingList2[int]] = None,  # noqa: UP045 - a form
    z: BroadcastingList2[int] = 1,
) -> tuple[list[float], list[int]]:
    return x, z


def calls_broadcast(a: float):
    return broadcast(a), broadcast([a, a, a], None, 3)


def test_one_number_stands_for_a_list_of_a_length():
    scripted = jit.script(broadcast)
    assert str(scripted.schema).startswith("broadcast(float[3] x, int[2]? y=None, int[2] z=1) ->")
    assert scripted(1.5, z=[4, 5]) == ([1.5] * 3, [4, 5])
    assert jit.script(calls_broadcast)(2.0) == (([2.0] * 3, [1, 1]), ([2.0] * 3, [3, 3]))


@pytest.mark.parametrize("kind", ["Dict", "List", "Tuple", "Optional"])
def test_a_container_without_the_types_inside_is_refused(kind):
    unit = jit.CompilationUnit()
    with pytest.raises(RuntimeError, match=f"Attempted to use {kind} without"):
        unit.define(f"def f(x: {kind}) -> int:\n    return 1\n")
