"""Operators: sliding windows as columns (unfold, fold), and rearrangement of pixels.

Takes `[N, C, H, W]`, with or without N. `im2col` and `col2im` are each the other's transpose.
Keeps true: windows outside of the image read zeros; half precision adds in float32; a plane is
added to by one thread, in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order

GRAIN = 16384


def at_least(op: str, wanted: Sequence[tuple[str, Sequence[int], int]], *, hint: str) -> None:
    """Raise where the numbers of a window are too small: (what is required, numbers, the least).

    `{}` in what is required stands for the number that is too small."""
    for required, values, least in wanted:
        if not values or min(values) < least:
            required = required.format(min(values, default=None))
            fail(RuntimeError, op, required, list(values), hint=hint)


def columns(op: str, sizes: Sequence[int], window: tuple[Sequence[int], ...]) -> list[int]:
    """How many positions a sliding window takes along each dimension."""
    kernel, dilation, padding, stride = window
    for name, values in zip(("kernel_size", "dilation", "padding", "stride"), window, strict=True):
        if len(values) != len(sizes):
            fail(
                RuntimeError,
                op,
                f"{name} of {len(sizes)} numbers was required",
                list(values),
                hint="give one for each dimension of the image",
            )
    at_least(
        op,
        (
            ("kernel size should be greater than zero", kernel, 1),
            ("dilation should be greater than zero", dilation, 1),
            ("padding should be non-negative", padding, 0),
            ("stride should be greater than zero", stride, 1),
        ),
        hint="the defaults are 1 for stride and dilation, 0 for padding",
    )
    if math.prod(kernel) >= 2**63:
        fail(RuntimeError, op, "the product of kernel_width and kernel_height overflowed", list(kernel),
             hint="a window is no larger than the image and its padding")  # fmt: skip
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, d, p, t in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    if min(counts) < 1:
        fail(
            RuntimeError,
            op,
            f"an image at least as large as the window was required: calculated shape of the array "
            f"of sliding blocks is "
            f"{counts}, but its components must be at least one",
            list(sizes),
            hint="more padding or a smaller window makes room",
        )
    return counts


def _window_numbers(
    count: int, sizes: Sequence[int], counts: Sequence[int], window: tuple[Sequence[int], ...]
) -> tuple[int, ...]:
    kernel, dilation, padding, stride = window
    return (count, *sizes, *counts, *kernel, *dilation, *padding, *stride)


@operator(
    "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] "
    "stride=1) -> Tensor",
    names=("nn.functional.unfold",),
    file_arguments={"input": "self"},
    out=False,
)
class Im2Col:
    """Sliding windows as columns: `[N, C, H, W]` to `[N, C * kh * kw, positions]`; without N
    too.

    Example:
        >>> facula.nn.functional.unfold(facula.arange(4.0).reshape(1, 1, 2, 2), 2)
        tensor([[[0.],
                 [1.],
                 [2.],
                 [3.]]])
    """

    rearranges = True

    vmap = "fold"
    jvp = "linear"

    def meta(input, kernel_size, dilation, padding, stride):
        if input.dim() not in (3, 4) or 0 in input.shape[input.dim() - 3 :]:
            fail(
                RuntimeError,
                "unfold",
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
                "non-zero dimensions for input",
                list(input.shape),
                hint="shapes are [N, C, H, W] or [C, H, W]",
            )
        counts = columns("unfold", input.shape[-2:], (kernel_size, dilation, padding, stride))
        shape = (
            *input.shape[: input.dim() - 3],
            input.shape[-3] * math.prod(kernel_size),
            math.prod(counts),
        )
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, kernel_size, dilation, padding, stride):
        window = (kernel_size, dilation, padding, stride)
        x, result = input.contiguous(), out
        if (
            x.dtype.itemsize == 16
        ):  # no kernel moves sixteen bytes: real and imaginary parts one after the other
            parts = [F.im2col(part, *window) for part in (F.real(x), F.imag(x))]
            out.copy_(F.complex(*parts))
            return
        counts = columns("unfold", x.shape[-2:], window)
        count = math.prod(x.shape[:-2])
        core.kernel(f"unfold:b{x.dtype.itemsize}")(
            (result, x),
            _window_numbers(count, x.shape[-2:], counts, window),
            (),
            total=count * math.prod(kernel_size),
            grain=max(1, GRAIN // max(1, math.prod(counts))),
        )

    def backward(grad, input_shape, kernel_size, dilation, padding, stride):
        return F.col2im(grad, list(input_shape[-2:]), kernel_size, dilation, padding, stride)

    def samples(S):
        yield (S(2, 3, 5, 6), [3, 2], [1, 2], [1, 0], [2, 1]), {}

    def errors(S):
        yield (S(1, 1, 2, 2), [3, 3]), {}, RuntimeError, "must be at least one"


@operator(
    "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] "
    "padding=0, int[2] stride=1) "
    "-> Tensor",
    names=("nn.functional.fold",),
    file_arguments={"input": "self"},
    out=False,
)
class Col2Im:
    """Columns added up where their windows stood: `[N, C * kh * kw, positions]` to `[N, C, H, W]`;
    without N too.

    Example:
        >>> facula.nn.functional.fold(facula.ones(1, 4, 1), (2, 2), 2)
        tensor([[[[1., 1.],
                  [1., 1.]]]])
    """

    vmap = "fold"
    jvp = "linear"

    def meta(input, output_size, kernel_size, dilation, padding, stride):
        taps = math.prod(kernel_size)
        if input.dim() not in (2, 3) or 0 in input.shape[input.dim() - 2 :]:
            fail(
                RuntimeError,
                "fold",
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
                "non-zero dimensions",
                list(input.shape),
                hint="shapes are [N, C * kernel elements, windows], as unfold() gives them, or "
                "without N",
            )
        counts = columns("fold", output_size, (kernel_size, dilation, padding, stride))
        if input.shape[-2] % taps:
            fail(
                RuntimeError,
                "fold",
                "Expected size of input's dimension 1 to be divisible by the product of "
                "kernel_size",
                f"{input.shape[-2]} and kernel_size={list(kernel_size)}",
                hint="every column holds the kernel's elements of all channels, as unfold() gives "
                "them",
            )
        if input.shape[-1] != math.prod(counts):
            fail(
                RuntimeError,
                "fold",
                f"expected size of input's last dimension to match the calculated number of "
                f"sliding blocks "
                f"{' * '.join(map(str, counts))} = {math.prod(counts)}",
                input.shape[-1],
                hint="pass the arguments that unfold() had",
            )
        shape = (*input.shape[: input.dim() - 2], input.shape[-2] // taps, *output_size)
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, output_size, kernel_size, dilation, padding, stride):
        window = (kernel_size, dilation, padding, stride)
        if input.dtype.is_complex:
            parts = [
                F.col2im(part, output_size, *window) for part in (F.real(input), F.imag(input))
            ]
            out.copy_(F.complex(*parts))
            return
        x, target = input.contiguous(), out
        if x.dtype not in (core.float32, core.float64):
            x, target = x.to(core.float32), core.empty(out.shape, dtype=core.float32)
        counts = columns("fold", output_size, window)
        count = math.prod(out.shape[:-2])
        core.kernel(f"fold:{x.dtype.code}")(
            (target, x),
            _window_numbers(count, output_size, counts, window),
            (),
            total=count,
            grain=max(1, GRAIN // max(1, x.shape[-1] * math.prod(kernel_size))),
        )
        if target is not out:
            out.copy_(target)

    def backward(grad, kernel_size, dilation, padding, stride):
        return F.im2col(grad, kernel_size, dilation, padding, stride)

    def samples(S):
        yield (S(2, 18, 6), [5, 6], [3, 2], [1, 2], [1, 0], [2, 2]), {}


def _check_factor(op: str, self: core.Tensor, factor: int, by: int, least: int) -> None:
    if self.dim() < least:
        fail(
            RuntimeError,
            op,
            f"{op} expects input to have at least {least} dimensions",
            f"{self.dim()}",
            hint="the shape is [..., channels, height, width]",
        )
    if factor <= 0:
        fail(
            RuntimeError,
            op,
            f"{op} expects a positive factor",
            factor,
            hint="a factor of 1 changes nothing",
        )
    if factor * factor >= 2**63:
        fail(
            RuntimeError,
            op,
            f"upscale factor is too large, (upscale_factor)^2 overflowed: upscale_factor={factor}",
            hint="the channels hold the square of the factor",
        )
    if self.shape[-3] % by:
        fail(
            RuntimeError,
            op,
            f"{op} expects its input's 'channel' dimension to be divisible by {by}",
            f"input.size(-3)={self.shape[-3]}",
            hint=f"cut or pad the channels to a multiple of {by}",
        )


def _in_order_of(like: core.Tensor, x: core.Tensor) -> Any:
    """`x`, contiguous or channels last as `like` is."""
    return memory_order.ordered(x, memory_order.channels_last(like))


@composite(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    names=("pixel_shuffle", "nn.functional.pixel_shuffle"),
    quantized="moves",
    quantizers={"fx": "shared"},
    node="PixelShuffleBackward0",
)
def pixel_shuffle(self, upscale_factor):
    """Channels become pixels: `[*, C * r * r, H, W]` to `[*, C, H * r, W * r]`."""
    r = upscale_factor
    _check_factor("pixel_shuffle", self, r, r * r, 3)
    if r == 1:
        return self.clone()
    *lead, channels, height, width = self.shape
    at = len(lead)
    split = self.reshape((*lead, channels // (r * r), r, r, height, width))
    order = (*range(at), at, at + 3, at + 1, at + 4, at + 2)
    shuffled = split.permute(order).reshape((*lead, channels // (r * r), height * r, width * r))
    return _in_order_of(self, shuffled)


@composite(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    names=("pixel_unshuffle", "nn.functional.pixel_unshuffle"),
    quantized="moves",
    quantizers={"fx": "shared"},
    node="PixelUnshuffleBackward0",
)
def pixel_unshuffle(self, downscale_factor):
    """Pixels become channels: `[*, C, H * r, W * r]` to `[*, C * r * r, H, W]`."""
    op, r = "pixel_unshuffle", downscale_factor
    _check_factor(op, self, r, 1, 3)
    *lead, channels, height, width = self.shape
    if height % r or width % r:
        fail(
            RuntimeError,
            op,
            f"height and width divisible by {r} were required",
            [height, width],
            hint="pad() or slice the image first",
        )
    if r == 1:
        return self.clone()
    at = len(lead)
    split = self.reshape((*lead, channels, height // r, r, width // r, r))
    order = (*range(at), at, at + 2, at + 4, at + 1, at + 3)
    shuffled = split.permute(order).reshape((*lead, channels * r * r, height // r, width // r))
    return _in_order_of(self, shuffled)


@composite(
    "channel_shuffle(Tensor self, int groups) -> Tensor",
    names=("channel_shuffle", "nn.functional.channel_shuffle"),
    quantized="moves",
    quantizers={"fx": "shared"},
    node="ChannelShuffleBackward0",
)
def channel_shuffle(self, groups):
    """Channels in `groups` are dealt out in turn: `[N, g * c, *]` read as `[N, c, g, *]`."""
    if self.dim() < 3:
        fail(
            RuntimeError,
            "channel_shuffle",
            "an input of at least 3 dimensions was required",
            self.dim(),
            hint="x[None] adds a batch dimension",
        )
    if groups <= 0 or self.shape[1] % groups:
        fail(
            RuntimeError,
            "channel_shuffle",
            "Number of channels must be divisible by groups",
            f"{self.shape[1]} channels and {groups} groups",
            hint="groups=1 changes nothing",
        )
    split = self.reshape((self.shape[0], groups, self.shape[1] // groups, *self.shape[2:]))
    return _in_order_of(self, split.transpose(1, 2).reshape(self.shape))
