"""Passes over graphs: what a function gives stays, and the graph says less."""

from __future__ import annotations

import pytest

import facula
from facula.testing import FileCheck

C = facula._C


def count(function, kind):
    return len(function.graph.findAllNodes(kind))


def folded(x: int) -> int:
    a = 2 * 3
    if a == 6:
        b = a + 2
    else:
        b = a // 0
    return b - x


def test_constants_are_computed_and_branches_taken():
    made = facula.jit.script(folded)
    C._jit_pass_constant_propagation(made.graph)
    made.graph.lint()
    assert [n.kind() for n in made.graph.nodes()] == ["prim::Constant", "aten::sub"]
    assert made(3) == folded(3) == 5


def draws():
    return facula.randn([3]) + 2


def test_draws_are_not_computed_beforehand():
    made = facula.jit.script(draws)
    C._jit_pass_constant_propagation(made.graph)
    assert count(made, "aten::randn") == 1 and not facula.equal(made(), made())


def gathers():
    found = [i * i for i in range(5)]
    found.append(7)
    return found


def test_a_loop_that_fills_a_list_becomes_a_constant():
    made = facula.jit.script(gathers)
    for name in ("loop_unrolling", "remove_mutation", "constant_propagation"):
        getattr(C, f"_jit_pass_{name}")(made.graph)
        made.graph.lint()
    assert [n.kind() for n in made.graph.nodes()] == ["prim::Constant"]
    first = made()
    first.append(9)  # each call gives a list of its own
    assert made() == gathers() == [0, 1, 4, 9, 16, 7]


def summed(x, n: int):
    for i in range(n):
        x = x * 2 + i
    return x


def test_loops_of_unknown_length_do_several_turns_at_once():
    made = facula.jit.script(summed)
    C._jit_pass_loop_unrolling(made.graph)
    made.graph.lint()
    assert count(made, "prim::Loop") == 2
    x = facula.tensor([1.0, -2.0], dtype=facula.float64)
    for turns in (0, 1, 7, 8, 9, 16, 21):
        assert facula.equal(made(x, turns), summed(x, turns))


def written(x):
    y = x + 1
    y.mul_(3)
    z = facula.zeros([2])
    z.fill_(4)
    v = y[0]
    v.add_(1)
    return y, z


def test_writes_to_what_the_graph_makes_become_values():
    made = facula.jit.script(written)
    C._jit_pass_remove_mutation(made.graph)
    made.graph.lint()
    left = [n.kind() for n in made.graph.all_nodes() if n.kind().endswith("_")]
    assert left == ["aten::add_"]  # that through a view stays
    x = facula.tensor([1.0, 2.0])
    for a, b in zip(made(x), written(x), strict=True):
        assert facula.equal(a, b)


def outside(x):
    x.add_(1)
    return x * 1


def test_writes_to_inputs_stay():
    made = facula.jit.script(outside)
    for name in ("remove_mutation", "peephole", "dce", "cse"):
        getattr(C, f"_jit_pass_{name}")(made.graph)
    x = facula.zeros(2)
    assert made(x).tolist() == [1.0, 1.0] == x.tolist()


def twice(x, y):
    return (x + y) * (x + y), facula.tanh(x) - facula.tanh(x)


def test_equal_computations_are_done_once():
    made = facula.jit.script(twice)
    C._jit_pass_cse(made.graph)
    made.graph.lint()
    assert count(made, "aten::add") == 1 and count(made, "aten::tanh") == 1
    x, y = facula.tensor([1.0, 2.0]), facula.tensor([3.0, 5.0])
    assert [v.tolist() for v in made(x, y)] == [[16.0, 49.0], [0.0, 0.0]]


def alike(x):
    return x + x, x + x


def test_two_results_stay_two_tensors():
    made = facula.jit.script(alike)
    C._jit_pass_cse(made.graph)
    a, b = made(facula.ones(2))
    a.zero_()
    assert b.tolist() == [2.0, 2.0]


def unused(x):
    y = x.clone()
    y.add_(1)
    z = facula.rand(2)
    z.mul_(2)
    print("seen")
    return x + 0


def test_what_nobody_sees_goes(capsys):
    made = facula.jit.script(unused)
    C._jit_pass_dce(made.graph)
    made.graph.lint()
    left = {n.kind() for n in made.graph.all_nodes()}
    assert left == {"prim::Constant", "prim::Print", "aten::add"}
    made(facula.ones(2))
    assert capsys.readouterr().out == "seen\n"


def known_length(x: list[int], y: list[int]) -> int:
    if len(x) != 4 or len(y) != 5:
        raise ValueError("other lengths")
    return len(x) + len(y)


def test_branches_say_lengths():
    made = facula.jit.script(known_length)
    C._jit_pass_peephole_list_idioms(made.graph, refine_list_len=True)
    C._jit_pass_constant_propagation(made.graph)
    made.graph.lint()
    FileCheck().check("value=9").check_next("return").run(made.graph)
    assert made([0] * 4, [0] * 5) == 9
    with pytest.raises(facula.jit.Error, match="other lengths"):
        made([0], [0])


def pairs(x, y: tuple[int, facula.Tensor]):
    a = (x, y)
    b, (c, d) = a
    return b + d * c, (c, (b, c))


def test_tuples_are_taken_apart():
    made = facula.jit.script(pairs)
    graph = made.graph.copy()
    C._jit_pass_lower_all_tuples(graph)
    graph.lint()
    assert not graph.findAllNodes("prim::TupleConstruct") and not graph.findAllNodes(
        "prim::TupleUnpack"
    )
    flat = C._create_function_from_graph("flat", graph)
    x = facula.tensor([1.0, 2.0])
    first, (c, (b, again)) = made(x, (3, x))
    got = flat(x, 3, x)
    assert (
        facula.equal(got[0], first)
        and got[1] == c == 3
        and facula.equal(got[2], b)
        and got[3] == again
    )


TEXT = """graph(%x : Tensor,
      %n : int):
  %two : int = prim::Constant[value=2]()
  %many : bool = aten::gt(%n, %two)
  %y : Tensor = prim::If(%many)
    block0():
      %a : Tensor = aten::mul(%x, %n)
      -> (%a)
    block1():
      -> (%x)
  return (%y)
"""


def test_graphs_are_read_from_their_text():
    graph = C.parse_ir(TEXT)
    assert str(graph) == TEXT
    made = C._create_function_from_graph("f", graph)
    assert made(facula.ones(2), 5).tolist() == [5.0, 5.0] and made(facula.ones(2), 1).tolist() == [
        1.0,
        1.0,
    ]


def test_comments_in_the_text_of_a_graph_are_passed_over():
    lines = TEXT.replace("  return", "    # CHECK: one\n  # and two\n  return").splitlines()
    assert str(C.parse_ir("\n".join(lines))) == TEXT
    FileCheck().run("# CHECK: aten::gt\n# CHECK-NOT: aten::gt\n# CHECK-NEXT: ->", "aten::gt\n->")


@pytest.mark.parametrize("text", [
    "", "graph", "graph(%x", "graph(%x : Tensor):", "graph(%x : Nothing):\n return (%x)", "graph():\n return (%y)",
    "graph(%x : Tensor):\n %y = aten::add(%x, %z)\n return (%y)", "graph(" + "(" * 500, "graph():\n" + "%a = prim::If(",
])  # fmt: skip
def test_what_is_no_graph_is_an_error(text):
    with pytest.raises(RuntimeError, match="parse_ir"):
        C.parse_ir(text)


def test_patterns_are_replaced():
    graph = C.parse_ir(
        "graph(%x, %y, %z):\n %t = aten::mul(%x, %y)\n %u = aten::mul(%t, %z)\n return (%u)"
    )
    C._jit_pass_custom_pattern_based_rewrite_graph(
        "graph(%a, %b, %c):\n %q = aten::mul(%a, %b)\n %r = aten::mul(%q, %c)\n return (%r)",
        "graph(%a, %b, %c):\n %q = aten::mul(%b, %c)\n %r = aten::mul(%a, %q)\n return (%r)",
        graph,
    )
    graph.lint()
    first, second = graph.nodes()
    x, y, z = graph.inputs()
    assert list(first.inputs()) == [y, z] and next(second.inputs()) is x


def squashed(x):
    y = x + 1
    return facula.nn.functional.relu(y)


def test_activations_in_place_and_back():
    made = facula.jit.script(squashed)
    C._jit_pass_inline(made.graph)
    C._jit_pass_functional_to_inplace_activation(made.graph)
    assert count(made, "aten::relu_") == 1
    C._jit_pass_inplace_to_functional_activation(made.graph)
    assert count(made, "aten::relu_") == 0 and count(made, "aten::relu") == 1
    assert made(facula.tensor([-3.0, 2.0])).tolist() == [0.0, 3.0]


def less(x: int) -> int:
    return 8 - x


def test_nodes_are_made_moved_and_destroyed():
    made = facula.jit.script(less)
    graph = made.graph
    last = graph.findNode("aten::sub")
    with graph.insert_point_guard(last):
        number = graph.insertConstant(10)
    last.replaceInput(0, number)
    graph.lint()
    assert made(3) == 7
    with pytest.raises(RuntimeError, match="nobody reads"):
        last.destroy()
    graph.permuteInputs([0])
    with pytest.raises(RuntimeError, match="each of 0 to 0"):
        graph.permuteInputs([1])


def test_reads_before_their_values_are_found():
    graph = C.parse_ir(TEXT)
    graph.findNode("aten::gt").moveAfter(graph.findNode("prim::If"))
    with pytest.raises(RuntimeError, match="made before"):
        C._jit_pass_lint(graph)


def test_what_stands_behind_branches_that_raise_is_not_nested():
    body = "".join(
        f"    if n == {i}:\n        raise RuntimeError('{i}')\n    n = n + 10\n" for i in range(6)
    )
    made = facula.jit.CompilationUnit(f"def f(n: int) -> int:\n{body}    return n\n").f
    made.graph.lint()
    assert len(made.graph.findAllNodes("prim::If", recurse=False)) == 6
    assert made(7) == 67
    with pytest.raises(facula.jit.Error, match="0"):
        made(0)


def text_twice():
    print("a\tb\n", "a\tb\n")


def test_texts_show_tabs_and_stand_once():
    made = facula.jit.script(text_twice)
    assert '[value="a\\tb\\n"]' in str(made.graph) and count(made, "prim::Constant") == 2


def changes(x: int):
    y = "text"
    if x > 1:
        y = 3
    return y


def test_a_variable_of_another_type_is_named_with_both():
    with pytest.raises(
        RuntimeError,
        match="'y' previously had type str but is now being assigned to a value of type int",
    ):
        facula.jit.script(changes)


def test_matches_behind_each_other_are_all_replaced():
    chain = "".join(f" %v{i + 1} = aten::mul(%v{i}, %y)\n" for i in range(4))
    graph = C.parse_ir(f"graph(%v0, %y):\n{chain} return (%v4)")
    C._jit_pass_custom_pattern_based_rewrite_graph(
        "graph(%a, %b):\n %q = aten::mul(%a, %b)\n %r = aten::mul(%q, %b)\n return (%r)",
        "graph(%a, %b):\n %r = aten::sub(%a, %b)\n return (%r)",
        graph,
    )
    graph.lint()
    assert [n.kind() for n in graph.nodes()] == ["aten::sub", "aten::sub"]
    first, second = graph.nodes()
    assert next(second.inputs()) is first.output()


def test_a_node_is_cloned_into_another_graph():
    source = facula._C.parse_ir(
        """graph(%a : Tensor, %c : bool):
          %b : Tensor = prim::If(%c)
            block0():
              %d : Tensor = aten::relu(%a)
              -> (%d)
            block1():
              -> (%a)
          return (%b)"""
    )
    target = facula._C.Graph()
    values = {value: target.addInput() for value in source.inputs()}
    for node in source.nodes():
        clone = target.createClone(node, values.__getitem__)
        target.appendNode(clone)
        values.update(zip(node.outputs(), clone.outputs(), strict=True))
    for result in source.outputs():
        target.registerOutput(values[result])
    given = list(target.inputs())
    (clone,) = target.nodes()
    (relu,) = next(iter(clone.blocks())).nodes()
    assert clone.kind() == "prim::If" and next(iter(clone.inputs())) is given[1]
    assert next(iter(relu.inputs())) is given[0]
    target.lint()


def test_a_value_is_an_instance_of_a_type():
    check = facula._C._jit_assert_is_instance
    numbers = facula._C.ListType(facula._C.IntType.get())
    check([1, 2], numbers)
    check(facula.ones(1), facula._C.TensorType.get())
    with pytest.raises(RuntimeError, match=r"a value of type List\[int\] was required: got list"):
        check([1.0], numbers)
