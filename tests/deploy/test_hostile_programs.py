"""Programs of packages, with digests that are right, that reach outside of their memory: refused before they run."""

import re

import pytest

import facula
from facula.deploy.model import Model
from facula.deploy.package import package_bytes
from facula.runtime.libraries import kernel_folder

#: copies its input: one storage of 16 bytes; step: kind, kernel, pointers, their bases and offsets, ... shape, operands
COPY = "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 0 0 4 0 0 4"
RESULT = "1 0 1 0 4 1"


def program(step: str = COPY, result: str = RESULT) -> bytes:
    nothing = "region\n0\n0\n0\n0\n"
    text = f"facula-program 1 0\n1\nx 0 1 0 4 0\n0\n0\n2\n{nothing}region\n0\n1\n16\n1\n{step}\n1\n{result}\n"
    return text.encode()


def answer(text: bytes) -> list[float]:
    model = Model(b"".join(package_bytes({"program": text}, "any")), kernel_folder())
    (found,) = model(facula.tensor([1.0, 2.0, 3.0, 4.0]))
    return found.tolist()


def test_the_program_that_the_others_change_runs():
    assert answer(program()) == [1, 2, 3, 4]
    assert answer(program(COPY.replace("4 0 0 4 0 0 4", "4 0 0 4 0 0 0"))) == [1, 1, 1, 1]
    assert answer(program(COPY, "1 0 1 12 4 -1")) == [4, 3, 2, 1]


STEPS = {
    "more elements": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 5 0 0 4 0 0 4",
    "longer strides": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 0 0 8 0 0 4",
    "strides of what is read": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 0 0 4 0 0 12",
    "strides that lead before it": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 0 0 4 0 0 -4",
    "an offset": "4 -1 2 1 4 0 0 0 0 0 0 1 1 1 4 0 0 4 0 0 4",
    "a wider dtype": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 1 1 4 0 0 4",
    "an odd offset": "4 -1 2 1 0 0 2 0 0 0 0 1 1 1 3 0 0 4 0 0 4",
    "strides whose product is too large": "4 -1 2 1 0 0 0 0 0 0 0 1 1 1 4 0 0 4611686018427387904 0 0 4",
    "no memory": "4 -1 2 1 0 -1 0 0 0 0 0 1 1 1 4 0 0 4 0 0 4",
    "no memory to clear": "6 -1 1 -1 0 0 0 16 0",
    "a check of nothing": "7 -1 1 1 12 0 0 0 0",
    "no memory to check": "7 -1 1 -1 0 0 0 0 0",
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_steps_that_reach_outside_are_refused(step):
    with pytest.raises(RuntimeError, match=re.escape("it is damaged")):
        answer(program(step))


@pytest.mark.parametrize(
    "result",
    ["1 0 1 0 5 1", "1 0 1 0 4 2", "1 0 1 4 4 1", "1 0 1 0 4 -1", "1 1 1 0 4 1", "0 0 1 2 3 1"],
)
def test_results_that_reach_outside_are_refused(result):
    with pytest.raises(RuntimeError, match=re.escape("it is damaged")):
        answer(program(COPY, result))


def test_constants_that_claim_more_bytes_than_elements_are_refused():
    """A swap would copy as many from the caller."""
    text = program().replace(b"0\n0\n2\nregion", b"1\nw 0 1 0 2 0 0 0 64\n0\n2\nregion", 1)
    text = text.replace(COPY.encode(), COPY.replace("2 1 0 0 0", "2 2 0 0 0").encode())
    text = text.replace(f"1\n{RESULT}\n".encode(), f"1\n2{RESULT[1:]}\n".encode())
    content = b"".join(package_bytes({"program": text, "weights": bytes(64)}, "any"))
    with pytest.raises(RuntimeError, match="the size of w"):
        Model(content, kernel_folder())
    good = text.replace(b"0 0 64", b"0 0 8")
    model = Model(
        b"".join(package_bytes({"program": good, "weights": bytes(64)}, "any")), kernel_folder()
    )
    assert model(facula.ones(4))[0].tolist() == [1, 1, 1, 1]


def test_weights_at_odd_places_are_refused():
    text = program().replace(b"0\n0\n2\nregion", b"1\nw 0 1 0 2 0 0 2 8\n0\n2\nregion", 1)
    content = b"".join(package_bytes({"program": text, "weights": bytes(64)}, "any"))
    with pytest.raises(RuntimeError, match="multiples of 8 bytes"):
        Model(content, kernel_folder())
