"""Masks that keep the entries near the diagonal.

Takes: how many diagonals are kept. Gives: `NearlyDiagonalSparsifier`. Keeps true: the weight does not count.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import nn
from facula.core.errors import fail

from .base_sparsifier import BaseSparsifier

__all__ = ["NearlyDiagonalSparsifier"]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Keeps `nearliness` diagonals in the middle of a matrix.

    Args:
        nearliness: how many, an odd number: 1 is the diagonal, 3 the next one on each side as well.

    >>> from facula.ao.pruning import NearlyDiagonalSparsifier
    >>> model = facula.nn.Sequential(facula.nn.Linear(3, 2))
    >>> sparsifier = NearlyDiagonalSparsifier(nearliness=1)
    >>> sparsifier.prepare(model, None)
    >>> sparsifier.step()
    >>> model[0].parametrizations.weight[0].mask
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__(defaults={"nearliness": nearliness})

    def update_mask(  # type: ignore[override]  # the setting of the class by name
        self, module: nn.Module, tensor_name: str, nearliness: int, **kwargs: Any
    ) -> None:
        """Sets the mask of one matrix.

        Args:
            module: the module that has it.
            tensor_name: its name there.
            nearliness: how many diagonals stay.
            kwargs: not looked at.
        """
        mask = module.parametrizations[tensor_name][0].mask
        mask.data = facula.zeros_like(mask)
        if nearliness <= 0:
            return
        height, width = mask.shape
        if nearliness % 2 == 0:
            fail(
                ValueError,
                "NearlyDiagonalSparsifier",
                "nearliness can only be an odd number",
                nearliness,
                hint="1 keeps the diagonal, 3 the next one on each side as well",
            )
        reach = nearliness // 2
        if reach >= min(height, width):
            fail(
                ValueError,
                "NearlyDiagonalSparsifier",
                "nearliness cannot be larger than the dimensions of tensor.",
                f"{nearliness} for {height} by {width}",
                hint="choose fewer diagonals, or leave this tensor out",
            )
        rows = facula.arange(height, device=mask.device)[:, None]
        columns = facula.arange(width, device=mask.device)
        mask.data = ((rows - columns).abs() <= reach).to(mask.dtype)
