"""`__jit_ignored_attributes__`: what of a module Python alone has."""

import io

import pytest

import facula
from facula import jit, nn


class Untyped(nn.Module):
    def forward(self, *anything):
        return sum(anything)


class Partly(nn.Module):
    __jit_ignored_attributes__ = ("helper", "sub")

    def __init__(self, helper, scale):
        super().__init__()
        self.helper, self.scale, self.sub = helper, scale, Untyped()
        self.weight = nn.Parameter(facula.ones(2))

    def forward(self, x):
        return x * self.scale * self.weight

    @jit.ignore
    def in_python(self) -> int:
        return self.sub(self.helper, 1)


def test_ignored_attributes_are_pythons_alone():
    scripted = jit.script(Partly(4, 3))
    assert scripted(facula.ones(2)).tolist() == [3, 3]
    assert scripted.in_python() == 5
    file = io.BytesIO()
    jit.save(jit.freeze(scripted.eval()), file)
    assert jit.load(io.BytesIO(file.getvalue()))(facula.ones(2)).tolist() == [3, 3]


def test_types_are_shared_where_what_is_left_is_the_same():
    one, other = jit.script(Partly(nn.Linear(2, 2), 3)), jit.script(Partly("text", 5))
    assert one._c._type() == other._c._type()
    assert one._c._type() != jit.script(Partly("text", 5.0))._c._type()
    assert other(facula.ones(2)).tolist() == [5, 5]


def test_code_that_reads_one_is_refused():
    class Reads(Partly):
        def forward(self, x):
            return x + self.helper

    with pytest.raises(RuntimeError, match="attribute was ignored during compilation"):
        jit.script(Reads(4, 3))
