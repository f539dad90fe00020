"""`facula.compile`, compiled modules, backends by name, logs."""

from __future__ import annotations

import copy
import logging
import pickle
import subprocess
import sys

import pytest
from capturing import Graphs

import facula
from facula import nn


def test_signature_is_kept():
    @facula.compile(backend=Graphs())
    def f(a, /, b=2, *c, d, **e):
        "text"
        return a * b + sum(c) + d + sum(e.values())

    x = facula.ones(1)
    assert f.__name__ == "f" and f.__doc__ == "text"
    assert f(x, d=1).item() == 3.0
    assert f(x, 3, 4, d=1, z=2).item() == 10.0
    with pytest.raises(TypeError, match="'d'"):
        f(x)


def test_parameters_with_difficult_names():
    @facula.compile(backend=Graphs())
    def f(len, v1, K2=1):
        return len + v1 * K2

    assert f(facula.ones(1), v1=2, K2=3).item() == 7.0


def test_methods_and_callables():
    class Scale:
        def __init__(self, k):
            self.k = k

        def by(self, x):
            return x * self.k

        __call__ = by

    graphs = Graphs()
    s = Scale(3)
    assert facula.compile(s.by, backend=graphs)(facula.ones(1)).item() == 3.0
    assert facula.compile(s, backend=graphs)(facula.ones(1)).item() == 3.0
    assert facula.compile(facula.sin, backend=graphs)(facula.zeros(1)).item() == 0.0
    assert len(graphs) == 3


def test_modules():
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    graphs = Graphs()
    c = facula.compile(m, backend=graphs)
    x = facula.randn(2, 3)
    assert facula.equal(c(x), m(x)) and len(graphs) == 1
    assert list(c.state_dict()) == [f"_orig_mod.{name}" for name in m.state_dict()]
    assert isinstance(c, nn.Module) and c[0] is m[0] and len(c) == 3
    c.eval()
    assert not m.training and not m[0].training
    c.extra = 5
    assert m.extra == 5 and c.extra == 5


def test_modules_copy_and_pickle():
    c = facula.compile(nn.Linear(3, 2), backend="eager")
    x = facula.randn(2, 3)
    want = c(x)
    for other in (copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        assert facula.equal(other(x), want)
        assert other._orig_mod is not c._orig_mod


def test_module_compile_in_place():
    m = nn.Linear(3, 2)
    graphs = Graphs()
    m.compile(backend=graphs)
    m(facula.randn(1, 3))
    assert len(graphs) == 1 and list(m.state_dict()) == ["weight", "bias"]


def test_training():
    m = nn.Linear(3, 1)
    other = copy.deepcopy(m)
    c = facula.compile(m, backend="eager")
    x = facula.randn(4, 3)
    c(x).sum().backward()
    other(x).sum().backward()
    assert facula.allclose(m.weight.grad, other.weight.grad)


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop", "NAdam"])
def test_optimizer_step_is_a_graph(name):
    m = nn.Linear(3, 2)
    other = copy.deepcopy(m)
    steps = []
    for module in (m, other):
        module(facula.ones(1, 3)).sum().backward()
        steps.append(getattr(facula.optim, name)(module.parameters(), lr=0.1))
    graphs = Graphs()
    compiled = facula.compile(lambda: steps[0].step(), backend=graphs, fullgraph=True)
    for _ in range(3):
        compiled()
        steps[1].step()
    assert facula.allclose(m.weight, other.weight, atol=1e-4) and 1 <= len(graphs) <= 2


def test_errors():
    with pytest.raises(RuntimeError, match="mode"):
        facula.compile(lambda x: x, mode="warp-speed")
    with pytest.raises(RuntimeError, match="mode or options"):
        facula.compile(lambda x: x, mode="default", options={})
    with pytest.raises(facula._dynamo.exc.InvalidBackend, match="inductor"):
        facula.compile(lambda x: x, backend="inductr")

    def broken(graph_module, inputs):
        raise ValueError("not today")

    with pytest.raises(facula._dynamo.exc.BackendCompilerFailed, match="not today"):
        facula.compile(lambda x: x + 1, backend=broken)(facula.ones(1))


def test_questions_and_stances():
    f = facula.compile(
        lambda x: x + 1 if facula.compiler.is_compiling() else x - 1, backend=Graphs()
    )
    x = facula.zeros(1)
    assert f(x).item() == 1.0 and not facula.compiler.is_compiling()
    with facula.compiler.set_stance("force_eager"):
        assert f(x).item() == -1.0
    assert f(x).item() == 1.0
    assert "inductor" in facula.compiler.list_backends()


def test_substituted_functions_stay(monkeypatch):
    rules = facula.compiler.api.RULES
    monkeypatch.setitem(rules, facula.is_tensor, rules[facula.is_tensor])

    @facula.compiler.substitute_in_graph(facula.is_tensor)
    def never(obj):
        return False

    def f(x):
        return x + 1 if facula.is_tensor(x) else x - 1

    # the framework's own rule for the function does not come back
    assert facula.compile(f, backend=Graphs())(facula.zeros(1)).item() == -1.0


def test_reset():
    graphs = Graphs()
    f = facula.compile(lambda x: x + 1, backend=graphs)
    f(facula.ones(1))
    facula._dynamo.reset()
    f(facula.ones(1))
    assert len(graphs) == 2


def test_cond():
    def f(x):
        scale = x * 2
        return facula.cond(x.sum() > 0, lambda v: v + scale, lambda v: v - 1, (x,))

    compiled = facula.compile(f, backend=Graphs(), fullgraph=True)
    for value in (1.0, -1.0):
        x = facula.full((2,), value)
        assert facula.equal(compiled(x), f(x))


@pytest.mark.breaks("data-dependent-branch")
def test_logs(capsys):
    def f(x):
        return x + 1 if x.sum() > 0 else x

    facula._logging.set_logs(dynamo=logging.ERROR, graph_breaks=True)
    try:
        facula.compile(f, backend=Graphs())(facula.ones(1))
        shown = capsys.readouterr().err
        assert "graph break" in shown and "x.sum() > 0" in shown
    finally:
        facula._logging.set_logs()
    facula.compile(f, backend=Graphs())(facula.ones(1))
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="graph_breaks"):
        facula._logging.set_logs(no_such_artifact=True)


def test_import_is_lazy():
    code = "import sys, facula; assert not [m for m in sys.modules if m.startswith('facula.c') and 'capture' in m]"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_functions_are_not_hidden_by_modules_of_their_names():
    code = (
        "import facula, facula._dynamo, importlib, pkgutil\n"
        "for found in pkgutil.iter_modules(facula.compiler.__path__):\n"
        "    importlib.import_module(f'facula.compiler.{found.name}')\n"
        "assert all(callable(getattr(facula.compiler, n)) for n in facula.compiler.__all__)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["f", "len", "class", "a b"])
def test_functions_of_no_module_are_nodes_under_their_names(name):
    """Made by hand, or by a compiled library, a function may have no `__module__`."""

    def f(x):
        return x * 2

    f.__module__, f.__name__ = None, name
    facula.compiler.allow_in_graph(f)
    graphs = Graphs()
    compiled = facula.compile(lambda x: f(x) + 1, fullgraph=True, backend=graphs)
    assert compiled(facula.ones(2)).tolist() == [3.0, 3.0]
    (default,) = [facula.compile(lambda x: f(x) + 1, fullgraph=True)(facula.ones(2))]
    assert default.tolist() == [3.0, 3.0]


def test_the_first_front_door_takes_a_backend_and_gives_a_decorator():
    seen = []

    def backend(graph, inputs):
        seen.append(len(inputs))
        return graph.forward

    doubled = facula._dynamo.optimize(backend, nopython=True)(lambda x: x * 2)
    assert doubled(facula.ones(2)).tolist() == [2.0, 2.0] and seen == [1]
    broken = facula._dynamo.optimize_assert("eager")(lambda x: x + 1 if x.sum() > 0 else x)
    with pytest.raises(facula._dynamo.exc.Unsupported):
        broken(facula.ones(2))
    failed: list = []
    told = facula._dynamo.optimize("eager", guard_fail_fn=failed.append)(lambda x: x * 2)
    told(facula.ones(2)), told(facula.ones(2, dtype=facula.float64))
    assert len(failed) == 1 and "float" in failed[0].reason


def test_a_class_of_modules_with_a_call_of_its_own():
    """What a class does around forward and hooks is part of the compiled call, too."""

    class Shifted(nn.Module):
        def __call__(self, *args, **kwargs):
            return super().__call__(*args, **kwargs) + 1

        def forward(self, x):
            return x * 2

    module = Shifted()
    module.register_forward_hook(lambda module, given, result: result * 10)
    graphs = Graphs()
    compiled = facula.compile(module, backend=graphs, fullgraph=True)
    assert compiled(facula.ones(1)).item() == 21.0 and len(graphs) == 1
    assert copy.deepcopy(compiled)(facula.ones(1)).item() == 21.0
    module.compile(backend=graphs)
    assert module(facula.ones(1)).item() == 21.0
