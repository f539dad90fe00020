"""`_dynamo.export`: a function as one graph module that takes and gives what the function does."""

import inspect

import numpy
import pytest

import facula
from facula import _dynamo, nn
from facula._dynamo.functional_export import dynamo_graph_capture_for_export
from facula.export import Dim
from facula.fx.experimental.proxy_tensor import make_fx
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError


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
    x, y, z = facula.randn(3), facula.randn(3), facula.randn(3)
    scale = facula.tensor(3.0)
    found = module(x, (y, z), scale=scale)
    assert found[1][1] == 4
    assert facula.equal(found[0]["sum"], x + y * 3)
    assert found[0]["same"] is x
    assert facula.equal(found[1][0], z - 1)


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


def test_sizes_may_be_others():
    def f(x):
        return x[: x.shape[0] - 1, 1::2] * x.shape[0]

    for aten in (False, True):
        module, _ = _dynamo.export(f, aten_graph=aten)(facula.randn(4, 5))
        x = facula.randn(7, 6)
        assert facula.equal(module(x), f(x))


def test_a_choice_by_sizes_is_made_when_the_module_runs():
    def f(x):
        return facula.cond(x.shape[0] > 4, lambda t: t + 5, lambda t: t - 3, [x])

    for words in ({}, {"aten_graph": True}, {"aten_graph": True, "pre_dispatch": True}):
        module, _ = _dynamo.export(f, **words)(facula.zeros(4, 2))
        assert facula.equal(module(facula.zeros(4, 2)), facula.full((4, 2), -3.0))
        assert facula.equal(module(facula.zeros(6, 2)), facula.full((6, 2), 5.0))


def test_names_of_arguments():
    def f(a, pair, *rest, scale, **more):
        return a + pair[0] * pair[1] + rest[0] + scale * more["shift"]

    a, b, c, d = (facula.randn(2) for _ in range(4))
    module, _ = _dynamo.export(f)(a, (b, c), d, scale=a, shift=b)
    assert inspect.getfullargspec(module.forward).args[1:] == [
        "a", "pair", "rest_0", "scale", "shift",
    ]  # fmt: skip
    assert facula.allclose(module(b, (a, a), c, scale=d, shift=d), b + a * a + c + d * d)


def test_functions_without_operators():
    module, _ = _dynamo.export(lambda x, n: (x, n))([facula.ones(2)], 3)
    given = [facula.zeros(2)]
    assert module(given, 3)[0][0] is given[0] and module(given, 3)[1] == 3
    with pytest.raises(AssertionError, match="Failed to produce a graph"):
        _dynamo.export(lambda x: x, same_signature=False)(facula.ones(2))


def test_ranges_are_checked():
    def f(x):
        return x.sin() if x.shape[0] > 5 else x.cos()

    x = facula.ones(6, 2)
    _dynamo.export(f, dynamic_shapes=({0: Dim("n", min=6, max=9)},))(x)
    with pytest.raises(ConstraintViolationError, match="n"):
        _dynamo.export(f, dynamic_shapes=({0: Dim("n", min=5, max=6)},))(x)


def test_nothing_of_the_caller_is_written():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", facula.zeros(3))

        def forward(self, x):
            self.n.add_(1)
            return x.mul_(2) + self.n

    module, x = Counts(), facula.ones(3)
    made = _dynamo.export(module)(x).graph_module
    assert facula.equal(x, facula.ones(3)) and facula.equal(module.n, facula.zeros(3))
    assert dict(made.named_buffers()).keys() == {"L__self___n"}
    assert facula.equal(made(x), facula.full((3,), 3.0))


def test_constant_results_of_tensors_and_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        @facula.compiler.assume_constant_result
        def places(self, x):
            return {"places": facula.nonzero(x), "same": x}

        def forward(self, x):
            found = self.places(self.linear(x * 0 + 1))
            return found["places"] + 0 * x.sum(), found["same"]

    net = Net()
    with facula.no_grad():
        net.linear.weight.copy_(facula.tensor([[1.0, 1.0], [0.0, 0.0]]))
        net.linear.bias.zero_()
    module, _ = _dynamo.export(net)(facula.randn(2, 2))
    places, same = module(facula.randn(2, 2))
    assert places.tolist() == [[0, 0], [1, 0]]
    assert same.tolist() == [[2, 0], [2, 0]]


def test_a_dataclass_that_is_no_tree_is_refused():
    class Pair:
        def __init__(self):
            self.x = facula.ones(2)

    with pytest.raises(_dynamo.exc.UserError, match="is not supported or pytree-flattenable"):
        _dynamo.export(lambda pair: pair.x + 1)(Pair())


def test_capture_for_export():
    module = dynamo_graph_capture_for_export(lambda d: d["a"] * 2)({"a": facula.ones(2)})
    assert facula.equal(module({"a": facula.ones(3)}), facula.full((3,), 2.0))


def test_indexing_is_slices_in_a_trace_and_whole_calls_before_dispatch():
    names = [
        str(n.target) for n in make_fx(lambda x: x[1, :2, None])(facula.ones(3, 4)).graph.nodes
    ]
    assert names == [
        "x_1",
        "aten.select.int",
        "aten.slice.Tensor",
        "aten.unsqueeze.default",
        "output",
    ]
    made = make_fx(lambda x: facula.nn.functional.linear(x, x).relu_(), pre_dispatch=True)
    names = [str(n.target) for n in made(facula.ones(2, 2)).graph.nodes]
    assert names == ["x_1", "aten.linear.default", "aten.relu_.default", "output"]


def test_branches_in_branches_are_chosen_by_sizes():
    def many(x):
        return facula.cond(x.shape[0] > 5, lambda x: x.cos(), lambda x: x.cos() + x.shape[0], [x])

    def chosen(x):
        return facula.cond(x.shape[0] > 4, many, lambda x: x.sin(), [x])

    module, _ = _dynamo.export(chosen)(facula.ones(6, 4))
    for rows in (3, 5, 6, 9):
        x = numpy.linspace(0, 1, rows * 4, dtype=numpy.float32).reshape(rows, 4)
        least = numpy.cos(x) + (0 if rows > 5 else rows) if rows > 4 else numpy.sin(x)
        assert numpy.allclose(module(facula.from_numpy(x)).numpy(), least, atol=1e-6)
