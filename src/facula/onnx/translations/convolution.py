"""Convolutions, transposed convolutions and sliding windows.

Takes and gives what `onnx.table` says.
Keeps true: the padding behind each dimension follows from the size of the result, which may differ
from that before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.fx.symbols import plain
from facula.onnx.table import Call, translation

if TYPE_CHECKING:
    from facula.onnx.graph import Value


def _spatial(x: Any, count: int) -> list[int]:
    """The example sizes of the last dimensions."""
    return [plain(n) for n in tuple(x.shape)[-count:]]


def pads(
    image: Sequence[int], result: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int],
) -> list[int]:  # fmt: skip
    """The padding before each dimension, then that behind."""
    behind = []
    for n, out, k, s, p, d in zip(image, result, kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) + 1
        equal = n + 2 * p >= reach and (n + 2 * p - reach) // s + 1 == out
        behind.append(p if equal else max((out - 1) * s + reach - n - p, 0))
    return [*padding, *behind]


@translation("_conv")
def conv(
    call: Call, x: Value, weight: Value, bias: Value, stride: Any, padding: Any, dilation: Any,
    groups: int, output_size: object,
) -> Any:  # fmt: skip
    """The convolution."""
    count = len(stride)
    kernel = _spatial(weight, count)
    result = [plain(n) for n in call.metas[0].shape][-count:]
    around = pads(_spatial(x, count), result, kernel, stride, padding, dilation)
    return call.op(
        "Conv", x, weight, bias, kernel_shape=kernel, strides=stride, pads=around,
        dilations=dilation, group=groups,
    )  # fmt: skip


@translation("_conv_input")
def conv_transpose(
    call: Call, x: Value, weight: Value, bias: Value, stride: Any, padding: Any, dilation: Any,
    groups: int, input_size: object,
) -> Any:  # fmt: skip
    """The transposed convolution; what its result is larger by stands behind each dimension."""
    count = len(stride)
    kernel = _spatial(weight, count)
    result = [plain(n) for n in call.metas[0].shape][-count:]
    more = [
        out - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
        for out, n, s, p, d, k in zip(
            result, _spatial(x, count), stride, padding, dilation, kernel, strict=True
        )
    ]
    behind = [p - min(m, 0) for p, m in zip(padding, more, strict=True)]
    return call.op(
        "ConvTranspose", x, weight, bias, kernel_shape=kernel, strides=stride, dilations=dilation,
        pads=[*padding, *behind], output_padding=[max(m, 0) for m in more], group=groups,
    )  # fmt: skip


@translation("im2col")
def im2col(call: Call, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Sliding windows as columns."""
    unbatched = x.rank == 3
    channels, *image = call.static("size of images", [call.graph.size(x, d - 3) for d in range(3)])
    if unbatched:
        x = call.op("Unsqueeze", x, [0])
    x = call.op("Pad", x, [0, 0, *padding, 0, 0, *padding])
    counts = []
    for axis in (0, 1):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        count = (image[axis] + 2 * padding[axis] - reach) // stride[axis] + 1
        places = [
            [k * dilation[axis] + i * stride[axis] for i in range(count)]
            for k in range(kernel[axis])
        ]
        counts.append(count)
        index = call.graph.constant(core.tensor(places, dtype=core.int64))
        x = call.op("Gather", x, index, axis=2 + 2 * axis)
    x = call.op("Transpose", x, perm=[0, 1, 2, 4, 3, 5])
    sizes = [channels * kernel[0] * kernel[1], counts[0] * counts[1]]
    return call.op("Reshape", x, sizes if unbatched else [-1, *sizes])


@translation("col2im")
def col2im(
    call: Call, x: Value, output_size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    """Columns added up to images."""
    unbatched = x.rank == 2
    if unbatched:
        x = call.op("Unsqueeze", x, [0])
    found = call.op("Col2Im", x, call.graph.sizes(output_size), call.graph.sizes(kernel),
                    dilations=dilation, pads=[*padding, *padding], strides=stride)  # fmt: skip
    return call.op("Squeeze", found, [0]) if unbatched else found
