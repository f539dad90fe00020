"""Python's numbers that no element of a dtype can be: refused where they become elements, and nowhere else.

Takes: operators that convert a number to the dtype of their tensors. Gives: tests.
Keeps true: nothing wraps in silence; what is compared or computed in a wider dtype stays exact; infinities are numbers.
"""

from __future__ import annotations

import math
import re

import pytest

import facula

MESSAGE = "cannot be converted to type .* without overflow"
#: a dtype and a number beyond it
BEYOND = [
    (facula.uint8, 300),
    (facula.uint8, -300),
    (facula.int8, 128),
    (facula.int16, -(2**15) - 1),
    (facula.int32, 2**31),
    (facula.float16, 1e6),
    (facula.bfloat16, 1e39),
    (facula.float32, 1e39),
]
MASK = facula.tensor([True, False, True])
INDEX = facula.tensor([0, 2])
CONVERTED = {
    "clamp(min)": lambda x, v: x.clamp(min=v),
    "clamp(max)": lambda x, v: x.clamp(max=v),
    "clamp_": lambda x, v: x.clamp_(max=v),
    "clamp_min": lambda x, v: x.clamp_min(v),
    "clip(out)": lambda x, v: facula.clip(x, max=v, out=facula.empty_like(x)),
    "add(alpha)": lambda x, v: facula.add(x, x, alpha=v),
    "add_(alpha)": lambda x, v: x.add_(x, alpha=v),
    "sub(alpha)": lambda x, v: facula.sub(x, x, alpha=v),
    "rsub(alpha)": lambda x, v: facula.rsub(x, x, alpha=v),
    "fill_": lambda x, v: x.fill_(v),
    "fill_ of nothing": lambda x, v: x[:0].fill_(v),
    "full": lambda x, v: facula.full((2,), v, dtype=x.dtype),
    "full_like": facula.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "masked_fill_": lambda x, v: x.masked_fill_(MASK, v),
    "scatter": lambda x, v: x.scatter(0, INDEX, v),
    "scatter_": lambda x, v: x.scatter_(0, INDEX, v),
    "index_fill": lambda x, v: x.index_fill(0, INDEX, v),
    "index_fill_": lambda x, v: x.index_fill_(0, INDEX, v),
    "index_add": lambda x, v: x.index_add(0, INDEX, x[:2], alpha=v),
    "index_add_": lambda x, v: x.index_add_(0, INDEX, x[:2].clone(), alpha=v),
    "pad": lambda x, v: facula.constant_pad_nd(x, (1, 1), v),
    "linspace": lambda x, v: facula.linspace(0, v, 3, dtype=x.dtype),
    "addr": lambda x, v: facula.addr(x.repeat(3, 1), x, x, alpha=v),
    "threshold": lambda x, v: facula.threshold(x, 2, v),
}


@pytest.mark.parametrize("call", list(CONVERTED))
def test_a_number_beyond_the_dtype_is_refused(call):
    for dtype, number in BEYOND:
        with pytest.raises(RuntimeError, match=MESSAGE):
            CONVERTED[call](facula.tensor([1, 2, 3]).to(dtype), number)


@pytest.mark.breaks
@pytest.mark.parametrize("call", list(CONVERTED))
def test_a_compiled_program_refuses_it_too(call):
    program = facula.compile(lambda x: CONVERTED[call](x, 300))
    with pytest.raises(RuntimeError, match=MESSAGE):
        program(facula.tensor([1, 2, 3], dtype=facula.uint8))


@pytest.mark.parametrize(
    "call", ["clamp(min)", "full", "masked_fill", "index_fill", "scatter", "pad", "fill_"]
)
def test_infinities_and_the_largest_numbers_are_numbers(call):
    for dtype in (facula.float16, facula.bfloat16, facula.float32, facula.float64):
        for number in (math.inf, -math.inf, math.nan, facula.finfo(dtype).max, 0, True):
            CONVERTED[call](facula.ones(3, dtype=dtype), number)
    for dtype in (facula.uint8, facula.int8, facula.int16, facula.int32, facula.int64):
        for number in (facula.iinfo(dtype).min, facula.iinfo(dtype).max):
            CONVERTED[call](facula.ones(3, dtype=dtype), number)


def test_exponents_of_integers_and_of_small_floats_must_fit():
    for dtype, number in ((facula.uint8, 300), (facula.int16, 2**15), (facula.float16, 1e6)):
        with pytest.raises(RuntimeError, match=MESSAGE):
            facula.ones(3, dtype=dtype) ** number
    assert (facula.tensor([1.0, 2.0]) ** 1e39).tolist() == [1.0, math.inf]
    assert (2 ** facula.tensor([1, 2], dtype=facula.uint8)).tolist() == [2, 4]


def test_choices_of_where_must_fit_and_small_floats_become_infinite():
    for dtype, number in ((facula.uint8, 300), (facula.int32, 2**31), (facula.float32, 1e39)):
        x = facula.tensor([1, 2, 3]).to(dtype)
        with pytest.raises(RuntimeError, match=MESSAGE):
            facula.where(MASK, number, x)
        with pytest.raises(RuntimeError, match=MESSAGE):
            facula.where(MASK, x, number)
    half = facula.where(MASK, -1e9, facula.ones(3, dtype=facula.float16))
    assert half.tolist() == [-math.inf, 1.0, -math.inf]


def test_factors_of_products_of_small_floats_have_the_range_of_float32():
    x = facula.ones(2, 2, dtype=facula.float16)
    assert facula.addmm(x, x, x, alpha=1e5).isinf().all()
    assert facula.addcmul(x, x * 0, x, value=1e6).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    for call in (facula.addmm, facula.addcmul):
        with pytest.raises(RuntimeError, match=MESSAGE):
            call(x, x, x, **{"alpha" if call is facula.addmm else "value": 1e300})


def test_a_half_takes_any_number_by_its_subscript():
    x = facula.ones(4, dtype=facula.float16)
    x[0] = -1e9
    x[facula.tensor([False, True, False, False])] = 1e9
    x[facula.tensor([2])] = 1e9
    assert x.tolist() == [-math.inf, math.inf, math.inf, 1.0]
    with pytest.raises(RuntimeError, match=MESSAGE):
        facula.ones(2)[0] = 1e39


def test_numbers_that_are_compared_or_wrapped_by_arithmetic_are_no_errors():
    x = facula.tensor([1, 200, 255], dtype=facula.uint8)
    assert (x < 300).tolist() == [True, True, True]
    assert (x == 300).tolist() == [False, False, False]
    assert (x > -1).tolist() == [True, True, True]
    assert (x + 300).tolist() == [45, 244, 43]


def test_a_negative_number_of_an_unsigned_dtype_ends_in_its_bits():
    assert facula.full((1,), -1, dtype=facula.uint8).tolist() == [255]
    with pytest.raises(RuntimeError, match=MESSAGE):
        facula.full((1,), -1.0, dtype=facula.uint8)


def test_the_message_names_operator_argument_and_number():
    with pytest.raises(RuntimeError, match=re.escape("[clamp] a number that fits uint8")) as found:
        facula.ones(3, dtype=facula.uint8).clamp(min=300)
    assert "'min'" in str(found.value)
    assert "type uint8_t" in str(found.value)
    assert "got 300" in str(found.value)
