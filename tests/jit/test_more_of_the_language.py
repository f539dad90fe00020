"""Scripts of enumerations, interfaces, lists of tensors' elements, and the texts of values."""

from __future__ import annotations

import enum
import io

import pytest

import facula
from facula import Tensor, jit, nn


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


def total() -> int:
    found = 0
    for colour in Colour:
        found += colour.value
    return found


def values() -> list[int]:
    return [colour.value * 10 for colour in Colour]


def test_loops_over_enumerations():
    assert jit.script(total)() == total() == 3
    assert jit.script(values)() == [10, 20]


@jit.interface
class Step:
    def run(self, x: Tensor) -> Tensor:
        pass


@jit.script
class Doubles:
    def __init__(self):
        self.factor = 2

    def run(self, x: Tensor) -> Tensor:
        return x * self.factor


@jit.script
class Adds:
    def __init__(self):
        self.number = 1

    def run(self, x: Tensor) -> Tensor:
        return x + self.number


def steps(x: Tensor) -> Tensor:
    for each in jit.annotate(list[Step], [Doubles(), Adds(), Doubles()]):
        x = each.run(x)
    return x


def test_objects_of_an_interface_in_a_list():
    assert jit.script(steps)(facula.tensor([5.0])).tolist() == [22.0]


class Stepping(nn.Module):
    step: Step

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        return self.step.run(x)


def test_objects_of_an_interface_go_through_files():
    for step, expected in ((Doubles(), 10.0), (Adds(), 6.0)):
        file = io.BytesIO()
        jit.save(jit.script(Stepping(step)), file)
        file.seek(0)
        assert jit.load(file)(facula.tensor([5.0])).item() == expected


def listed(x: Tensor) -> tuple[list[float], list[list[int]]]:
    items: list[float] = x.tolist()
    rows: list[list[int]] = x.view(1, -1).to(facula.int64).tolist()
    return items, rows


def returned(x: Tensor) -> list[float]:
    return x.tolist()


def test_elements_of_a_tensor_as_a_list():
    x = facula.tensor([0.5, 2.0])
    assert jit.script(listed)(x) == ([0.5, 2.0], [[0, 2]])
    made = jit.script(returned)
    assert made(x) == [0.5, 2.0]
    with pytest.raises(RuntimeError, match="dimension must match for tolist"):
        made(x.view(1, 2))
    with pytest.raises(RuntimeError, match="element type must match for tolist"):
        made(x.to(facula.int64))


def untyped(x: Tensor):
    items = x.tolist()
    return items


def test_a_list_of_elements_needs_a_type():
    with pytest.raises(RuntimeError, match="Expected type hint for result of tolist"):
        jit.script(untyped)


def ramps() -> tuple[Tensor, Tensor]:
    return facula.linspace(0, 1, 3), facula.logspace(0, 2, steps=3)


def test_ramps_between_ints():
    a, b = jit.script(ramps)()
    assert a.tolist() == [0.0, 0.5, 1.0] and b.tolist() == [1.0, 10.0, 100.0]


def texts(x: float, z: complex, word: str) -> list[str]:
    return [str(x), f"{x}", "%s" % x,  # noqa: UP031
            f"{word} {(x, word)}", str([x]), str({word: x}), str((x,)),
            str(z), str(None), str(True)]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # what PyTorch's scripts print
        (1.0, "1."), (-3.0, "-3."), (0.1, "0.10000000000000001"), (1e10, "10000000000."), (0.5, "0.5"),
        (9e18, "9000000000000000000."), (9.3e18, "9.3e+18"), (1e-5, "1.0000000000000001e-05"),
        (float("inf"), "inf"), (float("nan"), "nan"), (-0.0, "0."),
    ],
)  # fmt: skip
def test_texts_of_values(value, text):
    got = jit.script(texts)(value, 3 + 4j, "w")
    assert got == [text, text, text, f"w ({text}, w)", f"[{text}]", f"{{w: {text}}}", f"({text},)", "3.+4.j",
                   "None", "True"]  # fmt: skip


def prints(x: float, colour: Colour):
    print(x, [1, 2], colour)


def test_print(capsys):
    jit.script(prints)(2.0, Colour.RED)
    assert capsys.readouterr().out == "2. [1, 2] Enum<Colour.RED>\n"


def test_the_instruction_set_is_asked_for_where_the_script_runs():
    def wide(x: Tensor) -> Tensor:
        if "AVX2" in facula.backends.cpu.get_cpu_capability() or x.dtype == facula.uint8:
            return x + 1
        return x

    scripted = jit.script(wide)
    x = facula.ones(2)
    assert facula.equal(scripted(x), wide(x))
    assert "aten::_get_cpu_capability" in str(scripted.inlined_graph)
    assert (
        jit.script(facula.backends.cpu.get_cpu_capability)()
        == facula.backends.cpu.get_cpu_capability()
    )
    file = io.BytesIO()
    jit.save(scripted, file)
    file.seek(0)
    assert facula.equal(jit.load(file)(x), wide(x))
