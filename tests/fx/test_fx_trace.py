"""Symbolic tracing, interpreters, rewriting and passes."""

import math

import pytest

import facula
import facula.nn.functional as F
from facula import fx, nn
from facula.fx.experimental.optimization import fuse, remove_dropout
from facula.fx.passes.graph_drawer import FxGraphDrawer
from facula.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from facula.fx.passes.operator_support import OperatorSupport
from facula.fx.passes.shape_prop import ShapeProp
from facula.fx.passes.split_module import split_module


@fx.wrap
def wrapped(x, power):
    return x**power if x.sum() > 0 else x


def test_wrapped_functions_are_one_step():
    traced = fx.symbolic_trace(lambda x: wrapped(x + 1, 2))
    assert [n.target for n in traced.graph.nodes if n.op == "call_function"][
        1
    ].__name__ == "wrapped"
    assert traced(facula.ones(2)).tolist() == [4.0, 4.0]
    assert wrapped(facula.ones(1), 3).item() == 1  # the name is as it was


def test_math_functions_of_proxies_are_recorded():
    traced = fx.symbolic_trace(lambda x: math.sqrt(x))
    assert traced(16.0) == 4.0


def test_control_flow_is_refused_with_a_way_out():
    with pytest.raises(fx.proxy.TraceError, match="control flow.*\n.*where"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    with pytest.raises(fx.proxy.TraceError, match="cannot be iterated"):
        fx.symbolic_trace(lambda x: [row for row in x])
    with pytest.raises(RuntimeError, match="len"):
        fx.symbolic_trace(lambda x: len(x))


def test_unpacking_and_concrete_arguments():
    def function(x, flag, pair):
        a, b = x.chunk(2)
        return a - b + pair["k"][0] if flag else a

    traced = fx.symbolic_trace(function, concrete_args={"flag": True, "pair": {"k": [fx.PH, 2]}})
    x = facula.arange(4.0)
    assert facula.equal(traced(x, True, {"k": [1.0, 2]}), function(x, True, {"k": [1.0, 2]}))
    with pytest.raises(AssertionError, match="specialized"):
        traced(x, True, {"k": [1.0, 3]})


def test_signatures_of_all_kinds():
    def function(a, b=3, *args, scale=2, **rest):
        return a + b * scale

    assert fx.symbolic_trace(function)(1, 2, scale=5) == 11


def test_leaf_modules_and_module_stack():
    class Leafy(fx.Tracer):
        def is_leaf_module(self, m, qualified_name):
            return isinstance(m, nn.Sequential) or super().is_leaf_module(m, qualified_name)

    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1))
    graph = Leafy().trace(model)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["0", "1"]


def test_modules_are_as_before_after_a_trace():
    before = facula.core.module_tracers()
    with pytest.raises(NameError, match="not installed as a submodule"):
        fx.symbolic_trace(lambda x: nn.Linear(2, 2)(x))
    assert facula.core.module_tracers() == before == (None, None)


def test_interpreter_runs_node_by_node_and_names_the_failing_one():
    traced = fx.symbolic_trace(lambda x: facula.sigmoid(x + x).neg())

    class Swapped(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return (
                facula.neg(*args)
                if target is facula.sigmoid
                else super().call_function(target, args, kwargs)
            )

    x = facula.randn(3)
    assert facula.equal(Swapped(traced).run(x), 2 * x)
    with pytest.raises(TypeError) as caught:
        fx.Interpreter(traced).run(None)
    assert "While executing %add" in str(caught.value)


def test_transformer_makes_a_module():
    class Swap(fx.Transformer):
        def call_method(self, target, args, kwargs):
            return args[0].relu() if target == "neg" else super().call_method(target, args, kwargs)

    changed = Swap(fx.symbolic_trace(lambda x: (x * -2).neg())).transform()
    assert changed(facula.tensor([1.0, -1.0])).tolist() == [0.0, 2.0]


def test_patterns_are_replaced_where_they_stand_alone():
    def function(x, y):
        a = F.relu(x + y)
        b = F.relu(a + y)
        inner = x + x
        return F.relu(inner), inner, b

    traced = fx.symbolic_trace(function)
    found = fx.replace_pattern(
        traced, lambda a, b: F.relu(a + b), lambda a, b: facula.sub(a, b).sigmoid()
    )
    assert len(found) == 2  # of the third, the sum is used elsewhere
    x, y = facula.randn(3), facula.randn(3)
    first = (x - y).sigmoid()
    assert facula.equal(traced(x, y)[2], (first - y).sigmoid()) and facula.equal(
        traced(x, y)[1], x + x
    )


def make_net():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(12, 2),
    ).eval()


def test_passes_keep_the_numbers():
    net, x = make_net(), facula.randn(2, 2, 4, 4)
    net[1].running_mean.fill_(0.3)
    fused = fuse(net)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in fused.modules())
    assert facula.allclose(fused(x), net(x), atol=1e-5)
    assert not any(isinstance(m, nn.Dropout) for m in remove_dropout(net).modules())
    traced = fx.symbolic_trace(net)
    ShapeProp(traced).propagate(x)
    assert {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes}["_4"] == (2, 12)
    numbers = {n: i // 2 for i, n in enumerate(traced.graph.nodes)}
    parts = split_module(traced, net, lambda n: numbers[n])
    assert facula.equal(parts(x), net(x)) and len(list(parts.children())) == 4
    assert FxGraphDrawer(traced, "net").get_dot_graph().create_svg().startswith(b"<svg")


def test_partitions_never_need_themselves_from_outside():
    def function(x):
        a = facula.sin(x)
        b = facula.tanh(a)  # not taken
        c = facula.sin(b)
        return facula.sin(a) + c

    traced = fx.symbolic_trace(function)
    taken = OperatorSupport({"facula.sin": None, "operator.add": None, "_operator.add": None})
    partitioner = CapabilityBasedPartitioner(traced, taken, allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    x = facula.randn(3)
    wanted = function(x)
    fused = partitioner.fuse_partitions(parts)
    assert facula.equal(fused(x), wanted) and len(parts) == 2


def test_assertions_are_recorded():
    class Net(nn.Module):
        def forward(self, x):
            facula._assert(x.shape[1] == 4, "Wrong width!")
            facula._assert_async(x.sum() > 0)
            return x + 1

    traced = fx.symbolic_trace(Net())
    assert traced(facula.ones(2, 4)).equal(facula.full((2, 4), 2.0))
    with pytest.raises(AssertionError, match="Wrong width!"):
        traced(facula.ones(2, 3))
    with pytest.raises(RuntimeError, match="nonzero"):
        traced(facula.zeros(2, 4))


def test_tracers_of_programs_know_the_arguments_that_they_know():
    class Names(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
            self.seen.append(target)
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(facula.full((2,), 3.0))

        def forward(self, x):
            return x * self.scale

    tracer = Names()
    tracer.seen = []
    graph = tracer.trace(Scaled())
    assert "scale" in tracer.seen and [n.op for n in graph.nodes][1] == "get_attr"


def test_other_packages_mark_what_they_keep():
    from facula.fx import _compatibility, _symbolic_trace

    def f():
        return 1

    marked = _symbolic_trace.compatibility(is_backward_compatible=True)(f)
    assert marked is f and marked() == 1
    assert _symbolic_trace.compatibility is _compatibility.compatibility
