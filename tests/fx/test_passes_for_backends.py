"""Passes that backends build upon: what they change is told from the graph and from values."""

import operator
import os
import typing

import pytest

import facula
from facula import fx, nn
from facula.fx.passes import (
    annotate_getitem_nodes,
    graph_manipulation,
    param_fetch,
    pass_manager,
    shape_prop,
    split_module,
    tools_common,
)
from facula.fx.passes.backends import cudagraphs
from facula.fx.passes.graph_transform_observer import GraphTransformObserver
from facula.fx.passes.utils import common, fuser_utils, source_matcher_utils
from facula.fx.passes.utils.matcher_with_name_node_map_utils import (
    SubgraphMatcherWithNameNodeMap,
)


def names(gm):
    return [node.name for node in gm.graph.nodes]


class Pair(typing.NamedTuple):
    x: int
    y: facula.Tensor


@pytest.mark.parametrize(
    ("kind", "place", "wanted"),
    [
        (list[int], 0, int),
        (list[int], slice(0, 1), list[int]),
        (tuple[int, str], 1, str),
        (tuple[int, ...], 5, int),
        (tuple[int, str], 7, None),
        (dict[str, float], "a", float),
        (typing.List[int], 0, int),  # noqa: UP006 - programs write it so
        (Pair, 1, facula.Tensor),
        (None, 0, None),
    ],
)
def test_types_of_parts(kind, place, wanted):
    graph = fx.Graph()
    x = graph.placeholder("x", type_expr=kind)
    part = graph.call_function(operator.getitem, (x, place))
    graph.output(part)
    annotate_getitem_nodes.annotate_getitem_nodes(graph)
    assert part.type == wanted


def test_what_a_backend_needs_of_layers():
    inner = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2, bias=False)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.inner, self.act = nn.Conv2d(1, 1, 3, padding=2), inner, nn.Tanh()

        def forward(self, x):
            return self.act(self.inner(self.conv(x)))

    class Tracer(fx.Tracer):
        def is_leaf_module(self, module, name):
            return True

    model = Model()
    gm = fx.GraphModule(model, Tracer().trace(model))
    param_fetch.lift_lowering_attrs_to_nodes(gm)
    _, conv, _, act, _ = gm.graph.nodes
    assert conv.attrs_for_lowering["padding"] == (2, 2)
    assert conv.attrs_for_lowering["weight"] is model.conv.weight
    assert list(act.attrs_for_lowering) == ["name"]
    assert list(inner.graph.nodes)[1].attrs_for_lowering["bias"] is None
    model.conv._version = 99
    with pytest.raises(RuntimeError, match="Conv2d of version 1: got 99\nhint: "):
        param_fetch.extract_attrs_for_lowering(model.conv)


def test_passes_in_an_order():
    def add(x):
        return x + 1

    def double(x):
        return 2 * x

    manager = pass_manager.PassManager.build_from_passlist([add, double])
    assert manager(3) == 8
    manager.add_pass(pass_manager.loop_pass(add, n_iter=2))
    assert manager(3) == 10
    manager.add_constraint(pass_manager.this_before_that_pass_constraint(double, add))
    with pytest.raises(RuntimeError, match="an order that the constraints allow"):
        manager(3)
    manager.remove_pass(["add"])
    assert manager(3) == 6
    manager.replace_pass(double, add)
    assert manager(3) == 4
    looped = pass_manager.loop_pass(double, predicate=lambda x: x < 100)
    assert looped(3) == 192 and looped(100) == 100
    with pytest.raises(AssertionError, match="exactly one of"):
        pass_manager.loop_pass(add)
    before = pass_manager.these_before_those_pass_constraint(add, double)
    wrapped = [pass_manager.log_hook(one) for one in (add, double)]
    assert before(*wrapped) and not before(*reversed(wrapped))
    with pytest.raises(RuntimeError, match="order"):
        pass_manager.PassManager(wrapped[::-1], [before]).validate()


def test_what_a_pass_made_and_took(tmp_path):
    gm = fx.symbolic_trace(lambda x: x.neg() + 1)

    def exchange(graph):
        x, neg, *_ = graph.nodes
        with graph.inserting_before(neg):
            new = graph.call_function(facula.relu, (x,))
        neg.replace_all_uses_with(new)
        graph.erase_node(neg)
        return 7

    seen = GraphTransformObserver(gm, "exchange", log_url=str(tmp_path))
    assert seen.apply_graph_pass(exchange) == 7
    assert (seen.created_nodes, seen.erased_nodes) == ({"relu"}, {"neg"})
    number = GraphTransformObserver.get_current_pass_count()
    wanted = {f"pass_{number}_exchange_{which}_graph.dot" for which in ("input", "output")}
    assert set(os.listdir(tmp_path)) == wanted
    drawings = {path.name.split("_")[-2]: path.read_text() for path in tmp_path.iterdir()}
    assert "neg" in drawings["input"] and "neg" not in drawings["output"]
    gm.graph.placeholder("later")
    assert seen.created_nodes == {"relu"}  # nothing is heard any more
    quiet = GraphTransformObserver(gm, "nothing", log_url=str(tmp_path))
    quiet.apply_gm_pass(lambda gm: None)
    assert len(os.listdir(tmp_path)) == 2


def test_a_graph_as_a_module_of_its_own():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.ReLU())
    gm = fx.symbolic_trace(model)
    lifted, table = common.lift_subgraph_as_module(gm, gm.graph, "part")
    assert table == {"part.0.0": "0.0", "part.1": "1"}
    assert lifted.get_submodule("0.0") is model[0][0]
    x = facula.randn(3, 2)
    assert facula.equal(lifted(x), model(x))
    other = fx.symbolic_trace(model).graph
    assert common.compare_graphs(gm.graph, other)
    assert not common.compare_graphs(gm.graph, fx.symbolic_trace(model[0]).graph)


def test_named_nodes_of_patterns():
    def pattern(x, w):
        y = facula.matmul(x, w)
        z = facula.relu(y)
        return z, {"product": y, "result": z}

    gm = fx.symbolic_trace(lambda a, b: facula.relu(facula.matmul(a.sin(), b)) + 1)
    (match,) = SubgraphMatcherWithNameNodeMap(fx.symbolic_trace(pattern)).match(gm.graph)
    assert {key: node.name for key, node in match.name_node_map.items()} == {
        "product": "matmul",
        "result": "relu",
    }
    with pytest.raises(RuntimeError, match="last result is a dictionary"):
        SubgraphMatcherWithNameNodeMap(fx.symbolic_trace(lambda x: x + 1))


def test_nodes_by_their_sources():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act, self.second = nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)

        def forward(self, x):
            return self.second(self.act(self.first(x))).sigmoid()

    graph = facula.export.export(Model(), (facula.ones(1, 3),)).graph
    found = source_matcher_utils.get_source_partitions(graph, [nn.Linear, nn.ReLU, "sigmoid"])
    first, second = found[nn.Linear]
    (act,), (last,) = found[nn.ReLU], found["sigmoid"]
    connected = source_matcher_utils.check_subgraphs_connected
    assert connected(first, act) and connected(act, second) and connected(second, last)
    assert not connected(first, second) and not connected(act, first)
    assert act.input_nodes == first.output_nodes
    none = source_matcher_utils.get_source_partitions(graph, [nn.Linear], lambda node: False)
    assert none == {}


def test_groups_that_can_be_one_call():
    gm = fx.symbolic_trace(lambda x: x.sin().cos().tan())
    _, y, z, w, _ = gm.graph.nodes
    assert fuser_utils.validate_partition([y, z]) and not fuser_utils.validate_partition([y, w])
    with pytest.raises(AssertionError, match="Invalid partition"):
        fuser_utils.fuse_by_partitions(gm, [[y, w]])
    with pytest.raises(AssertionError, match="without a node in common"):
        fuser_utils.fuse_by_partitions(gm, [[y], [y, z]])


@pytest.mark.parametrize("results", [1, 2])
def test_a_module_in_the_place_of_nodes(results):
    def function(x):
        y = x.sin()
        z = y.cos()
        return (z + 1, y) if results == 2 else z + 1

    gm, x = fx.symbolic_trace(function), facula.randn(3)
    nodes = list(gm.graph.nodes)[1:3]
    made, inputs, outputs = fuser_utils.fuse_as_graphmodule(gm, nodes, "part")
    assert len(outputs) == results
    fuser_utils.insert_subgm(gm, made, inputs, outputs, insertion_point=nodes[-1])
    fuser_utils.erase_nodes(gm, nodes)
    gm.recompile()
    assert "part" in names(gm) and "sin" not in names(gm)
    leaves = facula.utils._pytree.tree_leaves
    for got, wanted in zip(leaves(gm(x)), leaves(function(x)), strict=True):
        assert facula.equal(got, wanted)


def test_orders_and_sizes():
    gm = fx.symbolic_trace(lambda x, y: x.sin() + y.cos())
    _, _, sin, cos, add, _ = gm.graph.nodes
    add.append(sin)
    order = names(tools_common.stable_topological_sort(gm))
    assert order.index("sin") < order.index("add") and order[-1] == "output"
    gm.graph.lint()
    with pytest.raises(RuntimeError, match="no tensor metadata"):
        graph_manipulation.get_tensor_meta(cos)
    shape_prop.ShapeProp(gm).propagate(facula.ones(2), facula.ones(3, 2))
    assert graph_manipulation.get_tensor_meta(add).shape == (3, 2)
    made = split_module.split_module_simple(gm, {sin: 0, cos: 1, add: 1})
    assert facula.equal(
        made(facula.ones(2), facula.ones(3, 2)), gm(facula.ones(2), facula.ones(3, 2))
    )
    assert [name for name, _ in made.named_children()] == ["submod_0", "submod_1"]


def test_recorded_graphs_need_their_device():
    gm = fx.symbolic_trace(lambda x: (x.sin(), x.cos()))
    x, sin, cos, _ = gm.graph.nodes
    for node in (x, sin, cos):
        node.meta["val"] = facula.ones(1, device="meta")
    support = cudagraphs.CudaGraphsSupport()
    assert not support.is_node_supported({}, x) and not support.is_node_supported({}, sin)
    del x.meta["val"], sin.meta["val"]
    assert support.is_node_supported({}, sin)  # nothing that is known speaks against it
    made = cudagraphs.partition_cudagraphs(gm, [facula.ones(2)])
    assert list(made.children()) == []
