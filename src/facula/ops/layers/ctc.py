"""Operators: the loss of connectionist temporal classification.

Takes log-probabilities [T, N, C] (or [T, C]), targets (padded, or all in a row) and both lengths.
Gives the negative log-probability of each target over all its alignments.
Keeps true: the gradient is PyTorch's: that in the values before `log_softmax`; it is no derivative
unless the log-probabilities of a step are normalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers.loss import reduction_of
from facula.ops.table.registry import F, composite, operator

_OP = "ctc_loss"


def _sizes(
    log_probs: core.Tensor, targets: core.Tensor, blank: int, zero_infinity: bool
) -> tuple[int, ...]:
    return (*log_probs.shape, targets.shape[1] - 1, blank, int(zero_infinity))


@operator(
    "_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
    "int blank, bool zero_infinity) -> (Tensor loss, Tensor alpha)",
    file_form="losses_of_paths",
    names=(),
    out=False,
    nondifferentiable=(1,),
)
class _ctc_loss:
    """The loss of each sample and the log-probabilities of all beginnings of its path.

    targets: [N, L + 1], each row behind a -1. [Graves et al. 2006]
    """

    convention = "the gradient is that in the values before log_softmax"

    def meta(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        if log_probs.dtype not in (core.float32, core.float64):
            fail(
                NotImplementedError,
                _OP,
                'float32 or float64 log-probabilities were required ("ctc_loss_cpu" is not '
                "implemented for others)",
                log_probs.dtype,
                "convert them with .float()",
            )
        steps, batch, _ = log_probs.shape
        like = {"dtype": log_probs.dtype, "device": log_probs.device}
        alpha = core.empty((batch, steps, 2 * targets.shape[1]), **like)
        return core.empty((batch,), **like), alpha

    def cpu(out, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        _check_elements(log_probs, targets, input_lengths.tolist(), target_lengths.tolist())
        given = [x.contiguous() for x in (log_probs, targets, input_lengths, target_lengths)]
        core.kernel(f"ctc:{log_probs.dtype.code}")(
            (*out, *given),
            _sizes(log_probs, targets, blank, zero_infinity),
            (),
            total=log_probs.shape[1],
            grain=1,
        )

    def backward(
        grads, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity, results
    ):
        if grads[0] is None:
            return None, None, None, None
        lengths = (input_lengths, target_lengths)
        settings = (*results, blank, zero_infinity)
        grad = F._ctc_loss_backward(grads[0], log_probs, targets, *lengths, *settings)
        return grad, None, None, None


@operator(
    "_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, "
    "Tensor target_lengths, Tensor loss, Tensor alpha, int blank, bool zero_infinity) -> Tensor",
    names=(),
    out=False,
)
class _ctc_loss_backward:
    """The gradient of `_ctc_loss` in the values before `log_softmax`."""

    def meta(
        grad, log_probs, targets, input_lengths, target_lengths, loss, alpha, blank, zero_infinity
    ):
        return core.empty(log_probs.shape, dtype=log_probs.dtype, device=log_probs.device)

    def cpu(
        out,
        grad,
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        loss,
        alpha,
        blank,
        zero_infinity,
    ):
        batch = log_probs.shape[1]
        scratch = core.empty((batch, 3, 2 * targets.shape[1]), dtype=out.dtype)
        given = (grad, loss, alpha, log_probs, targets, input_lengths, target_lengths)
        core.kernel(f"ctc.grad:{out.dtype.code}")(
            (out, *[x.contiguous() for x in given], scratch),
            _sizes(log_probs, targets, blank, zero_infinity),
            (),
            total=batch,
            grain=1,
        )

    def backward(grad, log_probs):
        fail(
            RuntimeError,
            "_ctc_loss_backward",
            "first derivatives were required: the derivative for '_ctc_loss_backward' is not "
            "implemented",
            hint="the gradient is a convention and has no derivative; do not use create_graph here",
        )


@composite(
    "ctc_loss(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int "
    "blank=0, "
    "str reduction='mean', bool zero_infinity=False) -> Tensor",
    names=("ctc_loss", "nn.functional.ctc_loss"),
    home="nn.functional.ctc_loss",
    out=False,
    autocast="cpu float32",
    overload="input_lengths:Tensor=Tensor, IntList",
)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    """The negative log-probability of the targets over all alignments. [Graves et al. 2006]"""
    # the older positional form of the reduction is a number
    reduction = {0: "none", 1: "mean", 2: "sum"}.get(reduction, reduction)
    reduction = reduction_of(_OP, None, None, reduction)
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
    if log_probs.dim() != 3:
        fail(
            RuntimeError,
            _OP,
            "2 or 3 dimensions of log_probs were required",
            log_probs.dim(),
            hint="the shape is [time, batch, classes] or [time, classes]",
        )
    if log_probs.numel() == 0:
        hint = "give at least one step, one sequence and one class"
        required = "log_probs tensor must not be empty"
        fail(RuntimeError, _OP, required, list(log_probs.shape), hint=hint)
    _check(log_probs, targets, blank)
    batch = log_probs.shape[1]
    counts = _lengths(input_lengths, batch, targets), _lengths(target_lengths, batch, targets)
    if targets.dim() == 2 or single:
        padded = _in_rows(targets.reshape(batch, -1).to(core.int64), counts[1])
    else:
        padded = _cut(targets.to(core.int64), target_lengths)
    loss = F._ctc_loss(log_probs, padded, *counts, blank, zero_infinity)[0]
    if zero_infinity:
        loss = F.where(loss == float("inf"), F.zeros_like(loss), loss)
    if reduction == "mean":
        return (loss / counts[1].clamp(min=1).to(loss.dtype)).mean()
    if reduction == "sum":
        return loss.sum()
    return loss.reshape(()) if single else loss


def _lengths(lengths: core.Tensor, batch: int, targets: core.Tensor) -> Any:
    """Lengths as int64 [N], where the targets are."""
    if isinstance(lengths, core.Tensor):
        values = lengths.reshape(-1).to(core.int64)
    else:
        numbers = [lengths] if isinstance(lengths, int) else [int(n) for n in lengths]
        values = core.tensor(numbers, dtype=core.int64, device=targets.device)
    if values.shape[0] != batch:
        fail(
            RuntimeError,
            _OP,
            f"lengths for a batch of {batch} were required",
            values.shape[0],
            hint="give one length for each sequence",
        )
    return values


def _check(log_probs: core.Tensor, targets: core.Tensor, blank: int) -> None:
    classes = log_probs.shape[2]
    if not 0 <= blank < classes:
        fail(
            RuntimeError,
            _OP,
            "blank must be in label range",
            blank,
            hint=f"blank=0 is the default; there are {classes} classes",
        )
    if targets.dtype not in (core.int32, core.int64):
        fail(
            RuntimeError,
            _OP,
            "targets of dtype int32 or int64 were required",
            targets.dtype,
            hint="convert them with .long()",
        )


def _in_rows(given: core.Tensor, lengths: core.Tensor) -> Any:
    """Padded targets [N, L] as [N, 1 + L]: -1, the labels, and zeros (of no effect) behind them."""
    batch, width = given.shape
    places = F.arange(width, device=given.device)
    rows = F.where(places < lengths.unsqueeze(1), given, 0)
    return F.cat((F.full((batch, 1), -1, dtype=core.int64, device=given.device), rows), 1)


def _cut(targets: core.Tensor, lengths: Sequence[Any]) -> Any:
    """Targets that stand one behind the other, as `_in_rows` gives padded ones."""
    values = lengths.tolist() if isinstance(lengths, core.Tensor) else list(lengths)
    if targets.numel() != sum(values):
        fail(
            RuntimeError,
            _OP,
            f"concatenated targets of {sum(values)} labels, the sum of target_lengths",
            targets.numel(),
            hint="targets is [batch, longest], padded, or all labels one after the other",
        )
    shape = (len(values), 1 + max(values, default=0))
    rows = F.zeros(shape, dtype=core.int64, device=targets.device)
    rows[:, :1] = -1
    for row, part in zip(rows, F.split(targets, values), strict=True):
        row[1 : part.numel() + 1] = part
    return rows


def _check_elements(
    log_probs: core.Tensor, targets: core.Tensor, inputs: list[int], lengths: list[int]
) -> None:
    """What only the elements of targets (behind their -1) and lengths say."""
    steps, _, classes = log_probs.shape
    wrong = [n for n in inputs if n < 0 or n > steps]
    if wrong:
        fail(
            RuntimeError,
            _OP,
            f"Expected input_lengths to have value at most {steps}",
            wrong[0],
            hint="time is the first dimension of log_probs",
        )
    if min(lengths, default=0) < 0:
        fail(
            RuntimeError,
            _OP,
            "Expected target_lengths to be at least 0",
            min(lengths),
            hint="0 is the length of an empty target",
        )
    labels = targets[:, 1:]
    if labels.shape[1] < max(lengths, default=0):
        fail(
            RuntimeError,
            _OP,
            f"targets of at least {max(lengths)} labels a row",
            labels.shape[1],
            hint="pad targets with any label, or shorten target_lengths",
        )
    if labels.numel() and bool(F.logical_or(labels < 0, labels >= classes).any()):
        fail(
            RuntimeError,
            _OP,
            f"target labels in [0, {classes}) were required",
            f"labels from {labels.min().item()} to {labels.max().item()}",
            hint="the classes of log_probs include the blank",
        )
