"""Tests of a user's operator: `opcheck`.

Takes an operator and one set of arguments. Gives the outcome of each test.
Keeps true: nothing is registered or changed; a failure says which promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail, message
from facula.devices.results import tensors_of

from .custom import find

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """An operator does not keep a promise."""


def _copied(value: object) -> Any:
    if isinstance(value, core.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(_copied(item) for item in value)
    return value


def _without_data(value: object) -> Any:
    if isinstance(value, core.Tensor):
        return core.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (tuple, list)):
        return type(value)(_without_data(item) for item in value)
    return value


def _schema(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What the schema does not call written stays as it is, and no result is an argument."""
    definition = find(op)
    args = _copied(args)
    names = [p.name for p in definition.schema.parameters]
    given = dict(zip(names, args, strict=False)) | kwargs
    before = {name: [t._version for t in tensors_of(value)] for name, value in given.items()}
    with no_grad():
        result = op(*args, **kwargs)
    for name, value in given.items():
        changed = [t._version for t in tensors_of(value)] != before[name]
        if changed and name not in definition.mutated:
            fail(
                OpCheckError,
                definition.name,
                f"writes to '{name}', which mutates_args leaves out",
                hint="name the argument in mutates_args, or clone() it before writing",
            )
        for tensor in tensors_of(result):
            if any(core.storage_key(tensor) == core.storage_key(t)
                   for t in tensors_of(value) if t.numel()):  # fmt: skip
                fail(
                    OpCheckError,
                    definition.name,
                    f"returns memory of its argument '{name}' (Argument {name} is not defined to "
                    "alias output but was aliasing)",
                    hint="return a clone() of it",
                )


def _fake(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The function for tensors without data agrees with the others."""
    with no_grad():
        real = tensors_of(op(*_copied(args), **kwargs))
        fake = tensors_of(op(*_without_data(args), **_without_data_of(kwargs)))
    seen = [[(tuple(t.shape), t.dtype) for t in results] for results in (real, fake)]
    if seen[0] != seen[1]:
        fail(
            OpCheckError,
            find(op).name,
            f"the fake function gives {seen[1]}, the kernel {seen[0]}",
            hint=("compute the results' shapes and dtypes in the fake function as the kernel does"),
        )


def _without_data_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _without_data(value) for name, value in kwargs.items()}


def _autograd(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A gradient is registered where one of the arguments asks for it."""
    args = _copied(args)
    if any(t.requires_grad for t in tensors_of(args)) and not find(op).mutated:
        results = [t for t in tensors_of(op(*args, **kwargs)) if t.requires_grad]
        if results:
            results[0].sum().backward()


TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
}


def opcheck(
    op: core.Op,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(TESTS),
    raise_exception: bool = True,
    **tolerances: Any,
) -> dict[str, str]:
    """Runs tests of an operator on one set of arguments: schema, gradient's registration, results
    without data.

    Args:
        op: what `custom_op` gave, or an operator of ``facula.ops``
        args, kwargs: the arguments
        test_utils: names of tests
        raise_exception: whether a failed test is an error

    Raises:
        OpCheckError: a test failed.

    Example:
        >>> @facula.library.custom_op("docs::doubled9", mutates_args=())
        ... def doubled(x: facula.Tensor) -> facula.Tensor:
        ...     return x.clone() * 2
        >>> @doubled.register_fake
        ... def _(x):
        ...     return facula.empty_like(x)
        >>> facula.library.opcheck(doubled, (facula.ones(2),), test_utils="test_faketensor")
        {'test_faketensor': 'SUCCESS'}
    """
    chosen = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    outcomes: dict[str, Any] = {}
    for name in chosen:
        if name not in TESTS:
            fail(
                RuntimeError,
                "opcheck",
                f"tests among {', '.join(TESTS)} were required",
                name,
                hint="leave test_utils out for all tests",
            )
        try:
            TESTS[name](op, tuple(args), dict(kwargs or {}))
            outcomes[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    message(
                        "opcheck",
                        f"{name} failed: {error}",
                        hint="opcheck(..., test_utils='name') runs a single test",
                    )
                ) from error
            outcomes[name] = error
    return outcomes
