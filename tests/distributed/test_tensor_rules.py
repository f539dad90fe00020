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
