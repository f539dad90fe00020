"""Numbers beside tensors of 16 bits: sums, remainders and powers take elements of that dtype, products all digits.

Takes: operators of a tensor and a number. Gives: tests, against NumPy.
Keeps true: the rule is PyTorch's, eager and compiled; gradients reach a number that is a tensor.
"""

from __future__ import annotations

import numpy as np
import pytest

import facula

NUMBERS = (0.1, -0.3, 3.14159, 100.1, 1e-3)
VALUES = np.random.default_rng(2).normal(0, 3, 400).astype(np.float16)
ROUNDED = {
    "add": (lambda x, v: x + v, lambda x, v: x + v),
    "sub": (lambda x, v: x - v, lambda x, v: x - v),
    "rsub": (lambda x, v: v - x, lambda x, v: v - x),
    "remainder": (lambda x, v: x % v, np.remainder),
    "fmod": (facula.fmod, np.fmod),
    "atan2": (lambda x, v: facula.atan2(x, facula.tensor(v)), np.arctan2),
    "hypot": (lambda x, v: facula.hypot(x, facula.tensor(v)), np.hypot),
}


def _differences(call, oracle, number):
    """The share of elements that are not the oracle's, which computes in float64 and rounds once."""
    with np.errstate(all="ignore"):
        expected = oracle(VALUES.astype(np.float64), np.float64(number)).astype(np.float16)
    return np.mean(call(facula.tensor(VALUES)).numpy() != expected)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", list(ROUNDED))
def test_a_number_is_an_element_of_the_dtype(name, compiled):
    call, oracle = ROUNDED[name]
    for number in NUMBERS[:2] if compiled else NUMBERS:
        run = lambda x, number=number: call(x, number)  # noqa: E731
        run = facula.compile(run) if compiled else run
        assert _differences(run, oracle, np.float16(number)) < 0.01


def test_a_factor_has_all_digits():
    for number in NUMBERS:
        found = _differences(lambda x, v=number: x * v, lambda x, v: x * v, np.float32(number))
        assert found < 0.01


def test_bfloat16_is_rounded_too():
    x = facula.ones(3, dtype=facula.bfloat16)
    tenth = facula.tensor(0.1).bfloat16().item()
    assert (x % 0.1).tolist() == [facula.tensor(1.0 % tenth).bfloat16().item()] * 3
    assert (x + 0.1).tolist() == [facula.tensor(1.0 + tenth).bfloat16().item()] * 3


def test_a_wider_number_that_is_a_tensor_has_its_gradient():
    for dtype in (facula.float16, facula.bfloat16):
        x = facula.full((4,), 2.0, dtype=dtype)
        for call, expected in (
            (lambda x, t: x + t, 4.0),
            (lambda x, t: t - x, 4.0),
            (lambda x, t: x**t, 4 * 2**0.5 * np.log(2)),
        ):
            t = facula.tensor(0.5, requires_grad=True)
            call(x, t).sum().backward()
            assert t.grad.item() == pytest.approx(expected, rel=1e-2)
