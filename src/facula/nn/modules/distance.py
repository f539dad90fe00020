"""Distances between batches of vectors.

Takes two tensors of one shape.  Gives a distance or similarity per pair of vectors.
Keeps true: ``eps`` keeps the results finite and differentiable at zero.
"""

from __future__ import annotations

from typing import Any

from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        p: the norm's degree
        eps: added to differences, which keeps gradients finite at zero
        keepdim: whether the last dimension stays, with size 1

    Shape:
        ``[N, D]`` and ``[N, D]`` (or ``[D]``) to ``[N]``.

    Example:
        >>> facula.nn.PairwiseDistance()(facula.tensor([[0.0, 0.0]]), facula.tensor([[3.0, 4.0]]))
        tensor([5.0000])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """``[N, D]`` and ``[N, D]`` to ``[N]``."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors: ``x1 . x2 / max(|x1| |x2|, eps)``.

    Args:
        dim: the dimension along which the vectors lie
        eps: the least denominator

    Shape:
        two shapes that broadcast, to that shape without ``dim``.

    Example:
        >>> facula.nn.CosineSimilarity()(facula.tensor([[1.0, 0.0]]), facula.tensor([[1.0, 1.0]]))
        tensor([0.7071])
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The inputs' shape without ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
