"""The kernels of Fourier transforms: every length, way, layout and dimension is near float64 NumPy's."""

import numpy as np
import pytest

import facula
from facula import core, fft
from facula.ops.fft import launch as fft_launch
from facula.ops.fft import plan as fft_plan

#: primes with a pass of their own and without, squares of such, powers, a row of the longest kind
LENGTHS = [*range(1, 71), 100, 121, 127, 169, 243, 256, 500, 1000, 1009, 2018, 2187, 4096]
REAL_DTYPES = {"float32": np.float32, "float64": np.float64}
NAMES = ["fft", "ifft", "rfft", "irfft", "fft of real"]


def near(found, expected, what):
    """Within two roundings for each of log2(n) halvings, in the root of the mean square.

    what: the transform, its length, and whatever else says which case it is.
    """
    found = found.numpy()
    assert found.shape == expected.shape, what
    epsilon = np.finfo(found.dtype).eps
    error = np.linalg.norm(found - expected)
    assert error <= 2 * epsilon * np.linalg.norm(expected) * np.log2(what[1] + 2), what


def operands(rows, n, real, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((rows, n)).astype(real)
    y = generator.standard_normal((rows, n)).astype(real)
    return x, x + np.array(1j, np.result_type(real, np.complex64)) * y


def check(name, n, rows, real):
    x, z = operands(rows, n, real)
    if name == "irfft":
        half = z[:, : n // 2 + 1]
        near(fft.irfft(facula.from_numpy(half.copy()), n), np.fft.irfft(half, n), (name, n, rows))
        return
    x = z if name in ("fft", "ifft") else x
    function = name.partition(" ")[0]
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    found = getattr(fft, function)(facula.from_numpy(x))
    near(found, getattr(np.fft, function)(wide), (name, n, rows))


@pytest.mark.parametrize("dtype", REAL_DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_lengths(name, dtype):
    for n in LENGTHS:
        for rows in (1, 2, 19, 35):
            check(name, n, rows, REAL_DTYPES[dtype])


@pytest.mark.parametrize("chosen", ["lanes", "rows"])
@pytest.mark.parametrize("name", NAMES)
def test_both_ways(name, chosen, monkeypatch):
    def way(count, *_):
        return chosen if fft_plan.factors(count) else "rows"

    monkeypatch.setattr(fft_launch.fft_plan, "way", way)
    kept = core.set_keeping(False)
    try:
        for n in (1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 64, 100, 243, 256, 511, 1024):
            for rows in (1, 5, 16, 33, 64):
                check(name, n, rows, np.float32)
    finally:
        core.set_keeping(kept)


def layouts(z):
    """The same kind of data contiguous, transposed, with steps and repeated, with its NumPy twin."""
    x = facula.from_numpy(z.copy())
    yield x, z
    yield x.transpose(0, 1), z.swapaxes(0, 1)
    yield x.transpose(0, -1), z.swapaxes(0, -1)
    yield x[:, ::2, 1:], z[:, ::2, 1:]
    yield x[:1].expand(6, *z.shape[1:]), np.broadcast_to(z[:1], (6, *z.shape[1:]))


@pytest.mark.parametrize("shape", [(6, 5, 4), (3, 40, 20), (35, 4, 24), (2, 128, 3), (1, 64, 33)])
def test_layouts_and_dimensions(shape):
    generator = np.random.default_rng(1)
    z = generator.standard_normal(shape) + 1j * generator.standard_normal(shape)
    for x, y in layouts(z):
        for dim in range(3):
            n = y.shape[dim]
            near(fft.fft(x, dim=dim), np.fft.fft(y, axis=dim), ("fft", n, dim))
            near(fft.rfft(x.real, dim=dim), np.fft.rfft(y.real, axis=dim), ("rfft", n, dim))
            for size in (2 * n - 1, 2 * n):
                found = fft.irfft(x, size, dim=dim)
                near(found, np.fft.irfft(y, size, axis=dim), ("irfft", size, dim))
            dims = (dim, (dim + 1) % 3)
            near(fft.fft2(x, dim=dims), np.fft.fft2(y, axes=dims), ("fft2", n, dims))
            near(fft.rfft2(x.real, dim=dims), np.fft.rfft2(y.real, axes=dims), ("rfft2", n, dims))
        near(fft.ifftn(x), np.fft.ifftn(y), ("ifftn", y.size))


def test_long_rows_are_shared_by_threads():
    threads = facula.get_num_threads()
    try:
        facula.set_num_threads(2)
        for n in (65536, 65537, 3 << 15):
            for rows in (1, 3):
                check("fft", n, rows, np.float32)
                check("rfft", n, rows, np.float64)
    finally:
        facula.set_num_threads(threads)


def test_results_do_not_depend_on_threads():
    threads, x = facula.get_num_threads(), facula.randn(67, 360)
    found = []
    try:
        for count in (1, 2, 3):
            facula.set_num_threads(count)
            found.append(facula.view_as_real(fft.rfft(x)).numpy())
    finally:
        facula.set_num_threads(threads)
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_operands_stay_as_they_are():
    z = facula.randn(5, 6, 7, dtype=facula.complex64)
    kept = z.clone()
    for _ in range(3):  # the second call is a kept one
        fft.fftn(z)
        fft.irfftn(z)
        assert facula.equal(facula.view_as_real(z), facula.view_as_real(kept))


def test_kept_calls_give_what_others_give():
    x = [facula.randn(4, n) for n in (24, 24, 61, 67, 1009, 24)]
    for signal in x * 2:
        near(fft.rfft(signal), np.fft.rfft(signal.numpy().astype(float)), ("rfft", 1009))


@pytest.mark.parametrize("shape, dim", [((0, 4), 1), ((4, 0, 3), 0), ((4, 0, 3), 2)])
def test_empty(shape, dim):
    z = facula.zeros(shape, dtype=facula.complex64)
    for name in ("fft", "ifft", "irfft", "hfft"):
        found = getattr(fft, name)(z, dim=dim)
        assert found.shape == getattr(np.fft, name)(z.numpy(), axis=dim).shape
    assert fft.rfft(z.real, dim=dim).shape == np.fft.rfft(z.real.numpy(), axis=dim).shape


def test_imaginary_parts_that_a_real_result_has_not_are_ignored():
    half = np.fft.rfft(np.arange(8.0))
    odd = half.copy()
    odd[0] += 3j
    odd[-1] -= 2j
    for rows in (1, 20):
        found = fft.irfft(facula.from_numpy(np.tile(odd, (rows, 1))))
        assert np.allclose(found.numpy(), np.arange(8.0))


def test_half_precision_is_computed_in_float32():
    x, z = operands(3, 24, np.float32)
    spectrum = facula._fft_c2c(facula.from_numpy(z).chalf(), (1,), 0, True)
    rounded = facula.from_numpy(z).chalf().to(facula.complex64)
    assert spectrum.dtype is facula.complex32
    expected = fft.fft(rounded).chalf()
    assert facula.equal(facula.view_as_real(spectrum), facula.view_as_real(expected))
    half = facula._fft_r2c(facula.from_numpy(x).half(), (1,), 0, True)
    assert half.dtype is facula.complex32
    back = facula._fft_c2r(half, (1,), 2, 24)
    assert back.dtype is facula.float16
    assert np.allclose(back.float().numpy(), x, atol=2e-2)


@pytest.mark.parametrize("name", ["fft", "ihfft", "rfft2", "irfftn", "hfft2", "fftn"])
def test_half_precision_is_for_accelerators(name):
    """As in PyTorch: shapes are known, the CPU has no such transform."""
    function = getattr(fft, name)
    for dtype in (facula.float16, facula.bfloat16):
        with pytest.raises(RuntimeError, match="Unsupported dtype (Half|BFloat16)"):
            function(facula.ones(4, 4, dtype=dtype))
    on_meta = function(facula.ones(4, 4, dtype=facula.float16, device="meta"))
    assert on_meta.dtype in (facula.float16, facula.complex32)
    with pytest.raises(RuntimeError, match="Unsupported dtype ComplexHalf"):
        fft.ifft(facula.ones(4, dtype=facula.complex32))


def test_plans():
    for length in (1, 2, 48, 61, 1000, 4096, 61 * 61, 30030 // 13):
        chosen = fft_plan.factors(length)
        assert chosen is not None
        assert int(np.prod(chosen)) == length
        for lanes in (2, 4, 8, 16):
            first, second = fft_plan.split(length, lanes)
            assert first * second == length
    assert fft_plan.factors(67) is None
    assert fft_plan.factors(fft_plan.smooth(2017)) is not None
