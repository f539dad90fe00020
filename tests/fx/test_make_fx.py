"""Traces of operators: numbers, gradients, writes, transforms, and graphs for other sizes."""

import pytest

import facula
import facula.nn.functional as F
from facula import nn
from facula.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from facula.fx.experimental.symbolic_shapes import SymInt

aten = facula.ops.aten


def targets(graph_module):
    return [str(n.target) for n in graph_module.graph.nodes if n.op == "call_function"]


def loss_gradient(x, w):
    w = w.detach().requires_grad_()
    loss = F.cross_entropy(F.gelu(x @ w) * 2, facula.tensor([0, 1, 0]))
    return facula.autograd.grad(loss, w)[0]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_gradients_are_part_of_the_trace(mode):
    x, w = facula.randn(3, 4), facula.randn(4, 2)
    traced = make_fx(loss_gradient, tracing_mode=mode)(x, w)
    assert facula.allclose(traced(x, w), loss_gradient(x, w), atol=1e-6)
    assert all(name.startswith("aten.") or name.startswith("<built-in") for name in targets(traced))
    calls = [n for n in traced.graph.nodes if n.op == "call_function"]
    assert all("val" in n.meta for n in calls)
    assert any("loss_gradient" in n.meta.get("stack_trace", "") for n in calls)


def test_names_are_pytorchs():
    x, y = facula.randn(3, 4), facula.randn(4, 2)
    traced = make_fx(lambda x, y: (x.sin() @ y + 1 > 0).sum(0))(x, y)
    wanted = ["aten.sin.default", "aten.mm.default", "aten.add.Tensor", "aten.gt.Scalar"]
    assert targets(traced)[:4] == wanted and targets(traced)[-1] == "aten.sum.dim_IntList"
    assert [n.name for n in traced.graph.nodes][:3] == ["x_1", "y_1", "sin"]


def test_transforms_are_run_through():
    x = facula.randn(3, 4)
    gradient = facula.func.grad(lambda v: (v**3).sum())
    assert facula.allclose(make_fx(gradient)(x)(2 * x), 12 * x * x, atol=1e-4)
    batched = facula.vmap(lambda a, b: a @ b)
    assert facula.allclose(make_fx(batched)(x, x)(x, 2 * x), batched(x, 2 * x), atol=1e-5)


def test_writes_stay_writes():
    def function(x):
        y = x.clone()
        y.view(-1)[0:2].add_(1)
        y.mul_(2)
        y[1] = 3
        return y

    x = facula.randn(2, 3)
    traced = make_fx(function)(x)
    assert facula.equal(traced(x), function(x))
    assert {"aten.add_.Tensor", "aten.mul_.Tensor", "aten.copy_.default"} <= set(targets(traced))


def test_random_numbers_are_drawn_again():
    def function(x):
        return F.dropout(x) + facula.rand(3, 4) + facula.bernoulli(x.sigmoid())

    x = facula.randn(3, 4)
    traced = make_fx(function)(x)
    facula.manual_seed(3)
    first = traced(x)
    facula.manual_seed(3)
    assert facula.equal(first, function(x)) and not facula.equal(first, traced(x))


def test_constants_and_parameters_become_attributes():
    net, held = nn.Linear(4, 2), facula.ones(2)
    traced = make_fx(lambda x: net(x) + held)(facula.randn(3, 4))
    names = {n.target for n in traced.graph.nodes if n.op == "get_attr"}
    assert names == {"_param_constant0", "_param_constant1", "_tensor_constant0"}
    assert traced._param_constant0 is net.weight


def test_nested_inputs_and_results():
    x = facula.randn(2)
    traced = make_fx(lambda d, k: {"sum": d["a"] + d["b"][0] * k})({"a": x, "b": [x * 2]}, 3)
    assert facula.allclose(traced({"a": x, "b": [x]}, 3)["sum"], 4 * x)


def test_decompositions_replace_operators():
    table = {aten.tanh.default: lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())}
    x = facula.randn(3)
    traced = make_fx(lambda x: x.tanh(), decomposition_table=table)(x)
    assert "aten.tanh.default" not in targets(traced) and facula.allclose(
        traced(x), x.tanh(), atol=1e-6
    )


def test_numbers_read_from_results_are_refused():
    assert get_proxy_mode() is None
    with pytest.raises(RuntimeError, match="number cannot be read"):
        make_fx(lambda x: x * x.sum().item())(facula.ones(2))
    assert get_proxy_mode() is None and not facula.core.DISPATCH_MODES


# ------------------------------------------------------------------ other sizes


def attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def convolved(x, w):
    return F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2).flatten(1)


OTHER_SIZES = {
    "view": (lambda x: x.view(x.shape[0], -1) * x.shape[1], [(3, 4, 5)], [(6, 2, 8)]),
    "cat": (lambda x, y: facula.cat([x, y]).t()[1:], [(3, 4), (5, 4)], [(7, 9), (2, 9)]),
    "stack": (lambda x: facula.stack([x, x]).permute(1, 0, 2).flatten(1), [(6, 8)], [(9, 2)]),
    "quotient": (lambda x: x.reshape(-1, 4).sum(1) + x.numel() // 4, [(6, 8)], [(5, 12)]),
    "creation": (lambda x: facula.zeros(x.shape[0] * 2) + x.sum(), [(3, 4)], [(6, 5)]),
    "convolution": (convolved, [(2, 3, 8, 8), (4, 3, 3, 3)], [(5, 3, 13, 13), (4, 3, 3, 3)]),
    "attention": (attention, [(2, 4, 6, 8)] * 3, [(3, 5, 9, 8)] * 3),
}


@pytest.mark.parametrize("name", OTHER_SIZES)
def test_symbolic_graphs_serve_other_sizes(name):
    function, first, second = OTHER_SIZES[name]
    inputs = [facula.randn(*s) for s in first]
    traced = make_fx(function, tracing_mode="symbolic")(*inputs)
    others = [facula.randn(*s) for s in second]
    fakes = [n.meta["val"] for n in traced.graph.nodes if n.op == "placeholder"]
    assert traced.shape_env.evaluate_guards_for_args(fakes, others), (
        traced.shape_env.format_guards()
    )
    for args in (inputs, others):
        assert facula.allclose(traced(*args), function(*args), atol=1e-4)


def test_guards_do_not_depend_on_earlier_calls():
    # what eager calls remember of their sizes must not meet symbols
    _, sizes, _ = OTHER_SIZES["convolution"]
    inputs = [facula.randn(*s) for s in sizes]
    found = []
    for _ in range(2):
        traced = make_fx(convolved, tracing_mode="symbolic")(*inputs)
        found.append([g.expr for g in traced.shape_env.guards])
        convolved(*inputs)
    assert found[0] == found[1] and not any("==" in expr for expr in found[0])


def test_control_flow_on_sizes_is_guarded():
    def function(x):
        return x * 2 if x.shape[0] > 4 else x * 3

    x = facula.randn(6, 2)
    traced = make_fx(function, tracing_mode="symbolic")(x)
    fakes = [n.meta["val"] for n in traced.graph.nodes if n.op == "placeholder"]
    assert [g.expr for g in traced.shape_env.guards] == ["s0 > 4"]
    assert traced.shape_env.evaluate_guards_for_args(fakes, [facula.randn(9, 2)])
    assert not traced.shape_env.evaluate_guards_for_args(fakes, [facula.randn(3, 2)])
    assert traced.shape_env.evaluate_guards_for_args(fakes, [facula.randn(9, 3)])


def test_sizes_that_are_used_as_numbers_are_fixed():
    traced = make_fx(lambda x: x * int(x.shape[0]), tracing_mode="symbolic")(facula.randn(6, 7))
    assert [g.expr for g in traced.shape_env.guards] == ["s0 == 6"]


def test_arithmetic_on_symbols_keeps_value_and_expression():
    from facula.fx.shape_env import ShapeEnv

    env = ShapeEnv()
    a, b = env.create_symint(6), env.create_symint(10)
    number = (a * b + 2 * a) // a - b % 4
    assert number == 6 * 12 // 6 - 2 and isinstance(number, SymInt)
    assert str(a * b - b * a) == "0" and (a * b) // b == a and not env.guards[1:]
    assert a + 1 > a and a >= 2 and env.create_symint(1) == 1
    assert sum([a, b]) == 16 and max(a, b) is b and [0] * a == [0] * 6


def test_numbers_of_a_finished_graph_become_nodes():
    traced = make_fx(lambda x: x.sin(), tracing_mode="symbolic")(facula.randn(6, 7))
    fake = traced.graph.find_nodes(op="placeholder")[0].meta["val"]
    with traced.graph.inserting_before(traced.graph.output_node()):
        node = traced.graph.materialize_symint(fake.shape[0] * 2 + 1)
    traced.graph.output_node().args = (node,)
    traced.recompile()
    assert traced(facula.randn(5, 7)) == 11


THEIRS = {
    "nonzero": (lambda x: x.nonzero(), [(3,)], "aten.nonzero.default"),
    "convolution": (F.conv2d, [(2, 3, 8, 8), (4, 3, 3, 3)], "aten.convolution.default"),
    "group norm": (lambda x: F.group_norm(x, 3), [(2, 6, 4)], "aten.native_group_norm.default"),
    "max pool": (
        lambda x: F.max_pool2d(x, 2),
        [(2, 3, 4, 4)],
        "aten.max_pool2d_with_indices.default",
    ),
    "softmax": (lambda x: x.softmax(-1), [(2, 3)], "aten._softmax.default"),
    "norm": (lambda x: x.norm(), [(2, 3)], "aten.linalg_vector_norm.default"),
}


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", THEIRS)
def test_traces_show_operators_of_pytorch(name, mode):
    function, shapes, expected = THEIRS[name]
    inputs = [facula.randn(*shape) for shape in shapes]
    traced = make_fx(function, tracing_mode=mode)(*inputs)
    assert expected in targets(traced)
    facula.testing.assert_close(traced(*inputs), function(*inputs))
    if name != "nonzero":  # whose size depends on elements
        compiled = facula.compile(traced, fullgraph=True)
        facula.testing.assert_close(compiled(*inputs), function(*inputs), atol=1e-5, rtol=1e-5)


def test_group_norm_is_called_with_either_arguments():
    x = facula.randn(2, 6, 4)
    call = facula.ops.aten.native_group_norm.default
    ours, theirs = call(x, 3, None, None, 1e-5), call(x, None, None, 2, 6, 4, 3, 1e-5)
    for left, right in zip(ours, theirs, strict=True):
        assert facula.equal(left, right)


def test_what_makes_tensors_says_where_they_lie():
    def program(x):
        rows = facula.zeros(2, dtype=facula.float64), facula.arange(3), facula.rand(2, device="cpu")
        return (*rows, facula.ones_like(x), x.new_full((2,), 3.0), x.double())

    made = make_fx(program)(facula.ones(2))
    given = {
        node.name: list(node.kwargs.items())
        for node in made.graph.nodes
        if node.op == "call_function"
    }
    place = [("device", facula.device("cpu")), ("pin_memory", False)]
    assert given["zeros"] == [("dtype", facula.float64), *place]
    assert given["arange"] == given["rand"] == place
    assert given["ones_like"] == given["new_full"] == [("pin_memory", False)]
    assert given["to_copy"] == [("dtype", facula.float64)]
    assert made(facula.full((2,), 2.0))[4].tolist() == [3.0, 3.0]
