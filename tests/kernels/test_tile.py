"""Dense products against NumPy in float64, for every variant that this machine can run."""

import ctypes
import itertools

import numpy as np
import pytest
from tile_harness import Library, runnable

TOLERANCE = {"f32": 4e-7, "f64": 1e-15, "f16": 1e-3, "bf16": 8e-3, "c64": 8e-7, "c128": 2e-15}
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.float32}
NUMPY |= {"i32": np.int32, "i64": np.int64, "c64": np.complex64, "c128": np.complex128}


@pytest.fixture(scope="module", params=runnable())
def library(request):
    return Library(request.param)


@pytest.fixture(params=[1, 2, 3])
def threads(request, library):
    library.set_threads(request.param)
    yield request.param
    library.set_threads(2)


def to_bf16(values):
    """The bits of bf16, rounded to nearest even."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


class Values:
    """Random tensors of a dtype: `wide` in float64 (or complex, or int64) and `stored`."""

    def __init__(self, seed, dtype):
        self.generator, self.dtype = np.random.default_rng(seed), dtype

    def draw(self, *shape):
        dtype, normal = self.dtype, self.generator.standard_normal
        if dtype in ("i32", "i64"):
            return self.generator.integers(-1000, 1000, shape).astype(NUMPY[dtype])
        if dtype in ("s8", "u8"):
            kind = np.iinfo(np.int8 if dtype == "s8" else np.uint8)
            return self.generator.integers(kind.min, kind.max + 1, shape).astype(kind.dtype)
        if dtype in ("c64", "c128"):
            return (normal(shape) + 1j * normal(shape)).astype(NUMPY[dtype])
        values = normal(shape).astype(np.float32 if dtype != "f64" else np.float64)
        return to_bf16(values) if dtype == "bf16" else values.astype(NUMPY[dtype])

    def wide(self, stored):
        if self.dtype == "bf16" and stored.dtype == np.uint16:
            return from_bf16(stored).astype(np.float64)
        return stored.astype(
            np.result_type(stored.dtype, np.float64) if stored.dtype.kind in "fc" else np.int64
        )


def arrange(array, order):
    """The same matrix with other strides."""
    if order == "columns":
        return np.asfortranarray(array)
    if order == "strided":
        rows, columns = array.shape
        large = np.zeros((2 * rows, 3 * columns), array.dtype)
        large[::2, ::3] = array
        return large[::2, ::3]
    return array


def strides(array):
    return [s // array.itemsize for s in array.strides]


def close(found, expected, magnitude, dtype, count=1):
    """Errors are measured against the sum of magnitudes: the bound of any order of summation."""
    bound = TOLERANCE[dtype] * max(4, count**0.5) * (magnitude + np.abs(expected)) + 1e-30
    error = np.abs(found - expected)
    assert (error <= bound).all(), f"largest {np.max(error / bound)} of the bound"


SHAPES = [(1, 1, 1), (4, 8, 8), (1, 100, 70), (3, 65, 33), (6, 64, 16), (5, 130, 600), (7, 7, 7)]
SHAPES += [
    (16, 33, 100),
    (17, 200, 1100),
    (64, 64, 64),
    (300, 70, 520),
    (250, 600, 1030),
    (2, 3, 0),
    (40, 70, 301),
    (100, 37, 803),
    (32, 70, 300),
    (63, 130, 517),
]
ORDERS = ["rows", "columns", "strided"]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "i64", "c64", "c128"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gemm(library, dtype, shape):
    m, n, k = shape
    values = Values(m * n + k, dtype)
    plain, bias = values.draw(m, n + 3), values.draw(n)
    a0, b0 = values.draw(m, k), values.draw(k, n)
    product = values.wide(a0) @ values.wide(b0) if k else np.zeros((m, n))
    function = relu_map(dtype)
    magnitude = np.abs(values.wide(a0)).astype(float) @ np.abs(values.wide(b0)).astype(float)
    for a, b in itertools.product(
        [arrange(a0, o) for o in ORDERS], [arrange(b0, o) for o in ORDERS]
    ):
        for alpha, beta, added, relu in [(1, 0, 0, 0), (1, 1, 0, 0), (2, 3, 1, 0), (1, 0, 1, 1)]:
            if relu and dtype[0] == "c":
                continue
            c = plain.copy()
            ints = [1, m, n, k, 0, *strides(a), 0, *strides(b), 0, n + 3, relu << 12]
            ints.append(address_of(function))
            real = int if dtype[0] == "i" else float
            scalars = [real(alpha), real(beta)]
            library.call(f"gemm:{dtype}", [c, a, b, bias if added else None], ints, scalars)
            expected = alpha * product + beta * values.wide(plain[:, :n])
            expected = expected + (values.wide(bias) if added else 0)
            expected = np.maximum(expected, 0) if relu else expected
            assert (c[:, n:] == plain[:, n:]).all()
            if dtype[0] == "i":
                assert (c[:, :n] == expected.astype(c.dtype)).all()
            else:
                size = alpha * magnitude + np.abs(beta * values.wide(plain[:, :n])) + 4
                close(values.wide(c[:, :n]), expected, size, dtype, k)


@pytest.mark.parametrize("name", ["i8", "u8i8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gemm_8_bit(library, name, shape):
    m, n, k = shape
    a0, b0 = Values(m, "s8" if name == "i8" else "u8").draw(m, k), Values(n, "s8").draw(k, n)
    expected = a0.astype(np.int64) @ b0.astype(np.int64)
    bias = np.arange(n, dtype=np.int32)
    for a, b in itertools.product(
        [arrange(a0, o) for o in ORDERS], [arrange(b0, o) for o in ORDERS]
    ):
        for added in (0, 1):
            c = np.full((m, n), 7, np.int32)
            ints = [1, m, n, k, 0, *strides(a), 0, *strides(b), 0, n, 0]
            library.call(f"gemm:{name}", [c, a, b, bias if added else None], ints, [1, 0])
            assert (c == expected + added * bias).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    "shape", [(3, 20, 30, 64), (7, 128, 128, 64), (2, 1, 5, 9), (4, 70, 16, 200)]
)
@pytest.mark.parametrize("shared", [False, True])
def test_gemm_batched(library, threads, dtype, shape, shared):
    batch, m, n, k = shape
    values = Values(m, dtype)
    a, b = values.draw(batch, m, k), values.draw(1 if shared else batch, n, k)
    c = np.zeros((batch, m, n), a.dtype)
    ints = [batch, m, n, k, m * k, k, 1, 0 if shared else n * k, 1, k, m * n, n, 0]
    library.call(f"gemm:{dtype}", [c, a, b, None], ints, [1.0, 0.0])
    wide_b = values.wide(b).swapaxes(1, 2)
    magnitude = np.abs(values.wide(a)) @ np.abs(wide_b)
    close(values.wide(c), values.wide(a) @ wide_b, magnitude, dtype, k)


def test_gemm_complex_conjugate(library):
    values = Values(1, "c64")
    a, b = values.draw(20, 30), values.draw(30, 40)
    for flags in (1, 2, 3):
        c = np.zeros((20, 40), np.complex64)
        library.call(
            "gemm:c64",
            [c, a, b, None],
            [1, 20, 40, 30, 0, 30, 1, 0, 40, 1, 0, 40, flags << 8],
            [1.0, 0.0],
        )
        x, y = a.conj() if flags & 1 else a, b.conj() if flags & 2 else b
        close(c, x.astype(complex) @ y, np.abs(a) @ np.abs(b), "c64", 30)


MAP = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_int64)


def relu_map(dtype):
    """An elementwise kernel (`fk_map`) in the accumulator's dtype; it works in place."""
    real = {"f64": ctypes.c_double, "i32": ctypes.c_int32, "i64": ctypes.c_int64}

    def relu(p, scalars, count):
        row = np.ctypeslib.as_array((real.get(dtype, ctypes.c_float) * count).from_address(p[1]))
        np.maximum(row, 0, out=row)

    return MAP(relu)


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("shape", [(1, 5, 33), (9, 77, 50), (30, 130, 700)], ids=str)
def test_gemm_tail(library, dtype, shape):
    """Packed B, a bias, a residual and a function behind them."""
    m, n, k = shape
    values, relu = Values(m + n, dtype), relu_map(dtype)
    a, b, c = values.draw(m, k), values.draw(k, n), values.draw(m, n)
    bias, residual = values.draw(n), values.draw(m, n)
    panels = np.zeros(8 * -(-n // 64) * 64 * (k + 4), np.uint8)
    library.call(f"gemm_pack:{dtype}", [panels, b], [n, k, n, 1], [])
    flags = 1 << 10 | 1 << 11 | 1 << 12
    ints = [1, m, n, k, 0, k, 1, 0, 0, 0, 0, n, flags, address_of(relu)]
    library.call(f"gemm:{dtype}", [c, a, panels, bias, residual], ints, [1.0, 0.0])
    wide = [values.wide(x).astype(float) for x in (a, b, bias, residual)]
    expected = np.maximum(wide[0] @ wide[1] + wide[2] + wide[3], 0)
    close(values.wide(c), expected, np.abs(wide[0]) @ np.abs(wide[1]) + 4, dtype, k)


# from one panel of B read where it lies to sums over several blocks, and dot products
BY_ROW = [(7, 64, 5), (40, 150, 64), (130, 70, 1100), (3, 33, 40), (50, 96, 65), (32, 70, 300)]


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i32"])
@pytest.mark.parametrize("shape", BY_ROW, ids=str)
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_gemm_bias_of_rows(library, dtype, shape, order, own):
    """Rows of every matrix of a batch start from a bias, which is one for all or their own."""
    m, n, k = shape
    values, relu = Values(m + n + k, dtype), relu_map(dtype)
    a, c = values.draw(2, m, k), values.draw(2, m, n)
    b = np.stack([arrange(values.draw(k, n), order) for _ in range(2)])
    b = b if order == "rows" else np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
    bias = values.draw(1 + own, m)
    wide = [values.wide(x).astype(float) for x in (a, b, bias)]
    product = wide[0] @ wide[1] + wide[2][:, :, None]
    size = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(wide[2][:, :, None])
    scalars = [1, 0] if dtype == "i32" else [1.0, 0.0]
    for mapped in (0, 1):
        flags = mapped << 12 | 1 << 13 | own << 14
        ints = [2, m, n, k, *strides(a), *strides(b), m * n, n, flags, address_of(relu)]
        library.call(f"gemm:{dtype}", [c, a, b, bias], ints, scalars)
        expected = np.maximum(product, 0) if mapped else product
        close(values.wide(c), expected, size, "f64" if dtype == "i32" else dtype, k)


def test_gemm_not_a_number(library):
    """C is not read when beta is zero, and NaN in an operand stays in its row."""
    a, b = np.ones((8, 40), np.float32), np.ones((40, 70), np.float32)
    a[3, 7] = np.nan
    c = np.full((8, 70), np.nan, np.float32)
    library.call(
        "gemm:f32", [c, a, b, None], [1, 8, 70, 40, 0, 40, 1, 0, 70, 1, 0, 70, 0], [1.0, 0.0]
    )
    assert np.isnan(c[3]).all() and (np.delete(c, 3, 0) == 40).all()


# n, cin, size, cout, kernel, stride, padding, dilation, groups
CONVOLUTIONS = [
    (2, 3, (9, 11), 5, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 16, (7, 7), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 8, (10, 9), 70, (3, 2), (2, 1), (1, 0), (1, 1), 1),
    (1, 3, (20, 20), 64, (7, 7), (2, 2), (3, 3), (1, 1), 1),
    (2, 6, (12, 13), 9, (3, 3), (1, 2), (2, 2), (2, 3), 1),
    (3, 20, (5, 6), 33, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 20, (5, 6), 33, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 12, (8, 8), 18, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    (1, 8, (9, 9), 16, (3, 3), (2, 2), (1, 1), (1, 1), 4),
    (2, 5, (6, 7), 5, (3, 3), (1, 1), (1, 1), (1, 1), 5),
    (2, 37, (9, 8), 37, (3, 3), (2, 2), (1, 1), (1, 1), 37),
    (1, 40, (9, 8), 40, (5, 3), (1, 1), (4, 2), (2, 2), 40),
    (1, 4, (6, 6), 12, (3, 3), (1, 1), (1, 1), (1, 1), 4),
    (1, 2, (4, 4), 3, (3, 3), (3, 3), (4, 5), (1, 1), 1),
    (1, 2, (3, 3), 2, (5, 5), (1, 1), (2, 2), (1, 1), 1),
    (4, 10, (1, 50), 12, (1, 5), (1, 2), (0, 2), (1, 1), 1),
    (2, 130, (6, 6), 130, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 700, (4, 4), 80, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 64, (14, 14), 64, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 32, (13, 15), 48, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (5, 96, (8, 8), 96, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 70, (9, 11), 100, (3, 3), (1, 1), (0, 2), (1, 1), 1),
    (1, 90, (4, 5), 40, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 40, (9, 8), 90, (1, 1), (2, 3), (0, 0), (1, 1), 2),
    (2, 8, (6, 6), 20, (1, 1), (1, 1), (1, 1), (1, 1), 1),
    (2, 40, (8, 8), 60, (1, 1), (1, 1), (0, 0), (1, 1), 2),
    (3, 24, (14, 14), 72, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (2, 21, (5, 5), 87, (1, 1), (1, 1), (0, 0), (1, 1), 1),
]


def out_size(size, kernel, stride, padding, dilation):
    return tuple(
        (i + 2 * p - d * (k - 1) - 1) // s + 1
        for i, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def tap_views(x, size, kernel, stride, padding, dilation):
    """For each tap, the values of x (n, c, *spatial) that each output pixel sees; zero outside."""
    pads = [(0, 0), (0, 0)] + [(p, p + s) for p, s in zip(padding, stride, strict=True)]
    padded = np.pad(x, pads)
    for tap in itertools.product(*map(range, kernel)):
        index = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilation, stride, size, strict=True)
        )
        yield tap, padded, (slice(None), slice(None), *index)


def reference(x, w, dy, size, stride, padding, dilation, groups):
    """y, dx, dw in float64, channels first."""
    n, cin = x.shape[:2]
    cout, cg = w.shape[:2]
    kernel = w.shape[2:]
    og = cout // groups
    y = np.zeros((n, cout, *size))
    dw = np.zeros(w.shape)
    dx_padded = None
    for tap, padded, index in tap_views(x, size, kernel, stride, padding, dilation):
        if dx_padded is None:
            dx_padded = np.zeros(padded.shape)
        seen = padded[index]
        for g in range(groups):
            i, o = slice(g * cg, (g + 1) * cg), slice(g * og, (g + 1) * og)
            part = w[(o, slice(None), *tap)]
            y[:, o] += np.einsum("nc...,oc->no...", seen[:, i], part)
            flat_x = np.moveaxis(seen[:, i], 1, 0).reshape(cg, -1)
            flat_y = np.moveaxis(dy[:, o], 1, 0).reshape(og, -1)
            dw[(o, slice(None), *tap)] += flat_y @ flat_x.T
            where = (index[0], i, *index[2:])
            dx_padded[where] += np.einsum("no...,oc->nc...", dy[:, o], part)
    inner = tuple(slice(p, p + s) for p, s in zip(padding, x.shape[2:], strict=True))
    return y, dx_padded[(slice(None), slice(None), *inner)], dw


def last(array, channels_last):
    """The tensor in memory, channels last if asked."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if channels_last else array.copy()


def first(array, channels_last):
    return np.moveaxis(array, -1, 1) if channels_last else array


def check_convolution(library, dtype, case, channels_last, bias_given=True):
    n, cin, size, cout, kernel, stride, padding, dilation, groups = case
    values = Values(n + cin + cout, dtype)
    out = out_size(size, kernel, stride, padding, dilation)
    x, w = values.draw(n, cin, *size), values.draw(cout, cin // groups, *kernel)
    dy, bias = values.draw(n, cout, *out), values.draw(cout)
    x64, w64, dy64 = values.wide(x), values.wide(w), values.wide(dy)
    shape = (out, stride, padding, dilation, groups)
    y, dx, dw = reference(x64, w64, dy64, *shape)
    sizes = reference(np.abs(x64), np.abs(w64), np.abs(dy64), *shape)
    dims = len(size)
    name = f"conv{dims}d_"
    flag = [int(channels_last)] * 2
    ints = [n, cin, *size, cout, *kernel, *stride, *padding, *dilation, groups, *out, *flag, 0]
    xs, dys = last(x, channels_last), last(dy, channels_last)
    found = np.zeros_like(last(np.zeros((n, cout, *out), x.dtype), channels_last))
    library.call(f"{name}forward:{dtype}", [found, xs, w, bias if bias_given else None], ints)
    column = values.wide(bias).reshape(-1, *[1] * dims) * bias_given
    got = values.wide(first(found, channels_last))
    close(got, y + column, sizes[0] + np.abs(column), dtype, np.prod(kernel) * cin // groups)
    found = np.full_like(xs, 1)
    library.call(f"{name}backward_data:{dtype}", [found, dys, w], ints)
    got = values.wide(first(found, channels_last))
    close(got, dx, sizes[1], dtype, np.prod(kernel) * cout // groups)
    found, dbias = np.full_like(w, 1), np.full_like(bias, 1)
    library.call(
        f"{name}backward_weight:{dtype}", [found, dys, xs, dbias if bias_given else None], ints
    )
    close(values.wide(found), dw, sizes[2], dtype, n * np.prod(out))
    if bias_given:
        axes = (0, *range(2, 2 + dims))
        close(values.wide(dbias), dy64.sum(axes), np.abs(dy64).sum(axes), dtype, n * np.prod(out))


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])
def test_convolution(library, dtype, case, channels_last):
    check_convolution(library, dtype, case, channels_last, bias_given=case[1] % 2 == 0)


@pytest.mark.parametrize("case", CONVOLUTIONS[1::6], ids=str)
def test_convolution_threads(library, threads, case):
    check_convolution(library, "f32", case, False)
    check_convolution(library, "f32", case, True, bias_given=False)


DEEP = [
    (2, 3, (4, 5, 6), 4, (2, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
    (1, 4, (5, 6, 7), 6, (3, 3, 3), (2, 1, 2), (1, 1, 1), (1, 2, 1), 2),
    (2, 5, (4, 5, 6), 9, (1, 1, 1), (2, 1, 2), (0, 0, 0), (1, 1, 1), 1),
    (1, 6, (5, 6, 7), 6, (3, 3, 3), (1, 2, 1), (1, 1, 1), (1, 1, 1), 6),
]


@pytest.mark.parametrize("case", DEEP, ids=str)
@pytest.mark.parametrize("channels_last", [False, True], ids=["first", "last"])
def test_convolution_3d(library, case, channels_last):
    for dtype in ("f32", "bf16"):
        check_convolution(library, dtype, case, channels_last)
