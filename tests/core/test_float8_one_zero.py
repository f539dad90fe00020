"""float8_e4m3fnuz and float8_e5m2fnuz: one zero, no infinity, 0x80 is not a number [Noune et al. 2022]."""

import math

import pytest

import facula

FORMATS = {facula.float8_e4m3fnuz: (3, 8), facula.float8_e5m2fnuz: (2, 16)}  # mantissa, bias


def value_of(byte, mantissa, bias):
    """What a byte stands for, by the definition of the format."""
    if byte == 0x80:
        return math.nan
    sign = -1.0 if byte & 0x80 else 1.0
    exponent, fraction = (byte & 0x7F) >> mantissa, byte & (1 << mantissa) - 1
    if exponent:
        return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)
    return sign * fraction / (1 << mantissa) * 2.0 ** (1 - bias)


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_byte_is_the_number_that_the_format_says(dtype):
    mantissa, bias = FORMATS[dtype]
    bytes_ = facula.arange(256, dtype=facula.uint8)
    found = bytes_.view(dtype).float().tolist()
    for byte, x in enumerate(found):
        wanted = value_of(byte, mantissa, bias)
        assert x == wanted or (math.isnan(x) and math.isnan(wanted))
    back = bytes_.view(dtype).float().to(dtype).view(facula.uint8)
    assert (back == bytes_).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_round_to_the_nearest_even_ones_last(dtype):
    mantissa, bias = FORMATS[dtype]
    grid = [(value_of(b, mantissa, bias), b) for b in range(128)]
    for (low, a), (high, b) in zip(grid, grid[1:], strict=False):
        middle = (low + high) / 2
        near = facula.tensor(
            [low, math.nextafter(middle, 0), middle, math.nextafter(middle, 1e9), high]
        )
        # float32 holds the middles exactly; what lies beside them does so in float32's steps
        near[1], near[3] = (
            near[2].nextafter(facula.tensor(0.0)),
            near[2].nextafter(facula.tensor(1e9)),
        )
        even = a if a % 2 == 0 else b
        assert near.to(dtype).view(facula.uint8).tolist() == [a, a, even, b, b]


@pytest.mark.parametrize("dtype", FORMATS)
def test_limits_and_what_lies_beyond(dtype):
    info = facula.finfo(dtype)
    top = {facula.float8_e4m3fnuz: 240.0, facula.float8_e5m2fnuz: 57344.0}[dtype]
    assert (info.max, info.min) == (top, -top)
    mantissa, bias = FORMATS[dtype]
    assert info.tiny == 2.0 ** (1 - bias)
    assert info.eps == 2.0**-mantissa
    odd = facula.tensor([math.inf, -math.inf, math.nan, top * 1.1, -0.0, -1e-30]).to(dtype)
    assert odd.view(facula.uint8).tolist() == [0x80, 0x80, 0x80, 0x80, 0, 0]


@pytest.mark.parametrize("dtype", FORMATS)
def test_item_casts_and_promotion(dtype):
    x = facula.tensor([1.5, -2.0], dtype=dtype)
    assert x[0].item() == 1.5
    assert x.to(facula.float64).tolist() == [1.5, -2.0]
    assert x.clone().dtype is dtype
    with pytest.raises(RuntimeError):
        facula.promote_types(dtype, facula.float32)
    assert facula.promote_types(dtype, dtype) is dtype
