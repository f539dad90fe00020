"""Softmax over many classes by clusters, and cross-entropy of a linear layer.

Takes features and class indices.  Gives losses and log-probabilities.
Keeps true: classes are sorted by frequency, the first cutoff's are in the head and each later
cluster has its own smaller projection. [Grave et al. 2017]
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.functional_composites import LinearCrossEntropyOptions
from facula.nn.modules.container import ModuleList, Sequential
from facula.nn.modules.linear import Linear
from facula.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Softmax over many classes that are sorted by frequency: rare ones are in clusters of smaller
    width. [Grave et al. 2017]

    Frequent classes (below the first cutoff) and the clusters are scored first, classes of a
    cluster only where a target lies in it.

    Args:
        in_features: width of the input
        n_classes: number of classes, the most frequent one first
        cutoffs: increasing class indices at which clusters begin
        div_value: each cluster's width is that of the one before divided by it
        head_bias: whether the scores of the head have a bias
        device, dtype: of the parameters

    Shape:
        features ``[N, in_features]`` or ``[in_features]`` and integer classes ``[N]`` or ``[]``, to
        a named tuple of ``output`` (the targets' log-probabilities) and ``loss`` (minus their
        mean). ``log_prob(input)`` gives ``[N, n_classes]``, ``predict(input)`` the likeliest
        classes.

    Raises:
        ValueError: the cutoffs do not increase, or are not within the classes.

    Example:
        >>> softmax = facula.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
        >>> output, loss = softmax(facula.randn(4, 16), facula.tensor([0, 7, 50, 999]))
        >>> output.shape, loss.shape, softmax.predict(facula.randn(4, 16)).shape
        (facula.Size([4]), facula.Size([]), facula.Size([4]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where = {"device": device, "dtype": dtype}
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            fail(
                ValueError,
                "AdaptiveLogSoftmaxWithLoss",
                "cutoffs should be a sequence of length larger than 0",
                hint="cutoffs=[n_classes // 10] makes two clusters",
            )
        ordered = cutoffs == sorted(set(cutoffs)) and min(cutoffs) > 0
        if not ordered or max(cutoffs) > n_classes - 1 or any(int(c) != c for c in cutoffs):
            fail(
                ValueError,
                "AdaptiveLogSoftmaxWithLoss",
                (
                    "cutoffs should be a sequence of unique, positive integers sorted in an "
                    "increasing order, where each value is between 1 and n_classes-1"
                ),
                hint="sorted(set(cutoffs)) sorts them; n_classes is added at the end",
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **where),
                    Linear(hidden, size, bias=False, **where),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.head.reset_parameters()
        for pair in self.tail:
            projection, output = pair.children()
            projection.reset_parameters()
            output.reset_parameters()

    def _check(self, input: core.Tensor, target: core.Tensor) -> None:
        if target.dim() == 1:
            if input.size(0) != target.size(0):
                fail(
                    RuntimeError,
                    "AdaptiveLogSoftmaxWithLoss",
                    "Input and target should have the same size in the batch dimension.",
                    hint="one target for every row of the input",
                )
            if input.dim() != 2:
                fail(
                    RuntimeError,
                    "AdaptiveLogSoftmaxWithLoss",
                    "1D target tensor expects 2D input tensors, but found inputs with size "
                    + str(input.size()),
                    hint="input.flatten(0, -2) has one row for each",
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                fail(
                    RuntimeError,
                    "AdaptiveLogSoftmaxWithLoss",
                    "0D target tensor expects 1D input tensors, but found inputs with size "
                    + str(input.size()),
                    hint="target.unsqueeze(0) goes with a batch of one",
                )
        else:
            fail(
                RuntimeError,
                "AdaptiveLogSoftmaxWithLoss",
                "0D or 1D target tensor expected, multi-target not supported",
                hint="target.flatten() and input.flatten(0, -2) fit",
            )

    def forward(self, input: core.Tensor, target: core.Tensor) -> _ASMoutput:
        """``[N, in_features]`` and ``[N]`` classes to the log-probabilities of the targets and the
        mean loss.
        """
        self._check(input, target)
        batched = target.dim() > 0
        if not batched:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        head = F.log_softmax(self.head(input), dim=1)
        output = input.new_zeros(target.size(0))
        gather = target.clone()
        used = 0
        for i, (low, high) in enumerate(zip([0, *self.cutoffs[:-1]], self.cutoffs, strict=True)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            used += rows.numel()
            if rows.numel() == 0 or i == 0:
                continue
            cluster = self.shortlist_size + i - 1
            scores = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
            inside = (target.index_select(0, rows) - low).unsqueeze(1)
            output = output.index_copy(0, rows, scores.gather(1, inside).squeeze(1))
            gather = gather.index_fill(0, rows, cluster)
        if used != target.size(0):
            fail(
                RuntimeError,
                "AdaptiveLogSoftmaxWithLoss",
                (
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{target.min().item()}, {target.max().item()}] were found. "
                ),
                hint="n_classes must be above the largest target",
            )
        output = output + head.gather(1, gather.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: core.Tensor, head_output: core.Tensor) -> Any:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            within = F.log_softmax(tail(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return facula.cat(parts, 1)

    def log_prob(self, input: core.Tensor) -> Any:
        """``[N, in_features]`` to the log-probabilities ``[N, n_classes]``."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: core.Tensor) -> Any:
        """The most probable class of every row; tail clusters are looked at only where they may
        win.
        """
        head = self.head(input)
        output = facula.argmax(head, dim=1)
        in_tail = output >= self.shortlist_size
        if not bool(in_tail.any()):
            return output
        if bool(in_tail.all()):
            return facula.argmax(self._get_full_log_prob(input, head), dim=1)
        full = self._get_full_log_prob(input[in_tail], head[in_tail])
        output[in_tail] = facula.argmax(full, dim=1)
        return output


class LinearCrossEntropyLoss(Module):
    """Cross-entropy of a linear layer's outputs; with ``options`` the logits never exist as a whole.

    Args:
        in_features: width of the input
        num_classes: number of classes
        out_features: further sizes of the output, for several answers a row
        bias: whether the linear layer has one
        device, dtype: of the parameters
        reduction: 'mean', 'sum', or 'none' for the loss of each element
        weight: of each class; None for 1
        ignore_index: a target class that does not count; None for -100
        label_smoothing: the share of the target's probability that is spread over all classes
        options: a `LinearCrossEntropyOptions`, which has the batch worked through in chunks; None
            for at once

    Shape:
        features ``[N, in_features]`` and classes ``[N, *out_features]``, to a scalar (to the
        targets' shape for 'none').

    Example:
        >>> loss = facula.nn.LinearCrossEntropyLoss(8, 100, options=facula.nn.LinearCrossEntropyOptions())
        >>> loss(facula.randn(4, 8), facula.tensor([0, 5, 7, 99])).shape
        facula.Size([])
    """

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: core.device | str | int | None = None,
        dtype: core.dtype | None = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        self.reduction = reduction
        self.register_buffer("weight", weight)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        total = num_classes
        for size in self.out_features:
            total *= size
        self.linear = Linear(in_features, total, bias=bias, device=device, dtype=dtype)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options

    def forward(self, input: core.Tensor, target: core.Tensor) -> Any:
        """``[N, in_features]`` and classes ``[N, *out_features]`` to the loss."""
        weight, bias = self.linear.weight, self.linear.bias
        if self.out_features:
            shape = (self.num_classes, *self.out_features)
            weight = weight.view(*shape, weight.size(-1))
            bias = None if bias is None else bias.view(shape)
        return F.linear_cross_entropy(
            input,
            weight,
            target,
            linear_bias=bias,
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """The parameters."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
