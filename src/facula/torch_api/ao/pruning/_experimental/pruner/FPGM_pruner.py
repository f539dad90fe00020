"""Rows that are nearest to all others go. [He et al. 2019]

Takes: the share of rows and a distance. Gives: `FPGMPruner`. Keeps true: the size of a row does not count, only
how well the others stand for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail

from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["FPGMPruner"]


class FPGMPruner(BaseStructuredSparsifier):
    """Prunes the rows whose distances to all others have the smallest sum.

    Args:
        sparsity_level: the share of rows that go.
        dist: 1 for sums of absolute differences, 2 or None for lengths, or a function of two
            matrices that gives the distances of their rows.

    >>> from facula.ao.pruning._experimental.pruner import FPGMPruner
    >>> model = facula.nn.Sequential(facula.nn.Linear(1, 3, bias=False), facula.nn.Linear(3, 1))
    >>> _ = model[0].weight.data.copy_(facula.tensor([[3.0], [2.0], [0.1]]))
    >>> pruner = FPGMPruner(0.4)
    >>> pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> pruner.step()
    >>> model[0].parametrizations.weight[0].mask
    tensor([ True, False,  True])
    """

    def __init__(
        self, sparsity_level: float = 0.5, dist: Callable[..., Any] | int | None = None
    ) -> None:
        super().__init__({"sparsity_level": sparsity_level})
        if not callable(dist) and dist not in (None, 1, 2):
            fail(
                NotImplementedError,
                "FPGMPruner",
                "distance 1, 2 or a function",
                f"{dist}: not implemented",
                hint="pass a function of two matrices",
            )
        order = float(dist) if isinstance(dist, int) else 2.0
        self.dist_fn: Callable[..., Any] = (
            dist if callable(dist) else lambda x, y: facula.cdist(x, y, p=order)
        )

    def _compute_distance(self, t: facula.Tensor) -> facula.Tensor:
        """The sum of the distances of every row to all others."""
        rows = t.detach().flatten(1)
        return facula.as_tensor(self.dist_fn(rows, rows)).abs().sum(1)

    def update_mask(  # type: ignore[override]  # the settings of the class by name
        self, module: nn.Module, tensor_name: str, sparsity_level: float, **kwargs: Any
    ) -> None:
        """Sets the mask of one tensor.

        Args:
            module: the module that has it.
            tensor_name: its name there.
            sparsity_level: the share of rows that go.
            kwargs: not looked at.
        """
        weight = getattr(module, tensor_name)
        mask = module.parametrizations[tensor_name][0].mask
        if weight.dim() <= 1:
            fail(
                ValueError,
                "FPGMPruner",
                "a tensor with at least two dimensions",
                weight.dim(),
                hint="rows of weights are pruned, and their biases with them",
            )
        dropped = round(min(max(sparsity_level, 0.0), 1.0) * len(weight))
        mask.data = facula.ones_like(mask)
        mask.data[self._compute_distance(weight).argsort(stable=True)[:dropped]] = False
