"""Members of enumerations and frozen dataclasses as arguments of autograd functions and opaque functions in a graph.

The oracle is arithmetic: the result is x times the factor that the argument names, and so is the gradient.
"""

import dataclasses
import enum

import pytest

import facula


class Factor(enum.Enum):
    TWO = 2
    THREE = 3


@dataclasses.dataclass(frozen=True)
class Scale:
    factor: int
    names: tuple = ("a", 1.5)


class Times(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.factor = by.value if isinstance(by, Factor) else by.factor
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@facula.compiler.allow_in_graph
def opaque(x, by):
    return x * (by.value if isinstance(by, Factor) else by.factor)


CASES = [(Factor.TWO, 2), (Factor.THREE, 3), (Scale(5), 5), (Scale(7), 7), (Scale(5), 5)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_arguments_of_autograd_functions(backend):
    compiled = facula.compile(lambda x, by: Times.apply(x, by) + 1, backend=backend, fullgraph=True)
    for by, factor in CASES:
        x = facula.ones(2, requires_grad=True)
        y = compiled(x, by)
        y.sum().backward()
        assert y.tolist() == [factor + 1.0] * 2
        assert x.grad.tolist() == [float(factor)] * 2


def test_arguments_of_opaque_functions():
    compiled = facula.compile(lambda x, by: opaque(x, by) + 1, backend="eager", fullgraph=True)
    for by, factor in CASES:
        assert compiled(facula.ones(2), by).tolist() == [factor + 1.0] * 2


def test_equal_values_are_one_program():
    graphs = []

    def keep(graph, examples):
        graphs.append(graph)
        return graph

    compiled = facula.compile(lambda x, by: opaque(x, by), backend=keep, fullgraph=True)
    for _ in range(3):
        assert compiled(facula.ones(1), Scale(5)).item() == 5
    assert len(graphs) == 1
