"""Operators: interpolation, grid sampling, sliding windows as columns, rearrangement of pixels.

Takes `[N, C, *spatial]`, contiguous or channels last. Primitives: `_resample` (all separable interpolations) and its
transpose, `_grid_sample` with its two gradients, `im2col` and `col2im` (each the other's transpose).
Keeps true: positions and weights follow PyTorch's rules for align_corners and scale factors; whole numbers are resampled
by copies (nearest) or rounded and clamped (the rest); half precision is computed in float32; results do not depend on the
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.pool import full, like, planes, same_order
from facula.ops.registry import F, composite, operator

#: mode -> (method of the kernel, admitted numbers of spatial dimensions)
MODES = {
    "nearest": (0, (1, 2, 3)),
    "nearest-exact": (1, (1, 2, 3)),
    "linear": (2, (1,)),
    "bilinear": (2, (2,)),
    "trilinear": (2, (3,)),
    "bicubic": (3, (2,)),
}
GRAIN = 16384


def _order(x: Any, space: int) -> bool:
    """Whether a tensor lies channels last and not contiguous."""
    if space not in (2, 3) or x.dim() != space + 2 or x.is_contiguous():
        return False
    return x.is_contiguous(memory_format=core.channels_last if space == 2 else core.channels_last_3d)


def _launch(kernel: str, out: Any, x: Any, outer: Any, inner: Any, call: tuple[Any, ...], last: bool) -> None:
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


@operator(
    "_resample(Tensor self, int[] sizes, int method, bool align_corners, bool antialias, float[] scales) -> Tensor",
    names=(),
    out=False,
)
class Resample:
    """Separable interpolation to `sizes`; method: see `MODES`; scales: 0 where sizes alone give the scale."""

    def meta(self, sizes, method, align_corners, antialias, scales):
        space = len(sizes)
        return like(self, (*self.shape[: self.dim() - space], *sizes), space)

    def cpu(out, self, sizes, method, align_corners, antialias, scales):
        if not out.numel():
            return
        space = len(sizes)
        last = _order(self, space)
        x = self if last else self.contiguous()
        outer = x.shape[x.dim() - space :]
        call = (method, align_corners, antialias, scales)
        if method < 2:
            if x.dtype.itemsize == 16:  # no kernel moves sixteen bytes: pairs of float64 are one more channel
                out.copy_(F.view_as_complex(_by_parts(F.view_as_real(x), sizes, call)))
                return
            _launch(f"resample.nearest:b{x.dtype.itemsize}", out, x, outer, sizes, call, last)
        elif x.dtype.is_floating_point:
            _launch(f"resample{'.last' if last else ''}:{x.dtype.code}", out, x, outer, sizes, call, last)
        else:
            smooth = F._resample(x.to(core.float32), sizes, method, align_corners, antialias, scales)
            limits = core.iinfo(x.dtype)
            out.copy_(smooth.round().clamp(limits.min, limits.max))

    def backward(grad, self_meta, sizes, method, align_corners, antialias, scales):
        before = list(self_meta.shape[-len(sizes) :])
        return F._resample_backward(grad, before, method, align_corners, antialias, scales)

    def samples(S):
        yield (S(1, 2, 5, 6), [7, 3], 2, False, False, [0.0, 0.0]), {}
        yield (S(1, 2, 5, 6), [7, 3], 3, True, False, [0.0, 0.0]), {}
        yield (S(1, 2, 5, 6), [3, 9], 2, False, True, [0.0, 0.0]), {}
        yield (S(1, 2, 5), [10], 0, False, False, [2.0]), {}


def _by_parts(x: Any, sizes: Any, call: tuple[Any, ...]) -> Any:
    """Resample `[N, C, *spatial, 2]` as twice the channels."""
    parts = x.movedim(-1, 0).contiguous()
    result = F._resample(parts.reshape((-1, *parts.shape[2:])), sizes, *call)
    return result.reshape((2, *x.shape[: x.dim() - 1 - len(sizes)], *sizes)).movedim(0, -1).contiguous()


@operator(
    "_resample_backward(Tensor grad, int[] sizes, int method, bool align_corners, bool antialias, float[] scales) -> Tensor",
    names=(),
    out=False,
)
class ResampleBackward:
    """The transpose of `_resample`: back to the input's `sizes`."""

    def meta(grad, sizes, method, align_corners, antialias, scales):
        shape = (*grad.shape[: grad.dim() - len(sizes)], *sizes)
        return core.empty(shape, dtype=grad.dtype, device=grad.device)

    def cpu(out, grad, sizes, method, align_corners, antialias, scales):
        half = grad.dtype in (core.bfloat16, core.float16)
        given = grad.to(core.float32).contiguous() if half else grad.contiguous()
        target = core.empty(out.shape, dtype=core.float32) if half else out
        if out.numel() and not given.numel():
            out.zero_()
            return
        call = (method, align_corners, antialias, scales)
        after = grad.shape[grad.dim() - len(sizes) :]
        _launch(f"resample.grad:{given.dtype.code}", target, given, sizes, after, call, False)
        if half:
            out.copy_(target)

    def backward(grad, grad_shape, sizes, method, align_corners, antialias, scales):
        after = list(grad_shape[-len(sizes) :])
        return F._resample(grad, after, method, align_corners, antialias, scales)


def _numbers_of(value: Any, space: int, name: str) -> list[Any] | None:
    if value is None:
        return None
    values = list(value) if isinstance(value, (tuple, list)) else [value] * space
    if len(values) != space:
        fail(
            ValueError,
            "interpolate",
            f"Input and output must have the same number of spatial dimensions: {name} of {space} numbers was required",
            values,
            f"give one number, or {space}",
        )
    return values


@composite(
    "interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None, "
    "bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
    names=("nn.functional.interpolate",),
)
def interpolate(
    input: Any,
    size: Any,
    scale_factor: Any,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
    antialias: bool,
) -> Any:
    """Resample `[N, C, *spatial]` to `size`, or to the sizes times `scale_factor` rounded down.

    mode: nearest, nearest-exact, linear (1 spatial dimension), bilinear, bicubic (2), trilinear (3), area.
    align_corners: corner samples keep their places (linear and cubic modes). antialias: widen the filter when shrinking
    (bilinear and bicubic).
    """
    op, space = "interpolate", input.dim() - 2
    if space not in (1, 2, 3):
        fail(NotImplementedError, op, "a 3D, 4D or 5D input was required", f"{input.dim()}D")
    if mode != "area" and (mode not in MODES or space not in MODES[mode][1]):
        fail(
            NotImplementedError,
            op,
            f"a mode for {input.dim()}D input was required (nearest, nearest-exact, area; linear for 3D, bilinear and "
            "bicubic for 4D, trilinear for 5D)",
            mode,
        )
    _check_options(mode, align_corners, antialias, size, scale_factor, recompute_scale_factor)
    factors = _numbers_of(scale_factor, space, "scale_factor")
    sizes = _numbers_of(size, space, "size")
    if sizes is None:
        sizes = [
            int(math.floor(float(s) * float(f))) for s, f in zip(input.shape[2:], factors, strict=True)
        ]
    sizes = [int(s) for s in sizes]
    if min(sizes) < 1 or 0 in input.shape[1:]:
        fail(
            RuntimeError,
            op,
            "Input and output sizes should be greater than 0",
            f"input {list(input.shape[2:])}, output {sizes}",
        )
    if mode == "area":
        return F._adaptive_avg_pool(input, sizes)
    scales = [0.0] * space
    if factors is not None and not recompute_scale_factor:
        scales = [float(f) for f in factors]
    return F._resample(input, sizes, MODES[mode][0], bool(align_corners), antialias, scales)


def _check_options(
    mode: str, align_corners: Any, antialias: bool, size: Any, scale_factor: Any, recompute: Any
) -> None:
    """Raise for options that do not go together."""
    op = "interpolate"
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        fail(
            ValueError,
            op,
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear",
            f"mode={mode}",
        )
    if (size is None) == (scale_factor is None):
        fail(
            ValueError,
            op,
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined",
        )
    if recompute and size is not None:
        fail(ValueError, op, "recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and mode not in ("bilinear", "bicubic"):
        fail(
            ValueError,
            op,
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input",
            f"mode={mode}",
        )


@composite(
    "upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? align_corners=None) -> Tensor",
    names=("nn.functional.upsample",),
)
def upsample(input: Any, size: Any, scale_factor: Any, mode: str, align_corners: Any) -> Any:
    """The older name of `interpolate`."""
    return F.interpolate(input, size, scale_factor, mode, align_corners)


@composite(
    "upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor",
    names=("nn.functional.upsample_nearest",),
)
def upsample_nearest(input: Any, size: Any, scale_factor: Any) -> Any:
    """`interpolate` in mode nearest."""
    return F.interpolate(input, size, scale_factor, "nearest")


@composite(
    "upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor",
    names=("nn.functional.upsample_bilinear",),
)
def upsample_bilinear(input: Any, size: Any, scale_factor: Any) -> Any:
    """`interpolate` in mode bilinear with aligned corners."""
    return F.interpolate(input, size, scale_factor, "bilinear", True)


def columns(
    op: str, sizes: Sequence[int], window: tuple[Sequence[int], ...]
) -> list[int]:
    """How many positions a sliding window takes along each dimension."""
    kernel, dilation, padding, stride = window
    for name, values, least in (
        ("kernel size should be greater than zero", kernel, 1),
        ("dilation should be greater than zero", dilation, 1),
        ("padding should be non-negative", padding, 0),
        ("stride should be greater than zero", stride, 1),
    ):
        if min(values) < least:
            fail(RuntimeError, op, name, list(values))
    counts = [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, d, p, t in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    if min(counts) < 1:
        fail(
            RuntimeError,
            op,
            f"an image at least as large as the window was required: calculated shape of the array of sliding blocks is "
            f"{counts}, but its components must be at least one",
            list(sizes),
        )
    return counts


def _window_numbers(
    count: int, sizes: Any, counts: Sequence[int], window: tuple[Sequence[int], ...]
) -> tuple[int, ...]:
    kernel, dilation, padding, stride = window
    return (count, *sizes, *counts, *kernel, *dilation, *padding, *stride)


@operator(
    "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    names=("nn.functional.unfold",),
    out=False,
)
class Im2Col:
    """Sliding windows as columns: `[N, C, H, W]` to `[N, C * kh * kw, positions]`; without N too."""

    def meta(input, kernel_size, dilation, padding, stride):
        if input.dim() not in (3, 4) or 0 in input.shape[input.dim() - 3 :]:
            fail(
                RuntimeError,
                "unfold",
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input",
                list(input.shape),
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
        if x.dtype.itemsize == 16:  # no kernel moves sixteen bytes: real and imaginary parts one after the other
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
    "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) "
    "-> Tensor",
    names=("nn.functional.fold",),
    out=False,
)
class Col2Im:
    """Columns added up where their windows stood: `[N, C * kh * kw, positions]` to `[N, C, H, W]`; without N too."""

    def meta(input, output_size, kernel_size, dilation, padding, stride):
        taps = math.prod(kernel_size)
        if input.dim() not in (2, 3) or 0 in input.shape[input.dim() - 2 :]:
            fail(
                RuntimeError,
                "fold",
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions",
                list(input.shape),
            )
        counts = columns("fold", output_size, (kernel_size, dilation, padding, stride))
        if input.shape[-2] % taps:
            fail(
                RuntimeError,
                "fold",
                "Expected size of input's dimension 1 to be divisible by the product of kernel_size",
                f"{input.shape[-2]} and kernel_size={list(kernel_size)}",
            )
        if input.shape[-1] != math.prod(counts):
            fail(
                RuntimeError,
                "fold",
                f"expected size of input's last dimension to match the calculated number of sliding blocks "
                f"{' * '.join(map(str, counts))} = {math.prod(counts)}",
                input.shape[-1],
            )
        shape = (*input.shape[: input.dim() - 2], input.shape[-2] // taps, *output_size)
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, output_size, kernel_size, dilation, padding, stride):
        window = (kernel_size, dilation, padding, stride)
        if input.dtype.is_complex:
            parts = [F.col2im(part, output_size, *window) for part in (F.real(input), F.imag(input))]
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


SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def _grid_numbers(x_shape: Any, grid: Any, mode: int, padding: int, align: bool) -> tuple[int, ...]:
    space = grid.dim() - 2
    return (
        *x_shape[:2],
        *full(x_shape[2:]),
        *full(grid.shape[1:-1]),
        space,
        mode,
        padding,
        int(align),
    )


def _grid_rows(grid: Any) -> int:
    return math.prod(grid.shape[:-2])


@operator(
    "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
    names=("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    out=False,
)
class GridSampler:
    """Samples of `[N, C, *spatial]` at the places of `grid` `[N, *out, dims]`, x first, -1 and 1 being the edges.

    interpolation_mode: 0 linear, 1 nearest, 2 cubic; padding_mode: 0 zeros, 1 border, 2 reflection.
    """

    def meta(input, grid, interpolation_mode, padding_mode, align_corners):
        _check_grid(input, grid, interpolation_mode)
        shape = (*input.shape[:2], *grid.shape[1:-1])
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, grid, interpolation_mode, padding_mode, align_corners):
        numbers = _grid_numbers(input.shape, grid, interpolation_mode, padding_mode, align_corners)
        core.kernel(f"grid_sample:{input.dtype.code}")(
            (out, input.contiguous(), grid.contiguous()),
            numbers,
            (),
            total=_grid_rows(grid) if out.numel() else 0,
            grain=max(1, GRAIN // max(1, 4 * numbers[1] * numbers[7])),
        )

    def backward(grad, input, grid, interpolation_mode, padding_mode, align_corners, needs):
        call = (interpolation_mode, padding_mode, align_corners)
        to_input = to_grid = None
        if needs[0]:
            to_input = F._grid_sampler_grad_input(grad, grid, list(input.shape), *call)
        if needs[1]:
            to_grid = F._grid_sampler_grad_grid(grad, input, grid, *call)
        return to_input, to_grid

    def samples(S):
        for mode in (0, 2):
            for padding in (0, 1, 2):
                yield (S(2, 3, 5, 6), S(2, 4, 3, 2) * 0.9, mode, padding, padding == 1), {}
        yield (S(1, 2, 3, 4, 5), S(1, 2, 3, 2, 3) * 0.9, 0, 0, False), {}


def _check_grid(input: Any, grid: Any, mode: int) -> None:
    op, space = "grid_sampler", input.dim() - 2
    if space not in (2, 3) or grid.dim() != input.dim():
        fail(
            RuntimeError,
            op,
            "expected 4D or 5D input and grid with same number of dimensions",
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
        )
    if grid.shape[-1] != space:
        fail(RuntimeError, op, f"expected grid to have size {space} in last dimension", list(grid.shape))
    if input.shape[0] != grid.shape[0]:
        fail(
            RuntimeError,
            op,
            "expected grid and input to have same batch size",
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
        )
    if input.dtype is not grid.dtype:
        fail(
            RuntimeError,
            op,
            "expected input and grid to have same dtype",
            f"input with {input.dtype} and grid with {grid.dtype}",
        )
    if 0 in input.shape[2:]:
        fail(RuntimeError, op, "expected input to have non-empty spatial dimensions", list(input.shape))
    if mode == 2 and space != 2:
        fail(RuntimeError, op, "bicubic interpolation only supports 4D input", f"{input.dim()}D")


def _in_float(*tensors: Any) -> list[Any]:
    """Contiguous tensors; half precision as float32."""
    half = (core.bfloat16, core.float16)
    return [(t.to(core.float32) if t.dtype in half else t).contiguous() for t in tensors]


@operator(
    "_grid_sampler_grad_input(Tensor grad, Tensor grid, int[] shape, int mode, int padding, bool align_corners) -> Tensor",
    names=(),
    out=False,
)
class GridSamplerGradInput:
    """The transpose of grid sampling in its input."""

    def meta(grad, grid, shape, mode, padding, align_corners):
        return core.empty(shape, dtype=grad.dtype, device=grad.device)

    def cpu(out, grad, grid, shape, mode, padding, align_corners):
        given, places = _in_float(grad, grid)
        target = out if given.dtype is out.dtype else core.empty(shape, dtype=given.dtype)
        numbers = _grid_numbers(shape, grid, mode, padding, align_corners)
        core.kernel(f"grid_sample.grad.input:{given.dtype.code}")(
            (target, given, places), numbers, (), total=shape[0] * ((shape[1] + 15) // 16)
        )
        if target is not out:
            out.copy_(target)

    def backward(grad, grad_meta, grid, shape, mode, padding, align_corners):
        if grad_meta.requires_grad and grid.requires_grad:
            fail(
                RuntimeError,
                "grid_sampler",
                "derivative for grid_sampler_backward with respect to the grid is not implemented",
                hint="detach the grid for a second derivative",
            )
        return F.grid_sampler(grad, grid, mode, padding, align_corners), None


@operator(
    "_grid_sampler_grad_grid(Tensor grad, Tensor input, Tensor grid, int mode, int padding, bool align_corners) -> Tensor",
    names=(),
    out=False,
)
class GridSamplerGradGrid:
    """The gradient of grid sampling in the grid."""

    def meta(grad, input, grid, mode, padding, align_corners):
        return core.empty(grid.shape, dtype=grid.dtype, device=grid.device)

    def cpu(out, grad, input, grid, mode, padding, align_corners):
        given, x, places = _in_float(grad, input, grid)
        target = out if given.dtype is out.dtype else core.empty(grid.shape, dtype=given.dtype)
        numbers = _grid_numbers(x.shape, grid, mode, padding, align_corners)
        core.kernel(f"grid_sample.grad.grid:{given.dtype.code}")(
            (target, given, x, places), numbers, (), total=_grid_rows(grid)
        )
        if target is not out:
            out.copy_(target)


@composite(
    "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? align_corners=None) "
    "-> Tensor",
    names=("nn.functional.grid_sample",),
)
def grid_sample(
    input: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool | None
) -> Any:
    """Samples of `[N, C, *spatial]` at the places of `grid` `[N, *out, dims]` (x first; -1 and 1 are the edges)."""
    if mode not in SAMPLE_MODES:
        fail(ValueError, "grid_sample", "mode to be 'bilinear', 'nearest' or 'bicubic' was required", repr(mode))
    if padding_mode not in PADDINGS:
        fail(
            ValueError,
            "grid_sample",
            "padding_mode to be 'zeros', 'border', or 'reflection' was required",
            repr(padding_mode),
        )
    return F.grid_sampler(
        input, grid, SAMPLE_MODES[mode], PADDINGS[padding_mode], bool(align_corners)
    )


@composite(
    "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
    names=("nn.functional.affine_grid", "affine_grid_generator"),
)
def affine_grid(theta: Any, size: Any, align_corners: bool | None) -> Any:
    """Places for `grid_sample` from affine maps `[N, 2, 3]` (size N C H W) or `[N, 3, 4]` (size N C D H W)."""
    op, space = "affine_grid", len(size) - 2
    if not theta.dtype.is_floating_point:
        fail(ValueError, op, "Expected theta to have floating point type", theta.dtype)
    if space not in (2, 3):
        fail(NotImplementedError, op, "sizes of 4 or 5 numbers were required", list(size))
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (space, space + 1):
        fail(
            ValueError,
            op,
            f"Expected a batch of {space}D affine matrices of shape Nx{space}x{space + 1} for size {list(size)}",
            list(theta.shape),
        )
    if min(size) <= 0:
        fail(ValueError, op, "Expected non-zero, positive output size", list(size))
    axes = [_axis(n, theta, bool(align_corners)) for n in size[2:]]
    spread = [axis.reshape([-1 if e == d else 1 for e in range(space)]) for d, axis in enumerate(axes)]
    one = F.ones(list(size[2:]), dtype=theta.dtype, device=theta.device)
    base = F.stack([axis * one for axis in reversed(spread)] + [one], -1)
    places = base.reshape((1, -1, space + 1)) @ theta.transpose(-2, -1)
    return places.reshape((theta.shape[0], *size[2:], space))


def _axis(count: int, theta: Any, align_corners: bool) -> Any:
    """Equally spaced places from -1 to 1: at the edges' samples, or at the middle of each cell."""
    if count <= 1:
        return F.zeros((count,), dtype=theta.dtype, device=theta.device)
    steps = F.arange(count, dtype=theta.dtype, device=theta.device)
    if align_corners:
        return steps * (2.0 / (count - 1)) - 1.0
    return (steps * 2.0 + 1.0) / count - 1.0


def _check_factor(op: str, self: Any, factor: int, by: int, least: int) -> None:
    if self.dim() < least:
        fail(RuntimeError, op, f"{op} expects input to have at least {least} dimensions", f"{self.dim()}")
    if factor <= 0:
        fail(RuntimeError, op, f"{op} expects a positive factor", factor)
    if self.shape[-3] % by:
        fail(
            RuntimeError,
            op,
            f"{op} expects its input's 'channel' dimension to be divisible by {by}",
            f"input.size(-3)={self.shape[-3]}",
        )


@composite(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    names=("pixel_shuffle", "nn.functional.pixel_shuffle"),
)
def pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    """Channels become pixels: `[*, C * r * r, H, W]` to `[*, C, H * r, W * r]`."""
    r = upscale_factor
    _check_factor("pixel_shuffle", self, r, r * r, 3)
    *lead, channels, height, width = self.shape
    at = len(lead)
    split = self.reshape((*lead, channels // (r * r), r, r, height, width))
    order = (*range(at), at, at + 3, at + 1, at + 4, at + 2)
    return split.permute(order).reshape((*lead, channels // (r * r), height * r, width * r))


@composite(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    names=("pixel_unshuffle", "nn.functional.pixel_unshuffle"),
)
def pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    """Pixels become channels: `[*, C, H * r, W * r]` to `[*, C * r * r, H, W]`."""
    op, r = "pixel_unshuffle", downscale_factor
    _check_factor(op, self, r, 1, 3)
    *lead, channels, height, width = self.shape
    if height % r or width % r:
        fail(RuntimeError, op, f"height and width divisible by {r} were required", [height, width])
    at = len(lead)
    split = self.reshape((*lead, channels, height // r, r, width // r, r))
    order = (*range(at), at, at + 2, at + 4, at + 1, at + 3)
    return split.permute(order).reshape((*lead, channels * r * r, height // r, width // r))


@composite(
    "channel_shuffle(Tensor self, int groups) -> Tensor",
    names=("channel_shuffle", "nn.functional.channel_shuffle"),
)
def channel_shuffle(self: Any, groups: int) -> Any:
    """Channels in `groups` are dealt out in turn: `[N, g * c, *]` read as `[N, c, g, *]`."""
    if self.dim() < 3:
        fail(RuntimeError, "channel_shuffle", "an input of at least 3 dimensions was required", self.dim())
    if groups <= 0 or self.shape[1] % groups:
        fail(
            RuntimeError,
            "channel_shuffle",
            "Number of channels must be divisible by groups",
            f"{self.shape[1]} channels and {groups} groups",
        )
    split = self.reshape((self.shape[0], groups, self.shape[1] // groups, *self.shape[2:]))
    return split.transpose(1, 2).reshape(self.shape)


__all__ = ["MODES", "columns", "same_order"]
