"""Loops as Triton text: what a user reads, and what it depends on."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from facula.codegen.triton import kernels, printer
from facula.codegen.triton.math import HELPERS, Unprintable, form
from facula.codegen.triton.product import Factor, product
from facula.devices.cuda import images
from facula.lower.loops import index as ix
from facula.lower.loops import ir
from facula.lower.loops.index import Var
from facula.lower.loops.program import Buffer
from facula.lower.loops.programs import fold_of
from facula.ops.expr.node import apply, cast
from facula.ops.expr.primitives import PRIMITIVES
from facula.runtime import cache

ELEMENTS = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice

ONE: tl.constexpr = tl.constexpr((1,))


@triton.jit
def kernel(b0, b1, e0, TILE: tl.constexpr):
    at = tl.program_id(0).to(tl.int32) * TILE + tl.arange(0, TILE).to(tl.int32)
    live = at < e0
    zero = at * 0
    v0 = tl.load(b0 + (at), mask=live, other=0).to(tl.float32)
    v1 = libdevice.exp(v0)
    v2 = tl.div_rn(v1, v0)
    tl.store(b1 + (at + zero), v2.to(tl.bfloat16), mask=live)
"""


def _buffer(name: str, *shape: int, code: str = "f32") -> Buffer:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return Buffer(name, code, shape, strides[::-1], "input")


def _elements(count: int) -> ir.Elementwise:
    x, y = _buffer("x", count, code="bf16"), _buffer("y", count, code="bf16")
    at = Var("m", count)
    read = ir.load(x, ix.of(at))
    value = apply("div", apply("exp", read), read)
    return ir.Elementwise(at, [ir.Store(y, ix.of(at), value)])


def _sum(outer: int, length: int, inner: int = 1) -> ir.Reduction:
    x, y = _buffer("x", outer, length, inner), _buffer("y", outer, inner)
    geometry = ir.Geometry(1, outer, length, inner)
    variables = Var("s", 1), Var("o", outer), Var("r", length), Var("i", inner)
    step = fold_of("sum", 0, geometry, variables, ir.load(x, ix.ZERO))
    place = step.flat
    step = fold_of("sum", 0, geometry, variables, ir.load(x, place))
    step.finalize = [cast(step.finalize[0], "f32")]
    step.results = [y]
    return step


def test_the_text_of_elements_can_be_read() -> None:
    made = kernels.elementwise(_elements(5000))
    assert made.text == ELEMENTS
    assert made.signature() == {"b0": "*bf16", "b1": "*bf16", "e0": "i32", "TILE": "constexpr"}
    assert made.grid == (5, 1, 1)


def test_other_sizes_have_the_same_text() -> None:
    assert kernels.elementwise(_elements(77)).text == ELEMENTS
    texts = {kernels.reduction(_sum(rows, 1000))[0].text for rows in (300, 301, 999)}
    assert len(texts) == 1


def test_places_beyond_32_bits_are_counted_in_64() -> None:
    made = kernels.elementwise(_elements(1 << 32))
    assert made.wide and made.signature()["e0"] == "i64" and ".to(tl.int64) * TILE" in made.text


def test_long_rows_are_two_kernels() -> None:
    one, two = kernels.reduction(_sum(2, 1 << 20))
    assert one.grid[1] > 16 and two.grid == (2, 1, 1) or two.grid[0] <= 2
    assert [b.name for b in one.buffers] == ["x", "state0"]
    assert [b.name for b in two.buffers] == ["state0", "y"]
    assert len(kernels.reduction(_sum(4096, 1 << 12))) == 1


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "b8"])
def test_a_form_names_no_function_that_is_not_there(dtype: str) -> None:
    """Every form is text that Python reads, over as many arguments as the primitive has."""
    known = 0
    for name, primitive in PRIMITIVES.items():
        try:
            written = form(name, dtype)
        except Unprintable as reason:
            assert name in str(reason)
            continue
        known += 1
        text = written.format(*["x"] * primitive.arity, t="tl.float32", one="one")
        compile(text, name, "eval")
        called = text.partition("(")[0]
        assert not called.isidentifier() or called in HELPERS, text
    assert known > 10


def test_literals_are_exact() -> None:
    for value in (0.1, 0.0, -0.0, 1e-45, float("inf"), float("-inf")):
        text = printer.literal(value, "f32")
        given: Any = eval(text, {"tl": _Spelled(), "ONE": None})
        assert repr(given) == repr(value)
    assert printer.literal(float("nan"), "f64") == 'tl.full(ONE, float("nan"), tl.float64)'


class _Spelled:
    """`tl.full` gives the number that it is given."""

    float32 = None

    @staticmethod
    def full(shape: object, value: Any, kind: object) -> Any:
        return value


def test_products_say_how_float32_is_multiplied() -> None:
    a, b, c = _buffer("a", 64, 32), _buffer("b", 32, 48), _buffer("c", 64, 48)
    factors = [Factor(x, (0, x.strides[0], 1)) for x in (a, b, c)]
    made = product((1, 64, 48, 32), *factors)
    assert 'input_precision="ieee"' in made.text
    assert 'input_precision="tf32"' in product((1, 64, 48, 32), *factors, precision="tf32").text
    with pytest.raises(Unprintable):
        whole = [Factor(_buffer("n", 4, 4, code="i64"), (0, 4, 1))] * 3
        product((1, 4, 4, 4), *whole)


def _request(text: str = ELEMENTS) -> images.Request:
    return images.Request(text, (("b0", "*fp32"),), (), 4, 3, (), 90)


def test_code_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("FACULA_CACHE_DIR", str(tmp_path))
    asked = []

    def compiled(request: images.Request) -> images.Image:
        asked.append(request)
        return images.Image(b"code\nwith lines", "kernel", 16, 2)

    monkeypatch.setattr(images, "compiled", compiled)
    found = [images.image(_request()) for _ in range(2)]
    assert found == [images.Image(b"code\nwith lines", "kernel", 16, 2)] * 2
    images.image(_request(ELEMENTS + "\n"))
    assert len(asked) == 2
    assert cache.directory() == str(tmp_path)
    assert any(tmp_path.rglob("*.cubin"))


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(RuntimeError, match=r"pip install triton"):
        images.compiled(_request())


def test_arguments_behind_those_of_a_kernel_are_counted() -> None:
    ptx = "\n".join(f"\t.param .u64 .ptr .global .align 1 kernel_param_{k}," for k in range(5))
    assert images._parameters(ptx.rstrip(",") + "\n)", "kernel") == 5
    assert json.dumps(images._parameters("", "kernel")) == "0"
