"""Channels-last memory of batches of images and volumes, which results keep.

Takes tensors `[N, C, spatial...]` of four or five dimensions; gives whether they lie channels last,
and results in the same order. Keeps true: strides alone decide, gaps or not, as in PyTorch; what is
contiguous in both orders counts as contiguous, and so does every tensor of another rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core


def channels_last(x: core.Tensor) -> bool:
    """Whether the strides of a 4-d or 5-d tensor are in the order of channels last, with or without
    gaps, and it is not plainly contiguous: results that follow it lie channels last.
    """
    if x.is_contiguous() or x.dim() not in (4, 5):
        return False
    shape, strides, least = x.shape, x.stride(), 0
    for d in (1, *range(x.dim() - 1, 1, -1)):
        if shape[d] == 0 or strides[d] < least or strides[1] == 0:
            return False
        least = strides[d] * shape[d]
    return bool(shape[0] != 0 and strides[0] >= least and least != strides[1])


def empty(
    shape: Sequence[int], like: core.Tensor, last: bool, dtype: core.dtype | None = None
) -> Any:
    """Unset elements on the device of `like`, channels last where asked; memory of their own, not a
    view: what is written to it in place keeps its history.
    """
    dtype = dtype or like.dtype
    if not last:
        return core.empty(shape, dtype=dtype, device=like.device)
    strides, step = [0] * len(shape), 1
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        strides[d] = step
        step *= max(shape[d], 1)
    return core.empty_strided(shape, strides, dtype=dtype, device=like.device)


def ordered(x: core.Tensor, last: bool) -> Any:
    """The tensor contiguous, or channels last; a copy where it lies otherwise."""
    return x.contiguous(memory_format=_format(x.dim())) if last else x.contiguous()


def rows(x: core.Tensor) -> Any:
    """A channels-last tensor as `[N, spatial..., C]`: the same memory, contiguous."""
    return x.permute(0, *range(2, x.dim()), 1)


def row_dimension(dim: int, rank: int) -> int:
    """Where `rows` has dimension `dim`."""
    return rank - 1 if dim == 1 else max(dim - 1, 0)


def _format(rank: int) -> Any:
    return core.channels_last if rank == 4 else core.channels_last_3d
