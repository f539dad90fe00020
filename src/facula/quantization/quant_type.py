"""The kinds of quantization: `QuantType`.

Takes nothing. Gives: static, dynamic, weights only, training. Keeps true: words and members stand for each other.
"""

from __future__ import annotations

import enum

from facula.core.errors import fail

__all__ = ["QuantType", "quant_type_from_str", "quant_type_to_str"]


class QuantType(enum.IntEnum):
    """When activations and weights become integers."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def quant_type_to_str(quant_type: QuantType) -> str:
    """The word of a kind: ``"static"``."""
    return quant_type.name.lower()


_quant_type_to_str = quant_type_to_str


def quant_type_from_str(name: str) -> QuantType:
    """The kind of a word; ValueError for another."""
    for kind in QuantType:
        if quant_type_to_str(kind) == name:
            return kind
    fail(ValueError, "QuantType", "one of static, dynamic, qat, weight_only was required", name,
         hint="the words are those of QuantType's members, in small letters")  # fmt: skip


_get_quant_type_to_str = quant_type_to_str
_get_quant_type_from_str = quant_type_from_str
