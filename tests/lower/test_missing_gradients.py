"""Outputs of compiled programs that no gradient comes back to: nothing flows from them, as in eager."""

from __future__ import annotations

import pytest

import facula
from facula import nn

BACKENDS = ["aot_eager", "inductor"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_zero_meets_infinity(backend):
    call = facula.compile(lambda x: (x.sqrt(), x * 2, 1 / x), backend=backend)
    x = facula.zeros(3, requires_grad=True)
    call(x)[1].sum().backward()
    assert x.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_without_a_way_have_no_gradient(backend):
    call = facula.compile(lambda x, y: (x * 2, y * 3, x * y), backend=backend)
    for chosen in ((0,), (1,), (2,), (0, 1), (0, 2)):
        found = []
        for function in (lambda x, y: (x * 2, y * 3, x * y), call):
            x, y = facula.ones(2, requires_grad=True), facula.full((2,), 2.0, requires_grad=True)
            outputs = function(x, y)
            sum(outputs[n].sum() for n in chosen).backward()
            found.append([None if t.grad is None else t.grad.tolist() for t in (x, y)])
        assert found[0] == found[1]


def programs():
    yield "sorted", lambda x: (x.sort()[0], x.sort()[1], x.cumsum(0)), (2,)
    yield "views", lambda x: (x[1:] * 2, x.view(2, 2).T.exp(), x.flip(0)), (1,)
    yield "joined", lambda x: (facula.cat([x, x * 2]), facula.stack([x, x.cos()]), x.sum()), (0, 2)
    yield "softmax", lambda x: (x.softmax(0), x.log_softmax(0)[1:], x.norm()), (0,)
    yield "broadcast", lambda x: (x[:, None] * x, x.mean() + x, x.amax()), (1, 2)
    yield "indexed", lambda x: (x[[0, 0, 2]], x.gather(0, facula.tensor([1])), x * x[0]), (0,)


CASES = list(programs())


@pytest.mark.parametrize("name, program, chosen", CASES, ids=[c[0] for c in CASES])
def test_part_of_the_outputs(name, program, chosen):
    call = facula.compile(program, backend="aot_eager")
    every = tuple(range(3))
    for used in (chosen, every, chosen):
        gradients = []
        for function in (program, call):
            x = facula.tensor([0.5, 2.0, 1.0, 3.0], requires_grad=True)
            outputs = function(x)
            sum(outputs[n].square().sum() for n in used if outputs[n].requires_grad).backward()
            gradients.append(x.grad)
        assert gradients[0].allclose(gradients[1])


def test_a_recurrent_network_whose_state_is_not_used():
    layer = nn.LSTM(3, 4, num_layers=2)
    call = facula.compile(layer, backend="aot_eager")
    x = facula.randn(5, 2, 3)
    found = []
    for function in (layer, call):
        layer.zero_grad()
        function(x)[0].sum().backward()
        found.append([p.grad.clone() for p in layer.parameters()])
    for a, b in zip(*found, strict=True):
        assert a.allclose(b, atol=1e-6)
