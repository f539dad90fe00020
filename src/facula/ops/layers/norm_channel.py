"""Normalisation by channel: batch, group and instance norm.

Takes `[N, C, ...]` in contiguous or channels-last memory; statistics are reductions, the rest one
sweep. Keeps true: memory format is kept; statistics are f32 (f64 for f64); running statistics are
written by the operator's caller, so the operators themselves change nothing.
"""

from __future__ import annotations

from math import prod
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.layers.norm import by_steps, check_parameter_dtype, second, wide_of, widened
from facula.ops.reduce import launch
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order


class Layout:
    """How `[N, C, ...]` lies in memory: `row` (channels are rows of length S) or `column` (channels
    are columns)."""

    def __init__(self, x: core.Tensor) -> None:
        self.batch, self.channels = x.shape[0], x.shape[1]
        self.space = prod(x.shape[2:])
        self.last = self.space == 1 or not x.is_contiguous()
        if self.last and self.space != 1:
            self.last = memory_order.channels_last(x) or memory_order.rows(x).is_contiguous()

    def dense(self, x: core.Tensor) -> Any:
        """The tensor with this memory format."""
        if not self.last or self.space == 1:
            return x.contiguous()
        back = (0, x.dim() - 1, *range(1, x.dim() - 1))
        return memory_order.rows(x).contiguous().permute(back)

    def empty(self, x: core.Tensor) -> Any:
        """A result of the shape and memory format of `x`."""
        return memory_order.empty(x.shape, x, self.last and self.space != 1)

    @property
    def kind(self) -> str:
        """The variant of the sweep's kernels."""
        return "column" if self.last else "row"

    @property
    def sweep(self) -> tuple[int, ...]:
        """Sizes of the sweep: outer, length, inner, period, group."""
        if self.last:
            return (self.batch * self.space, self.channels, 1, 0, 0)
        return (self.batch * self.channels, self.space, 1, self.channels, 0)

    @property
    def reduction(self) -> tuple[int, ...]:
        """Sizes of a reduction to channels: outer, reduce, inner, segments."""
        if self.last:
            return (1, self.batch * self.space, self.channels, 1)
        return (self.channels, self.space, 1, self.batch)


def check_channels(op: str, x: core.Tensor, count: int, **parameters: Any) -> None:
    """Raise for an input without channels, and parameters that are not one number a channel."""
    if x.dtype.code not in launch.FLOATING:
        fail(
            RuntimeError,
            op,
            f'a floating-point input ("{op}" not implemented for this dtype)',
            x.dtype,
            hint="convert it with .float()",
        )
    if x.dim() < 2:
        fail(
            RuntimeError,
            op,
            "an input of at least 2 dimensions",
            f"{x.dim()} dimensions",
            hint="the shape is [N, C, ...]; unsqueeze() adds what is missing",
        )
    for name, parameter in parameters.items():
        if parameter is not None and parameter.numel() != count:
            fail(
                RuntimeError,
                op,
                f"{name} should contain {count} elements",
                f"{parameter.numel()}",
                hint="it has one element for each channel, the input's dimension 1",
            )


def _parameters(
    weight: core.Tensor | None, bias: core.Tensor | None, count: int, wide: core.dtype
) -> tuple[str, tuple[Any, ...]]:
    """The suffix of the kernel, and weight and bias as it reads them."""
    if weight is None and bias is None:
        return "", ()
    weight = F.ones((count,), dtype=wide) if weight is None else weight.to(wide).contiguous()
    bias = F.zeros((count,), dtype=wide) if bias is None else bias.to(wide).contiguous()
    return ".weight", (weight, bias)


def _statistics(x: core.Tensor, count: int) -> tuple[Any, Any]:
    wide = wide_of(x.dtype)
    return (
        core.empty((count,), dtype=wide, device=x.device),
        core.empty((count,), dtype=wide, device=x.device),
    )


# --- batch norm in training


@operator(
    "batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
    "running_var, "
    "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    nondifferentiable=(1, 2, 3, 4),
    node="NativeBatchNormBackward0",
    edges=("input", "weight", "bias"),
    file_form="batch_norm_train",
)
class BatchNormTrain:
    """The normalised tensor; mean and inverse deviation of each channel; the new running mean and
    variance (empty without running statistics)."""

    vmap = batch_forms.batch_norm_train

    def meta(input, weight, bias, running_mean, running_var, momentum, eps):
        channels = input.shape[1]
        tracked = channels if running_mean is not None and running_var is not None else 0
        return (
            Layout(input).empty(input),
            *_statistics(input, channels),
            *_statistics(input, tracked),
        )

    def cpu(out, input, weight, bias, running_mean, running_var, momentum, eps):
        layout = Layout(input)
        x, wide, code = layout.dense(input), out[1].dtype, input.dtype.code
        if input.numel() == 0:
            for statistic in out[1:]:
                statistic.zero_()
            return
        if out[3].numel():
            running = (running_mean.to(wide).contiguous(), running_var.to(wide).contiguous())
            core.kernel(f"norm_statistics.track:{code}")(
                (*out[1:], x, *running), layout.reduction, (float(eps), float(momentum))
            )
        else:
            core.kernel(f"norm_statistics:{code}")((*out[1:3], x), layout.reduction, (float(eps),))
        suffix, parameters = _parameters(weight, bias, layout.channels, wide)
        core.kernel(f"standardise.{layout.kind}{suffix}:{code}")(
            (out[0], x, out[1], out[2], *parameters), layout.sweep
        )

    def backward(grads, input, weight, bias_meta, eps, result_1, result_2, needs):
        if grads[0] is None:
            return None, None, None, None, None
        if (core.is_grad_enabled() or launch.transformed()) and not by_steps(input):
            dx, dweight, dbias = _batch_formula(grads[0], input, weight, eps)
        else:
            dx, dweight, dbias = F.batch_norm_backward(grads[0], input, result_1, result_2, weight)
        dweight = dweight.to(weight.dtype) if needs[1] else None
        dbias = dbias.to(bias_meta.dtype) if needs[2] else None
        return dx, dweight, dbias, None, None

    def samples(S):
        yield (S(3, 2, 4), S(2), S(2), None, None, 0.1, 1e-5), {}


@operator(
    "batch_norm_backward(Tensor grad, Tensor input, Tensor mean, Tensor invstd, Tensor? weight) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
class BatchNormBackward:
    """The gradients of input, weight and bias, where the statistics depend on the input."""

    def meta(grad, input, mean, invstd, weight):
        return (Layout(input).empty(input), *_statistics(input, input.shape[1]))

    def cpu(out, grad, input, mean, invstd, weight):
        layout, wide, code = Layout(input), mean.dtype, input.dtype.code
        if input.numel() == 0:
            out[1].zero_(), out[2].zero_()
            return
        x, grad = layout.dense(input), layout.dense(grad.to(input.dtype))
        core.kernel(f"norm_backward_sums:{code}")(
            (out[2], out[1], grad, x, mean, invstd), layout.reduction
        )
        scale = F.ones_like(mean) if weight is None else weight.detach().to(wide).contiguous()
        share = scale / (layout.batch * layout.space)
        core.kernel(f"standardise.backward.{layout.kind}:{code}")(
            (out[0], grad, x, mean, invstd, scale, out[2] * share, out[1] * share), layout.sweep
        )

    def backward(grads, grad, input, mean, invstd, weight):
        return second().batch(grads, grad, input, mean, invstd, weight)


def _shaped(x: core.Tensor, like: core.Tensor) -> Any:
    """A value a channel, to be broadcast."""
    return x.reshape((1, -1, *([1] * (like.dim() - 2))))


def _batch_formula(
    grad: core.Tensor, x: core.Tensor, weight: core.Tensor | None, eps: float
) -> tuple[Any, Any, Any]:
    dtype = x.dtype
    grad, x, weight = widened(grad, x, weight)
    dims = (0, *range(2, x.dim()))
    centred = x - x.mean(dims, True)
    scale = ((centred * centred).mean(dims, True) + eps).rsqrt()
    standard = centred * scale
    scaled = grad if weight is None else grad * _shaped(weight, x)
    dx = scale * (
        scaled - scaled.mean(dims, True) - standard * (scaled * standard).mean(dims, True)
    )
    return dx.to(dtype), (grad * standard).sum(dims), grad.sum(dims)


# --- batch norm in evaluation


@operator(
    "batch_norm_eval(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, "
    "Tensor? bias, float eps) "
    "-> Tensor",
    names=(),
    out=False,
    node="NativeBatchNormBackward0",
    edges=("input", "weight", "bias"),
    file_form="batch_norm_eval",
)
class BatchNormEval:
    """(x - running_mean) / sqrt(running_var + eps) * weight + bias."""

    vmap = batch_forms.batch_norm_eval

    def meta(input, running_mean, running_var, weight, bias, eps):
        return Layout(input).empty(input)

    def cpu(out, input, running_mean, running_var, weight, bias, eps):
        layout, wide = Layout(input), wide_of(input.dtype)
        if not out.numel():  # its images may be many all the same
            return
        invstd = (running_var.detach().to(wide) + eps).rsqrt()
        suffix, parameters = _parameters(weight, bias, layout.channels, wide)
        core.kernel(f"standardise.{layout.kind}{suffix}:{input.dtype.code}")(
            (out, layout.dense(input), running_mean.to(wide).contiguous(), invstd, *parameters),
            layout.sweep,
        )

    def backward(grad, input, running_mean, running_var, weight, bias_meta, eps, needs):
        dims = (0, *range(2, input.dim()))
        wide = wide_of(input.dtype)
        invstd = (running_var.to(wide) + eps).rsqrt()
        scale = invstd if weight is None else invstd * weight
        dx = grad * _shaped(scale, input).to(grad.dtype)
        dweight = dbias = dmean = dvar = None
        if needs[1]:
            dmean = (-grad.sum(dims) * scale).to(running_mean.dtype)
        if needs[2] or needs[3]:
            centred = input - _shaped(running_mean, input).to(input.dtype)
            along = (grad * centred).sum(dims)
            if needs[3]:
                dweight = (along * invstd).to(weight.dtype)
            if needs[2]:
                dvar = (along * scale * invstd * invstd * -0.5).to(running_var.dtype)
        if needs[4]:
            dbias = grad.sum(dims).to(bias_meta.dtype)
        return dx, dmean, dvar, dweight, dbias

    def samples(S):
        yield (S(3, 2, 4), S(2), S(2, low=0.5, high=2.0), S(2), S(2), 1e-5), {}


_BATCH = (
    "Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? "
    "bias=None, "
    "bool training=False, float momentum=0.1, float eps=1e-5"
)


def _check_settings(
    input: core.Tensor,
    weight: core.Tensor | None,
    bias: core.Tensor | None,
    running_mean: core.Tensor | None,
    running_var: core.Tensor | None,
) -> None:
    """Raise unless parameters and statistics have the input's dtype, or all float32 where that is narrower."""
    given = [t for t in (weight, bias, running_mean, running_var) if t is not None]
    wanted = core.float32 if input.dtype in (core.float16, core.bfloat16) else input.dtype
    unlike = any(t.dtype is not input.dtype for t in given) and any(
        t.dtype is not wanted for t in given
    )
    if unlike and input.numel():
        fail(
            RuntimeError,
            "batch_norm",
            f"mixed dtype (CPU): expect parameter to have scalar type of {wanted.type_word}",
            f"{sorted({str(t.dtype) for t in given})} for an input of {input.dtype}",
            hint="parameters have the input's dtype, or all float32 beside half precision",
        )
    if core.is_grad_enabled():
        for name, statistic in (("running_mean", running_mean), ("running_var", running_var)):
            if statistic is not None and statistic.requires_grad:
                fail(
                    RuntimeError,
                    "batch_norm",
                    "The function 'native_batch_norm' is not differentiable with respect to "
                    f"argument '{name}'. This input cannot have requires_grad True.",
                    hint="detach() it: statistics are no parameters",
                )


def _batch_norm(
    input: core.Tensor,
    running_mean: core.Tensor,
    running_var: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if input.dim() < 2 and input.numel() == 0:
        return input.clone()
    check_channels(
        "batch_norm",
        input,
        input.shape[1] if input.dim() > 1 else 0,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    _check_settings(input, weight, bias, running_mean, running_var)
    if not training:
        if running_mean is None or running_var is None:
            fail(
                RuntimeError,
                "batch_norm",
                "Expected running_mean and running_var to be defined when training=False",
                "None",
                hint="pass both, or training=True to use the batch's own",
            )
        return F.batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    if input.numel() and input.numel() == input.shape[1]:
        fail(
            ValueError,
            "batch_norm",
            "Expected more than 1 value per channel when training",
            f"input size {input.shape}",
            "use a larger batch, or eval()",
        )
    results = F.batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps)
    if results[3].numel() and input.numel():
        running_mean.copy_(results[3])
        running_var.copy_(results[4])
    return results[0]


def _shown_batch_norm(
    input: core.Tensor, running_mean: core.Tensor | None, running_var: core.Tensor | None, weight: core.Tensor | None,
    bias: core.Tensor | None, training: bool, momentum: float, eps: float,
) -> core.Tensor:  # fmt: skip
    return F.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@composite(
    f"functional_batch_norm({_BATCH}) -> Tensor",
    names=("nn.functional.batch_norm",),
    out=False,
    inlined=True,
    graph_form=_shown_batch_norm,
    quantizers={"script": "own"},
)
def functional_batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """Normalise each channel over the batch, or by running statistics. [Ioffe, Szegedy 2015]"""
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
    "running_var, bool training, "
    "float momentum, float eps, bool cudnn_enabled=True) -> Tensor",
    names=("batch_norm",),
    file_keeps=("cudnn_enabled",),
    out=False,
    quantizers={"script": "own"},
)
def batch_norm(
    input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled
):
    """As `nn.functional.batch_norm`, with the arguments in another order."""
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


# --- group norm


def _check_groups(op: str, input: core.Tensor, groups: int) -> None:
    """Raise unless the channels come in whole groups."""
    if input.dim() < 2 or groups < 1 or input.shape[1] % groups:
        fail(
            RuntimeError,
            op,
            f"an input [N, C, *] with channels in {groups} whole groups",
            list(input.shape),
            hint="groups=1 takes all channels together",
        )


@operator(
    "native_group_norm(Tensor input, int groups, Tensor? weight, Tensor? bias, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    names=(),
    out=False,
    nondifferentiable=(1, 2),
    file_form="group_norm",
)
class GroupNorm:
    """The normalised tensor; mean and inverse deviation `[N, groups]`."""

    vmap = batch_forms.group_norm

    def meta(input, groups, weight, bias, eps):
        _check_groups("native_group_norm", input, groups)
        wide = wide_of(input.dtype)
        size = (input.shape[0], groups)
        return (
            memory_order.empty(input.shape, input, memory_order.channels_last(input)),
            core.empty(size, dtype=wide, device=input.device),
            core.empty(size, dtype=wide, device=input.device),
        )

    def cpu(out, input, groups, weight, bias, eps):
        if input.numel() == 0:
            out[1].zero_(), out[2].zero_()
            return
        x, code, wide = input.contiguous(), input.dtype.code, out[1].dtype
        channels, space = x.shape[1], prod(x.shape[2:])
        rows = x.shape[0] * groups
        core.kernel(f"norm_statistics:{code}")(
            (out[1], out[2], x), (rows, x.numel() // rows, 1, 1), (float(eps),)
        )
        suffix, parameters = _parameters(weight, bias, channels, wide)
        result = out[0] if out[0].is_contiguous() else core.empty(x.shape, dtype=x.dtype)
        core.kernel(f"standardise.group{suffix}:{code}")(
            (result, x, out[1], out[2], *parameters),
            (x.shape[0] * channels, space, 1, channels, channels // groups),
        )
        if result is not out[0]:
            out[0].copy_(result)

    def backward(grads, input, groups, weight, bias_meta, eps, result_1, result_2, needs):
        if grads[0] is None:
            return None, None, None
        if by_steps(input) and second().steps_fit(grads[0], input, result_2):
            parts = second().group(grads[0], input, groups, result_1, result_2, weight)
            dx, dweight, dbias = parts
        elif core.is_grad_enabled() or launch.transformed():
            dx, dweight, dbias = _group_formula(grads[0], input, groups, weight, eps)
        else:
            dx, dweight, dbias = F.group_norm_backward(
                grads[0], input, groups, result_1, result_2, weight
            )
        dweight = dweight.to(weight.dtype) if needs[1] else None
        return dx, dweight, dbias.to(bias_meta.dtype) if needs[2] else None

    def samples(S):
        yield (S(2, 4, 3), 2, S(4), S(4), 1e-5), {}


@operator(
    "group_norm_backward(Tensor grad, Tensor input, int groups, Tensor mean, Tensor invstd, "
    "Tensor? weight) "
    "-> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
class GroupNormBackward:
    """The gradients of input, weight and bias."""

    def meta(grad, input, groups, mean, invstd, weight):
        _check_groups("group_norm_backward", input, groups)
        return (
            core.empty(input.shape, dtype=input.dtype, device=input.device),
            *_statistics(input, input.shape[1]),
        )

    def cpu(out, grad, input, groups, mean, invstd, weight):
        if input.numel() == 0:
            out[1].zero_(), out[2].zero_()
            return
        x, grad = input.contiguous(), grad.to(input.dtype).contiguous()
        code, wide = x.dtype.code, mean.dtype
        batch, channels, space = x.shape[0], x.shape[1], prod(x.shape[2:])
        members = channels // groups
        each = (batch, groups, members)
        by_channel = [s.unsqueeze(-1).expand(each).contiguous() for s in (mean, invstd)]
        sums = [core.empty((batch, groups, members), dtype=wide) for _ in range(2)]
        core.kernel(f"norm_backward_sums:{code}")(
            (*sums, grad, x, *by_channel), (batch * channels, space, 1, 1)
        )
        for target, part in zip((out[2], out[1]), sums, strict=True):
            target.copy_(part.reshape(batch, channels).sum(0))
        scale = (
            F.ones((channels,), dtype=wide)
            if weight is None
            else weight.detach().to(wide).contiguous()
        )
        scaled = [(part * scale.reshape(1, groups, members)).sum(-1) for part in sums]
        means = [part / (members * space) for part in scaled]
        means = [m.unsqueeze(-1).expand(each).contiguous() for m in means]
        # statistics of a group, means of the gradient: one value a row [batch * channels]; the
        # weight has a period
        core.kernel(f"standardise.backward.group:{code}")(
            (out[0], grad, x, *by_channel, scale, *means),
            (batch * channels, space, 1, channels, 1),
        )


def _group_formula(
    grad: core.Tensor, x: core.Tensor, groups: int, weight: core.Tensor | None, eps: float
) -> tuple[Any, Any, Any]:
    dtype = x.dtype
    grad, x, weight = widened(grad, x, weight)
    grouped = (x.shape[0], groups, prod(x.shape[1:]) // groups)
    y = x.reshape(grouped)
    centred = y - y.mean(-1, True)
    scale = ((centred * centred).mean(-1, True) + eps).rsqrt()
    standard = centred * scale
    scaled = (grad if weight is None else grad * _shaped(weight, x)).reshape(grouped)
    dx = scale * (scaled - scaled.mean(-1, True) - standard * (scaled * standard).mean(-1, True))
    dims = (0, *range(2, x.dim()))
    dx = dx.reshape(x.shape).to(dtype)
    return dx, (grad * standard.reshape(x.shape)).sum(dims), grad.sum(dims)


def _group_norm(
    input: core.Tensor, num_groups: int, weight: core.Tensor, bias: core.Tensor | None, eps: float
) -> Any:
    channels = input.shape[1] if input.dim() > 1 else 0
    check_channels("group_norm", input, channels, weight=weight, bias=bias)
    if num_groups <= 0 or channels % num_groups:
        fail(
            RuntimeError,
            "group_norm",
            "Expected number of channels in input to be divisible by num_groups",
            f"input of shape {list(input.shape)} and num_groups={num_groups}",
            hint="num_groups=1 normalizes all channels together",
        )
    for parameter in (weight, bias):
        if parameter is not None:
            check_parameter_dtype("group_norm", input, parameter)
    if input.numel() == num_groups:
        fail(
            ValueError,
            "group_norm",
            "Expected more than 1 value per channel when training",
            f"input size {list(input.shape)}",
            hint="put more channels in a group, or give larger inputs",
        )
    return F.native_group_norm(input, num_groups, weight, bias, eps)[0]


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
    "eps=1e-5, "
    "bool cudnn_enabled=True) -> Tensor",
    names=("group_norm", "nn.functional.group_norm"),
    home="nn.functional.group_norm",
    out=False,
    autocast="accelerator float32",
    quantizers={"fx": "own"},
)
def group_norm(input, num_groups, weight, bias, eps, cudnn_enabled):
    """Normalise groups of channels of each sample. [Wu, He 2018]"""
    return _group_norm(input, num_groups, weight, bias, eps)


# --- instance norm


def _instances_as_channels(
    input: core.Tensor,
    running_mean: Any,
    running_var: Any,
    weight: core.Tensor,
    bias: core.Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Instances as channels of one sample; the running statistics get the mean over the batch."""
    batch, channels = input.shape[0], input.shape[1]

    def repeated(x: Any) -> Any:
        return None if x is None else x.repeat(batch)

    flat = input.reshape((1, batch * channels, *input.shape[2:]))
    means, variances = repeated(running_mean), repeated(running_var)
    out = _batch_norm(flat, means, variances, repeated(weight), repeated(bias), True, momentum, eps)
    if means is not None and variances is not None:
        running_mean.copy_(means.reshape(batch, channels).mean(0))
        running_var.copy_(variances.reshape(batch, channels).mean(0))
    return out.reshape(input.shape)


@composite(
    "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? "
    "weight=None, "
    "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-5) -> Tensor",
    names=("nn.functional.instance_norm",),
    out=False,
    quantizers={"fx": "own"},
    file_form="instance_norm",
)
def instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    """Normalise each channel of each sample. [Ulyanov et al. 2016]"""
    if not use_input_stats:
        return _batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_settings(input, weight, bias, running_mean, running_var)
    if prod(input.shape[2:]) == 1:
        fail(
            ValueError,
            "instance_norm",
            "Expected more than 1 spatial element when training",
            f"input size {input.shape}",
            hint="layer_norm() normalizes over the channels instead",
        )
    tracked = running_mean is not None and running_var is not None
    if tracked or (input.itemsize == 2 and input.requires_grad and core.is_grad_enabled()):
        # the steps of second gradients in 16 bits are those of a batch norm
        if not tracked:
            running_mean = running_var = None
        return _instances_as_channels(input, running_mean, running_var, weight, bias, momentum, eps)
    return _group_norm(input.contiguous(), input.shape[1], weight, bias, eps)
