"""Gradients in traces are the operators that PyTorch's are: ones for a loss, a sum's spread as one `expand`."""

import pytest

import facula
from facula.fx.experimental.proxy_tensor import make_fx
from facula.lower.aot.backend import aot_eager, aot_eager_default_partitioner


def called(f, x):
    """The names of the operators in the trace of the gradient of a function."""
    graph = make_fx(lambda x: facula.autograd.grad(f(x), x))(x)
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_a_loss_begins_with_ones_like_and_a_whole_sum_is_spread_at_once():
    x = facula.rand(3, 4, requires_grad=True)
    names = called(lambda x: x.sin().sum(), x)
    at = names.index("aten.ones_like.default")
    assert names[at + 1] == "aten.expand.default"
    assert "aten.unsqueeze.default" not in names and "aten.fill_.Scalar" not in names


def test_a_sum_along_a_dimension_puts_it_back_first():
    x = facula.rand(3, 4, requires_grad=True)
    names = called(lambda x: (x.sin().sum(1) * 2).sum(), x)
    assert names.index("aten.unsqueeze.default") > names.index("aten.expand.default")


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [None, (0, 1), (1,), (0, 2), ()])
def test_gradients_of_sums_are_ones_where_they_added(dims, keepdim):
    x = facula.rand(2, 3, 2, requires_grad=True)
    total = x.sum() if dims is None else x.sum(dims, keepdim)
    weights = facula.arange(1.0, 1.0 + total.numel()).reshape(total.shape)
    (total * weights).sum().backward()
    again = weights
    if dims and not keepdim:
        for d in dims:
            again = again.unsqueeze(d)
    assert facula.equal(x.grad, again.expand(2, 3, 2))


@pytest.mark.parametrize("backend", [aot_eager, aot_eager_default_partitioner])
def test_eager_backends_of_flat_graphs_take_compilers(backend):
    seen = []

    def keeping(graph, inputs):
        seen.append(graph)
        return graph.forward

    def compiler(graph, inputs):
        return backend(graph, inputs, fw_compiler=keeping, bw_compiler=keeping)

    x = facula.rand(3, requires_grad=True)
    facula.compile(lambda x: (x.sin() * 2).sum(), backend=compiler)(x).backward()
    assert len(seen) == 2
    assert facula.allclose(x.grad, 2 * x.detach().cos())
