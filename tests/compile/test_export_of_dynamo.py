"""`_dynamo.export`: a function as one graph module with the function's arguments."""

import pytest

import facula
from facula import _dynamo, nn


def test_arguments_and_results_keep_their_structure():
    bias = facula.ones(3)

    def f(x, pair, *, scale):
        y, z = pair
        return {"sum": x + y * scale, "same": x}, (z - bias, 4)

    args, words = (
        (facula.randn(3), (facula.randn(3), facula.randn(3))),
        {"scale": facula.tensor(2.0)},
    )
    module, guards = _dynamo.export(f)(*args, **words)
    assert isinstance(module, facula.fx.GraphModule)
    leaves = [facula.randn(3), facula.randn(3), facula.randn(3), facula.tensor(3.0)]
    found = module(*leaves)
    wanted = f(leaves[0], (leaves[1], leaves[2]), scale=leaves[3])
    assert found[1][1] == 4
    assert facula.equal(found[0]["sum"], wanted[0]["sum"])
    assert found[0]["same"] is leaves[0]
    assert facula.equal(found[1][0], wanted[1][0])


def test_modules_and_choices():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, pred, x):
            return facula.cond(
                pred, lambda t: self.linear(t), lambda t: self.linear(t).relu(), (x,)
            )

    net, x = Net(), facula.randn(4, 3)
    module = _dynamo.export(net)(facula.tensor(True), x).graph_module
    for pred in (True, False):
        pred = facula.tensor(pred)
        assert facula.allclose(module(pred, x), net(pred, x))


def test_a_program_of_several_graphs_is_refused():
    def f(x):
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(_dynamo.exc.Unsupported):
        _dynamo.export(f)(facula.ones(2))
