"""Scripted modules, classes and functions do what the Python objects do that they were made of."""

from __future__ import annotations

import io
import types
from typing import NamedTuple

import pytest

import facula
import facula.nn.functional as F
from facula import Tensor, jit, nn


class Two(nn.ModuleList):
    def __len__(self):
        return 2


class AsksForLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = Two([nn.ReLU()])

    def forward(self, x):
        return x * len(self.items)


def test_a_length_of_the_users_own():
    assert jit.script(AsksForLength())(facula.ones(1)).item() == 2


class Doubles(nn.Module):
    def forward(self, x: Tensor):
        return self.inner(x) * 2


class Replaced(Doubles):
    def __init__(self):
        super().__init__()
        self.forward = types.MethodType(Doubles.forward, self)

    def inner(self, x: Tensor):
        return x + 1

    def forward(self, x: Tensor):
        raise AssertionError("the other one was meant")


def test_a_forward_of_the_object_itself():
    assert jit.script(Replaced())(facula.ones(1)).item() == 4


class Holds(nn.Module):
    __constants__ = ["value"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x, self.value


@pytest.mark.parametrize("value", [2, 1.0, None, True, "text", (2, 3), [5.5, 7.25]])
def test_constants_of_modules_go_through_files(value):
    made = jit.script(Holds(value))
    file = io.BytesIO()
    jit.save(made, file)
    file.seek(0)
    loaded = jit.load(file)
    assert made.value == loaded.value == loaded(facula.ones(1))[1] == value


def test_a_module_without_its_constructor():
    class Bare(nn.Module):
        def __init__(self):
            pass

    with pytest.raises(RuntimeError, match="has not been initialized, did you forget"):
        jit.script(Bare())


def test_functions_of_nn_functional():
    x, y = facula.randn(3, 4), facula.randn(3, 4)
    assert facula.equal(jit.script(F.relu)(x), F.relu(x))
    assert facula.equal(jit.script(F.gelu)(x, approximate="tanh"), F.gelu(x, approximate="tanh"))
    made = jit.script(F.relu)
    assert "if inplace:" in made.code and "torch.relu_(" in made.code
    written = x.clone()
    assert made(written, inplace=True) is not None and facula.equal(written, F.relu(x))
    made = jit.script(F.triplet_margin_loss)
    assert facula.equal(made(x, y, -x, margin=0.5), F.triplet_margin_loss(x, y, -x, margin=0.5))
    with pytest.raises(RuntimeError, match="currently not supported"):
        jit.script(facula.add)


def complex_first(z: complex, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return z == x, z != x, z - x


def test_complex_numbers_beside_tensors():
    x = facula.tensor([1 + 2j, 3 - 1j])
    for found, expected in zip(
        jit.script(complex_first)(1 + 2j, x), complex_first(1 + 2j, x), strict=True
    ):
        assert facula.equal(found, expected)


def emptied(x: Tensor) -> int:
    x.set_(facula.ones(3))
    y = facula.ones(2)
    y.set_()
    return x.numel() * 10 + y.numel()


def test_tensors_take_the_memory_of_others():
    assert jit.script(emptied)(facula.ones(5)) == 30


def place(items: list[int], item: int) -> int:
    return items.index(item)


class Pair(NamedTuple):
    first: int
    second: float


def wrong_field() -> Pair:
    return Pair("one", 2.0)  # type: ignore[arg-type]


def test_errors_say_what_was_wrong():
    made = jit.script(place)
    assert made([4, 1], 1) == 1
    with pytest.raises(RuntimeError, match="'5' is not in list"):
        made([4, 1], 5)
    with pytest.raises(
        RuntimeError, match="type 'int' for argument 'first' but instead found type 'str'"
    ):
        jit.script(wrong_field)
    with pytest.raises(ValueError, match="must be declared in __init__"):

        @jit.script
        class Late:
            def __init__(self, x: int):
                self.x = x

            def put(self, x: int):
                self.x: int = x


def test_empty_lists_and_dictionaries_that_scripts_share():
    items, table = jit.script([]), jit.script({})
    assert not items and not table
    items.append(facula.ones(1))
    table["a"] = facula.ones(1)
    assert len(items) == len(table) == 1
    with pytest.raises(TypeError):
        items.append(1)


def expression(x: Tensor, n: int) -> Tensor:
    y = (x + 1).relu() * 2
    if n > 2:
        y = y.view(n, -1) - facula.cat([x, x]).sum()
    return y / n


def test_code_is_written_as_expressions():
    made = jit.script(expression)
    assert made.code == (
        "def expression(x: Tensor,\n"
        "    n: int) -> Tensor:\n"
        "  y = torch.mul(torch.relu(torch.add(x, 1)), 2)\n"
        "  if torch.gt(n, 2):\n"
        "    y0 = torch.sub(torch.view(y, [n, (-1)]), torch.sum(torch.cat([x, x])))\n"
        "  else:\n"
        "    y0 = y\n"
        "  return torch.div(y0, n)\n"
    )


def ordered(x: Tensor) -> Tensor:
    before = x.sum()
    x.mul_(2)
    after = x.sum()
    return before * 100 + after


def read_again(x: Tensor) -> Tensor:
    return x.add_(1) * x.sum()


def deep(x: Tensor) -> Tensor:
    x = (x + 1).neg().neg().neg().neg().neg().neg().neg()
    return (
        x.neg()
        .abs()
        .neg()
        .neg()
        .abs()
        .neg()
        .neg()
        .abs()
        .neg()
        .neg()
        .abs()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
        .exp()
        .neg()
    )


@pytest.mark.parametrize("function", [expression, ordered, read_again, deep])
def test_what_is_computed_first_is_written_first(function):
    arguments = (facula.tensor([1.0, 2.0, 3.0]), *((3,) if function is expression else ()))
    file = io.BytesIO()
    jit.save(jit.script(function), file)
    file.seek(0)
    expected = function(arguments[0].clone(), *arguments[1:])
    assert facula.equal(jit.load(file)(arguments[0].clone(), *arguments[1:]), expected)
    assert max(line.count("(") for line in jit.script(function).code.splitlines()) < 30


def test_the_code_of_a_row_of_modules_is_a_forward():
    scripted = facula.jit.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    assert scripted.code.startswith("def forward(self,\n    input: Tensor) -> Tensor:\n")
