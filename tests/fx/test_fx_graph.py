"""Graphs: building, editing, checking, printing, copying; modules that run them."""

import copy
import operator
import pickle

import pytest

import facula
from facula import fx, nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.scale = nn.Parameter(facula.full((3,), 2.0))
        self.register_buffer("shift", facula.ones(3))

    def forward(self, x, flag=True):
        y = facula.relu(self.linear(x)) * self.scale + self.shift
        return {"y": y, "rows": [y[0], y.sum(1)]}


def test_traced_module_computes_the_same_and_is_readable():
    model, x = Small(), facula.randn(2, 4)
    traced = fx.symbolic_trace(model)
    traced.graph.lint()
    assert facula.equal(traced(x)["y"], model(x)["y"])
    assert [n.op for n in traced.graph.nodes][:3] == ["placeholder", "placeholder", "call_module"]
    assert (
        "facula.relu(linear)" in traced.code and "def forward(self, x, flag = True)" in traced.code
    )
    assert {name for name, _ in traced.named_parameters()} == {
        n for n, _ in model.named_parameters()
    }


@pytest.mark.parametrize(
    "again", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_run_alone(again):
    x = facula.randn(2, 4)
    traced = fx.symbolic_trace(Small())
    other = again(traced)
    assert facula.equal(other(x)["y"], traced(x)["y"])
    for node in other.graph.find_nodes(op="call_function", target=facula.relu):
        node.target = facula.neg
    other.recompile()
    assert "facula.relu" in traced.code and "facula.relu" not in other.code


def test_users_and_arguments_stay_together():
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    total = graph.call_function(operator.add, (a, (b, [a])))
    assert list(a.users) == [total] and total.all_input_nodes == [a, b]
    total.replace_input_with(a, b)
    assert not a.users and total.args == (b, (b, [b]))
    with graph.inserting_before(total):
        doubled = graph.call_method("mul", (b, 2))
    b.replace_all_uses_with(doubled, delete_user_cb=lambda n: n is not doubled)
    assert doubled.args == (b, 2) and total.args[0] is doubled
    assert [n.name for n in graph.nodes] == ["a", "b", "mul", "add"]
    total.insert_arg(0, 7)
    total.update_arg(0, 8)
    total.update_kwarg("alpha", 1)
    assert total.args[0] == 8 and total.kwargs == {"alpha": 1} and doubled < total
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(doubled)
    with pytest.raises(TypeError, match="does not support mutation"):
        total.args[2][1].append(1)


def test_lint_says_what_is_wrong():
    graph = fx.Graph()
    a = graph.placeholder("a")
    first = graph.call_function(facula.sin, (a,))
    second = graph.call_function(facula.cos, (first,))
    first.prepend(second)
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()
    with pytest.raises(ValueError, match="a callable was required"):
        graph.call_function("sin", (a,))


def test_dead_code_goes_and_writes_stay():
    def function(x):
        facula.sin(x)
        facula.rand(2)
        x.add_(1)
        return x

    traced = fx.symbolic_trace(function)
    assert traced.graph.eliminate_dead_code()
    assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_method", "output"]


def test_code_can_be_changed_before_it_is_compiled():
    traced = fx.symbolic_trace(lambda x: x + 1)

    def insert(_):
        return lambda body: ["x = x * 10\n", *body]

    with traced.graph.on_generate_code(insert):
        traced.recompile()
        assert traced(facula.ones(1)).item() == 11
    traced.recompile()
    assert traced(facula.ones(1)).item() == 2


def test_values_that_need_names_in_code():
    def function(x):
        y = x.clamp(-float("inf"), 1.5).to(facula.float64)
        return y[..., :1], facula.zeros(2, device=facula.device("cpu")), (-2) * y

    traced = fx.symbolic_trace(function)
    x = facula.randn(3)
    for got, wanted in zip(traced(x), function(x), strict=True):
        assert facula.equal(got, wanted) and got.dtype is wanted.dtype
    assert "-inf" in traced.code and "facula.float64" in traced.code


def test_submodules_are_added_and_unused_ones_deleted(tmp_path, monkeypatch):
    traced = fx.symbolic_trace(Small())
    assert traced.add_submodule("deep.inner", nn.ReLU())
    assert isinstance(traced.get_submodule("deep.inner"), nn.ReLU)
    traced.delete_all_unused_submodules()
    assert [n for n, _ in traced.named_modules()] == ["", "linear"]
    traced.to_folder(tmp_path / "written")
    monkeypatch.syspath_prepend(str(tmp_path))
    from written import FxModule

    x = facula.randn(2, 4)
    assert facula.equal(FxModule()(x)["y"], traced(x)["y"])


def test_text_forms(capsys):
    traced = fx.symbolic_trace(lambda x: facula.sin(x).neg())
    assert (
        "%sin : [num_users=1] = call_function[target=facula.sin](args = (%x,), kwargs = {})"
        in str(traced.graph)
    )
    traced.graph.print_tabular()
    assert "call_method    neg" in capsys.readouterr().out
    assert traced.print_readable(print_output=False).startswith(
        "class GraphModule(facula.nn.Module):"
    )


def leaf(x):
    return x + 1


fx.wrap("leaf")


def test_code_names_the_functions_that_are_leaves():
    traced = fx.symbolic_trace(lambda x: leaf(x))
    wrapped = f'facula.fx._symbolic_trace.wrap("{__name__.replace(".", "_")}_leaf")'
    assert traced.code.startswith(f"\n{wrapped}\n\ndef forward(self, x):\n")
    assert traced(facula.ones(1)).item() == 2
    assert fx.symbolic_trace(lambda x: x).code.startswith("\n\n\ndef forward")


def test_tables_are_as_wide_as_tabulate_makes_them(capsys):
    fx.symbolic_trace(lambda x: x + 1).graph.print_tabular()
    head, line, first, call, last = capsys.readouterr().out.splitlines()
    assert head == "opcode         name    target                   args    kwargs"
    assert line == "-------------  ------  -----------------------  ------  --------"
    assert first == "placeholder    x       x                        ()      {}"
    assert call == "call_function  add     <built-in function add>  (x, 1)  {}"
    assert last == "output         output  output                   (add,)  {}"
