"""The C math library and the pointwise generator: accuracy, special values, vectorisation, text.

Promise: the vectorised functions stay within the units in the last place that their modules state, on every instruction
set; special values are C99's; equal kernels are emitted once.
"""

import ctypes
import math
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")
special = pytest.importorskip("scipy.special")

from facula.codegen.c.isa import ISAS  # noqa: E402
from facula.codegen.c.loops import pointwise  # noqa: E402
from facula.codegen.c.math import library  # noqa: E402
from facula.ops.expr import scalar as s  # noqa: E402

COMPILER = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
INCLUDE = Path(pointwise.__file__).parents[3] / "core" / "include"
FLAGS = (
    "-O3 -fPIC -shared -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast".split()
)
CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
RUNS = {"v2": "sse4_2", "v3": "avx2", "v4": "avx512vl"}
VARIANTS = [name for name, flag in RUNS.items() if flag in CPU]
DTYPES = {"f32": numpy.float32, "f64": numpy.float64, "i32": numpy.int32, "i64": numpy.int64}

pytestmark = pytest.mark.skipif(
    not COMPILER or not VARIANTS, reason="needs a C compiler on an x86-64 processor"
)

UNARY = "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
UNARY = (
    UNARY.split()
    + "erf erfc erfcx erfinv ndtri i0 i0e i1 i1e lgamma digamma bessel_k0 bessel_k1 airy_ai".split()
)
BINARY = "pow atan2 hypot fmod remainder floor_divide nextafter igamma igammac zeta polygamma maximum fmin".split()
INTEGER = "bitwise_left_shift bitwise_right_shift integer_divide floor_divide remainder fmod pow gcd lcm".split()


class Entry(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char),
        ("function", ctypes.c_void_p),
        ("operands", ctypes.c_char_p),
    ]


def kernels():
    for code in ("f32", "f64"):
        for name in UNARY:
            yield f"{name}:{code}", s.trace(getattr(s, name), [code])
        for name in BINARY:
            yield f"{name}:{code}", s.trace(getattr(s, name), [code, code])
    for code in ("i32", "i64"):
        for name in INTEGER:
            yield f"{name}:{code}", s.trace(getattr(s, name), [code, code])


def compile_unit(text, variant, folder, extra=()):
    source, target = folder / f"unit_{variant}.c", folder / f"unit_{variant}.so"
    source.write_text(text)
    command = [
        COMPILER,
        *FLAGS,
        *ISAS[variant].flags,
        *extra,
        f"-I{INCLUDE}",
        str(source),
        "-o",
        str(target),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    return target, done.stderr


@pytest.fixture(scope="module", params=VARIANTS)
def table(request, tmp_path_factory):
    text = pointwise.unit(ISAS[request.param], kernels())
    target, _ = compile_unit(text, request.param, tmp_path_factory.mktemp("math"))
    loaded = ctypes.CDLL(str(target))
    entries = (Entry * 1000).in_dll(loaded, "facula_kernels")
    form = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    functions = {"keep": loaded}
    for entry in entries:
        if entry.name is None:
            return functions
        functions[entry.name.decode()] = form(entry.function)


def run(table, name, *inputs):
    inputs = [numpy.ascontiguousarray(x, DTYPES[name.rpartition(":")[2]]) for x in inputs]
    out = numpy.empty_like(inputs[0])
    pointers = (ctypes.c_void_p * (1 + len(inputs)))(*(a.ctypes.data for a in (out, *inputs)))
    table[name](pointers, None, out.size)
    return out


def units_in_the_last_place(got, want):
    want = numpy.asarray(want, numpy.longdouble)
    with numpy.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        error = numpy.abs(got - want) / numpy.spacing(numpy.abs(rounded)).astype(numpy.longdouble)
    same = (got == rounded) | (numpy.isnan(got) & numpy.isnan(rounded))
    return float(numpy.max(numpy.where(same, 0, error)))


NUMPY_NAMES = {
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
LIMITS = {"tan": 3, "asinh": 3, "acosh": 3, "atanh": 3}
RANGES = {
    "exp": (-103, 88), "exp2": (-149, 127), "expm1": (-20, 88), "sinh": (-88, 88), "cosh": (-88, 88),
    "tanh": (-9, 9), "asinh": (-1e3, 1e3), "atan": (-50, 50), "log": (1e-30, 10), "log2": (1e-30, 10),
    "log10": (1e-30, 10), "log1p": (-0.999, 30), "sqrt": (0, 1e30), "rsqrt": (1e-30, 1e30), "sin": (-1e5, 1e5),
    "cos": (-1e5, 1e5), "tan": (-1e3, 1e3), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "acosh": (1, 1e3),
}  # fmt: skip


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("name", RANGES)
def test_accuracy_against_extended_precision(table, name, code):
    low, high = RANGES[name]
    rng = numpy.random.default_rng(3)
    near = (
        rng.uniform(max(low, -1.5), min(high, 1.5), 20000)
        if low < 1.5
        else rng.uniform(1, 2, 20000)
    )
    x = numpy.concatenate([rng.uniform(low, high, 20000), near]).astype(DTYPES[code])
    wide = x.astype(numpy.longdouble)
    want = (
        1 / numpy.sqrt(wide)
        if name == "rsqrt"
        else getattr(numpy, NUMPY_NAMES.get(name, name))(wide)
    )
    assert units_in_the_last_place(run(table, f"{name}:{code}", x), want) <= LIMITS.get(name, 2)


SPECIAL = {
    "erf": (-6, 6), "erfc": (-5, 9), "erfcx": (-3, 20), "erfinv": (-1, 1), "ndtri": (0, 1), "i0": (-20, 20),
    "i0e": (-20, 20), "i1": (-20, 20), "i1e": (-20, 20), "lgamma": (0.1, 30), "digamma": (2, 30),
    "bessel_k0": (0.01, 20), "bessel_k1": (0.01, 20),
}  # fmt: skip
SCIPY_NAMES = {
    "lgamma": "gammaln",
    "bessel_k0": "k0",
    "bessel_k1": "k1",
    "igamma": "gammainc",
    "igammac": "gammaincc",
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_against_scipy(table, name):
    x = numpy.random.default_rng(4).uniform(*SPECIAL[name], 20000)
    want = getattr(special, SCIPY_NAMES.get(name, name))(x)
    numpy.testing.assert_allclose(run(table, f"{name}:f64", x), want, rtol=2e-14, atol=1e-15)
    single = x.astype(numpy.float32)
    want = getattr(special, SCIPY_NAMES.get(name, name))(single.astype(numpy.float64))
    numpy.testing.assert_allclose(run(table, f"{name}:f32", single), want, rtol=2e-6, atol=2e-7)


def test_airy_function_against_scipy(table):
    x = numpy.random.default_rng(5).uniform(-15, 10, 5000)
    numpy.testing.assert_allclose(
        run(table, "airy_ai:f64", x), special.airy(x)[0], rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_against_scipy(table, name):
    rng = numpy.random.default_rng(6)
    a, x = rng.uniform(0.01, 200, 5000), rng.uniform(0.01, 300, 5000)
    want = getattr(special, SCIPY_NAMES[name])(a, x)
    numpy.testing.assert_allclose(run(table, f"{name}:f64", a, x), want, rtol=1e-11, atol=1e-280)


def test_zeta_below_zero(table):
    """By its definition: the terms below zero one by one, the others by SciPy."""
    q = numpy.array([-0.5, -1.5, -7.5, -7.3, -20.25, -100.75, -1e-5, -0.999999, -1e-9, -999.5])
    for order in (2, 3, 5, 30):
        below = [math.fsum([(x + k) ** -order for k in range(math.ceil(-x))]) for x in q.tolist()]
        above = [float(special.zeta(order, 1.0 - (math.ceil(x) - x))) for x in q.tolist()]
        want = [math.fsum([a, b]) for a, b in zip(below, above, strict=True)]
        got = run(table, "zeta:f64", numpy.full(len(q), float(order)), q)
        largest = numpy.maximum(numpy.abs(below), above)
        assert (numpy.abs(got - want) <= 2e-13 * largest).all(), order
    # terms on both sides of zero that cancel leave the first one beyond
    got = run(table, "zeta:f64", numpy.full(2, 101.0), numpy.array([-1.5, -0.5]))
    numpy.testing.assert_allclose(got, [2.5**-101, 1.5**-101], rtol=1e-12)


def test_zeta_and_polygamma_of_large_orders(table):
    """A few terms count; where all are below the least double, as PyTorch has it, 0 and inf * 0."""
    q = numpy.array([0.5, 1.0, 1.001, 2.0, 50.0, 300.0])
    for order in (60.0, 200.0, 1001.0, 70001.0):
        terms = [
            [(x + k) ** -order if order * math.log(x + k) > -709 else math.inf for k in range(4000)]
            for x in q
        ]
        want = [math.fsum(t) if max(t) < math.inf else math.inf for t in terms]
        got = run(table, "zeta:f64", numpy.full(len(q), order), q)
        numpy.testing.assert_allclose(got, want, rtol=1e-11, atol=5e-324)
    got = run(
        table,
        "polygamma:f64",
        numpy.array([70000.0, 70001, 70000, 100]),
        numpy.array([1.0, 0.5, 2, 3]),
    )
    assert got[:2].tolist() == [-math.inf, math.inf] and math.isnan(got[2])
    assert got[3] == pytest.approx(-math.factorial(100) * float(special.zeta(101, 3)), rel=1e-11)


def test_time_of_polygamma_does_not_grow_with_order_or_distance(table):
    def took(order, x):
        best = math.inf
        for _ in range(3):
            started = time.perf_counter()
            run(table, "polygamma:f64", numpy.full(2000, order), numpy.full(2000, x))
            best = min(best, time.perf_counter() - started)
        return best

    usual = took(3.0, 1.5) + 1e-4
    assert took(70000.0, 20.0) < 50 * usual  # 2000 times, when terms of zero were added up
    assert took(3.0, -1e9 - 0.5) < 50 * usual


def test_zeta_and_polygamma_against_scipy(table):
    rng = numpy.random.default_rng(7)
    order, x = rng.integers(0, 6, 3000).astype(float), rng.uniform(0.2, 30, 3000)
    want = special.polygamma(order.astype(int), x)
    numpy.testing.assert_allclose(
        run(table, "polygamma:f64", order, x), want, rtol=1e-12, atol=1e-13
    )
    exponent = rng.uniform(1.1, 20, 3000)
    numpy.testing.assert_allclose(
        run(table, "zeta:f64", exponent, x), special.zeta(exponent, x), rtol=1e-13
    )


@pytest.mark.parametrize("code", ["f32", "f64"])
def test_powers_and_exact_remainders(table, code):
    rng = numpy.random.default_rng(8)
    x, y = numpy.exp(rng.uniform(-3, 3, 20000)), rng.uniform(-20, 20, 20000)
    x, y = x.astype(DTYPES[code]), y.astype(DTYPES[code])
    wide = numpy.longdouble
    assert (
        units_in_the_last_place(run(table, f"pow:{code}", x, y), x.astype(wide) ** y.astype(wide))
        <= 2
    )
    assert (
        units_in_the_last_place(run(table, f"hypot:{code}", x, y), numpy.hypot(x.astype(wide), y))
        <= 2
    )
    assert (run(table, f"fmod:{code}", y, x) == numpy.fmod(y, x)).all()
    assert (run(table, f"remainder:{code}", y, x) == numpy.remainder(y, x)).all()
    assert (run(table, f"nextafter:{code}", x, y) == numpy.nextafter(x, y)).all()


@pytest.mark.parametrize("code", ["f32", "f64"])
def test_special_values_of_powers(table, code):
    values = numpy.array(
        [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, numpy.inf, -numpy.inf, numpy.nan]
    )
    x, y = (v.ravel() for v in numpy.meshgrid(values, values))
    with numpy.errstate(all="ignore"):
        want = numpy.power(x, y)
    for part in (
        slice(None),
        *(y == v for v in (2, -2, 3, 1, -1)),
    ):  # the fast form needs a uniform exponent
        numpy.testing.assert_allclose(
            run(table, f"pow:{code}", x[part], y[part]), want[part], rtol=1e-6
        )


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("name", [n for n in RANGES if n != "rsqrt"])
def test_special_values(table, name, code):
    x = numpy.array(
        [0.0, -0.0, 1, -1, numpy.inf, -numpy.inf, numpy.nan, 1e30, -1e30, 1e-40, -1e-40],
        DTYPES[code],
    )
    with numpy.errstate(all="ignore"):
        want = getattr(numpy, NUMPY_NAMES.get(name, name))(x.astype(numpy.longdouble)).astype(
            x.dtype
        )
    got = run(table, f"{name}:{code}", x)
    numpy.testing.assert_allclose(got, want, rtol=4 * numpy.finfo(x.dtype).eps)
    zero = want == 0
    assert (numpy.signbit(got) == numpy.signbit(want))[zero].all()


@pytest.mark.parametrize("code", ["i32", "i64"])
def test_integers_have_no_undefined_behaviour(table, code):
    least = numpy.iinfo(DTYPES[code]).min
    x = numpy.array([7, -7, least, least, 5, 1, -1, 12, 3], DTYPES[code])
    y = numpy.array([2, 2, -1, 1, 0, -3, 70, -18, -2], DTYPES[code])
    assert run(table, f"floor_divide:{code}", x, y).tolist() == [
        3,
        -4,
        least,
        least,
        0,
        -1,
        -1,
        -1,
        -2,
    ]
    assert run(table, f"integer_divide:{code}", x, y).tolist() == [
        3,
        -3,
        least,
        least,
        0,
        0,
        0,
        0,
        -1,
    ]
    assert run(table, f"remainder:{code}", x, y).tolist() == [1, 1, 0, 0, 0, -2, 69, -6, -1]
    assert run(table, f"fmod:{code}", x, y).tolist() == [1, -1, 0, 0, 0, 1, -1, 12, 1]
    assert run(table, f"bitwise_left_shift:{code}", x, y)[[0, 6]].tolist() == [28, 0]
    assert run(table, f"bitwise_right_shift:{code}", x, y)[[1, 6]].tolist() == [-2, -1]
    assert run(table, f"gcd:{code}", x, y)[[0, 7, 8]].tolist() == [1, 6, 1]
    assert run(table, f"lcm:{code}", x, y)[[0, 7, 8]].tolist() == [14, 36, 6]
    assert run(table, f"pow:{code}", x, y)[[0, 1, 3, 4, 5]].tolist() == [49, 49, least, 1, 1]


def test_arguments_beyond_the_fast_reduction(table):
    x = numpy.array([1e5, 1e7, 1e10, 1e22, -1e30, 3e38])
    numpy.testing.assert_allclose(run(table, "sin:f64", x), numpy.sin(x), rtol=1e-15)
    single = x.astype(numpy.float32)
    want = numpy.cos(single.astype(numpy.float64))
    numpy.testing.assert_allclose(run(table, "cos:f32", single), want, rtol=1e-6)


def test_every_loop_vectorises(tmp_path):
    names = [n for n in UNARY if n not in library.SLOW]
    text = pointwise.unit(None, [(f"{n}:f32", s.trace(getattr(s, n), ["f32"])) for n in names])
    _, report = compile_unit(text, VARIANTS[-1], tmp_path, ("-fopt-info-vec-optimized",))
    if "vectorized" not in report:
        pytest.skip("the compiler gives no report on vectorisation")
    places = {int(line.split(":")[1]) for line in report.splitlines() if "loop vectorized" in line}
    lines = text.splitlines()
    loops = [n for n, line in enumerate(lines, 1) if "#pragma omp simd" in line]
    missed = [lines[n] for n in loops if not places & set(range(n, n + 4))]
    assert not missed


def test_equal_kernels_are_emitted_once():
    traced = s.trace(lambda x: x + 1, ["f32"])
    text = pointwise.unit(None, [("a:f32", traced), ("b:f32", traced)])
    assert text.count("static void k_") == 1 and '"a:f32"' in text and '"b:f32"' in text


def test_a_unit_holds_only_the_functions_it_uses():
    text = pointwise.unit(None, [("exp:f32", s.trace(s.exp, ["f32"]))])
    assert "fm_exp_f32" in text and "fm_log" not in text and "f64" not in text


def test_names_of_prebuilt_kernels():
    from facula.ops import TABLE

    names = [name for name, _ in pointwise.kernels_of(TABLE["gelu"].definition, "f32")]
    assert names == ["gelu:f32", "gelu.grad0:f32", "gelu.tanh:f32", "gelu.tanh.grad0:f32"]
    names = [name for name, _ in pointwise.kernels_of(TABLE["clamp"].definition, "i64")]
    assert names == ["clamp.min:i64", "clamp.max:i64", "clamp.min.max:i64"]
    assert "div:i64" not in [
        name for name, _ in pointwise.kernels_of(TABLE["div"].definition, "i64")
    ]
