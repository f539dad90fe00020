"""The yardsticks of the house (`tools/yardsticks.py`): what they count, and that those which were reached hold."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")
sys.path.insert(0, TOOLS)
try:
    yardsticks = importlib.import_module("yardsticks")
finally:
    sys.path.remove(TOOLS)

REACHED = {
    "entries directly in src/facula",
    "functions of more than 40 lines below their docstring",
    "median file, lines",
    "90th percentile file, lines",
    "circles between modules",
}


@pytest.mark.parametrize(
    "row", [row for row in yardsticks.ROWS if row.name in REACHED], ids=lambda row: row.name
)
def test_what_was_reached_holds(row):
    assert row.holds(row.measure()), yardsticks.long_functions()[:3]


def test_every_name_is_a_row():
    assert {row.name for row in yardsticks.ROWS} >= REACHED


def test_lines_count_below_the_docstring():
    text = 'def f(\n    a,\n):\n    """One\n    two."""\n    x = a\n\n    return x\n'
    assert yardsticks.body_lines(ast.parse(text).body[0]) == 3
    assert yardsticks.body_lines(ast.parse('def f():\n    """One."""\n').body[0]) == 0
    assert yardsticks.body_lines(ast.parse("def f():\n    return 1\n").body[0]) == 1
