"""Operands in a row behind another argument are asked for `__torch_function__`, in a list too."""

import pytest

import facula
from facula import fx


class Heard(facula.Tensor):
    """Notes the names of the functions that it takes part in."""

    names: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: facula.einsum("ij,jk->ik", a, b),
        lambda a, b: facula.einsum("ij,jk->ik", b, a),
        lambda a, b: facula.einsum("ij,jk->ik", [b, a]),
        lambda a, b: facula.einsum(b, [0, 1], a, [1, 2], [0, 2]),
    ],
)
def test_subclasses_hear_of_it(call):
    a, b = facula.ones(2, 2).as_subclass(Heard), facula.ones(2, 2)
    Heard.names.clear()
    result = call(a, b)
    assert "einsum" in Heard.names
    assert type(result) is Heard and result.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: facula.einsum("ij,jk->ik", a, b),
        lambda a, b: facula.einsum("ij,jk->ik", [a, b]),
        lambda a, b: facula.einsum("ij,jk->ik", (a, b)),
    ],
)
def test_symbolic_traces_keep_the_call(call):
    """Passes that read the operands of the node find them behind the equation, as in PyTorch's graphs."""
    graph = fx.symbolic_trace(call)
    (call,) = [node for node in graph.graph.nodes if node.op == "call_function"]
    assert call.target is facula.einsum and call.args[0] == "ij,jk->ik"
    assert [node.op for node in call.args[1:]] == ["placeholder", "placeholder"]
    a, b = facula.tensor([[1.0, 2.0], [3.0, 4.0]]), facula.tensor([[5.0, 6.0], [7.0, 8.0]])
    assert graph(a, b).tolist() == [[19.0, 22.0], [43.0, 50.0]]
