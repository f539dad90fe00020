"""Reference implementations of `linalg`: see `facula._refs`."""

from typing import Any

from . import names_at, reference

__all__ = names_at("linalg")  # pyright: ignore


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    value = globals()[name] = reference("linalg", name)
    return value
