"""Operators that are made of others, in programs without writes: they stay where nobody decomposes them."""

import facula
from facula import nn
from facula.export import default_decompositions, export


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.linear = nn.Linear(6, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        y = self.norm(self.linear(self.conv(x))).reshape(-1)
        y.add_(1)
        return y.softmax(0), facula.matmul(y, y)


def calls(program):
    return [n.target._opname for n in program.graph.nodes if hasattr(n.target, "_opname")]


def close(found, wanted):
    return all(facula.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True))


def test_they_stay_and_views_and_writes_do_not():
    net, x = Net(), facula.randn(2, 2, 5, 8)
    program = export(net, (x,)).run_decompositions({})
    names = calls(program)
    assert {"conv2d", "linear", "layer_norm", "softmax", "matmul"} <= set(names)
    assert not {"reshape", "add_"} & set(names)
    assert close(program.module()(x), net(x))
    core = program.run_decompositions()
    assert not {"conv2d", "linear", "layer_norm", "matmul"} & set(calls(core))
    assert close(core.module()(x), net(x))


def test_a_table_decides():
    net, x = Net(), facula.randn(2, 2, 5, 8)
    table = default_decompositions()
    table.pop(facula.ops.aten.conv2d.default)
    program = export(net, (x,)).run_decompositions(table)
    names = calls(program)
    assert "conv2d" in names and not {"linear", "layer_norm", "matmul"} & set(names)
    assert close(program.module()(x), net(x))

    def doubled(x, weight, bias):
        return x @ weight.T * 2 + bias

    program = export(net.linear, (x[..., :6],)).run_decompositions(
        {facula.ops.aten.linear.default: doubled}
    )
    wanted = (x[..., :6] @ net.linear.weight.T) * 2 + net.linear.bias
    assert "linear" not in calls(program)
    assert facula.allclose(program.module()(x[..., :6]), wanted, atol=1e-5)


def test_dropout_draws_where_the_program_runs():
    module = nn.Dropout(0.5)
    x = facula.ones(1000)
    before = facula.get_rng_state()
    program = export(module.train(), (x,)).run_decompositions({})
    assert facula.equal(facula.get_rng_state(), before)
    first, second = program.module()(x), program.module()(x)
    assert not facula.equal(first, second)
    assert set(first.tolist()) == {0.0, 2.0}


def test_sizes_that_change():
    net = Net()
    batch = facula.export.Dim("batch", min=2)
    x = facula.randn(3, 2, 5, 8)
    program = export(net, (x,), dynamic_shapes=({0: batch},)).run_decompositions({})
    assert "conv2d" in calls(program)
    for n in (2, 5):
        x = facula.randn(n, 2, 5, 8)
        assert close(program.module()(x), net(x))
