"""Layers and losses as listeners of PyTorch's operators hear of them.

Takes: calls of the fused operators here. Gives: the fields `heard` of these, and PyTorch's operators for them that have
no other use here.
Keeps true: the work is done by the fused operators, within the calls that are told; importing this module makes
the core ask.
"""

from __future__ import annotations

from math import prod
from typing import Any

from facula import core
from facula.ops.conv.resample import CUBIC, MODES
from facula.ops.forms import rare as rare_forms  # noqa: F401 - define what is heard
from facula.ops.reduce.launch import transformed
from facula.ops.table import (
    heard_gradients,  # noqa: F401 - define what is heard
    heard_losses,  # noqa: F401 - define what is heard
)
from facula.ops.table.heard import hear, hear_gradient, hear_whole, heard, once, tell
from facula.ops.table.heard_gradients import define
from facula.ops.table.registry import F

# ------------------------------------------------------------------ convolution


def _convolution_gradient(
    grad: object, input: object, weight: object, bias_meta: Any, stride: object, padding: object,
    dilation: object, transposed: object, output_padding: Any, groups: Any, needs: Any,
) -> Any:  # fmt: skip
    sizes = None if bias_meta is None else list(bias_meta.shape)
    return tell(
        F.convolution_backward, grad, input, weight, sizes, stride, padding, dilation, transposed,
        output_padding, groups, list(needs), backward=_convolution_gradient_twice,
    )  # fmt: skip


def _convolution_gradient_twice(
    grads: Any, grad_output: object, input: object, weight: object, stride: object, padding: object,
    dilation: object, transposed: object, output_padding: object, groups: object, needs: Any,
) -> Any:  # fmt: skip
    found = F._convolution_double_backward(
        *grads, grad_output, weight, input, stride, padding, dilation, transposed, output_padding, groups,
        list(needs),
    )  # fmt: skip
    return found


def _products(places: Any, weight: Any, batch: int) -> int:
    """The operations of windows at these places: a product and a sum for each element of the weight."""
    return 2 * batch * prod(places) * prod(weight.shape)


def _convolution_flops(
    input: Any, weight: Any, bias: object, stride: Any, padding: Any, dilation: Any,
    transposed: object, output_padding: object, groups: object,
) -> Any:  # fmt: skip
    if transposed:
        return _products(input.shape[2:], weight, input.shape[0])
    spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    sizes = zip(input.shape[2:], padding, spans, stride, strict=True)
    return _products([(n + 2 * p - w - 1) // s + 1 for n, p, w, s in sizes], weight, input.shape[0])


def _convolution_backward_flops(
    grad_output: Any, input: Any, weight: Any, bias_sizes: object, stride: object, padding: object,
    dilation: object, transposed: object, output_padding: object, groups: object, output_mask: Any,
) -> Any:  # fmt: skip
    """As PyTorch counts: the weight's gradient without regard to groups."""
    places = (input if transposed else grad_output).shape[2:]
    total = _products(places, weight, grad_output.shape[0]) if output_mask[0] else 0
    if output_mask[1]:
        kernel = prod(weight.shape[2:]) * prod(places) * input.shape[0]
        total += 2 * kernel * grad_output.shape[1] * input.shape[1]
    return total


F.convolution.definition.flops = _convolution_flops
F.convolution_backward.definition.flops = _convolution_backward_flops


def _padding_behind(
    x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, sizes: Any
) -> Any:
    """How much more padding stands behind each dimension than before it."""
    spans = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    needed = [(o - 1) * s + span for o, s, span in zip(sizes, stride, spans, strict=True)]
    return [
        max(0, need - n - 2 * p) for need, n, p in zip(needed, x.shape[2:], padding, strict=True)
    ]


@hear("_conv")
def _conv(input, weight, bias, stride, padding, dilation, groups, output_size):
    more = _padding_behind(input, weight, stride, padding, dilation, output_size)
    if any(more):
        input = F.constant_pad_nd(input, [n for m in reversed(more) for n in (0, m)])
    return tell(
        F.convolution, input, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups,
        backward=_convolution_gradient,
    )  # fmt: skip


@hear("_conv_input")
def _conv_input(grad_output, weight, bias, stride, padding, dilation, groups, input_size):
    outer = (grad_output.shape[2:], weight.shape[2:], stride, padding, dilation, input_size)
    extra = [
        size - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, k, s, p, d, size in zip(*outer, strict=True)
    ]
    return tell(
        F.convolution, grad_output, weight, bias, stride, padding, dilation, True, extra, groups,
        backward=_convolution_gradient,
    )  # fmt: skip


# ------------------------------------------------------------------ norms


@define(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[] output_mask) "
    "-> (Tensor, Tensor, Tensor)",
    "The gradients of input, weight and bias of `native_batch_norm`, of those that the mask asks for.",
)
def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):  # fmt: skip
    wide = core.promote_types(input.dtype, core.float32)
    if train:
        mean, scale = save_mean.to(wide), save_invstd.to(wide)
        found = F.batch_norm_backward(grad_out, input, mean, scale, weight)
        to_weight, to_bias = found[1], found[2]
        to_input = found[0]
    else:
        mean, scale = running_mean.to(wide), (running_var.to(wide) + eps).rsqrt()
        shape = [1, -1] + [1] * (input.dim() - 2)
        dims = [0, *range(2, input.dim())]
        slope = scale if weight is None else scale * weight
        to_input = (grad_out * slope.view(shape)).to(input.dtype)
        to_bias = grad_out.to(wide).sum(dims)
        centred = (input.to(wide) - mean.view(shape)) * scale.view(shape)
        to_weight = (grad_out.to(wide) * centred).sum(dims)
    kept = input.dtype if weight is None else weight.dtype
    return (
        to_input if output_mask[0] else None,
        to_weight.to(kept) if output_mask[1] else None,
        to_bias.to(kept) if output_mask[2] else None,
    )


def _differentiated() -> bool:
    """Whether a gradient is differentiated itself: statistics then are functions of the input."""
    return core.is_grad_enabled() or transformed()


def _batch_norm_gradient(
    grads: Any, input: object, weight: object, bias_meta: object, running_mean: object, running_var: object,
    training: object, eps: object, result_1: object, result_2: object, needs: Any,
) -> Any:  # fmt: skip
    if grads[0] is None:
        return None, None, None, None, None
    if training and _differentiated():
        own = F.batch_norm_train.definition.backward
        return own(grads, input, weight, bias_meta, eps, result_1, result_2, needs)
    mask = [needs[0], weight is not None and needs[1], needs[2]]
    found = tell(
        F.native_batch_norm_backward, grads[0], input, weight, running_mean, running_var, result_1,
        result_2, training, eps, mask,
    )  # fmt: skip
    return (*found, None, None)


@hear("batch_norm_eval")
def _batch_norm_eval(input, running_mean, running_var, weight, bias, eps):
    return tell(
        F.native_batch_norm, input, weight, bias, running_mean, running_var, False, 0.1, eps,
        backward=_batch_norm_gradient,
    )[0]  # fmt: skip


@hear("batch_norm_train")
def _batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps):
    results = tell(
        F.native_batch_norm, input, weight, bias, running_mean, running_var, True, momentum, eps,
        backward=_batch_norm_gradient,
    )  # fmt: skip
    none = (
        input.new_empty((0,))
        if running_mean is None
        else core.empty((0,), dtype=running_mean.dtype)
    )
    return (*results, none, none)


_OWN_LAYER_NORM = F.native_layer_norm.definition.backward


def _layer_norm_gradient(
    grads: Any, input: object, normalized_shape: object, weight: object, bias: object, eps: object,
    result_1: object, result_2: object, needs: Any,
) -> Any:  # fmt: skip
    if grads[0] is None:
        return None, None, None
    if _differentiated():
        return _OWN_LAYER_NORM(
            grads, input, normalized_shape, weight, bias, eps, result_1, result_2, needs
        )
    mask = [needs[0], weight is not None and needs[1], bias is not None and needs[2]]
    return tell(
        F.native_layer_norm_backward, grads[0], input, normalized_shape, result_1, result_2, weight,
        bias, mask,
    )  # fmt: skip


hear_gradient("native_layer_norm")(_layer_norm_gradient)


def _group_norm_gradient(
    grads: Any, input: object, weight: object, bias_meta: object, N: object, C: object, HxW: object, group: object,
    eps: object, result_1: object, result_2: object, needs: Any,
) -> Any:  # fmt: skip
    if grads[0] is None:
        return None, None, None
    if _differentiated():
        own = F.native_group_norm.definition.backward
        return own(grads, input, group, weight, bias_meta, eps, result_1, result_2, needs)
    mask = [needs[0], weight is not None and needs[1], bias_meta is not None and needs[2]]
    return tell(
        F.native_group_norm_backward, grads[0].contiguous(), input, result_1, result_2, weight, N, C, HxW,
        group, mask,
    )  # fmt: skip


@hear("native_group_norm")
def _group_norm(input, groups, weight, bias, eps):
    count, channels = input.shape[0], input.shape[1]
    places = input.numel() // (count * channels) if count * channels else 0
    return tell(
        F.native_group_norm_of_sizes, input, weight, bias, count, channels, places, groups, eps,
        backward=_group_norm_gradient,
    )  # fmt: skip


@hear("fused_rms_norm")
def _rms_norm(input, normalized_shape, weight, eps):
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    x = input if input.dtype.itemsize > 2 else input.float()
    scale = x.pow(2).mean(dims, True).add_(eps).rsqrt()
    result = x * scale
    if weight is not None:
        result = result * weight
    return result.to(input.dtype), scale


# ------------------------------------------------------------------ attention


@define(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, "
    "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor, Tensor)",
    "Fused attention on `[B, H, L, E]`, with the logarithm of each row's sum.",
)
def flash_attention_for_cpu(query, key, value, dropout_p, is_causal, attn_mask, scale):
    found = F._scaled_dot_product_flash_attention(*_full(query, key, value, attn_mask), is_causal,
                                                  _scale(query, scale), dropout_p, None)  # fmt: skip
    return found[0], found[1]


def _scale(query: Any, scale: Any) -> float:
    return float(query.shape[-1]) ** -0.5 if scale is None else scale


def _full(query: Any, key: Any, value: object, mask: Any) -> tuple[Any, ...]:
    """The arguments of the fused operator, whose mask has all dimensions."""
    if mask is not None:
        mask = mask.expand((*query.shape[:3], key.shape[2]))
    return query, key, value, mask


@define(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
    "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, "
    "float? scale=None) -> (Tensor, Tensor, Tensor)",
    "The gradients of query, key and value of the fused attention.",
)
def flash_attention_for_cpu_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale
):  # fmt: skip
    query, key, value, mask = _full(query, key, value, attn_mask)
    found = F._scaled_dot_product_flash_attention_backward(
        grad_out, query, key, value, out, logsumexp, mask, is_causal, _scale(query, scale), dropout_p,
        None, False,
    )  # fmt: skip
    return tuple(found[:3])


def _attention_gradient(
    grads: Any, query: object, key: object, value: object, dropout_p: object, is_causal: object,
    attn_mask: object, scale: object, result_0: object, result_1: object,
) -> Any:  # fmt: skip
    found = tell(
        F._scaled_dot_product_flash_attention_for_cpu_backward, grads[0], query, key, value, result_0,
        result_1, dropout_p, is_causal, attn_mask=attn_mask, scale=scale,
    )  # fmt: skip
    return (*found, None)


@hear("_scaled_dot_product_flash_attention")
def _attention(query, key, value, mask, is_causal, scale, dropout_p, state):
    if state is not None or (mask is not None and mask.requires_grad):
        weights = F._scaled_dot_product_attention_math(
            query, key, value, mask, is_causal, scale, dropout_p
        )
        return weights, query.new_empty((0,))
    given = None if scale == float(query.shape[-1]) ** -0.5 else scale
    if mask is not None and mask.dtype is core.bool_:
        mask = F.where(
            mask,
            F.scalar_tensor(0.0, dtype=query.dtype),
            F.scalar_tensor(-float("inf"), dtype=query.dtype),
        )
    return tell(
        F._scaled_dot_product_flash_attention_for_cpu, query, key, value, dropout_p, is_causal,
        attn_mask=mask, scale=given, backward=_attention_gradient,
    )  # fmt: skip


# ------------------------------------------------------------------ windows and images


def _max_pool_gradient(name: str) -> Any:
    def gradient(grads, input, kernel_size, stride, padding, dilation, ceil_mode, result_1):
        return tell(getattr(F, f"{name}_with_indices_backward"), grads[0], input, kernel_size, stride, padding,
                    dilation, ceil_mode, result_1)  # fmt: skip

    return gradient


_MAXIMA = {n: _max_pool_gradient(f"max_pool{n}d") for n in (2, 3)}


@define(
    "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
    "int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
    "The gradient of the input of `max_pool3d_with_indices`.",
)
def max_pool3d_with_indices_backward(
    grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
):  # fmt: skip
    flat = grad_output.new_zeros((*self.shape[:-3], self.shape[-3:].numel()))
    return flat.scatter_add(-1, indices.flatten(-3), grad_output.flatten(-3)).view_as(self)


@hear("_max_pool")
def _max_pool(self, kernel, stride, padding, dilation, ceil_mode, index_bytes):
    if len(kernel) == 1:
        wide = self.unsqueeze(-2)
        pairs = [(1, *kernel), (1, *stride), (0, *padding), (1, *dilation)]
        values, places = _max_pool(wide, *pairs, ceil_mode, index_bytes)
        return values.squeeze(-2), places.squeeze(-2)
    return tell(getattr(F, f"max_pool{len(kernel)}d_with_indices"), self, kernel, stride, padding, dilation,
                ceil_mode, backward=_MAXIMA[len(kernel)])  # fmt: skip


def _avg_pool_gradient(name: str) -> Any:
    def gradient(
        grad, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    ):
        return tell(getattr(F, f"{name}_backward"), grad, input, kernel_size, stride, padding, ceil_mode,
                    count_include_pad, divisor_override)  # fmt: skip

    return gradient


_AVERAGES = {n: _avg_pool_gradient(f"avg_pool{n}d") for n in (2, 3)}


@hear("_avg_pool")
def _avg_pool(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
    if len(kernel) == 1:
        wide = self.unsqueeze(-2)
        pairs = [(1, *kernel), (1, *stride), (0, *padding)]
        return _avg_pool(wide, *pairs, ceil_mode, count_include_pad, divisor).squeeze(-2)
    return tell(getattr(F, f"avg_pool{len(kernel)}d"), self, kernel, stride, padding, ceil_mode,
                count_include_pad, divisor or None, backward=_AVERAGES[len(kernel)])  # fmt: skip


def _adaptive_gradient(name: str) -> Any:
    def gradient(grad, self):
        return tell(getattr(F, f"{name}_backward"), grad, self)

    return gradient


_ADAPTIVE = {n: _adaptive_gradient(f"_adaptive_avg_pool{n}d") for n in (2, 3)}


@hear("_adaptive_avg_pool")
def _adaptive_avg_pool(self, output_size):
    if len(output_size) == 1:
        return _adaptive_avg_pool(self.unsqueeze(-2), [1, *output_size]).squeeze(-2)
    if all(size == 1 for size in output_size):
        return self.mean(tuple(range(-len(output_size), 0)), True)
    return tell(getattr(F, f"_adaptive_avg_pool{len(output_size)}d"), self, output_size,
                backward=_ADAPTIVE[len(output_size)])  # fmt: skip


def _resample_name(space: int, method: int, antialias: bool) -> str:
    if method == CUBIC:
        name = "upsample_bicubic2d"
    elif method >= 2:
        name = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}[space]
    else:
        name = f"upsample_nearest{space}d"
    return f"_{name}_aa" if antialias else name


def _define_resample_gradient(mode: str, space: int) -> None:
    """The gradient of one of PyTorch's operators that resample."""
    name = _resample_name(space, MODES[mode][0], False)
    letters = "dhw"[3 - space :] if space > 1 else ""
    scales = ", ".join(f"float? scales_{c}=None" for c in letters) or "float? scales=None"
    corners = "" if mode == "nearest" else "bool align_corners, "

    @define(
        f"{name}_backward(Tensor grad_output, int[] output_size, int[] input_size, {corners}{scales}) -> Tensor",
        f"The gradient of the input of `{name}`.",
    )
    def gradient(grad_output, output_size, input_size, *rest):
        corner, factors = (rest[0], rest[1:]) if corners else (False, rest)
        scale = [factor or 0.0 for factor in factors]
        inner = list(input_size[2:])
        return F._resample_backward(grad_output, inner, MODES[mode][0], corner, False, scale)


for _mode, _space in (
    ("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("trilinear", 3),
    ("bicubic", 2),
):  # fmt: skip
    _define_resample_gradient(_mode, _space)


@hear("_resample")
def _resample(self, sizes, method, align_corners, antialias, scales):
    if antialias or method == MODES["nearest-exact"][0] or self.dim() != len(sizes) + 2:
        return tell(F._resample, self, sizes, method, align_corners, antialias, scales,
                    backward=F._resample.definition.backward)  # fmt: skip
    name = _resample_name(len(sizes), method, False)
    rest = [*([] if method == 0 else [align_corners]), *[s or None for s in scales]]
    shape = list(self.shape)

    def gradient(grad):
        return tell(getattr(F, f"{name}_backward"), grad, sizes, shape, *rest)

    return tell(getattr(F, name), self, sizes, *rest, backward=once(gradient))


def _define_padding_gradient(name: str, mode: str, space: int) -> None:
    @define(
        f"{name}_pad{space}d_backward(Tensor grad_output, Tensor self, int[{2 * space}] padding) -> Tensor",
        f"The gradient of the input of `{name}_pad{space}d`.",
    )
    def gradient(grad_output, self, padding):
        return F._pad_index_backward(grad_output, list(self.shape), list(padding), mode)


_PADDINGS = {"reflect": "reflection", "replicate": "replication"}
for _mode, _name in _PADDINGS.items():
    for _space in (1, 2, 3):
        _define_padding_gradient(_name, _mode, _space)


@hear("_pad_index")
def _pad_index(self, pad, mode):
    space = len(pad) // 2
    if mode not in _PADDINGS or space not in (1, 2, 3) or self.dim() not in (space + 1, space + 2):
        return tell(F._pad_index, self, pad, mode, backward=F._pad_index.definition.backward)
    name = f"{_PADDINGS[mode]}_pad{space}d"

    def gradient(grad, self, padding):
        return tell(getattr(F, f"{name}_backward"), grad, self, padding)

    return tell(getattr(F, name), self, pad, backward=once(gradient))


core.HEARD[0] = heard
hear_whole("repeat", "trace")
