"""Losses, subscripts and reductions as listeners of PyTorch's operators hear of them.

Takes: calls of the fused losses and of subscripts. Gives: the fields `heard` of these, and PyTorch's operators for
them: losses whose reduction is a number (0 none, 1 mean, 2 sum).
Keeps true: values and gradients are those of the operators without a listener.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.layers.loss import REDUCTIONS, reduction_of
from facula.ops.table.heard import hear, once, tell
from facula.ops.table.heard_gradients import define
from facula.ops.table.registry import F

_LOSS = "Tensor self, Tensor target"


# ------------------------------------------------------------------ classes


def _classes(self: Any) -> int:
    return 0 if self.dim() == 1 else 1


def _weights(self: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    """What each target counts."""
    kept = target != ignore_index
    if weight is None:
        return kept.to(self.dtype)
    return weight[F.where(kept, target, F.zeros_like(target))] * kept


def _define_nll(name: str) -> None:
    @define(
        f"{name}_forward({_LOSS}, Tensor? weight, int reduction, int ignore_index) -> (Tensor, Tensor)",
        f"`nll_loss` and the sum of the weights of the targets that count, for `{name}`.",
        nondifferentiable=(1,),
    )
    def forward(self, target, weight, reduction, ignore_index):
        loss = F.nll_loss(self, target, weight, None, ignore_index, None, REDUCTIONS[reduction])
        if reduction == 0:
            return loss, self.new_zeros(())
        return loss, _weights(self, target, weight, ignore_index).sum()

    @define(
        f"{name}_backward(Tensor grad_output, {_LOSS}, Tensor? weight, int reduction, int ignore_index, "
        "Tensor total_weight) -> Tensor",
        f"The gradient of the log-probabilities of `{name}_forward`.",
    )
    def backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
        dim = _classes(self)
        share = _weights(self, target, weight, ignore_index)
        if reduction == 1:
            share = share / total_weight
        index = F.where(target != ignore_index, target, F.zeros_like(target)).unsqueeze(dim)
        values = (-grad_output * share).to(self.dtype).unsqueeze(dim)
        return self.new_zeros(self.shape).scatter(dim, index, values)


for _name in ("nll_loss", "nll_loss2d"):
    _define_nll(_name)


def _nll_gradient(name: str) -> Any:
    def gradient(grads, self, target, weight, reduction, ignore_index, result_1):
        if grads[0] is None:
            return None, None, None
        found = tell(getattr(F, f"{name}_backward"), grads[0], self, target, weight, reduction, ignore_index,
                     result_1)  # fmt: skip
        return found, None, None

    return gradient


_NLL = {name: _nll_gradient(name) for name in ("nll_loss", "nll_loss2d")}


@hear("nll_loss")
def _nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction):
    reduction = reduction_of("nll_loss", size_average, reduce, reduction)
    fits = target.dtype is core.int64 and _one_target_each(input, target)
    if not fits or input.dim() > 4:
        body = F.nll_loss.definition.body
        return body(input, target, weight, None, ignore_index, None, reduction)
    if input.dim() == 3:  # images of one row
        found = _nll_loss(
            input.unsqueeze(2), target.unsqueeze(1), weight, None, ignore_index, None, reduction
        )
        return found.squeeze(1) if reduction == "none" else found
    name = "nll_loss2d" if input.dim() == 4 else "nll_loss"
    form, number = getattr(F, f"{name}_forward"), REDUCTIONS.index(reduction)
    return tell(form, input, target, weight, number, ignore_index, backward=_NLL[name])[0]


def _one_target_each(input: Any, target: Any) -> bool:
    dim = _classes(input)
    return input.dim() > 0 and tuple(target.shape) == (*input.shape[:dim], *input.shape[dim + 1 :])


@hear("functional_cross_entropy")
def _cross_entropy(
    input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
):  # fmt: skip
    reduction = reduction_of("cross_entropy", size_average, reduce, reduction)
    smooth = bool(label_smoothing)
    plain = target.dtype is core.int64 and _one_target_each(input, target)
    if not plain or not 0.0 <= label_smoothing <= 1.0 or (smooth and weight is not None):
        body = F.functional_cross_entropy.definition.body
        return body(input, target, weight, None, ignore_index, None, reduction, label_smoothing)
    rows = F.log_softmax(input, _classes(input))
    loss = F.nll_loss(rows, target, weight, None, ignore_index, None, reduction)
    if not smooth:
        return loss
    ignored = target == ignore_index
    spread = (-rows.sum(_classes(input))).masked_fill_(ignored, 0.0)
    if reduction != "none":
        spread = spread.sum()
    if reduction == "mean":
        spread = spread / (~ignored).sum()
    return loss * (1 - label_smoothing) + spread * (label_smoothing / input.shape[_classes(input)])


# ------------------------------------------------------------------ elementwise losses


def _define_loss(name: str, extra: str, slope: Any) -> None:
    """PyTorch's form of a loss of two tensors, and its gradient; `slope(self, target, *more)` is that of an element."""
    more = f", {extra}" if extra else ""

    @define(
        f"_{name}_of_number({_LOSS}, int reduction=1{more and more + '=1.0'}) -> Tensor",
        f"`{name}` with its reduction as a number.", stands_for=name,
    )  # fmt: skip
    def form(self, target, reduction, *rest):
        words = {"beta": "beta", "delta": "delta"}
        named = {words[extra.split()[1]]: rest[0]} if extra else {}
        return getattr(F, name)(self, target, reduction=REDUCTIONS[reduction], **named)

    @define(
        f"{name}_backward(Tensor grad_output, {_LOSS}, int reduction{more}) -> Tensor",
        f"The gradient of the first argument of `{name}`.",
    )
    def gradient(grad_output, self, target, reduction, *rest):
        found = grad_output * slope(self, target, *rest)
        return found / self.numel() if reduction == 1 else found

    _FORMS[name] = form, gradient


_FORMS: dict[str, tuple[Any, Any]] = {}
_define_loss("mse_loss", "", lambda x, y: (x - y) * 2)
_define_loss("smooth_l1_loss", "float beta",
             lambda x, y, beta: F.where((x - y).abs() < beta, (x - y) / (beta or 1.0), (x - y).sign()))  # fmt: skip
_define_loss("huber_loss", "float delta", lambda x, y, delta: (x - y).clamp(-delta, delta))


def _alike(input: Any, target: Any) -> bool:
    """Whether there is a target of the same floating dtype for each element."""
    return bool(
        input.shape == target.shape
        and input.dtype is target.dtype
        and input.dtype.is_floating_point
    )


def _told_loss(name: str, input: object, target: object, reduction: str, *rest: object) -> Any:
    """A loss whose tensors are alike as one call; None for others."""
    if not _alike(input, target):
        return None
    form, gradient = _FORMS[name]

    def formula(grad, self, target, reduction, needs):
        first = tell(gradient, grad, self, target, reduction, *rest) if needs[0] else None
        return first, tell(gradient, grad, target, self, reduction, *rest) if needs[1] else None

    return tell(form, input, target, REDUCTIONS.index(reduction), *rest, backward=once(formula))


@hear("mse_loss")
def _mse_loss(input, target, size_average, reduce, reduction, weight):
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    found = None if weight is not None else _told_loss("mse_loss", input, target, reduction)
    if found is not None:
        return found
    return F.mse_loss.definition.body(input, target, None, None, reduction, weight)


@hear("l1_total")
def _l1_total(input, target, mean):
    apart = (input - target).abs()
    return apart.mean() if mean else apart.sum()


@hear("smooth_l1_loss")
def _smooth_l1_loss(input, target, size_average, reduce, reduction, beta):
    reduction = reduction_of("smooth_l1_loss", size_average, reduce, reduction)
    found = _told_loss("smooth_l1_loss", input, target, reduction, beta) if beta > 0 else None
    if found is not None:
        return found
    return F.smooth_l1_loss.definition.body(input, target, None, None, reduction, beta)


@hear("huber_loss")
def _huber_loss(input, target, reduction, delta, weight):
    plain = weight is None and delta > 0 and reduction in REDUCTIONS
    found = _told_loss("huber_loss", input, target, reduction, delta) if plain else None
    if found is not None:
        return found
    return F.huber_loss.definition.body(input, target, reduction, delta, weight)


_PAIR = "Tensor self, Tensor target, Tensor? weight=None"


@define(
    f"_bce_logits_of_number({_PAIR}, Tensor? pos_weight=None, int reduction=1) -> Tensor",
    "`binary_cross_entropy_with_logits` with its reduction as a number.",
    stands_for="binary_cross_entropy_with_logits",
)
def _bce_logits_of_number(self, target, weight, pos_weight, reduction):
    return F.binary_cross_entropy_with_logits(
        self, target, weight, reduction=REDUCTIONS[reduction], pos_weight=pos_weight
    )


def _bce_logits_gradient(grad: Any, self: Any, target: Any, reduction: object, needs: Any) -> Any:
    share = 1.0 / self.numel() if reduction == 1 and self.numel() else 1.0
    first = ((F.sigmoid(self) - target) * grad).mul(share) if needs[0] else None
    return first, -self * (grad * share) if needs[1] else None, None, None


@hear("binary_cross_entropy_with_logits")
def _bce_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight):
    reduction = reduction_of("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    body = F.binary_cross_entropy_with_logits.definition.body
    if weight is not None or pos_weight is not None or not _alike(input, target):
        return body(input, target, weight, None, None, reduction, pos_weight)
    number = REDUCTIONS.index(reduction)
    return tell(
        _bce_logits_of_number, input, target, None, None, number, backward=_bce_logits_gradient
    )


@define(
    f"_bce_of_number({_PAIR}, int reduction=1) -> Tensor",
    "`binary_cross_entropy` with its reduction as a number.",
    stands_for="binary_cross_entropy",
)
def _bce_of_number(self, target, weight, reduction):
    return F.binary_cross_entropy(self, target, weight, reduction=REDUCTIONS[reduction])


@define(
    f"binary_cross_entropy_backward(Tensor grad_output, {_PAIR}, int reduction=1) -> Tensor",
    "The gradient of the first argument of `binary_cross_entropy`.",
)
def binary_cross_entropy_backward(grad_output, self, target, weight, reduction):
    found = grad_output * (self - target) / ((1 - self) * self).clamp(min=1e-12)
    found = found if weight is None else found * weight
    return found / self.numel() if reduction == 1 else found


def _bce_gradient(
    grad: Any, self: Any, target: object, weight: Any, reduction: object, needs: Any
) -> Any:
    first = second = None
    if needs[0]:
        first = tell(F.binary_cross_entropy_backward, grad, self, target, weight, reduction)
    if needs[1]:
        second = grad * (F.log1p(-self) - self.log())
        second = second if weight is None else second * weight
        second = second / self.numel() if reduction == 1 else second
    return first, second, None


@hear("binary_cross_entropy")
def _binary_cross_entropy(input, target, weight, size_average, reduce, reduction):
    reduction = reduction_of("binary_cross_entropy", size_average, reduce, reduction)
    if not _alike(input, target) or (weight is not None and weight.shape != input.shape):
        body = F.binary_cross_entropy.definition.body
        return body(input, target, weight, None, None, reduction)
    return tell(
        _bce_of_number, input, target, weight, REDUCTIONS.index(reduction), backward=_bce_gradient
    )


# ------------------------------------------------------------------ dropout


@hear("dropout")
def _dropout(input, p, training, inplace):
    if not training or inplace or not 0.0 < p < 1.0 or input.dtype.is_complex or not input.numel():
        return F.dropout.definition.body(input, p, training, inplace)
    return input * F.empty_like(input).bernoulli_(1.0 - p).div_(1.0 - p)


# ------------------------------------------------------------------ subscripts


@hear("basic_index")
def _basic_index(self, index):
    """A view by ints, slices, None and Ellipsis, as a chain of PyTorch's views."""
    items = index if isinstance(index, tuple) else (index,)
    core.basic_index(self, items)  # raises for what is no such index
    given = sum(1 for item in items if item is not None and item is not Ellipsis)
    dim, x = 0, self
    for item in items:
        if item is Ellipsis:
            dim += self.dim() - given
        elif item is None:
            x, dim = x.unsqueeze(dim), dim + 1
        elif isinstance(item, slice):
            if item != slice(None):
                step = 1 if item.step is None else item.step.__index__()
                start = 0 if item.start is None else item.start
                x = F.slice(x, dim, start, item.stop, step)
            dim += 1
        else:
            x = F.select(x, dim, item.__index__())
    return self.alias() if x is self else x


def _index_gradient(grad: Any, self_meta: Any, indices: object) -> Any:
    return F.index_put(grad.new_zeros(self_meta.shape), indices, grad, True), None


@hear("_index")
def _index(self, indices):
    return tell(F.index, self, indices, backward=_index_gradient)


def _index_put_gradient(
    grad: Any, self_meta: object, indices: object, values_meta: Any, accumulate: object, needs: Any
) -> Any:
    first = second = None
    if needs[0]:
        first = (
            grad if accumulate else F.index_put(grad, indices, grad.new_zeros(values_meta.shape))
        )
    if needs[-1]:
        second = F.sum_to_size(F.index(grad, indices), values_meta.shape)
    return first, None, second


@hear("_index_put")
def _index_put(self, indices, values, accumulate):
    return tell(F.index_put, self, indices, values, accumulate, backward=_index_put_gradient)
