"""What programs ask of guards: filters, and functions that hear of them. The oracle is what each says that it does."""

import pytest

import facula
from facula.compiler import set_stance
from facula.nn import LayerNorm, Module

SCALE = 1


class Net(Module):
    def __init__(self):
        super().__init__()
        self.add = 2
        self.norm = LayerNorm(4)

    def forward(self, x):
        return self.norm(x) + self.add


def _filtered(model, keep):
    return facula.compile(model, backend="eager", options={"guard_filter_fn": keep})


def test_modules_are_believed_to_stay():
    for name in ("skip_guard_on_all_nn_modules_unsafe", "keep_tensor_guards_unsafe"):
        net = Net()
        compiled = _filtered(net, getattr(facula.compiler, name))
        x = facula.rand(2, 4)
        before = compiled(x)
        net.add = 3
        assert (compiled(x) == before).all()


def test_modules_of_the_framework_are_believed_to_stay_and_others_not():
    net = Net()
    compiled = _filtered(net, facula.compiler.skip_guard_on_inbuilt_nn_modules_unsafe)
    x = facula.rand(2, 4)
    before = compiled(x)
    net.norm.eps = 1.0
    assert (compiled(x) == before).all()
    net.add = 3
    assert facula.allclose(compiled(x), net(x))


def test_globals_are_believed_to_stay(monkeypatch):
    compiled = _filtered(lambda x: x + SCALE, facula.compiler.skip_guard_on_globals_unsafe)
    assert compiled(facula.zeros(1)).item() == 1
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert compiled(facula.zeros(1)).item() == 1
    assert compiled(facula.zeros(1, dtype=facula.float64)).item() == 5  # tensors are looked at


def test_nothing_is_checked():
    compiled = _filtered(lambda x, n: x + n, facula.compiler.skip_all_guards_unsafe)
    assert compiled(facula.zeros(1), 1).item() == 1
    with set_stance("fail_on_recompile"):
        assert compiled(facula.zeros(1), 2).item() == 1


def test_a_filter_of_its_own_sees_names_kinds_and_values():
    seen = {}

    def keep(entries):
        seen.update({entry.name: (entry.guard_type, entry.value) for entry in entries})
        return [entry.name != "y" for entry in entries]

    @facula.compile(backend="eager", options={"guard_filter_fn": keep})
    def program(x, y):
        return x if y is None else x + y

    x = facula.ones(1)
    program(x, None)
    assert seen["y"] == ("CONSTANT_MATCH", None)
    assert seen["x"][0] == "TENSOR_MATCH"
    assert program(x, facula.ones(1)).item() == 1


def test_a_filter_has_to_answer_for_each_guard():
    compiled = _filtered(lambda x, n: x + n, lambda entries: [True])
    with pytest.raises(RuntimeError, match="an answer for each of"):
        compiled(facula.ones(1), 2)


def test_what_is_heard_of_guards():
    failed, made = [], []
    optimize = facula._dynamo.optimize(
        "eager", nopython=True, guard_fail_fn=failed.append, guard_export_fn=made.extend
    )

    @optimize
    def program(x, y):
        return x * y

    program(facula.ones(2), facula.ones(2))
    assert {entry.name for entry in made} >= {"x", "y"}
    assert not failed
    program(facula.ones(3), facula.ones(3))
    assert "tensor 'x' size mismatch at index 0. expected 2, actual 3" in failed[0].reason
    assert failed[0].orig_code.co_name == "program"
    program(facula.ones(3).double(), facula.ones(3))
    assert "tensor 'x' dtype mismatch" in failed[-1].reason
    program(facula.ones(3, 3), facula.ones(3))
    assert "tensor 'x' rank mismatch. expected 1, actual 2" in failed[-1].reason
