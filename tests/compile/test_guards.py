"""Guards: what is compiled again, why, and how often."""

from __future__ import annotations

import pytest
from capturing import Graphs

import facula
from facula import nn
from facula._dynamo import config, exc
from facula._dynamo.utils import counters


def counted(function, **options):
    graphs = Graphs()
    return facula.compile(function, backend=graphs, **options), graphs


def test_equal_inputs_compile_once():
    f, graphs = counted(lambda x, y: x + y)
    for _ in range(3):
        f(facula.ones(3), facula.ones(3))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    "other",
    [
        facula.ones(3, dtype=facula.float64),
        facula.ones(3, 1),
        facula.ones(6)[::2],
        facula.ones(3, requires_grad=True),
    ],
    ids=["dtype", "rank", "stride", "requires_grad"],
)
def test_tensor_differences_recompile(other):
    f, graphs = counted(lambda x: x * 2)
    assert facula.equal(f(facula.ones(3)), facula.full((3,), 2.0))
    assert facula.equal(f(other), other * 2)
    f(facula.ones(3))
    assert len(graphs) == 2


def test_one_tensor_twice_is_not_two():
    def f(x, y):
        x.add_(1)
        return x + y

    compiled, graphs = counted(f)
    x = facula.zeros(2)
    assert compiled(x, x).tolist() == [2.0, 2.0]
    assert compiled(facula.zeros(2), facula.zeros(2)).tolist() == [1.0, 1.0]
    assert len(graphs) == 2


def test_modes():
    f, graphs = counted(lambda x: x * 2)
    x = facula.ones(2, requires_grad=True)
    assert f(x).requires_grad
    with facula.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad and len(graphs) == 2


def test_module_state():
    class M(nn.Module):
        scale = 2.0

        def forward(self, x):
            return x * self.scale if self.training else x

    m = M()
    c = facula.compile(m, backend=Graphs())
    x = facula.ones(1)
    assert c(x).item() == 2.0
    m.scale = 3.0
    assert c(x).item() == 3.0
    m.eval()
    assert c(x).item() == 1.0
    m.register_forward_hook(lambda module, inputs, output: output + 10)
    assert c(x).item() == 11.0


def test_sizes_become_dynamic():
    f, graphs = counted(lambda x: x.flatten() * x.shape[0])
    for n in (3, 4, 5, 6, 9):
        assert f(facula.ones(n, 2)).tolist() == [float(n)] * 2 * n
    assert len(graphs) == 2


def test_branches_on_inner_sizes_are_guarded():
    def f(x):
        y = x.flatten()
        return y * 2 if y.shape[0] > 10 else y

    compiled, _ = counted(f)
    for n in (2, 3, 4, 5, 6, 7, 8):
        x = facula.ones(n, 2)
        assert facula.equal(compiled(x), f(x))


def test_integers_become_dynamic():
    f, graphs = counted(lambda x, n: x * n)
    for n in (3, 4, 5, 6):
        assert f(facula.ones(1), n).item() == n
    assert len(graphs) == 2


@pytest.mark.parametrize(("dynamic", "count"), [(True, 1), (False, 4)])
def test_dynamic_asked_for(dynamic, count):
    f, graphs = counted(lambda x: x + 1, dynamic=dynamic)
    for n in (2, 3, 4, 5):
        f(facula.ones(n))
    assert len(graphs) == count


def test_mark_dynamic():
    f, graphs = counted(lambda x: x + 1)
    for n in (2, 3, 4):
        x = facula.ones(n)
        facula._dynamo.mark_dynamic(x, 0)
        f(x)
    assert len(graphs) == 1


@pytest.mark.breaks("recompile-limit")
def test_limit_keeps_entries():
    f, graphs = counted(lambda x, k: x.clamp(min=k))
    before = sum(counters["limits"].values())
    for k in range(12):
        assert f(facula.zeros(1), k + 0.5).item() == k + 0.5
    assert len(graphs) == config.recompile_limit
    f(facula.zeros(1), 0.5)
    assert len(graphs) == config.recompile_limit
    assert sum(counters["limits"].values()) == before + 1


def test_recompile_may_be_forbidden():
    f, _ = counted(lambda x: x + 1)
    f(facula.ones(2))
    with config.patch(error_on_recompile=True), pytest.raises(exc.RecompileError, match="dtype"):
        f(facula.ones(2, dtype=facula.int64))


def test_new_tensors_are_new_each_time():
    def f(x):
        t = facula.tensor(0.0)
        t.add_(1)
        return t + x

    compiled, _ = counted(f)
    assert [compiled(facula.zeros(1)).item() for _ in range(3)] == [1.0, 1.0, 1.0]


def test_random_state_is_left_alone():
    f, _ = counted(lambda x: x + facula.rand(2))
    facula.manual_seed(3)
    first = f(facula.zeros(2))
    facula.manual_seed(3)
    assert (
        facula.equal(first, facula.rand(2))
        and facula.equal(f(facula.zeros(2)), facula.rand(2)) is False
    )
