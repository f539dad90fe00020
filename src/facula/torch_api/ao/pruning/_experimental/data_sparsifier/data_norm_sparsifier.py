"""Masks of data that drop the blocks with the smallest norms.

Takes: matrices by name. Gives: `DataNormSparsifier`. Keeps true: masks are those of `WeightNormSparsifier`.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.core.errors import fail

from ...sparsifier.weight_norm_sparsifier import check_zeros, norm_mask
from .base_data_sparsifier import BaseDataSparsifier

__all__ = ["DataNormSparsifier"]

_NORMS = {"L1": facula.abs, "L2": facula.square}


class DataNormSparsifier(BaseDataSparsifier):
    """Drops the blocks of matrices whose norms are smallest.

    Args:
        data_list: pairs of a name and a tensor, parameter or table.
        sparsity_level: the share of blocks that get zeros.
        sparse_block_shape: height and width of a block.
        zeros_per_block: how many zeros such a block gets; None is all of it.
        norm: `"L1"` or `"L2"`.

    >>> from facula.ao.pruning._experimental.data_sparsifier import DataNormSparsifier
    >>> data = facula.tensor([[1.0, 2.0, 3.0, 4.0]])
    >>> sparsifier = DataNormSparsifier([("a", data)], 1.0, sparse_block_shape=(1, 4), zeros_per_block=3)
    >>> sparsifier.step()
    >>> sparsifier.get_data("a", return_original=False)
    tensor([[0., 0., 0., 4.]])
    """

    def __init__(
        self,
        data_list: list[tuple[str, Any]] | None = None,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: str = "L1",
    ) -> None:
        if norm not in _NORMS:
            fail(
                AssertionError,
                "DataNormSparsifier",
                "only L1 and L2 norm supported at the moment",
                norm,
                hint="derive from BaseDataSparsifier for another",
            )
        self.norm = norm
        super().__init__(
            data_list=data_list,
            sparsity_level=sparsity_level,
            sparse_block_shape=sparse_block_shape,
            zeros_per_block=math.prod(sparse_block_shape)
            if zeros_per_block is None
            else zeros_per_block,
        )

    def update_mask(  # type: ignore[override]  # the settings of the class by name
        self,
        name: str,
        data: facula.Tensor,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Sets the mask of one matrix; a vector counts as one row.

        Args:
            name, data: its name and itself.
            sparsity_level, sparse_block_shape, zeros_per_block: as for the class.
            kwargs: not looked at.
        """
        check_zeros("DataNormSparsifier", zeros_per_block, math.prod(sparse_block_shape))
        norms = _NORMS[self.norm](data.detach())
        matrix = norms[None] if norms.dim() == 1 else norms
        if matrix.dim() != 2:
            fail(
                ValueError,
                "DataNormSparsifier",
                "only supports 2-D at the moment",
                f"{data.dim()}-D",
                hint="give the tensor as a matrix",
            )
        mask = norm_mask(matrix, sparsity_level, zeros_per_block, sparse_block_shape, kept_blocks=0)
        self.get_mask(name).data = mask.reshape(data.shape)
