"""Images of bytes at other sizes against exact fractions: which way halves go, and when they go."""

import math
from fractions import Fraction

import numpy as np
import pytest

import facula
from facula.nn import functional


def line(values, size, corners):
    """Values at `size` places, linear between neighbours, each rounded with halves up."""
    made = []
    for k in range(size):
        if corners:
            place = Fraction(k * (len(values) - 1), size - 1)
        else:
            place = max(Fraction(2 * k + 1, 2) * Fraction(len(values), size) - Fraction(1, 2), 0)
        low = min(math.floor(place), len(values) - 1)
        high = min(low + 1, len(values) - 1)
        exact = values[low] + (place - low) * (values[high] - values[low])
        made.append(math.floor(exact + Fraction(1, 2)))
    return made


def image(pixels, size, corners):
    """Rows first, then columns."""
    rows = [line(row, size[1], corners) for row in pixels]
    columns = [line(column, size[0], corners) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


# steps between places are powers of two, so that weights are exact
@pytest.mark.parametrize("layout", [facula.contiguous_format, facula.channels_last], ids=str)
@pytest.mark.parametrize(
    ("shape", "size", "corners"),
    [((5, 9), (9, 17), True), ((5, 9), (5, 17), True), ((4, 6), (8, 12), False),
     ((8, 12), (4, 6), False), ((3, 5), (12, 20), False)],
)  # fmt: skip
def test_halves_go_up_after_each_dimension(layout, shape, size, corners):
    pixels = np.random.default_rng(7).integers(0, 256, (2, 3, *shape))
    given = facula.tensor(pixels, dtype=facula.uint8).to(memory_format=layout)
    result = functional.interpolate(given, size=size, mode="bilinear", align_corners=corners)
    expected = [[image(p.tolist(), size, corners) for p in planes] for planes in pixels]
    assert result.dtype is facula.uint8
    assert result.tolist() == expected


def test_cubic_images_stay_in_the_range_of_bytes():
    given = facula.tensor([[0, 0, 255, 255, 0, 0]] * 2, dtype=facula.uint8).reshape(1, 1, 2, 6)
    result = functional.interpolate(given, size=(2, 12), mode="bicubic").flatten().tolist()
    # weights of four neighbours at a quarter, with a = -3/4
    quarter = [Fraction(n, 256) for n in (-27, 225, 67, -9)]
    near = [quarter[3] + quarter[2], quarter[1] + quarter[2]]
    expected = (
        math.floor(255 * near[0] + Fraction(1, 2)),
        math.floor(255 * near[1] + Fraction(1, 2)),
    )
    assert result[3] == expected[0]
    assert result[5] == 255
    assert result[2] == 0
