"""Operators of PyTorch's core ATen set that are forms of operators here.

Takes: what PyTorch's operators of these names take, positions and numbers for words. Gives: what they give.
Keeps true: nothing is computed here that an operator does not compute elsewhere; exported graphs of PyTorch,
dispatch modes and functions written against `ops.aten` find the names that they use.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.conv.resample import MODES as RESAMPLE_MODES
from facula.ops.table import pointwise_rules
from facula.ops.table.registry import TABLE, F, composite

# ------------------------------------------------------------------ softmax, pooling, padding, resampling


def _define(schema: str, doc: str, body: Any, *, public: bool = False, out: bool = False) -> None:
    """A form without a name of its own in the source; `public`: also of the root module; `out`: it takes `out=`."""
    body.__doc__ = doc
    names = (schema.partition("(")[0],) if public else ()
    composite(schema, names=names, out=out)(body)


def _define_softmax(name: str) -> None:
    def form(self, dim, half_to_float):
        return getattr(F, name)(self, dim, core.float32 if half_to_float else None)

    _define(
        f"_{name}(Tensor self, int dim, bool half_to_float) -> Tensor",
        f"`{name}` along `dim`; `half_to_float` has the result be float32.", form, public=True,
    )  # fmt: skip


for _name in ("softmax", "log_softmax"):
    _define_softmax(_name)


def _define_pooling(space: int) -> None:
    def form(self, output_size):
        return F._adaptive_avg_pool(self, list(output_size))

    def gradient(grad_output, self):
        return F._adaptive_avg_pool_backward(grad_output, list(self.shape[-space:]))

    def of_windows(
        grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
        divisor_override,
    ):  # fmt: skip
        return F._avg_pool_backward(
            grad_output, list(self.shape[-space:]), list(kernel_size), list(stride or kernel_size),
            list(padding), ceil_mode, count_include_pad, divisor_override or 0,
        )  # fmt: skip

    adaptive, windows, sizes = (
        f"_adaptive_avg_pool{space}d",
        f"avg_pool{space}d",
        f"int[{space}]",
    )
    _define(
        f"{adaptive}(Tensor self, {sizes} output_size) -> Tensor",
        f"`nn.functional.{adaptive[1:]}` with a size for each dimension.", form, public=True,
    )  # fmt: skip
    _define(
        f"{adaptive}_backward(Tensor grad_output, Tensor self) -> Tensor",
        f"The gradient of the input of `{adaptive}`.", gradient,
    )  # fmt: skip
    _define(
        f"{windows}_backward(Tensor grad_output, Tensor self, {sizes} kernel_size, int[] stride, {sizes} padding, "
        "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
        f"The gradient of the input of `{windows}`.", of_windows,
    )  # fmt: skip


for _space in (2, 3):
    _define_pooling(_space)


def _define_padding(name: str, mode: str, space: int) -> None:
    def form(self, padding):
        return F.pad(self, list(padding), mode)

    _define(
        f"{name}_pad{space}d(Tensor self, int[{2 * space}] padding) -> Tensor",
        f"`nn.functional.pad` of mode {mode!r} for {space} spatial dimensions.", form,
    )  # fmt: skip


for _space in (1, 2, 3):
    _define_padding("reflection", "reflect", _space)
    _define_padding("replication", "replicate", _space)


def _upsample(self: Any, mode: str, output_size: Any, align_corners: Any, factors: Any) -> Any:
    """To sizes, with the factors that gave them or without; by a list of factors where there are no sizes."""
    space = len(factors)
    if output_size is None:
        return F.interpolate(self, None, [float(f) for f in factors[0]], mode, align_corners)
    if isinstance(factors[0], (tuple, list)):
        factors = factors[0]
    if self.dim() != space + 2 or len(output_size) != space:
        wanted = f"an input [N, C, {', '.join('DHW'[3 - space :])}] and {space} sizes were required"
        hint = "unsqueeze(0) makes a batch of one"
        got = f"{list(self.shape)} and {list(output_size)}"
        fail(RuntimeError, f"upsample_{mode}{space}d", wanted, got, hint)
    scales = [float(factor or 0.0) for factor in factors]
    number = RESAMPLE_MODES[mode][0]
    return F._resample(self, list(output_size), number, bool(align_corners), False, scales)


def _define_upsample(name: str, mode: str, letters: str) -> None:
    def nearest(self, output_size, *factors):
        return _upsample(self, mode, output_size, None, factors)

    def linear(self, output_size, align_corners, *factors):
        return _upsample(self, mode, output_size, align_corners, factors)

    names = [f"scales_{letter}" for letter in letters] if len(letters) > 1 else ["scales"]
    corners = "" if mode == "nearest" else "bool align_corners, "
    others = "".join(f", float? {name}=None" for name in names[1:])
    _define(
        f"{name}(Tensor self, int[]? output_size, {corners}any {names[0]}=None{others}) -> Tensor",
        f"""`nn.functional.interpolate` of mode {mode!r} to sizes, with the factors that gave them or without; or,
        where there are no sizes, by a list of factors (PyTorch's overload `vec`).""",
        linear if corners else nearest, out=True,
    )  # fmt: skip


for _name, _mode, _letters in (
    ("upsample_nearest1d", "nearest", "w"), ("upsample_nearest2d", "nearest", "hw"),
    ("upsample_nearest3d", "nearest", "dhw"), ("upsample_linear1d", "linear", "w"),
    ("upsample_bilinear2d", "bilinear", "hw"), ("upsample_trilinear3d", "trilinear", "dhw"),
    ("upsample_bicubic2d", "bicubic", "hw"),
):  # fmt: skip
    _define_upsample(_name, _mode, _letters)

# ------------------------------------------------------------------ norms, convolution, copies


@composite(
    "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, "
    "Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    names=("_native_batch_norm_legit_no_training",),
    out=False,
)
def _native_batch_norm_legit_no_training(
    input, weight, bias, running_mean, running_var, momentum, eps
):
    """Batch norm by the running statistics; the batch's own are empty."""
    return F.native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def _wide(*statistics: core.Tensor) -> tuple[core.Tensor, ...]:
    """Statistics in the dtype in which kernels keep them: float32 for 16 bits."""
    return tuple(s.to(core.promote_types(s.dtype, core.float32)) for s in statistics)


def _asked(gradients: tuple[Any, ...], output_mask: Any) -> tuple[Any, ...]:
    """The gradients that a mask asks for; None in the places of the others."""
    return tuple(g if asked else None for g, asked in zip(gradients, output_mask, strict=True))


@composite(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
    "Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
def native_layer_norm_backward(
    grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask
):
    """The gradients of input, weight and bias of `native_layer_norm`, of those that the mask asks for."""
    shape = tuple(normalized_shape)
    ones = input.new_ones(shape) if weight is None else weight
    found = F.layer_norm_backward(grad_out, input, *_wide(mean, rstd), ones, True)
    parts = (found[0], *(g.reshape(shape).to(ones.dtype) for g in found[1:]))
    return _asked(parts, output_mask)


@composite(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int N, "
    "int C, int HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
def native_group_norm_backward(
    grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask
):  # fmt: skip
    """The gradients of input, weight and bias of `native_group_norm`, of those that the mask asks for."""
    ones = input.new_ones((C,)) if weight is None else weight
    found = F.group_norm_backward(grad_out, input, group, *_wide(mean, rstd), ones)
    return _asked((found[0], *(g.to(ones.dtype) for g in found[1:])), output_mask)


@composite(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
    "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    names=("convolution_backward",),
    out=False,
)
def convolution_backward(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
    groups, output_mask,
):  # fmt: skip
    """The gradients of input, weight and bias of `convolution`, of those that the mask asks for."""
    space = weight.dim() - 2
    stride, padding, dilation = (
        tuple(v) * space if len(v) == 1 else tuple(v) for v in (stride, padding, dilation)
    )
    call, kernel = (stride, padding, dilation, groups), tuple(weight.shape[2:])
    size = tuple(input.shape[2:])
    to_input = to_weight = to_bias = None
    if output_mask[0] and transposed:  # a transposed convolution is a convolution's gradient
        to_input = F._conv(grad_output, weight, None, *call, size)
    elif output_mask[0]:
        to_input = F._conv_input(grad_output, weight, None, *call, size)
    if output_mask[1]:
        ends = (input, grad_output) if transposed else (grad_output, input)
        to_weight = F._conv_weight(*ends, *call, kernel)
    if output_mask[2]:
        to_bias = grad_output.sum((0, *range(2, grad_output.dim())))
    return to_input, to_weight, to_bias


@composite("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", names=(), out=False)
def copy(self, src, non_blocking):
    """A tensor of the shape, dtype and device of `self` with the elements of `src`."""
    return F.empty_like(self).copy_(src, non_blocking)


@composite(
    "sym_is_contiguous(Tensor self, memory_format memory_format=None) -> bool", names=(), out=False
)
def sym_is_contiguous(self, memory_format):
    """Whether the elements follow each other in an order of memory."""
    return self.is_contiguous(memory_format=memory_format or core.contiguous_format)


# ------------------------------------------------------------------ gradients of elementwise operators


def _define_gradient(name: str, form: str, operator: str, of_result: bool = False) -> None:
    """The gradient of an elementwise operator as an operator, from the operator's definition."""

    def gradient(grad_output, *args):
        for x in (grad_output, *args):
            if isinstance(x, core.Tensor) and x.is_quantized:
                # lazily: for an error
                from facula.ops.forms.on_demand import refuse_quantized

                refuse_quantized(name, x)
        return pointwise_rules.pull(TABLE[operator], args, 0, grad_output, of_result)

    given = "result" if of_result else "argument"
    _define(
        f"{name}(Tensor grad_output, {form}) -> Tensor",
        f"The gradient of the argument of `{operator}`, from its {given}.", gradient,
    )  # fmt: skip


for _name, _form, _operator, _of_result in (
    ("gelu_backward", "Tensor self, *, str approximate='none'", "gelu", False),
    ("silu_backward", "Tensor self", "silu", False),
    ("mish_backward", "Tensor self", "mish", False),
    ("hardswish_backward", "Tensor self", "hardswish", False),
    ("hardsigmoid_backward", "Tensor self", "hardsigmoid", False),
    ("hardtanh_backward", "Tensor self, float min_val, float max_val", "hardtanh", False),
    ("threshold_backward", "Tensor self, float threshold, float value=0.0", "threshold", False),
    ("softplus_backward", "Tensor self, float beta, float threshold", "softplus", False),
    ("sigmoid_backward", "Tensor output", "sigmoid", True),
    ("tanh_backward", "Tensor output", "tanh", True),
):
    _define_gradient(_name, _form, _operator, _of_result)


@composite(
    "leaky_relu_backward(Tensor grad_output, Tensor self, float negative_slope, bool self_is_result) -> Tensor",
    names=(),
    out=False,
)
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    """The gradient of the argument of `leaky_relu`; a result tells as much as the argument where the slope is
    positive."""
    return pointwise_rules.pull(TABLE["leaky_relu"], (self, negative_slope), 0, grad_output)
