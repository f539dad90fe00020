"""Layers of bytes against NumPy in 64-bit integers and float32, for every variant that this machine can run."""

import numpy as np
import pytest
from tile_harness import Library, runnable

from facula.codegen.c.isa import isa
from facula.codegen.c.kernels.gemm.tile_quantized import panel_bytes

# images, extents, channels, kernel, stride, padding, dilation, groups, results of a group
LAYERS = {
    "row": (1, (1, 1, 1), 300, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, 70),
    "few rows": (1, (1, 1, 7), 9, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, 3),
    "rows in place": (1, (1, 1, 45), 128, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, 131),
    "long rows": (1, (1, 1, 21), 1301, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, 33),
    "many rows": (3, (1, 9, 30), 64, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, 64),
    "windows": (2, (1, 9, 11), 16, (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1, 20),
    "strides": (1, (1, 23, 20), 3, (1, 7, 7), (1, 2, 2), (0, 3, 3), (1, 1, 1), 1, 64),
    "dilated": (2, (1, 9, 8), 5, (1, 3, 2), (1, 1, 2), (0, 2, 1), (1, 2, 3), 1, 7),
    "groups": (2, (1, 6, 7), 12, (1, 3, 3), (1, 2, 1), (0, 1, 2), (1, 1, 1), 3, 5),
    "volumes": (1, (4, 5, 6), 4, (2, 3, 2), (1, 2, 1), (1, 1, 1), (1, 1, 2), 2, 9),
    "wider than the image": (1, (1, 2, 2), 4, (1, 3, 5), (1, 1, 1), (0, 3, 4), (1, 1, 1), 1, 6),
}
KINDS = {"u8": np.uint8, "i8": np.int8, "f32": np.float32}


@pytest.fixture(scope="module", params=runnable())
def library(request):
    return Library(request.param)


def windows(x, layer, outside):
    """[places, groups, kernel * channels of a group] of images with channels last."""
    images, extents, channels, kernel, stride, padding, dilation, groups, _ = layer
    padded = np.pad(x, [(0, 0), *((p, p) for p in padding), (0, 0)], constant_values=outside)
    sizes = [
        (e + 2 * p - d * (k - 1) - 1) // s + 1
        for e, p, d, k, s in zip(extents, padding, dilation, kernel, stride, strict=True)
    ]
    taps = []
    for tap in np.ndindex(*kernel):
        index = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, sizes, stride, strict=True)
        ]
        taps.append(padded[(slice(None), *index)].reshape(-1, groups, channels // groups))
    return np.stack(taps, 2).reshape(taps[0].shape[0], groups, -1), sizes


def packed(library, rows, groups):
    results, inner = rows.shape[0] // groups, rows.shape[1]
    size = panel_bytes(isa(library.variant), results, inner, groups)
    panels = np.full(size, 77, np.uint8)
    library.call("quantized_pack", [panels, rows], [results, inner, groups])
    return panels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shifted", (False, True))
def test_layers_of_bytes(library, name, kind, shifted):
    layer = LAYERS[name]
    images, extents, channels, kernel, stride, padding, dilation, groups, results = layer
    random = np.random.default_rng(len(name))
    x = random.integers(0, 256, (images, *extents, channels)).astype(np.uint8)
    inner, outside = int(np.prod(kernel)) * channels // groups, 200
    rows = random.integers(-128, 128, (groups * results, inner)).astype(np.int8)
    zeros = random.integers(-5, 6, groups * results).astype(np.int32) if shifted else None
    base = random.integers(-(10**4), 10**4, groups * results).astype(np.int32)
    multiplier = random.uniform(1e-4, 1e-3, groups * results).astype(np.float32)
    shift = (random.standard_normal(groups * results) * 1000).astype(np.float32)

    found, sizes = windows(x.astype(np.int64), layer, outside)
    weight = rows.astype(np.int64).reshape(groups, results, inner)
    weight = weight - (0 if zeros is None else zeros.reshape(groups, results, 1))
    sums = np.einsum("pgk,grk->pgr", found, weight).reshape(len(found), -1) + base
    scalars = (-5.0,)
    if kind == "f32":
        want = np.maximum(sums.astype(np.float32) * multiplier.astype(np.float64) + shift, -5)
    else:
        low, high = np.iinfo(KINDS[kind]).min, np.iinfo(KINDS[kind]).max
        scalars = (3.0, float(low + 1), float(high))
        rounded = np.rint((sums.astype(np.float32) + shift) * multiplier) + np.float32(3)
        want = np.clip(rounded, low + 1, high)

    out = np.zeros(want.shape, KINDS[kind])
    numbers = [*extents, channels, *sizes, *kernel, *stride, *padding, *dilation]
    numbers += [groups, results, outside, images]
    operands = [out, x, packed(library, rows, groups), base, multiplier, shift, zeros]
    library.call(f"quantized_product:{kind}", operands, numbers, scalars)
    if kind == "f32":
        assert np.abs(out - want).max() <= 1e-6 * np.abs(want).max()
        return
    assert (out == want).all()

    added = random.integers(low, high + 1, want.shape).astype(KINDS[kind])
    scale, more, step = (np.float32(v) for v in (0.05, 0.03, 0.07))
    library.call(
        f"quantized_product_sum:{kind}",
        [*operands, added],
        numbers,
        [float(v) for v in (*scalars, scale, more, 4, step, 9, low, high, 0, 1)],
    )
    total = np.float32(want - 3) * scale + (added.astype(np.float32) - 4) * more
    total = np.rint(np.maximum(total, 0) * (np.float32(1) / step) + np.float32(9))
    assert (out == np.clip(total, low, high)).all()
