"""Pooling.

Takes and gives what `onnx.table` says.
Keeps true: images without a batch dimension are given one for the node; averages count what the
kernels count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.fx.symbols import plain
from facula.onnx.graph import Value
from facula.onnx.table import Call, translation
from facula.onnx.translations.convolution import pads
from facula.onnx.translations.reduction import reduce


def batched(call: Call, x: Any, space: int, body: Callable[[Any], Any]) -> Any:
    """Run a node on images that may lack a batch dimension."""
    if x.rank == space + 2:
        return body(x)
    lifted = Value(call.op("Unsqueeze", x, [0]).name, x.dtype, (1, *x.shape))
    return call.op("Squeeze", body(lifted), [0])


def _sizes(x: Any, space: int) -> list[int]:
    return [plain(n) for n in tuple(x.shape)[-space:]]


def _around(call: Call, x: Any, windows: Sequence[Any], ceil_mode: bool) -> dict[str, Any]:
    """Padding that gives the size of the result; where sizes may change, ONNX's own rule."""
    kernel, stride, padding, dilation = windows
    space = len(kernel)
    fixed = all(type(n) is int for n in x.shape[-space:])
    if ceil_mode and not fixed:
        return {"pads": [*padding, *padding], "ceil_mode": 1}
    around = pads(_sizes(x, space), _sizes(call.metas[0], space), *windows)
    return {"pads": around}


@translation("_max_pool")
def max_pool(
    call: Call, x: Value, kernel: Any, stride: object, padding: object, dilation: object, ceil_mode: bool,
    index_bytes: int,
) -> Any:  # fmt: skip
    """The largest value of each window, and where it stands in its plane."""
    space = len(kernel)
    settings = {
        "kernel_shape": kernel, "strides": stride, "dilations": dilation,
        **_around(call, x, (kernel, stride, padding, dilation), ceil_mode),
    }  # fmt: skip

    def places(image: Value) -> Any:
        _, found = call.op("MaxPool", image, outputs=2, **settings)
        plane: Any = 1
        for d in range(1, space + 1):
            size = call.graph.size(x, -d)
            both = isinstance(plane, int) and isinstance(size, int)
            plane = plane * size if both else call.sizes.arithmetic("Mul", plane, size)
        return call.op("Mod", Value(found.name, core.int64), plane)

    values = batched(call, x, space, lambda image: call.op("MaxPool", image, **settings))
    if not index_bytes:
        return [values]
    found = batched(call, x, space, places)
    return [values, call.graph.cast(found, call.metas[1].dtype)]


@translation("_avg_pool")
def avg_pool(
    call: Call, x: Value, kernel: Any, stride: object, padding: object, ceil_mode: bool,
    count_include_pad: bool, divisor: int,
) -> Any:  # fmt: skip
    """The mean of each window."""
    space = len(kernel)
    windows = (kernel, stride, padding, [1] * space)
    settings = {
        "kernel_shape": kernel, "strides": stride, **_around(call, x, windows, ceil_mode),
    }  # fmt: skip
    if "ceil_mode" in settings and divisor == 0:
        settings["count_include_pad"] = int(count_include_pad)
        return batched(call, x, space, lambda image: call.op("AveragePool", image, **settings))
    if not divisor and not (count_include_pad and ceil_mode):
        settings["count_include_pad"] = int(count_include_pad)
        return batched(call, x, space, lambda image: call.op("AveragePool", image, **settings))
    settings["count_include_pad"] = 1
    average = batched(call, x, space, lambda image: call.op("AveragePool", image, **settings))
    window = math.prod(kernel)
    if divisor:
        return call.op("Mul", average, window / divisor)
    return call.op("Mul", average, _overhang(call, x, windows))


def _overhang(call: Call, x: Value, windows: Sequence[Any]) -> Any:
    """What means have to be multiplied by whose windows reach over the padding."""
    space = len(windows[0])
    factor = core.tensor(1.0, dtype=core.float64)
    for d, (k, s, p, _) in enumerate(zip(*windows, strict=True)):
        size, out = _sizes(x, space)[d], _sizes(call.metas[0], space)[d]
        ratios = [k / (min(i * s + k, size + 2 * p) - i * s) for i in range(out)]
        along = core.tensor(ratios, dtype=core.float64)
        factor = factor * along.reshape([-1 if e == d else 1 for e in range(space)])
    return call.graph.constant(factor.to(x.dtype))


def _windows(size: int, out: int) -> list[tuple[int, int]]:
    """The ranges of adaptive pooling."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive(call: Call, x: Value, output_size: list[Any], kind: str, reduction: str) -> Any:
    space = len(output_size)
    outs = [plain(n) for n in output_size]
    if all(n == 1 for n in outs):
        if x.rank == space + 2:
            return call.op(f"Global{kind}", x)
        return reduce(call, reduction, x, list(range(x.rank - space, x.rank)), True, x.rank)
    sizes = call.static("size of images in adaptive pooling",
                        [call.graph.size(x, d - space) for d in range(space)])  # fmt: skip
    if all(n % out == 0 for n, out in zip(sizes, outs, strict=True)):
        kernel = [n // out for n, out in zip(sizes, outs, strict=True)]
        return batched(call, x, space, lambda image: call.op(kind, image, kernel_shape=kernel,
                                                             strides=kernel))  # fmt: skip
    rank = x.rank
    for d, (size, out) in enumerate(zip(sizes, outs, strict=True), rank - space):
        pieces = [call.graph.slice(x, d, a, b) for a, b in _windows(size, out)]
        x = call.op(
            "Concat", *[reduce(call, reduction, p, [d], True, rank) for p in pieces], axis=d
        )
    return x


@translation("_adaptive_avg_pool")
def adaptive_avg_pool(call: Call, x: Value, output_size: Any) -> Any:
    """Means of windows that cover the image evenly."""
    return _adaptive(call, x, output_size, "AveragePool", "ReduceMean")


@translation("_adaptive_max_pool")
def adaptive_max_pool(call: Call, x: Value, output_size: Any) -> Any:
    """Maxima of windows that cover the image evenly."""
    return [_adaptive(call, x, output_size, "MaxPool", "ReduceMax")]
