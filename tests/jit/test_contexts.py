"""`with` in scripted code: contexts are entered and left as in Python, also where the body leaves or raises."""

import io
from typing import Any

import pytest

import facula
from facula import jit


class Counter:
    def __init__(self, start: float):
        self.count = facula.tensor([start])

    def __enter__(self):
        self.count.add_(1)
        return self.count

    def __exit__(self, type: Any, value: Any, tb: Any):
        self.count.mul_(10)


def returns_early(c: Counter, x):
    with c as inside:
        if bool(x.sum() > 0):
            return x + inside
        x = x - inside
    return x


def breaks(c: Counter, x):
    for i in range(4):
        with c as inside:
            if i == 2:
                break
            x = x + inside
    return x


def nested(c: Counter, d: Counter, x):
    with c as a, d as b:
        y = x + a * b
    with c:
        pass
    return y


def raises(c: Counter, x):
    with c:
        with c:
            raise ValueError("inside")
    return x


@pytest.mark.parametrize("value", [2.0, -2.0])
@pytest.mark.parametrize("function", [returns_early, breaks])
def test_contexts_are_left_however_the_body_ends(function, value):
    ours, theirs = Counter(1.0), Counter(1.0)
    x = facula.tensor([value])
    assert facula.equal(jit.script(function)(ours, x), function(theirs, x))
    assert facula.equal(ours.count, theirs.count)


def test_contexts_inside_of_each_other_are_left_in_turn():
    ours, theirs = (Counter(1.0), Counter(2.0)), (Counter(1.0), Counter(2.0))
    x = facula.ones(2)
    assert facula.equal(jit.script(nested)(*ours, x), nested(*theirs, x))
    assert [c.count.item() for c in ours] == [c.count.item() for c in theirs]


def test_a_context_is_left_where_the_body_raises():
    counter = Counter(1.0)
    with pytest.raises(ValueError, match="inside"):
        jit.script(raises)(counter, facula.ones(1))
    assert counter.count.item() == (1 + 1 + 1) * 10 * 10


class Frozen(facula.nn.Module):
    def forward(self, x):
        with facula.no_grad():
            y = x * 2
            with facula.enable_grad():
                z = x * 3
            if bool(y.sum() > 100):
                return y
        with facula.autograd.profiler.record_function("named"):
            y = y + 1
        return y + z


def test_recording_is_switched_off_and_on_and_files_keep_that():
    scripted = jit.script(Frozen())
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    for module in (scripted, jit.load(file)):
        x = facula.ones(2, requires_grad=True)
        module(x).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
        assert not module(x * 100).requires_grad
        assert facula.is_grad_enabled()
    assert str(scripted.forward.schema).endswith("-> Tensor")


class Closed:
    def __init__(self):
        self.x = 1


class Short:
    def __init__(self):
        self.x = 1

    def __enter__(self):
        self.x = 2

    def __exit__(self, type: Any, value: Any):
        pass


def test_what_is_no_context_manager_is_named():
    def closed(c: Closed):
        with c:
            pass

    def short(c: Short):
        with c:
            pass

    def text():
        with "words":
            pass

    for function, said in (
        (closed, "does not define __enter__ and __exit__ methods"),
        (short, "__exit__ must have four arguments"),
        (text, "must return an object"),
    ):
        with pytest.raises(RuntimeError, match=said):
            jit.script(function)
