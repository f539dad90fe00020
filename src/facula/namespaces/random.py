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
    """Seeds the default generator from the system, and gives the seed.

    Example:
        >>> isinstance(facula.seed(), int)
        True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    Example:
        >>> _ = facula.manual_seed(3)
        >>> facula.initial_seed()
        3
    """
    return default_generator.initial_seed()


def get_rng_state() -> core.Tensor:
    """The state of the default generator, a tensor of bytes.

    Example:
        >>> state = facula.get_rng_state()
        >>> x = facula.rand(2)
        >>> facula.set_rng_state(state)
        >>> facula.equal(facula.rand(2), x)
        True
    """
    return default_generator.get_state()


def set_rng_state(new_state: core.Tensor) -> None:
    """Puts back a state of the default generator.

    Args:
        new_state: as `get_rng_state` gave it

    Example:
        >>> facula.set_rng_state(facula.get_rng_state())
    """
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
