"""PyTorch's switches of cuDNN, for an installation without it.

Takes and gives the switches `enabled`, `benchmark`, `deterministic`, `allow_tf32`, as attributes or
through `flags`. Keeps true: they hold what was set and change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from facula import core

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"

_NAMES = (
    "enabled",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "allow_tf32",
    "fp32_precision",
)


class _Precision:
    """A precision of its own for convolutions or recurrent layers."""

    fp32_precision = "none"


conv = _Precision()
rnn = _Precision()


def version() -> int | None:
    """The version of cuDNN: None, there is none."""
    return None


def is_available() -> bool:
    """Whether cuDNN is there: never."""
    return False


def is_acceptable(tensor: core.Tensor) -> bool:
    """Whether cuDNN can work on a tensor: never."""
    return False


def set_flags(**values: object) -> tuple[Any, ...]:
    """Sets switches by name (None leaves one as it is); gives what they were."""
    names = globals()
    before = tuple(names[name] for name in _NAMES)
    names.update({name.lstrip("_"): value for name, value in values.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Within the block, sets all switches."""
    given = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    before = set_flags(**dict(zip(_NAMES, given, strict=True)))
    try:
        yield
    finally:
        set_flags(**dict(zip(_NAMES, before, strict=True)))
