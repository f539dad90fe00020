"""The units of prebuilt kernels: which kernel is where, and that none is there twice."""

import re

import pytest

from facula.codegen.c import units
from facula.codegen.c.isa import ISAS

FUNCTION = re.compile(r"^static void (k_\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
ROW = re.compile(r'\{\s*"([^"]+)",\s*\'m\',\s*\(void \*\)(\w+)')


@pytest.fixture(scope="module")
def elementwise() -> dict[str, str]:
    return dict(units.elementwise(ISAS["v2"]))


def test_a_kernel_of_several_operators_is_compiled_once(elementwise):
    found: dict[str, str] = {}
    for unit, text in elementwise.items():
        for match in FUNCTION.finditer(text):
            body = match[0].replace(match[1], "", 1)
            assert body not in found, f"{match[1]} of {unit} is {found[body]}"
            found[body] = f"{match[1]} of {unit}"


def test_operators_that_are_one_function_have_one_kernel(elementwise):
    rows = {name: function for text in elementwise.values() for name, function in ROW.findall(text)}
    for code in ("f32", "f64"):
        assert rows[f"i1:{code}"] == rows[f"special_i1:{code}"]
        assert rows[f"erfcx:{code}"] == rows[f"special_erfcx:{code}"]
        assert rows[f"i1:{code}"] != rows[f"i0:{code}"]


def test_every_kernel_has_one_row(elementwise):
    names = [row["name"] for text in elementwise.values() for row in units.ENTRY.finditer(text)]
    assert len(names) == len(set(names))
    assert set(names) == {name for name, _ in units._pointwise_kernels()}


def test_complex_numbers_and_optimizers_make_do_without_a_second_loop():
    assert units.own_flags("complex_1", "v4") == units.own_flags("multi_tensor", "v2") != ()
    assert units.own_flags("pointwise_1", "v4") == ()
    assert units.own_flags("reduction_sum", "v4") and not units.own_flags("reduction_sum", "v2")
