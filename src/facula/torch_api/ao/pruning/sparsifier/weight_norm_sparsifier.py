"""Masks that drop the blocks, or the entries of blocks, with the smallest norms.

Takes: the share of blocks, their shape, how many zeros each gets. Gives: `WeightNormSparsifier`, and `level_mask`
and `block_mask`, of which data sparsifiers make theirs.
Keeps true: of several equal norms the earlier ones go first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail

from .base_sparsifier import BaseSparsifier

__all__ = ["WeightNormSparsifier"]

_NORMS: dict[Any, Callable[[facula.Tensor], facula.Tensor]] = {
    None: facula.square,
    1: facula.abs,
    2: facula.square,
}


def check_zeros(name: str, zeros_per_block: int, values_per_block: int) -> None:
    """Refuses numbers of zeros that a block cannot have."""
    if zeros_per_block > values_per_block:
        fail(
            ValueError,
            name,
            "Number of zeros per block cannot be more than the total number of elements in that block.",
            f"{zeros_per_block} of {values_per_block}",
            hint="zeros_per_block is at most the product of sparse_block_shape",
        )
    if zeros_per_block < 0:
        fail(
            ValueError,
            name,
            "Number of zeros per block should be positive.",
            zeros_per_block,
            hint="0 leaves the tensor as it is",
        )


def _blocks(data: facula.Tensor, shape: tuple[int, int], fill: float) -> facula.Tensor:
    """The blocks of a matrix, `(rows, columns, elements)`; what sticks out over its edges is `fill`."""
    height, width = data.shape
    down, right = -height % shape[0], -width % shape[1]
    data = nn.functional.pad(data, (0, right, 0, down), value=fill)
    data = data.reshape(
        (height + down) // shape[0], shape[0], (width + right) // shape[1], shape[1]
    )
    return data.permute(0, 2, 1, 3).flatten(2)


def _whole(blocks: facula.Tensor, shape: tuple[int, int], size: tuple[int, ...]) -> facula.Tensor:
    """The matrix of `size` whose blocks these are."""
    rows, columns, _ = blocks.shape
    parts = blocks.reshape(rows, columns, *shape).permute(0, 2, 1, 3)
    return parts.reshape(rows * shape[0], columns * shape[1])[: size[0], : size[1]]


def level_mask(
    norms: facula.Tensor, level: float, shape: tuple[int, int], kept_blocks: int
) -> facula.Tensor:
    """Zeros where a block is among the share `level` of those with the smallest norms, ones elsewhere.

    Blocks at the edges count by the mean of what they have; below a level of 1, `kept_blocks` stay."""
    blocks = _blocks(norms, shape, 0.0)
    inside = _blocks(facula.ones_like(norms), shape, 0.0)
    count = blocks.shape[0] * blocks.shape[1]
    dropped = min(max(round(level * count), 0), count if level >= 1 else count - kept_blocks)
    order = (blocks.sum(-1) / inside.sum(-1)).flatten().argsort(stable=True)
    kept = facula.ones(count, blocks.shape[2], dtype=norms.dtype, device=norms.device)
    kept[order[:dropped]] = 0
    return _whole(kept.reshape(blocks.shape), shape, tuple(norms.shape)).contiguous()


def block_mask(norms: facula.Tensor, zeros: int, shape: tuple[int, int]) -> facula.Tensor:
    """Zeros at the `zeros` smallest norms of every block, ones elsewhere."""
    blocks = _blocks(norms, shape, math.inf)
    kept = facula.ones_like(blocks)
    kept.scatter_(-1, blocks.argsort(dim=-1, stable=True)[..., :zeros], 0.0)
    return _whole(kept, shape, tuple(norms.shape)).contiguous()


def norm_mask(
    norms: facula.Tensor, level: float, zeros: int, shape: tuple[int, int], kept_blocks: int = 1
) -> facula.Tensor:
    """The mask of a matrix: zeros in `zeros` places of each block that is among the share `level`."""
    values = math.prod(shape)
    if level <= 0 or zeros == 0:
        return facula.ones_like(norms)
    if level >= 1 and zeros == values:
        return facula.zeros_like(norms)
    mask = level_mask(norms, level, shape, kept_blocks)
    return mask if zeros == values else facula.maximum(mask, block_mask(norms, zeros, shape))


class WeightNormSparsifier(BaseSparsifier):
    """Drops the blocks of a matrix whose norms are smallest.

    Args:
        sparsity_level: the share of blocks that get zeros.
        sparse_block_shape: height and width of a block.
        zeros_per_block: how many zeros such a block gets, those of its smallest entries; None is all of it.
        norm: 1 for absolute values, 2 or None for squares, or a function of the weight.

    >>> from facula.ao.pruning import WeightNormSparsifier
    >>> model = facula.nn.Sequential(facula.nn.Linear(4, 2, bias=False))
    >>> _ = model[0].weight.data.copy_(facula.arange(8.0).reshape(2, 4) + 1)
    >>> sparsifier = WeightNormSparsifier(1.0, sparse_block_shape=(1, 4), zeros_per_block=2)
    >>> sparsifier.prepare(model, None)
    >>> sparsifier.step()
    >>> model[0].parametrizations.weight[0].mask
    tensor([[0., 0., 1., 1.],
            [0., 0., 1., 1.]])
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[[facula.Tensor], facula.Tensor] | int | None = None,
    ) -> None:
        if zeros_per_block is None:
            zeros_per_block = math.prod(sparse_block_shape)
        super().__init__(
            defaults={
                "sparsity_level": sparsity_level,
                "sparse_block_shape": sparse_block_shape,
                "zeros_per_block": zeros_per_block,
            }
        )
        if not callable(norm) and norm not in _NORMS:
            fail(
                NotImplementedError,
                "WeightNormSparsifier",
                "norm 1, 2 or a function",
                f"L-{norm} is not yet implemented.",
                hint="pass a function of the weight that gives a number for each entry",
            )
        self.norm_fn: Callable[[facula.Tensor], facula.Tensor] = (
            norm if callable(norm) else _NORMS[norm]
        )

    def update_mask(  # type: ignore[override]  # the settings of the class by name
        self,
        module: nn.Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Sets the mask of one matrix by the norms of what it is now.

        Args:
            module: the module that has it.
            tensor_name: its name there.
            sparsity_level, sparse_block_shape, zeros_per_block: as for the class.
            kwargs: not looked at.
        """
        check_zeros("WeightNormSparsifier", zeros_per_block, math.prod(sparse_block_shape))
        mask = module.parametrizations[tensor_name][0].mask
        norms = self.norm_fn(getattr(module, tensor_name)).to(mask.dtype)
        mask.data = norm_mask(norms, sparsity_level, zeros_per_block, sparse_block_shape)
