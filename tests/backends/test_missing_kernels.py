"""Pointwise operators without a prebuilt kernel: compiled on first use, or evaluated by other operators."""

import os
import subprocess
import sys

import pytest

OPERATORS = '''
import facula, warnings
from facula.library import pointwise
from facula.ops.expr import scalar as s

@pointwise("t::softsquare(Tensor self, *, float b=4.0, str mode='plain') -> Tensor", result="float")
def softsquare(x, *, b, mode):
    """A smooth rectifier."""
    return (0.5 if mode == "half" else 1.0) * (x + s.sqrt(x * x + b))

@pointwise("t::blend(Tensor self, Operand other, Tensor? third=None) -> Tensor")
def blend(x, y, third):
    """A product, and a sine of floats."""
    r = x * y if x.is_integer else x * y + s.sin(x)
    return r if third is None else r * third
'''
CHECKS = """
x = facula.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = softsquare(x, b=2.0, mode="half")
expected = 0.5 * (x + (x * x + 2.0).sqrt())
facula.testing.assert_close(y, expected)
for f in (lambda a: softsquare(a, b=3.0), lambda a: blend(a, a, a), lambda a: blend(a, 2.0)):
    w = x.detach().double().requires_grad_()
    assert facula.autograd.gradcheck(f, (w,)) and facula.autograd.gradgradcheck(f, (w,))
c = facula.randn(3, dtype=facula.complex128, requires_grad=True)
assert facula.autograd.gradcheck(lambda a: blend(a, a), (c,))
assert blend(facula.arange(4), 3).tolist() == [0, 3, 6, 9]
assert blend(facula.arange(4, dtype=facula.int8), facula.arange(4)).dtype is facula.int64
assert softsquare(facula.arange(3)).dtype is facula.float32
facula.testing.assert_close(softsquare(x.detach().bfloat16()).float(), softsquare(x.detach()), atol=0.05, rtol=0.01)
z = facula.zeros(3, 2).t()
assert softsquare(z).tolist() == [[2.0] * 3] * 2 and softsquare(facula.zeros(0)).shape == (0,)
assert softsquare.inplace(z) is z and z.tolist() == [[2.0] * 3] * 2
out = facula.empty(3)
assert softsquare(facula.zeros(3), out=out) is out and out.tolist() == [2.0] * 3
assert softsquare(facula.ones(3, device="meta")).is_meta
events = facula.backends.cpu.events()
"""


def run(code, tmp_path, **environment):
    """Runs code in a process of its own, with a cache of its own."""
    settings = {**os.environ, "FACULA_CACHE_DIR": str(tmp_path / "cache"), **environment}
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", OPERATORS + code],
        env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip


def passed(outcome):
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    return outcome


def without_compiler(tmp_path):
    """An environment in which no C compiler can be found."""
    (tmp_path / "empty").mkdir()
    return {"PATH": str(tmp_path / "empty"), "CC": "no-such-compiler"}


def test_compiled_on_first_use(tmp_path):
    check = CHECKS + "assert {e.outcome for e in events} == {'compiled'}, events\n"
    outcome = passed(run(check, tmp_path))
    assert "MissingKernelWarning" not in outcome.stderr
    passed(run(check, tmp_path))


def test_evaluated_without_a_compiler_and_said_once(tmp_path):
    check = CHECKS + "assert {e.outcome for e in events} == {'evaluated'}, events\n"
    outcome = passed(run(check, tmp_path, **without_compiler(tmp_path)))
    assert outcome.stderr.count("MissingKernelWarning") == 1
    assert "pip install ziglang" in outcome.stderr or "CC must name a program" in outcome.stderr


def test_switched_off(tmp_path):
    check = CHECKS + "assert {e.reason for e in events} == {'FACULA_JIT=0'}, events\n"
    outcome = passed(run(check, tmp_path, FACULA_JIT="0"))
    assert "MissingKernelWarning" not in outcome.stderr


def test_forbidden_to_do_without(tmp_path):
    code = "softsquare(facula.ones(2))"
    outcome = run(code, tmp_path, FACULA_JIT="error", **without_compiler(tmp_path))
    assert outcome.returncode and "required by FACULA_JIT=error" in outcome.stderr
    passed(run(code, tmp_path, FACULA_JIT="error"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("facula.arange(1, 4) / facula.arange(1, 4)", "[1.0, 1.0, 1.0]"),
        ("facula.tensor([True]).square()", "[1]"),
        ("facula.tensor([True]) / facula.tensor([True])", "[1.0]"),
    ],
)
def test_kernels_that_are_not_to_be_are_not_made(tmp_path, expression, value):
    code = f"r = {expression}\nassert str(r.tolist()) == {value!r}, r\n"
    code += "assert not facula.backends.cpu.events(), facula.backends.cpu.events()\n"
    passed(run(code, tmp_path))
