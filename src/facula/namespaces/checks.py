"""Checks that programs make themselves: `facula._check` and its kin, `_assert`, `_assert_async`.

Takes: a condition, and what to say where it does not hold. Gives: nothing, or the error.
Keeps true: a message is made only for an error; where a program is captured, a condition on a tensor
is checked behind the graph (docs/compiler.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core import errors
from facula.core.errors import fail

from . import overrides

__all__ = [
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size",
    "_check_not_implemented", "_check_tensor_all", "_check_type", "_check_value", "_check_with",
]  # fmt: skip

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: object, message: Message) -> None:
    """Raise `error_type` where `cond`, a bool or a symbolic one, is not true.

    Raises:
        TypeError: the condition is a tensor or no bool, or the message is not callable.
    """
    if type(cond) is int or not isinstance(cond, int):  # symbolic ones are of a class of their own
        fail(
            TypeError,
            "_check",
            "cond must be a bool",
            type(cond).__name__,
            hint="_check_tensor_all(cond) asks whether all elements of a tensor are true",
        )
    expect = getattr(cond, "expect", None)
    # of a number that is read from elements the program checks it where it runs
    fulfilled = cond if expect is None else expect(message)
    if not fulfilled:
        raise error_type(_said(message))


def _said(message: Message) -> str:
    if message is None:
        return (
            "Expected cond to be True, but got False.\nhint: pass a message that says what is wrong"
        )
    if not callable(message):
        fail(
            TypeError,
            "_check",
            "message must be a callable",
            type(message).__name__,
            hint="write lambda: message, so that it is made only when it is needed",
        )
    return str(message())


def _check(cond: object, message: Message = None) -> None:
    """Raise RuntimeError where `cond` is not true."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: object, message: Message = None) -> None:
    """Raise IndexError where `cond` is not true."""
    _check_with(IndexError, cond, message)


def _check_value(cond: object, message: Message = None) -> None:
    """Raise ValueError where `cond` is not true."""
    _check_with(ValueError, cond, message)


def _check_type(cond: object, message: Message = None) -> None:
    """Raise TypeError where `cond` is not true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: object, message: Message = None) -> None:
    """Raise NotImplementedError where `cond` is not true."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:  # noqa: A002
    """Raise RuntimeError where a number is no size, or above `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond: object, message: Message = None) -> None:
    """Raise RuntimeError where not all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: object, message: Message = None
) -> None:
    """Raise an error of the type that is given where not all elements of a bool tensor are true."""
    if not isinstance(cond, core.Tensor) or cond.dtype is not core.bool_:
        required = "cond tensor must have dtype torch.bool"
        fail(
            TypeError,
            "_check_tensor_all",
            required if isinstance(cond, core.Tensor) else "cond must be a tensor of bools",
            getattr(cond, "dtype", type(cond).__name__),
            hint="compare the tensor with something",
        )
    if not cond.all():
        raise error_type(_said(message))


def _assert(condition: Any, message: str) -> Any:
    """`assert condition, message` as a call, which symbolic tracing may record."""
    if type(condition) is not core.Tensor and overrides.has_torch_function((condition,)):
        return overrides.handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Any, message: str | None = None) -> Any:
    """Raise RuntimeError where a tensor of one element is zero; there is nothing to wait for here."""
    if type(condition) is not core.Tensor and overrides.has_torch_function((condition,)):
        return overrides.handle_torch_function(_assert_async, (condition,), condition, message)
    if not condition:
        required = "Expected Tensor with single nonzero value, but got zero"
        raise RuntimeError(
            message or errors.message("_assert_async", required, hint="pass a message")
        )
