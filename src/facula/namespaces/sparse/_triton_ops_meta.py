"""Tuning parameters of Triton kernels of sparse products: a table, and a search for better ones.

Takes: the name of an operator, what its inputs are like, a device. Gives: numbers by name.
Keeps true: the table begins empty, since facula measures its own kernels elsewhere; it holds what programs enter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = ["get_meta", "minimize", "update"]

#: operator: the names of its parameters, in the order of the table's rows
_NAMES = {
    "scatter_mm": ("GROUP_SIZE", "SPLIT_N", "TILE_M", "TILE_N", "num_stages", "num_warps"),
    "bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
    "_int_bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
}
_TABLE: dict[Any, dict[tuple[Any, ...], tuple[Any, ...]]] = {}


def _names(op: str) -> tuple[str, ...]:
    if op not in _NAMES:
        fail(NotImplementedError, "get_meta", f"one of {', '.join(_NAMES)} was required", repr(op),
             hint="parameters have names for these operators only")  # fmt: skip
    return _NAMES[op]


def get_meta(
    op: str, key: tuple[Any, ...], device_name: str | None = None, version: Any = (0, core.float16, 0.5),
    exact: bool = False,
) -> dict[Any, Any] | None:  # fmt: skip
    """The parameters entered for an operator's inputs; None where there are none. A `"*"` in the key stands for
    anything, and all that fit are given by their keys."""
    rows = _TABLE.get((op, device_name or "CPU", version))
    if rows is None:
        return None
    if "*" not in key:
        return dict(zip(_names(op), rows[key], strict=True)) if key in rows else None
    fitting = [
        row for row in rows if all(want in ("*", have) for have, want in zip(row, key, strict=True))
    ]
    return {row: dict(zip(_names(op), rows[row], strict=True)) for row in fitting}


def update(
    op: str, device_name: str, version: Any, key: tuple[Any, ...], value: tuple[Any, ...]
) -> None:
    """Enter the parameters of an operator's inputs, in the order of their names."""
    if len(value) != len(_names(op)):
        fail(ValueError, "update", f"{len(_names(op))} numbers were required", len(value),
             hint=f"their order is {', '.join(_names(op))}")  # fmt: skip
    _TABLE.setdefault((op, device_name, version), {})[tuple(key)] = tuple(value)


def _neighbours(
    parameters: dict[str, Any], step_func: Callable[..., Any], max_step: int
) -> list[dict[str, Any]]:
    """What is reached by at most some steps altogether, nearest first."""
    names = sorted(parameters)
    moves = [
        move for move in itertools.product(range(-max_step, max_step + 1), repeat=len(names))
        if 0 < sum(map(abs, move)) <= max_step
    ]  # fmt: skip
    found: list[dict[str, Any]] = []
    for move in sorted(moves, key=lambda move: sum(map(abs, move))):
        near = dict(parameters)
        for name, steps in zip(names, move, strict=True):
            for _ in range(abs(steps)):
                near[name] = step_func(name, near[name], 1 if steps > 0 else -1, near)
        if near != parameters and near not in found:
            found.append(near)
    return found


def minimize(
    target_func: Callable[[dict[str, Any]], float], initial_parameters: dict[str, Any],
    reference_parameters: dict[str, Any], step_func: Callable[..., Any], max_step: int = 2,
    verbose: bool = False, all_values: dict[Any, float] | None = None,
) -> tuple[dict[str, Any], float, float, str]:  # fmt: skip
    """The parameters at which a function is least, as far as steps from the initial ones lead downwards.

    Gives them, by how many percent the reference's value is above theirs, their value, and a line that says what
    the neighbours cost. Parameters at which the function raises are passed over."""
    known: dict[Any, float] = {} if all_values is None else all_values

    def value(parameters: dict[str, Any]) -> float:
        key = tuple(parameters[name] for name in sorted(parameters))
        if key not in known:
            try:
                known[key] = target_func(parameters)
            except Exception as error:
                known[key] = float("inf")
                if verbose:
                    print(f"{parameters}: {error}")
        return known[key]

    best, reference = dict(initial_parameters), value(reference_parameters)
    while True:
        near = _neighbours(best, step_func, max_step)
        better = min(near, key=value, default=best)
        if not value(better) < value(best):
            break
        best = better
        if verbose:
            print(f"{best}: {value(best)}")
    least = value(best)
    gain = (1 - least / reference) * 100 if reference not in (0.0, float("inf")) else 0.0
    costs = ", ".join(f"{one}: {(value(one) / least - 1) * 100:+.1f}%" for one in near if least)
    return best, gain, least, costs
