"""Passes over flat graphs, each alone; the verifier; attention written by hand.

Takes traced programs.
Keeps true: a pass changes what it is named for, results stay, and memory that the caller sees stays
memory of its own.
"""

import math

import pytest

import facula
from facula import nn
from facula.compiler import options, pipeline
from facula.fx import Graph, GraphModule
from facula.fx.proxy_tensor import make_fx
from facula.lower.passes import attention, canonical, common, dead_code, fold, no_ops
from facula.lower.verify import verify

F = nn.functional


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake")(*inputs)


def names(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def count(module, name):
    return sum(n.startswith(f"aten.{name}.") for n in names(module))


def after(run, module):
    changed = run(module.graph)
    module.recompile()
    verify(module)
    return changed


def test_unused_nodes_go_and_draws_stay():
    x = facula.randn(3)
    module = traced(lambda x: x * 2, x)
    graph = module.graph
    product = next(n for n in graph.nodes if n.op == "call_function")
    with graph.inserting_before(product):
        graph.call_function(facula.ops.aten.sin.default, (product.args[0],))
        state = graph.call_function(facula.ops.aten._philox_state.default, ())
    assert dead_code.remove_dead_code(graph) == 1
    assert state in graph.nodes


def test_equal_calls_become_one():
    x = facula.randn(3)
    module = traced(lambda x: x.sin() + x.sin() * x.sin(), x)
    assert after(common.join_common_calls, module) == 2 and count(module, "sin") == 1
    assert facula.allclose(module(x), x.sin() + x.sin() ** 2)


def test_two_results_stay_two_tensors():
    x = facula.randn(3)
    module = traced(lambda x: (x.sin(), x.sin()), x)
    assert after(common.join_common_calls, module) == 0
    a, b = module(x)
    assert a.data_ptr() != b.data_ptr()


def test_draws_are_not_joined():
    module = traced(lambda x: x + facula.rand(3) + facula.rand(3), facula.randn(3))
    common.join_common_calls(module.graph)
    assert count(module, "rand") == 2


def test_what_changes_nothing_goes():
    x = facula.randn(3, 4)

    def program(x):
        y = (x + 1).clone()
        y = y.view(3, 4).expand(3, 4) * 1
        return (y / 1).sum(0)

    module = traced(program, x)
    after(no_ops.remove_no_ops, module)
    assert [n.split(".")[1] for n in names(module)] == ["add", "sum"]
    assert facula.allclose(module(x), program(x))


def test_a_copy_that_the_caller_sees_stays():
    x = facula.randn(3)
    module = traced(lambda x: x.clone().view(3, 1), x)
    after(no_ops.remove_no_ops, module)
    assert count(module, "clone") == 1
    assert module(x).data_ptr() != x.data_ptr()


def test_views_of_views_are_one_view():
    x = facula.randn(2, 3, 4)
    module = traced(lambda x: x.view(6, 4).view(24) * x.permute(2, 0, 1).permute(1, 2, 0).sum(), x)
    assert after(no_ops.merge_views, module) == 2
    dead_code.remove_dead_code(module.graph)
    assert count(module, "view") == 1 and count(module, "permute") == 1


def test_calls_on_constants_are_done_once():
    held = facula.tensor([1.0, 2.0])
    module = make_fx(lambda x: x * (held + 1).exp())(facula.randn(2))
    x = facula.randn(2)
    assert fold.fold_constants(module) >= 1
    dead_code.remove_dead_code(module.graph)
    module.recompile()
    assert names(module) == ["aten.mul.Tensor"]
    assert facula.allclose(module(x), x * (held + 1).exp())


def test_arguments_have_one_form():
    graph = Graph()
    x = graph.placeholder("x")
    total = graph.call_function(
        facula.ops.aten.sum.default, (), {"self": x, "dim": 0, "keepdim": False}
    )
    graph.output(total)
    assert canonical.canonical_arguments(graph) == 1
    assert total.args == (x, 0) and total.kwargs == {}


def test_the_pipeline_runs_and_verifies_each_pass():
    module = traced(lambda x: x.clone().sin() + x.sin(), facula.randn(3))
    before = [each.runs for each in pipeline.OPTIMISING]
    with options.patch(debug=True):
        pipeline.optimise(module)
    assert [each.runs for each in pipeline.OPTIMISING] == [runs + 1 for runs in before]
    assert [n.name for n in module.graph.nodes if "clone" in n.name] == []


def test_the_verifier_names_a_write():
    module = make_fx(lambda x: x.clone().add_(1))(facula.randn(3))
    with pytest.raises(AssertionError, match="writes nothing"):
        verify(module)


def test_the_verifier_compares_metas():
    module = traced(lambda x: x.sum(0), facula.randn(3, 4))
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.meta["val"] = node.args[0].meta["val"]
    with pytest.raises(AssertionError, match="follows from its arguments"):
        verify(module)


# ------------------------------------------------------------------ attention


def captured(function, *inputs):
    """A graph of public functions with metas, as capture gives it."""
    from facula.fx import symbolic_trace
    from facula.fx.interpreter import Interpreter

    module = symbolic_trace(function)

    class Noted(Interpreter):
        def run_node(self, n):
            n.meta["val"] = super().run_node(n)
            return n.meta["val"]

    Noted(module).run(*inputs)
    return module


ROOT = 4.0
ATTENTION = {
    "div": lambda q, k, v: facula.matmul(
        facula.matmul(q, k.transpose(-2, -1)).div(ROOT).softmax(dim=-1), v
    ),
    "mul": lambda q, k, v: facula.softmax((q @ k.transpose(2, 3)) * 0.25, -1) @ v,
    "permuted": lambda q, k, v: F.softmax(q @ k.permute(0, 1, 3, 2) / ROOT, dim=3) @ v,
    "permuted by a tuple": lambda q, k, v: (q @ k.permute((0, 1, -1, -2)) / ROOT).softmax(3) @ v,
    "axes swapped": lambda q, k, v: (q @ k.swapaxes(-1, 2) / ROOT).softmax(3) @ v,
    "other layout": lambda q, k, v: (q @ (k * 1).transpose(-2, -1)).softmax(-1) @ v,
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_recognised(name):
    facula.manual_seed(0)
    q, k, v = (facula.randn(2, 3, 5, 4) for _ in range(3))
    module = captured(ATTENTION[name], q, k, v)
    assert attention.recognise_attention(module.graph) == 1
    module.recompile()
    called = [getattr(n.target, "__name__", n.target) for n in module.graph.nodes]
    assert "scaled_dot_product_attention" in called and "matmul" not in called
    # the operator takes keys as they are, so nothing is turned any more
    assert not {"transpose", "swapaxes", "permute", "mT"} & set(map(str, called))
    assert facula.allclose(module(q, k, v), ATTENTION[name](q, k, v), atol=1e-6)


def test_masked_attention_is_recognised():
    q, k, v = (facula.randn(2, 3, 5, 4) for _ in range(3))
    bias, hole = facula.randn(5, 5), facula.ones(5, 5).triu(1) > 0

    def added(q, k, v, bias):
        return (q @ k.transpose(-2, -1) / math.sqrt(4) + bias).softmax(-1) @ v

    def filled(q, k, v, hole):
        return (q @ k.transpose(-2, -1) / 2).masked_fill(hole, float("-inf")).softmax(-1) @ v

    for program, mask in ((added, bias), (filled, hole)):
        module = captured(program, q, k, v, mask)
        assert attention.recognise_attention(module.graph) == 1
        module.recompile()
        assert facula.allclose(module(q, k, v, mask), program(q, k, v, mask), atol=1e-6)


LOOKALIKES = {
    "other normaliser": lambda q, k, v: (q @ k.transpose(-2, -1) / 4).sigmoid() @ v,
    "other dimension": lambda q, k, v: (q @ k.transpose(-2, -1) / 4).softmax(dim=-2) @ v,
    "weights on the right": lambda q, k, v: (
        v.transpose(-2, -1) @ (q @ k.transpose(-2, -1)).softmax(-1)
    ),
    "dropout": lambda q, k, v: F.dropout((q @ k.transpose(-2, -1)).softmax(-1), 0.5) @ v,
    "no product": lambda q, k, v: (q * 2).softmax(-1) @ v.transpose(-2, -1),
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_look_alikes_are_left_alone(name):
    q, k, v = (facula.randn(2, 3, 5, 4) for _ in range(3))
    module = captured(LOOKALIKES[name], q, k, v)
    assert attention.recognise_attention(module.graph) == 0


def test_weights_that_are_read_elsewhere_stay():
    q, k, v = (facula.randn(2, 3, 5, 4) for _ in range(3))

    def program(q, k, v):
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return weights @ v, weights

    assert attention.recognise_attention(captured(program, q, k, v).graph) == 0


def test_graph_modules_stay_runnable():
    module = traced(lambda x: (x * 2).clone().sum(), facula.randn(3))
    assert isinstance(pipeline.optimise(module), GraphModule)
    assert module(facula.ones(3)).item() == 6


def test_norms_of_transposed_rows_lie_as_eager_has_them():
    norm, linear = facula.nn.LayerNorm(8), facula.nn.Linear(16, 4)

    def program(x):
        return linear(norm(x.transpose(1, 2)).transpose(1, 2))

    x = facula.randn(2, 8, 16)
    call = facula.compile(program, options={"debug": True})
    assert facula.allclose(call(x), program(x), atol=1e-6)
