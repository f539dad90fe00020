"""Operators: sampling an image at the places that a grid names, and grids from affine maps.

Takes `[N, C, *spatial]` with two or three spatial dimensions, and grids `[N, *out, dims]`, x first,
-1 and 1 being the edges. `grid_sampler` is differentiated in the input and in the grid.
Keeps true: places outside follow the padding mode; half precision is computed in float32.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.conv.pool import full
from facula.ops.table.registry import F, composite, operator

GRAIN = 16384


SAMPLE_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


def _grid_numbers(
    x_shape: Any, grid: core.Tensor, mode: int, padding: int, align: bool
) -> tuple[int, ...]:
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


def _grid_rows(grid: core.Tensor) -> int:
    return math.prod(grid.shape[:-2])


@operator(
    "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool "
    "align_corners) -> Tensor",
    names=("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    out=False,
    autocast="cpu float32",
)
class GridSampler:
    """Samples of `[N, C, *spatial]` at the places of `grid` `[N, *out, dims]`, x first, -1 and 1
    being the edges.

    interpolation_mode: 0 linear, 1 nearest, 2 cubic; padding_mode: 0 zeros, 1 border, 2 reflection.
    """

    vmap = "fold"
    quantized = "averages"

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


def _check_sampled(input: core.Tensor, grid: core.Tensor, mode: int, op: str, space: int) -> None:
    if input.dtype is not grid.dtype:
        fail(
            RuntimeError,
            op,
            "expected input and grid to have same dtype",
            f"input with {input.dtype} and grid with {grid.dtype}",
            hint=cast_hint("grid", input.dtype),
        )
    if 0 in input.shape[2:]:
        fail(
            RuntimeError,
            op,
            "expected input to have non-empty spatial dimensions",
            list(input.shape),
            hint="an empty image has nothing to sample",
        )
    if mode == 2 and space != 2:
        fail(
            RuntimeError,
            op,
            "bicubic interpolation only supports 4D input",
            f"{input.dim()}D",
            hint="mode='bilinear' takes 5D inputs",
        )


def _check_grid(input: core.Tensor, grid: core.Tensor, mode: int) -> None:
    op, space = "grid_sampler", input.dim() - 2
    if space not in (2, 3) or grid.dim() != input.dim():
        fail(
            RuntimeError,
            op,
            "expected 4D or 5D input and grid with same number of dimensions",
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
            hint="input is [N, C, H, W] with grid [N, H', W', 2], or [N, C, D, H, W] with [N, D', "
            "H', W', 3]",
        )
    if input.shape[0] != grid.shape[0]:
        fail(
            RuntimeError,
            op,
            "expected grid and input to have same batch size",
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
            hint="expand() repeats a batch of 1",
        )
    if grid.shape[-1] != space:
        fail(
            RuntimeError,
            op,
            f"expected grid to have size {space} in last dimension",
            list(grid.shape),
            hint=f"it holds {'x, y' if space == 2 else 'x, y, z'}",
        )
    _check_sampled(input, grid, mode, op, space)


def _in_float(*tensors: Any) -> list[Any]:
    """Contiguous tensors; half precision as float32."""
    half = (core.bfloat16, core.float16)
    return [(t.to(core.float32) if t.dtype in half else t).contiguous() for t in tensors]


@operator(
    "_grid_sampler_grad_input(Tensor grad_out, Tensor grid, int[] shape, int mode, int padding, "
    "bool align_corners) -> Tensor",
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

    def backward(grad, grad_out, grid, mode, padding, align_corners, needs):
        to_grad = to_grid = None
        if needs[0]:
            to_grad = F.grid_sampler(grad, grid, mode, padding, align_corners)
        if needs[1]:  # <w, scatter(g)> is <sample(w), g>: the roles of image and gradient swap
            to_grid = F._grid_sampler_grad_grid(grad_out, grad, grid, mode, padding, align_corners)
        return to_grad, to_grid


@operator(
    "_grid_sampler_grad_grid(Tensor grad_out, Tensor input, Tensor grid, int mode, int padding, "
    "bool align_corners) -> Tensor",
    names=(),
    out=False,
)
class GridSamplerGradGrid:
    """The gradient of grid sampling in the grid."""

    vmap = "fold"

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

    def backward(grad, grad_out, input, grid, mode, padding, align_corners, needs):
        # lazily: import reads little code
        from facula.ops.conv.grid_sample_second import second_gradients

        return second_gradients(grad, grad_out, input, grid, mode, padding, align_corners)


@composite(
    "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? "
    "align_corners=None) "
    "-> Tensor",
    names=("nn.functional.grid_sample",),
    autocast="cpu float32",
    inlined=True,
)
def grid_sample(input, grid, mode, padding_mode, align_corners):
    """Samples of `[N, C, *spatial]` at the places of `grid` `[N, *out, dims]` (x first; -1 and 1
    are the edges).

    Example:
        >>> input = facula.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> grid = facula.tensor([[[[0.0, 0.0], [1.0, 1.0]]]])
        >>> facula.nn.functional.grid_sample(input, grid, align_corners=True)
        tensor([[[[2.5000, 4.0000]]]])
    """
    if mode not in SAMPLE_MODES:
        fail(
            ValueError,
            "grid_sample",
            "mode to be 'bilinear', 'nearest' or 'bicubic' was required",
            repr(mode),
            hint="mode='bilinear' is the default",
        )
    if padding_mode not in PADDINGS:
        fail(
            ValueError,
            "grid_sample",
            "padding_mode to be 'zeros', 'border', or 'reflection' was required",
            repr(padding_mode),
            hint="padding_mode='zeros' is the default",
        )
    result = F.grid_sampler(
        input, grid, SAMPLE_MODES[mode], PADDINGS[padding_mode], bool(align_corners)
    )
    if align_corners is None:
        _warn_of_default("grid_sample")
    return result


def _warn_of_default(op: str) -> None:
    """Say what is done where a program does not: earlier versions of PyTorch did something else."""
    core.unkept()  # each call warns
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0: pass "
        f"align_corners to say which. See the documentation of {op} for details.",
        stacklevel=3,
    )


def _check_affine(theta: Any, size: Any, op: str, space: int) -> None:
    if not theta.dtype.is_floating_point:
        fail(
            ValueError,
            op,
            "Expected theta to have floating point type",
            theta.dtype,
            hint="convert it with .float()",
        )
    if space not in (2, 3):
        fail(
            NotImplementedError,
            op,
            "sizes of 4 or 5 numbers were required",
            list(size),
            hint="for example size=(1, 3, 8, 8) for an image",
        )
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (space, space + 1):
        fail(
            ValueError,
            op,
            f"Expected a batch of {space}D affine matrices of shape Nx{space}x{space + 1} for size "
            f"{list(size)}",
            list(theta.shape),
            hint="theta[None] adds a batch dimension to a single matrix",
        )
    if min(size) <= 0:
        fail(
            ValueError,
            op,
            "Expected non-zero, positive output size",
            list(size),
            hint="size is [N, C, *spatial] of what is sampled",
        )


@composite(
    "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
    names=("nn.functional.affine_grid", "affine_grid_generator"),
    inlined=True,
)
def affine_grid(theta, size, align_corners):
    """Places for `grid_sample` from affine maps `[N, 2, 3]` (size N C H W) or `[N, 3, 4]` (size N
    C D H W).

    Example:
        >>> theta = facula.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> facula.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    op, space = "affine_grid", len(size) - 2
    _check_affine(theta, size, op, space)
    if align_corners is None:
        _warn_of_default(op)
    axes = [_axis(n, theta, bool(align_corners)) for n in size[2:]]
    spread = [
        axis.reshape([-1 if e == d else 1 for e in range(space)]) for d, axis in enumerate(axes)
    ]
    one = F.ones(list(size[2:]), dtype=theta.dtype, device=theta.device)
    base = F.stack([axis * one for axis in reversed(spread)] + [one], -1)
    places = base.reshape((1, -1, space + 1)) @ theta.transpose(-2, -1)
    return places.reshape((theta.shape[0], *size[2:], space))


def _axis(count: int, theta: Any, align_corners: bool) -> Any:
    """Equally spaced places from -1 to 1: at the edges' samples, or at the middle of each cell."""
    if count <= 1:
        return F.zeros((count,), dtype=theta.dtype, device=theta.device)
    edges = F.linspace(-1.0, 1.0, count, dtype=theta.dtype, device=theta.device)
    if align_corners:
        return edges
    # In PyTorch's order of rounding: the identity puts places on samples, where a gradient jumps.
    return edges * (count - 1) / count
