"""Floats that programs compute from sizes: computed where they run, or they fix the sizes that they are asked of."""

from __future__ import annotations

import math

import pytest

import facula
from facula import export, nn


def exported(function, *, free: bool = True, **options):  # type: ignore[no-untyped-def]
    class Program(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return function(x)

    size = export.Dim.DYNAMIC if free else export.Dim.AUTO
    x = facula.arange(8.0)
    return export.export(Program(), (x,), dynamic_shapes={"x": {0: size}}, **options).module()


COMPUTED = {
    "a quotient": lambda x: x * (x.shape[0] / 2),
    "a sum": lambda x: x * (x.shape[0] / 2 + 1),
    "a negative one": lambda x: x - (-(x.shape[0] / 3)),
    "an inexact sum": lambda x: x * (x.shape[0] / 3 + 0.1),
    "a float behind a size": lambda x: x * (x.shape[0] + 3.0) + x.shape[0] * 0.3,
    "a reflected one": lambda x: x * (1.5 - x.shape[0] / 4),
    "a power": lambda x: x * (x.shape[0] / 3) ** 2,
    "an absolute one": lambda x: x * abs(x.shape[0] / 2),
    "a nearest one": lambda x: x[: round(x.shape[0] / 4)],
    "one from above": lambda x: x[: math.ceil(x.shape[0] * 0.25)],
    "one from below": lambda x: x[: math.floor(x.shape[0] * 0.5 + 1)],
    "an element": lambda x: facula.tensor([x.shape[0] / 2, 1.0]),
    "a fill": lambda x: facula.full((2,), x.shape[0] / 8),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("which", COMPUTED)
def test_floats_are_computed_where_the_program_runs(which: str, strict: bool):
    function = COMPUTED[which]
    program = exported(function, strict=strict)
    for size in (2, 5, 6, 8, 10, 13, 14):
        x = facula.arange(float(size))
        assert facula.allclose(program(x), function(x)), size


FIXED = {
    "an int": lambda x: x * int(x.shape[0] / 1),
    "a root": lambda x: x * math.sqrt(x.shape[0] / 2),
    "a float": lambda x: x * float(x.shape[0] / 2),
    "a loop": lambda x: sum(x[i] for i in range(x.shape[0])),
    "a comparison": lambda x: x + 1 if x.shape[0] / 3 == 8 / 3 else x,
}


@pytest.mark.parametrize("which", FIXED)
def test_what_asks_for_the_value_fixes_the_size(which: str):
    function = FIXED[which]
    with pytest.raises(RuntimeError, match="specialized it to be a constant"):
        exported(function)
    program = exported(function, free=False)
    x = facula.arange(8.0)
    assert facula.allclose(program(x), function(x))
    with pytest.raises(AssertionError, match="Guard failed"):
        program(facula.arange(6.0))


def test_a_comparison_with_a_float_is_a_bound_of_the_size():
    program = exported(lambda x: x + 1 if x.shape[0] / 2 > 3.5 else x - 1)
    assert program(facula.zeros(9)).tolist() == [1] * 9
    with pytest.raises(AssertionError, match="Guard failed"):
        program(facula.zeros(7))


def test_rounding_takes_the_even_one_of_two():
    program = exported(lambda x: x[: round(x.shape[0] / 4)])
    for size in range(2, 30):
        assert len(program(facula.zeros(size))) == round(size / 4)


def test_what_is_open_while_a_program_is_exported_is_pythons_own_again():
    before = dict(vars(math))
    exported(lambda x: x * 2)
    assert dict(vars(math)) == before and "range" not in globals()
