"""What programs that copy PyTorch's layers take from `nn.functional` besides its functions.

Takes: sizes, masks, weights. Gives: checks and projections of attention, tuples of sizes.
Keeps true: nothing of facula uses this; it is loaded when somebody asks for one of the names.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core import Tensor as Tensor
from facula.core.errors import fail
from facula.nn import _reduction as _Reduction  # noqa: F401, N812 - PyTorch's name
from facula.nn.functional_composites import _as_float_mask, _check_shapes
from facula.nn.modules.utils import _pair as _pair
from facula.nn.modules.utils import _single as _single
from facula.nn.modules.utils import _triple as _triple
from facula.ops.table.registry import PLACES

_mha_shape_check = _check_shapes
_linear = PLACES["nn.functional"]["linear"]


def _verify_batch_size(size: Sequence[int]) -> None:
    """Batch norms need more than one value a channel while they train."""
    values = math.prod(size) // size[1]
    if values == 1:
        fail(ValueError, "batch_norm", "more than one value a channel was required "
             "(Expected more than 1 value per channel when training)",
             f"input size {facula.Size(size)}", hint="call eval(), or use a larger batch")  # fmt: skip


def _verify_spatial_size(size: Sequence[int]) -> None:
    """Instance norms need more than one value a channel while they train."""
    if math.prod(size[2:]) == 1:
        fail(ValueError, "instance_norm", "more than one spatial element was required "
             "(Expected more than 1 spatial element when training)",
             f"input size {facula.Size(size)}", hint="a larger image")  # fmt: skip


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension that `softmax` takes where none is named, with PyTorch's warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def _in_projection_packed(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None
) -> list[Tensor]:
    """Queries, keys and values by one weight ``[3 E, E]``, each by a third of it."""
    weights = w.chunk(3)
    biases = (None,) * 3 if b is None else b.chunk(3)
    return [_linear(x, *piece) for x, *piece in zip((q, k, v), weights, biases, strict=True)]


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Queries, keys and values by a weight each."""
    return _linear(q, w_q, b_q), _linear(k, w_k, b_k), _linear(v, w_v, b_v)


def _scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> tuple[Tensor, Tensor]:
    """(output, weights) of attention over ``[B, target, E]``, as PyTorch 1.9 to 1.13 had it."""
    scores = q / math.sqrt(q.shape[-1]) @ k.transpose(-2, -1)
    weights = (scores if attn_mask is None else scores + attn_mask).softmax(-1)
    if dropout_p > 0.0:
        weights = facula.dropout(weights, dropout_p, True)
    return weights @ v, weights


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: core.dtype,
    check_other: bool = True,
) -> Tensor | None:  # fmt: skip
    """A mask as one to be added to scores: True of a bool mask leaves a position out."""
    if mask is not None and check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    made: Tensor | None = _as_float_mask(mask, mask_name, other_type, target_type)
    return made


def _none_or_dtype(input: Tensor | None) -> core.dtype | None:
    """The dtype of a tensor, None of None."""
    if input is not None and not isinstance(input, Tensor):
        fail(RuntimeError, "_none_or_dtype", "a tensor or None was required "
             "(input to _none_or_dtype() must be None or torch.Tensor)",
             type(input).__name__, hint="pass the mask itself")  # fmt: skip
    return None if input is None else input.dtype
