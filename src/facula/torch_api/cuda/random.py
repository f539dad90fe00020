"""Random numbers of CUDA devices.

Takes seeds and states. Gives PyTorch's functions. Keeps true: numbers do not depend on the device, so the
default generator of facula is that of every device; without a device there is no state to ask for, and
what is set waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from facula import core

from .. import cuda

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Random numbers do not depend on the device: `facula.manual_seed` seeds all of them."""


def manual_seed_all(seed: int) -> None:
    """Random numbers do not depend on the device: `facula.manual_seed` seeds all of them."""


def seed() -> None:
    """Random numbers do not depend on the device: `facula.seed` seeds all of them."""


def seed_all() -> None:
    """Random numbers do not depend on the device: `facula.seed` seeds all of them."""


def initial_seed() -> int:
    """The seed of all devices."""
    return core.default_generator.initial_seed()


def get_rng_state(device: core.device | str | int | None = "cuda") -> core.Tensor:
    """The state of a device's generator.

    Raises:
        AssertionError: there is no device.
    """
    cuda.init()
    return core.default_generator.get_state()


def get_rng_state_all() -> list[core.Tensor]:
    """The states of all devices."""
    return [get_rng_state(index) for index in range(cuda.device_count())]


def set_rng_state(new_state: core.Tensor, device: core.device | str | int | None = "cuda") -> None:
    """Restores a state; without a device there is nothing to restore."""
    if cuda.is_available():
        core.default_generator.set_state(new_state)


def set_rng_state_all(new_states: Iterable[core.Tensor]) -> None:
    """Restores the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
