"""Fake quantization: numbers replaced by the nearest that integers would stand for, with gradients.

Takes: floating-point tensors, scales, zero points and a range of integers. Gives: tensors of the same dtype. Keeps
true:
the elementwise part is `_fake_quantize` of the operator table, whose gradient passes inside of the range; what
PyTorch also gives as a mask is computed by the same comparison.
"""

from __future__ import annotations

import math
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.pointwise.quantization import _fake_quantize, _fake_quantize_learnable
from facula.ops.table.registry import F, composite
from facula.quantization.create import channel_axis, check_bounds, choose_qparams

Tensor = core.Tensor


def _check_range(op: str, quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        fail(
            RuntimeError,
            op,
            "`quant_min` should be less than or equal to `quant_max`",
            f"{quant_min} and {quant_max}",
            hint="0 and 255 are the range of quint8, -128 and 127 that of qint8",
        )


def _check_zero(op: str, low: float, high: float, quant_min: int, quant_max: int) -> None:
    if low < quant_min or high > quant_max:
        fail(
            RuntimeError,
            op,
            "`zero_point` must be between `quant_min` and `quant_max`",
            f"zero points from {low} to {high}, range from {quant_min} to {quant_max}",
            hint="the zero point is the integer that stands for 0.0",
        )


def _of_tensor(self: Any, scale: Any, zero: Any, quant_min: int, quant_max: int) -> Any:
    """Scale and zero point of a whole tensor as 0-d tensors; checked."""
    op = "fake_quantize_per_tensor_affine"
    _check_range(op, quant_min, quant_max)
    if not self.is_floating_point():
        fail(
            RuntimeError,
            op,
            "a floating-point tensor was required",
            self.dtype,
            hint="convert it with .float()",
        )
    if isinstance(zero, Tensor):
        zero = zero.detach().to(core.float32).reshape(()).clone()
    else:
        _check_zero(op, zero, zero, quant_min, quant_max)
        zero = core.tensor(float(zero), dtype=core.float32)
    if isinstance(scale, Tensor):
        # copies: observers write to their buffers before the gradient is asked for
        return scale.detach().to(core.float32).reshape(()).clone(), zero
    if not (math.isfinite(scale) and scale > 0):
        fail(
            RuntimeError,
            op,
            "a finite scale above zero was required",
            scale,
            hint="the scale is the step between neighbouring levels",
        )
    return core.tensor(
        scale, dtype=core.float64 if self.dtype is core.float64 else core.float32
    ), zero


@composite(
    "quantization::fake_quantize_per_tensor_affine(Tensor self, Operand scale, Operand zero_point, "
    "int quant_min, int quant_max) -> Tensor",
    names=("fake_quantize_per_tensor_affine",),
    out=False,
    keeps=False,
)
def fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max):
    """Each number as the nearest of the levels from `quant_min` to `quant_max`."""
    scale, zero = _of_tensor(self, scale, zero_point, quant_min, quant_max)
    return _replaced(self, scale, zero, quant_min, quant_max)


def _replaced(
    self: Any, scale: Tensor, zero: Tensor, low: int, high: int, whole: bool = True
) -> Any:
    """The levels in the tensor's own dtype, also where the parameters' would count."""
    made = _fake_quantize(self, scale, zero, float(low), float(high), float(whole))
    return made if made.dtype is self.dtype else made.to(self.dtype)


def _kept(
    self: Any, scale: Tensor, zero: Tensor, quant_min: int, quant_max: int, whole: bool = True
) -> Any:
    """Which numbers lie inside of the range."""
    steps = self.detach().float() * scale.reciprocal()
    levels = zero + steps.round() if whole else (steps + zero).round()
    return (levels >= quant_min) & (levels <= quant_max)


@composite(
    "quantization::fake_quantize_per_tensor_affine_cachemask(Tensor self, Operand scale, Operand zero_point, "
    "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    names=("fake_quantize_per_tensor_affine_cachemask",),
    out=False,
    keeps=False,
)
def fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine`, and which numbers lie inside of the range."""
    made = fake_quantize_per_tensor_affine(self, scale, zero_point, quant_min, quant_max)
    scale, zero = _of_tensor(self, scale, zero_point, quant_min, quant_max)
    return made, _kept(self, scale, zero, quant_min, quant_max)


@composite(
    "quantization::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, "
    "Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, "
    "Tensor mask)",
    names=("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",),
    out=False,
    keeps=False,
)
def _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
):
    """The same with tensors, which changes nothing where it is switched off."""
    if not fake_quant_enabled.item():
        return self.clone(), F.ones_like(self, dtype=core.bool_)
    return fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max)


def _of_channels(op: str, self: Any, scale: Tensor, zero: Tensor, axis: int) -> Any:
    """Scales and zero points that broadcast along `axis`."""
    for name, given in (("scale", scale), ("zero_point", zero)):
        if given.dim() != 1:
            fail(
                RuntimeError,
                op,
                f"{name} should be a 1-D tensor",
                list(given.shape),
                hint=f"give a {name} for each place along the axis",
            )
    if not -self.dim() <= axis < self.dim():
        fail(
            RuntimeError,
            op,
            "`axis` must be between 0 and number of dimensions of input",
            axis,
            hint="axis is a dimension of the tensor",
        )
    if scale.numel() != zero.numel() or scale.numel() != self.shape[axis]:
        fail(
            RuntimeError,
            op,
            "dimensions of scale and zero-point are not consistent with input tensor: "
            f"{self.shape[axis]} of each were required",
            f"{scale.numel()} and {zero.numel()}",
            hint="give a scale and a zero point for each place along the axis",
        )
    shape = [1] * self.dim()
    shape[axis] = -1
    return scale.to(core.float32).reshape(shape), zero.to(core.float32).reshape(shape)


@composite(
    "quantization::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, "
    "int axis, int quant_min, int quant_max) -> Tensor",
    names=("fake_quantize_per_channel_affine",),
    out=False,
    keeps=False,
)
def fake_quantize_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max):
    """`fake_quantize_per_tensor_affine` with parameters for each place along `axis`."""
    op = "fake_quantize_per_channel_affine"
    _check_range(op, quant_min, quant_max)
    if zero_point.numel() and not zero_point.is_floating_point():
        ends = zero_point.min().item(), zero_point.max().item()
        _check_zero(op, *ends, quant_min, quant_max)
    if scale.dtype is not core.float32:
        fail(RuntimeError, op, "Scale must be Float: a tensor of dtype float32 was required", scale.dtype,
             hint="convert it with .float()")  # fmt: skip
    whole = not zero_point.is_floating_point()
    scale, zero = _of_channels(op, self, scale.detach().clone(), zero_point.detach().clone(), axis)
    return _replaced(self, scale, zero, quant_min, quant_max, whole)


@composite(
    "quantization::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, "
    "Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
    names=("fake_quantize_per_channel_affine_cachemask",),
    out=False,
    keeps=False,
)
def fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min, quant_max):
    """`fake_quantize_per_channel_affine`, and which numbers lie inside of the range."""
    made = fake_quantize_per_channel_affine(self, scale, zero_point, axis, quant_min, quant_max)
    op = "fake_quantize_per_channel_affine_cachemask"
    whole = not zero_point.is_floating_point()
    scale, zero = _of_channels(op, self, scale, zero_point, axis)
    return made, _kept(self, scale, zero, quant_min, quant_max, whole)


@composite(
    "quantization::_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, "
    "Tensor zero_point, int quant_min, int quant_max, float grad_factor=1.0) -> Tensor",
    names=("_fake_quantize_learnable_per_tensor_affine",),
    out=False,
    keeps=False,
)
def _fake_quantize_learnable_per_tensor_affine(
    self, scale, zero_point, quant_min, quant_max, grad_factor
):
    """`fake_quantize_per_tensor_affine` with gradients of scale and zero point, times `grad_factor`."""
    op = "_fake_quantize_learnable_per_tensor_affine"
    _check_range(op, quant_min, quant_max)
    for name, values in (("scale", scale), ("zero point", zero_point)):
        if values.numel() != 1:
            fail(
                RuntimeError,
                op,
                f"one number as {name} was required",
                list(values.shape),
                hint="_fake_quantize_learnable_per_channel_affine() takes several",
            )
    # of 0 dimensions: they change neither the shape nor, in narrow floats, the dtype of the result
    scale, zero = scale.reshape(()), zero_point.reshape(())
    limits = float(quant_min), float(quant_max)
    return _fake_quantize_learnable(self, scale, zero, *limits, grad_factor).to(self.dtype)


@composite(
    "quantization::_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, "
    "Tensor zero_point, int axis, int quant_min, int quant_max, float grad_factor=1.0) -> Tensor",
    names=("_fake_quantize_learnable_per_channel_affine",),
    out=False,
    keeps=False,
)
def _fake_quantize_learnable_per_channel_affine(
    self, scale, zero_point, axis, quant_min, quant_max, grad_factor
):
    """The same with parameters for each place along `axis`."""
    op = "_fake_quantize_learnable_per_channel_affine"
    _check_range(op, quant_min, quant_max)
    scale, zero = _of_channels(op, self, scale, zero_point, axis)
    limits = float(quant_min), float(quant_max)
    return _fake_quantize_learnable(self, scale, zero, *limits, grad_factor).to(self.dtype)


# ------------------------------------------------------------------ observing and replacing at once


def _check_floating(op: str, *tensors: Any) -> None:
    for x in tensors:
        if not x.is_floating_point():
            fail(
                RuntimeError,
                op,
                "floating-point tensors were required",
                x.dtype,
                hint="convert it with .float()",
            )


def _observe(
    x: Tensor, running_min: Tensor, running_max: Tensor, constant: float, axis: int
) -> None:
    if axis < 0:
        low, high = x.amin(), x.amax()
    else:
        rows = x.transpose(0, axis).reshape(x.shape[axis], -1)
        low, high = rows.amin(1), rows.amax(1)
    for running, seen in ((running_min, low), (running_max, high)):
        seen = seen.to(running.dtype)
        if running.shape != seen.shape and running.numel() != seen.numel():
            running.resize_(seen.shape).copy_(seen)
            continue
        seen = seen.reshape(running.shape)
        moved = running + constant * (seen - running)
        running.copy_(F.where(running.isinf(), seen, moved))


def _set_parameters(
    low: Tensor,
    high: Tensor,
    scale: Tensor,
    zero: Tensor,
    quant_min: int,
    quant_max: int,
    symmetric: bool,
) -> None:
    ends = zip(low.reshape(-1).tolist(), high.reshape(-1).tolist(), strict=True)
    found = [_chosen(a, b, quant_min, quant_max, symmetric) for a, b in ends]
    if scale.numel() != len(found):
        scale.resize_((len(found),))
        zero.resize_((len(found),))
    scale.copy_(core.tensor([s for s, _ in found], dtype=core.float32).reshape(scale.shape))
    zero.copy_(core.tensor([z for _, z in found], dtype=core.float32).reshape(zero.shape))


def _chosen(low: float, high: float, quant_min: int, quant_max: int, symmetric: bool) -> Any:
    """Scale and zero point; a symmetric range has its zero in the middle of the integers."""
    if not (symmetric and low < 0 < high):
        return choose_qparams(low, high, quant_min, quant_max)
    # below zero there is one integer more than above
    check_bounds(low, high, quant_min + 1, quant_max)
    half = (quant_max - quant_min) // 2
    step = max(abs(low / -(half + 1)), abs(high / half))
    scale, _ = choose_qparams(step * -(half + 1), step * half, quant_min, quant_max)
    return scale, round((quant_min + quant_max) / 2)


@composite(
    "quantization::_fused_moving_avg_obs_fq_helper(Tensor self, Tensor observer_on, "
    "Tensor fake_quant_on, Tensor running_min, Tensor running_max, Tensor scale, Tensor zero_point, "
    "float averaging_const, int quant_min, int quant_max, int ch_axis, "
    "bool per_row_fake_quant=False, bool symmetric_quant=False) -> (Tensor output, Tensor mask)",
    names=("_fused_moving_avg_obs_fq_helper",),
    out=False,
    keeps=False,
)
def _fused_moving_avg_obs_fq_helper(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
):  # fmt: skip
    """Let the running extremes, the scale and the zero point follow the numbers, then replace these."""
    op = "fused_moving_avg_obs_fake_quant"
    _check_range(op, quant_min, quant_max)
    _check_floating(op, self, running_min, running_max, scale)
    if observer_on.item() and self.numel():
        with core_no_grad():
            axis = channel_axis(op, ch_axis, self.dim()) if per_row_fake_quant else -1
            _observe(self.detach(), running_min, running_max, averaging_const, axis)
            limits = (quant_min, quant_max, symmetric_quant)
            _set_parameters(running_min, running_max, scale, zero_point, *limits)
    if not fake_quant_on.item():
        return self.clone(), F.ones_like(self, dtype=core.bool_)
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine_cachemask(
            self, scale, zero_point, ch_axis, quant_min, quant_max
        )
    return fake_quantize_per_tensor_affine_cachemask(self, scale, zero_point, quant_min, quant_max)


def core_no_grad() -> Any:
    """A block whose operators have no history."""
    # lazily: autograd is above the operators that this module is part of
    from facula.autograd.grad_mode import no_grad

    return no_grad()


@composite(
    "quantization::fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, "
    "Tensor fake_quant_on, Tensor running_min, Tensor running_max, Tensor scale, Tensor zero_point, "
    "float averaging_const, int quant_min, int quant_max, int ch_axis, "
    "bool per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor",
    names=("fused_moving_avg_obs_fake_quant",),
    out=False,
    keeps=False,
)
def fused_moving_avg_obs_fake_quant(
    self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
):  # fmt: skip
    """Observation and fake quantization in one call."""
    return _fused_moving_avg_obs_fq_helper(
        self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
        averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant, symmetric_quant,
    )[0]  # fmt: skip
