"""Operators: pooling over windows of one to three dimensions, and its inverse.

Takes `[N, C, *spatial]` or `[C, *spatial]`, contiguous or channels last; gives the same layout. The
primitives are `_max_pool`, `_adaptive_max_pool`, `_avg_pool` and `_adaptive_avg_pool` with any
number of spatial dimensions; maxima are differentiated through the positions that gave them
(`_plane_scatter_add`, `_plane_gather`), averages are linear and are differentiated by
`_avg_pool_backward` and `_adaptive_avg_pool_backward`. Public names stand in `pool_api`.
Keeps true: padding never wins a maximum, NaN does, of equal values the first; half precision adds
in float32; results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.conv.windows import at_least
from facula.ops.table.registry import F, operator
from facula.ops.view import memory_order

#: the least work of a thread, in outputs times window positions
GRAIN = 32768
CHANNEL_BLOCK = 64


def dense(x: core.Tensor, space: int) -> tuple[Any, bool]:
    """The tensor in an order that kernels take, and whether that is channels last."""
    last = dense_order(x, space)
    return memory_order.ordered(x, last), last


def like(x: core.Tensor, shape: Sequence[int], space: int, dtype: core.dtype | None = None) -> Any:
    """Unset elements in the order of `x`: contiguous, or channels last."""
    return memory_order.empty(shape, x, dense_order(x, space), dtype)


def dense_order(x: core.Tensor, space: int) -> bool:
    """Whether results that follow `x` lie channels last."""
    return x.dim() == space + 2 and memory_order.channels_last(x)


def full(values: Sequence[int], fill: int = 1) -> list[int]:
    """Three spatial values: absent dimensions lead."""
    return [fill] * (3 - len(values)) + list(values)


def planes(shape: Sequence[int], space: int, last: bool) -> tuple[int, int]:
    """How kernels count what lies outside the spatial dimensions: (planes, 1) or (batch,
    channels)."""
    lead = shape[: len(shape) - space]
    return (lead[0], lead[1]) if last else (math.prod(lead), 1)


def blocks(count: int, channels: int, last: bool) -> int:
    """The items of a kernel that owns planes: planes, or batches times blocks of channels."""
    return count * ((channels + CHANNEL_BLOCK - 1) // CHANNEL_BLOCK) if last else count


def out_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """The outputs along one dimension; with ceil_mode the last window starts inside the input or
    its left padding."""
    reach = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def _check_numbers(
    op: str,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> None:
    # in one dimension PyTorch's words are others
    positive = (
        "{} must be greater than zero" if len(kernel) == 1 else "{} should be greater than zero"
    )
    at_least(
        op,
        (
            (positive.format("kernel_size" if len(kernel) == 1 else "kernel size"), kernel, 1),
            (
                positive.format("stride") + ", but got {}"
                if len(kernel) == 1
                else "stride should not be zero",
                stride,
                1,
            ),
            (positive.format("dilation") + ", but got {}", dilation, 1),
            ("pad must be non-negative, but got pad: {}", padding, 0),
        ),
        hint="the defaults are kernel_size for stride, 1 for dilation, 0 for padding",
    )
    if not len(kernel) == len(stride) == len(padding) == len(dilation):
        fail(
            RuntimeError,
            op,
            "a single int, or one int for each dimension of the window, was required for kernel_size, "
            "stride, padding and dilation",
            [list(values) for values in (kernel, stride, padding, dilation)],
            hint="kernel_size=3 is a window of 3 along each dimension",
        )
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            fail(
                RuntimeError,
                op,
                "pad should be at most half of effective kernel size",
                f"pad={p}, kernel_size={k} and dilation={d}",
                hint=f"take padding of at most {(d * (k - 1) + 1) // 2}",
            )


def _extent(x: core.Tensor, sizes: Sequence[int]) -> str:
    """Channels and spatial sizes of an image, as `2x5x5`."""
    return "x".join(str(n) for n in (x.shape[x.dim() - len(sizes) - 1], *sizes))


def check_windows(
    op: str,
    x: core.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[int]:
    """Check a window's numbers against the input; gives the spatial sizes of the result."""
    space = len(kernel)
    _check_numbers(op, kernel, stride, padding, dilation)
    if x.dim() not in (space + 1, space + 2) or 0 in x.shape[x.dim() - space - 1 :]:
        fail(
            RuntimeError,
            op,
            f"Expected {space + 1}D or {space + 2}D (batch mode) tensor with optional 0 dim batch "
            f"size for input",
            list(x.shape),
            hint="shapes are [N, C, *spatial] or [C, *spatial]",
        )
    sizes = x.shape[x.dim() - space :]
    if max(padding) >= 2**31:
        fail(
            RuntimeError,
            op,
            "padding below 2**31",
            list(padding),
            hint="a window takes at most half of it from the padding",
        )
    outs = [
        out_size(*numbers, ceil_mode)
        for numbers in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    if min(outs) < 1:
        fail(
            RuntimeError,
            op,
            f"an input at least as large as the window was required: Given input size: "
            f"({_extent(x, sizes)}). Calculated output size: ({_extent(x, outs)}). Output size is "
            f"too small (Invalid computed output size: {min(outs)})",
            hint="more padding or a smaller window makes room",
        )
    return outs


def _numbers(
    shape: Sequence[int],
    outs: Sequence[int],
    windows: tuple[Sequence[int], ...],
    last: bool,
    flag: int,
    divisor: int = 0,
) -> tuple[int, ...]:
    """The sizes that pooling kernels read; `windows` holds kernel, stride, padding, dilation.

    Of a window that is longer than the padded image the rest is left out: kernels would walk it."""
    space = len(outs)
    kernel, stride, padding, dilation = windows
    sizes = shape[len(shape) - space :]
    taps = [
        min(k, -(-(size + 2 * p) // d))
        for k, size, p, d in zip(kernel, sizes, padding, dilation, strict=True)
    ]
    return (
        *planes(shape, space, last),
        *full(sizes),
        *full(outs),
        *full(taps),
        *full(stride),
        *full(padding, 0),
        *full(dilation),
        flag,
        divisor,
    )


def _rows(numbers: Sequence[int]) -> int:
    """The items of a kernel that owns output rows."""
    return numbers[0] * numbers[5] * numbers[6]


def _row_grain(numbers: Sequence[int], window: int) -> int:
    return max(1, GRAIN // max(1, numbers[7] * numbers[1] * window))


def _adaptive_windows(space: int) -> tuple[Sequence[int], ...]:
    return ([1] * space, [1] * space, [0] * space, [1] * space)


#: whole numbers without a kernel -> a dtype that has one and holds them all
_WIDER = {
    core.uint8: core.float32,
    core.int8: core.float32,
    core.int16: core.float32,
    core.int32: core.int64,
}


def pool_node(name: str, sizes: Sequence[int]) -> str:
    """PyTorch's name of a pool over so many dimensions; what has one is a pool over two there, and squeezed."""
    return "SqueezeBackward1" if len(sizes) == 1 else name.format(len(sizes))


@operator(
    "_max_pool(Tensor self, int[] kernel, int[] stride, int[] padding, int[] dilation, bool "
    "ceil_mode, int index_bytes) "
    "-> (Tensor, Tensor)",
    names=(),
    out=False,
    quantized="moves",
    node=lambda call: pool_node("MaxPool{}DWithIndicesBackward0", call.saved["kernel"]),
    file_form="max_pool",
)
class MaxPool:
    """The largest value of each window and its flat position in the plane.

    index_bytes: 8 gives int64 positions, 4 int32, 0 none (an empty tensor; not differentiable
    then).
    """

    ties = True
    vmap = "fold"

    def meta(self, kernel, stride, padding, dilation, ceil_mode, index_bytes):
        outs = check_windows("max_pool", self, kernel, stride, padding, dilation, ceil_mode)
        space = len(kernel)
        shape = (*self.shape[: self.dim() - space], *outs)
        dtype = core.int64 if index_bytes == 8 else core.int32
        indices = like(self, shape if index_bytes else (0,), space if index_bytes else 0, dtype)
        return like(self, shape, space), indices

    def cpu(out, self, kernel, stride, padding, dilation, ceil_mode, index_bytes):
        values, indices = out
        space = len(kernel)
        x, last = dense(self, space)
        if x.dtype in _WIDER:
            window = (kernel, stride, padding, dilation, ceil_mode, index_bytes)
            wide, places = F._max_pool(x.to(_WIDER[x.dtype]), *window)
            values.copy_(wide)
            indices.copy_(places)
            return
        numbers = _numbers(
            x.shape,
            values.shape[values.dim() - space :],
            (kernel, stride, padding, dilation),
            last,
            index_bytes,
        )
        core.kernel(f"max_pool{'.last' if last else ''}:{x.dtype.code}")(
            (values, indices if index_bytes else None, x),
            numbers,
            (),
            total=_rows(numbers),
            grain=_row_grain(numbers, math.prod(kernel)),
        )

    def backward(grads, self_meta, kernel, result_1):
        space = len(kernel)
        return F._plane_scatter_add(grads[0], result_1, list(self_meta.shape[-space:]))

    def samples(S):
        yield (S(2, 3, 7, 8), [3, 2], [2, 1], [1, 0], [1, 2], False, 8), {}
        yield (S(2, 3, 9), [3], [2], [1], [1], True, 4), {}
        yield (S(1, 2, 5, 4, 6), [2, 2, 3], [2, 2, 2], [0, 1, 1], [1, 1, 1], True, 8), {}

    def errors(S):
        yield (S(1, 3, 3), [2], [1], [2], [1], False, 8), {}, RuntimeError, "pad should be at most"
        yield (S(1, 3, 3), [5], [1], [0], [1], False, 8), {}, RuntimeError, "too small"


@operator(
    "_adaptive_max_pool(Tensor self, int[] output_size) -> (Tensor, Tensor)",
    names=(),
    out=False,
    quantized="moves",
    node=lambda call: pool_node("AdaptiveMaxPool{}DBackward0", call.saved["output_size"]),
    file_form="adaptive_max_pool",
)
class AdaptiveMaxPool:
    """The largest value of each of `output_size` equal parts, and its flat position in the
    plane."""

    ties = True
    vmap = "fold"

    def meta(self, output_size):
        check_adaptive("adaptive_max_pool", self, output_size)
        space = len(output_size)
        shape = (*self.shape[: self.dim() - space], *output_size)
        return like(self, shape, space), like(self, shape, space, core.int64)

    def cpu(out, self, output_size):
        x = self.contiguous()
        space = len(output_size)
        numbers = _numbers(x.shape, output_size, _adaptive_windows(space), False, 8)
        window = math.prod(x.shape[x.dim() - space :]) // max(1, math.prod(output_size)) + 1
        direct = out[0].is_contiguous()
        target = out if direct else [core.empty(part.shape, dtype=part.dtype) for part in out]
        core.kernel(f"adaptive_max_pool:{x.dtype.code}")(
            (*target, x), numbers, (), total=_rows(numbers), grain=_row_grain(numbers, window)
        )
        if not direct:
            out[0].copy_(target[0]), out[1].copy_(target[1])

    def backward(grads, self_meta, output_size, result_1):
        space = len(output_size)
        return F._plane_scatter_add(grads[0], result_1, list(self_meta.shape[-space:]))

    def samples(S):
        yield (S(2, 3, 7, 8), [3, 2]), {}
        yield (S(3, 5), [7]), {}


def check_adaptive(op: str, x: core.Tensor, output_size: Sequence[int]) -> None:
    """Raise unless the input has dimensions to pool and the sizes are not negative."""
    space = len(output_size)
    if x.dim() not in (space + 1, space + 2) or 0 in x.shape[x.dim() - space :]:
        fail(
            RuntimeError,
            op,
            f"Expected {space + 1}D or {space + 2}D tensor with non-zero size for non-batch "
            f"dimensions",
            list(x.shape),
            hint="shapes are [N, C, *spatial] or [C, *spatial]",
        )
    if min(output_size, default=0) < 0:
        fail(
            RuntimeError,
            op,
            "elements of output_size must be greater than or equal to 0 (Trying to create tensor with "
            "negative dimension)",
            output_size,
            hint="1 gives a single number for each channel",
        )


def _summable(x: core.Tensor) -> Any:
    """The tensor in a dtype whose kernels add: half precision in float32."""
    if x.dtype in (core.bfloat16, core.float16):
        return x.to(core.float32)
    return x


def _store(out: core.Tensor, result: core.Tensor) -> None:
    if result is not out:
        out.copy_(result)


def _target(out: core.Tensor) -> Any:
    """Where a kernel that adds may write: `out`, or float32 in the same order."""
    if out.dtype in (core.bfloat16, core.float16):
        return core.empty_like(out, dtype=core.float32)
    return out


def _check_planes(
    op: str, source: core.Tensor, indices: core.Tensor, space: int, same: bool
) -> None:
    """Raise unless positions are whole numbers and stand in planes like the source's, of which there
    are as many."""
    lead = source.dim() - space
    fits = (
        lead >= 0 and source.dim() == indices.dim() and source.shape[:lead] == indices.shape[:lead]
    )
    whole = indices.dtype is core.int64 or indices.dtype is core.int32
    if not fits or not whole or (same and source.shape != indices.shape):
        fail(
            RuntimeError,
            op,
            f"int64 or int32 positions in planes of {space} dimensions like those of the source",
            f"{indices.dtype} of {list(indices.shape)} for {list(source.shape)}",
            hint="max_pool2d(..., return_indices=True) gives such positions",
        )


@operator(
    "_plane_scatter_add(Tensor source, Tensor indices, int[] sizes) -> Tensor",
    names=(),
    out=False,
)
class PlaneScatterAdd:
    """Planes of `sizes`, zero but for the sums of the source at flat positions `indices`; those
    outside of a plane count for nothing."""

    vmap = "fold"
    jvp = "linear"

    def meta(source, indices, sizes):
        space = len(sizes)
        _check_planes("_plane_scatter_add", source, indices, space, True)
        return like(indices, (*source.shape[: source.dim() - space], *sizes), space, source.dtype)

    def cpu(out, source, indices, sizes):
        space = len(sizes)
        places, last = dense(indices, space)
        values, target = memory_order.ordered(_summable(source), last), _target(out)
        count, channels = planes(values.shape, space, last)
        core.kernel(f"plane_scatter_add{'.last' if last else ''}:{values.dtype.code}")(
            (target, values, places),
            (
                count,
                channels,
                math.prod(values.shape[values.dim() - space :]),
                math.prod(sizes),
                places.dtype.itemsize,
            ),
            (),
            total=blocks(count, channels, last),
            grain=max(1, GRAIN // max(1, math.prod(sizes))),
        )
        _store(out, target)

    def backward(grad, indices, sizes):
        return F._plane_gather(grad, indices, len(sizes)), None


@operator(
    "_plane_gather(Tensor source, Tensor indices, int space) -> Tensor",
    names=(),
    out=False,
    file_form="taken_from_planes",
)
class PlaneGather:
    """The source's values at flat positions `indices` of each plane; the last `space` dimensions
    are a plane."""

    ties = True
    vmap = "fold"
    jvp = "linear"

    def meta(source, indices, space):
        _check_planes("_plane_gather", source, indices, space, False)
        return like(indices, indices.shape, space, source.dtype)

    def cpu(out, source, indices, space):
        places, last = dense(indices, space)
        values, target = memory_order.ordered(_summable(source), last), _target(out)
        count, channels = planes(values.shape, space, last)
        core.kernel(f"plane_gather{'.last' if last else ''}:{values.dtype.code}")(
            (target, values, places),
            (
                count,
                channels,
                math.prod(places.shape[places.dim() - space :]),
                math.prod(values.shape[values.dim() - space :]),
                places.dtype.itemsize,
            ),
            (),
            total=blocks(count, channels, last),
            grain=max(1, GRAIN // max(1, math.prod(places.shape[places.dim() - space :]))),
        )
        _store(out, target)

    def backward(grad, source_meta, indices, space):
        return F._plane_scatter_add(grad, indices, list(source_meta.shape[-space:])), None


@operator(
    "_plane_scatter(Tensor source, Tensor indices, int[] sizes) -> Tensor",
    names=(),
    out=False,
    file_form="unpooled",
)
class PlaneScatter:
    """Planes of `sizes`, zero but for the source at flat positions `indices`; the last of equal
    positions stays."""

    vmap = "fold"
    jvp = "linear"

    def meta(source, indices, sizes):
        _check_planes("_plane_scatter", source, indices, len(sizes), True)
        shape = (*source.shape[: source.dim() - len(sizes)], *sizes)
        return like(source, shape, len(sizes))

    def cpu(out, source, indices, sizes):
        values, places, target = _summable(source).contiguous(), indices.contiguous(), _target(out)
        if not target.is_contiguous():
            target = core.empty(out.shape, dtype=values.dtype, device=out.device)
        width = places.dtype.itemsize
        space = len(sizes)
        count, _ = planes(values.shape, space, False)
        core.kernel(f"plane_scatter:{values.dtype.code}")(
            (target, values, places),
            (count, 1, math.prod(values.shape[values.dim() - space :]), math.prod(sizes), width),
            (),
            total=count,
            grain=max(1, GRAIN // max(1, math.prod(sizes))),
        )
        _store(out, target)

    def backward(grad, indices, sizes):
        return F._plane_gather(grad, indices, len(sizes)), None


@operator(
    "_avg_pool(Tensor self, int[] kernel, int[] stride, int[] padding, bool ceil_mode, bool "
    "count_include_pad, int divisor) "
    "-> Tensor",
    names=(),
    out=False,
    quantized="averages",
    node=lambda call: pool_node("AvgPool{}DBackward0", call.saved["kernel"]),
    file_form="avg_pool",
)
class AvgPool:
    """The mean of each window; divisor 0: the number of positions, with or without padding."""

    ties = True
    vmap = "fold"
    jvp = "linear"

    def meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        space = len(kernel)
        outs = check_windows("avg_pool", self, kernel, stride, padding, [1] * space, ceil_mode)
        return like(self, (*self.shape[: self.dim() - space], *outs), space)

    def cpu(out, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        space = len(kernel)
        x, last = dense(self, space)
        numbers = _numbers(
            x.shape,
            out.shape[out.dim() - space :],
            (kernel, stride, padding, [1] * space),
            last,
            int(count_include_pad),
            divisor,
        )
        core.kernel(f"avg_pool{'.last' if last else ''}:{x.dtype.code}")(
            (out, x),
            numbers,
            (),
            total=_rows(numbers),
            grain=_row_grain(numbers, math.prod(kernel)),
        )

    def backward(grad, self_meta, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        sizes = list(self_meta.shape[-len(kernel) :])
        return F._avg_pool_backward(
            grad, sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor
        )

    def samples(S):
        yield (S(2, 3, 7, 8), [3, 2], [2, 1], [1, 0], False, True, 0), {}
        yield (S(2, 3, 7, 8), [3, 2], [2, 2], [1, 1], True, False, 0), {}
        yield (S(2, 9), [3], [2], [1], True, True, 5), {}


@operator(
    "_avg_pool_backward(Tensor grad_out, int[] sizes, int[] kernel, int[] stride, int[] padding, "
    "bool ceil_mode, bool count_include_pad, int divisor) -> Tensor",
    names=(),
    out=False,
)
class AvgPoolBackward:
    """The transpose of `_avg_pool`: each window's positions get their share of its gradient."""

    vmap = "fold"
    jvp = "linear"

    def meta(grad, sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        space = len(kernel)
        return like(grad, (*grad.shape[: grad.dim() - space], *sizes), space)

    def cpu(out, grad, sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        windows = (kernel, stride, padding, [1] * len(kernel))
        _average_gradient("avg_pool.grad", out, grad, windows, int(count_include_pad), divisor)

    def backward(grad, kernel, stride, padding, ceil_mode, count_include_pad, divisor):
        return F._avg_pool(grad, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def _average_gradient(
    kernel: str,
    out: core.Tensor,
    grad: core.Tensor,
    windows: tuple[Sequence[int], ...],
    flag: int,
    divisor: int,
) -> None:
    """Run the gradient kernel of an average; half precision in float32."""
    space = len(windows[0])
    last = dense_order(out, space)
    given, target = memory_order.ordered(_summable(grad), last), _target(out)
    numbers = _numbers(out.shape, given.shape[given.dim() - space :], windows, last, flag, divisor)
    core.kernel(f"{kernel}{'.last' if last else ''}:{given.dtype.code}")(
        (target, given),
        numbers,
        (),
        total=blocks(numbers[0], numbers[1], last),
        grain=max(1, GRAIN // max(1, math.prod(numbers[2:5]))),
    )
    _store(out, target)


@operator(
    "_adaptive_avg_pool(Tensor self, int[] output_size) -> Tensor",
    names=(),
    out=False,
    node=lambda call: pool_node("AdaptiveAvgPool{}DBackward0", call.saved["output_size"]),
    file_form="adaptive_avg_pool",
)
class AdaptiveAvgPool:
    """The mean of each of `output_size` equal parts."""

    ties = True
    vmap = "fold"
    jvp = "linear"
    quantized = "averages"

    def meta(self, output_size):
        check_adaptive("adaptive_avg_pool", self, output_size)
        space = len(output_size)
        return like(self, (*self.shape[: self.dim() - space], *output_size), space)

    def cpu(out, self, output_size):
        space = len(output_size)
        x, last = dense(self, space)
        numbers = _numbers(x.shape, output_size, _adaptive_windows(space), last, 0)
        window = math.prod(x.shape[x.dim() - space :]) // max(1, math.prod(output_size)) + 1
        core.kernel(f"adaptive_avg_pool{'.last' if last else ''}:{x.dtype.code}")(
            (out, x), numbers, (), total=_rows(numbers), grain=_row_grain(numbers, window)
        )

    def backward(grad, self_meta, output_size):
        return F._adaptive_avg_pool_backward(grad, list(self_meta.shape[-len(output_size) :]))

    def samples(S):
        yield (S(2, 3, 7, 8), [3, 2]), {}
        yield (S(2, 3, 7, 8), [1, 1]), {}
        yield (S(3, 5), [7]), {}


@operator(
    "_adaptive_avg_pool_backward(Tensor grad_out, int[] sizes) -> Tensor", names=(), out=False
)
class AdaptiveAvgPoolBackward:
    """The transpose of `_adaptive_avg_pool`."""

    vmap = "fold"
    jvp = "linear"

    def meta(grad, sizes):
        space = len(sizes)
        return like(grad, (*grad.shape[: grad.dim() - space], *sizes), space)

    def cpu(out, grad, sizes):
        _average_gradient("adaptive_avg_pool.grad", out, grad, _adaptive_windows(len(sizes)), 0, 0)

    def backward(grad, grad_out_shape, sizes):
        return F._adaptive_avg_pool(grad, list(grad_out_shape[-len(sizes) :]))
