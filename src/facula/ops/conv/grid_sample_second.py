"""The gradient of grid sampling's gradient in the grid, as a formula over operators.

Takes what `_grid_sampler_grad_grid` took and the gradient of its result. Gives the gradients of its
arguments. Keeps true: taps, weights and padding are those of the kernels (`kernels/vision/grid_sample`);
weights are polynomials of the operators, so that the third derivative follows.

Along each dimension a place has a few taps with weights w; w' and w'' are the weights' derivatives in
the grid's coordinate (padding only scales them: its slope is constant almost everywhere).
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from facula import core
from facula.ops.table.registry import F

__all__ = ["second_gradients"]

_CUBIC = -0.75
NEAREST, CUBIC = 1, 2


class _Line(NamedTuple):
    """The taps of all places along one dimension: per tap a position, weight, slope and curvature."""

    at: list[Any]
    weight: list[Any]
    slope: list[Any]
    curve: list[Any]


def _folded(x: core.Tensor, padding: int, size: int, align: bool) -> tuple[Any, Any]:
    """Positions after padding, and the slope of that, 1, 0 or -1."""
    slope = F.ones_like(x)
    if padding == 2:
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if span <= 0:
            return F.zeros_like(x), F.zeros_like(x)
        x = x - low
        slope = F.where(x < 0, -slope, slope)
        x = x.abs()
        odd = F.remainder(F.floor(x / span), 2) != 0
        rest = F.fmod(x, span)
        x = F.where(odd, span - rest, rest) + low
        slope = F.where(odd, -slope, slope)
    if padding != 0:
        limit = size - 1.0
        slope = F.where((x <= 0) | (x >= limit), F.zeros_like(slope), slope)
        x = x.clamp(0.0, limit)
    return x, slope


def _usable(x: core.Tensor) -> Any:
    """Far away, infinite and undefined positions are outside on every side."""
    return F.where((x > -1e9) & (x < 1e9), x, F.full_like(x, -100.0))


def _cubic_line(x: core.Tensor, step: float, padding: int, size: int, align: bool) -> _Line:
    a, x = _CUBIC, _usable(x)
    base = F.floor(x.detach())
    t = x - base
    weight, slope, curve = [], [], []
    # the distance of each tap, and the sign with which the place's movement changes it
    for distance, sign, far in ((t + 1, 1, 1), (t, 1, 0), (1 - t, -1, 0), (2 - t, -1, 1)):
        d = distance
        if far:
            weight.append(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
            slope.append(((3 * a * d - 10 * a) * d + 8 * a) * (sign * step))
            curve.append((6 * a * d - 10 * a) * step**2)
        else:
            weight.append(((a + 2) * d - (a + 3)) * d * d + 1)
            slope.append((3 * (a + 2) * d - 2 * (a + 3)) * d * (sign * step))
            curve.append((6 * (a + 2) * d - 2 * (a + 3)) * step**2)
    at = [_usable(_folded(base + (k - 1), padding, size, align)[0]) for k in range(4)]
    return _Line(at, weight, slope, curve)


def _linear_line(x: core.Tensor, step: float, padding: int, size: int, align: bool) -> _Line:
    x, fold = _folded(x, padding, size, align)
    x, slope = _usable(x), fold.detach() * step
    base = F.floor(x.detach())
    part, none = x - base, F.zeros_like(slope)
    return _Line([base, base + 1], [1 - part, part], [-slope, slope], [none, none])


def _unit(p: core.Tensor, size: int, align: bool, space: int) -> Any:
    """Places counted in samples, rounded as the kernels round them."""
    if align:
        return (p + 1) / 2 * (size - 1)
    if space == 2 and p.dtype is not core.float64:
        return ((p + 1).to(core.float64) * (size / 2) - 0.5).to(p.dtype)
    return ((p + 1) * size - 1) / 2


def _line(p: core.Tensor, mode: int, padding: int, size: int, align: bool, space: int) -> _Line:
    step = (size - 1) / 2 if align else size / 2
    x = _unit(p, size, align, space)
    make = _cubic_line if mode == CUBIC else _linear_line
    return make(x, step, padding, size, align)


def _product(factors: list[Any]) -> Any:
    return math.prod(factors[1:], start=factors[0])


def _derivative(lines: list[_Line], tap: tuple[int, ...], along: tuple[int, ...]) -> Any:
    """A tap's weight, differentiated once for each dimension in `along`."""
    factors = []
    for d, (line, k) in enumerate(zip(lines, tap, strict=True)):
        order = along.count(d)
        factors.append((line.weight, line.slope, line.curve)[order][k])
    return _product(factors)


def _offsets(lines: list[_Line], tap: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[Any, Any]:
    """Where a tap lies in the image, and whether it lies inside."""
    offset = inside = None
    for line, k, size in zip(lines, tap, sizes, strict=True):
        at = line.at[k].detach().to(core.int64)
        good = (at >= 0) & (at < size)
        at = at.clamp(0, size - 1)
        offset = at if offset is None else offset * size + at
        inside = good if inside is None else inside & good
    return offset, inside


def second_gradients(
    grad: core.Tensor,
    grad_out: core.Tensor,
    input: core.Tensor,
    grid: core.Tensor,
    mode: int,
    padding: int,
    align: bool,
) -> tuple[Any, Any, Any]:
    """The gradients of `sum(grad * grid gradient)` in the outer gradient, the image and the grid."""
    if mode == NEAREST:
        return tuple(F.zeros_like(t) for t in (grad_out, input, grid))
    batch, channels = input.shape[:2]
    sizes, places = tuple(input.shape[2:]), tuple(grid.shape[1:-1])
    space = len(sizes)
    # the grid names x first, the image ends with it
    lines = [
        _line(grid.select(-1, space - 1 - d), mode, padding, sizes[d], align, space)
        for d in range(space)
    ]
    v = [grad.select(-1, space - 1 - d) for d in range(space)]
    image = input.reshape((batch, channels, -1))
    g = grad_out.reshape((batch, channels, -1))
    to_out, to_image, to_line = F.zeros_like(g), F.zeros_like(image), [0.0] * space
    for tap in itertools.product(*(range(len(line.at)) for line in lines)):
        offset, inside = _offsets(lines, tap, sizes)
        where = offset.reshape((batch, 1, -1)).expand((batch, channels, offset[0].numel()))
        x = image.gather(2, where) * inside.reshape((batch, 1, -1))
        along = _product_sum(v, [_derivative(lines, tap, (d,)) for d in range(space)]) * inside
        flat = along.reshape((batch, 1, -1))
        to_out = to_out + x * flat
        to_image = F.scatter_add(to_image, 2, where, g * flat)
        seen = (g * x).sum(1).reshape((batch, *places))
        for e in range(space):
            bent = _product_sum(v, [_derivative(lines, tap, (d, e)) for d in range(space)])
            to_line[e] = to_line[e] + seen * bent
    to_grid = F.stack(list(reversed(to_line)), -1)
    return to_out.reshape(grad_out.shape), to_image.reshape(input.shape), to_grid


def _product_sum(left: list[Any], right: list[Any]) -> Any:
    terms = [a * b for a, b in zip(left, right, strict=True)]
    return sum(terms[1:], terms[0])
