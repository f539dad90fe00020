"""`repr(tensor)` is PyTorch's to the character.

Takes `expected.json`: expressions, print options, and the text that PyTorch 2.13 shows for them
(there `facula` stood for `torch`).
"""

import json
import math
from pathlib import Path

import pytest

import facula
from facula.core import printing

CASES = json.loads((Path(__file__).parent / "expected.json").read_text())
NAMES = {"facula": facula, "inf": math.inf, "nan": math.nan}


@pytest.fixture(autouse=True)
def default_options():
    before = printing.get_printoptions()
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(**before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["code"])
def test_text_is_the_expected_one(case):
    options = {k: math.inf if v == "inf" else v for k, v in case["options"].items()}
    printing.set_printoptions(**options)
    value = eval(case["code"], dict(NAMES))
    assert repr(value) == case["text"].replace("torch.", "facula.")


def test_history_is_shown():
    x = facula.tensor([1.5, 2.0], requires_grad=True)
    assert "grad_fn=<MulBackward0>" in repr(x * 2)
    assert repr((x * 2).detach()) == "tensor([3., 4.])"


def test_parameter_names_itself():
    parameter = facula.nn.Parameter(facula.tensor([1.5]))
    assert repr(parameter) == "Parameter containing:\ntensor([1.5000], requires_grad=True)"


def test_default_dtype_is_not_mentioned():
    facula.set_default_dtype(facula.float64)
    try:
        assert repr(facula.tensor([1.5])) == "tensor([1.5000])"
        narrow = facula.tensor([1.5], dtype=facula.float32)
        assert repr(narrow) == "tensor([1.5000], dtype=facula.float32)"
    finally:
        facula.set_default_dtype(facula.float32)


def test_options_hold_for_a_block_only():
    x = facula.tensor([1.23456])
    with printing.printoptions(precision=2):
        assert repr(x) == "tensor([1.23])"
    assert repr(x) == "tensor([1.2346])"


def test_printing_a_large_tensor_reads_its_edges_only():
    x = facula.arange(12.0).reshape(3, 4).expand(100_000_000, 3, 4)
    assert "..." in repr(x)


def test_printing_records_nothing():
    x = facula.tensor([1.0], requires_grad=True)
    y = x * 2
    before = y._version, y.grad_fn
    repr(y)
    assert (y._version, y.grad_fn) == before
