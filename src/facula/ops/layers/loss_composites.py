"""Losses that are formulas over operators.

Takes predictions and targets; gives a loss for each sample, or their sum or mean (`reduction`).
Keeps true: names, defaults and conventions are PyTorch's; gradients follow from the operators
inside.
"""

from __future__ import annotations

import warnings
from math import pi
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, one_dtype
from facula.ops.layers.loss import (
    LEGACY,
    SELF,
    reduced,
    reduction_of,
    same_size_of_weights,
    warn_unlike,
)
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite, operator

_FUNCTIONAL = "nn.functional."


def _loss(
    schema: str, autocast: str | None = "float32", node: str | None = None, **fields: Any
) -> Any:
    """A composite that appears in `nn.functional` alone; autocast computes it in float32."""
    names = (_FUNCTIONAL + schema.partition("(")[0],)
    fields.setdefault("file_arguments", SELF)
    return composite(schema, names=names, out=False, autocast=autocast, node=node, **fields)


def _same_shape(op: str, input: core.Tensor, target: core.Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        fail(
            ValueError,
            op,
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. "
            "Please ensure they have the same size",
            tuple(target.shape),
            hint="unsqueeze(), expand_as() or reshape_as() gives target the shape of input",
        )


# --- regression


@_loss(
    f"smooth_l1_loss(Tensor input, Tensor target, {LEGACY}, float beta=1.0) -> Tensor",
    node="SmoothL1LossBackward0",
)
def smooth_l1_loss(
    input: core.Tensor,
    target: core.Tensor,
    size_average: object,
    reduce: object,
    reduction: str,
    beta: float,
) -> Any:
    """d**2 / (2 beta) where |d| < beta, else |d| - beta / 2. [Girshick 2015]"""
    reduction = reduction_of("smooth_l1_loss", size_average, reduce, reduction)
    warn_unlike(input, target)
    if beta < 0:
        fail(
            RuntimeError,
            "smooth_l1_loss",
            "smooth_l1_loss does not support negative values for beta",
            beta,
            hint="beta=0 is l1_loss()",
        )
    if beta == 0:
        return reduced((input - target).abs(), reduction)
    return reduced(F._smooth_l1_loss(input, target, beta), reduction)


@_loss(
    "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? "
    "weight=None) -> Tensor",
    node="HuberLossBackward0",
)
def huber_loss(
    input: core.Tensor, target: core.Tensor, reduction: str, delta: float, weight: Any
) -> Any:
    """d**2 / 2 where |d| < delta, else delta * (|d| - delta / 2). [Huber 1964]"""
    reduction = reduction_of("huber_loss", None, None, reduction)
    if delta <= 0:
        fail(
            RuntimeError,
            "huber_loss",
            "huber_loss does not support non-positive values for delta",
            delta,
            hint="delta=1.0 is the default",
        )
    warn_unlike(input, target)
    loss = F._huber_loss(input, target, delta)
    if weight is not None:  # unlike that of mse_loss the mean is over the elements
        same_size_of_weights("huber_loss", input, weight)
        loss = loss * weight
    return reduced(loss, reduction)


@_loss(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? "
    "size_average=None, "
    "float eps=1e-8, bool? reduce=None, str reduction='mean') -> Tensor",
    file_arguments={},
    file_keeps=("log_input", "full", "eps", "reduction"),
)
def poisson_nll_loss(
    input: core.Tensor,
    target: core.Tensor,
    log_input: bool,
    full: bool,
    size_average: object,
    eps: float,
    reduce: object,
    reduction: str,
) -> Any:
    """The negative log-likelihood of counts; `full` adds Stirling's term for log(target!)."""
    reduction = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


@_loss(
    "gaussian_nll_loss(Tensor input, Tensor target, any var, bool full=False, float eps=1e-6, "
    "str reduction='mean') -> Tensor",
    autocast=None,
    inlined=True,
)
def gaussian_nll_loss(
    input: core.Tensor, target: core.Tensor, var: Any, full: bool, eps: float, reduction: str
) -> Any:
    """The negative log-likelihood of normally distributed targets with the given variances."""
    op = "gaussian_nll_loss"
    # lazily: few programs call it
    from facula.ops.forms.on_demand import variance_of

    var = variance_of(input, var, op)
    if reduction not in ("none", "mean", "sum"):
        fail(
            ValueError,
            op,
            f"{reduction} is not valid",
            repr(reduction),
            hint="take 'none', 'mean' or 'sum'",
        )
    floor = var.detach().clamp(min=eps)
    var = var + (
        floor - var.detach()
    )  # as a constant, so that the gradient reaches a clamped variance too
    difference = input - target
    loss = 0.5 * (var.log() + difference**2 / var)
    if full:
        loss = loss + 0.5 * F.log(F.full((), 2 * pi, dtype=core.float64)).item()
    return reduced(loss, reduction)


@_loss(
    f"kl_div(Tensor input, Tensor target, {LEGACY}, bool log_target=False) -> Tensor",
    file_form="divergence",
)
def kl_div(
    input: core.Tensor,
    target: core.Tensor,
    size_average: object,
    reduce: object,
    reduction: str,
    log_target: bool,
) -> Any:
    """target * (log target - input), for log-probabilities `input`. [Kullback, Leibler 1951]

    Example:
        >>> input, target = facula.tensor([0.25, 0.75]).log(), facula.tensor([0.5, 0.5])
        >>> facula.nn.functional.kl_div(input, target, reduction="sum")
        tensor(0.1438)
    """
    batch = reduction == "batchmean"
    if not batch:
        reduction = reduction_of("kl_div", size_average, reduce, reduction)
        if reduction == "mean":
            core.unkept()  # each call warns
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support "
                "size."
                "'batchmean' divides only by the batch size, and aligns with the KL div math "
                "definition."
                "'mean' will be changed to behave the same as 'batchmean' in the next major "
                "release.",
                stacklevel=3,
            )
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = F.xlogy(target, target) - target * input
    if batch:
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return reduced(loss, reduction)


# --- classification


@_loss(
    "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, "
    "bool? reduce=None, str reduction='mean') -> Tensor",
    autocast="cpu float32",
    node="BinaryCrossEntropyBackward0",
)
def binary_cross_entropy(
    input: core.Tensor,
    target: core.Tensor,
    weight: Any,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """-target log(input) - (1 - target) log(1 - input), each logarithm at least -100."""
    op = "binary_cross_entropy"
    reduction = reduction_of(op, size_average, reduce, reduction)
    _same_shape(op, input, target)
    one_dtype(op, input, target, "Found dtype {1} but expected {0}")
    if one_node(input, target) and (weight is None or weight.dtype is input.dtype):
        return F._bce(input, target, weight, reduction)
    loss = F.binary_cross_entropy_elements(input, target)
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction)


@operator(
    "binary_cross_entropy_elements(Tensor input, Tensor target) -> Tensor",
    names=(),
    out=False,
    file_form="bce_elements",
)
class BinaryCrossEntropyElements:
    """The loss of each element. Logarithms are cut off at -100, the slope at 1e12."""

    vmap = "whole"

    def meta(input, target):
        return core.empty(input.shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, target):
        low, high = (float(v) for v in F.aminmax(input)) if input.numel() else (0.0, 1.0)
        if not (low >= 0 and high <= 1):
            fail(
                RuntimeError,
                "binary_cross_entropy",
                "all elements of input should be between 0 and 1",
                f"[{low}, {high}]",
                hint="binary_cross_entropy_with_logits() takes scores instead of probabilities",
            )
        positive = input.log().clamp(min=-100)
        negative = F.log1p(-input).clamp(min=-100)
        out.copy_((target - 1) * negative - target * positive)

    def backward(grad, input, target, needs):
        slope = (input - target) / ((1 - input) * input).clamp(min=1e-12)
        to_target = grad * (F.log1p(-input) - input.log()) if needs[1] else None
        return grad * slope if needs[0] else None, to_target

    def samples(S):
        yield (S(3, 4, low=0.1, high=0.9), S(3, 4, low=0.0, high=1.0)), {}


@_loss(
    f"soft_margin_loss(Tensor input, Tensor target, {LEGACY}) -> Tensor",
    node="SoftMarginLossBackward0",
)
def soft_margin_loss(
    input: core.Tensor, target: core.Tensor, size_average: object, reduce: object, reduction: str
) -> Any:
    """log(1 + exp(-target * input)) for targets of -1 and 1."""
    reduction = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    return reduced(F.softplus(-target * input), reduction)


@_loss(f"hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, {LEGACY}) -> Tensor")
def hinge_embedding_loss(
    input: core.Tensor,
    target: core.Tensor,
    margin: float,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """input where the target is 1, max(0, margin - input) where it is -1."""
    reduction = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    zero = F.zeros_like(input)
    apart = F.where(target != 1, (margin - input).clamp(min=0), zero)
    near = F.where(target != -1, input, zero)
    return reduced(apart + near, reduction)


@_loss(
    f"cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
    f"{LEGACY}) -> Tensor"
)
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1.

    Example:
        >>> a, b = facula.tensor([[1.0, 0.0]]), facula.tensor([[1.0, 1.0]])
        >>> facula.nn.functional.cosine_embedding_loss(a, b, facula.tensor([1.0]))
        tensor(0.2929)
    """
    op = "cosine_embedding_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if target.dim() not in (0, 1):
        fail(
            RuntimeError,
            op,
            "0D or 1D target tensor expected",
            f"{target.dim()} dimensions",
            hint="target has 1 or -1 for each pair: target.reshape(-1) is 1D",
        )
    dim = target.dim()
    if input1.dim() != dim + 1 or input2.dim() != dim + 1:
        fail(
            RuntimeError,
            op,
            f"{dim}D target tensor expects {dim + 1}D input tensors",
            f"{tuple(input1.shape)} and {tuple(input2.shape)}",
            hint="a target of shape [N] goes with inputs [N, D], one of shape [] with inputs [D]",
        )
    tiny = 1e-12
    product = (input1 * input2).sum(dim)
    squares = ((input1 * input1).sum(dim) + tiny) * ((input2 * input2).sum(dim) + tiny)
    cosine = product / squares.sqrt()
    zero = F.zeros_like(cosine)
    positive = F.where(target == 1, 1 - cosine, zero)
    negative = F.where(target == -1, (cosine - margin).clamp(min=0), zero)
    return reduced(positive + negative, reduction)


@_loss(
    f"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, {LEGACY}) "
    f"-> Tensor"
)
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: core.Tensor,
    margin: float,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """max(0, -target * (input1 - input2) + margin)."""
    op = "margin_ranking_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        fail(
            RuntimeError,
            op,
            "margin_ranking_loss : All input tensors should have same dimension",
            f"sizes {tuple(input1.shape)}, {tuple(input2.shape)}, {tuple(target.shape)}",
            hint="unsqueeze() adds dimensions of size 1 to the smaller ones",
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def _check_classes(op: str, input: Any, rows: Any, target: Any, weight: Any) -> None:
    """Raise unless there is one class an observation, of those that `rows` and `weight` have."""
    if input.dim() > 2 or not rows.shape[1]:
        fail(
            RuntimeError,
            op,
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}",
            list(input.shape),
            hint="the input is [N, C] or [C], with at least one class",
        )
    if target.dim() > 1 or target.numel() != rows.shape[0]:
        fail(
            RuntimeError,
            op,
            "target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{rows.shape[0]}], but got {list(target.shape)}",
            list(target.shape),
            hint="the target holds one class for each row of the input",
        )
    if weight is not None and weight.numel() != rows.shape[1]:
        fail(
            RuntimeError,
            op,
            f"inconsistent weight size, expected {rows.shape[1]} but got {list(weight.shape)}",
            list(weight.shape),
            hint="give a weight for each class",
        )
    if target.dtype is not core.int64:
        fail(
            RuntimeError,
            op,
            f"expected scalar type Long but found {target.dtype.type_word}",
            target.dtype,
            hint=cast_hint("target", core.int64),
        )


@_loss(
    "multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0, Tensor? "
    "weight=None, "
    "bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    node="MultiMarginLossBackward0",
)
def multi_margin_loss(
    input: core.Tensor,
    target: core.Tensor,
    p: int,
    margin: float,
    weight: Any,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """sum over other classes of max(0, margin - input[target] + input)**p, over the number of
    classes."""
    op = "multi_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if p not in (1, 2):
        fail(ValueError, op, "only p == 1 and p == 2 supported", p, hint="p=1 is the default")
    if weight is not None and weight.dim() != 1:
        fail(
            ValueError,
            op,
            "weight must be one-dimensional",
            weight.dim(),
            hint="give a weight for each class",
        )
    single = input.dim() < 2
    rows = input.reshape(1, -1) if single else input
    _check_classes(op, input, rows, target, weight)
    index = target.reshape(-1, 1)
    terms = F.relu(margin - rows.gather(1, index) + rows)  # no slope at the margin itself
    if p == 2:
        terms = terms * terms
    if weight is not None:
        terms = terms * weight[index]
    own = F.scatter(F.zeros_like(rows).to(core.bool_), 1, index, True)
    loss = terms.masked_fill(own, 0).sum(1) / rows.shape[1]
    return reduced(loss.reshape(()) if single else loss, reduction)


@_loss(
    f"multilabel_margin_loss(Tensor input, Tensor target, {LEGACY}) -> Tensor",
    node="MultilabelMarginLossBackward0",
)
def multilabel_margin_loss(
    input: core.Tensor, target: core.Tensor, size_average: object, reduce: object, reduction: str
) -> Any:
    """sum over target classes i and others j of max(0, 1 - input[i] + input[j]), over the number of
    classes; the target classes stand first, ended by -1."""
    op = "multilabel_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        fail(
            RuntimeError,
            op,
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}",
            list(target.shape),
            hint="pad target with -1 to the shape of input",
        )
    single = input.dim() < 2
    rows = input.reshape(1, -1) if single else input
    labels = target.reshape(rows.shape)
    listed = (labels >= 0).to(core.int64).cumprod(1)
    index = labels * listed
    counts = F.scatter_add(F.zeros_like(labels), 1, index, listed)
    terms = F.relu(1 - rows.gather(1, index).unsqueeze(2) + rows.unsqueeze(1))
    relevant = F.logical_and(listed.unsqueeze(2) == 1, (counts == 0).unsqueeze(1))
    loss = (terms * relevant).sum((1, 2)) / rows.shape[1]
    return reduced(loss.reshape(()) if single else loss, reduction)


@_loss(
    "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, "
    "bool? reduce=None, str reduction='mean') -> Tensor",
    autocast=None,
    inlined=True,
)
def multilabel_soft_margin_loss(
    input: core.Tensor,
    target: core.Tensor,
    weight: Any,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """The mean over classes of the binary cross-entropy of logits."""
    reduction = reduction_of("multilabel_soft_margin_loss", size_average, reduce, reduction)
    loss = -(target * F.logsigmoid(input) + (1 - target) * F.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.mean(-1), reduction)


# --- triplets


@_loss(
    "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, "
    "float p=2, "
    f"float eps=1e-6, bool swap=False, {LEGACY}) -> Tensor"
)
def triplet_margin_loss(
    anchor: object,
    positive: object,
    negative: object,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    size_average: object,
    reduce: object,
    reduction: str,
) -> Any:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin). [Balntas et al. 2016]"""
    reduction = reduction_of("triplet_margin_loss", size_average, reduce, reduction)

    def distance(a: object, b: object) -> Any:
        return F.pairwise_distance(a, b, p, eps)

    return _triplets(
        "triplet_margin_loss", distance, anchor, positive, negative, margin, swap, reduction
    )


def _triplets(
    op: str,
    distance: Any,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float,
    swap: bool,
    reduction: str,
) -> Any:
    if margin <= 0:
        fail(
            ValueError,
            op,
            f"margin must be greater than 0, got {margin}",
            margin,
            hint="margin=1.0 is the default",
        )
    if not anchor.dim() == positive.dim() == negative.dim():
        fail(
            RuntimeError,
            op,
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and negative "
            f"{negative.dim()}D inputs",
            f"{anchor.dim()}, {positive.dim()} and {negative.dim()}",
            hint="unsqueeze() adds dimensions of size 1 to the smaller ones",
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = F.minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)


@_loss(
    "triplet_margin_with_distance_loss(Tensor anchor, Tensor positive, Tensor negative, *, any "
    "distance_function=None, "
    "Operand margin=1.0, bool swap=False, str reduction='mean') -> Tensor",
    autocast=None,
    inlined=True,
)
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    distance_function: object,
    margin: Any,
    swap: bool,
    reduction: str,
) -> Any:
    """As `triplet_margin_loss`, with any distance (default: `pairwise_distance`)."""
    op = "triplet_margin_with_distance_loss"
    reduction = reduction_of(op, None, None, reduction)
    distance = distance_function if distance_function is not None else F.pairwise_distance
    return _triplets(op, distance, anchor, positive, negative, margin, swap, reduction)
