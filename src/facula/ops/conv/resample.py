"""Operators: interpolation to other sizes.

Takes `[N, C, *spatial]`, contiguous or channels last. `_resample` is every separable interpolation,
and `_resample_backward` its transpose.
Keeps true: positions and weights follow PyTorch's rules for align_corners and scale factors; whole
numbers are resampled by copies (nearest), or with whole weights, rounded and clamped after each dimension;
half precision is computed in float32; results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.conv.pool import dense, full, like, planes
from facula.ops.table.registry import F, composite, operator

#: the method whose weights may be negative
CUBIC = 3
#: mode -> (method of the kernel, admitted numbers of spatial dimensions)
MODES = {
    "nearest": (0, (1, 2, 3)),
    "nearest-exact": (1, (1, 2, 3)),
    "linear": (2, (1,)),
    "bilinear": (2, (2,)),
    "trilinear": (2, (3,)),
    "bicubic": (CUBIC, (2,)),
}


def _launch(
    kernel: str,
    out: core.Tensor,
    x: core.Tensor,
    outer: Any,
    inner: Any,
    call: tuple[Any, ...],
    last: bool,
) -> None:
    """Run a resampling driver between input sizes `outer` and output sizes `inner`."""
    method, align, antialias, scales = call
    space = len(outer)
    numbers = (
        *planes(x.shape, space, last),
        *full(outer),
        *full(inner),
        *full([method] * space, 0),
        int(align),
        int(antialias),
    )
    core.kernel(kernel)((out, x), numbers, tuple(float(s) for s in full(scales, 0)))


def _upsample_node(call: core.NodeCall) -> str:
    """PyTorch has an operator for each way of interpolation and number of dimensions."""
    way, space = call.saved["method"], len(call.saved["sizes"])
    if way == CUBIC:
        name = "Bicubic"
    elif way == MODES["bilinear"][0]:
        name = {1: "Linear", 2: "Bilinear", 3: "Trilinear"}[space]
    else:
        name = "NearestExact" if way else "Nearest"
    return f"Upsample{name}{space}D{'Aa' if call.saved['antialias'] else ''}Backward0"


@operator(
    "_resample(Tensor self, int[] sizes, int method, bool align_corners, bool antialias, float[] "
    "scales) -> Tensor",
    names=(),
    out=False,
    node=_upsample_node,
    file_form="resample",
)
class Resample:
    """Separable interpolation to `sizes`; method: see `MODES`; scales: 0 where sizes alone give
    the scale."""

    vmap = "fold"
    jvp = "linear"

    def meta(self, sizes, method, align_corners, antialias, scales):
        space = len(sizes)
        images = self.dim() in (space + 1, space + 2) and len(scales) == space
        if not images or 0 in self.shape[self.dim() - space :] or any(s < 0 for s in sizes):
            fail(
                RuntimeError,
                "_resample",
                f"images with {space} sizes greater than 0, and a scale for each",
                f"{list(self.shape)} and {list(scales)}",
                hint="nn.functional.interpolate() brings its arguments to this form",
            )
        return like(self, (*self.shape[: self.dim() - space], *sizes), space)

    def cpu(out, self, sizes, method, align_corners, antialias, scales):
        if not out.numel():
            return
        space = len(sizes)
        x, last = dense(self, space)
        outer = x.shape[x.dim() - space :]
        call = (method, align_corners, antialias, scales)
        if method < 2:
            if (
                x.dtype.itemsize == 16
            ):  # no kernel moves sixteen bytes: pairs of float64 are one more channel
                out.copy_(F.view_as_complex(_by_parts(F.view_as_real(x), sizes, call)))
                return
            _launch(f"resample.nearest:b{x.dtype.itemsize}", out, x, outer, sizes, call, last)
        elif x.dtype.is_floating_point:
            _launch(
                f"resample{'.last' if last else ''}:{x.dtype.code}",
                out,
                x,
                outer,
                sizes,
                call,
                last,
            )
        else:
            out.copy_(_in_whole_numbers(x, sizes, call, last))

    def backward(grad, self_meta, sizes, method, align_corners, antialias, scales):
        before = list(self_meta.shape[-len(sizes) :])
        return F._resample_backward(grad, before, method, align_corners, antialias, scales)

    def samples(S):
        yield (S(1, 2, 5, 6), [7, 3], 2, False, False, [0.0, 0.0]), {}
        yield (S(1, 2, 5, 6), [7, 3], 3, True, False, [0.0, 0.0]), {}
        yield (S(1, 2, 5, 6), [3, 9], 2, False, True, [0.0, 0.0]), {}
        yield (S(1, 2, 5), [10], 0, False, False, [2.0]), {}


def _in_whole_numbers(
    x: core.Tensor, sizes: Sequence[int], call: tuple[Any, ...], last: bool
) -> Any:
    """Resample bytes in one dimension after the other, the last one first, and round after each:
    PyTorch makes images of bytes so."""
    method, align_corners, antialias, scales = call
    space = len(sizes)
    lead = x.dim() - space
    batch, channels = planes(x.shape, space, last)
    for k in reversed(range(space)):
        shape = [*x.shape[: lead + k], sizes[k], *x.shape[lead + k + 1 :]]
        if shape[lead + k] == x.shape[lead + k]:
            continue
        made = like(x, shape, space) if last else x.new_empty(shape)
        rows = batch * math.prod(shape[lead : lead + k])
        behind = math.prod(shape[lead + k + 1 :]) * channels
        numbers = (rows, 1, 1, x.shape[lead + k], behind, 1, sizes[k], behind)
        options = (0, method, 0, int(align_corners), int(antialias))
        core.kernel("resample.whole:u8")(
            (made, x), (*numbers, *options), (0.0, float(scales[k]), 0.0)
        )
        x = made
    return x


def _by_parts(x: core.Tensor, sizes: Sequence[int], call: tuple[Any, ...]) -> Any:
    """Resample `[N, C, *spatial, 2]` as twice the channels."""
    parts = x.movedim(-1, 0).contiguous()
    result = F._resample(parts.reshape((-1, *parts.shape[2:])), sizes, *call)
    return (
        result.reshape((2, *x.shape[: x.dim() - 1 - len(sizes)], *sizes))
        .movedim(0, -1)
        .contiguous()
    )


@operator(
    "_resample_backward(Tensor grad_out, int[] sizes, int method, bool align_corners, "
    "bool antialias, float[] scales) -> Tensor",
    names=(),
    out=False,
)
class ResampleBackward:
    """The transpose of `_resample`: back to the input's `sizes`."""

    vmap = "fold"
    jvp = "linear"

    def meta(grad, sizes, method, align_corners, antialias, scales):
        shape = (*grad.shape[: grad.dim() - len(sizes)], *sizes)
        return like(grad, shape, len(sizes))

    def cpu(out, grad, sizes, method, align_corners, antialias, scales):
        half = grad.dtype in (core.bfloat16, core.float16)
        given = grad.to(core.float32).contiguous() if half else grad.contiguous()
        direct = out.is_contiguous() and not half
        target = out if direct else core.empty(out.shape, dtype=given.dtype)
        if out.numel() and not given.numel():
            out.zero_()
            return
        call = (method, align_corners, antialias, scales)
        after = grad.shape[grad.dim() - len(sizes) :]
        _launch(f"resample.grad:{given.dtype.code}", target, given, sizes, after, call, False)
        if not direct:
            out.copy_(target)

    def backward(grad, grad_out_shape, sizes, method, align_corners, antialias, scales):
        after = list(grad_out_shape[-len(sizes) :])
        return F._resample(grad, after, method, align_corners, antialias, scales)


def _is_whole(value: Any) -> bool:
    """An integer of Python's, NumPy's, a symbol's, or a tensor's."""
    if isinstance(value, core.Tensor):
        return not (value.dtype.is_floating_point or value.dtype.is_complex)
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _numbers_of(value: object, space: int, name: str) -> list[Any] | None:
    if value is None:
        return None
    values = list(value) if isinstance(value, (tuple, list)) else [value] * space
    if name == "size" and not all(map(_is_whole, values)):
        fail(
            TypeError,
            "interpolate",
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
            "int], but got size with types",
            [type(v).__name__ for v in values],
            hint="scale_factor takes numbers with a fraction",
        )
    if len(values) != space:
        fail(
            ValueError,
            "interpolate",
            f"Input and output must have the same number of spatial dimensions: {name} of {space} "
            f"numbers was required",
            values,
            f"give one number, or {space}",
        )
    return values


def _scaled(size: int, factor: float) -> int:
    """A size times a factor, rounded down as floats are; a symbol remains one where whole numbers give the same."""
    if type(size) is int or not math.isfinite(factor):
        return math.floor(float(size) * factor)
    from fractions import Fraction  # brings in four modules, and is needed for symbols only

    near = Fraction(factor).limit_denominator(1024)
    # from a quotient on that is no larger than the factor, products are rounded down to the same number at every size
    if float(near) != factor or near > Fraction(factor):
        return math.floor(float(size) * factor)
    return size * near.numerator // near.denominator


def _check_mode(input: core.Tensor, mode: str, op: str, space: int) -> None:
    if space not in (1, 2, 3):
        fail(
            NotImplementedError,
            op,
            "a 3D, 4D or 5D input was required",
            f"{input.dim()}D",
            hint="shapes are [N, C, *spatial]; unsqueeze(0) adds what is missing in front",
        )
    if mode != "area" and (mode not in MODES or space not in MODES[mode][1]):
        fail(
            NotImplementedError,
            op,
            f"a mode for {input.dim()}D input was required (nearest, nearest-exact, area; linear "
            f"for 3D, bilinear and "
            "bicubic for 4D, trilinear for 5D)",
            mode,
            hint="mode='nearest' takes all of them",
        )


def _check_dtype(dtype: core.dtype, mode: str, op: str) -> None:
    """Raise for whole numbers other than bytes, and for what has no order between two numbers."""
    copied = mode in ("nearest", "nearest-exact", "area")
    if not (dtype.is_floating_point or dtype.is_complex and copied or dtype is core.uint8):
        fail(
            NotImplementedError,
            op,
            f"floats or uint8 were required: {mode!r} is not implemented for '{dtype.type_word}'",
            dtype,
            hint="x.float() converts it",
        )


@composite(
    "interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? "
    "align_corners=None, "
    "bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    names=("nn.functional.interpolate",),
    quantized="averages",
    quantizers={"fx": "shared"},
    inlined=True,
)
def interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    """Resample `[N, C, *spatial]` to `size`, or to the sizes times `scale_factor` rounded down.

    mode: nearest, nearest-exact, linear (1 spatial dimension), bilinear, bicubic (2), trilinear
    (3), area.
    align_corners: corner samples keep their places (linear and cubic modes). antialias: widen the
    filter when shrinking
    (bilinear and bicubic).

    Example:
        >>> input = facula.tensor([[[1.0, 3.0]]])
        >>> facula.nn.functional.interpolate(input, scale_factor=2, mode="linear")
        tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    op, space = "interpolate", input.dim() - 2
    _check_mode(input, mode, op, space)
    _check_dtype(input.dtype, mode, op)
    _check_options(mode, align_corners, antialias, size, scale_factor, recompute_scale_factor)
    factors: Any = _numbers_of(scale_factor, space, "scale_factor")
    sizes = _numbers_of(size, space, "size")
    if sizes is None:
        sizes = [_scaled(s, float(f)) for s, f in zip(input.shape[2:], factors, strict=True)]
    sizes = [s if isinstance(s, int) else int(s) for s in sizes]  # a symbol stays one
    # each alone: the least of two symbols would be a guard that says which one it is
    if any(s < 1 or (type(s) is int and s >= 2**62) for s in sizes) or 0 in input.shape[1:]:
        fail(
            RuntimeError,
            op,
            "Input and output sizes should be greater than 0, and within int64",
            f"input {list(input.shape[2:])}, output {sizes}",
            hint="an empty image cannot be resized; too small a scale_factor leaves nothing of it",
        )
    if mode == "area":
        return F._adaptive_avg_pool(input, sizes)
    scales = [0.0] * space
    if factors is not None and not recompute_scale_factor:
        scales = [float(f) for f in factors]
    return F._resample(input, sizes, MODES[mode][0], bool(align_corners), antialias, scales)


@composite(
    "_upsample_bilinear2d_aa(Tensor self, int[]? output_size, bool align_corners, any scale_factors=None, "
    "float? scales_w=None, *, float? scales_h=None) -> Tensor",
    names=("_upsample_bilinear2d_aa",),
)
def _upsample_bilinear2d_aa(self, output_size, align_corners, scale_factors, scales_w, scales_h):
    """Bilinear interpolation with a filter that widens when shrinking; the size, or both factors."""
    if isinstance(scale_factors, (tuple, list)):
        scales = [float(factor) for factor in scale_factors]
    else:
        scales = [scales_h or scale_factors or 0.0, scales_w or 0.0]
    if output_size is None:
        output_size = [int(n * f) for n, f in zip(self.shape[2:], scales, strict=True)]
    return F._resample(self, list(output_size), MODES["bilinear"][0], align_corners, True, scales)


def _check_options(
    mode: str,
    align_corners: bool | None,
    antialias: bool,
    size: Any,
    scale_factor: Any,
    recompute: Any,
) -> None:
    """Raise for options that do not go together."""
    op = "interpolate"
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        fail(
            ValueError,
            op,
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear",
            f"mode={mode}",
            hint="leave align_corners out",
        )
    if (size is None) == (scale_factor is None):
        fail(
            ValueError,
            op,
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined",
            hint="scale_factor=2 doubles all sizes, size gives them in elements",
        )
    if recompute and size is not None:
        fail(
            ValueError,
            op,
            "recompute_scale_factor is not meaningful with an explicit size.",
            hint="leave recompute_scale_factor out",
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        fail(
            ValueError,
            op,
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input",
            f"mode={mode}",
            hint="leave antialias out",
        )


@composite(
    "upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? "
    "align_corners=None) -> Tensor",
    names=("nn.functional.upsample",),
    quantized="averages",
    inlined=True,
)
def upsample(input, size, scale_factor, mode, align_corners):
    """The older name of `interpolate`."""
    return F.interpolate(input, size, scale_factor, mode, align_corners)


@composite(
    "upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor",
    names=("nn.functional.upsample_nearest",),
    inlined=True,
)
def upsample_nearest(input, size, scale_factor):
    """`interpolate` in mode nearest."""
    return F.interpolate(input, size, scale_factor, "nearest")


@composite(
    "upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor",
    names=("nn.functional.upsample_bilinear",),
    inlined=True,
)
def upsample_bilinear(input, size, scale_factor):
    """`interpolate` in mode bilinear with aligned corners."""
    return F.interpolate(input, size, scale_factor, "bilinear", True)
