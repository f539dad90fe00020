"""Exported graphs and their signatures.

Takes modules with parameters and buffers.
Keeps true: inputs and outputs are named in the documented order; the graph computes what they say.
"""

import pytest

import facula
from facula import nn
from facula._functorch.aot_autograd import aot_export_joint_simple, aot_export_module


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.register_buffer("count", facula.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        out = self.inner(x).relu()
        return out.sum(), out


def tensors(module):
    return [*module.parameters(), *module.buffers()]


def test_a_forward_graph_says_what_it_writes():
    net, x = Counting(), facula.randn(2, 3)
    graph, signature = aot_export_module(net, (x,), trace_joint=False)
    assert signature.parameters == ["inner.weight", "inner.bias"]
    assert signature.buffers == ["count"] and len(signature.user_inputs) == 1
    assert list(signature.buffers_to_mutate.values()) == ["count"]
    assert len(signature.user_outputs) == 2
    count, total, out = graph(*tensors(net), x)
    assert count.item() == 1 and net.count.item() == 0
    expected = net.inner(x).relu()
    assert facula.allclose(out, expected) and facula.allclose(total, expected.sum())
    names = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert any("addmm" in name for name in names)


def test_a_joint_graph_gives_gradients_of_the_loss():
    net, x = Counting(), facula.randn(2, 3)
    graph, signature = aot_export_module(net, (x,), trace_joint=True, output_loss_index=0)
    found = graph(*tensors(net), x)
    backward = signature.backward_signature
    assert sorted(backward.gradients_to_parameters.values()) == ["inner.bias", "inner.weight"]
    net(x)[0].backward()
    assert facula.allclose(found[-2], net.inner.weight.grad)
    assert facula.allclose(found[-1], net.inner.bias.grad)


def test_a_joint_graph_needs_a_scalar_loss():
    net, x = Counting(), facula.randn(2, 3)
    with pytest.raises(RuntimeError, match="scalar loss"):
        aot_export_module(net, (x,), trace_joint=True)
    with pytest.raises(RuntimeError, match="must be a scalar"):
        aot_export_module(net, (x,), trace_joint=True, output_loss_index=1)


def test_simple_joint_graphs_take_cotangents():
    x = facula.randn(3, requires_grad=True)
    graph = aot_export_joint_simple(lambda x: x.sin(), (x,), trace_joint=True)
    out, grad = graph(x.detach(), facula.ones(3))
    assert facula.allclose(out, x.sin()) and facula.allclose(grad, x.cos())


def test_simple_graphs_write_nothing():
    with pytest.raises(RuntimeError, match="does not support input mutations"):
        aot_export_joint_simple(lambda x: x.add_(1) * 2, (facula.ones(3),), trace_joint=False)
