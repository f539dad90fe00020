"""Arguments of exported programs: names, orders and containers that differ from those of the export."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import facula
from facula import export, nn
from facula.fx.experimental.symbolic_shapes import ShapeEnv, sym_and, sym_or


class Named(nn.Module):
    def forward(self, a, b, c, **rest):  # type: ignore[no-untyped-def]
        return a - b + c * rest["d"]


def test_inputs_are_named_after_the_keywords_that_gave_them():
    given = {"c": facula.full((2,), 5.0), "b": facula.full((2,), 2.0), "d": facula.full((2,), 3.0)}
    program = export.export(Named(), (facula.ones(2),), given)
    assert program.graph_signature.user_inputs == ("a", "c", "b", "d")
    assert program.module()(facula.ones(2), **given).tolist() == [14, 14]


def test_inputs_of_the_user_keep_their_names_and_others_are_told_apart():
    class Holds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(facula.ones(1))

        def forward(self, p, p_weight, mul, x):  # type: ignore[no-untyped-def]
            return p["weight"] * self.weight + p_weight * mul + x["a"][0]

    one = facula.ones(1)
    program = export.export(Holds(), ({"weight": one}, one, one, {"a": [one]}))
    names = [spec.arg.name for spec in program.graph_signature.input_specs]
    assert names == ["p_weight_2", "p_weight", "p_weight_1", "mul", "x_a_0"]
    calls = [node.name for node in program.graph.nodes if node.op == "call_function"]
    assert calls == ["mul_1", "mul_2", "add", "add_1"]
    assert program.module()({"weight": one}, one, one, {"a": [one]}).item() == 3


def test_dictionaries_may_have_another_order_and_arguments_a_class():
    class Pair(NamedTuple):
        x: object
        y: object

    class Both(nn.Module):
        def forward(self, x, y):  # type: ignore[no-untyped-def]
            return x["one"][0] - x["two"] + y

    one, two = facula.tensor(1.0), facula.tensor(2.0)
    module = export.export(Both(), Pair({"one": [one], "two": two}, one)).module()
    assert module({"two": one, "one": [two]}, one).item() == 2
    with pytest.raises(ValueError, match="nested as in the export"):
        module({"two": one, "three": [two]}, one)


def test_examples_of_a_program_are_of_its_form():
    program = export.export(nn.ReLU(), (facula.ones(2),))
    program.example_inputs = ((facula.zeros(2),), {})
    assert program.example_inputs[0][0].tolist() == [0, 0]
    with pytest.raises(ValueError, match="Example inputs should be a tuple"):
        program.example_inputs = (facula.ones(2),)
    with pytest.raises(ValueError, match="keyword mismatch"):
        program.example_inputs = ((facula.ones(2),), {"x": 1})
    with pytest.raises(ValueError, match="Trying to flatten user inputs"):
        program.example_inputs = ((), {})


def test_the_check_of_inputs_is_no_dead_code():
    module = export.export(nn.ReLU(), (facula.ones(2),)).module()
    assert not module.graph.eliminate_dead_code()
    with pytest.raises(AssertionError, match="Guard failed"):
        module(facula.ones(3))


def test_conditions_are_joined_from_either_side():
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    assert str(sym_or(u == 2, u == 4, u == 6)) == "Eq(u0, 2) | Eq(u0, 4) | Eq(u0, 6)"
    assert str(sym_and(u >= 2, u <= 4)) == "(u0 >= 2) & (u0 <= 4)"
    assert sym_or(True, u == 2) is True
    assert str(sym_or(False, u == 2)) == "Eq(u0, 2)"
