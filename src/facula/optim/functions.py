"""Optimizers as functions of lists: `optim.adam.adam(params, grads, exp_avgs, ...)`.

Takes: the class of an optimizer, and what its function is called with. Gives: the function.
Keeps true: a step is the class's own, so both have the same numbers; parameters, states and counts are
changed in place, or replaced in their list where the step is to be differentiated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = ["step_function"]

#: pairs that a function takes apart and a class together
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
    "eps": ("eps1", "eps2"),
}
#: what says how numbers are computed, or is none of the class's settings
_APART = frozenset("foreach fused grad_scale found_inf has_complex has_sparse_grad".split())
_OPTIONS = {
    "capturable": False,
    "differentiable": False,
    "decoupled_weight_decay": False,
    "maximize": False,
}
_OPTIONS |= {"has_complex": False, "has_sparse_grad": False}

_Kind = inspect._ParameterKind


def _signature(lists: tuple[str, ...], options: str, settings: str) -> inspect.Signature:
    """Lists, then options with a default, then settings by keyword alone."""
    parameters = [inspect.Parameter(name, _Kind.POSITIONAL_OR_KEYWORD) for name in lists]
    for name in options.split():
        default = _OPTIONS.get(name)
        parameters.append(inspect.Parameter(name, _Kind.POSITIONAL_OR_KEYWORD, default=default))
    for name in settings.split():
        absent: Any = None if name in _APART else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, _Kind.KEYWORD_ONLY, default=absent))
    return inspect.Signature(parameters)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the class."""
    settings = {name: value for name, value in given.items() if name not in _APART}
    for whole, parts in _PAIRS.items():
        if parts[0] in settings:
            settings[whole] = tuple(settings.pop(part) for part in parts)
    return settings


def _unscaled(grads: list[Any], given: dict[str, Any]) -> list[Any] | None:
    """The gradients without the factor of a scaler; None where one of them was not finite."""
    found, scale = given.get("found_inf"), given.get("grad_scale")
    if found is not None and float(found) != 0:
        return None
    return grads if scale is None else [grad / scale for grad in grads]


def step_function(
    name: str, optimizer: Callable[..., Any], states: dict[str, str], options: str, settings: str
) -> Callable[..., None]:
    """The function of an optimizer.

    Args:
        name: what it is called
        optimizer: the class
        states: the class's name of each state that a list holds; an empty list is a state that is not kept
        options: names of arguments with a default, in their order
        settings: names of the arguments that are given by keyword

    Raises (the function):
        TypeError: arguments are missing, or others were given.
        RuntimeError: lists have different lengths.
    """
    first = ("params", "d_p_list" if name == "sgd" else "grads")
    signature = _signature((*first, *states), options, settings)

    def function(*args: object, **kwargs: object) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = dict(given.arguments)
        params, grads = (values.pop(key) for key in first)
        lists = {state: values.pop(key) for key, state in states.items()}
        _check_lengths(name, params, {"grads": grads, **lists})
        unscaled = _unscaled(grads, values)
        if unscaled is not None:
            _step(optimizer, _settings(values), params, unscaled, lists)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"One step of `{optimizer.__name__}` for lists of tensors, in place."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _check_lengths(name: str, params: list[Any], lists: dict[str, list[Any]]) -> None:
    for key, values in lists.items():
        if len(values) not in ((len(params),) if key in ("grads", "step") else (0, len(params))):
            fail(
                RuntimeError,
                name,
                f"as many entries of '{key}' as parameters ({len(params)}) were required",
                len(values),
                hint="a state that the settings do not ask for may be an empty list",
            )


def _step(
    kind: Callable[..., Any],
    settings: dict[str, Any],
    params: list[Any],
    grads: list[Any],
    lists: dict[str, list[Any]],
) -> None:
    """The class's step, for parameters whose states the lists hold."""
    maker = kind([facula.empty((1, 1))], **settings)
    group = maker.param_groups[0]
    recording = core.set_grad_enabled(core.is_grad_enabled() and bool(group.get("differentiable")))
    try:
        for index, (p, g) in enumerate(zip(params, grads, strict=True)):
            held = {name: values[index] for name, values in lists.items() if values}
            state = {name: value for name, value in held.items() if value is not None}
            maker.step_with(group, p, g, state)
            for name, values in lists.items():
                if values and name in state:
                    values[index] = state[name]
    finally:
        core.set_grad_enabled(recording)
