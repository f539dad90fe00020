"""PyTorch's questions about oneDNN: facula's convolutions and products are its own, so it is not there.

Takes and gives the switches of PyTorch's module. Keeps true: they hold what was set and change nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .verbosity import Verbosity

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2

enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"

_NAMES = ("enabled", "deterministic", "allow_tf32", "fp32_precision")


class _Precision:
    """A precision of its own for products, convolutions or recurrent layers."""

    fp32_precision = "none"


matmul = _Precision()
conv = _Precision()
rnn = _Precision()


def is_available() -> bool:
    """Whether oneDNN is part of this installation: never."""
    return False


def is_acl_available() -> bool:
    """Whether the Arm Compute Library is part of this installation: never."""
    return False


class verbose(Verbosity):
    """A block in which oneDNN would write what it does; there is nothing to write."""


def set_flags(*values: object) -> tuple[object, ...]:
    """Sets the switches in order (None leaves one as it is); gives what they were."""
    names = globals()
    before = tuple(names[name] for name in _NAMES)
    named = zip(_NAMES, values, strict=False)
    names.update({name: value for name, value in named if value is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Within the block, sets all switches."""
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)
