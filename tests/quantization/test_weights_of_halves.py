"""Products of 16-bit floats with weights of bytes and half bytes, against NumPy in double precision."""

import numpy as np
import pytest

import facula

#: half a unit in the last place of the result, and of the largest activation of a block, with room for sums
ROUNDED = {facula.bfloat16: 2.0**-8, facula.float16: 2.0**-10}
SHAPES = (
    (1, 128, 33),
    (1, 32, 1),
    (3, 96, 5),
    (4, 160, 40),
    (5, 256, 64),
    (2, 2112, 37),
    (7, 4352, 65),
    (33, 64, 4),
)


@pytest.fixture
def numbers():
    return np.random.default_rng(5)


def half(values, dtype):
    return facula.from_numpy(np.ascontiguousarray(values, dtype="float32")).to(dtype)


def wide(tensor):
    return tensor.double().numpy()


def close(made, want, dtype, weight, x):
    lost = 2.0**-15 * np.abs(x).max(1, keepdims=True) * np.abs(weight).sum(1)
    assert made.dtype is dtype
    assert (np.abs(wide(made) - want) <= ROUNDED[dtype] * np.abs(want) + lost + 1e-6).all()


@pytest.mark.parametrize("dtype", tuple(ROUNDED))
@pytest.mark.parametrize("rows, inner, results", SHAPES)
def test_weights_of_bytes(numbers, dtype, rows, inner, results):
    inner -= 5  # no whole vector
    x = half(numbers.standard_normal((rows, inner)), dtype)
    w = numbers.integers(-128, 128, (results, inner)).astype("int8")
    scale = half(numbers.uniform(0.01, 0.1, results), dtype)
    weight = w * wide(scale)[:, None]
    made = facula._weight_int8pack_mm(x, facula.from_numpy(w), scale)
    close(made, wide(x) @ weight.T, dtype, weight, wide(x))


@pytest.mark.parametrize("dtype", tuple(ROUNDED))
@pytest.mark.parametrize("group", (32, 64, 128, 256))
@pytest.mark.parametrize(
    "rows, blocks, results",
    ((1, 1, 1), (1, 5, 33), (2, 9, 40), (5, 3, 35), (33, 2, 4), (4, 70, 32)),
)
def test_weights_of_half_bytes(numbers, dtype, group, rows, blocks, results):
    inner = blocks * group
    x = half(numbers.standard_normal((rows, inner)), dtype)
    levels = numbers.integers(0, 16, (results, inner)).astype("int32")
    parameters = half(numbers.uniform(-0.1, 0.1, (blocks, results, 2)), dtype)
    scale, zero = (wide(parameters)[..., i].T[..., None] for i in (0, 1))
    weight = ((levels.reshape(results, blocks, group) - 8.0) * scale + zero).reshape(results, inner)
    packed = facula._convert_weight_to_int4pack_for_cpu(facula.from_numpy(levels), 1)
    made = facula._weight_int4pack_mm_for_cpu(x, packed, group, parameters)
    close(made, wide(x) @ weight.T, dtype, weight, wide(x))


def products(x):
    """Of a row with ones, by weights of bytes and of half bytes."""
    inner = x.shape[1]
    ones = facula.ones(3, dtype=x.dtype)
    levels = facula.full((3, inner), 9, dtype=facula.int32)
    packed = facula._convert_weight_to_int4pack_for_cpu(levels, 1)
    parameters = facula.tensor([1.0, 0.0]).to(x.dtype).expand(inner // 32, 3, 2)
    yield facula._weight_int8pack_mm(x, facula.ones(3, inner, dtype=facula.int8), ones)
    yield facula._weight_int4pack_mm_for_cpu(x, packed, 32, parameters)


@pytest.mark.parametrize("dtype", tuple(ROUNDED))
def test_what_is_not_finite_stays_so(dtype):
    for value, asked in ((np.inf, np.isposinf), (-np.inf, np.isneginf), (np.nan, np.isnan)):
        x = facula.ones(1, 96).to(dtype)
        x[0, 70] = value
        of_bytes, of_half_bytes = products(x)
        assert asked(wide(of_bytes)).all()
        assert not np.isfinite(
            wide(of_half_bytes)
        ).any()  # scales and zeros are summed apart: inf - inf


def test_the_smallest_numbers_are_kept():
    x = facula.full((1, 64), 1e-38).bfloat16()
    for made in products(x):
        assert np.allclose(wide(made), 64 * float(x[0, 0]), rtol=2**-8, atol=0)
    x[0, 3] = 0.0
    x[0, :32] = 0.0
    for made in products(x):
        assert np.allclose(wide(made), 32 * float(x[0, 40]), rtol=2**-8, atol=0)


def test_a_large_number_takes_nothing_from_other_rows_and_blocks():
    x = facula.ones(2, 512).bfloat16()
    x[0, 0] = 3e38
    for made in products(x):
        assert (wide(made)[1] == 512).all()


def test_any_number_of_threads_gives_the_same_sums(numbers):
    x = half(numbers.standard_normal((3, 1024)), facula.bfloat16)
    w = facula.from_numpy(numbers.integers(-128, 128, (300, 1024)).astype("int8"))
    scale = half(numbers.uniform(0.01, 0.1, 300), facula.bfloat16)
    before = facula.get_num_threads()
    try:
        made = []
        for count in (1, 2, 4):
            facula.set_num_threads(count)
            made.append(facula._weight_int8pack_mm(x, w, scale))
    finally:
        facula.set_num_threads(before)
    assert made[0].equal(made[1]) and made[0].equal(made[2])
    alone = facula._weight_int8pack_mm(x[1:2].contiguous(), w, scale)
    assert np.allclose(wide(alone), wide(made[0][1:2]), rtol=2**-7)


def test_weights_that_no_cache_holds(numbers):
    """Rows of these are read one at a time; 203 weights end in the middle of a vector."""
    w = numbers.integers(-128, 128, (20_771, 203)).astype("int8")
    x = half(numbers.standard_normal((1, 203)), facula.bfloat16)
    scale = half(numbers.uniform(0.01, 0.1, len(w)), facula.bfloat16)
    weight = w * wide(scale)[:, None]
    made = facula._weight_int8pack_mm(x, facula.from_numpy(w), scale)
    close(made, wide(x) @ weight.T, facula.bfloat16, weight, wide(x))
    few = facula._weight_int8pack_mm(x, facula.from_numpy(w[:77].copy()), scale[:77].clone())
    assert few.equal(made[:, :77])
