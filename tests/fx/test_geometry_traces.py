"""Traces of what changes a tensor's shape, strides or memory in place."""

from __future__ import annotations

import pytest

import facula
from facula._subclasses import FakeTensorMode
from facula.fx.experimental.proxy_tensor import make_fx

PROGRAMS = {
    "t_": lambda x: x.clone().t_(),
    "unsqueeze_": lambda x: x.clone().unsqueeze_(0) + 1,
    "transpose_": lambda x: x.clone().transpose_(0, 1) * 2,
    "squeeze_": lambda x: x.unsqueeze(0).clone().squeeze_(0) + 1,
    "swapaxes_": lambda x: x.clone().swapaxes_(0, 1),
    "as_strided_": lambda x: x.clone().as_strided_((2, 2), (1, 2)),
    "resize_": lambda x: x.clone().resize_(3, 2).fill_(1),
    "set_": lambda x: x.clone().set_(x + 1) * 2,
    "an input": lambda x: (x.t_(), x + 1)[1],
    "written afterwards": lambda x: x.clone().t_().add_(1),
    "another on the same memory": lambda x: (lambda y, z: (z.t_(), y + 1, z + 1)[1:])(x.detach(), x),
    "a view made before": lambda x: (lambda c: (lambda v: (c.t_(), v * 2, c.sum(0))[1:])(c[0]))(x.clone()),
}  # fmt: skip


def leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_trace_does_what_the_program_does(name, mode):
    program = PROGRAMS[name]
    traced = make_fx(program, tracing_mode=mode)(facula.randn(2, 3))
    x = facula.randn(2, 3)
    mine, given = x.clone(), x.clone()
    for a, b in zip(leaves(program(mine)), leaves(traced(given)), strict=True):
        assert a.shape == b.shape and a.stride() == b.stride() and a.equal(b)
    assert mine.shape == given.shape and mine.equal(given)


def test_fake_tensors_change_their_own_geometry():
    with FakeTensorMode():
        x = facula.empty(2, 3)
        x.t_()
        assert x.shape == (3, 2) and x.stride() == (1, 3)
        x.resize_(4)
        assert x.shape == (4,)
