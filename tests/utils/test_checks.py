"""Checks that programs make themselves raise what they say, compiled or not."""

from __future__ import annotations

from typing import Any

import pytest

import facula


def test_conditions_that_hold_pass() -> None:
    facula._check(True)
    facula._check_is_size(3, max=4)
    facula._check_tensor_all(facula.tensor([True, True]))
    facula._assert(facula.tensor(1), "one")
    facula._assert_async(facula.tensor(2.0))


@pytest.mark.parametrize(
    ("check", "error"),
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_a_message_is_made_for_an_error_only(check: str, error: type[Exception]) -> None:
    made: list[str] = []

    def message() -> str:
        made.append("made")
        return "what is wrong"

    getattr(facula, check)(True, message)
    assert not made
    with pytest.raises(error, match="what is wrong"):
        getattr(facula, check)(False, message)


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        facula._check(False)
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        facula._check_is_size(-1)
    with pytest.raises(RuntimeError):
        facula._check_is_size(5, max=4)
    with pytest.raises(KeyError):
        facula._check_with(KeyError, False, lambda: "key")
    with pytest.raises(TypeError, match="_check_tensor_all"):
        facula._check(facula.tensor(True))
    with pytest.raises(TypeError, match="must be a bool"):
        facula._check(1)
    with pytest.raises(TypeError, match="callable"):
        facula._check(False, "text")
    with pytest.raises(TypeError, match="tensor of bools"):
        facula._check_tensor_all(True)
    with pytest.raises(RuntimeError, match="none"):
        facula._check_tensor_all(facula.tensor([True, False]), lambda: "none")
    with pytest.raises(AssertionError, match="zero"):
        facula._assert(facula.tensor(0), "zero")
    with pytest.raises(RuntimeError, match="got zero"):
        facula._assert_async(facula.tensor(0))


def test_checks_are_part_of_one_graph() -> None:
    def checked(x: Any) -> Any:
        facula._check(x.shape[0] > 2, lambda: "few rows")
        facula._check_tensor_all(x > 0, lambda: "negative")
        facula._assert((x < 10).all(), "large")
        return x * 2

    compiled = facula.compile(checked, fullgraph=True)
    x = facula.ones(3)
    assert facula.equal(compiled(x), x * 2)
    with pytest.raises(RuntimeError, match="negative"):
        compiled(-x)
    with pytest.raises(AssertionError, match="large"):
        compiled(x * 20)
    with pytest.raises(RuntimeError, match="few rows"):
        compiled(facula.ones(2))


def test_exporting_is_told() -> None:
    told: list[tuple[bool, bool]] = []

    class Telling(facula.nn.Module):
        def forward(self, x: Any) -> Any:
            told.append((facula.compiler.is_exporting(), facula.compiler.is_compiling()))
            return x + 1

    facula.export.export(Telling(), (facula.ones(2),))
    assert told == [(True, True)]
    assert not facula.compiler.is_exporting() and not facula.compiler.is_compiling()


def test_device_modules() -> None:
    assert facula.get_device_module("cpu") is facula.cpu
    with pytest.raises(RuntimeError, match="meta"):
        facula.get_device_module("meta")
    with pytest.raises(RuntimeError, match="already"):
        facula._register_device_module("cpu", facula.cpu)
