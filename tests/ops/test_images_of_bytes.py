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


def hat(x):
    return max(1 - abs(x), Fraction(0))


def cubic(x, a):
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else Fraction(0)


def exact_weights(count, size, mode, corners, antialias):
    """For each place the weights of the pixels, by their number, as fractions."""
    reach = 1 if mode == "bilinear" else 2
    a = Fraction(-1, 2) if antialias else Fraction(-3, 4)
    near = hat if mode == "bilinear" else (lambda x: cubic(x, a))
    step = Fraction(count, size)
    if corners:
        step = Fraction(count - 1, size - 1) if size > 1 else Fraction(0)
    found = []
    for k in range(size):
        weights = {}
        if antialias:
            wide = max(step, 1)
            middle = step * (k + Fraction(1, 2))
            for i in range(count):
                # those whose middles lie within reach
                if middle - reach * wide <= i + Fraction(1, 2) < middle + reach * wide:
                    weights[i] = near((i + Fraction(1, 2) - middle) / wide)
            total = sum(weights.values())
            weights = {i: w / total for i, w in weights.items()}
        else:
            place = step * k if corners else step * (k + Fraction(1, 2)) - Fraction(1, 2)
            place = max(place, Fraction(0)) if mode == "bilinear" else place
            for i in range(math.floor(place) - reach + 1, math.floor(place) + reach + 1):
                edge = min(max(i, 0), count - 1)
                weights[edge] = weights.get(edge, 0) + near(place - i)
        found.append(weights)
    return found


def whole_line(values, weights):
    """Sums with weights of 15 bits: as many of them fractional as the largest leaves."""
    most = max(max(w.values()) for w in weights)
    bits = max(b for b in range(23) if b == 0 or math.floor(most * 2**b + Fraction(1, 2)) < 2**15)
    made = []
    for each in weights:
        # halves go away from zero
        whole = {
            i: math.floor(abs(w) * 2**bits + Fraction(1, 2)) * (-1 if w < 0 else 1)
            for i, w in each.items()
        }
        total = sum(values[i] * w for i, w in whole.items())
        made.append(min(max(math.floor(Fraction(total, 2**bits) + Fraction(1, 2)), 0), 255))
    return made


@pytest.mark.parametrize("layout", [facula.contiguous_format, facula.channels_last], ids=str)
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("channels", "shape", "size", "corners"),
    [(3, (13, 31), (5, 14), False), (1, (6, 9), (11, 40), False), (9, (33, 7), (4, 9), True),
     (2, (1, 70), (3, 3), False)],
)  # fmt: skip
def test_weights_of_bytes_are_whole_numbers(
    layout, antialias, mode, channels, shape, size, corners
):
    pixels = np.random.default_rng(8).integers(0, 256, (2, channels, *shape))
    given = facula.tensor(pixels, dtype=facula.uint8).to(memory_format=layout)
    options = {"mode": mode, "align_corners": corners, "antialias": antialias}
    result = functional.interpolate(given, size=size, **options)
    across, down = (exact_weights(shape[k], size[k], mode, corners, antialias) for k in (1, 0))
    expected = []
    for plane in pixels.reshape((-1, *shape)).tolist():
        rows = [whole_line(row, across) for row in plane]
        columns = [whole_line(column, down) for column in zip(*rows, strict=True)]
        expected.append(np.array(columns).T)
    np.testing.assert_array_equal(result.numpy().reshape((-1, *size)), expected)
    assert result.is_contiguous(memory_format=layout)


def test_complex_numbers_are_not_interpolated():
    for mode in ("bilinear", "bicubic"):
        with pytest.raises(NotImplementedError, match="floats or uint8 were required"):
            functional.interpolate(
                facula.ones(1, 1, 4, 4, dtype=facula.complex64), size=2, mode=mode
            )
