"""Settings that hold for a whole graph of pipes: shares, shuffling, seeds.

Takes the last pipe of a graph. Gives it back with the setting applied to all pipes below.
Keeps true: each pipe gets its setting once, and seeds come in an order that the graph decides.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

from facula.core.errors import fail
from facula.data.datapipes.utils.common import drawn_seed
from facula.data.graph import DataPipeGraph, traverse_dps

__all__ = [
    "apply_random_seed",
    "apply_sharding",
    "apply_shuffle_seed",
    "apply_shuffle_settings",
    "get_all_graph_pipes",
]


def get_all_graph_pipes(graph: DataPipeGraph) -> list[Any]:
    """The pipes of a graph, each once, those in front first."""
    found: dict[int, Any] = {}

    def enter(part: DataPipeGraph) -> None:
        for number, (pipe, below) in part.items():
            if number not in found:
                found[number] = pipe
                enter(below)

    enter(graph)
    return list(found.values())


def is_own_method(pipe: object, *methods: str) -> bool:
    """Whether a pipe has methods, not counting the steps that it gives as attributes."""
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in methods)


def apply_sharding(
    datapipe: Iterable[Any], num_of_instances: int, instance_id: int, sharding_group: Any = 1
) -> Any:
    """Give the pipes that share values out the share `instance_id` of `num_of_instances`.

    Raises:
        RuntimeError: one such pipe is behind another.
    """

    def enter(part: DataPipeGraph, before: object) -> None:
        for pipe, below in part.values():
            shares = is_own_method(pipe, "apply_sharding")
            if shares and before is not None:
                fail(
                    RuntimeError,
                    "apply_sharding",
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. "
                    f"Sharding already applied to {before} while trying to apply to {pipe}",
                    hint="keep one sharding_filter on each way through the graph",
                )
            if shares and len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                pipe.apply_sharding(num_of_instances, instance_id)
            elif shares:
                pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
            enter(below, pipe if shares else before)

    enter(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switch all shuffling of a graph on or off; None leaves it."""
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if is_own_method(pipe, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the "
            "end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Iterable[Any], rng: Any) -> Any:
    """Give each random pipe of a graph a seed that is drawn from a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if is_own_method(pipe, "set_seed"):
            pipe.set_seed(drawn_seed(rng))
    return datapipe


def apply_shuffle_seed(datapipe: Iterable[Any], rng: object) -> Any:
    """Deprecated: `apply_random_seed`."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)
