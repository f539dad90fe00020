"""Losses of pairs and triplets: what is alike shall be nearer, or rank higher, by a margin.

Takes vectors or scores, in pairs with targets of 1 and -1, or in triplets.  Gives losses, reduced.
Keeps true: constructor arguments and attribute names are PyTorch's; `loss` has these names, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.distance import PairwiseDistance
from facula.nn.modules.loss_base import _Loss


class CosineEmbeddingLoss(_Loss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    Args:
        margin: the cosine below which unlike pairs cost nothing, -1 to 1
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        vectors ``[N, D]`` or ``[D]``, twice, and targets ``[N]`` or ``[]``.

    Example:
        >>> x, y = facula.tensor([[1.0, 0.0]]), facula.tensor([[0.0, 1.0]])
        >>> facula.nn.CosineEmbeddingLoss()(x, y, facula.tensor([1.0]))
        tensor(1.)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(CosineEmbeddingLoss):
    """``max(0, -target * (input1 - input2) + margin)``: target 1 asks for the first to be larger, -1
    for the second.

    Args:
        margin: by how much
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        three tensors ``[N]``, to a scalar (to ``[N]`` for 'none').

    Example:
        >>> x, y = facula.tensor([1.0]), facula.tensor([3.0])
        >>> facula.nn.MarginRankingLoss()(x, y, facula.tensor([1.0]))
        tensor(2.)
    """

    def forward(self, input1: Any, input2: Any, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``max(0, |anchor - positive|_p - |anchor - negative|_p + margin)``. [Balntas et al. 2016]

    Args:
        margin: by how much the negative must be farther; positive
        p: degree of the norm
        eps: added to differences
        swap: whether the distance of positive and negative counts where it is less than that of
            anchor and negative
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        three tensors ``[N, D]`` or ``[D]``, to a scalar (to ``[N]`` or ``[]`` for 'none').

    Raises:
        ValueError: ``margin`` is not positive.

    Example:
        >>> a, p, n = facula.tensor([[0.0]]), facula.tensor([[1.0]]), facula.tensor([[1.5]])
        >>> facula.nn.TripletMarginLoss()(a, p, n)
        tensor(0.5000)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            fail(
                ValueError,
                "TripletMarginLoss",
                (f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"),
                hint="margin=1.0 is the default",
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss, reduced."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` for a distance of one's own.

    Args:
        distance_function: of two tensors, to their distances; None for `PairwiseDistance`
        margin: by how much the negative must be farther; positive
        swap: whether the distance of positive and negative counts where it is less than that of
            anchor and negative
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        three tensors of one shape that the function takes.

    Raises:
        ValueError: ``margin`` is not positive.

    Example:
        >>> distance = lambda x, y: (x - y).abs().sum(-1)
        >>> loss = facula.nn.TripletMarginWithDistanceLoss(distance_function=distance)
        >>> loss(facula.zeros(1, 2), facula.ones(1, 2), 2 * facula.ones(1, 2))
        tensor(0.)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            fail(
                ValueError,
                "TripletMarginWithDistanceLoss",
                (
                    "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                    f"{margin} instead"
                ),
                hint="margin=1.0 is the default",
            )
        self.distance_function = (
            PairwiseDistance() if distance_function is None else distance_function
        )
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss, reduced."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
