"""Operators that run along time: recursive filters, overdrive, transducer losses, alignments.

Takes: rows of samples; logits of transducers; log-probabilities.
Gives: definitions in the operator table, under facula's own names (`audio::...`) and those by which torchaudio calls
its compiled ones: importing this module is what loading torchaudio's libraries does under PyTorch.
Keeps true: half precision is computed in float32; lengths and labels are checked before a kernel reads them.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.table.registry import TABLE, F, operator
from facula.torch_api import library

__all__: list[str] = []

_HALF = (core.float16, core.bfloat16)


def _plain(x: core.Tensor) -> Any:
    return (x.to(core.float32) if x.dtype in _HALF else x).contiguous()


def _float(op: str, *tensors: Any) -> None:
    first = tensors[0].dtype
    for t in tensors:
        if not t.dtype.is_floating_point:
            hint = "convert it with .float()"
            fail(RuntimeError, op, "a floating-point tensor was required", t.dtype, hint=hint)
        if t.dtype is not first:
            fail(
                RuntimeError,
                op,
                f"tensors of one dtype, {first}, were required",
                t.dtype,
                hint=cast_hint("it", first),
            )


def _like(x: core.Tensor) -> Any:
    return core.empty(x.shape, dtype=x.dtype, device=x.device)


# ------------------------------------------------------------------ filters


@operator(
    "audio::recursion(Tensor self, Tensor weights) -> Tensor", names=(), out=False, inplace=False
)
class Recursion:
    """`y[t] = x[t] - sum(a[k] * y[t - k])` along the last dimension of `[batch, channels, time]`.

    weights: `[channels, order + 1]`, of which the first is taken to be 1.
    """

    def meta(self, weights):
        if self.dim() != 3 or weights.dim() != 2 or weights.shape[0] != self.shape[1]:
            required = (
                "samples [batch, channels, time] and weights [channels, order + 1] were required"
            )
            got = f"{list(self.shape)} and {list(weights.shape)}"
            fail(RuntimeError, "lfilter", required, got, hint="x[None] adds a batch")
        if not weights.shape[1]:
            required, hint = "a weight for each channel at least was required", "the first one is 1"
            fail(RuntimeError, "lfilter", required, list(weights.shape), hint=hint)
        _float("lfilter", self, weights)
        return _like(self)

    def cpu(out, self, weights):
        x, a = _plain(self), _plain(weights)
        target = out if out.dtype is x.dtype else _like(x)
        rows = x.shape[0] * x.shape[1]
        core.kernel(f"audio.recursion:{x.dtype.code}")(
            (target, x, a), (x.shape[2], x.shape[1], a.shape[1] - 1), (), total=rows, grain=1
        )
        if target is not out:
            out.copy_(target)

    def backward(grad, weights, result, needs):
        # the transpose of the recursion is the same recursion from the end
        run = TABLE["audio::recursion"]
        back = run(grad.flip(-1), weights).flip(-1)
        if not needs[1]:
            return back, None
        columns = []
        for k in range(weights.shape[1]):
            late = result[..., : result.shape[-1] - k] if k else result
            columns.append(-(back[..., k:] * late).sum((0, 2)))
        columns[0] = F.zeros_like(columns[0])  # the first weight counts as 1
        return back if needs[0] else None, F.stack(columns, 1)

    def samples(S):
        yield (S(2, 2, 7), S(2, 3) * 0.3), {}


@operator(
    "audio::overdrive(Tensor self, Tensor driven, Tensor last_in, Tensor last_out) "
    "-> (Tensor output, Tensor in_after, Tensor out_after)",
    names=(),
    out=False,
    inplace=False,
    nondifferentiable=(0, 1, 2),
)
class Overdrive:
    """A high-pass of what was driven, mixed with the samples `[rows, time]`."""

    def meta(self, driven, last_in, last_out):
        _float("overdrive", self, driven, last_in, last_out)
        ends = {tuple(x.shape) for x in (last_in, last_out)}
        if self.dim() != 2 or driven.shape != self.shape or ends != {(self.shape[0],)}:
            required = (
                "samples [rows, time], as many driven ones, and an end of each row were required"
            )
            got = f"{list(self.shape)}, {list(driven.shape)}, {sorted(map(list, ends))}"
            fail(RuntimeError, "overdrive", required, got, hint="x[None] adds a row")
        return _like(self), _like(last_in), _like(last_out)

    def cpu(out, self, driven, last_in, last_out):
        x, pushed = _plain(self), _plain(driven)
        ends = [last_in.to(x.dtype).clone(), last_out.to(x.dtype).clone()]
        target = _like(x)
        core.kernel(f"audio.overdrive:{x.dtype.code}")(
            (target, x, pushed, *ends), (x.shape[-1],), (), total=x.shape[0], grain=1
        )
        for to, values in zip(out, (target, *ends), strict=True):
            to.copy_(values)


# ------------------------------------------------------------------ transducers


def _check_transducer(
    logits: core.Tensor, targets: core.Tensor, frames: core.Tensor, labels: core.Tensor, blank: int
) -> None:
    op = "rnnt_loss"
    if logits.dim() != 4 or not logits.numel():
        required, hint = (
            "logits [batch, time, labels + 1, classes] were required",
            "none may be empty",
        )
        fail(RuntimeError, op, required, list(logits.shape), hint=hint)
    batch, time, width, classes = logits.shape
    for name, x, shape in (
        ("targets", targets, (batch, width - 1)),
        ("logit_lengths", frames, (batch,)),
        ("target_lengths", labels, (batch,)),
    ):
        if tuple(x.shape) != shape:
            fail(
                RuntimeError,
                op,
                f"{name} of shape {list(shape)} were required",
                list(x.shape),
                hint="pad targets",
            )
        if x.dtype is not core.int32:
            fail(
                RuntimeError, op, f"{name} must be int32", x.dtype, hint="convert them with .int()"
            )
    if not 0 <= blank < classes:
        hint = f"there are {classes} classes"
        fail(RuntimeError, op, "blank must be within [0, classes)", blank, hint=hint)
    _in("logit_lengths", frames, 1, time)
    _in("target_lengths", labels, 0, width - 1)
    if width > 1:
        places = F.arange(width - 1)
        _in("targets", F.where(places < labels.reshape((-1, 1)), targets, 0), 0, classes - 1)


def _in(name: str, x: core.Tensor, low: int, high: int) -> None:
    if x.device.type == "meta" or not x.numel():
        return
    least, most = (v.item() for v in F.aminmax(x))
    if least < low or most > high:
        required, hint = f"{name} from {low} to {high} were required", "they count steps and labels"
        fail(RuntimeError, "rnnt_loss", required, f"{least} to {most}", hint=hint)


@operator(
    "torchaudio::rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, "
    "Tensor target_lengths, int blank, float clamp, bool fused_log_softmax=True) "
    "-> (Tensor costs, Tensor gradients)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(1,),
)
class RnntLoss:
    """The loss of each sample of a transducer, and its gradient in the logits. [Graves 2012]"""

    convention = "with a clamp the gradient is cut off"

    def meta(logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax):
        _float("rnnt_loss", logits)
        if not logits.is_meta:
            _check_transducer(logits, targets, logit_lengths, target_lengths, blank)
        costs = core.empty((logits.shape[0],), dtype=logits.dtype, device=logits.device)
        return costs, _like(logits)

    def cpu(out, logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax):
        x = _plain(logits)
        batch, time, width, _ = x.shape
        wide = [core.empty(t.shape, dtype=x.dtype) for t in out]
        scratch = core.empty((batch, 3, time, width), dtype=x.dtype)
        given = [t.contiguous() for t in (targets, logit_lengths, target_lengths)]
        numbers = (*x.shape, blank, int(not fused_log_softmax))
        core.kernel(f"audio.transducer:{x.dtype.code}")(
            (*wide, x, *given, scratch), numbers, (float(clamp),), total=batch, grain=1
        )
        for to, values in zip(out, wide, strict=True):
            to.copy_(values)

    def backward(grads, result_1):
        if grads[0] is None:
            return None, None, None, None
        return result_1 * grads[0].reshape((-1, 1, 1, 1)), None, None, None


# ------------------------------------------------------------------ alignments


def _check_alignment(
    log_probs: core.Tensor, targets: core.Tensor, frames: list[int], labels: list[int], blank: int
) -> None:
    op = "forced_align"
    _, time, classes = log_probs.shape
    for row, (steps, count) in enumerate(zip(frames, labels, strict=True)):
        if not 0 <= steps <= time or not 0 <= count <= targets.shape[1]:
            required = f"at most {time} steps and {targets.shape[1]} labels were required"
            fail(
                RuntimeError,
                op,
                required,
                f"{steps} and {count}",
                hint="lengths count what is used",
            )
        used = targets[row, :count].tolist()
        if any(not 0 <= label < classes or label == blank for label in used):
            required = f"labels in [0, {classes}) other than the blank, {blank}, were required"
            fail(RuntimeError, op, required, sorted(set(used)), hint="the blank is no label")
        repeats = sum(a == b for a, b in zip(used, used[1:], strict=False))
        if steps < count + repeats:
            required = f"at least {count + repeats} steps were required (targets length is too long for CTC)"
            hint = "each label takes a step, and a repeated one another"
            fail(RuntimeError, op, required, steps, hint=hint)


@operator(
    "torchaudio::forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, "
    "Tensor target_lengths, int blank) -> (Tensor paths, Tensor scores)",
    names=(),
    out=False,
    inplace=False,
    serves=True,
    nondifferentiable=(0, 1),
)
class ForcedAlign:
    """The label of each step on the best path through the targets; log-probabilities `[1, T, C]`."""

    def meta(log_probs, targets, input_lengths, target_lengths, blank):
        _float("forced_align", log_probs)
        if log_probs.dim() != 3 or targets.dim() != 2 or log_probs.shape[0] != targets.shape[0]:
            required = "log_probs [batch, time, classes] and targets [batch, labels] were required"
            got = f"{list(log_probs.shape)} and {list(targets.shape)}"
            fail(RuntimeError, "forced_align", required, got, hint="x[None] adds a batch")
        for name, x in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
            if tuple(x.shape) != (log_probs.shape[0],):
                required = (
                    f"{name} with a number for each of {log_probs.shape[0]} rows was required"
                )
                fail(RuntimeError, "forced_align", required, list(x.shape), hint="a 1-d tensor")
        if not 0 <= blank < log_probs.shape[2]:
            hint = f"there are {log_probs.shape[2]} classes"
            fail(
                RuntimeError,
                "forced_align",
                "blank must be within [0, num classes)",
                blank,
                hint=hint,
            )
        paths = core.empty(log_probs.shape[:2], dtype=targets.dtype, device=targets.device)
        return paths, _like(log_probs)

    def cpu(out, log_probs, targets, input_lengths, target_lengths, blank):
        x, labels = _plain(log_probs), targets.to(core.int64).contiguous()
        lengths = [t.to(core.int64).contiguous() for t in (input_lengths, target_lengths)]
        _check_alignment(x, labels, lengths[0].tolist(), lengths[1].tolist(), blank)
        batch, time, classes = x.shape
        most = labels.shape[1]
        paths = core.empty((batch, time), dtype=core.int64)
        moves = core.empty((batch, time, 2 * most + 1), dtype=core.uint8)
        sums = core.empty((batch, 2, 2 * most + 1), dtype=x.dtype)
        core.kernel(f"audio.align:{x.dtype.code}")(
            (paths, x, labels, *lengths, moves, sums),
            (batch, time, classes, most, blank),
            (),
            total=batch if time else 0,
            grain=1,
        )
        out[0].copy_(paths)
        out[1].copy_(log_probs)


# ------------------------------------------------------------------ what torchaudio writes into


def _filter_into(input: core.Tensor, flipped: Any, padded: Any) -> None:
    """torchaudio's form of the recursion: weights from the last to the first, samples behind zeros."""
    if flipped.dim() != 2 or padded.dim() != 3:
        required = "weights [channels, order + 1] and samples [batch, channels, time] were required"
        got = f"{list(flipped.shape)} and {list(padded.shape)}"
        fail(RuntimeError, "lfilter", required, got, hint="x[None] adds a batch")
    order = flipped.shape[1]
    padded[:, :, order - 1 :] = TABLE["audio::recursion"](input, flipped.flip(1))


def _overdrive_into(
    waveform: core.Tensor, driven: Any, last_in: Any, last_out: Any, output: object
) -> None:
    found = TABLE["audio::overdrive"](waveform, driven, last_in, last_out)
    for to, values in zip((output, last_in, last_out), found, strict=True):
        to.copy_(values)


library.define(
    "torchaudio::_lfilter_core_loop", "(Tensor input, Tensor flipped, Tensor(a!) padded) -> ()"
)
library.impl("torchaudio::_lfilter_core_loop", "CompositeExplicitAutograd", _filter_into)
library.define(
    "torchaudio::_overdrive_core_loop",
    "(Tensor waveform, Tensor driven, Tensor(a!) last_in, Tensor(b!) last_out, Tensor(c!) output) -> ()",
)
library.impl("torchaudio::_overdrive_core_loop", "CompositeExplicitAutograd", _overdrive_into)
for _name, _answer in (("is_align_available", True), ("cuda_version", None)):
    library.define(f"_torchaudio::{_name}", f"() -> {'bool' if _answer else 'int?'}")
    library.impl(
        f"_torchaudio::{_name}", "CompositeExplicitAutograd", lambda answer=_answer: answer
    )
