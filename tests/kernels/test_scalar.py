"""Scalar expressions: construction, simplification, complex pairs, gradients, evaluation.

Promise: an expression means what its body says, its gradient is the derivative (PyTorch's choice at kinks), and nothing
that a branch leaves out can poison a gradient.
"""

import math

import pytest

numpy = pytest.importorskip("numpy")
pytest.importorskip("scipy")

from facula.ops.expr import scalar as s  # noqa: E402
from facula.ops.expr.numpy_values import NumPy  # noqa: E402

NAMESPACE = NumPy()
rng = numpy.random.default_rng(7)


def value_of(traced, *inputs, parameters=()):
    with numpy.errstate(all="ignore"):
        return s.evaluate(traced, inputs, parameters, NAMESPACE)[0]


def test_equal_expressions_are_one_node():
    x, y = s.input(0, "f32"), s.input(1, "f32")
    assert x * y + 1 is x * y + 1
    assert s.exp(x) is s.exp(x)
    assert s.constant(0.0) is not s.constant(-0.0)
    assert s.constant(math.nan) is s.constant(math.nan)


def test_simplifications_keep_every_bit():
    x = s.input(0, "f32")
    assert x * 1 is x and x / 1 is x and x - 0.0 is x and x + -0.0 is x and s.apply("neg", -x) is x
    assert (x + 0.0).op == "add"  # -0 + 0 is +0
    assert (x * 0.0).op == "mul"  # NaN and infinity stay visible
    assert s.where(s.logical_not(x > 0), 1.0, x).args[1] is x


def test_constants_adapt_to_what_they_meet():
    x = s.input(0, "f32")
    assert (0.1 * x).args[0].value == float(numpy.float32(0.1))
    assert s.where(x > 0, 0.5, 2.0).weak and (s.where(x > 0, 0.5, 2.0) * x).dtype == "f32"
    with pytest.raises(TypeError, match="an integer beside i64 was required"):
        s.input(0, "i64") + 0.5


def test_a_branch_in_python_is_refused():
    with pytest.raises(TypeError, match=r"use where\(condition, a, b\)"):
        bool(s.input(0, "f32") > 0)


def test_runtime_attributes_are_parameters_in_order():
    traced = s.trace(
        lambda x, *, a, b: a * x + b, ["f32"], {"a": s.Runtime(), "b": s.Runtime("f64")}
    )
    assert [p.value for p in traced.parameters] == ["a", "b"]
    assert value_of(traced, numpy.float32(3), parameters=(2.0, 1.0)) == 7
    gradient = s.gradient(traced, 0)
    assert gradient.parameters == traced.parameters and gradient.uses == ("grad",)


def test_an_optional_argument_that_is_absent_keeps_the_numbers_of_the_others():
    traced = s.trace(lambda x, low, high: s.clamp(x, low, high), ["f32", None, "f32"])
    assert traced.uses == (0, 2)
    assert s.gradient(traced, 1) is None


UNARY = {
    "exp": (-2, 2), "log": (0.1, 3), "log1p": (-0.5, 3), "expm1": (-1, 1), "sqrt": (0.1, 4), "rsqrt": (0.1, 4),
    "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atan": (-3, 3),
    "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2), "asinh": (-3, 3), "acosh": (1.1, 4), "atanh": (-0.9, 0.9),
    "erf": (-2, 2), "erfc": (-2, 2), "erfcx": (-1, 2), "erfinv": (-0.9, 0.9), "ndtri": (0.1, 0.9),
    "lgamma": (0.5, 5), "digamma": (0.5, 5), "i0": (-3, 3), "i0e": (0.2, 3), "i1": (-3, 3), "i1e": (0.2, 3),
    "bessel_j0": (0.2, 9), "bessel_j1": (0.2, 9), "bessel_y0": (0.3, 9), "bessel_y1": (0.3, 9),
    "bessel_k0": (0.3, 4), "bessel_k1": (0.3, 4), "bessel_k0e": (0.3, 4), "bessel_k1e": (0.3, 4),
    "airy_ai": (-4, 3), "airy_ai_derivative": (-4, 3), "exp2": (-2, 2), "log2": (0.1, 4), "log10": (0.1, 4),
    "reciprocal": (0.3, 3), "abs": (0.2, 3), "neg": (-2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_derivatives_agree_with_differences(name):
    low, high = UNARY[name]
    x = rng.uniform(low, high, 50)
    traced = s.trace(getattr(s, name), ["f64"])
    gradient = s.gradient(traced, 0)
    known = {"grad": numpy.ones(50), "result": value_of(traced, x), 0: x}
    got = value_of(gradient, *(known[use] for use in gradient.uses))
    step = 1e-6
    want = (value_of(traced, x + step) - value_of(traced, x - step)) / (2 * step)
    numpy.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-7)


BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "atan2",
    "hypot",
    "fmod",
    "remainder",
    "maximum",
    "fmin",
]


@pytest.mark.parametrize("name", BINARY)
def test_binary_derivatives_agree_with_differences(name):
    x, y = rng.uniform(0.3, 3, 50), rng.uniform(0.3, 3, 50)
    traced = s.trace(getattr(s, name), ["f64", "f64"])
    for wrt in (0, 1):
        gradient = s.gradient(traced, wrt)
        known = {"grad": numpy.ones(50), "result": value_of(traced, x, y), 0: x, 1: y}
        got = value_of(gradient, *(known[use] for use in gradient.uses)) + 0 * x
        step = [1e-7 * (wrt == 0), 1e-7 * (wrt == 1)]
        want = value_of(traced, x + step[0], y + step[1]) - value_of(
            traced, x - step[0], y - step[1]
        )
        smooth = numpy.abs(want) < 1e-5  # no jump of fmod between the two points
        numpy.testing.assert_allclose(got[smooth], want[smooth] / 2e-7, rtol=1e-5, atol=1e-6)


KINKS = [
    (lambda x: s.abs(x), 0.0, 0.0),
    (lambda x: s.maximum(x, s.constant(0.0, "f64")), 0.0, 0.5),
    (lambda x: s.where(x > 0, x, 0.0), 0.0, 0.0),
    (lambda x: s.where(x > 0, s.log(x), 0.0), 0.0, 0.0),
    (lambda x: s.where(x > 0, s.sqrt(x), 0.0), -1.0, 0.0),
    (lambda x: s.pow(x, s.constant(0.0, "f64")), 0.0, 0.0),
    (lambda x: s.sign(x), 3.0, 0.0),
    (lambda x: s.floor(x), 3.5, 0.0),
]


@pytest.mark.parametrize("body, x, slope", KINKS)
def test_gradients_at_kinks_and_in_branches_not_taken(body, x, slope):
    traced = s.trace(body, ["f64"])
    gradient = s.gradient(traced, 0)
    known = {
        "grad": numpy.float64(1),
        "result": value_of(traced, numpy.float64(x)),
        0: numpy.float64(x),
    }
    assert value_of(gradient, *(known[use] for use in gradient.uses)) == slope


def test_an_infinite_gradient_does_not_leak_into_a_branch_not_taken():
    gradient = s.gradient(s.trace(lambda x: s.where(x > 0, x, 0.0), ["f64"]), 0)
    assert value_of(gradient, numpy.float64(numpy.inf), numpy.float64(-1)) == 0


def test_tangent_is_the_gradient_of_a_real_function():
    traced = s.trace(lambda x, y: s.sin(x) * y, ["f64", "f64"])
    tangent = s.tangent(traced)
    assert tangent.uses == ("tangent0", "tangent1", 0, 1)
    got = value_of(tangent, 2.0, 3.0, numpy.float64(0.5), numpy.float64(4.0))
    assert got == pytest.approx(2 * math.cos(0.5) * 4 + 3 * math.sin(0.5))


COMPLEX = [
    "exp",
    "log",
    "log1p",
    "expm1",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
]
COMPLEX += ["asinh", "acosh", "atanh", "reciprocal", "rsqrt", "log2", "log10", "exp2"]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_agree_with_numpy(name):
    z = rng.normal(size=300) * 2 + 2j * rng.normal(size=300)
    got = value_of(s.trace(getattr(s, name), ["c128"]), z)
    reference = {"rsqrt": lambda v: 1 / numpy.sqrt(v), "reciprocal": lambda v: 1 / v}.get(name)
    spelled = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
               "atanh": "arctanh"}.get(name, name)  # fmt: skip
    want = reference(z) if reference else getattr(numpy, spelled)(z)
    numpy.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


def test_complex_quotients_do_not_overflow():
    big = numpy.array([1e200 + 1e200j, 1e-200 + 3e-200j, 3 + 4j, 1e300j])
    got = value_of(s.trace(lambda z, w: z / w, ["c128", "c128"]), big, big)
    numpy.testing.assert_allclose(got, 1, rtol=1e-15)


def test_complex_gradient_is_that_of_the_parts():
    z, w = rng.normal(size=(2, 20)) + 1j * rng.normal(size=(2, 20))
    grad = rng.normal(size=20) + 1j * rng.normal(size=20)
    traced = s.trace(lambda a, b: a * b, ["c128", "c128"])
    gradient = s.gradient(traced, 0)
    assert gradient.uses == ("grad", 1)
    numpy.testing.assert_allclose(value_of(gradient, grad, w), grad * w.conj(), rtol=1e-14)


def test_an_explicit_backward_names_what_it_reads():
    traced = s.trace(lambda x: s.exp(x), ["f32"])
    gradient = s.gradient(traced, 0, lambda grad, result: grad * result)
    assert gradient.uses == ("grad", "result")
    with pytest.raises(TypeError, match="one gradient for each of 1 tensor arguments"):
        s.gradient(traced, 0, lambda grad: (grad, grad))


def test_an_unknown_derivative_says_so():
    traced = s.trace(lambda a, x: s.igamma(a, x), ["f64", "f64"])
    with pytest.raises(
        NotImplementedError, match=r"\[igamma\] a differentiable argument was required"
    ):
        s.gradient(traced, 0)
    assert s.gradient(traced, 1) is not None
