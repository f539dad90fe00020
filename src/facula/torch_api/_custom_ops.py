"""PyTorch's first module for operators of one's own, which older libraries import.

Takes: names, schemas, functions, one registration at a time. Gives: operators of the one table.
Keeps true: the same operator, whichever of PyTorch's interfaces completes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from ._custom_op import impl as _interface
from ._custom_op.impl import _destroy as _destroy
from .library import infer_schema

__all__ = [
    "custom_op",
    "impl",
    "impl_abstract",
    "impl_backward",
    "impl_save_for_backward",
    "infer_schema",
]


def custom_op(qualname: str, func_or_schema: Any = None) -> Any:
    """Define an operator by a schema, or by an annotated function, which the decorator gives back unchanged."""
    if isinstance(func_or_schema, str):
        _interface._create(qualname, func_or_schema)
        return None

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _interface.custom_op(qualname)(function)
        return function

    return decorate if func_or_schema is None else decorate(func_or_schema)


def impl(
    qualname: str,
    *,
    device_types: str | Iterable[str] = ("cpu", "cuda"),
    func: Callable[..., Any] | None = None,
) -> Any:
    """The function of an operator for device types."""
    types = device_types if isinstance(device_types, str) else list(device_types)
    return _interface.implement(qualname, types, func)


def impl_abstract(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """The function of an operator for tensors without data."""
    if func is not None:
        return _interface.abstract(qualname, func)
    return lambda function: _interface.abstract(qualname, function)


def impl_save_for_backward(qualname: str, *, func: Callable[..., Any] | None = None) -> Any:
    """What is kept for the gradient: `func(inputs, output)`."""
    if func is not None and inspect.isfunction(func):
        return _interface.save_for_backward(qualname, func)
    return lambda function: _interface.save_for_backward(qualname, function)


def impl_backward(
    qualname: str,
    output_differentiability: list[bool] | None = None,
    *,
    func: Callable[..., Any] | None = None,
) -> Any:
    """The gradient: `func(ctx, saved, *grads)` gives a dictionary by the names of arguments."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return _interface.backward(qualname, function, output_differentiability)

    return decorate if func is None else decorate(func)
