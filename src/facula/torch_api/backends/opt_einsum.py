"""PyTorch's questions about the `opt_einsum` package, which `facula.einsum` does not need.

Takes and gives the switches `enabled` and `strategy`. Keeps true: they hold what was set.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import Any

enabled = False
strategy: Any = None


def is_available() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("opt_einsum") is not None


def get_opt_einsum() -> Any:
    """The package, or None."""
    if not is_available():
        return None
    import opt_einsum

    return opt_einsum


def set_flags(enabled: bool | None = None, strategy: str | None = None) -> tuple[Any, Any]:
    """Sets both switches (None leaves one as it is); gives what they were."""
    names = globals()
    before = (names["enabled"], names["strategy"])
    given = {"enabled": enabled, "strategy": strategy}
    names.update({name: value for name, value in given.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(enabled: bool | None = None, strategy: str | None = None) -> Iterator[None]:
    """Within the block, sets both switches."""
    before = set_flags(enabled, strategy)
    try:
        yield
    finally:
        globals().update(enabled=before[0], strategy=before[1])
