"""bfloat16 and float16 compute in float32 and round once: near the float32 result."""

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


@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("name", STRUCTURED)
def test_structured(name, narrow):
    for args, kwargs in calls(name, Samples(NARROW[narrow])):
        actual = TABLE[name](*args, **kwargs)
        wide, wide_kwargs = map_tensors(
            lambda x: x.float() if x.is_floating_point() else x, (args, kwargs)
        )
        results_near(actual, TABLE[name](*wide, **wide_kwargs), NARROW[narrow], 8)
