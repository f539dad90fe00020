"""What an element that does not count is for a reduction: the value that changes nothing.

Takes reductions, by themselves or by their names. Gives that value, and tensors that hold it where a mask is False.
Keeps true: a reduction of such a tensor is the masked reduction, where there is such a value.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from facula import core
from facula.ops.reduce.masked_sparse import _where
from facula.ops.table.registry import TABLE, F


def _limit(dtype: core.dtype, sign: int) -> Any:
    if dtype.is_floating_point:
        return sign * math.inf
    if dtype is core.bool_:
        return sign > 0
    found = core.iinfo(dtype)
    return found.max if sign > 0 else found.min


def _reduces(name: str) -> bool:
    """Whether the operator of a name leaves dimensions out of its result."""
    if name not in TABLE:
        return False
    definition = TABLE[name].definition
    return definition.reduces or any(p.name == "keepdim" for p in definition.schema.parameters)


def _of_nothing(name: str) -> Any:
    """What an operator gives for no elements, where that is a number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spreads, which have too few elements then
        found = TABLE[name](core.empty((0,)))
    return None if found.numel() != 1 or found.isnan() else found.item()


def _reduction_identity(op_name: str, input: core.Tensor, *args: Any) -> Any:  # noqa: A002 - PyTorch's name
    """What a reduction of `input` does not feel, as a tensor without dimensions; None where nothing is so."""
    name = op_name.removeprefix("cum")
    value: Any = None
    if name in ("logsumexp", "logaddexp"):
        value = _limit(input.dtype, -1)
    elif not _reduces(name):
        return None
    elif name.endswith(("max", "min")):
        value = _limit(input.dtype, -1 if name.endswith("max") else 1)
    elif name == "norm":
        value = _limit(input.dtype, 1) if args and args[0] == -math.inf else 0
    elif name == "median":
        value = math.nan
    else:
        value = _of_nothing(name)
    return None if value is None else F.full((), value, dtype=input.dtype, device=input.device)


def _combine_input_and_mask(op: Any, input: Any, mask: Any, *args: Any) -> Any:  # noqa: A002 - PyTorch's name
    """The elements where the mask is True, elsewhere what the reduction `op` does not feel."""
    if mask is None:
        return input
    identity = _reduction_identity(op.__name__, input, *args)
    return input if identity is None else _where(mask, input, identity)
