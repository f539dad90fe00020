"""16-bit floats compute in float32 and round once; float32 stays near float64."""

import pytest
from operator_cases import (
    DEFINITIONS,
    EVERY,
    POINTWISE,
    TABLE,
    Samples,
    admits,
    calls,
    map_tensors,
    results_near,
)

import facula

NARROW = {"bfloat16": facula.bfloat16, "float16": facula.float16}


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("name", [n for n in POINTWISE if admits(n, "float")])
def test_pointwise(name, narrow):
    for args, kwargs in calls(name, Samples(NARROW[narrow])):
        actual = TABLE[name](*args, **kwargs)
        wide, wide_kwargs = map_tensors(
            lambda x: x.float() if x.is_floating_point() else x, (args, kwargs)
        )
        expected = TABLE[name](*wide, **wide_kwargs)
        if expected.is_floating_point():
            assert actual.dtype == NARROW[narrow]
            expected = expected.to(NARROW[narrow])
        results_near(actual, expected, NARROW[narrow], 1)


STRUCTURED = [n for n in EVERY if DEFINITIONS[n].kind not in ("pointwise", "view")]


#: dtype -> the dtype to compare with, and how many roundings a sum of products may be off by
COMPARED = {
    "bfloat16": (facula.bfloat16, facula.float32, 8),
    "float16": (facula.float16, facula.float32, 8),
    "float32": (facula.float32, facula.float64, 32),
}


def taken(name, narrow):
    """Whether an operator takes a dtype; 16-bit floats are a field of the definition."""
    return COMPARED[narrow][0].itemsize > 2 or DEFINITIONS[name].takes_16_bits in (True, narrow)


@pytest.mark.parametrize(
    "name, narrow", [(n, d) for n in STRUCTURED for d in COMPARED if taken(n, d)]
)
def test_structured(name, narrow):
    dtype, wide, factor = COMPARED[narrow]
    for args, kwargs in calls(name, Samples(dtype)):
        actual = TABLE[name](*args, **kwargs)
        widened = map_tensors(
            lambda x, d=wide: x.to(d) if x.dtype.is_floating_point else x, [args, kwargs]
        )
        results_near(actual, TABLE[name](*widened[0], **widened[1]), dtype, factor)


@pytest.mark.parametrize(
    "name, narrow", [(n, d) for n in STRUCTURED for d in COMPARED if not taken(n, d)]
)
def test_what_is_not_taken_is_refused(name, narrow):
    for args, kwargs in calls(name, Samples(COMPARED[narrow][0])):
        with pytest.raises(NotImplementedError, match=r"^\["):
            TABLE[name](*args, **kwargs)
