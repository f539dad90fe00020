"""Backends of a program's own that hand the captured graph on to one of ours."""

import copy

import pytest

import facula
from facula import _dynamo
from facula._inductor.compile_fx import compile_fx

OURS = {
    "inductor": facula.compiler.lookup_backend("inductor"),
    "aot_eager": facula.compiler.lookup_backend("aot_eager"),
    "compile_fx": compile_fx,
    "a copy": lambda module, inputs: compile_fx(copy.deepcopy(module), inputs),
}


@pytest.fixture(params=sorted(OURS))
def backend(request):
    calls = []

    def handing(module, inputs):
        calls.append(len(inputs))
        return OURS[request.param](module, inputs)

    handing.calls = calls
    return handing


def test_sizes_that_change(backend):
    f = facula.compile(lambda x, y: (x * 2 + y).sum(0) * x.shape[1], backend=backend, dynamic=True)
    for n in (3, 4, 5, 6):
        x, y = facula.randn(n, n + 1), facula.randn(n, n + 1)
        assert facula.allclose(f(x, y), (x * 2 + y).sum(0) * (n + 1))
    assert len(backend.calls) == 1


def test_numbers_that_are_read(backend):
    with _dynamo.config.patch(capture_scalar_outputs=True):
        f = facula.compile(lambda x: x * x.sum().item(), backend=backend)
        for n in (3, 4, 5):
            x = facula.randn(n)
            assert facula.allclose(f(x), x * x.sum())


def test_writes_to_one_memory(backend):
    def f(x, y):
        x.mul_(2)
        return y + 1

    compiled = facula.compile(f, backend=backend)
    x, y = facula.ones(3), facula.ones(3)
    assert compiled(x, y).tolist() == [2, 2, 2] and x.tolist() == [2, 2, 2]
    x = facula.ones(3)
    assert compiled(x, x).tolist() == [3, 3, 3] and x.tolist() == [2, 2, 2]


def test_gradients_for_other_sizes(backend):
    f = facula.compile(lambda x: (x * x).sum(), backend=backend, dynamic=True)
    for n in (2, 5, 7):
        x = facula.randn(n, requires_grad=True)
        f(x).backward()
        assert facula.allclose(x.grad, 2 * x.detach())
