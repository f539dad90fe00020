"""Operators that compiled graphs call: products of weights that were packed ahead, with an epilogue.

Takes weights once (`_conv_pack`, `_linear_pack`), then images or rows with the panels; gives
`map(product + bias + residual)`. Keeps true: the arithmetic is that of `_conv` and `linear`, in the
same order; the epilogue works on sums in the accumulator's dtype, before they are rounded. `map` names
an elementwise kernel of one operand ("" for none), `attributes` are its numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.conv import convolution as conv
from facula.ops.index import launch
from facula.ops.table.registry import operator
from facula.ops.view import memory_order

#: columns of the widest panel, and what one word of it takes at least
_COLUMNS, _WORD = 64, 4
#: the flag that asks for the direct sum where a transform would be chosen
_DIRECT = 8
#: points of a transformed 3x3 kernel
_POINTS = 16


def panel_bytes(rows: int, columns: int, itemsize: int) -> int:
    """Room for the panels of a matrix, whatever the register tile."""
    return -(-rows // 4) * 4 * -(-columns // _COLUMNS) * _COLUMNS * max(itemsize, _WORD)


def _extras(panels: bool, residual: Any, direct: bool, map: str) -> tuple[int, int]:
    """The last numbers of a convolution: flags, and where the map stands."""
    flags = (1 if map else 0) | (2 if panels else 0) | (4 if residual is not None else 0)
    flags |= _DIRECT if direct else 0
    return flags, core.kernel(map).address if map else 0


def _conv_numbers(
    x: Any, out_shape: Any, kernel: Any, settings: tuple[Any, ...], layouts: tuple[Any, ...]
) -> Any:
    stride, padding, dilation, groups = settings
    places = (tuple(kernel), tuple(stride), tuple(padding), tuple(dilation))
    return conv._numbers(tuple(x), tuple(out_shape), *places, groups, layouts)[:-1]


@operator(
    "_conv_pack(Tensor weight, int[] input_shape, int[] stride, int[] padding, int[] dilation, "
    "int groups, int[] output_size, bool direct) -> Tensor",
    names=(),
    out=False,
)
class _conv_pack:
    """The weights of a convolution as its kernel reads them."""

    def meta(weight, input_shape, stride, padding, dilation, groups, output_size, direct):
        taps = launch.product(weight.shape[2:])
        rows = weight.shape[1] * (max(taps, _POINTS) if taps == 9 else taps)
        columns = -(-weight.shape[0] // groups // _COLUMNS) * _COLUMNS
        size = groups * panel_bytes(rows, columns, weight.dtype.itemsize)
        return core.empty((size,), dtype=core.uint8, device=weight.device)

    def cpu(out, weight, input_shape, stride, padding, dilation, groups, output_size, direct):
        settings = (stride, padding, dilation, groups)
        shape = (input_shape[0], weight.shape[0], *output_size)
        numbers = _conv_numbers(input_shape, shape, weight.shape[2:], settings, (1, 1))
        name = "conv3d" if len(output_size) == 3 else "conv2d"
        core.kernel(f"{name}_pack:{weight.dtype.code}")(
            (out, weight.contiguous()), (*numbers, _DIRECT if direct else 0)
        )


@operator(
    "_conv_epilogue(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int[] weight_shape, "
    "int[] stride, int[] padding, int[] dilation, int groups, int[] output_size, bool last, "
    "bool direct, str map, float[] attributes) -> Tensor",
    names=(),
    out=False,
)
class _conv_epilogue:
    """A convolution with an epilogue, its result channels last or first. `weight` is a weight, or what
    `_conv_pack` gave; where that is so and the result is channels last, a residual may be added."""

    images = ("input",)

    def flops(input, weight, bias, residual, weight_shape, stride, padding, dilation, groups,
              output_size, last, direct, map, attributes):  # fmt: skip
        return 2 * input.shape[0] * launch.product(output_size) * launch.product(weight_shape)

    def meta(input, weight, bias, residual, weight_shape, stride, padding, dilation, groups,
             output_size, last, direct, map, attributes):  # fmt: skip
        return memory_order.empty([input.shape[0], weight_shape[0], *output_size], input, last)

    def cpu(out, input, weight, bias, residual, weight_shape, stride, padding, dilation, groups,
            output_size, last, direct, map, attributes):  # fmt: skip
        x, layout = conv._dense(input)
        panels = weight.dim() == 1
        settings = (stride, padding, dilation, groups)
        numbers = _conv_numbers(x.shape, out.shape, weight_shape[2:], settings, (layout, int(last)))
        name = "conv3d" if len(output_size) == 3 else "conv2d"
        bias = None if bias is None else bias.contiguous()
        core.kernel(f"{name}_forward:{x.dtype.code}")(
            (out, x, weight.contiguous(), bias, residual),
            (*numbers, *_extras(panels, residual, direct, map)),
            tuple(attributes),
        )


@operator("_linear_pack(Tensor weight) -> Tensor", names=(), out=False)
class _linear_pack:
    """The weight of a linear layer as the kernel reads it."""

    def meta(weight):
        size = panel_bytes(weight.shape[1], weight.shape[0], weight.dtype.itemsize)
        return core.empty((size,), dtype=core.uint8, device=weight.device)

    def cpu(out, weight):
        strides = weight.stride()
        core.kernel(f"gemm_pack:{weight.dtype.code}")(
            (out, weight), (*weight.shape, strides[1], strides[0])
        )


@operator(
    "_linear_epilogue(Tensor input, Tensor weight, Tensor? bias, Tensor? residual, int features, "
    "str map, float[] attributes) -> Tensor",
    names=(),
    out=False,
)
class _linear_epilogue:
    """`linear` with an epilogue. `weight` is a weight, or what `_linear_pack` gave."""

    def flops(input, weight, bias, residual, features, map, attributes):
        return 2 * input.numel() * features

    def meta(input, weight, bias, residual, features, map, attributes):
        shape = (*input.shape[:-1], features)
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, weight, bias, residual, features, map, attributes):
        if out.numel() == 0:
            return
        x = input.contiguous()
        rows, inner = launch.product(x.shape[:-1]), x.shape[-1]
        packed = weight.dtype is core.uint8
        across, along = (0, 0) if packed else weight.stride()
        flags = (1024 if packed else 0) | (2048 if residual is not None else 0)
        flags |= 4096 if map else 0
        core.kernel(f"gemm:{x.dtype.code}")(
            (out, x, weight, None if bias is None else bias.contiguous(), residual),
            (1, rows, features, inner, 0, inner, 1, 0, along, across, 0, features, flags,
             core.kernel(map).address if map else 0),
            (1.0, 0.0, *attributes),
        )  # fmt: skip
