"""Functions of entries as functions of batches, for the graphs of a trace under `vmap`.

Takes: a level of `vmap`, functions and operands as a mapped function sees them. Gives: the same below the level.
Keeps true: the batch is the first dimension of operands that have one, and of every result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.autograd.transforms.levels import Suspended, is_batched, wrap

__all__ = ["on_batches", "unwrapped", "wrapped"]


def unwrapped(level: Any, operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """Operands below the level, and which of them have a batch."""
    flags = [is_batched(x, level.number) for x in operands]
    with Suspended(level.below):
        values = [
            x.value.movedim(x.batch_dim, 0) if flag else x
            for x, flag in zip(operands, flags, strict=True)
        ]
    return values, flags


def on_batches(
    level: Any, function: Callable[..., Any], flags: Sequence[bool]
) -> Callable[..., Any]:
    """A function of what stands below the level."""

    def mapped(*values: Any) -> tuple[Any, ...]:
        below = list(core.interpreters())
        twin = level.on(below)
        given = [
            wrap(x, 0, level.number) if flag else x for x, flag in zip(values, flags, strict=True)
        ]
        with Suspended([*below, twin]):
            results = function(*given)
        return tuple([_spread(level, x) for x in results])

    return mapped


def _spread(level: Any, x: core.Tensor) -> Any:
    """A result with the batch in front."""
    if is_batched(x, level.number):
        return x.value.movedim(x.batch_dim, 0)
    if isinstance(x, core.Tensor):
        return x.unsqueeze(0).expand((level.size, *x.shape)).clone()
    return x


def wrapped(level: Any, results: Sequence[Any]) -> tuple[Any, ...]:
    """Results as the mapped function sees them."""
    return tuple([wrap(x, 0, level.number) if isinstance(x, core.Tensor) else x for x in results])
