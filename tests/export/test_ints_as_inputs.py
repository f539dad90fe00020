"""Ints among the inputs of exported programs that may be others in each call."""

from __future__ import annotations

import io

import pytest

import facula
from facula.capture.errors import UserError
from facula.export import Dim, export, load, save

x = facula.arange(6.0)


class Uses(facula.nn.Module):
    def forward(self, x, n, k):
        return x * n + k, x[:n], n * 2 + k


def listed(values):
    return [v.tolist() if isinstance(v, facula.Tensor) else v for v in values]


def programs():
    """One exported program: as it is, decomposed, and through a file."""
    made = export(Uses(), (x, 2, 3), dynamic_shapes=(None, Dim.DYNAMIC, Dim.AUTO))
    file = io.BytesIO()
    save(made, file)
    file.seek(0)
    return made, made.run_decompositions(), load(file)


@pytest.mark.parametrize("at", range(3), ids=["exported", "decomposed", "loaded"])
def test_programs_serve_other_ints(at):
    run = programs()[at].module()
    for n, k in ((2, 3), (4, 1), (0, 0), (1, 7), (6, 100)):
        numbers = [float(i) for i in range(6)]
        expected = [[v * n + k for v in numbers], numbers[:n], n * 2 + k]
        assert listed(run(x, n, k)) == expected


def test_what_the_program_asks_of_an_int_is_checked():
    run = programs()[0].module()
    for wrong, said in (
        ((9, 1), r"n <= 6"),
        ((-1, 1), r"n >= 0"),
        ((2.5, 1), "an int"),
        ((True, 1), "an int"),
    ):
        with pytest.raises(AssertionError, match=said):
            run(x, *wrong)


class Branches(facula.nn.Module):
    def forward(self, x, n):
        return x + 1 if n == 1 else x - n


def test_a_branch_is_a_guard_with_the_name_of_the_int():
    run = export(Branches(), (x, 3), dynamic_shapes={"x": None, "n": Dim.DYNAMIC}).module()
    assert run(x, 5).tolist() == [v - 5 for v in range(6)]
    with pytest.raises(AssertionError, match="n != 1"):
        run(x, 1)


class Nested(facula.nn.Module):
    def forward(self, x, given):
        return x + given["by"] * given["more"][1], facula.zeros(given["by"])


def test_ints_in_containers_names_and_constants():
    shapes = (None, {"by": Dim("by", min=2, max=9), "more": [None, Dim.DYNAMIC]})
    run = export(Nested(), (x, {"by": 2, "more": [1, 5]}), dynamic_shapes=shapes).module()
    assert listed(run(x, {"by": 3, "more": [1, 4]})) == [[v + 12 for v in range(6)], [0.0] * 3]
    with pytest.raises(AssertionError, match="<= 9"):
        run(x, {"by": 10, "more": [1, 4]})
    with pytest.raises(AssertionError, match="was a constant of the export"):
        run(x, {"by": 3, "more": [2, 4]})


class Found(facula.nn.Module):
    def forward(self, n):
        return facula.isin(n, facula.tensor(0))


def test_programs_of_ints_alone():
    run = export(Found(), (0,), dynamic_shapes=(Dim.DYNAMIC,)).module()
    assert bool(run(0)) and not bool(run(1))


def test_what_does_not_say_how_an_int_changes_is_refused():
    with pytest.raises(UserError, match="same structure"):
        export(Found(), (0,), dynamic_shapes=({0: Dim.DYNAMIC},))
