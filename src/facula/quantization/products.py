"""Products of bytes with packed weights, and what becomes of their sums: the ground of quantized layers.

Takes: bytes that stand for numbers, weights as signed bytes. Gives: `Weights`, panels that a kernel reads with what
their products need, and `finished`, which makes integers of 32-bit sums.
Keeps true: weights are packed once, when their parameters are made; sums are exact on every instruction set; rounding
happens once, in float32, as PyTorch's x86 engine does it:
``round((sum + bias / (x_scale * w_scale)) * (x_scale * w_scale / y_scale)) + zero``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from facula import core
from facula.codegen.c.isa import isa
from facula.codegen.c.kernels.gemm import tile_quantized
from facula.core.errors import fail
from facula.ops.table.registry import F, operator
from facula.ops.view import memory_order
from facula.quantization.tensor import PER_CHANNEL, RANGES, Quantizer, per_tensor_affine, wrap
from facula.runtime import cpu_features, libraries

__all__ = ["Weights", "checked_output", "computed", "finished", "product"]

#: parameters that are kept for one weight
_KEPT = 64


def _row_places(rows: int, inner: int) -> tuple[int, ...]:
    """Rows of bytes as a line of an image: the geometry of a product without windows."""
    return (1, 1, rows, inner, 1, 1, rows, *(1,) * 6, 0, 0, 0, 1, 1, 1)


@contextmanager
def computed() -> Iterator[None]:
    """Outside of modes and transforms: what follows from packed weights alone is no part of a trace."""
    keys, stack = core.suspend_dispatch(), core.swap_interpreters([])
    try:
        yield
    finally:
        core.swap_interpreters(stack)
        core.set_thread_keys(keys)


class Weights:
    """Rows of signed bytes, those of each group together, with their scales, zero points and bias."""

    def __init__(self, rows: core.Tensor, scales: core.Tensor, zeros: core.Tensor, bias: core.Tensor | None,
        groups: int = 1,
                 depthwise: bool = False) -> None:  # fmt: skip
        self.results, self.inner, self.groups = (
            rows.shape[0] // max(groups, 1),
            rows.shape[1],
            groups,
        )
        self.scales = scales  # float32, one for each result
        self.zeros = zeros if bool((zeros != 0).any()) else None  # int32, one for each result
        # a channel for each result: its taps side by side, or panels
        apart = depthwise and self.results == 1 and self.zeros is None
        self.packed = (
            rows.t().contiguous() if apart else _panels(rows.contiguous(), self.results, groups)
        )
        self.bias = bias
        self._totals = rows.to(core.int32).sum(1, dtype=core.int32) - zeros * self.inner
        self._none: Any = None
        self._bases: dict[int, Any] = {}
        self._factors: dict[Any, tuple[Any, Any]] = {}

    def _base(self, zero_point: int) -> Any:
        """What the zero point of the activations adds to sums."""
        if zero_point not in self._bases:
            if len(self._bases) > _KEPT:
                self._bases.clear()
            with computed():
                self._bases[zero_point] = -self._totals * zero_point
        return self._bases[zero_point]

    def _scaled(self, x_scale: float, y_scale: float) -> tuple[Any, Any]:
        """What sums are multiplied by, and what is added before, where integers come out."""
        version = None if self.bias is None else self.bias._version
        key = (x_scale, y_scale, version)
        if key not in self._factors:
            if len(self._factors) > _KEPT:
                self._factors.clear()
            with computed():
                self._factors[key] = scaled(self.scales, x_scale, y_scale, self.bias)
        return self._factors[key]

    def integers(self, x: Any, size: Any, places: Any, given: tuple[float, int],
                 quantizer: Quantizer, kind: core.dtype, low: int | None = None) -> Any:  # fmt: skip
        """Integers of dtype `kind` (and not below `low`) of a result of shape `size`.

        `given` has scale and zero point of the bytes `x`.
        """
        kept, least, most = RANGES[kind]
        least = least if low is None else max(least, low)
        limits = (float(quantizer.zero_point), float(least), float(most))
        factors = self._scaled(given[0], quantizer.scale)
        return self._product(x, size, places, given[1], factors, limits, kept)

    def numbers(self, x: Any, size: Any, places: Any, given: tuple[float, int], relu: bool) -> Any:
        """The same as numbers, not below 0 where `relu`."""
        multiplier = self.scales * number(given[0])
        factors = (multiplier, self._shift())
        low = 0.0 if relu else float("-inf")
        return self._product(x, size, places, given[1], factors, (low,), core.float32)

    def summed(self, x: Any, size: Any, places: Any, given: tuple[float, int], quantizer: Quantizer,
               added: core.Tensor, more: tuple[float, int], relu: bool) -> Any:  # fmt: skip
        """Integers of the product plus the numbers that the integers `added` stand for by `more`; rounded once."""
        _, low, high = RANGES[core.qint8 if added.dtype is core.int8 else core.quint8]
        least = 0.0 if relu else float("-inf")
        result = (quantizer.scale, float(quantizer.zero_point), float(low), float(high))
        limits = (
            0.0,
            float("-inf"),
            float("inf"),
            1.0,
            more[0],
            float(more[1]),
            *result,
            least,
            0.0,
        )
        factors, base = self._scaled(given[0], 1.0), self._base(given[1])
        places = (*places, self.groups, given[1])
        return product(
            x, self.packed, base, *factors, self.zeros, added, size, places, limits, added.dtype
        )

    @property
    def is_apart(self) -> bool:
        """Whether each channel is multiplied by itself: a kernel that takes no sum."""
        return self.packed.dim() == 2

    def numbers_of_range(
        self, x: object, size: object, scale: core.Tensor, zero: core.Tensor, relu: bool
    ) -> Any:
        """The same of rows whose scale and zero point are tensors of one element."""
        shift = self._shift()
        low = 0.0 if relu else float("-inf")
        base = self._totals * -zero.to(core.int32)
        return product(
            x, self.packed, base, self.scales * scale, shift, self.zeros, None, size,
            (self.groups, 0), (low,), core.float32,
        )  # fmt: skip

    def _shift(self) -> Any:
        """What is added to numbers."""
        if self.bias is not None:
            return self.bias.detach()
        if self._none is None:
            with computed():
                self._none = F.zeros(self.scales.shape)
        return self._none

    def _product(self, x: core.Tensor, size: tuple[Any, ...], places: tuple[Any, ...], zero: int,
        factors: tuple[Any, ...], limits: tuple[Any, ...],
                 dtype: core.dtype) -> Any:  # fmt: skip
        places = (*places, self.groups, zero)
        base = self._base(zero)
        return product(
            x, self.packed, base, *factors, self.zeros, None, size, places, limits, dtype
        )


@operator(
    "quantization::product(Tensor input, Tensor weights, Tensor base, Tensor multiplier, Tensor shift, "
    "Tensor? zeros, Tensor? added, int[] size, int[] places, float[] limits, dtype dtype) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class product:
    """A convolution of bytes with packed weights; or, where `places` has no geometry, the product of rows.

    places: the geometry, the number of groups, and the byte that stands for zero; limits: what the kernel takes;
    added: integers that are added to the result's.
    """

    images = ("input",)

    def flops(input, weights, base, multiplier, shift, zeros, added, size, places, limits, dtype):
        taps, channels = math.prod(places[7:10]), input.shape[1 if _is_image(places) else -1]
        return 2 * math.prod(size) * taps * channels // places[-2]

    def meta(input, weights, base, multiplier, shift, zeros, added, size, places, limits, dtype):
        return memory_order.empty(size, input, _is_image(places), dtype)

    def cpu(
        out, input, weights, base, multiplier, shift, zeros, added, size, places, limits, dtype
    ):
        if not out.numel():
            return
        image, code = _is_image(places), out.dtype.code
        x, (*geometry, groups, zero) = memory_order.ordered(input, image), places
        if weights.dim() == 2:  # a channel for each result
            core.kernel(f"quantized_depthwise:{code}")(
                (out, x, weights, multiplier, shift), (*geometry, zero), limits,
                total=out.numel() // groups, grain=16,
            )  # fmt: skip
            return
        if not image:
            geometry = list(_row_places(x.numel() // x.shape[-1], x.shape[-1]))
        images = size[0] if image else 1
        numbers = (*geometry, groups, multiplier.shape[0] // groups, zero, images)
        operands = (out, x, weights, base, multiplier, shift, zeros)
        if added is None:
            core.kernel(f"quantized_product:{code}")(operands, numbers, limits)
            return
        more = memory_order.ordered(added, image)
        core.kernel(f"quantized_product_sum:{code}")((*operands, more), numbers, limits)

    def absorbs(build, given, follower, arguments, at):
        rule = FOLLOWERS.get(follower)
        return None if rule is None else rule(build, given, arguments, at)


def _rows_of(weight: core.Tensor) -> Any:
    """A weight [results, channels, kernel...] as rows, channels last."""
    order = (0, *range(2, weight.dim()), 1) if weight.dim() > 2 else (0, 1)
    return weight.permute(order).reshape(weight.shape[0], -1).contiguous()


@operator(
    "quantization::packed_weight(Tensor weight, int groups, bool symmetric) -> Tensor",
    names=(),
    out=False,
)
class packed_weight:
    """The weight of a layer as `product` reads it."""

    def meta(weight, groups, symmetric):
        count, inner = weight.shape[0], weight[0].numel() if weight.shape[0] else 0
        if symmetric and weight.dim() > 2 and weight.shape[1] == 1 and groups == count:
            return core.empty((inner, count), dtype=core.int8, device=weight.device)
        size = _panel_bytes((count // groups, inner, groups))
        return core.empty((size,), dtype=core.uint8, device=weight.device)

    def cpu(out, weight, groups, symmetric):
        rows = _rows_of(weight)
        if out.dim() == 2:
            out.copy_(rows.t())
        elif out.numel():
            numbers = (rows.shape[0] // groups, rows.shape[1], groups)
            core.kernel("quantized_pack")((out, rows), numbers)


@operator(
    "quantization::weight_base(Tensor weight, Tensor? zeros, int zero_point) -> Tensor",
    names=(),
    out=False,
)
class weight_base:
    """What the zero point of the activations adds to sums."""

    def meta(weight, zeros, zero_point):
        return core.empty(weight.shape[:1], dtype=core.int32, device=weight.device)

    def cpu(out, weight, zeros, zero_point):
        rows = _rows_of(weight)
        totals = rows.to(core.int32).sum(1, dtype=core.int32)
        if zeros is not None:
            totals = totals - zeros.to(core.int32) * rows.shape[1]
        out.copy_(totals * -zero_point)


@operator("quantization::weight_zeros(Tensor zeros) -> Tensor", names=(), out=False)
class weight_zeros:
    """The zero points of a weight as the kernel reads them."""

    def meta(zeros):
        return core.empty(zeros.shape, dtype=core.int32, device=zeros.device)

    def cpu(out, zeros):
        out.copy_(zeros.to(core.int32))


@operator(
    "quantization::weight_multiplier(Tensor weight, Tensor? scales, float scale, float x_scale, "
    "float y_scale) -> Tensor",
    names=(),
    out=False,
)
class weight_multiplier:
    """What sums are multiplied by; `scale` times `scales` are those of the weight."""

    def meta(weight, scales, scale, x_scale, y_scale):
        return core.empty(weight.shape[:1], dtype=core.float32, device=weight.device)

    def cpu(out, weight, scales, scale, x_scale, y_scale):
        both = _scales_of(weight, scales, scale) * number(x_scale)
        out.copy_(both / number(y_scale))


@operator(
    "quantization::weight_shift(Tensor weight, Tensor? scales, float scale, float x_scale, "
    "Tensor? bias, bool divided) -> Tensor",
    names=(),
    out=False,
)
class weight_shift:
    """What is added to sums: the bias; `divided`: by the scale of sums, which are multiplied afterwards."""

    def meta(weight, scales, scale, x_scale, bias, divided):
        return core.empty(weight.shape[:1], dtype=core.float32, device=weight.device)

    def cpu(out, weight, scales, scale, x_scale, bias, divided):
        both = _scales_of(weight, scales, scale) * number(x_scale)
        if bias is None:
            out.zero_()
        else:
            out.copy_(bias / both if divided else bias)


def number(value: float) -> Any:
    """A number of 32 bits as a tensor, made by a launch, which packages note (`facula.deploy`)."""
    return F.full((), value, dtype=core.float32)


def _scales_of(weight: core.Tensor, scales: core.Tensor | None, scale: float) -> Any:
    if scales is not None:
        return scales.to(core.float32)
    return F.full(weight.shape[:1], scale, dtype=core.float32)


#: what follows a product -> a function of what builds calls, the arguments of the product and of what follows, and the
#: place of the product among these; it gives the call that does both, or None
FOLLOWERS: dict[Any, Any] = {}
#: where the product has what is added, its limits and its dtype
ADDED, LIMITS, DTYPE = 6, 9, 10


def _limited(build: Any, given: list[Any], arguments: list[Any], at: int) -> Any:
    """A product whose results are limited: the limits of the product itself."""
    _, low, high = arguments
    zero, *limits = [0.0, *given[LIMITS]] if given[DTYPE] is core.float32 else given[LIMITS]
    numbers = all(x is None or isinstance(x, (int, float)) for x in (low, high))
    if given[ADDED] is not None or at or not numbers or (high is not None and len(limits) < 2):
        return None
    limits[0] = limits[0] if low is None else max(limits[0], float(low))
    limits[1:] = [x if high is None else min(x, float(high)) for x in limits[1:]]
    given[LIMITS] = limits if given[DTYPE] is core.float32 else [zero, *limits]
    return build(product, *given)


FOLLOWERS[F.clamp] = _limited


def _is_image(places: Sequence[int]) -> bool:
    """Whether a result is an image, channels last in memory; else it has rows."""
    return len(places) > 2


@functools.cache
def _own_variants() -> tuple[str, ...]:
    """The variant whose kernels run in this process."""
    return (libraries.kernel_variant(),)


def _panel_bytes(numbers: tuple[int, int, int]) -> int:
    """The bytes of panels of (results of a group, inner, groups), whichever processor packs them."""
    served = cpu_features.served() or _own_variants()
    return max(tile_quantized.panel_bytes(isa(variant), *numbers) for variant in served)


def _panels(rows: core.Tensor, results: int, groups: int) -> Any:
    """Rows as the kernel of this processor reads them."""
    numbers = (results, rows.shape[1], groups)
    panels = core.empty((_panel_bytes(numbers),), dtype=core.uint8)
    if panels.numel():
        core.kernel("quantized_pack")((panels, rows), numbers)
    return panels


def scaled(
    scales: core.Tensor, x_scale: float, y_scale: float, bias: core.Tensor | None
) -> tuple[Any, Any]:
    """What sums are multiplied by, and what is added before."""
    both = scales * number(x_scale)
    multiplier = both / number(y_scale)
    return multiplier, F.zeros(both.shape) if bias is None else bias.detach() / both


def channels_of(op: str, weight: core.Tensor) -> tuple[Any, Any]:
    """Scales (float32) and zero points (int32) of a weight, one for each place along its first dimension."""
    quantizer: Quantizer = weight._quantizer
    count = weight.shape[0]
    if quantizer.scheme in PER_CHANNEL:
        if quantizer.axis != 0:
            fail(
                RuntimeError,
                op,
                "a weight quantized along its first dimension was required",
                quantizer.axis,
                hint="quantize_per_channel(..., axis=0)",
            )
        return quantizer.scale.to(core.float32), quantizer.zero_point.to(core.int32)
    scales = F.full((count,), quantizer.scale, dtype=core.float32)
    return scales, F.full((count,), int(quantizer.zero_point), dtype=core.int32)


def bytes_of(op: str, x: Any) -> tuple[Any, int]:
    """The integers of an activation as unsigned bytes, and their zero point."""
    if not getattr(x, "is_quantized", False):
        fail(
            RuntimeError,
            op,
            "a quantized input was required: expected scalar type QUInt8",
            x.dtype,
            hint="quantize_per_tensor(x, scale, zero_point, facula.quint8) makes one",
        )
    if x.dtype is core.quint8:
        return x._integers, x.q_zero_point()
    if x.dtype is core.qint8:
        return (x._integers.to(core.int16) + 128).to(core.uint8), x.q_zero_point() + 128
    fail(
        RuntimeError,
        op,
        "an input of dtype quint8 or qint8 was required",
        x.dtype,
        hint="requantize with quantize_per_tensor(x.dequantize(), ...)",
    )


def checked_output(op: str, scale: object, zero_point: object, kind: core.dtype) -> Quantizer:
    """The quantizer of a result."""
    # lazily: it imports the modules that this one is below
    from facula.quantization.create import checked_quantizer

    return checked_quantizer(op, scale, zero_point, kind)


def finished(
    totals: Any,
    x_scale: float,
    scales: Any,
    bias: Any,
    quantizer: Quantizer,
    kind: object,
    low: int | None = None,
    high: int | None = None,
) -> Any:
    """Integers of dtype `kind` (and not below `low`) out of sums [rows, results]."""
    multiplier, shift = scaled(scales, x_scale, quantizer.scale, bias)
    kept, least, most = RANGES[kind]
    out = core.empty(totals.shape, dtype=kept)
    if out.numel():
        least = least if low is None else max(least, low)
        limits = (float(quantizer.zero_point), float(least), float(most if high is None else high))
        columns = totals.shape[-1]
        core.kernel(f"requantize:{kept.code}")(
            (out, totals, multiplier, shift),
            (columns, columns, columns),
            limits,
            total=totals.numel() // columns,
            grain=max(1, 16384 // columns),
        )
    return out


def quantized(integers: core.Tensor, kind: core.dtype, scale: float, zero_point: int) -> Any:
    """The tensor that integers and the parameters of a result make."""
    return wrap(integers, kind, Quantizer(per_tensor_affine, float(scale), int(zero_point)))
