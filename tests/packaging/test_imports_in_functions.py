"""Imports stand at the top of modules: those in functions say why, and no two modules need each other."""

import importlib
import sys
from graphlib import TopologicalSorter
from pathlib import Path

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")
sys.path.insert(0, TOOLS)
try:
    module_imports = importlib.import_module("module_imports")
finally:
    sys.path.remove(TOOLS)

PARSED = list(module_imports.parsed())


def test_imports_in_functions_say_why():
    silent = [
        f"{name}:{statement.lineno}"
        for name, lines, imports in PARSED
        for statement, inside in imports
        if inside
        and module_imports.targets(name, statement)
        and "# lazily: " not in lines[statement.lineno - 2]
    ]
    assert silent == []


def test_no_two_modules_need_each_other():
    list(
        TopologicalSorter(module_imports.needs()).static_order()
    )  # raises CycleError, which names them


def test_a_module_in_a_room_is_imported_by_where_it_lies():
    """Elsewhere than in the room: `facula.namespaces.storage`, which checkers of types and layers follow."""
    inside = {
        name.split(".")[2] for name in module_imports.MODULES if name.count(".") > 1
        if name.split(".")[1] in module_imports.ROOMS
    }  # fmt: skip
    hidden = [
        f"{name}:{statement.lineno}"
        for name, _, imports in PARSED
        if name != "facula"
        for statement, _ in imports
        for target in module_imports.targets(name, statement)
        if len(target.split(".")) > 1 and target.split(".")[1] in inside
    ]
    assert hidden == []
