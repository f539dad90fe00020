"""A trace gives what the traced code gives, for other inputs of the same sizes, too."""

import io
import warnings

import pytest

import facula
from facula import jit, nn


def flat(x):
    return [t for v in x for t in flat(v)] if isinstance(x, (tuple, list)) else [x]


def same(a, b):
    return all(facula.allclose(x, y, atol=1e-6) for x, y in zip(flat(a), flat(b), strict=True))


def many(x, y):
    z = 1 - x + y * 2 - y / 3
    z += 1
    z[0] = 1
    z[:, 1] = z[:, 0]
    q = z[0, 1:]
    v, _ = z.max(1)
    s = z.split(1)
    joined = facula.cat([z, z]).float() @ z.t()
    return joined, q, v, s[0], 2**z, z.view(-1).softmax(-1), z.to(facula.float64).sum()


@jit.script
def branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.register_buffer("shift", facula.ones(2))

    def forward(self, x):
        return self.inner(x) + self.shift

    def other(self, x):
        return x - self.shift


def test_a_traced_function_gives_the_same_for_other_inputs():
    traced = jit.trace(many, (facula.ones(2, 3), facula.ones(2, 3)))
    x, y = facula.arange(6.0).reshape(2, 3), facula.arange(6.0).reshape(2, 3) - 2
    assert same(traced(x, y), many(x, y))
    assert {"aten::add_", "aten::copy_", "aten::select"} <= {n.kind() for n in traced.graph.nodes()}


def test_traced_parameters_stay_parameters():
    model = Weighted()
    traced = jit.trace(model, facula.ones(1, 2))
    assert list(traced.state_dict()) == list(model.state_dict())
    with facula.no_grad():
        traced.inner.weight.zero_()
    assert same(traced(facula.ones(1, 2)), model.inner.bias[None] + 1)
    traced(facula.ones(1, 2)).sum().backward()
    assert model.inner.weight.grad is not None


def test_a_scripted_function_keeps_its_branches_in_a_trace():
    traced = jit.trace(lambda x: branches(x) * 2, facula.ones(2))
    assert same(traced(-facula.ones(2)), facula.tensor([-4.0, -4.0]))


def test_trace_module_traces_methods():
    traced = jit.trace_module(Weighted(), {"forward": facula.ones(1, 2), "other": facula.ones(2)})
    assert same(traced.other(facula.ones(2) * 3), facula.tensor([2.0, 2.0]))


def test_traces_are_saved():
    model = nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).eval()
    x = facula.tensor([[1, 2], [3, 4]])
    made = io.BytesIO()
    jit.save(jit.trace(model, x), made)
    made.seek(0)
    assert same(jit.load(made)(x), model(x))


def test_recurrent_layers_stay_calls():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(3, 4, batch_first=True)

        def forward(self, x):
            out, _ = self.rnn(x)
            return out[:, -1]

    model = Last().eval()
    traced = jit.trace(model, facula.ones(2, 5, 3))
    assert traced.graph.findNode("prim::CallMethod") is not None
    x = facula.randn(4, 7, 3)
    assert same(traced(x), model(x))
    assert "forward" not in vars(model.rnn)


def test_what_may_go_wrong_warns():
    with pytest.warns(jit.TracerWarning, match="a constant of the trace"):
        jit.trace(lambda x: x + 1 if x.sum() > 0 else x - 1, facula.ones(2))
    with pytest.warns(jit.TracerWarning, match="does not match"):
        jit.trace(lambda x: x if jit.is_tracing() else x + 1, facula.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit.trace(lambda x: x if jit.is_tracing() else x, facula.ones(2), check_trace=False)


def test_is_tracing_and_script_if_tracing():
    seen = []

    @jit.script_if_tracing
    def inner(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    def outer(x):
        seen.append(jit.is_tracing())
        return inner(x)

    traced = jit.trace(outer, facula.ones(2), check_trace=False)
    assert seen == [True] and not jit.is_tracing()
    assert same(traced(-facula.ones(2)), facula.tensor([-2.0, -2.0]))


def test_inputs_have_to_be_tensors():
    with pytest.raises(RuntimeError, match="tensors, lists, tuples or dicts"):
        jit.trace(lambda x: x, "text")


def test_warnings_of_the_framework_s_own_code_can_be_left_out():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        jit.TracerWarning.ignore_lib_warnings()
        for module in ("facula.nn.functional", "program"):
            warnings.warn_explicit("a constant", jit.TracerWarning, "file.py", 1, module)
    assert len(shown) == 1
