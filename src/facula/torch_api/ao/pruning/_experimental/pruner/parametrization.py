"""Masks of rows as parametrizations, and the bias that goes with them.

Takes: a mask with an entry for each row. Gives: `FakeStructuredSparsity`, `BiasHook`.
Keeps true: what a masked layer computes is what the pruned one will, at the rows that stay.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import nn
from facula.core.errors import fail

from ...sparsifier.utils import module_contains_param

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(nn.Module):
    """The parametrization of a tensor whose rows are pruned: rows times a mask.

    Args:
        mask: a bool for each row, False where it goes.

    >>> from facula.ao.pruning._experimental.pruner import FakeStructuredSparsity
    >>> FakeStructuredSparsity(facula.tensor([False, True]))(facula.ones(2, 3))
    tensor([[0., 0., 0.],
            [1., 1., 1.]])
    """

    mask: facula.Tensor

    def __init__(self, mask: facula.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: facula.Tensor) -> facula.Tensor:
        """The rows times the mask.

        Args:
            x: the original tensor.
        """
        if len(self.mask) != x.shape[0]:
            fail(
                AssertionError,
                "FakeStructuredSparsity",
                f"a tensor with {len(self.mask)} rows, as the mask has",
                x.shape[0],
                hint="prepare the model after its layers have their sizes",
            )
        return self.mask.reshape(-1, *[1] * (x.dim() - 1)) * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: masks are saved by the sparsifier.

        Args:
            args, kwargs: not looked at.
        """
        return {}


class BiasHook:
    """What adds the bias of a masked layer, which it holds in `_bias`, behind its product.

    Args:
        parametrization: the layer's, whose mask counts.
        prune_bias: whether the biases of rows that go are zero.

    >>> from facula.ao.pruning._experimental.pruner import BiasHook, FakeStructuredSparsity
    >>> layer = facula.nn.Linear(1, 2, bias=False)
    >>> layer._bias = facula.nn.Parameter(facula.tensor([3.0, 4.0]))
    >>> hook = BiasHook(FakeStructuredSparsity(facula.tensor([False, True])), prune_bias=True)
    >>> hook(layer, (), facula.zeros(1, 2)).detach()
    tensor([[0., 4.]])
    """

    def __init__(self, parametrization: FakeStructuredSparsity, prune_bias: bool) -> None:
        self.param = parametrization
        self.prune_bias = prune_bias

    def __call__(self, module: Any, input: Any, output: facula.Tensor) -> facula.Tensor:
        bias = getattr(module, "_bias", None)
        if bias is None:
            return output
        if self.prune_bias:
            bias = bias * self.param.mask
        # rows of a convolution are its channels, in front of two dimensions
        behind = 2 if isinstance(module, nn.Conv2d) else 0
        return output + bias.reshape(-1, *[1] * behind)
