"""`export.unflatten`: the tree computes what the program computes, each module what the original one does."""

from __future__ import annotations

import pytest

import facula
from facula import export, nn


class Inner(nn.Module):
    """A buffer that is written, a layer that runs twice, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("count", facula.zeros(3))

    def forward(self, x):  # type: ignore[no-untyped-def]
        self.count.add_(1)
        return self.layer(self.layer(x)) + self.count, x * 2


class Outer(nn.Module):
    """Modules in modules, one of them with another's parameter, nested arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.tail = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.scale = nn.Parameter(facula.full((3,), 3.0))
        self.unused = nn.Linear(2, 2)

    def forward(self, x, *, more):  # type: ignore[no-untyped-def]
        first, second = self.inner(x * self.scale)
        return {"first": self.tail(first) + more, "second": second}


def unflattened():  # type: ignore[no-untyped-def]
    module = Outer()
    program = export.export(module, (facula.randn(2, 3),), {"more": facula.ones(4)})
    return module, export.unflatten(program)


def test_the_tree_computes_what_the_module_does_and_has_its_state():
    module, tree = unflattened()
    x, more = facula.randn(2, 3), facula.rand(4)
    with facula.no_grad():
        module.inner.count.zero_()
        expected = module(x, more=more)
        module.inner.count.zero_()
        found = tree(x, more=more)
    for name in expected:
        assert facula.allclose(found[name], expected[name])
    assert tree.inner.count.tolist() == [1, 1, 1]
    assert sorted(tree.state_dict()) == sorted(module.state_dict())
    assert isinstance(tree, export.UnflattenedModule)


def test_inner_modules_run_alone():
    module, tree = unflattened()
    x = facula.randn(5, 3)
    assert facula.allclose(tree.tail(x), module.tail(x))
    assert facula.allclose(tree.inner.layer(x), module.inner.layer(x))
    assert [n for n, _ in tree.inner.named_children()] == ["layer"]  # called twice, there once


def test_a_module_can_be_exchanged():
    _, tree = unflattened()
    tree.tail = nn.Linear(3, 4)
    with facula.no_grad():
        tree.tail.weight.zero_()
        tree.tail.bias.fill_(-7)
    found = tree(facula.randn(2, 3), more=facula.ones(4))["first"]
    assert found.tolist() == [[-6] * 4] * 2


def test_sizes_that_change_and_parameters_of_other_modules():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 3)
            self.reader = Reader()

        def forward(self, i):  # type: ignore[no-untyped-def]
            return self.reader(self.table(i).reshape(-1), self.table.weight)

    class Reader(nn.Module):
        def forward(self, x, weight):  # type: ignore[no-untyped-def]
            return x.view(-1, 3) @ weight.t()

    module = Tied()
    shapes = ({0: export.Dim("n")},)
    program = export.export(module, (facula.tensor([0, 4]),), dynamic_shapes=shapes)
    tree = export.unflatten(program)
    i = facula.tensor([1, 2, 3])
    assert facula.allclose(tree(i), module(i))
    assert dict(tree.named_parameters()).keys() == {"table.weight"}


def test_arguments_of_another_form_are_adapted_or_refused():
    class Adapter(export.FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):  # type: ignore[no-untyped-def]
            return input_args[: target_spec.num_leaves]

    program = export.export(nn.ReLU(), (facula.ones(2),))
    x = facula.tensor([-1.0, 1.0])
    assert export.unflatten(program, Adapter())([x, x]).tolist() == [0, 1]
    with pytest.raises(TypeError, match="no flat args adapter"):
        export.unflatten(program)([x])
    with pytest.raises(AssertionError, match="Guard failed"):
        export.unflatten(program)(facula.ones(3))


def test_nodes_know_the_modules_that_they_come_from():
    program = export.export(Outer(), (facula.randn(2, 3),), {"more": facula.ones(4)})
    for one in (program, program.run_decompositions()):
        stacks = [n.meta.get("nn_module_stack", {}) for n in one.graph.nodes]
        paths = {path for stack in stacks for path, _ in stack.values()}
        assert {"", "inner", "inner.layer", "tail", "tail.1"} <= paths
