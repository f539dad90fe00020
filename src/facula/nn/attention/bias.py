"""Causal masks that say on which side they lie when there are more keys than queries, or fewer.

Takes lengths. Gives `CausalBias`, which scaled dot-product attention takes as `attn_mask`.
Keeps true: it is a bool tensor of the mask, so that everything which takes a mask takes it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import facula
from facula.core.errors import fail
from facula.namespaces.overrides import DisableTorchFunctionSubclass

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """The corner of the scores from which the diagonal of a `CausalBias` starts.

    Example:
        >>> from facula.nn.attention import bias
        >>> [variant.name for variant in bias.CausalVariant]
        ['UPPER_LEFT', 'LOWER_RIGHT']
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(facula.Tensor):
    """The mask of queries that look at no later key, for `functional.scaled_dot_product_attention`.

    Args:
        variant: a `CausalVariant`
        seq_len_q: number of queries
        seq_len_kv: number of keys

    Example:
        >>> from facula.nn.attention import bias
        >>> mask = bias.causal_upper_left(2, 2)
        >>> q = facula.ones(1, 1, 2, 4)
        >>> facula.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).shape
        facula.Size([1, 1, 2, 4])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        """Raise TypeError unless `variant` is a `CausalVariant`."""
        if not isinstance(variant, CausalVariant):
            fail(
                TypeError,
                "CausalBias",
                "a CausalVariant was required",
                variant,
                hint="take CausalVariant.UPPER_LEFT or CausalVariant.LOWER_RIGHT",
            )
        shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        whole = facula.ones(seq_len_q, seq_len_kv, dtype=facula.bool)
        made: CausalBias = whole.tril(shift).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        pass

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: object,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Work on the mask as on any other tensor; results are plain tensors."""
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:
        return f"CausalBias({self.variant.name}, {self.seq_len_q}, {self.seq_len_kv})"


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of queries of which query i looks at keys up to i.

    Args:
        *size: queries and keys

    Example:
        >>> from facula.nn.attention import bias
        >>> q, k = facula.ones(1, 1, 2, 4), facula.ones(1, 1, 3, 4)
        >>> mask = bias.causal_upper_left(2, 3)
        >>> facula.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask).shape
        facula.Size([1, 1, 2, 4])
    """
    if len(size) != 2:
        fail(
            RuntimeError,
            "causal_upper_left",
            "causal_upper_left only supports 2D tensors",
            size,
            hint="give two sizes: causal_upper_left(4, 6)",
        )
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of queries of which the last looks at all keys, the one before at all but one.

    Args:
        *size: queries and keys

    Example:
        >>> from facula.nn.attention import bias
        >>> q, k = facula.ones(1, 1, 2, 4), facula.ones(1, 1, 3, 4)
        >>> mask = bias.causal_lower_right(2, 3)
        >>> facula.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask).shape
        facula.Size([1, 1, 2, 4])
    """
    if len(size) != 2:
        fail(
            RuntimeError,
            "causal_lower_right",
            "causal_lower_right only supports 2D tensors",
            size,
            hint="give two sizes: causal_lower_right(4, 6)",
        )
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
