"""Oracles of resampled images: matrices of weights for each dimension, and loops over a grid."""

import itertools
import math

import numpy
from of_pools import _parts
from oracle_table import call, oracle


def _cubic(t, sharpness=-0.75):
    """Keys's kernel."""
    t = abs(t)
    if t <= 1:
        return (sharpness + 2) * t**3 - (sharpness + 3) * t**2 + 1
    return sharpness * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def _weights(mode, size, out, scale, align_corners):
    """How much each of `size` elements counts for each of `out`."""
    made = numpy.zeros((out, size))
    for row in range(out):
        if mode == "nearest":
            made[row, min(math.floor(row * scale), size - 1)] = 1
            continue
        if mode == "nearest-exact":
            made[row, min(math.floor((row + 0.5) * scale), size - 1)] = 1
            continue
        if align_corners:
            at = row * (size - 1) / (out - 1) if out > 1 else 0.0
        else:
            at = (row + 0.5) * scale - 0.5
            at = max(at, 0.0) if mode == "linear" else at
        first = math.floor(at)
        near = {first: 1 - (at - first), first + 1: at - first}
        if mode == "cubic":
            near = {first + k: _cubic(at - first - k) for k in (-1, 0, 1, 2)}
        for column, weight in near.items():
            made[row, min(max(column, 0), size - 1)] += weight
    return made


def _smooth(mode, size, out, scale, align_corners):
    """Weights whose kernel is as wide as what an output stands for."""
    made = numpy.zeros((out, size))
    if align_corners:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
    wide = max(scale, 1.0)
    support = (2.0 if mode == "cubic" else 1.0) * wide
    for row in range(out):
        center = scale * (row + 0.5)
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), size)
        for column in range(first, last):
            t = (column - center + 0.5) / wide
            made[row, column] = _cubic(t, -0.5) if mode == "cubic" else max(1 - abs(t), 0)
        made[row] /= made[row].sum()
    return made


KINDS = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


@oracle(
    "interpolate",
    kind="loop",
    factor=256,
    empty=False,
    samples=lambda S: [
        call(S(2, 3, 5), 8),
        call(S(2, 3, 5, 4), (3, 7)),
        call(S(1, 2, 3, 4, 2), scale_factor=2),
        call(S(2, 3, 5, 4), scale_factor=(1.7, 0.6)),
        call(S(2, 3, 7), 3, mode="nearest-exact"),
        call(S(2, 3, 5, 4), (8, 3), mode="nearest-exact"),
        call(S(2, 3, 5), 8, mode="linear"),
        call(S(2, 3, 5), 8, mode="linear", align_corners=True),
        call(S(2, 3, 5), scale_factor=1.7, mode="linear"),
        call(S(2, 3, 5), scale_factor=1.7, mode="linear", recompute_scale_factor=True),
        *[
            call(S(2, 3, 5, 4), (8, 3), mode=mode, align_corners=align)
            for mode in ("bilinear", "bicubic")
            for align in (False, True)
        ],
        *[
            call(S(2, 3, 5, 4), scale_factor=(2.3, 0.7), mode=mode)
            for mode in ("bilinear", "bicubic")
        ],
        *[
            call(S(2, 3, 7, 8), (3, 5), mode=mode, align_corners=False, antialias=True)
            for mode in ("bilinear", "bicubic")
        ],
        call(S(1, 2, 3, 4, 2), (4, 3, 5), mode="trilinear"),
        call(S(1, 2, 3, 4, 2), (4, 3, 5), mode="trilinear", align_corners=True),
        call(S(2, 3, 7), 3, mode="area"),
        call(S(2, 3, 7, 5), (3, 8), mode="area"),
    ],
)
def resampled(
    a,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    n = a.ndim - 2
    if size is None:
        factors = (
            [scale_factor] * n if isinstance(scale_factor, (int, float)) else list(scale_factor)
        )
        sizes = [math.floor(s * f) for s, f in zip(a.shape[2:], factors, strict=True)]
        scales = [1 / f for f in factors]
    else:
        sizes = [size] * n if isinstance(size, int) else list(size)
    if size is not None or recompute_scale_factor:
        scales = [s / o for s, o in zip(a.shape[2:], sizes, strict=True)]
    if mode == "area":
        return _parts(n, lambda values, flat, place: values.mean())(a, sizes)
    weigh = _smooth if antialias else _weights
    for d in range(n):
        matrix = weigh(
            KINDS.get(mode, mode), a.shape[d + 2], sizes[d], scales[d], bool(align_corners)
        )
        a = numpy.moveaxis(numpy.tensordot(matrix, a, (1, d + 2)), 0, d + 2)
    return a


oracle(
    "upsample",
    kind="loop",
    factor=256,
    empty=False,
    samples=lambda S: [
        call(S(2, 3, 5, 4), (8, 3)),
        call(S(2, 3, 5), scale_factor=2, mode="linear"),
        call(S(2, 3, 5, 4), 6, mode="bilinear", align_corners=True),
    ],
)(resampled)
oracle(
    "upsample_nearest",
    kind="loop",
    empty=False,
    samples=lambda S: [call(S(2, 3, 5, 4), (8, 3)), call(S(2, 3, 5), scale_factor=2)],
)(resampled)


@oracle(
    "upsample_bilinear",
    kind="loop",
    factor=256,
    empty=False,
    samples=lambda S: [call(S(2, 3, 5, 4), (8, 3)), call(S(2, 3, 5, 4), scale_factor=2)],
)
def resampled_by_corners(a, size=None, scale_factor=None):
    return resampled(a, size, scale_factor, "bilinear", True)


@oracle(
    "_upsample_bilinear2d_aa",
    kind="loop",
    factor=256,
    empty=False,
    samples=lambda S: [call(S(2, 3, 7, 8), (3, 5), False), call(S(2, 3, 7, 8), (9, 5), True)],
)
def smoothed(a, output_size, align_corners, scale_factors=None):
    return resampled(a, output_size, None, "bilinear", align_corners, None, True)


# grids


@oracle(
    "affine_grid",
    kind="loop",
    factor=64,
    empty=False,
    samples=lambda S: [
        *[call(S(2, 2, 3), [2, 1, 4, 5], align) for align in (False, True)],
        *[call(S(2, 3, 4), [2, 1, 3, 4, 2], align) for align in (False, True)],
        call(S(1, 2, 3), [1, 1, 1, 3], True),
    ],
)
def affine(theta, size, align_corners=False):
    def places(count):
        if align_corners:
            return [2 * i / (count - 1) - 1 if count > 1 else 0.0 for i in range(count)]
        return [(2 * i + 1) / count - 1 for i in range(count)]

    n = len(size) - 2
    made = numpy.empty((size[0], *size[2:], n))
    for where in numpy.ndindex(*size[2:]):
        point = [places(size[2 + d])[where[d]] for d in reversed(range(n))]
        made[(slice(None), *where)] = theta @ numpy.array([*point, 1.0])
    return made


def _unfolded(at, size, align_corners):
    """Reflected into the image, about the middles or the edges of its outer elements."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if high <= low:
        return 0.0
    turns, rest = divmod(abs(at - low), high - low)
    return min(max(low + rest if turns % 2 == 0 else high - rest, 0.0), size - 1.0)


def _inside(at, size, padding, align_corners):
    if padding == "border":
        return min(max(at, 0.0), size - 1.0)
    return _unfolded(at, size, align_corners) if padding == "reflection" else at


@oracle(
    "grid_sample",
    kind="loop",
    factor=512,
    empty=False,
    samples=lambda S: [
        *[
            call(S(2, 3, 5, 6), S(2, 4, 3, 2, low=-1.4, high=1.4), mode, padding, align)
            for mode in ("bilinear", "nearest", "bicubic")
            for padding in ("zeros", "border", "reflection")
            for align in (False, True)
        ],
        *[
            call(S(2, 2, 3, 4, 5), S(2, 3, 2, 3, 3, low=-1.4, high=1.4), mode, padding, align)
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for align in (False, True)
        ],
    ],
)
def sampled(a, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    n = a.ndim - 2
    made = numpy.zeros((a.shape[0], a.shape[1], *grid.shape[1:-1]))
    for batch, *where in numpy.ndindex(*grid.shape[:-1]):
        spots = []
        for d in range(n):
            size, x = a.shape[d + 2], grid[(batch, *where)][n - 1 - d]
            at = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2
            if mode == "bicubic":  # it is the neighbours that are moved inside
                first = math.floor(at)
                spots.append(
                    [
                        (
                            _inside(first + k, size, padding_mode, align_corners),
                            _cubic(at - first - k),
                        )
                        for k in (-1, 0, 1, 2)
                    ]
                )
                continue
            at = _inside(at, size, padding_mode, align_corners)
            first = math.floor(at)
            spots.append(
                [(round(at), 1.0)]
                if mode == "nearest"
                else [(first, 1 - (at - first)), (first + 1, at - first)]
            )
        for near in itertools.product(*spots):
            point = [int(p) for p, _ in near]
            if all(0 <= p < s for p, s in zip(point, a.shape[2:], strict=True)):
                made[(batch, slice(None), *where)] += a[(batch, slice(None), *point)] * math.prod(
                    w for _, w in near
                )
    return made


@oracle("grid_sampler", kind="loop", factor=512, empty=False)
def sampled_by_number(a, grid, interpolation_mode, padding_mode, align_corners):
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    return sampled(a, grid, mode, ("zeros", "border", "reflection")[padding_mode], align_corners)
