"""Exported methods, the order of unflattened modules, and operators of programs that are made of others."""

from __future__ import annotations

import pytest

import facula
from facula import Tensor, jit, nn
from facula.export import Dim, default_decompositions, export, unflatten
from facula.torch_api._export.utils import nodes_filter, sync_state, wrap_method


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = nn.Buffer(facula.tensor(10.0))

    def grow(self, x: Tensor) -> Tensor:
        self.total.mul_(2)
        return x + self.total

    def shrink(self, x: Tensor) -> Tensor:
        return x - self.total


def test_methods_of_one_module_are_exported_and_share_its_state() -> None:
    module, x = Counting(), facula.ones(4)
    grow = export(wrap_method(module.grow), (x,), dynamic_shapes={"x": (Dim.DYNAMIC,)}).module()
    shrink = export(wrap_method(module.shrink), (x,)).module()
    assert grow(facula.ones(5)).tolist() == [21.0] * 5
    sync_state(grow, shrink)
    assert shrink(x).tolist() == [-19.0] * 4
    assert grow(facula.ones(2)).tolist() == [41.0] * 2 and shrink(x).tolist() == [-39.0] * 4


def test_a_method_of_no_module_is_refused() -> None:
    with pytest.raises(ValueError, match="a method of a module"):
        wrap_method(len)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(facula.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight


class Ordered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = Layer()
        self.again = self.last
        self.first = Layer()

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.last(self.first(x)))


def test_unflattened_modules_stand_in_the_order_of_the_original() -> None:
    net = Ordered()
    tree = unflatten(export(net, (facula.ones(2),)))
    names = [name for name, _ in net.named_modules(remove_duplicate=False)]
    assert [name for name, _ in tree.named_modules(remove_duplicate=False)] == names
    assert tree(facula.zeros(2)).tolist() == [3.0, 3.0]


@pytest.fixture
def library():
    with facula.library._scoped_library("orders", "FRAGMENT") as made:
        made.define("turned(Tensor x) -> Tensor")
        made.impl("turned", lambda x: x.sin(), "CompositeImplicitAutograd")
        yield made


class Turns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return facula.ops.orders.turned(x.cos())


def _called(program) -> list[str]:
    nodes = nodes_filter(list(program.graph.nodes), lambda node: node.op == "call_function")
    return [str(node.target) for node in nodes]


def test_a_table_from_before_knows_operators_that_programs_made_since(library) -> None:
    program = export(Turns(), (facula.ones(2),))
    assert _called(program)[-1] == "orders.turned.default"
    table = default_decompositions()
    del table[facula.ops.aten.linear.default]
    assert _called(program.run_decompositions(table))[-1] == "aten.sin.default"
    table = default_decompositions()
    table.pop(facula.ops.orders.turned.default)
    assert _called(program.run_decompositions(table))[-1] == "orders.turned.default"


class Scripted(jit.ScriptModule):
    @jit.script_method
    def inner(self, x: Tensor):
        if jit.is_scripting():
            return x.cos()
        return x.sin()

    def forward(self, x):
        return self.inner(x)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scripted = Scripted()

    def forward(self, x: Tensor) -> Tensor:
        return self.scripted(x)


def test_a_scripted_method_is_exported_as_its_python_is() -> None:
    program = export(Around(), (facula.ones(2),))
    assert _called(program) == ["aten.sin.default"]


def test_an_input_of_another_dtype_is_an_error_of_both_kinds() -> None:
    module = export(nn.ReLU(), (facula.ones(2, dtype=facula.int32),)).module()
    for kind in (RuntimeError, AssertionError):
        with pytest.raises(kind, match="Tensor dtype mismatch!"):
            module(facula.ones(2))
