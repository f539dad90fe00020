"""Loss functions as modules.

Takes predictions and targets.  Gives the loss of `facula.nn.functional` of the same name.
Keeps true: ``reduction`` is "none", "mean" or "sum"; the older flags ``size_average`` and
``reduce`` set it, with a warning; class weights are buffers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.loss_base import _Loss, _WeightedLoss
from facula.nn.modules.ranking_loss import (  # part of this module's names
    CosineEmbeddingLoss,  # noqa: F401
    MarginRankingLoss,  # noqa: F401
    TripletMarginLoss,  # noqa: F401
    TripletMarginWithDistanceLoss,  # noqa: F401
)

__all__ = """L1Loss NLLLoss NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss MSELoss BCELoss
BCEWithLogitsLoss HingeEmbeddingLoss MultiLabelMarginLoss SmoothL1Loss HuberLoss SoftMarginLoss
CrossEntropyLoss MultiLabelSoftMarginLoss CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss
TripletMarginLoss TripletMarginWithDistanceLoss CTCLoss""".split()


class L1Loss(_Loss):
    """Mean absolute error, ``|input - target|``.

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.L1Loss()(facula.tensor([1.0, 2.0]), facula.tensor([0.0, 4.0]))
        tensor(1.5000)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Mean squared error, ``(input - target)^2``.

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.MSELoss()(facula.tensor([1.0, 2.0]), facula.tensor([0.0, 4.0]))
        tensor(2.5000)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class; `CrossEntropyLoss` takes scores instead.

    'mean' divides by the sum of the targets' weights.

    Args:
        weight: of each class, ``[C]``; None for 1
        ignore_index: a target that does not count
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        log-probabilities ``[N, C]``, ``[C]`` or ``[N, C, *]`` and integer classes ``[N]``, ``[]``
        or ``[N, *]``, to a scalar (to the targets' shape for 'none').

    Example:
        >>> logs = facula.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
        >>> facula.nn.NLLLoss()(logs, facula.tensor([1, 0]))
        tensor(0.4904)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: core.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """``[N, C, ...]`` log-probabilities and ``[N, ...]`` classes."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under an older name.

    Args:
        weight: of each class, ``[C]``; None for 1
        ignore_index: a target that does not count
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        as of `NLLLoss`.

    Example:
        >>> facula.nn.NLLLoss2d()(facula.zeros(1, 2, 3, 3), facula.zeros(1, 3, 3, dtype=facula.int64))
        tensor(0.)
    """


class CrossEntropyLoss(_WeightedLoss):
    """``-log softmax(input)[target]``: the cross-entropy of scores (logits) and classes.

    Targets are classes, or probabilities of all classes. It computes the logarithms itself: no
    softmax goes before. 'mean' divides by the sum of the targets' weights (by N for probabilities).

    Args:
        weight: of each class, ``[C]``; None for 1
        ignore_index: a target class that does not count; not for probabilities
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        label_smoothing: the share of the target's probability that is spread over all classes, 0 to
            1

    Shape:
        scores ``[N, C]``, ``[C]`` or ``[N, C, *]`` and integer classes ``[N]``, ``[]`` or ``[N,
        *]``, or probabilities of the scores' shape, to a scalar (to the shape of the classes for
        'none').

    Example:
        >>> scores = facula.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> facula.nn.CrossEntropyLoss()(scores, facula.tensor([0, 1]))
        tensor(0.2201)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: core.Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """``[N, C, ...]`` logits and ``[N, ...]`` classes, or probabilities of the logits' shape."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts under a Poisson distribution.

    ``exp(input) - target * input``, or ``input - target * log(input + eps)`` where the input is the
    rate itself.

    Args:
        log_input: whether the input is the logarithm of the rate
        full: whether Stirling's approximation of ``log(target!)`` is added (for targets above 1)
        size_average, reduce: older form of ``reduction``
        eps: keeps the logarithm finite where ``log_input`` is False
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.PoissonNLLLoss()(facula.tensor([1.0, 2.0]), facula.tensor([0.0, 4.0]))
        tensor(1.0537)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Any, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Negative log-likelihood of a normal distribution: ``(log(var) + (input - target)^2 / var) / 2``.
    [Nix & Weigend 1994]

    Args:
        full: whether the constant ``log(2 pi) / 2`` is added
        eps: the least variance; it limits values, not gradients
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        means and targets of one shape, variances of that shape, of it with a last size of 1, or
        without the last dimension; or a number.

    Raises:
        ValueError: a variance is negative, or its shape does not fit.

    Example:
        >>> mean, target = facula.tensor([1.0]), facula.tensor([2.0])
        >>> facula.nn.GaussianNLLLoss()(mean, target, facula.tensor([4.0]))
        tensor(0.8181)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: core.Tensor, target: core.Tensor, var: Any) -> Any:
        """The loss, reduced."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence ``target * (log(target) - input)`` of log-probabilities from target
    probabilities.

    'mean' divides by the number of elements; the divergence of distributions is 'batchmean', which
    divides by the batch size.

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'batchmean', 'mean', 'sum', or 'none' for the loss of each element
        log_target: whether targets are log-probabilities, too

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> p = facula.tensor([[0.5, 0.5]])
        >>> facula.nn.KLDivLoss(reduction="batchmean")(facula.tensor([[0.25, 0.75]]).log(), p)
        tensor(0.1438)
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced ("batchmean" divides by the batch size)."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class BCELoss(_WeightedLoss):
    """Binary cross-entropy of probabilities: ``-(y log(x) + (1 - y) log(1 - x))``.

    Logarithms are at least -100. For scores use `BCEWithLogitsLoss`.

    Args:
        weight: of each element, broadcast to the batch; None for 1
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        probabilities and targets in [0, 1] of one shape, to a scalar (to that shape for 'none').

    Raises:
        RuntimeError: at the call, where an input is outside of [0, 1].

    Example:
        >>> facula.nn.BCELoss()(facula.tensor([0.9, 0.2]), facula.tensor([1.0, 0.0]))
        tensor(0.1643)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of scores: `Sigmoid` and `BCELoss` in one, without overflow.

    Args:
        weight: of each element, broadcast to the batch; None for 1
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        pos_weight: factor of the positive part, broadcast to the target: above 1 raises recall,
            below 1 precision

    Shape:
        scores and targets in [0, 1] of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.BCEWithLogitsLoss()(facula.tensor([2.0, -1.0]), facula.tensor([1.0, 0.0]))
        tensor(0.2201)
    """

    def __init__(
        self,
        weight: object = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: object = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1: for distances of
    like and unlike pairs.

    Args:
        margin: the distance at which unlike pairs cost nothing
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.HingeEmbeddingLoss()(facula.tensor([0.3, 0.4]), facula.tensor([1.0, -1.0]))
        tensor(0.4500)
    """

    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Hinge loss between every target class j and every other class i: ``sum max(0, 1 - (x[j] - x[i]))
    / C``.

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        scores ``[N, C]`` or ``[C]`` and integer targets of that shape: the classes of each row,
        ended by the first -1.

    Example:
        >>> scores = facula.tensor([[0.1, 0.2, 0.4, 0.8]])
        >>> facula.nn.MultiLabelMarginLoss()(scores, facula.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``(x - y)^2 / (2 beta)`` where ``|x - y| < beta``, else ``|x - y| - beta / 2``. [Girshick 2015]

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        beta: where the square ends; 0 is the `L1Loss`

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.SmoothL1Loss()(facula.tensor([1.0, 2.0]), facula.tensor([0.0, 4.0]))
        tensor(1.)
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``(x - y)^2 / 2`` where ``|x - y| < delta``, else ``delta (|x - y| - delta / 2)``. [Huber 1964]

    It is ``delta`` times the `SmoothL1Loss` of that beta.

    Args:
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        delta: where the square ends; positive

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.HuberLoss()(facula.tensor([1.0, 2.0]), facula.tensor([0.0, 4.0]))
        tensor(1.)
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1; 'mean' is over all elements.

    Args:
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        input and target of one shape, to a scalar (to that shape for 'none').

    Example:
        >>> facula.nn.SoftMarginLoss()(facula.tensor([2.0, 1.0]), facula.tensor([1.0, -1.0]))
        tensor(0.7201)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """`BCEWithLogitsLoss` of each row, averaged over its classes.

    Args:
        weight: of each class, ``[C]``; None for 1
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        scores and targets (0 or 1) ``[N, C]``, to a scalar (to ``[N]`` for 'none').

    Example:
        >>> facula.nn.MultiLabelSoftMarginLoss()(facula.tensor([[2.0, -1.0]]), facula.tensor([[1.0, 0.0]]))
        tensor(0.2201)
    """

    __constants__ = ["reduction"]

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss of one target class y: ``sum_i max(0, margin - x[y] + x[i])^p / C`` over the other
    classes i.

    Args:
        p: 1 or 2
        margin: by how much the target's score must be larger
        weight: of each target class, ``[C]``; None for 1
        size_average, reduce: older form of ``reduction``
        reduction: 'mean', 'sum', or 'none' for the loss of each element

    Shape:
        scores ``[N, C]`` or ``[C]`` and integer classes ``[N]`` or ``[]``.

    Raises:
        ValueError: ``p`` is neither 1 nor 2, or ``weight`` is no vector.

    Example:
        >>> facula.nn.MultiMarginLoss()(facula.tensor([[0.1, 0.2, 0.4]]), facula.tensor([2]))
        tensor(0.5000)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: core.Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            fail(
                ValueError,
                "MultiMarginLoss",
                "only p == 1 and p == 2 supported",
                hint="p=1 is the default",
            )
        if weight is not None and weight.dim() != 1:
            fail(
                ValueError,
                "MultiMarginLoss",
                f"weight must be None or 1-dimensional, got {weight.dim()}D tensor",
                hint="one weight for each class",
            )
        self.p = p
        self.margin = margin

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """The loss, reduced."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Negative log-likelihood of label sequences, summed over all alignments with the input. [Graves
    et al. 2006]

    'mean' divides each loss by its target's length, then averages over the batch.

    Args:
        blank: the class that stands for no label
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        zero_infinity: whether losses of targets longer than their input, and their gradients, are 0
            and not infinite

    Shape:
        log-probabilities ``[T, N, C]`` (or ``[T, C]``), targets ``[N, S]`` or all in one vector,
        and the lengths of inputs and targets, ``[N]`` each.

    Example:
        >>> logs = facula.full((3, 1, 2), 0.5).log()
        >>> facula.nn.CTCLoss()(logs, facula.tensor([[1]]), facula.tensor([3]), facula.tensor([1]))
        tensor(0.2877)
    """

    __constants__ = ["blank", "reduction"]

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: core.Tensor, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Any:
        """``[T, N, C]`` log-probabilities and the targets' classes."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
