"""Scripts that a traced program calls stay calls: their branches and loops follow the inputs of each run."""

from __future__ import annotations

import io
import warnings

import pytest

import facula
from facula import jit, nn


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(facula.full((2,), 3.0))

    def forward(self, x):
        if bool(x.sum() > 0):
            return x * self.scale
        return x + 2

    @jit.export
    def repeated(self, x, times: int):
        for _ in range(times):
            x = x + self.scale
        return x, times


def traced(module, example):
    with warnings.catch_warnings():
        warnings.simplefilter("error", jit.TracerWarning)
        return jit.trace(module, example)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = jit.script(Branch())
        self.parts = nn.ModuleList([jit.script(Branch())])

    def forward(self, x):
        y, times = self.branch.repeated(x, 3)
        return self.parts[0](self.branch(y - 20)) * times


def test_methods_of_scripted_modules_keep_their_branches():
    module = Outer()
    made = traced(module, facula.ones(2))
    kinds = [n.kind() for n in made.graph.nodes()]
    assert kinds.count("prim::CallMethod") == 3 and "prim::If" not in kinds
    for x in (facula.ones(2), facula.full((2,), 30.0), facula.full((2,), 10.5)):
        assert facula.equal(made(x), module(x))
    # by hand: (30 + 9 - 20) * 3 * 3 * 3
    assert made(facula.full((2,), 30.0)).tolist() == [513.0, 513.0]


def test_a_file_keeps_them_too():
    made = traced(Outer(), facula.ones(2))
    file = io.BytesIO()
    jit.save(made, file)
    file.seek(0)
    assert jit.load(file)(facula.full((2,), 30.0)).tolist() == [513.0, 513.0]


def test_a_scripted_module_outside_of_the_traced_one_is_refused():
    module = jit.script(Branch())
    with pytest.raises(RuntimeError, match="it is not part of the active trace"):
        jit.trace(lambda x: module(x), facula.ones(2))


@jit.script
def lowered(x, times: int):
    for _ in range(times):
        if bool(x.sum() > 0):
            x = x - 1
    return x


def test_sizes_reach_scripted_functions():
    made = traced(lambda x: lowered(x, x.size(0)), facula.full((3,), 2.0))
    assert made(facula.full((5,), 9.0)).tolist() == [4.0] * 5  # five rounds, one for each element
    assert made(facula.full((2,), -1.0)).tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x: x + float(x), "Python float"),
        (lambda x: x if x else -x, "Python boolean"),
        (lambda x: x + x.tolist()[0], "Python list"),
        (lambda x: x + float(x.numpy()[0]), "NumPy array"),
    ],
)
def test_warnings_name_what_a_tensor_becomes(function, word):
    with pytest.warns(jit.TracerWarning, match=word):
        jit.trace(function, facula.ones(1), check_trace=False)
