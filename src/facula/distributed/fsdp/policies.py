"""Policies of `fully_shard`: in which dtypes is computed and exchanged.

Takes and gives plain values. Keeps true: a dtype that is None is the parameters' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of what is computed with, of the exchange of gradients, and of results.

    cast_forward_inputs: whether floating-point inputs of `forward` are cast to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Pieces stay on the device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Pieces lie in the processor's memory, where those of the cpu lie anyway."""

    pin_memory: bool = True
