"""Losses with fused kernels: cross-entropy, and those that are one sum over two tensors.

Takes predictions and targets; gives a loss for each sample, or their sum or mean. Keeps true:
log-probabilities are never written to memory; targets are checked before anything is read by them;
ignored rows have no loss, no gradient and no part in the mean. Other losses stand in
`loss_composites`.
"""

from __future__ import annotations

import warnings
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index.launch import within
from facula.ops.layers.norm import wide_of
from facula.ops.reduce import launch
from facula.ops.table import batch_forms
from facula.ops.table.overloads import namespace
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite, operator

#: what PyTorch calls the first argument in files
SELF = {"input": "self"}
LEGACY = "bool? size_average=None, bool? reduce=None, str reduction='mean'"


#: what a loss does with its elements, in the order of the numbers that stand for it
REDUCTIONS = ("none", "mean", "sum")


def reduction_of(op: str, size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction that the arguments ask for; the two older flags warn."""
    if size_average is not None or reduce is not None:
        average = size_average is None or size_average
        reduction = "none" if reduce is False else "mean" if average else "sum"
        core.unkept()  # each call warns
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead.",
            stacklevel=4,
        )
    if reduction not in REDUCTIONS:
        fail(
            ValueError,
            op,
            f"{reduction} is not a valid value for reduction",
            repr(reduction),
            hint="take 'none', 'mean' or 'sum'",
        )
    return reduction


def reduced(loss: core.Tensor, reduction: str) -> Any:
    """A loss for each element, or its mean or sum."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


# --- cross-entropy


def check_targets(target: core.Tensor, classes: int, ignore_index: int) -> None:
    """Raise unless every target is a class or the ignored index."""
    if target.numel() == 0:
        return
    mapped = core.is_wrapper(target)
    if not mapped and within(target, classes):
        return
    low, high = (0, 0) if mapped else (int(v) for v in F.aminmax(target))
    for extreme in (low, high):
        if extreme != ignore_index and not 0 <= extreme < classes:
            fail(
                IndexError,
                "cross_entropy",
                f"Target {extreme} is out of bounds: targets in [0, {classes})",
                extreme,
                hint=f"the input has {classes} classes; ignore_index={extreme} leaves such targets "
                "out",
            )
    outside = F.logical_and(F.logical_or(target < 0, target >= classes), target != ignore_index)
    if batch_forms.anywhere(outside):
        fail(
            IndexError,
            "cross_entropy",
            f"Target out of bounds: targets in [0, {classes})",
            "others",
            hint=f"the input has {classes} classes; ignore_index leaves one value out",
        )


def _class_dim(x: core.Tensor) -> int:
    return 0 if x.dim() == 1 else 1


_ROWS = "Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing"


@operator(
    f"cross_entropy_rows({_ROWS}) -> (Tensor, Tensor)",
    names=(),
    out=False,
    nondifferentiable=(1,),
    file_form="cross_entropy_rows",
)
class CrossEntropyRows:
    """The loss of each row, and its log-sum-exp, both in the dtype of statistics."""

    shards = "losses"

    vmap = batch_forms.cross_entropy_rows

    def meta(input, target, weight, ignore_index, label_smoothing):
        wide = wide_of(input.dtype)
        return (
            core.empty(target.shape, dtype=wide, device=input.device),
            core.empty(target.shape, dtype=wide, device=input.device),
        )

    def cpu(out, input, target, weight, ignore_index, label_smoothing):
        dim = _class_dim(input)
        check_targets(target, input.shape[dim], ignore_index)
        kernel = "cross_entropy"
        parameters: tuple[Any, ...] = ()
        if weight is not None:
            kernel, parameters = kernel + ".weight", (weight.to(out[0].dtype).contiguous(),)
        if label_smoothing:
            kernel += ".smooth"
        core.kernel(f"{kernel}:{input.dtype.code}")(
            (*out, input.contiguous(), *parameters, target.contiguous()),
            (*launch.along(input, dim), 0, 0),
            (float(ignore_index), float(label_smoothing)),
        )

    def backward(grads, input, target, weight, ignore_index, label_smoothing, result_1):
        if grads[0] is None:
            return None, None, None
        if any(core.is_wrapper(t) for t in (grads[0], input, target)):
            dx = _cross_entropy_formula(
                grads[0], input, target, weight, ignore_index, label_smoothing
            )
        else:
            dx = F.cross_entropy_rows_backward(
                grads[0], input, target, result_1, weight, ignore_index, label_smoothing
            )
        return dx, None, None

    def samples(S):
        yield (S(3, 4), core.tensor([0, 3, 1]), None, -100, 0.0), {}


@operator(
    "cross_entropy_rows_backward(Tensor grad_output, Tensor input, Tensor target, Tensor lse, Tensor? "
    "weight, "
    "int ignore_index, float label_smoothing) -> Tensor",
    names=(),
    out=False,
    nondifferentiable=(2,),
)
class CrossEntropyRowsBackward:
    """grad * (softmax(input) - target distribution). `lse` counts as a function of `input`."""

    shards = "losses_backward"

    def meta(grad_output, input, target, lse, weight, ignore_index, label_smoothing):
        return core.empty(input.shape, dtype=input.dtype, device=input.device)

    def cpu(out, grad_output, input, target, lse, weight, ignore_index, label_smoothing):
        kernel = "cross_entropy.backward"
        parameters: tuple[Any, ...] = ()
        if weight is not None:
            kernel, parameters = kernel + ".weight", (weight.to(lse.dtype).contiguous(),)
        core.kernel(f"{kernel}:{input.dtype.code}")(
            (
                out,
                input.contiguous(),
                *parameters,
                target.contiguous(),
                lse,
                grad_output.to(lse.dtype).contiguous(),
            ),
            (*launch.along(input, _class_dim(input)), 0, 0),
            (float(ignore_index), float(label_smoothing)),
        )

    def backward(grad, grad_output, input, target, weight, ignore_index, label_smoothing):
        dim = _class_dim(input)
        spread, ignored = _distribution(input, target, weight, ignore_index, label_smoothing)
        total, softmax = spread.sum(dim, True), F.softmax(input, dim)
        slope = (grad * (softmax * total - spread)).sum(dim).masked_fill(ignored, 0)
        scale = grad_output.masked_fill(ignored, 0).unsqueeze(dim).to(input.dtype) * total
        along = (grad * softmax).sum(dim, True)
        return slope.to(grad_output.dtype), scale * softmax * (grad - along), None, None, None


def _distribution(
    x: core.Tensor, target: object, weight: Any, ignore_index: int, smoothing: float
) -> tuple[Any, Any]:
    """(what each class weighs in a row's loss, which rows are ignored)."""
    dim = _class_dim(x)
    classes = x.shape[dim]
    ignored = target == ignore_index
    index = F.where(ignored, F.zeros_like(target), target).unsqueeze(dim)
    ones = F.ones_like(index).to(x.dtype)
    distribution = F.scatter(F.zeros_like(x), dim, index, ones) * (1 - smoothing)
    distribution = distribution + smoothing / classes
    if weight is not None:
        shape = [1] * x.dim()
        shape[dim] = classes
        distribution = distribution * weight.reshape(shape)
    return distribution, ignored


def _cross_entropy_formula(
    grad: core.Tensor,
    x: core.Tensor,
    target: core.Tensor,
    weight: core.Tensor,
    ignore_index: int,
    smoothing: float,
) -> Any:
    """The gradient by operators, for mapped tensors."""
    dim = _class_dim(x)
    distribution, ignored = _distribution(x, target, weight, ignore_index, smoothing)
    scale = grad.masked_fill(ignored, 0).unsqueeze(dim).to(x.dtype)
    return (F.softmax(x, dim) * distribution.sum(dim, True) - distribution) * scale


def _check_classes(op: str, input: core.Tensor, target: core.Tensor, weight: core.Tensor) -> None:
    dim = _class_dim(input)
    expected = (*input.shape[:dim], *input.shape[dim + 1 :])
    if input.dim() == 0 or tuple(target.shape) != expected:
        if input.dim() > 1 and target.dim() and input.shape[0] != target.shape[0]:
            fail(
                ValueError,
                op,
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
                f"({target.shape[0]})",
                f"input {tuple(input.shape)}, target {tuple(target.shape)}",
                hint="class indices have the input's shape without its dimension 1",
            )
        flat = "0D or 1D target tensor expected, multi-target not supported: "
        fail(
            RuntimeError,
            op,
            f"{flat if input.dim() < 3 else ''}Expected target size {list(expected)}",
            list(target.shape),
            "a class index a sample, or probabilities of the shape of the input",
        )
    if target.dtype is not core.int64 and target.dtype is not core.uint8:
        fail(
            RuntimeError,
            op,
            "expected scalar type Long for class indices",
            target.dtype,
            hint="target.long() converts it",
        )
    if weight is not None and (weight.dim() != 1 or weight.numel() != input.shape[dim]):
        fail(
            RuntimeError,
            op,
            f"weight tensor should be defined either for all {input.shape[dim]} classes or no classes",
            list(weight.shape),
            hint=f"give {input.shape[dim]} weights",
        )


def _averaged(
    loss: core.Tensor, target: core.Tensor, weight: core.Tensor, ignore_index: int, reduction: str
) -> Any:
    """Reduce row losses: the mean is over the weights of the rows that count."""
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    kept = target != ignore_index
    if weight is None:
        return loss.sum() / kept.sum()
    chosen = weight[F.where(kept, target, F.zeros_like(target))]
    return loss.sum() / (chosen * kept).sum()


def _probability_loss(
    input: core.Tensor, target: core.Tensor, weight: Any, smoothing: float, reduction: str
) -> Any:
    """Cross-entropy with a distribution for each sample."""
    dim = _class_dim(input)
    classes = input.shape[dim]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    terms = F.log_softmax(input, dim) * target
    if weight is not None:
        shape = [1] * input.dim()
        shape[dim] = classes
        terms = terms * weight.reshape(shape)
    loss = -terms.sum(dim)
    if reduction == "mean":
        return loss.sum() / loss.numel()
    return loss.sum() if reduction == "sum" else loss


def _cross_entropy_node(
    result: core.Tensor, input: core.Tensor, target: core.Tensor, *rest: Any
) -> str | None:
    """What PyTorch calls the last step of a cross entropy with classes."""
    if target.dtype.is_floating_point:
        return None
    return "NllLossBackward0" if input.dim() < 3 else "NllLoss2DBackward0"


def _shown_cross_entropy(input: Any, target: Any, weight: Any, *rest: Any) -> Any:
    average, ignored, reduce, word, smoothing = rest
    number = REDUCTIONS.index(reduction_of("cross_entropy", average, reduce, word))
    return namespace("aten").cross_entropy_loss(input, target, weight, number, ignored, smoothing)


@composite(
    "functional_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, "
    "int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0) "
    "-> Tensor",
    names=("nn.functional.cross_entropy",),
    out=False,
    autocast="float32",
    node=_cross_entropy_node,
    inlined=True,
    graph_form=_shown_cross_entropy,
)
def functional_cross_entropy(
    input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
):
    """-log softmax(input) at the target class, or against class probabilities, over the class
    dimension."""
    reduction = reduction_of("cross_entropy", size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        fail(
            RuntimeError,
            "cross_entropy",
            "label_smoothing must be between 0.0 and 1.0",
            label_smoothing,
            hint="label_smoothing=0.0 is the default",
        )
    if tuple(target.shape) == tuple(input.shape) and target.dtype.is_floating_point:
        return _probability_loss(input, target, weight, label_smoothing, reduction)
    _check_classes("cross_entropy", input, target, weight)
    target = target.to(core.int64)
    loss = F.cross_entropy_rows(input, target, weight, ignore_index, label_smoothing)[0]
    return _averaged(loss, target, weight, ignore_index, reduction).to(input.dtype)


def _nll_places(target: core.Tensor, ignore_index: int, dim: int) -> tuple[Any, Any]:
    """Which targets count, and the classes that they name; of the others the first."""
    kept = target != ignore_index
    return kept, F.where(kept, target, F.zeros_like(target)).unsqueeze(dim)


def nll_rows(input: core.Tensor, target: core.Tensor, ignore_index: int) -> Any:
    """What `_nll_rows` computes, by others."""
    dim = _class_dim(input)
    kept, index = _nll_places(target, ignore_index, dim)
    chosen = F.gather(input, dim, index).squeeze(dim)
    return F.where(kept, -chosen, F.zeros_like(chosen))


@operator(
    "_nll_rows(Tensor input, Tensor target, int ignore_index) -> Tensor",
    names=(),
    out=False,
    node="NllLossBackward0",
)
class NllRows:
    """-input at the target's class of each row, 0 where the target is ignored."""

    ties = True
    jvp = "linear"

    def vmap(batch, input, target, ignore_index):
        input, target = batch.full(input), batch.full(target)
        if target.dim() == 1:
            return F._nll_rows(input, target, ignore_index)
        rows = F._nll_rows(input.flatten(0, 1), target.flatten(0, 1), ignore_index)
        return batch_forms.parted(batch, rows)

    def meta(input, target, ignore_index):
        return core.empty(target.shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, target, ignore_index):
        check_targets(target, input.shape[_class_dim(input)], ignore_index)
        if out.numel():
            out.copy_(nll_rows(input, target, ignore_index))

    def backward(grad, input_meta, target, ignore_index):
        dim = _class_dim(input_meta)
        kept, index = _nll_places(target, ignore_index, dim)
        share = F.where(kept, -grad, F.zeros_like(grad)).unsqueeze(dim)
        zero = grad.new_zeros(input_meta.shape)
        return F.scatter(zero, dim, index, share), None

    def samples(S):
        yield (S(4, 3), S.index(3, (4,)), -100), {}
        yield (S(2, 3, 4), S.index(3, (2, 4)), 1), {}
        yield (S(3), S.index(3, ()), -100), {}


@composite(
    "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, int "
    "ignore_index=-100, "
    "bool? reduce=None, str reduction='mean') -> Tensor",
    names=("nn.functional.nll_loss",),
    out=False,
    autocast="float32",
    node=lambda result, input, *rest: (
        "NllLossBackward0" if input.dim() < 3 else "NllLoss2DBackward0"
    ),
    file_name="nll_loss_nd.default",
    file_arguments=SELF,
)
def nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction):
    """The negative log-likelihood: -weight[target] * input[target], over the class dimension."""
    reduction = reduction_of("nll_loss", size_average, reduce, reduction)
    if input.dim() == 0:
        fail(
            ValueError,
            "nll_loss",
            "Expected 1 or more dimensions (got 0)",
            hint="the last dimension of one sample, or dimension 1 of several, holds the classes",
        )
    _check_classes("nll_loss", input, target, weight)
    target = target.to(core.int64)
    loss = F._nll_rows(input, target, ignore_index)
    if weight is not None:
        loss = loss * weight[F.where(target != ignore_index, target, F.zeros_like(target))]
    return _averaged(loss, target, weight, ignore_index, reduction)


# --- one sum over two tensors


def warn_unlike(input: core.Tensor, target: core.Tensor, stacklevel: int = 4) -> None:
    """Warn where the shapes of a prediction and its target differ."""
    if tuple(input.shape) != tuple(target.shape):
        core.unkept()  # each call warns
        warnings.warn(
            f"Using a target size ({tuple(target.shape)}) that is different to the input "
            f"size ({tuple(input.shape)}). This will likely lead to incorrect results due to "
            f"broadcasting. Please ensure they have the same size.",
            stacklevel=stacklevel,
        )


def _check_pair(op: str, input: core.Tensor, target: core.Tensor) -> tuple[Any, Any]:
    """Both in one shape and dtype; unlike shapes are broadcast, with a warning."""
    if tuple(input.shape) != tuple(target.shape):
        warn_unlike(input, target, stacklevel=5)
        input, target = F.broadcast_tensors([input, target])
    if input.dtype is not target.dtype:
        dtype = core.promote_types(input.dtype, target.dtype)
        input, target = input.to(dtype), target.to(dtype)
    return input, target


def _check_alike(op: str, input: core.Tensor, target: core.Tensor) -> None:
    """Raise unless there is a target of the same dtype for each element."""
    if input.shape != target.shape or input.dtype is not target.dtype:
        fail(
            RuntimeError,
            op,
            "a target like the input",
            f"{target.dtype} of {list(target.shape)} for {input.dtype} of {list(input.shape)}",
            hint="broadcast_tensors() gives both one shape",
        )


def _one_of_alike(op: str) -> Any:
    """The `meta` of a total of two like tensors."""

    def meta(input: core.Tensor, target: core.Tensor, mean: bool) -> Any:
        _check_alike(op, input, target)
        return core.empty((), dtype=input.dtype, device=input.device)

    return meta


def _total(kernel: str) -> Any:
    """The `cpu` of a total, by the kernel's name."""

    def cpu(out: object, input: core.Tensor, target: core.Tensor, mean: bool) -> None:
        name = f"{kernel}.{'mean' if mean else 'sum'}"
        core.kernel(f"{name}:{input.dtype.code}")(
            (out, input.contiguous(), target.contiguous()), (1, input.numel(), 1, 1)
        )

    return cpu


def _share(grad: core.Tensor, input: core.Tensor, mean: bool) -> Any:
    return grad / input.numel() if mean and input.numel() else grad


@operator(
    "mse_total(Tensor input, Tensor target, bool mean) -> Tensor",
    names=(),
    out=False,
    node="MseLossBackward0",
)
class MseTotal:
    """The sum or mean of squared differences, in one pass."""

    shards = "total"

    vmap = batch_forms.mse_total

    meta = _one_of_alike("mse_total")
    cpu = _total("mse_loss")

    def backward(grad, input, target, mean, needs):
        if core.rounds_steps() and one_node(input, target):
            first = F._mse_slope(grad, input, target, mean) if needs[0] else None
            return first, F._mse_slope(grad, target, input, mean) if needs[1] else None
        slope = (input - target) * (_share(grad, input, mean) * 2)
        return slope if needs[0] else None, -slope if needs[1] else None

    def samples(S):
        yield (S(3, 4), S(3, 4), True), {}


@operator("l1_total(Tensor input, Tensor target, bool mean) -> Tensor", names=(), out=False)
class L1Total:
    """The sum or mean of absolute differences, in one pass."""

    shards = "total"

    vmap = batch_forms.l1_total

    meta = _one_of_alike("l1_total")
    cpu = _total("l1_loss")

    def backward(grad, input, target, mean, needs):
        slope = (input - target).sign() * _share(grad, input, mean)
        return slope if needs[0] else None, -slope if needs[1] else None

    def samples(S):
        yield (S(3, 4), S(3, 4), False), {}


@operator(
    "bce_logits_total(Tensor input, Tensor target, bool mean) -> Tensor",
    names=(),
    out=False,
    node="BinaryCrossEntropyWithLogitsBackward0",
    file_form="bce_with_logits",
)
class BceLogitsTotal:
    """The sum or mean of the binary cross-entropy of logits, in one pass."""

    shards = "total"

    vmap = batch_forms.bce_logits_total

    meta = _one_of_alike("bce_logits_total")
    cpu = _total("bce_with_logits")

    def backward(grad, input, target, mean, needs):
        share = _share(grad, input, mean)
        dx = (F.sigmoid(input) - target) * share if needs[0] else None
        return dx, -input * share if needs[1] else None

    def samples(S):
        yield (S(3, 4), S(3, 4, low=0.0, high=1.0), True), {}


def _one_number(
    op: str, total: core.Op, input: core.Tensor, target: core.Tensor, reduction: str
) -> Any:
    """The fused sum where there is a kernel, else None."""
    fused = reduction != "none" and input.dtype.code in launch.FLOATING
    return total(input, target, reduction == "mean") if fused else None


@composite(
    f"mse_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor",
    names=("nn.functional.mse_loss",),
    out=False,
    autocast="float32",
    file_arguments=SELF,
)
def mse_loss(input, target, size_average, reduce, reduction, weight):
    """(input - target)**2."""
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    input, target = _check_pair("mse_loss", input, target)
    if weight is not None:
        return weighted("mse_loss", (input - target) ** 2, weight, reduction)
    total = _one_number("mse_loss", F.mse_total, input, target, reduction)
    return reduced((input - target) ** 2, reduction) if total is None else total


@composite(
    f"l1_loss(Tensor input, Tensor target, {LEGACY}, Tensor? weight=None) -> Tensor",
    names=("nn.functional.l1_loss",),
    out=False,
    autocast="float32",
    file_arguments=SELF,
)
def l1_loss(input, target, size_average, reduce, reduction, weight):
    """|input - target|."""
    reduction = reduction_of("l1_loss", size_average, reduce, reduction)
    input, target = _check_pair("l1_loss", input, target)
    if weight is not None:
        return weighted("l1_loss", (input - target).abs(), weight, reduction)
    total = _one_number("l1_loss", F.l1_total, input, target, reduction)
    return reduced((input - target).abs(), reduction) if total is None else total


def same_size_of_weights(op: str, input: core.Tensor, weight: core.Tensor) -> None:
    """Raise unless there is a weight for each element."""
    if tuple(input.shape) != tuple(weight.shape):
        fail(
            ValueError,
            op,
            "Weights and input must have the same size.",
            tuple(weight.shape),
            hint="weight.expand_as(input) is a weight for each element",
        )


def weighted(op: str, loss: Any, weight: core.Tensor, reduction: str) -> Any:
    """A weighted loss: the mean is over the weights."""
    same_size_of_weights(op, loss, weight)
    if reduction == "mean":
        return (loss * weight).sum() / weight.sum()
    return reduced(loss * weight, reduction)


@composite(
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, bool? "
    "size_average=None, "
    "bool? reduce=None, str reduction='mean', Tensor? pos_weight=None) -> Tensor",
    names=("nn.functional.binary_cross_entropy_with_logits",),
    out=False,
    autocast="float32",
    file_arguments=SELF,
)
def binary_cross_entropy_with_logits(
    input, target, weight, size_average, reduce, reduction, pos_weight
):
    """Binary cross-entropy of sigmoid(input), without overflow."""
    reduction = reduction_of("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    if tuple(input.shape) != tuple(target.shape):
        fail(
            ValueError,
            "binary_cross_entropy_with_logits",
            f"Target size ({target.shape}) must be the same as input size ({input.shape})",
            tuple(target.shape),
            hint="unsqueeze(), expand_as() or reshape_as() gives target the shape of input",
        )
    if one_node(input, target) and all(
        t is None or (t.dtype is input.dtype and not t.requires_grad) for t in (weight, pos_weight)
    ):
        return F._bce_logits(input, target, weight, pos_weight, reduction)
    if weight is None and pos_weight is None and target.dtype is input.dtype:
        total = _one_number("bce_with_logits", F.bce_logits_total, input, target, reduction)
        if total is not None:
            return total
    softplus = -F.logsigmoid(input)  # one function, whose slope at zero no abs() or clamp() decides
    if pos_weight is None:
        loss = (1 - target) * input + softplus
    else:
        loss = (1 - target) * input + ((pos_weight - 1) * target + 1) * softplus
    return reduced(loss if weight is None else loss * weight, reduction)
