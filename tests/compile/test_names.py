"""Names are looked up again: whoever replaces a method, a builtin or a library's function is heard."""

from __future__ import annotations

import builtins
import functools
import math
import operator

import pytest
from capturing import Graphs

import facula
from facula import nn
from facula.nn import functional as F

X = facula.tensor([-1.0, 2.0])


def compiled(function):
    graphs = Graphs()
    return facula.compile(function, backend=graphs), graphs


class Base:
    rate = 2.0

    def step(self, x):
        return x + 1

    @property
    def shift(self):
        return 1.0

    @staticmethod
    def fixed(x):
        return x - 1

    @classmethod
    def named(cls, x):
        return x * cls.rate


class Derived(Base):
    def __call__(self, x):
        return self.step(x) + self.shift


def _replacements():
    yield "method", lambda x: Derived().step(x), (Base, "step", lambda self, x: x + 5)
    yield "shadowed method", lambda x: Derived().step(x), (Derived, "step", lambda self, x: x + 5)
    yield "property", lambda x: x + Derived().shift, (Base, "shift", property(lambda self: 7.0))
    yield "static method", lambda x: Base.fixed(x), (Base, "fixed", staticmethod(lambda x: x - 9))
    yield "class attribute", lambda x: Derived.named(x), (Base, "rate", 3.0)
    yield "special method", lambda x: Derived()(x), (Derived, "__call__", lambda self, x: x * 8)
    yield "builtin", lambda x: x * abs(-2), (builtins, "abs", lambda v: 5)
    yield "library function", lambda x: F.relu(x), (F, "relu", lambda v: v + 5)
    yield "name of facula", lambda x: facula.relu(x), (facula, "relu", lambda v: v + 5)
    yield "standard library", lambda x: x + math.sqrt(4.0), (math, "sqrt", lambda v: 11.0)
    yield (
        "operator module",
        lambda x: functools.reduce(operator.add, [x, x, x]),
        (operator, "add", operator.mul),
    )
    yield "tensor method", lambda x: x.relu(), (facula.Tensor, "relu", lambda v: v + 5)


CASES = list(_replacements())


@pytest.mark.parametrize("name, function, change", CASES, ids=[case[0] for case in CASES])
def test_a_replaced_name_is_heard_and_its_return_too(monkeypatch, name, function, change):
    call, graphs = compiled(function)
    before = function(X)
    assert call(X).equal(before) and call(X).equal(before) and len(graphs) == 1
    with monkeypatch.context() as patch:
        patch.setattr(*change)
        expected = function(X)
        assert not expected.equal(before)
        assert call(X).equal(expected)
    assert call(X).equal(before)
    assert len(graphs) == 2  # what was captured first serves again


def test_a_layers_forward_is_heard(monkeypatch):
    module = nn.Sequential(nn.Linear(2, 2))
    call, _ = compiled(module)
    assert call(X).equal(module(X))
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x * 7)
    assert call(X).equal(X * 7)


def test_replaced_code_is_heard():
    def inner(x):
        return x + 1

    call, _ = compiled(lambda x: inner(x))
    assert call(X).equal(X + 1)
    inner.__code__ = (lambda x: x + 2).__code__
    assert call(X).equal(X + 2)


def test_an_instance_attribute_that_hides_a_method_is_heard():
    owner = Derived()
    call, _ = compiled(lambda x: owner.step(x))
    assert call(X).equal(X + 1)
    owner.step = lambda x: x + 3
    assert call(X).equal(X + 3)


def test_other_changes_of_a_class_or_module_capture_nothing():
    call, graphs = compiled(lambda x: Derived().step(x) + F.relu(x))
    call(X)
    for n in range(3):
        Base.unrelated = n
        F.unrelated = n
        assert call(X).equal(X + 1 + X.relu())
    del Base.unrelated, F.unrelated
    assert len(graphs) == 1


def test_reasons_name_what_was_replaced(monkeypatch):
    call, _ = compiled(lambda x: Derived().step(x))
    call(X)
    monkeypatch.setattr(Base, "step", lambda self, x: x + 5)
    with facula._dynamo.config.patch(error_on_recompile=True):
        with pytest.raises(facula._dynamo.exc.RecompileError, match=r"Derived\.step is another"):
            call(X)


def test_a_decorator_around_a_compiled_function_is_not_the_function():
    inner = facula.compile(lambda x: x.sin(), backend="eager")

    @functools.wraps(inner)
    def outer(x):
        return inner(x) + 1

    assert facula.compile(outer, backend="eager")(X).allclose(X.sin() + 1)


def test_a_compiled_modules_own_forward_is_heard(monkeypatch):
    class Module(nn.Module):
        def forward(self, x):
            return x + 1

    module = Module()
    call, _ = compiled(module)
    assert call(X).equal(X + 1)
    monkeypatch.setattr(Module, "forward", lambda self, x: x + 5)
    assert call(X).equal(X + 5)
    module.forward = lambda x: x + 9
    assert call(X).equal(X + 9)
