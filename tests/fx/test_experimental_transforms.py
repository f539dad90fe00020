"""Transforms of `fx.experimental`: values as before, and the form that each promises."""

import operator
import pickle

import pytest

import facula
from facula import fx, nn
from facula.fx.annotate import annotate
from facula.fx.experimental import debug, meta_tracer
from facula.fx.experimental.merge_matmul import are_nodes_independent, merge_matmul
from facula.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from facula.fx.experimental.rewriter import RewritingTracer
from facula.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from facula.fx.operator_schemas import create_type_hint, type_matches
from facula.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise


class Traced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", facula.randn(4))

    def forward(self, x):
        own = facula.ones(4)
        own += x
        return own, self.b + x, self.b * x, self.b - x, self.b @ x, self.b < x, x - self.b


def test_tensors_meet_proxies_on_either_side():
    model, other = Traced(), Traced()
    other.b.copy_(model.b)
    x = facula.randn(4)
    for got, wanted in zip(fx.symbolic_trace(model)(x), other(x), strict=True):
        assert facula.equal(got, wanted)


@pytest.mark.parametrize("only_names", [True, False])
def test_arguments_get_one_form(only_names):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x, y):
            return self.linear(facula.add(x, y, alpha=2)) + facula.sum(y, 0)

    gm = fx.symbolic_trace(Model())
    for node in gm.graph.nodes:
        node.meta["place"] = node.name
        node.type = None if node.op == "output" else facula.Tensor
    made = NormalizeArgs(gm, normalize_to_only_use_kwargs=only_names).transform()
    x, y = facula.randn(2, 3), facula.randn(2, 3)
    assert facula.equal(made(x, y), gm(x, y))
    by_target = {node.target: node for node in made.graph.nodes}
    assert bool(by_target[facula.add].args) is not only_names
    assert bool(by_target["linear"].args) is not only_names
    assert by_target[facula.add].meta["place"] == "add"
    assert by_target[facula.add].type is facula.Tensor
    if only_names:
        assert set(by_target["linear"].kwargs) == {"input"}


@pytest.mark.parametrize("name", "add mul sub div floor_divide remainder eq ne lt le gt ge".split())
def test_arithmetic_as_operators(name):
    function = getattr(facula, name)
    x, y = facula.randn(3, 4), facula.randn(3, 4)
    for gm, args in (
        (fx.symbolic_trace(lambda x, y: function(x, y)), (x, y)),
        (fx.symbolic_trace(lambda x: function(x, other=2)), (x,)),
    ):
        made = NormalizeOperators(gm).transform()
        assert facula.equal(made(*args), gm(*args))
        (node,) = (node for node in made.graph.nodes if node.op == "call_function")
        assert node.target.__module__ == "_operator" and len(node.args) == 2
    kept = NormalizeOperators(fx.symbolic_trace(lambda x, y: facula.add(x, y, alpha=2))).transform()
    assert any(node.target is facula.add for node in kept.graph.nodes)


def test_types_by_schemas():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.w = nn.ReLU(), nn.Parameter(facula.ones(2))

        def forward(self, x):
            a, b = facula.max(x, 0)
            return self.act(x).sum(), a, b

    graph = AnnotateTypesWithSchema(fx.symbolic_trace(Model())).transform().graph
    types = {node.name: node.type for node in graph.nodes}
    assert types["act"] is facula.Tensor
    assert types["getitem"] is None and types["sum_1"] is None
    plain = AnnotateTypesWithSchema(fx.symbolic_trace(Model()), annotate_modules=False).transform()
    assert [node.type for node in plain.graph.nodes if node.op == "call_module"] == [None]


@pytest.mark.parametrize("count", [2, 4])
def test_products_with_one_factor(count):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(facula.randn(3, 2))

        def forward(self, *xs):
            return [facula.matmul(xs[i], self.w) for i in range(count)]

    model = Model()
    made = merge_matmul(model)
    xs = [facula.randn(i + 1, 3) for i in range(count)]
    for got, x in zip(made(*xs), xs, strict=True):
        assert facula.allclose(got, x @ model.w, atol=1e-6)
    assert sum(node.target is facula.matmul for node in made.graph.nodes) == 1


def test_products_that_need_each_other_stay_apart():
    class Model(nn.Module):
        def forward(self, x, w):
            return facula.matmul(facula.matmul(x, w).abs(), w)

    made = merge_matmul(Model())
    assert sum(node.target is facula.matmul for node in made.graph.nodes) == 2
    x, y, *_ = fx.symbolic_trace(lambda x: x.sin()).graph.nodes
    assert not are_nodes_independent([x, y])


SCALE = 3


def test_assertions_become_nodes():
    class Inner(nn.Module):
        def forward(self, a):
            assert a.sum() > 0
            return a * SCALE

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, a, b):
            text = """
no indent"""
            assert (a > b).all(), "not above" + text
            c: facula.Tensor = self.inner(a)
            return c + b

    model = Model()
    tracer = RewritingTracer()
    graph = tracer.trace(model)
    gm = fx.GraphModule(tracer.root, graph)
    a, b = facula.tensor([2.0, 3.0]), facula.tensor([1.0, 1.0])
    assert facula.equal(gm(a, b), model(a, b))
    with pytest.raises(AssertionError, match="not above\nno indent"):
        gm(b, a)
    with pytest.raises(AssertionError):
        gm(-b, -a)
    assert sum(node.target is facula._assert for node in graph.nodes) == 2
    assert facula.Tensor in [node.type for node in graph.nodes]
    assert type(model.inner) is Inner and model.inner is model._modules["inner"]


@pytest.mark.parametrize("rows", [15, 35])
def test_shapes_are_known_while_tracing(rows):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm = nn.Embedding(42, 16), nn.LayerNorm(16)

        def forward(self, x):
            y = self.table(x)
            y = y + facula.arange(y.shape[-1], dtype=facula.float32, device=y.device)
            z = self.norm(y)
            return facula.relu(z) if z.shape[0] < 30 else facula.sigmoid(z)

    model, x = Model(), facula.randint(0, 42, (rows,))
    gm = meta_tracer.symbolic_trace(model, {"x": x.to("meta")})
    assert facula.equal(gm(x), model(x))
    used = {node.target for node in gm.graph.nodes}
    assert (facula.relu in used) is (rows < 30) and (facula.sigmoid in used) is (rows > 30)
    assert facula.equal(pickle.loads(pickle.dumps(gm))(x), model(x))
    with pytest.raises(AssertionError, match="meta tensors in meta_args"):
        meta_tracer.symbolic_trace(model, {"x": x})


def test_a_stop_in_the_code():
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert "pdb" not in gm.code
    assert "import pdb; pdb.set_trace()" in debug.set_trace(gm).code


def test_types_in_a_trace():
    graph = fx.symbolic_trace(lambda x: annotate(x + 1, facula.Tensor)).graph
    assert [node.type for node in graph.nodes] == [None, facula.Tensor, None]
    assert annotate(3, int) == 3
    with pytest.raises(RuntimeError, match="a value without a type"):
        fx.symbolic_trace(lambda x: annotate(annotate(x + 1, int), int))


@pytest.mark.parametrize(
    ("first", "second", "consistent", "precise"),
    [
        (1, 1, True, True),
        (1, 2, False, False),
        (1, Dyn, True, True),
        (Dyn, 1, True, False),
        (TensorType([1, 2]), TensorType([1, Dyn]), True, True),
        (TensorType([1, Dyn]), TensorType([Dyn, 2]), True, False),
        (TensorType([1, 2]), TensorType([1]), False, False),
        (TensorType([1, 2]), 1, False, False),
        (Dyn, TensorType([3]), True, False),
    ],
)
def test_types_of_shapes(first, second, consistent, precise):
    assert is_consistent(first, second) is consistent is is_consistent(second, first)
    assert is_more_precise(first, second) is precise


def test_names_of_shape_types():
    assert str(TensorType[1, Dyn]) == "TensorType[1, Dyn]"
    assert TensorType[1, 2] == TensorType([1, 2]) != TensorType([2, 1])
    assert len({TensorType((1, 2)), TensorType([1, 2]), Dyn}) == 2
    assert TensorType([1]).dims == [1] and operator.eq(Dyn, type(Dyn)())


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        (int | float, float, True),
        (int | float, str, False),
        (list[int], int, True),
        (list[int], create_type_hint((int, int)), True),
        (list[facula.Tensor], create_type_hint([nn.Parameter, facula.Tensor]), True),
        (list[facula.Tensor], create_type_hint([facula.Tensor, nn.Parameter]), True),
        (list[facula.Tensor], list[int], False),
        (list[facula.Tensor] | None, list[facula.Tensor], True),
        (facula.Tensor, nn.Parameter, True),
        (int, facula.dtype, True),
        (int, float, False),
    ],
)
def test_which_types_stand_for_others(wanted, given, fits):
    assert type_matches(wanted, given) is fits


def test_a_fused_model_is_a_graph_module_by_name():
    from facula.fx.experimental.optimization import fuse

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    assert type(fuse(model)).__name__ == "GraphModule"
