"""The default generator: seeds, states, and the kind of its stream.

Takes seeds and byte tensors; gives PyTorch's functions of `torch.random`, and `set_stream`. Keeps true: one generator
serves the CPU and every device; in the stream "torch" its numbers and states are those of PyTorch's CPU generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.core import default_generator, get_stream, manual_seed, set_stream

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "get_stream",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "set_stream",
]


def seed() -> int:
    """Seed the default generator from the system; gives the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> core.Tensor:
    """The state of the default generator, a byte tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: core.Tensor) -> None:
    """Restore a state from `get_rng_state`."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cpu",
) -> Iterator[None]:
    """Restore the default generator's state at the end of the block."""
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)
