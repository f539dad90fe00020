"""Programs of packages, with digests that are right, that reach outside of their memory: refused before they run."""

import re

import pytest

import facula
from facula import export, nn
from facula.deploy.aot import entries_of
from facula.deploy.model import Model
from facula.deploy.package import package_bytes
from facula.deploy.program_text import kernels_in
from facula.deploy.programs import Source, compiled_parts
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


#: sums its input with a driver of four sizes; then adds it to itself with an elementwise kernel
SUM = "0 0 2 1 0 0 0 4 1 4 1 1 0 0 1"
ADD = "3 1 3 1 0 0 0 0 0 0 0 0 1 1 2 1 4 0 0 4 0 0 4 0 0 4"
KERNELS = b"2\nsum:f32\nadd:f32\n"


def launched(step: str, result: str = RESULT) -> list[float]:
    return answer(
        program(step, result).replace(b"0\n0\n2\nregion", b"0\n" + KERNELS + b"2\nregion")
    )


def test_the_launches_that_the_others_change_run():
    assert launched(SUM, "1 0 0 0") == 10
    assert launched(ADD) == [2, 4, 6, 8]
    # of fewer elements, out of the middle, and of none, for which any memory is enough
    assert launched(SUM.replace("0 0 4 1 4", "0 4 4 1 3"), "1 0 0 0") == 9
    assert launched(SUM.replace("4 1 4 1 1", "4 0 4 1 1"), "1 0 1 0 0 1") == []


LAUNCHES = {
    "more elements": SUM.replace("4 1 4 1 1", "4 1 5 1 1"),
    "more results": SUM.replace("4 1 4 1 1", "4 5 1 1 1"),
    "an offset": SUM.replace("1 0 0 0 4", "1 0 0 4 4"),
    "an odd offset": SUM.replace("1 0 0 0 4 1 4", "1 0 0 2 4 1 3"),
    "a negative size": SUM.replace("4 1 4 1 1", "4 -1 -4 1 1"),
    "a product beyond 64 bits": SUM.replace("4 1 4 1 1", "4 1 4611686018427387904 4 1"),
    "sizes that it was not written for": SUM.replace("4 1 4 1 1", "4 1 0 1 9"),
    "more sizes": SUM.replace("4 1 4 1 1", "5 1 4 1 1 1"),
    "fewer sizes": SUM.replace("4 1 4 1 1", "3 1 4 1"),
    "scalars": SUM.replace("1 0 0 1", "1 1 7 0 1"),
    "fewer operands": "0 0 1 1 0 4 1 4 1 1 0 0 1",
    "more operands": "0 0 3 1 0 0 0 0 0 4 1 4 1 1 0 0 1",
    "no memory": SUM.replace("2 1 0 0 0", "2 1 0 -1 0"),
    "the memory of an input": SUM.replace("2 1 0 0 0", "2 0 0 0 0"),
    "a driver as a body": "1" + SUM[1:],
    "a driver as a map": "2" + SUM[1:],
    "a map as a driver": "0 1 3 1 0 0 0 0 0 0 0 4 1",
    "a map of more elements": "2 1 3 1 0 0 0 0 0 0 0 5 1",
    "a map of fewer operands": "2 1 2 1 0 0 0 0 0 4 1",
    "another dtype": ADD.replace("1 4 0 0 4 0 0 4", "1 4 0 0 4 0 1 4"),
    "another dtype of a result": ADD.replace("1 4 0 0 4", "1 4 0 4 4"),
    "two results": ADD.replace("0 0 0 1 1 2 1 4", "0 0 0 1 2 1 1 4"),
    "an iteration into an input": ADD.replace("3 1 3 1 0", "3 1 3 0 0"),
    "a copy into an input": COPY.replace("2 1 0 0 0", "2 0 0 1 0"),
    "zeros in an input": "6 -1 1 0 0 0 0 16 0",
}


@pytest.mark.parametrize("step", LAUNCHES.values(), ids=LAUNCHES)
def test_launches_that_a_kernel_was_not_written_for_are_refused(step):
    with pytest.raises(RuntimeError, match=re.escape("it is damaged")):
        launched(step)


def test_a_refused_launch_names_its_kernel():
    with pytest.raises(RuntimeError, match="a launch of sum:f32: elements outside of their memory"):
        launched(LAUNCHES["more elements"])


def test_addresses_of_kernels_are_those_of_maps_alone():
    """A product is followed by the kernel whose address it is given."""
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).eval()
    parts = compiled_parts(Source(export.export(module, (facula.ones(32, 64),))), (), fuses=False)
    entries = entries_of(parts, ())
    number = re.compile(rb"-46116860184273\d+")
    named = kernels_in(parts.regions)
    (found,) = set(number.findall(entries["program"]))
    assert named[-int(found) - (1 << 62)] == "relu:f32"

    def run(address: int) -> facula.Tensor:
        text = entries["program"].replace(found, b"%d" % address)
        content = b"".join(package_bytes({**entries, "program": text}, "any"))
        return Model(content, kernel_folder())(facula.ones(32, 64))[0]

    facula.testing.assert_close(run(int(found)), module(facula.ones(32, 64)))
    for address in (0, 4096, -named.index("gemm:f32") - (1 << 62)):
        with pytest.raises(RuntimeError, match="a launch of gemm:f32: its elementwise kernel"):
            run(address)


def test_panels_are_as_long_as_the_register_tile_makes_them():
    """Panels are rounded up to whole tiles: memory for the elements alone is too little."""
    module = nn.Conv2d(3, 5, 3).eval()
    parts = compiled_parts(
        Source(export.export(module, (facula.ones(1, 3, 6, 6),))), (), fuses=False
    )
    entries = entries_of(parts, ())
    text = entries["program"].decode()
    (size,) = set(re.findall(r"derived\.0 8 1 0 (\d+) 0 1 0 (\d+)", text))
    assert size[0] == size[1] and int(size[0]) > 3 * 5 * 9 * 4

    def run(changed: str) -> facula.Tensor:
        content = b"".join(package_bytes({**entries, "program": changed.encode()}, "any"))
        return Model(content, kernel_folder())(facula.ones(1, 3, 6, 6))[0]

    facula.testing.assert_close(run(text), module(facula.ones(1, 3, 6, 6)))
    with pytest.raises(RuntimeError, match="a launch of conv2d_pack:f32: elements outside"):
        run(re.sub(rf"\b{size[0]}\b", str(3 * 5 * 9 * 4), text))
