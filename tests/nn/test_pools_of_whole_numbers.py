"""Largest values of windows of whole numbers, with their places: beside NumPy's windows."""

import numpy as np
import pytest

import facula
from facula.nn import functional as F

KINDS = ["uint8", "int8", "int16", "int32", "int64"]


def windows(x, space):
    """The windows of three, two apart, with one place around that no value is less than."""
    limits = np.iinfo(x.dtype)
    around = [(0, 0)] * (x.ndim - space) + [(1, 1)] * space
    axes = tuple(range(x.ndim - space, x.ndim))
    padded = np.pad(x, around, constant_values=limits.min)
    found = np.lib.stride_tricks.sliding_window_view(padded, (3,) * space, axes)
    return found[(..., *(slice(None, None, 2) for _ in range(space)), *([slice(None)] * space))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", [2, 3])
@pytest.mark.parametrize("last", [False, True])
def test_pools_are_numpys(kind, space, last):
    limits = np.iinfo(kind)
    draw = np.random.default_rng(space).integers
    x = draw(limits.min, limits.max, (2, 3, *(7, 6, 5)[:space]), dtype=kind, endpoint=True)
    x[0, 0] = limits.min  # as low as what lies around
    pool = F.max_pool2d if space == 2 else F.max_pool3d
    order = (
        (facula.channels_last if space == 2 else facula.channels_last_3d)
        if last
        else facula.contiguous_format
    )
    given = facula.from_numpy(x).to(memory_format=order)
    values, places = pool(given, 3, 2, 1, return_indices=True)
    wanted = windows(x, space).max(tuple(range(-space, 0)))
    assert str(values.dtype).endswith(kind) and values.is_contiguous(memory_format=order)
    np.testing.assert_array_equal(values.numpy(), wanted)
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(
        np.take_along_axis(flat, places.numpy().reshape(2, 3, -1), 2), wanted.reshape(2, 3, -1)
    )
    np.testing.assert_array_equal(pool(given, 3, 2, 1).numpy(), wanted)


def test_compiled_pools_of_bytes():
    x = facula.from_numpy(np.random.default_rng(3).integers(0, 256, (1, 2, 8, 8), dtype="uint8"))
    found = facula.compile(lambda v: F.max_pool2d(v, 3, 2, 1) + 1)(x)
    np.testing.assert_array_equal(found.numpy(), windows(x.numpy(), 2).max((-2, -1)) + np.uint8(1))
