"""The C runtime of the core, compiled on its own and compared with NumPy.

Takes: a C compiler.
Gives: tests of the elementwise engine, the copies, the casts and the random numbers over random
layouts, and of the C programs beside (storage, pool).
Keeps true: nothing of facula is imported, so that these tests run before the core is built.
"""

import ctypes
import itertools
import math
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent / "runtime"
INCLUDE = Path(__file__).parents[2] / "src" / "facula" / "core" / "include"
COMPILER = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]

NAMES = "f32 f64 f16 bf16 i64 i32 i16 i8 u8 b8 c64 c128 c32 u16 u32 u64 f8e4m3 f8e5m2".split()
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "b8": np.bool_,
    "c64": np.complex64,
    "c128": np.complex128,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
}
CODE = {name: code for code, name in enumerate(NAMES)}
MAX_DIMS, MAX_OPERANDS = 64, 10


class Iteration(ctypes.Structure):
    """The C struct ``fk_iter``."""

    _fields_ = [
        ("ndim", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nin", ctypes.c_int),
        ("dtype", ctypes.c_uint8 * MAX_OPERANDS),
        ("compute", ctypes.c_uint8 * MAX_OPERANDS),
        ("data", ctypes.c_void_p * MAX_OPERANDS),
        ("shape", ctypes.c_int64 * MAX_DIMS),
        ("stride", (ctypes.c_int64 * MAX_DIMS) * MAX_OPERANDS),
    ]


def code_of(array: np.ndarray) -> int:
    """The dtype code of a NumPy array."""
    return next(CODE[name] for name, dtype in NUMPY.items() if dtype == array.dtype)


def iteration(outputs: list, inputs: list, compute: list | None = None) -> Iteration:
    """An iteration over NumPy arrays; inputs are broadcast to the shape of the outputs."""
    shape = outputs[0].shape
    arrays = outputs + [np.broadcast_to(a, shape) for a in inputs]
    it = Iteration(ndim=len(shape), nout=len(outputs), nin=len(inputs))
    for d, size in enumerate(shape):
        it.shape[d] = size
    for k, array in enumerate(arrays):
        for d, stride in enumerate(array.strides):
            it.stride[k][d] = stride if shape[d] > 1 else 0
        it.data[k] = array.__array_interface__["data"][0]
        it.dtype[k] = code_of(array)
        it.compute[k] = CODE[compute[k]] if compute else it.dtype[k]
    return it


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Compiles a C file of the folder beside; returns the path of the result."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("runtime")

    def compile_one(name: str, *flags: str) -> str:
        target = folder / (name + ("_".join(flags)).replace("/", "_"))
        if not target.exists():
            command = [COMPILER, *FLAGS, *flags, str(HERE / (name + ".c")), "-o", str(target)]
            subprocess.run([*command, "-lpthread", "-lm"], check=True)
        return str(target)

    return compile_one


@pytest.fixture(scope="session")
def library(build):
    """The shared library with typed arguments."""
    lib = ctypes.CDLL(build("runtime_library", "-shared", "-fPIC"))
    lib.iter_bytes.restype = ctypes.c_int64
    assert lib.iter_bytes() == ctypes.sizeof(Iteration)
    lib.run_add.argtypes = [ctypes.c_void_p, ctypes.c_double]
    lib.run_cast.argtypes = [ctypes.c_int, ctypes.c_int] + [ctypes.c_void_p] * 2 + [ctypes.c_int64]
    lib.set_stream.argtypes = [ctypes.c_int64]
    lib.run_fill.argtypes = [ctypes.c_void_p] * 2
    size, real, word, address = ctypes.c_int64, ctypes.c_double, ctypes.c_uint64, ctypes.c_void_p
    for name in "uniform normal log_normal cauchy".split():
        getattr(lib, name).argtypes = [address, ctypes.c_int, size, real, real, word, word]
    for name in "exponential geometric bernoulli".split():
        getattr(lib, name).argtypes = [address, ctypes.c_int, size, real, word, word]
    lib.bernoulli_tensor.argtypes = [address, ctypes.c_int, size, address, ctypes.c_int, word, word]
    lib.integers.argtypes = [address, ctypes.c_int, size, size, word, word, word]
    lib.permutation.argtypes = [address, ctypes.c_int, size, word, word]
    lib.philox.argtypes = [word, word, word, address]
    return lib


@pytest.fixture(params=[(1, 0), (2, 1), (5, 0)], ids=["1", "2-streaming", "5"])
def threads(request, library):
    """One, two and more threads than processors; once with streaming stores for everything."""
    library.set_threads(request.param[0])
    library.set_stream(request.param[1])
    yield request.param[0]
    library.set_threads(0)
    library.set_stream(0)


# ---- layouts ----


def arrangement(rng, shape: tuple, dtype, kind: str) -> np.ndarray:
    """An array of the shape, filled, laid out as `kind` says; broadcast kinds have size-1 dims."""
    if kind == "scalar":
        return fill(rng, np.empty((), dtype))
    if kind == "broadcast":
        shape = tuple(1 if rng.random() < 0.5 else size for size in shape)
        return fill(rng, np.empty(shape, dtype))
    if kind == "permuted":
        order = rng.permutation(len(shape))
        base = np.empty([shape[d] for d in order], dtype)
        return fill(rng, base).transpose(np.argsort(order))
    if kind == "sliced":
        base = np.empty([2 * size + 1 for size in shape], dtype)
        return fill(rng, base)[tuple(slice(1, None, 2) for _ in shape)]
    if kind == "padded":
        base = np.empty([*shape[:-1], shape[-1] + 3], dtype)
        return fill(rng, base)[..., : shape[-1]]
    return fill(rng, np.empty(shape, dtype))


def fill(rng, array: np.ndarray) -> np.ndarray:
    """Small integers, which every dtype holds exactly."""
    array[...] = rng.integers(0, 100 if array.dtype != np.bool_ else 2, array.shape)
    return array


SHAPES = [
    (1,), (7,), (1000,), (70001,), (3, 5), (64, 64), (33, 130), (130, 33), (2, 40000), (40000, 2),
    (300, 17), (1, 9, 1, 4), (5, 6, 7), (100, 64, 8), (4, 3, 50, 41), (2, 3, 4, 5, 6),
    (9, 1, 2049), (3, 2, 2, 2, 2, 2, 2, 3), (17, 3, 513),
]  # fmt: skip
KINDS = ["plain", "permuted", "sliced", "padded", "broadcast", "scalar"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_map_over_every_pair_of_layouts(library, threads, shape):
    rng = np.random.default_rng(hash(shape) & 0xFFFF)
    for a_kind, b_kind, out_kind in itertools.product(KINDS, KINDS, KINDS[:4]):
        a = arrangement(rng, shape, np.float32, a_kind)
        b = arrangement(rng, shape, np.float32, b_kind)
        out = arrangement(rng, shape, np.float32, out_kind)
        library.run_add(ctypes.byref(iteration([out], [a, b])), 3.0)
        np.testing.assert_array_equal(out, a + np.float32(3) * b + np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_map_with_casts_and_two_outputs(library, threads, shape):
    rng = np.random.default_rng(len(shape))
    compute = ["f64", "i32", "f64", "f32", "i64"]
    for trial in range(20):
        kinds = [KINDS[i] for i in rng.integers(0, 6, 3)] + [
            KINDS[i] for i in rng.integers(0, 4, 2)
        ]
        a = arrangement(rng, shape, [np.float16, np.float64, np.uint8][trial % 3], kinds[0])
        b = arrangement(rng, shape, [np.float32, np.int16, np.uint64][trial // 2 % 3], kinds[1])
        c = arrangement(rng, shape, [np.int64, np.int8, np.bool_][trial // 3 % 3], kinds[2])
        total = arrangement(rng, shape, [np.float64, np.float32, np.int32][trial % 3], kinds[3])
        sign = arrangement(rng, shape, [np.bool_, np.int32, np.float16][trial // 2 % 3], kinds[4])
        library.run_mixed(ctypes.byref(iteration([total, sign], [a, b, c], compute)))
        expected = a.astype(np.float64) + b.astype(np.float64) + c + np.zeros(shape)
        np.testing.assert_array_equal(total, expected.astype(total.dtype))
        np.testing.assert_array_equal(sign, (expected > 0).astype(sign.dtype))


@pytest.mark.parametrize("kind", ["plain", "permuted", "sliced"])
def test_map_in_place(library, threads, kind):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x = arrangement(rng, shape, np.float32, kind)
        b = arrangement(rng, shape, np.float32, "permuted")
        expected = x + 2 * b
        library.run_add(ctypes.byref(iteration([x], [x, b])), 2.0)
        np.testing.assert_array_equal(x, expected)


def aligned(rng, size: int, dtype) -> np.ndarray:
    """Numbers that begin with a cache line, and one more behind them."""
    item = np.dtype(dtype).itemsize
    memory = np.zeros((size + 1) * item + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return fill(rng, memory[begin : begin + (size + 1) * item].view(dtype))


@pytest.mark.parametrize("size", [32769, 40000, 65536 + 127, 300001])
def test_contiguous_results_past_the_cache(library, threads, size):
    rng = np.random.default_rng(size)
    out, a, b = (aligned(rng, size, np.float32) for _ in range(3))
    behind = out[size]
    library.run_add(ctypes.byref(iteration([out[:size]], [a[:size], b[:size]])), 3.0)
    np.testing.assert_array_equal(out[:size], a[:size] + 3 * b[:size])
    assert out[size] == behind
    kinds = [np.float64, np.int32, np.float64, np.float32, np.int64]
    total, sign, x, y, z = (aligned(rng, size, kind)[:size] for kind in kinds)
    library.run_mixed(ctypes.byref(iteration([total, sign], [x, y, z])))
    np.testing.assert_array_equal(total, x + y + z)
    np.testing.assert_array_equal(sign, total > 0)
    before = x.copy()
    library.run_mixed(ctypes.byref(iteration([x, sign], [x, y, z])))
    np.testing.assert_array_equal(x, before + y + z)


def test_map_of_nothing_and_of_one(library):
    empty = np.empty((3, 0, 2), np.float32)
    library.run_add(ctypes.byref(iteration([empty], [empty, empty])), 1.0)
    one = np.array(2, np.float32)
    out = np.empty((), np.float32)
    library.run_add(ctypes.byref(iteration([out], [one, one])), 1.0)
    assert out == 4


@pytest.mark.parametrize("item", ["u8", "f16", "f32", "f64", "c128"])
def test_copy_of_every_layout(library, threads, item):
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        for src_kind, dst_kind in itertools.product(KINDS, KINDS[:4]):
            src = arrangement(rng, shape, NUMPY[item], src_kind)
            dst = arrangement(rng, shape, NUMPY[item], dst_kind)
            library.run_copy(ctypes.byref(iteration([dst], [src])))
            np.testing.assert_array_equal(dst, np.broadcast_to(src, shape))


@pytest.mark.parametrize(
    "src_type,dst_type", [("f32", "f16"), ("u8", "f64"), ("i64", "i8"), ("f16", "f32")]
)
def test_copy_with_cast(library, threads, src_type, dst_type):
    rng = np.random.default_rng(3)
    for shape in SHAPES:
        for src_kind, dst_kind in itertools.product(KINDS, KINDS[:4]):
            src = arrangement(rng, shape, NUMPY[src_type], src_kind)
            dst = arrangement(rng, shape, NUMPY[dst_type], dst_kind)
            library.run_copy(ctypes.byref(iteration([dst], [src])))
            np.testing.assert_array_equal(dst, np.broadcast_to(src, shape).astype(dst.dtype))


@pytest.mark.parametrize("item", ["u8", "f16", "i32", "f32", "f64", "c128"])
def test_large_copies_and_transposes(library, threads, item):
    """Beyond the cache, where stores stream, at odd sizes and addresses."""
    rng = np.random.default_rng(4)
    side = math.isqrt((40 << 20) // np.dtype(NUMPY[item]).itemsize)
    base = rng.integers(0, 255, (side + 3, side + 1)).astype(NUMPY[item])
    dst = np.zeros((side + 1, side + 3), NUMPY[item])
    library.run_copy(ctypes.byref(iteration([dst], [base.T])))
    np.testing.assert_array_equal(dst, base.T)
    flat = np.zeros(base.size + 1, NUMPY[item])
    library.run_copy(ctypes.byref(iteration([flat[1:]], [base.reshape(-1)])))
    np.testing.assert_array_equal(flat[1:], base.reshape(-1))
    images = base[:side, :side].copy()[: side // 7 * 7].reshape(7, side // 7, side)
    out = np.empty((7, side, side // 7), NUMPY[item])
    library.run_copy(ctypes.byref(iteration([out], [images.transpose(0, 2, 1)])))
    np.testing.assert_array_equal(out, images.transpose(0, 2, 1))


def test_fill(library, threads):
    rng = np.random.default_rng(5)
    for shape, item, kind in itertools.product(
        SHAPES, ["u8", "f16", "f32", "i64", "c128"], KINDS[:4]
    ):
        out = arrangement(rng, shape, NUMPY[item], kind)
        value = np.array(77, NUMPY[item])
        library.run_fill(ctypes.byref(iteration([out], [])), value.ctypes.data)
        assert (out == 77).all()


def test_fill_leaves_the_gaps_alone(library):
    base = np.zeros((50, 40), np.float32)
    value = np.array(1, np.float32)
    library.run_fill(ctypes.byref(iteration([base[::2, 1:39:3]], [])), value.ctypes.data)
    assert base.sum() == base[::2, 1:39:3].size


def test_prepare_merges_dimensions(library):
    x = np.empty((4, 5, 6), np.float32)
    cases = [
        ((x, x), 1),
        ((x.transpose(2, 0, 1), x.transpose(2, 0, 1)), 1),
        ((x, x[:, :1]), 3),
        ((x, x[:1]), 2),
    ]
    for (out, a), ndim in cases:
        it = iteration([out], [a, a])
        library.run_prepare(ctypes.byref(it))
        assert it.ndim == ndim
        assert math.prod(it.shape[:ndim]) == out.size
        library.run_prepare(ctypes.byref(it))
        assert it.ndim == ndim


# ---- casts ----


def cast(library, src: np.ndarray, source: str, target: str, out_dtype) -> np.ndarray:
    """Runs one cast over raw memory."""
    n = src.shape[0] // (2 if source == "c32" else 1)
    dst = np.zeros(n * (2 if target == "c32" else 1), out_dtype)
    library.run_cast(CODE[source], CODE[target], src.ctypes.data, dst.ctypes.data, n)
    return dst


def representative(name: str) -> np.ndarray:
    """Values of a dtype that every other dtype can take without leaving its range."""
    values = np.array([0, 1, 2, 3, 7, 100, 126] * 45 + [5])
    return (values != 0) if name == "b8" else values.astype(NUMPY[name])


@pytest.mark.parametrize("source", NUMPY)
@pytest.mark.parametrize("target", NUMPY)
def test_cast_between_numpy_dtypes(library, source, target):
    src = representative(source)
    got = cast(library, src, source, target, NUMPY[target])
    np.testing.assert_array_equal(
        got, src.real.astype(NUMPY[target]) if "c" not in target else src.astype(NUMPY[target])
    )


INTEGERS = ["i64", "i32", "i16", "i8", "u8", "u16", "u32", "u64"]


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(library, source):
    rng = np.random.default_rng(6)
    src = rng.integers(0, 256, 8 * 999, dtype=np.uint8).view(NUMPY[source])
    src[0], src[1], src[2] = np.iinfo(src.dtype).min, np.iinfo(src.dtype).max, 0
    for target in [*INTEGERS, "b8", "f32", "f64"]:
        np.testing.assert_array_equal(
            cast(library, src, source, target, NUMPY[target]), src.astype(NUMPY[target])
        )
    half = cast(library, src, source, "f16", np.float16)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(half, src.astype(np.float32).astype(np.float16))


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer(library, source):
    src = np.array(
        [0.9, -0.9, 1.5, -1.5, 126.99, -128.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63)] * 9,
        NUMPY[source],
    )
    low32, low64 = np.iinfo(np.int32).min, np.iinfo(np.int64).min
    expected32 = [0, 0, 1, -1, 126, -128, low32, low32, low32, low32] * 9
    expected64 = [0, 0, 1, -1, 126, -128, 2**31, -(2**31), low64, low64] * 9
    if source == "f32":
        src, expected32, expected64 = np.array(src), expected32, expected64
    np.testing.assert_array_equal(cast(library, src, source, "i32", np.int32), expected32)
    np.testing.assert_array_equal(cast(library, src, source, "i64", np.int64), expected64)
    special = np.array([np.nan, np.inf, -np.inf] * 30, NUMPY[source])
    assert (cast(library, special, source, "i32", np.int32) == low32).all()
    assert (cast(library, special, source, "i64", np.int64) == low64).all()
    assert (cast(library, special, source, "b8", np.uint8) == 1).all()
    large = np.array([2.0**63, 2.0**63 + 2.0**41, 2.0**64 - 2.0**41] * 9, NUMPY[source])
    np.testing.assert_array_equal(
        cast(library, large, source, "u64", np.uint64), large.astype(np.uint64)
    )
    wrapped = np.array([-1, 256, 300, -129] * 9, NUMPY[source])
    np.testing.assert_array_equal(
        cast(library, wrapped, source, "u8", np.uint8), [255, 0, 44, 127] * 9
    )


def test_half_is_rounded_like_numpy(library):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << 32, 1 << 21, dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16)
    wide = cast(library, halves, "f16", "f32", np.float32)
    np.testing.assert_array_equal(wide, halves.view(np.float16).astype(np.float32))
    # near every half value, every midpoint and their neighbours
    finite = wide[np.isfinite(wide)]
    middle = ((finite.astype(np.float64) + np.roll(finite, 1)) / 2).astype(np.float32)
    values = np.concatenate(
        [
            bits.view(np.float32),
            finite,
            middle,
            np.nextafter(middle, 1e9),
            np.nextafter(middle, -1e9),
        ]
    )
    got = cast(library, np.ascontiguousarray(values, np.float32), "f32", "f16", np.uint16)
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    same = (got == expected.view(np.uint16)) | (np.isnan(expected) & np.isnan(got.view(np.float16)))
    assert same.all()


def nearest_even(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Codes of the nearest of the ascending `table`, ties to even codes, for values >= 0."""
    upper = np.clip(np.searchsorted(table, values), 1, len(table) - 1)
    below, above = values - table[upper - 1], table[upper] - values
    tie = np.where(upper % 2 == 0, upper, upper - 1)
    return np.where(below < above, upper - 1, np.where(above < below, upper, tie))


@pytest.mark.parametrize(
    "name,mantissa,bias,finite_codes",
    [("bf16", 7, 127, 0x7F80), ("f8e4m3", 3, 7, 0x7F), ("f8e5m2", 2, 15, 0x7C)],
)
def test_narrow_floats_round_to_nearest_even(library, name, mantissa, bias, finite_codes):
    dtype = np.uint16 if name == "bf16" else np.uint8
    codes = np.arange(finite_codes)
    exponent, fraction = codes >> mantissa, codes & ((1 << mantissa) - 1)
    table = np.where(
        exponent > 0,
        np.ldexp(1 + fraction / (1 << mantissa), exponent - bias),
        np.ldexp(fraction / (1 << mantissa), 1 - bias),
    )
    got = cast(library, codes.astype(dtype), name, "f32", np.float32)
    np.testing.assert_array_equal(got, table.astype(np.float32))
    rng = np.random.default_rng(8)
    middle = (table[1:] + table[:-1]) / 2
    values = np.concatenate(
        [table, middle, rng.random(100000) * table[-1], np.exp(rng.normal(0, 6, 100000))]
    )
    values = values.astype(np.float32)
    values = values[values <= table[-1]]
    values = np.concatenate([values, np.nextafter(values, np.float32(0))])
    expected = nearest_even(values.astype(np.float64), table)
    sign = dtype(0x8000 if name == "bf16" else 0x80)
    np.testing.assert_array_equal(cast(library, values, "f32", name, dtype), expected)
    np.testing.assert_array_equal(
        cast(library, -values, "f32", name, dtype), expected.astype(dtype) | sign
    )


def test_narrow_floats_beyond_their_range(library):
    top = np.array([448, 464, 480, 1e9, np.inf, np.nan] * 9, np.float32)
    np.testing.assert_array_equal(
        cast(library, top, "f32", "f8e4m3", np.uint8), ([0x7E] * 5 + [0x7F]) * 9
    )
    np.testing.assert_array_equal(
        cast(library, -top, "f32", "f8e4m3", np.uint8), ([0xFE] * 5 + [0xFF]) * 9
    )
    top = np.array([57344, 61439, 61440, 1e9, np.inf, np.nan] * 9, np.float32)
    np.testing.assert_array_equal(
        cast(library, top, "f32", "f8e5m2", np.uint8), [0x7B, 0x7B, 0x7C, 0x7C, 0x7C, 0x7F] * 9
    )
    top = np.array([3.4e38, np.inf, np.nan] * 9, np.float32)
    np.testing.assert_array_equal(
        cast(library, top, "f32", "bf16", np.uint16), [0x7F80, 0x7F80, 0x7FC0] * 9
    )


@pytest.mark.parametrize("narrow", ["bf16", "f8e4m3", "f8e5m2", "c32"])
def test_chained_casts(library, narrow):
    """Every dtype to a format that NumPy lacks, and back."""
    values = np.array([0, 1, 2, 3, 4, 6, 8] * 100)
    store = {"bf16": np.uint16, "c32": np.uint16}.get(narrow, np.uint8)
    for name, dtype in NUMPY.items():
        src = (values != 0) if name == "b8" else values.astype(dtype)
        there = cast(library, src, name, narrow, store)
        assert (cast(library, there, narrow, name, dtype) == src).all(), name
        assert (cast(library, there, narrow, "b8", np.uint8) == (values != 0)).all()


def test_complex_loses_its_imaginary_part_but_not_its_truth(library):
    for name in ["c64", "c128"]:
        z = np.array([1 + 2j, 0 + 1j, 0, -3.7 + 0j] * 33, NUMPY[name])
        for target in ["f32", "f64", "i32", "i64", "f16"]:
            np.testing.assert_array_equal(
                cast(library, z, name, target, NUMPY[target]), z.real.astype(NUMPY[target])
            )
        np.testing.assert_array_equal(cast(library, z, name, "b8", np.uint8), z != 0)


# ---- random numbers ----

N = 200_003


def test_philox_known_answers(library):
    out = np.zeros(4, np.uint32)
    library.philox(0, 0, 0, out.ctypes.data)
    assert [hex(v) for v in out] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    ones = (1 << 64) - 1
    library.philox(ones, ones, ones, out.ctypes.data)
    assert [hex(v) for v in out] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


DRAWS = {
    "uniform": lambda lib, out, code: lib.uniform(out.ctypes.data, code, out.size, 0, 1, 5, 9),
    "normal": lambda lib, out, code: lib.normal(out.ctypes.data, code, out.size, 0, 1, 5, 9),
    "exponential": lambda lib, out, code: lib.exponential(out.ctypes.data, code, out.size, 1, 5, 9),
    "bernoulli": lambda lib, out, code: lib.bernoulli(out.ctypes.data, code, out.size, 0.3, 5, 9),
    "integers": lambda lib, out, code: lib.integers(out.ctypes.data, code, out.size, -9, 77, 5, 9),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_element_depends_on_its_index_alone(library, name, dtype):
    library.set_threads(1)
    whole = np.zeros(N, dtype)
    assert DRAWS[name](library, whole, code_of(whole)) == 0
    for threads, n in [(1, 1), (2, 999), (5, N), (3, 65537)]:
        library.set_threads(threads)
        part = np.zeros(n, dtype)
        assert DRAWS[name](library, part, code_of(part)) == 0
        np.testing.assert_array_equal(part, whole[:n])
    library.set_threads(0)


def test_uniform_is_the_documented_function_of_the_counter(library):
    out, words = np.zeros(100, np.float32), np.zeros(4, np.uint32)
    library.uniform(out.ctypes.data, CODE["f32"], 100, 0, 1, 42, 7)
    for i in range(100):
        library.philox(42, 7, i // 4, words.ctypes.data)
        assert out[i] == np.float32((int(words[i % 4]) >> 8) / 2**24)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_moments(library, dtype):
    """Means and deviations within five standard errors."""
    x = np.zeros(N, dtype)
    code, at = code_of(x), x.ctypes.data
    error = 5 / math.sqrt(N)
    rounding = 1e-3 if dtype == np.float16 else 0
    library.uniform(at, code, N, -2, 3, 1, 0)
    assert x.min() >= -2 and x.max() < 3
    assert abs(x.astype(float).mean() - 0.5) < error * 5 + rounding
    library.normal(at, code, N, 1, 2, 1, 1)
    y = x.astype(float)
    assert abs(y.mean() - 1) < 2 * error + rounding and abs(y.std() - 2) < 2 * error + rounding
    z = (y - 1) / 2
    assert (
        abs((z**3).mean()) < 4 * error + rounding and abs((z**4).mean() - 3) < 10 * error + rounding
    )
    assert abs((z[0:-1:2] * z[1::2]).mean()) < 2 * error
    library.exponential(at, code, N, 2, 1, 2)
    assert abs(x.astype(float).mean() - 0.5) < error and x.min() >= 0
    library.geometric(at, code, N, 0.25, 1, 3)
    assert abs(x.astype(float).mean() - 4) < 4 * error and x.min() == 1
    library.log_normal(at, code, N, 0, 0.5, 1, 4)
    assert abs(np.log(x.astype(float)).mean()) < error + rounding
    library.cauchy(at, code, N, 3, 2, 1, 5)
    assert abs(np.median(x.astype(float)) - 3) < 4 * error + rounding
    assert abs((x.astype(float) < 1).mean() - 0.25) < error + rounding


def test_distributions_follow_their_laws(library):
    stats = pytest.importorskip("scipy.stats")
    for dtype in [np.float32, np.float64]:
        x = np.zeros(N, dtype)
        code, at = code_of(x), x.ctypes.data
        library.uniform(at, code, N, 0, 1, 3, 0)
        assert stats.kstest(x.astype(float), "uniform").pvalue > 1e-4
        library.normal(at, code, N, 0, 1, 3, 1)
        assert stats.kstest(x.astype(float), "norm").pvalue > 1e-4
        library.exponential(at, code, N, 1, 3, 2)
        assert stats.kstest(x.astype(float), "expon").pvalue > 1e-4
        library.cauchy(at, code, N, 0, 1, 3, 3)
        assert stats.kstest(x.astype(float), "cauchy").pvalue > 1e-4


def test_normal_is_accurate(library):
    """Against Box and Muller in extended precision from the same words."""
    x, words = np.zeros(N - 1, np.float64), np.zeros(4, np.uint32)
    library.normal(x.ctypes.data, CODE["f64"], x.size, 0, 1, 11, 0)
    single = np.zeros(N - 1, np.float32)
    library.normal(single.ctypes.data, CODE["f32"], x.size, 0, 1, 11, 0)
    for pair in range(300):
        library.philox(11, 0, pair, words.ctypes.data)
        first, second = (int(words[1]) << 32 | int(words[0])), (int(words[3]) << 32 | int(words[2]))
        u = np.longdouble(first >> 1) / np.longdouble(2) ** 63 + np.longdouble(2) ** -65
        radius, turn = np.sqrt(-2 * np.log(u)), (second >> 11) / 2**53
        angle = 2 * np.longdouble("3.14159265358979323846264338") * turn
        np.testing.assert_allclose(
            x[2 * pair], float(radius * np.cos(angle)), rtol=2e-15, atol=1e-15
        )
        np.testing.assert_allclose(
            x[2 * pair + 1], float(radius * np.sin(angle)), rtol=2e-15, atol=1e-15
        )
        for half in range(2):
            u = (int(words[2 * half]) >> 1) / 2**31 + 2**-33
            radius, turn = math.sqrt(-2 * math.log(u)), (int(words[2 * half + 1]) >> 8) / 2**24
            exact = radius * math.cos(2 * math.pi * turn), radius * math.sin(2 * math.pi * turn)
            np.testing.assert_allclose(
                single[4 * pair + 2 * half :][:2], exact, rtol=1e-5, atol=1e-6
            )


def test_complex_normal(library):
    z = np.zeros(N, np.complex64)
    assert library.normal(z.ctypes.data, CODE["c64"], N, 0, 1, 1, 0) == 0
    assert (
        abs((abs(z) ** 2).mean() - 1) < 5 / math.sqrt(N)
        and abs(z.real.std() - math.sqrt(0.5)) < 0.01
    )
    assert abs((z.real * z.imag).mean()) < 5 / math.sqrt(N)


@pytest.mark.parametrize(
    "name,dtype", [("bf16", np.uint16), ("f16", np.uint16), ("f8e4m3", np.uint8)]
)
def test_uniform_stays_below_its_upper_end(library, name, dtype):
    for low, high in [(0, 1), (-1, 0), (2, 3), (-3, -2)]:
        codes = np.zeros(N, dtype)
        library.uniform(codes.ctypes.data, CODE[name], N, low, high, 3, 3)
        x = cast(library, codes, name, "f32", np.float32)
        assert x.min() >= low and x.max() < high


def test_bernoulli(library):
    out = np.zeros(N, np.bool_)
    for p in [0, 0.1, 0.5, 1]:
        assert library.bernoulli(out.ctypes.data, CODE["b8"], N, p, 1, 0) == 0
        assert abs(out.mean() - p) <= 5 * math.sqrt(p * (1 - p) / N)
    assert library.bernoulli(out.ctypes.data, CODE["b8"], N, 1.5, 1, 0) == -1
    chances = np.linspace(0, 1, N, dtype=np.float32)
    x = np.zeros(N, np.float32)
    library.bernoulli_tensor(x.ctypes.data, CODE["f32"], N, chances.ctypes.data, CODE["f32"], 1, 0)
    assert set(np.unique(x)) == {0, 1} and abs(x.mean() - 0.5) < 0.01
    assert abs(x[: N // 2].mean() - 0.25) < 0.01
    assert library.uniform(out.ctypes.data, CODE["b8"], N, 0, 1, 1, 0) == -1


@pytest.mark.parametrize(
    "low,count", [(0, 1), (-5, 11), (1 << 40, 1 << 33), (-(1 << 62), 1 << 63), (0, 0)]
)
def test_integers(library, low, count):
    x = np.zeros(N, np.int64)
    assert library.integers(x.ctypes.data, CODE["i64"], N, low, count, 1, 0) == 0
    span = count or 1 << 64
    exact = [(int(v) - low) % (1 << 64) for v in x[:5000]]
    assert 0 <= min(exact) and max(exact) < span
    assert abs(sum(exact) / 5000 / span - (0.5 if span > 1000 else (span - 1) / 2 / span)) < 0.03
    if count == 11:
        assert set(np.unique(x)) == set(range(-5, 6))
        assert np.bincount(x + 5).min() > N / 11 * 0.9


@pytest.mark.parametrize("name", ["i64", "i32", "f32", "i16"])
def test_permutation(library, name):
    for n in [0, 1, 2, 1025, 30000]:
        x = np.zeros(n, NUMPY[name])
        assert library.permutation(x.ctypes.data, CODE[name], n, 4, 2) == 0
        np.testing.assert_array_equal(np.sort(x), np.arange(n))
    counts = np.zeros((4, 4))
    x = np.zeros(4, np.int64)
    for offset in range(4000):
        library.permutation(x.ctypes.data, CODE["i64"], 4, 4, offset)
        counts[np.arange(4), x] += 1
    assert counts.min() > 850 and counts.max() < 1150


# ---- the C programs ----


@pytest.mark.parametrize("flags", [(), ("-O0",), ("-O3",)], ids=["O2", "O0", "O3"])
def test_storage_and_pool(build, flags):
    for environment in [{}, {"FACULA_NUM_THREADS": "1"}, {"FACULA_NUM_THREADS": "8"}]:
        result = subprocess.run(
            [build("runtime_checks", *flags)],
            env={**os.environ, **environment},
            timeout=120,
            text=True,
            capture_output=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("mode", ["1", "begin"])
def test_guarded_memory(build, mode):
    """Each fault ends a child with a line that names the block."""
    program, environment = build("guard_checks"), {**os.environ, "FACULA_GUARD": mode}
    result = subprocess.run([program], env=environment, timeout=120, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_threads_under_the_thread_sanitizer(build):
    """Pool, scratch memory and heap from several threads; any race is a report and a failure."""
    try:
        program = build("thread_checks", "-fsanitize=thread", "-g1")
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no thread sanitizer")
    for mode in ["0", "1"]:
        environment = {**os.environ, "FACULA_GUARD": mode, "TSAN_OPTIONS": "halt_on_error=1"}
        result = subprocess.run(
            [program], env=environment, timeout=240, text=True, capture_output=True
        )
        assert result.returncode == 0, result.stdout + result.stderr


def test_sanitizers(build):
    """The same checks under the address and undefined-behaviour sanitizers."""
    try:
        program = build(
            "runtime_checks", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1"
        )
    except subprocess.CalledProcessError:
        pytest.skip("the compiler has no sanitizers")
    result = subprocess.run([program], timeout=240, text=True, capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
