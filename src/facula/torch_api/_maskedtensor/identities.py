"""What an element that does not count is for a reduction: the value that changes nothing.

Takes reductions, by themselves or by their names. Gives that value, and tensors that hold it where a mask is False.
Keeps true: a reduction of such a tensor is the masked reduction, where there is such a value.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.ops.masked_sparse import _where
from facula.ops.registry import F

#: reductions by what leaves their result as it is
_ZERO = ("sum", "cumsum", "norm", "count_nonzero", "any")
_ONE = ("prod", "cumprod", "all")
_LEAST = ("amax", "argmax", "max", "logsumexp", "logaddexp")
_MOST = ("amin", "argmin", "min")


def _limit(dtype: core.dtype, sign: int) -> Any:
    if dtype.is_floating_point:
        return sign * math.inf
    if dtype is core.bool_:
        return sign > 0
    found = core.iinfo(dtype)
    return found.max if sign > 0 else found.min


def _reduction_identity(op_name: str, input: core.Tensor, *args: Any) -> Any:  # noqa: A002 - PyTorch's name
    """What a reduction of `input` does not feel, as a tensor without dimensions; None where nothing is so."""
    value: Any = None
    if op_name == "norm" and args and args[0] == -math.inf:
        value = _limit(input.dtype, 1)
    elif op_name in _ZERO:
        value = 0
    elif op_name in _ONE:
        value = 1
    elif op_name in _LEAST:
        value = _limit(input.dtype, -1)
    elif op_name in _MOST:
        value = _limit(input.dtype, 1)
    elif op_name == "median":
        value = math.nan
    return None if value is None else F.full((), value, dtype=input.dtype, device=input.device)


def _combine_input_and_mask(op: Any, input: Any, mask: Any, *args: Any) -> Any:  # noqa: A002 - PyTorch's name
    """The elements where the mask is True, elsewhere what the reduction `op` does not feel."""
    if mask is None:
        return input
    identity = _reduction_identity(op.__name__, input, *args)
    return input if identity is None else _where(mask, input, identity)
