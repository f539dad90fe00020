"""The mean of all ranks' parameters.

Takes: parameters and a group. Gives: nothing; the parameters are written.
Keeps true: ranks have the same bits afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.distributed.buckets import coalesced, flattened
from facula.distributed.operations import all_reduce
from facula.distributed.types import ReduceOp
from facula.distributed.world import group_of

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Any], process_group: ProcessGroup | None = None) -> None:
    """Put the mean of all ranks' parameters into each of them."""
    group = group_of(process_group)
    if group is None:
        return
    recording = core.set_grad_enabled(False)
    try:
        for same in coalesced(params):
            flat = flattened(same)
            all_reduce(flat, ReduceOp.AVG, group)
            for p, part in zip(same, flat.split([p.numel() for p in same]), strict=True):
                p.detach().copy_(part.view(p.shape))
    finally:
        core.set_grad_enabled(recording)


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """The parameters with gradients, of a list or of an optimizer's groups."""
    found = []
    for entry in params:
        many = entry["params"] if isinstance(entry, dict) else [entry]
        found += [p for p in many if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(
    params: Iterable[Any], process_group: ProcessGroup | None
) -> None:
    """`average_parameters` of those with gradients."""
    average_parameters(get_params_to_average(params), process_group)
