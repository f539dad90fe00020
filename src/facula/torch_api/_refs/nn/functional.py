"""Reference implementations of `nn.functional`: see `facula._refs`."""

from typing import Any

from .. import names_at, reference

__all__ = names_at("nn.functional")  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    value = globals()[name] = reference("nn.functional", name)
    return value
