"""Imports stand at the top of modules: those in functions say why, and no two modules need each other."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import facula

ROOT = Path(facula.__file__).parent


def _modules():
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("facula", *path.relative_to(ROOT).with_suffix("").parts)
        if "site" not in parts:  # alias/site is put where torch would be
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _targets(statement):
    """The modules of facula that a statement names; the root package itself is anybody's."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        assert not statement.level, "imports are absolute"
        module = statement.module or ""
        full = [f"{module}.{alias.name}" for alias in statement.names]
        names = [name if name in MODULES else module for name in full]
    return [name for name in names if name.split(".")[0] == "facula"]


def _imports(node, in_function=False):
    """(statement, whether it stands in a function) for what runs, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            inside = in_function or isinstance(child, ast.FunctionDef | ast.Lambda)
            yield from _imports(child, inside)


def _parsed():
    for name, path in MODULES.items():
        text = path.read_text()
        yield name, text.splitlines(), list(_imports(ast.parse(text)))


PARSED = list(_parsed())


def test_imports_in_functions_say_why():
    silent = [
        f"{name}:{statement.lineno}"
        for name, lines, imports in PARSED
        for statement, inside in imports
        if inside and _targets(statement) and "# lazily: " not in lines[statement.lineno - 2]
    ]
    assert silent == []


def test_no_two_modules_need_each_other():
    graph = {}
    for name, _, imports in PARSED:
        needed = {target for statement, _ in imports for target in _targets(statement)}
        # a package runs before its modules, so they may ask it for what is no module (core._core)
        graph[name] = {n for n in needed - {"facula"} if not name.startswith(f"{n}.")}
    graph["facula"] = set()
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names them
