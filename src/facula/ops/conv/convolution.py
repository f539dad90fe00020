"""Operators: convolutions and transposed convolutions in one, two and three dimensions.

Takes inputs [N, C, *spatial] (or without N), weights [out, in / groups, *kernel]; gives [N, out,
*spatial]. Three
primitives, each linear in both its tensors and differentiated by the other two: `_conv` (forward),
`_conv_input` (its
transpose in the input) and `_conv_weight` (its transpose in the weight); the first two add a bias
where there is one. A transposed convolution is `_conv_input`. Keeps
true: results follow the memory format of the input (channels last stays channels last); complex
convolutions are three
real ones; whole numbers multiply exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.conv.checks import (
    check_dtypes,
    check_input_type,
    check_numbers,
    check_output_padding,
    check_parts,
    check_sizes,
    per_dimension,
)
from facula.ops.index import launch
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator
from facula.ops.table.remember import remembered
from facula.ops.view import memory_order
from facula.ops.view.memory_order import channels_last

#: dtypes with convolution kernels
FLOATS = frozenset("f32 f64 bf16 f16".split())


def _dense(x: core.Tensor) -> tuple[Any, int]:
    """The tensor in one of the two layouts that kernels take, and which: 0 contiguous, 1 channels
    last.
    """
    last = channels_last(x)
    return memory_order.ordered(x, last), int(last)


@lru_cache(maxsize=4096)
def _numbers(
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    layouts: tuple[int, int],
) -> tuple[int, ...]:
    """The sizes that a kernel takes; one dimension is two with a first of size 1."""
    lift = (1,) * (2 - len(kernel))
    none = (0,) * len(lift)
    spatial = (*lift, *kernel, *lift, *stride, *none, *padding, *lift, *dilation)
    outs = (*lift, *y_shape[2:])
    return (*x_shape[:2], *lift, *x_shape[2:], y_shape[1], *spatial, groups, *outs, *layouts, 0)


def _launch(
    kind: str,
    pointers: tuple[Any, ...],
    x_shape: Any,
    y_shape: Any,
    kernel: Any,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    layouts: tuple[int, int],
) -> None:
    """Call a kernel on 1 to 3 spatial dimensions; x is the convolution's input, y its output, by
    shape.
    """
    code = pointers[0].dtype.code
    if code not in FLOATS:
        fail(
            NotImplementedError,
            "conv",
            f'a floating-point dtype was required: "conv_{kind}" not implemented for '
            f"'{pointers[0].dtype}'",
            hint="convert input and weight with .float()",
        )
    settings = (tuple(kernel), tuple(stride), tuple(padding), tuple(dilation))
    numbers = _numbers(tuple(x_shape), tuple(y_shape), *settings, groups, layouts)
    name = "conv3d" if len(kernel) == 3 else "conv2d"
    core.kernel(f"{name}_{kind}:{code}")(pointers, numbers, ())


def _check(
    op: str, image: Any, result: Any, weight: core.Tensor, settings: tuple[Any, ...]
) -> None:
    """Raise unless the sizes of an image, its result and a weight fit each other."""
    check_parts(op, image, result, weight.shape, settings, weight.shape[2:])


def _check_bias(
    op: str, x: core.Tensor, weight: core.Tensor, bias: core.Tensor | None, result: tuple[int, ...]
) -> None:
    """Raise unless all have one dtype, and the bias an element for each channel of the result."""
    check_dtypes(op, x, weight, bias)
    if bias is not None and tuple(bias.shape) != tuple(result[1:2]):
        fail(
            RuntimeError,
            op,
            f"a bias of {result[1]} elements",
            list(bias.shape),
            hint="one for each channel of the result",
        )


@operator(
    "_conv(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, int groups, "
    "int[] output_size) -> Tensor",
    names=(),
    out=False,
    node="ConvolutionBackward0",
    file_form="convolution",
)
class _conv:
    """The convolution with explicit output sizes; `padding` is that before each dimension."""

    shards = "convolution"

    images = ("input",)
    weighted = "image"
    vmap = batch_forms.conv

    def flops(input, weight, bias, stride, padding, dilation, groups, output_size):
        return 2 * input.shape[0] * launch.product(output_size) * weight.numel()

    def meta(input, weight, bias, stride, padding, dilation, groups, output_size):
        result = (*input.shape[:1], *weight.shape[:1], *output_size)
        _check("_conv", input.shape, result, weight, (stride, padding, dilation, groups))
        _check_bias("_conv", input, weight, bias, result)
        last = channels_last(input) or channels_last(weight)
        return memory_order.empty([input.shape[0], weight.shape[0], *output_size], input, last)

    def cpu(out, input, weight, bias, stride, padding, dilation, groups, output_size):
        if out.numel() == 0:
            return
        if input.numel() == 0 or weight.numel() == 0:
            out.zero_()
            if bias is not None:
                out.add_(bias.reshape((1, -1, *[1] * len(output_size))))
            return
        x, layout = _dense(input)
        _launch(
            "forward",
            (out, x, weight.contiguous(), None if bias is None else bias.contiguous()),
            x.shape,
            out.shape,
            weight.shape[2:],
            stride,
            padding,
            dilation,
            groups,
            (layout, int(channels_last(out))),
        )

    def backward(grad, input, weight, stride, padding, dilation, groups, needs):
        settings = (stride, padding, dilation, groups)
        grad_input = grad_weight = grad_bias = None
        if needs[0]:
            grad_input = F._conv_input(grad, weight, None, *settings, tuple(input.shape[2:]))
        if needs[1] and needs[2]:
            grad_weight, grad_bias = F._conv_weight_bias(
                grad, input, *settings, tuple(weight.shape[2:])
            )
        elif needs[1]:
            grad_weight = F._conv_weight(grad, input, *settings, tuple(weight.shape[2:]))
        elif needs[2]:
            grad_bias = _over_channels(grad)
        return grad_input, grad_weight, grad_bias

    def samples(S):
        yield (S(2, 3, 5, 6), S(4, 3, 3, 2), S(4), (1, 2), (1, 0), (1, 1), 1, (5, 3)), {}
        yield (S(2, 4, 7), S(4, 2, 3), None, (1,), (2,), (2,), 2, (7,)), {}


@operator(
    "_conv_input(Tensor grad_output, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, int groups, int[] input_size) -> Tensor",
    names=(),
    out=False,
    node="ConvolutionBackward0",
    file_form="transposed_convolution",
)
class _conv_input:
    """The transpose of the convolution in its input, what each input element received, weighted;
    plus a bias per channel, as the transposed convolution has it.
    """

    shards = "convolution_input"

    images = ("grad_output",)
    vmap = batch_forms.conv_input

    def flops(grad_output, weight, bias, stride, padding, dilation, groups, input_size):
        return 2 * grad_output.shape[0] * launch.product(grad_output.shape[2:]) * weight.numel()

    def meta(grad_output, weight, bias, stride, padding, dilation, groups, input_size):
        channels = [n * groups for n in weight.shape[1:2]]
        image = (*grad_output.shape[:1], *channels, *input_size)
        settings = (stride, padding, dilation, groups)
        _check("_conv_input", image, grad_output.shape, weight, settings)
        _check_bias("_conv_input", grad_output, weight, bias, image)
        last = channels_last(grad_output) or channels_last(weight)
        return memory_order.empty(
            [grad_output.shape[0], weight.shape[1] * groups, *input_size], grad_output, last
        )

    def cpu(out, grad_output, weight, bias, stride, padding, dilation, groups, input_size):
        if out.numel() == 0:
            return
        if grad_output.numel() == 0 or weight.numel() == 0:
            out.zero_()
        else:
            y, layout = _dense(grad_output)
            layouts = (int(channels_last(out)), layout)
            _launch(
                "backward_data", (out, y, weight.contiguous()), out.shape, y.shape,
                weight.shape[2:], stride, padding, dilation, groups, layouts,
            )  # fmt: skip
        if bias is not None:
            out.add_(_along_channels(bias, len(input_size)))

    def jvp(tangents, result, grad_output, weight, bias, *settings):
        moved, turned, offset = tangents[:3]
        total = None if moved is None else F._conv_input(moved, weight, offset, *settings)
        if turned is not None:
            through = F._conv_input(
                grad_output, turned, offset if total is None else None, *settings
            )
            total = through if total is None else total + through
        if total is None:
            total = _along_channels(offset, result.dim() - 2).expand(result.shape)
        return total

    def backward(grad, grad_output, weight, stride, padding, dilation, groups, needs):
        settings = (stride, padding, dilation, groups)
        grad_y = grad_weight = None
        if needs[0]:
            grad_y = F._conv(grad, weight, None, *settings, tuple(grad_output.shape[2:]))
        if needs[1]:
            grad_weight = F._conv_weight(grad_output, grad, *settings, tuple(weight.shape[2:]))
        return grad_y, grad_weight, _over_channels(grad) if needs[2] else None

    def samples(S):
        yield (S(2, 4, 5, 3), S(4, 3, 3, 2), None, (1, 2), (1, 0), (1, 1), 1, (5, 6)), {}
        yield (S(2, 4, 5), S(4, 2, 3), S(4), (2,), (1,), (1,), 2, (10,)), {}


@operator(
    "_conv_weight(Tensor grad_output, Tensor input, int[] stride, int[] padding, int[] dilation, "
    "int groups, "
    "int[] kernel_size) -> Tensor",
    names=(),
    out=False,
)
class _conv_weight:
    """The transpose of the convolution in its weight: correlations of the input with the output's
    gradient.
    """

    shards = "convolution_weight 1"

    images = ("grad_output", "input")
    vmap = batch_forms.conv_weight
    jvp = "multilinear"

    def flops(grad_output, input, stride, padding, dilation, groups, kernel_size):
        return 2 * grad_output.numel() * (input.shape[1] // groups) * launch.product(kernel_size)

    def meta(grad_output, input, stride, padding, dilation, groups, kernel_size):
        settings = (stride, padding, dilation, groups)
        check_parts("_conv_weight", input.shape, grad_output.shape, None, settings, kernel_size)
        check_dtypes("_conv_weight", input, grad_output)
        shape = [grad_output.shape[1], input.shape[1] // groups, *kernel_size]
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, grad_output, input, stride, padding, dilation, groups, kernel_size):
        _correlate(out, None, grad_output, input, (stride, padding, dilation, groups), kernel_size)

    def backward(grad, grad_output, input, stride, padding, dilation, groups, needs):
        settings = (stride, padding, dilation, groups)
        return (
            F._conv(input, grad, None, *settings, tuple(grad_output.shape[2:]))
            if needs[0]
            else None,
            F._conv_input(grad_output, grad, None, *settings, tuple(input.shape[2:]))
            if needs[1]
            else None,
        )

    def samples(S):
        yield (S(2, 4, 5, 3), S(2, 3, 5, 6), (1, 2), (1, 0), (1, 1), 1, (3, 2)), {}


def _correlate(
    out: core.Tensor,
    bias: core.Tensor | None,
    grad_output: core.Tensor,
    input: core.Tensor,
    settings: tuple[Any, ...],
    kernel_size: int | Sequence[int],
) -> None:
    """Run the kernel for the gradient of the weight, and of the bias where there is one."""
    if out.numel() == 0 or grad_output.numel() == 0 or input.numel() == 0:
        out.zero_()
        if bias is not None:
            bias.copy_(_over_channels(grad_output))
        return
    y, y_layout = _dense(grad_output)
    x, x_layout = _dense(input)
    stride, padding, dilation, groups = settings
    layouts = (x_layout, y_layout)
    _launch(
        "backward_weight", (out, y, x, bias), x.shape, y.shape, kernel_size,
        stride, padding, dilation, groups, layouts,
    )  # fmt: skip


@operator(
    "_conv_weight_bias(Tensor grad_output, Tensor input, int[] stride, int[] padding, int[] "
    "dilation, int groups, "
    "int[] kernel_size) -> (Tensor, Tensor)",
    names=(),
    out=False,
)
class _conv_weight_bias:
    """`_conv_weight` together with the gradient of the bias, in one pass over the output's
    gradient.
    """

    shards = "convolution_weight 2"

    images = ("grad_output", "input")
    vmap = batch_forms.conv_weight_bias

    def flops(grad_output, input, stride, padding, dilation, groups, kernel_size):
        return 2 * grad_output.numel() * (input.shape[1] // groups) * launch.product(kernel_size)

    def meta(grad_output, input, stride, padding, dilation, groups, kernel_size):
        settings = (stride, padding, dilation, groups)
        check_parts("_conv_weight", input.shape, grad_output.shape, None, settings, kernel_size)
        check_dtypes("_conv_weight", input, grad_output)
        channels = grad_output.shape[1]
        shape = [channels, input.shape[1] // groups, *kernel_size]
        return (
            core.empty(shape, dtype=input.dtype, device=input.device),
            core.empty((channels,), dtype=input.dtype, device=input.device),
        )

    def cpu(out, grad_output, input, stride, padding, dilation, groups, kernel_size):
        weight, bias = out
        settings = (stride, padding, dilation, groups)
        _correlate(weight, bias, grad_output, input, settings, kernel_size)

    def backward(grads, grad_output, input, stride, padding, dilation, groups, needs):
        settings = (stride, padding, dilation, groups)
        weight, bias = grads
        spread = (
            None
            if bias is None
            else _along_channels(bias, grad_output.dim() - 2).expand(grad_output.shape)
        )
        if weight is None:
            return spread, F.zeros_like(input)
        grad_y = None
        if needs[0]:
            grad_y = F._conv(input, weight, bias, *settings, tuple(grad_output.shape[2:]))
        grad_x = (
            F._conv_input(grad_output, weight, None, *settings, tuple(input.shape[2:]))
            if needs[1]
            else None
        )
        return grad_y, grad_x

    def samples(S):
        yield (S(2, 4, 5, 3), S(2, 3, 5, 6), (1, 2), (1, 0), (1, 1), 1, (3, 2)), {}


def _padding(
    op: str, padding: Any, kernel: tuple[int, ...], stride: Any, dilation: Any, space: int
) -> tuple[Any, Any]:
    """Padding before and after each dimension."""
    if isinstance(padding, str):
        if padding == "valid":
            return (0,) * space, (0,) * space
        if padding != "same":
            fail(
                RuntimeError,
                op,
                "Invalid padding string: 'same' or 'valid' was required",
                repr(padding),
                hint="a number of elements on each side is taken too",
            )
        if any(s != 1 for s in stride):
            fail(
                RuntimeError,
                op,
                "padding='same' is not supported for strided convolutions",
                list(stride),
                hint="give padding as numbers instead",
            )
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        before = tuple(t // 2 for t in total)
        return before, tuple(t - b for t, b in zip(total, before, strict=True))
    values = (padding,) if isinstance(padding, int) else tuple(padding)
    values = per_dimension(op, "padding", values, space)
    return values, values


@remembered(4096)
def _checked(
    op: str,
    input: tuple[int, ...],
    weight: tuple[int, ...],
    bias: tuple[int, ...] | None,
    stride: tuple[int, ...],
    padding: str | int | tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    space: int,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The geometry of a convolution of these sizes, all of it checked."""
    check_numbers(op, stride, padding if isinstance(padding, tuple) else (), dilation)
    check_sizes(op, input, weight, bias, space, groups, False)
    sizes = (tuple(input[-space:]), tuple(weight[2:]))
    return _geometry(op, *sizes, stride, padding, dilation, space)


def _geometry(
    op: str,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: str | int | Sequence[int],
    dilation: tuple[int, ...],
    space: int,
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Stride, padding before, dilation and output size, one value a dimension, all checked."""
    stride, dilation = (
        per_dimension(op, "stride", stride, space),
        per_dimension(op, "dilation", dilation, space),
    )
    before, after = _padding(op, padding, kernel, stride, dilation, space)
    check_numbers(op, stride, before, dilation)
    sizes = []
    for n, k, s, d, b, a in zip(size, kernel, stride, dilation, before, after, strict=True):
        extent = d * (k - 1) + 1
        if n + b + a < extent or k == 0:
            fail(
                RuntimeError,
                op,
                f"Calculated padded input size per channel: ({n + b + a}). Kernel size: "
                f"({extent}). Kernel size can't be "
                "greater than actual input size",
                hint="a kernel size goes from 1 to the padded size; more padding makes room",
            )
        sizes.append((n + b + a - extent) // s + 1)
    return stride, before, dilation, tuple(sizes)


def _convolve(
    op: str,
    input: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    stride: tuple[int, ...],
    padding: str | int | Sequence[int],
    dilation: tuple[int, ...],
    groups: int,
    space: int,
) -> Any:
    """Check everything, add the batch dimension where there is none, and convolve."""
    if not isinstance(padding, (str, int)) and not hasattr(padding, "__iter__"):
        required = "ints, 'same' or 'valid' were required: argument 'padding' must be tuple of ints"
        hint = "padding=1 adds one element on each side"
        fail(TypeError, op, required, type(padding).__name__, hint)
    amount = padding if isinstance(padding, (str, int)) else tuple(padding)
    shapes = (input.shape, weight.shape, None if bias is None else bias.shape)
    geometry = _checked(op, *shapes, tuple(stride), amount, tuple(dilation), groups, space)
    check_input_type(op, input, weight, bias)
    batched = input.dim() == space + 2
    x = input if batched else input.unsqueeze(0)
    result = forward(x, weight, bias, *geometry[:3], groups, geometry[3])
    return result if batched else result.squeeze(0)


def forward(
    x: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    sizes: Sequence[int],
) -> Any:
    """The convolution in the arithmetic of its dtype."""
    settings = (stride, padding, dilation, groups, sizes)
    if x.dtype.is_complex:
        return _complex_product(lambda a, b, c: F._conv(a, b, c, *settings), x, weight, bias)
    if x.dtype.is_floating_point:
        return F._conv(x, weight, bias, *settings)
    result = _window_product(x, weight, *settings)
    return result if bias is None else result + _along_channels(bias, len(sizes))


def _along_channels(bias: core.Tensor, space: int) -> Any:
    return bias.reshape((1, -1, *[1] * space))


def _over_channels(y: core.Tensor) -> Any:
    """What a bias receives from its results."""
    return y.sum([d for d in range(y.dim()) if d != 1])


def _complex_product(
    product: Callable[..., Any], x: core.Tensor, y: core.Tensor, bias: core.Tensor | None
) -> Any:
    """A bilinear real product of complex tensors by three real ones. [Gauss]"""
    # The bias goes into the products, so that its gradient is one of them: `third` has the sum of its
    # parts, of which `first` takes the real one away.
    a, b, c, d = F.real(x), F.imag(x), F.real(y), F.imag(y)
    real = imag = both = None
    if bias is not None:
        real, imag = F.real(bias).contiguous(), F.imag(bias)
        both = real + imag
    first = product(a.contiguous(), c.contiguous(), real)
    second = product(b.contiguous(), d.contiguous(), None)
    third = product(a + b, c + d, both)
    return F.complex(first - second, third - first - second)


def _window_product(
    x: core.Tensor,
    weight: core.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    sizes: Sequence[int],
) -> Any:
    """The convolution as one exact product over windows, for whole numbers."""
    kernel = tuple(weight.shape[2:])
    pads: list[int] = []
    for n, k, s, d, p, m in reversed(
        list(zip(x.shape[2:], kernel, stride, dilation, padding, sizes, strict=True))
    ):
        pads += [p, max(0, (m - 1) * s + d * (k - 1) + 1 - n - p)]
    padded = F.constant_pad_nd(x, pads).contiguous()
    batch, channels = padded.shape[:2]
    steps = padded.stride()
    windows = padded.as_strided(
        (batch, groups, channels // groups, *kernel, *sizes),
        (
            steps[0],
            steps[1] * (channels // groups),
            steps[1],
            *(t * d for t, d in zip(steps[2:], dilation, strict=True)),
            *(t * s for t, s in zip(steps[2:], stride, strict=True)),
        ),
    )
    inner = launch.product((channels // groups, *kernel))
    columns = windows.reshape((batch, groups, inner, launch.product(sizes)))
    rows = weight.reshape((1, groups, weight.shape[0] // groups, inner))
    return F.matmul(rows, columns).reshape((batch, weight.shape[0], *sizes))


def _transpose(
    op: str,
    input: core.Tensor,
    weight: core.Tensor,
    bias: core.Tensor | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int,
    dilation: tuple[int, ...],
    space: int,
) -> Any:
    """A transposed convolution: the transpose of the convolution from the result's size to the
    input's.
    """
    shapes = (input.shape, weight.shape, None if bias is None else bias.shape)
    check_sizes(op, *shapes, space, groups, True)
    check_input_type(op, input, weight, bias)
    stride = per_dimension(op, "stride", stride, space)
    dilation = per_dimension(op, "dilation", dilation, space)
    padding = per_dimension(op, "padding", padding, space)
    extra = per_dimension(op, "output_padding", output_padding, space)
    check_numbers(op, stride, padding, dilation)
    check_output_padding(op, extra, stride, dilation)
    batched = input.dim() == space + 2
    x = input if batched else input.unsqueeze(0)
    kernel = tuple(weight.shape[2:])
    sizes = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, k, s, p, d, e in zip(
            x.shape[2:], kernel, stride, padding, dilation, extra, strict=True
        )
    )
    if any(n < 1 for n in sizes):  # the least of two symbols would be a guard
        fail(
            RuntimeError,
            op,
            "a result of positive size was required",
            list(sizes),
            hint="take less padding, or a larger input or kernel",
        )
    settings = (stride, padding, dilation, groups, sizes)
    if x.dtype.is_complex:
        product = lambda a, b, c: F._conv_input(a, b, c, *settings)  # noqa: E731
        result = _complex_product(product, x, weight, bias)
    elif x.dtype.is_floating_point:
        result = F._conv_input(x, weight, bias, *settings)
    else:
        result = _whole_transpose(x, weight, *settings)
        result = result if bias is None else result + _along_channels(bias, space)
    return result if batched else result.squeeze(0)


def _whole_transpose(
    x: core.Tensor,
    weight: core.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    sizes: Sequence[int],
) -> Any:
    """The transposed convolution of whole numbers: zeros between the elements, then a flipped
    kernel.
    """
    batch, channels = x.shape[:2]
    kernel = tuple(weight.shape[2:])
    spread = tuple((n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True))
    wide = x.new_zeros((batch, channels, *spread))
    wide[(slice(None), slice(None), *(slice(None, None, s) for s in stride))].copy_(x)
    per, out = channels // groups, weight.shape[1]
    flipped = F.flip(weight, tuple(range(2, 2 + len(kernel))))
    flipped = flipped.reshape((groups, per, out, *kernel)).transpose(1, 2)
    flipped = flipped.reshape((groups * out, per, *kernel))
    before = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
    crop: list[int] = []
    for b in reversed(before):
        crop += [min(b, 0), 0]
    wide = F.constant_pad_nd(wide, crop)
    ones = (1,) * len(kernel)
    return _window_product(
        wide, flipped, ones, tuple(max(b, 0) for b in before), dilation, groups, sizes
    )


@composite(
    "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, any padding=0, "
    "int[1] dilation=1, "
    "int groups=1) -> Tensor",
    names=("conv1d", "nn.functional.conv1d"),
    overload="padding:str=padding, default",
    out=False,
    autocast="lower",
    quantizers={"xnnpack": "layer", "x86": "layer"},
)
def conv1d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution of [N, C, L] with [out, C / groups, k]; padding is a number, 'same' or
    'valid'.
    """
    return _convolve("conv1d", input, weight, bias, stride, padding, dilation, groups, 1)


@composite(
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, any padding=0, "
    "int[2] dilation=1, "
    "int groups=1) -> Tensor",
    names=("conv2d", "nn.functional.conv2d"),
    overload="padding:str=padding, default",
    out=False,
    autocast="lower",
    quantizers={"xnnpack": "layer", "x86": "layer"},
)
def conv2d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution of [N, C, H, W] with [out, C / groups, kh, kw]; padding is numbers, 'same' or
    'valid'.
    """
    return _convolve("conv2d", input, weight, bias, stride, padding, dilation, groups, 2)


@composite(
    "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, any padding=0, "
    "int[3] dilation=1, "
    "int groups=1) -> Tensor",
    names=("conv3d", "nn.functional.conv3d"),
    overload="padding:str=padding, default",
    out=False,
    autocast="lower",
    quantizers={"xnnpack": "layer", "x86": "layer"},
)
def conv3d(input, weight, bias, stride, padding, dilation, groups):
    """Convolution of [N, C, D, H, W] with [out, C / groups, kd, kh, kw]; padding is numbers, 'same'
    or 'valid'.

    Example:
        >>> input = facula.ones(1, 1, 2, 2, 2)
        >>> weight = facula.ones(1, 1, 2, 2, 2)
        >>> facula.nn.functional.conv3d(input, weight)
        tensor([[[[[8.]]]]])
    """
    return _convolve("conv3d", input, weight, bias, stride, padding, dilation, groups, 3)


def _define_transposed(space: int) -> None:
    name = f"conv_transpose{space}d"

    def transposed(
        input: core.Tensor,
        weight: core.Tensor,
        bias: core.Tensor | None,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        output_padding: tuple[int, ...],
        groups: int,
        dilation: tuple[int, ...],
    ) -> Any:
        return _transpose(
            name, input, weight, bias, stride, padding, output_padding, groups, dilation, space
        )

    transposed.__doc__ = (
        f"Transposed convolution in {space} dimension(s) of [N, in, *] "
        "with [in, out / groups, *kernel]."
    )
    composite(
        f"{name}(Tensor input, Tensor weight, Tensor? bias=None, int[{space}] stride=1, "
        f"int[{space}] padding=0, "
        f"int[{space}] output_padding=0, int groups=1, int[{space}] dilation=1) -> Tensor",
        names=(name, f"nn.functional.{name}"),
        out=False,
        overload="default" if space == 1 else "input",
        autocast="lower",
        quantizers={"script": "layer"},
    )(transposed)


for _space in (1, 2, 3):
    _define_transposed(_space)


@composite(
    "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] "
    "dilation, bool transposed, "
    "int[] output_padding, int groups) -> Tensor",
    names=("convolution",),
    out=False,
    autocast="lower",
)
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """The convolution, plain or transposed, whose number of dimensions is that of the weight.

    Example:
        >>> input, weight = facula.tensor([[[1.0, 2.0, 4.0]]]), facula.tensor([[[1.0, -1.0]]])
        >>> facula.convolution(input, weight, None, [1], [0], [1], False, [0], 1)
        tensor([[[-1., -2.]]])
    """
    space = weight.dim() - 2
    if space < 1:
        fail(
            RuntimeError,
            "convolution",
            "a weight [out, in / groups, sizes of the kernel] was required",
            list(weight.shape),
            hint="matmul() multiplies matrices",
        )
    if transposed:
        return _transpose(
            "convolution",
            input,
            weight,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
            space,
        )
    return _convolve("convolution", input, weight, bias, stride, padding, dilation, groups, space)
