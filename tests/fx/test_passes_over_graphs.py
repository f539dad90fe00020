"""Passes: equal calls made once, the part that depends on no input, passes in an order."""

import operator

import pytest

import facula
from facula.fx import symbolic_trace
from facula.fx.experimental.const_fold import get_unique_attr_name_in_module, split_const_subgraphs
from facula.fx.experimental.proxy_tensor import make_fx
from facula.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from facula.fx.passes.infra.pass_base import PassBase, PassResult
from facula.fx.passes.infra.pass_manager import (
    PassManager,
    _topological_sort_passes,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)


def merged(function, *inputs, **options):
    """How many nodes the pass takes out; what is left computes the same."""
    graph = make_fx(function)(*inputs)
    result = CSEPass(**options)(graph)
    left = result.graph_module
    gone = len(graph.graph.nodes) - len(left.graph.nodes)
    assert result.modified is (gone > 0)
    assert not CSEPass(**options)(left).modified
    facula.testing.assert_close(left(*inputs), graph(*inputs))
    return gone


@pytest.mark.parametrize(
    ("function", "gone"),
    [
        (lambda x: (x + 1) * (x + 1), 1),
        (lambda x: (x + 1).exp() * (x + 1).exp(), 2),
        (lambda x: (x + 1) * (x + 1.0), 0),
        (lambda x: x.sum(0, keepdim=True) + x.sum(0, keepdim=True) + x.sum(1, keepdim=True), 1),
        (lambda x: facula.cat([x, x]) + facula.cat([x, x]), 1),
        (lambda x: x.clone().add_(1) + x.clone(), 0),
    ],
)
def test_equal_calls_are_made_once(function, gone):
    assert merged(function, facula.randn(2, 2)) == gone


def test_random_and_banned_calls_stay():
    def drawn(x):
        return facula.rand_like(x) + facula.rand_like(x)

    assert not CSEPass()(make_fx(drawn)(facula.ones(2))).modified
    assert facula.ops.aten.rand_like in get_CSE_banned_ops()
    twice = lambda x: (x + 1) * (x + 1)  # noqa: E731
    assert merged(twice, facula.ones(2), banned_ops=[facula.ops.aten.add]) == 0
    assert merged(twice, facula.ones(2), banned_ops=[facula.ops.aten.add.Tensor]) == 0


class Folds(facula.nn.Module):
    """Two constants, of parameters, beside an input."""

    def __init__(self):
        super().__init__()
        self.first = facula.nn.Parameter(facula.randn(3, 3))
        self.second = facula.nn.Parameter(facula.randn(3))
        self.linear = facula.nn.Linear(3, 3)

    def forward(self, x, y):
        doubled = self.first + self.first.t()
        return self.linear(x @ doubled) + y * self.second.exp() + self.second


def test_constants_are_computed_once():
    module = Folds()
    folded = split_const_subgraphs(module)
    x, y = facula.randn(2, 3), facula.randn(3)
    facula.testing.assert_close(folded(x, y), module(x, y))
    nodes = [n for n in folded.graph.nodes if n.op == "call_function"]
    assert [n.target for n in nodes].count(operator.getitem) == 2
    kinds = [n.op for n in folded.const_subgraph_module.graph.nodes]
    assert sorted(kinds) == [
        "call_function",
        "call_method",
        "call_method",
        "get_attr",
        "get_attr",
        "output",
    ]
    with facula.no_grad():
        module.first.zero_()  # what was computed stays
    assert not facula.allclose(folded(x, y), module(x, y))
    folded.run_folding()
    facula.testing.assert_close(folded(x, y), module(x, y))


def test_modules_of_constants_are_folded():
    class Calls(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = facula.nn.Parameter(facula.randn(3, 3))
            self.linear = facula.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(self.weight) + x

    module, x = Calls(), facula.randn(3, 3)
    folded = split_const_subgraphs(module)
    assert "call_module" not in [n.op for n in folded.graph.nodes]
    facula.testing.assert_close(folded(x), module(x))


def test_draws_and_what_is_to_stay_are_not_folded():
    class Draws(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = facula.nn.Parameter(facula.ones(2))

        def forward(self, x):
            return x + facula.rand_like(self.weight) + self.weight.exp()

    all_folded = split_const_subgraphs(Draws())
    assert {
        n.target for n in all_folded.const_subgraph_module.graph.nodes if n.op == "call_method"
    } == {"exp"}
    skipped = split_const_subgraphs(Draws(), skip_folding_node_fn=lambda node: node.target == "exp")
    assert skipped.const_subgraph_module is None
    assert skipped(facula.zeros(2)).shape == (2,)
    assert get_unique_attr_name_in_module(Draws(), "0 weight") == "_0_weight"


class ToMul(PassBase):
    """Additions become products."""

    def requires(self, graph_module):
        if not any(n.target is facula.add for n in graph_module.graph.nodes):
            raise ValueError("nothing to add")

    def call(self, graph_module):
        for node in graph_module.graph.nodes:
            if node.target is facula.add:
                node.target = facula.mul
        return PassResult(graph_module, True)


def to_sub(graph_module):
    for node in graph_module.graph.nodes:
        if node.target is facula.mul:
            node.target = facula.sub


def traced():
    return symbolic_trace(lambda x: facula.add(x, x))


def test_passes_run_in_the_order_of_their_constraints():
    second = pass_result_wrapper(to_sub)
    first = ToMul()
    manager = PassManager([second, first], [this_before_that_pass_constraint(first, second)])
    with pytest.raises(RuntimeError, match="constraint"):
        manager.validate_constraints()
    result = manager(traced())
    assert manager.passes == [first, second] and result.modified
    assert result.graph_module(facula.ones(2)).tolist() == [0.0, 0.0]


def test_failing_passes_and_checks_are_named():
    manager = PassManager([ToMul(), pass_result_wrapper(to_sub), ToMul()])
    with pytest.raises(Exception, match="'ToMul' pass after the following passes: .*ToMul.*to_sub"):
        manager(traced())
    with pytest.raises(TypeError, match="PassResult was required"):
        PassManager([to_sub])(traced())
    with pytest.raises(TypeError, match="one argument"):
        manager.add_checks(lambda module, other: None)
    wrong = PassManager([ToMul()])

    def check(module):
        if any(n.target is facula.mul for n in module.graph.nodes):
            raise ValueError("a product")

    wrong.add_checks(check)
    with pytest.raises(ValueError, match="a product"):
        wrong(traced())


def test_constraints_that_go_in_a_circle():
    one, two, three = (lambda x: x), (lambda x: x + 1), (lambda x: x + 2)
    passes = [one, two, three]
    assert _topological_sort_passes(passes, []) == passes
    before = this_before_that_pass_constraint
    assert _topological_sort_passes(passes, [before(three, one)]) == [two, three, one]
    with pytest.raises(RuntimeError, match="Circular dependency"):
        _topological_sort_passes(passes, [before(one, two), before(two, three), before(three, one)])
