"""Tests of a user's operator: `opcheck`.

Takes an operator and one set of arguments. Gives the outcome of each test.
Keeps true: nothing is registered or changed; a failure says which promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import autograd, core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail, message
from facula.core.nested import tensors_in
from facula.fx.fake_tensor import DynamicOutputShapeException
from facula.ops.table.overloads import OpOverload, Packet
from facula.ops.table.registry import F

from .custom import CustomOperator, find

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


def _promises(op: object) -> tuple[Any, tuple[str, ...], bool]:
    """An operator's definition, which arguments it says that it writes to, and whether results are views.

    Of facula's own operators as of those that programs define.
    """
    function = getattr(op, "_op", op)
    definition = getattr(function, "definition", None) or find(op)
    if isinstance(function, core.InplaceOp):
        return definition, (definition.schema.parameters[0].name,), True
    users_own = isinstance(definition, CustomOperator)
    views = definition.views if users_own else definition.kind in ("view", "composite")
    return definition, tuple(definition.mutated), views


def _schema(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What the schema does not call written stays as it is, and no result is an argument."""
    definition, mutated, views = _promises(op)
    args = _copied(args)
    names = [p.name for p in definition.schema.parameters]
    given = dict(zip(names, args, strict=False)) | kwargs
    before = {name: [t._version for t in tensors_in(value)] for name, value in given.items()}
    with no_grad():
        result = op(*args, **kwargs)
    for name, value in given.items():
        changed = [t._version for t in tensors_in(value)] != before[name]
        if changed and name not in mutated:
            fail(
                RuntimeError,
                definition.name,
                f"writes to '{name}', which mutates_args leaves out",
                hint="name the argument in mutates_args, or clone() it before writing",
            )
        for tensor in () if views else tensors_in(result):
            if any(core.storage_key(tensor) == core.storage_key(t)
                   for t in tensors_in(value) if t.numel()):  # fmt: skip
                fail(
                    RuntimeError,
                    definition.name,
                    f"returns memory of its argument '{name}' (Argument {name} is not defined to "
                    "alias output but was aliasing)",
                    hint="return a clone() of it",
                )


def _fake(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The function for tensors without data agrees with the others."""
    with no_grad():
        real = tensors_in(op(*_copied(args), **kwargs))
        try:
            fake = tensors_in(op(*_without_data(args), **_without_data_of(kwargs)))
        except DynamicOutputShapeException:
            return  # sizes that depend on elements: there is nothing to compare, as in PyTorch
    seen = [[(tuple(t.shape), t.dtype) for t in results] for results in (real, fake)]
    if seen[0] != seen[1]:
        fail(
            AssertionError,
            _promises(op)[0].name,
            f"the fake function gives {seen[1]}, the kernel {seen[0]} (Shapes or dtypes are not equal)",
            hint=("compute the results' shapes and dtypes in the fake function as the kernel does"),
        )


def _without_data_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _without_data(value) for name, value in kwargs.items()}


def _autograd(op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """A gradient is registered where one of the arguments asks for it."""
    args = _copied(args)
    if any(t.requires_grad for t in tensors_in(args)) and not _promises(op)[1]:
        results = [t for t in tensors_in(op(*args, **kwargs)) if t.requires_grad]
        if results:
            results[0].sum().backward()


def _compiled(
    op: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any], **tolerances: object
) -> None:
    """Traced with changing sizes, an operator gives the results and gradients that it gives alone."""
    # lazily: the compiler is above what programs load that define operators
    from facula.compiler.api import compile as compiled

    _, mutated, views = _promises(op)
    if mutated and views and not isinstance(getattr(op, "_op", op), core.InplaceOp):
        required = (
            "We only support functionalizing operators whose outputs do not have alias annotations"
        )
        fail(RuntimeError, "opcheck", required, op, "return nothing, or new tensors")

    def run(function: Callable[..., Any]) -> list[Any]:
        given, words = _copied(args), _copied_of(kwargs)
        results = tensors_in(function(*given, **words))
        inputs = [t for t in tensors_in((*given, *words.values())) if t.requires_grad]
        ended = [t.sum() for t in results if t.requires_grad]
        if ended and inputs:
            gradients = autograd.grad(ended, inputs, allow_unused=True)
            return [*results, *(g for g in gradients if g is not None)]
        return results

    near = {"rtol": 1e-4, "atol": 1e-5, **tolerances}
    alone = run(op)
    traced = run(compiled(lambda *a, **k: op(*a, **k), backend="aot_eager", dynamic=True))
    if len(alone) != len(traced):
        required = (
            "as many results and gradients were required (eager-mode PyTorch vs AOTDispatcher)"
        )
        fail(AssertionError, "opcheck", required, f"{len(traced)} for {len(alone)}", _UNSTEADY)
    for one, other in zip(traced, alone, strict=True):
        if one.shape != other.shape or not F.allclose(one, other, **near, equal_nan=True):
            alike = one.shape == other.shape
            apart = float((one - other).abs().max()) if alike else f"{one.shape} for {other.shape}"
            required = "equal results were required (eager-mode PyTorch vs AOTDispatcher)"
            fail(AssertionError, "opcheck", required, f"Absolute difference: {apart}", _UNSTEADY)


def _copied_of(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: _copied(value) for name, value in kwargs.items()}


_UNSTEADY = "a function of an operator may depend on its arguments alone"

TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _schema,
    "test_autograd_registration": _autograd,
    "test_faketensor": _fake,
    "test_aot_dispatch_dynamic": _compiled,
}


def _one_overload(op: Any) -> Any:
    """The operator to test: what `custom_op` gave, an overload, or a packet's default.

    Raises:
        ValueError: it is a function of facula's, not an operator of `facula.ops`.
    """
    if isinstance(op, Packet):
        return op.default
    own = isinstance(getattr(op, "definition", None), CustomOperator)
    if own or isinstance(op, OpOverload) or hasattr(op, "_definition"):
        return op
    required = "an OpOverload, or what custom_op gave, was required"
    hint = "for example facula.ops.aten.sin.default"
    fail(ValueError, "opcheck", required, type(op).__name__, hint)


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = tuple(TESTS),
    raise_exception: bool = True,
    **tolerances: object,
) -> dict[str, str]:
    """Runs tests of an operator on one set of arguments: schema, gradient's registration, results
    without data, and results and gradients of a traced program.

    Args:
        op: what `custom_op` gave, or an operator of ``facula.ops``
        args, kwargs: the arguments
        test_utils: names of tests
        raise_exception: whether a failed test is an error
        tolerances: ``rtol`` and ``atol`` of what traced programs give

    Raises:
        OpCheckError: a test failed.
        ValueError: `op` is a plain function, or a test has another name.

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
    op = _one_overload(op)
    chosen = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    outcomes: dict[str, Any] = {}
    for name in chosen:
        if name not in TESTS:
            fail(
                ValueError,
                "opcheck",
                f"tests among {', '.join(TESTS)} were required (expected test_utils to be subset of them)",
                name,
                hint="leave test_utils out for all tests",
            )
        try:
            more = tolerances if TESTS[name] is _compiled else {}
            TESTS[name](op, tuple(args), dict(kwargs or {}), **more)
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
