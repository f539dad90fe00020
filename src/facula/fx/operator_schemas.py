"""What arguments functions take: giving them one form.

Takes functions, or paths of modules, with arguments as they were written.  Gives the same arguments in
the order and under the names of the signature.
Keeps true: values are not changed; where a signature is not known, the answer is None.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail
from facula.fx.effects import is_impure_function

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op",
    "normalize_function", "normalize_module", "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Arguments by position, and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def signature_of(target: Any) -> inspect.Signature | None:
    """The signature of a function or operator; None where Python does not know it."""
    function = getattr(target, "_op", target)
    if isinstance(function, core.InplaceOp):
        return function.__signature__
    try:
        return inspect.signature(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of an operator: one, as its schema takes all that PyTorch's overloads take."""
    found = signature_of(op)
    if return_schemas:
        return ([found], [getattr(op, "_schema", None)]) if found is not None else (None, None)
    return None if found is None else [found]


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise for an operator that writes to an argument.

    Raises:
        RuntimeError: it does.
    """
    if is_impure_function(target, kwargs, impure_random=False):
        name = getattr(target, "__name__", target)
        fail(RuntimeError, "fx", "an operation that changes nothing was required: Tried to trace mutable "
             f"operation {name}. FX only supports functional code", hint="use the form without "
             "'_' or out=")  # fmt: skip


def _bound(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            if only_kwargs and value:
                return None
            positional.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif only_kwargs or kind is inspect.Parameter.KEYWORD_ONLY:
            if name != "out" or value is not None:
                named[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), named)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call as its signature names them, defaults filled in.

    Args:
        target: the function.
        args, kwargs: the arguments, which may be nodes.
        arg_types, kwarg_types: kept for PyTorch's API: operators have one signature.
        normalize_to_only_use_kwargs: give all arguments by name.
    """
    found = signature_of(target)
    if found is None:
        return None
    return _bound(found, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a submodule as its `forward` names them."""
    module = root.get_submodule(target)
    found = signature_of(module.forward)
    if found is None:
        return None
    return _bound(found, args, kwargs or {}, normalize_to_only_use_kwargs)


def create_type_hint(x: object) -> Any:
    """A list or tuple of types as a type of lists or tuples, where it is one."""
    if not isinstance(x, (list, tuple)):
        return x
    if not x:
        return list[Any] if isinstance(x, list) else tuple[Any, ...]
    kinds = [t for t in x if isinstance(t, type)]
    bases = [t for t in kinds if len(kinds) == len(x) and all(issubclass(u, t) for u in kinds)]
    inner: Any = bases[0] if bases else Any
    return list[inner] if isinstance(x, list) else tuple[inner, ...]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether a value of one type may stand for another."""
    if signature_type is Any or signature_type is argument_type:
        return True
    origin, parts = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(part, argument_type) for part in parts)
    if origin is list and parts:
        if typing.get_origin(argument_type) in (list, tuple):
            given = [part for part in typing.get_args(argument_type) if part is not Ellipsis]
            return all(type_matches(parts[0], part) for part in given)
        return type_matches(parts[0], argument_type)  # one value stands for a list of it
    if signature_type is int and argument_type is core.dtype:
        return True
    both = isinstance(signature_type, type) and isinstance(argument_type, type)
    return both and issubclass(argument_type, signature_type)
