"""What dispatch modes and subclasses hear of in the place of an operator: PyTorch's operators, with their arguments.

Takes: calls that reach a listener which knows PyTorch's names. Gives: `hear` (a decorator: the same by other
operators), `hear_whole` and `hear_gradient` (the operator itself, with a gradient that listeners hear of), `tell` (one
call that they are told of), and what the core asks, `heard`.
Keeps true: values and gradients are those of the operator; listeners of the package's own (`hears_own_operators`) hear
of its own operators; without a listener nothing of this is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from facula import core
from facula.ops.table.overloads import OpOverload
from facula.ops.table.registry import PLACES, TABLE

_FORMULAS: dict[tuple[Any, Any], Any] = {}


class _Silence(threading.local):
    """The operator whose next call listeners are told of by the core, under its own name."""

    operator: Any = None


_SILENCE = _Silence()


def hear(*names: str) -> Callable[[Any], Any]:
    """Decorator: listeners hear of what the function calls in the place of these operators."""

    def enter(form: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[name].definition.heard = form
        return form

    return enter


def hear_whole(*names: str) -> None:
    """Listeners hear of composites as one call each, where no gradient is wanted."""
    for name in names:
        TABLE[name].definition.heard = _whole(TABLE[name], None)


def hear_gradient(name: str) -> Callable[[Any], Any]:
    """Decorator: the function is the gradient of an operator, of which listeners hear as one call."""

    def enter(formula: Callable[..., Any]) -> Callable[..., Any]:
        TABLE[name].definition.heard = _whole(TABLE[name], formula)
        return formula

    return enter


def hear_as(name: str, theirs: str, formula: Callable[..., Any] | None = None) -> None:
    """Listeners hear of an operator under PyTorch's name, "linalg_vector_norm.default"; its arguments stay.

    Args:
        name: the operator's
        theirs: PyTorch's
        formula: the gradient, where that is not the definition's
    """
    operator = TABLE[name]
    theirs, _, overload = theirs.partition(".")
    told = OpOverload("aten", theirs, overload, operator)
    known = TABLE.get(theirs) or core.operator_of(PLACES[""].get(theirs))
    if known is not None:
        told._known_as, told._hash = known, hash(known)
    backward = formula or operator.definition.backward
    operator.definition.heard = lambda *bound: _tell(operator, bound, backward, told)


def _unsaid(operator: Any) -> Callable[..., Any] | None:
    """What follows from other fields of a definition: PyTorch's name in files, and that draws are whole."""
    definition = operator.definition
    if definition.file_name is not None:
        hear_as(definition.name, definition.file_name)
    elif definition.random and definition.kind == "composite":
        definition.heard = _whole(operator, None)
    return definition.heard


def _whole(operator: Any, formula: Callable[..., Any] | None) -> Callable[..., Any]:
    return lambda *bound: _tell(operator, bound, formula)


def tell(
    operator: Any, *args: Any, backward: Callable[..., Any] | None = None, **kwargs: Any
) -> Any:
    """The result of one call that listeners are told of, recorded by a formula.

    Args:
        operator: an operator of any kind
        args: its arguments
        backward: the gradient, as in definitions
        kwargs: those that are given by name
    """
    return _tell(operator, core.bind_arguments(operator, args, kwargs)[0], backward)


def once(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient that knows its call, so that it is read for this one only."""
    formula.once = True  # type: ignore[attr-defined]
    return formula


def _tell(
    operator: Any,
    bound: tuple[Any, ...],
    backward: Callable[..., Any] | None,
    overload: OpOverload | None = None,
) -> Any:
    definition = operator.definition
    if backward is None and core.is_grad_enabled() and _wants_gradient(bound):
        if definition.kind != "operator" or definition.backward is not None:
            return _plainly(operator, bound)
    formula = None
    if backward is not None and hasattr(backward, "once"):
        formula = core.make_formula(operator, backward)
    elif backward is not None:
        key = (operator, backward)
        formula = _FORMULAS.get(key)
        if formula is None:
            formula = _FORMULAS[key] = core.make_formula(operator, backward)
    result = core.told(operator, bound, formula, overload)
    return _plainly(operator, bound) if result is NotImplemented else result


def _plainly(operator: Any, bound: tuple[Any, ...]) -> Any:
    """The call as the core makes it."""
    before, _SILENCE.operator = _SILENCE.operator, operator
    try:
        args, kwargs = operator.definition.trim(bound)
        return operator(*args, **kwargs)
    finally:
        _SILENCE.operator = before


def _wants_gradient(args: tuple[Any, ...]) -> bool:
    return any(
        isinstance(x, core.Tensor) and x.requires_grad
        for value in args
        for x in (value if isinstance(value, (tuple, list)) else (value,))
    )


def heard(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the core asks about each call that a listener may hear of; NotImplemented leaves it as it is."""
    form = operator.definition.heard or _unsaid(operator)
    if form is None or "out" in kwargs or not _listening(args):
        return NotImplemented
    if _SILENCE.operator is operator:
        _SILENCE.operator = None
        return NotImplemented
    return form(*core.bind_arguments(operator, args, kwargs)[0])


def _listening(args: tuple[Any, ...]) -> bool:
    """Whether an argument's class, or the innermost mode, knows PyTorch's operators."""
    for value in args:
        for x in value if isinstance(value, (tuple, list)) else (value,):
            if type(x) is not core.Tensor and isinstance(x, core.Tensor):
                dispatch = getattr(type(x), "__torch_dispatch__", None)
                if dispatch is not None and not getattr(type(x), "hears_own_operators", False):
                    return True
    mode = core.listening_mode()
    return mode is not None and not getattr(mode, "hears_own_operators", False)
