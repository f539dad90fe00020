"""Operators on distributed tensors: every definition with a rule, under placements of its tensors."""

from __future__ import annotations

import pytest
import ranks


@pytest.mark.parametrize("part", range(4))
def test_rules_of_definitions(part: int):
    """Each sample gives what it gives on whole tensors, and some of them without gathering."""
    for wrong, count, gathers in ranks.run(
        f"definitions {part} 4", 2, 120, script="tensor_programs.py"
    ):
        assert not wrong and count > 200
        assert not gathers


def test_random_numbers_in_place_are_those_of_one_process():
    """They raised: the numbers of the whole were copied to a piece."""
    for wrong, kind in ranks.run("drawn", 2, script="tensor_programs.py"):
        assert not wrong and kind == "DTensor"


def test_rules_that_programs_register():
    """Such operators ran on whole tensors only; the cheapest of the ways that the rule allows is taken."""
    for found, first, refused in ranks.run("registered", 2, script="tensor_programs.py"):
        assert first == [2, [6, 8], 0.5] and refused == "TypeError"
        assert all(exact for *_, exact, _ in found)
        taken = {(rows, left, right): to for rows, left, right, to, _, _ in found}
        assert taken[4, "S0", "R"] == "S0" and taken[4, "R", "S1"] == "S1"
        assert taken[4, "S1", "S0"] == "P" and taken[3, "R", "S1"] == "S1"
        assert taken[3, "S0", "R"] != "S0", "three rows are no two pieces of one length"
        assert not any(gathers for *_, gathers in found)


def test_distributed_tensors_by_their_parts():
    for found in ranks.run("made", 2, script="tensor_programs.py"):
        assert found["sent"] == [1, 1, 1], "each rank is sent its piece, once"
        assert found["cut"] and found["moved"] == [1, 1]
        assert found["part"] == [52.5, 105.0] and found["half"] == "facula.bfloat16"
        assert found["leaf"] == [True, 2.0, True] and found["grad"] == [[1.0] * 2] * 2
        assert found["spec"] == [[0, -1], 2, [2, 1], [], "Spec(S(0) on (5, 3))"]
        assert found["texts"] == ["S(1)", "Partial(sum)", "_S(0, 2)"]
        assert found["strided"] == [[0, 1, 4, 5], [2, 3, 6, 7]]
        assert found["cost"] == [0.0, True, "inf"]
        names = ["RuntimeError", "ValueError", "RuntimeError", "RuntimeError", "ValueError"]
        assert found["errors"] == names
