"""Values where formulas run out: infinite means, sums of infinite exponentials, many degrees of freedom, NaN in a part.

Takes: numbers at the ends of what dtypes hold. Gives: tests.
Keeps true: what has a limit is the limit, and what has none is NaN.
"""

from __future__ import annotations

import math

import pytest

import facula


def test_infinite_means_stay_infinite_beside_a_variance_that_is_none():
    for values in ([math.inf, 1.0], [1.0, math.inf], [math.inf, math.inf], [1.0] * 70 + [math.inf]):
        x = facula.tensor(values)
        for kind in (facula.float32, facula.float64, facula.float16):
            spread, mean = facula.var_mean(x.to(kind))
            assert mean.item() == math.inf
            assert math.isnan(spread.item())
        both = facula.var_mean(facula.stack([x, -x], 1), 0)[1]
        assert both.tolist() == [math.inf, -math.inf]
    assert math.isnan(facula.var_mean(facula.tensor([math.inf, -math.inf]))[1].item())


def test_sums_of_infinite_complex_exponentials():
    add = facula.logaddexp
    infinite = facula.tensor(complex(math.inf, 0.0))
    assert add(infinite, infinite).item() == complex(math.inf, 0.0)
    assert add(infinite, facula.tensor(1 + 1j)).item() == complex(math.inf, 0.0)
    least = facula.tensor(complex(-math.inf, 1.0))
    assert add(least, least).item() == complex(-math.inf, 1.0)
    assert add(least, facula.tensor(2 + 1j)).item() == 2 + 1j
    unknown = add(facula.tensor(complex(math.nan, 0.0)), infinite).item()
    assert math.isnan(unknown.real) and math.isnan(unknown.imag)


@pytest.mark.parametrize("degrees", [1e7, 1e10, 1e15, 1e20, 1e100, 1e300, 1e308])
def test_incomplete_gammas_of_many_degrees_tend_to_the_normal_distribution(degrees):
    """Within 1/(3 sqrt(a)) of it, and exact beyond: the next term of the series is less than 1/a."""
    for steps in (-3.0, -0.5, 0.0, 0.5, 3.0, 1e9):
        a = facula.tensor(degrees, dtype=facula.float64)
        x = a + steps * math.sqrt(degrees)
        low, high = facula.special.gammainc(a, x).item(), facula.special.gammaincc(a, x).item()
        reached = (x.item() - degrees) / math.sqrt(degrees)
        skew = (1 - reached**2) / 3 * math.exp(-(reached**2) / 2) / math.sqrt(2 * math.pi * degrees)
        normal = 0.5 * math.erfc(-reached / math.sqrt(2)) + (skew if abs(reached) < 40 else 0.0)
        assert low == pytest.approx(normal, abs=2 / degrees + 1e-14)
        assert low + high == pytest.approx(1, abs=1e-15)


def test_logarithms_of_complex_numbers_with_nan_in_a_part_are_nan():
    for number in (complex(1.0, math.nan), complex(math.nan, 1.0), complex(0.5, math.nan)):
        for logarithm in (facula.log, facula.log2, facula.log10):
            found = logarithm(facula.tensor(number)).item()
            assert math.isnan(found.real) and math.isnan(found.imag)


def test_a_scale_factor_counts_where_sizes_stay_equal():
    """Pixel ``i`` of 3 is read at ``floor((i + 0.5) / 1.3)`` by "nearest-exact"; antialiasing changes nothing."""
    resize = facula.nn.functional.interpolate
    x = facula.arange(3.0).reshape(1, 1, 3).requires_grad_()
    y = resize(x, scale_factor=1.3, mode="nearest-exact")
    assert y.tolist() == [[[0.0, 1.0, 1.0]]]
    y.backward(facula.tensor([[[1.0, 10.0, 100.0]]]))
    assert x.grad.tolist() == [[[1.0, 110.0, 0.0]]]
    image = facula.arange(15.0).reshape(1, 1, 3, 5).sin()
    for mode in ("bilinear", "bicubic"):
        both, along = (
            resize(image, scale_factor=factor, mode=mode, antialias=True)
            for factor in ([1.3, 0.5], [1.0, 0.5])
        )
        assert (both - along).abs().max() < 1e-6
