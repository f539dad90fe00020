"""Python's own operators as overrides of functions hear of them: by PyTorch's names, and with its arguments."""

import operator

import pytest

import facula
from facula import Tensor, core
from facula.overrides import TorchFunctionMode

X = facula.arange(1, 5)
Y = facula.arange(1.0, 5.0)

#: what is called -> the method that is told
HEARD = {
    "//": (lambda: Y // 2, Tensor.__floordiv__),
    "r//": (lambda: 2 // Y, Tensor.__rfloordiv__),
    "**": (lambda: Y**2, Tensor.__pow__),
    "==": (lambda: Y == 1, Tensor.__eq__),
    "&": (lambda: X & 1, Tensor.__and__),
    "|": (lambda: X | 1, Tensor.__or__),
    "^": (lambda: X ^ X, Tensor.__xor__),
    "<<": (lambda: X << 1, Tensor.__lshift__),
    ">>": (lambda: X >> 1, Tensor.__rshift__),
    "~": (lambda: ~X, Tensor.__invert__),
    "&=": (lambda: operator.iand(X.clone(), 1), Tensor.__iand__),
    "**=": (lambda: operator.ipow(Y.clone(), 2), Tensor.__ipow__),
    "<<=": (lambda: operator.ilshift(X.clone(), 1), Tensor.__ilshift__),
    "+": (lambda: Y + 1, Tensor.add),
    "!=": (lambda: Y != 1, Tensor.ne),
    "-=": (lambda: operator.isub(Y.clone(), 1), Tensor.sub_),
}
PROTOCOLS = {
    "bool": (lambda: bool(X[:1]), Tensor.__bool__, True),
    "len": (lambda: len(X), Tensor.__len__, 4),
    "in": (lambda: 3 in X, Tensor.__contains__, True),
}


class Hearing(TorchFunctionMode):
    def __init__(self) -> None:
        self.heard: list = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.heard.append((func, len(args)))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("sign", HEARD)
def test_modes_hear_of_signs(sign):
    call, method = HEARD[sign]
    expected = call()
    with Hearing() as mode:
        result = call()
    assert mode.heard[-1] == (method, 1 if sign == "~" else 2)
    assert result.equal(expected) and result.dtype == expected.dtype


@pytest.mark.parametrize("name", PROTOCOLS)
def test_modes_hear_of_protocols(name):
    call, method, expected = PROTOCOLS[name]
    with Hearing() as mode:
        assert call() == expected
    assert mode.heard[-1][0] == method


def test_subclasses_hear_of_signs_and_run_them():
    heard = []

    class Logged(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            heard.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = X.clone().as_subclass(Logged)
    heard.clear()
    assert type(x // 2) is type(x == 2) is type(x & 1) is type(~x) is Logged
    assert heard[:4] == [Tensor.__floordiv__, Tensor.__eq__, Tensor.__and__, Tensor.__invert__]
    x &= 1
    assert x.tolist() == [1, 0, 1, 0] and type(x) is Logged


def test_signs_stand_for_operators():
    assert core.operator_of(Tensor.__eq__) is facula.eq
    assert core.operator_of(Tensor.__floordiv__) is core.operator_of(facula.floor_divide)
    assert core.operator_of(Tensor.__invert__) is core.operator_of(facula.bitwise_not)
    assert core.operator_of(len) is len and core.operator_of(int.__eq__) is int.__eq__
