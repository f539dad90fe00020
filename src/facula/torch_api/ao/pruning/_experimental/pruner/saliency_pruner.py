"""Rows with the smallest sums of absolute values go. [Li et al. 2017]

Takes: the share of rows. Gives: `SaliencyPruner`. Keeps true: at most this share goes.
"""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.core.errors import fail

from .base_structured_sparsifier import BaseStructuredSparsifier

__all__ = ["SaliencyPruner"]


def saliency_of(weight: Any) -> Any:
    """The sum of absolute values of every row."""
    if weight.dim() <= 1:
        fail(
            ValueError,
            "SaliencyPruner",
            "a tensor with at least two dimensions",
            weight.dim(),
            hint="rows of weights are pruned, and their biases with them",
        )
    return weight.detach().abs().flatten(1).sum(1)


class SaliencyPruner(BaseStructuredSparsifier):
    """Prunes the rows with the smallest sums of absolute values.

    A group's setting `sparsity_level` is the share of rows that go.

    Args:
        defaults, patterns: as for `BaseStructuredSparsifier`.

    >>> from facula.ao.pruning._experimental.pruner import SaliencyPruner
    >>> model = facula.nn.Sequential(facula.nn.Linear(2, 4), facula.nn.Linear(4, 2))
    >>> pruner = SaliencyPruner({"sparsity_level": 0.5})
    >>> pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> pruner.step()
    >>> pruner.prune().get_submodule("0").weight.shape
    facula.Size([2, 2])
    """

    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
        """Sets the mask of one tensor.

        Args:
            module: the module that has it.
            tensor_name: its name there.
            kwargs: the group's settings, `sparsity_level` among them.
        """
        mask = module.parametrizations[tensor_name][0].mask
        saliency = saliency_of(getattr(module, tensor_name))
        dropped = int(len(mask) * kwargs["sparsity_level"])
        mask.data[saliency.argsort(stable=True)[:dropped]] = False
