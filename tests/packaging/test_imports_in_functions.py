"""Imports stand at the top of modules: those in functions say why, and no two modules need each other."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import facula

ROOT = Path(facula.__file__).parent
#: the folders whose modules are modules of the root package
ROOMS = [Path(folder).name for folder in facula.__path__[1:]]


def _modules():
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("facula", *path.relative_to(ROOT).with_suffix("").parts)
        if "site" not in parts:  # alias/site is put where torch would be
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _absolute(module, statement):
    """What an import says it imports from. Inside the rooms imports are relative, elsewhere none is."""
    target = statement.module or ""
    if not statement.level:
        return target
    parts = module.split(".")
    assert parts[1] in ROOMS, f"{module}: imports are absolute"
    package = parts if MODULES[module].name == "__init__.py" else parts[:-1]
    base = package[: len(package) - statement.level + 1]
    assert len(base) >= 2, f"{module}: a room imports what is outside of it by its full name"
    return ".".join([*base, target] if target else base)


def _targets(module, statement):
    """The modules of facula that a statement names; the root package itself is anybody's."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        module = _absolute(module, statement)
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
        if inside and _targets(name, statement) and "# lazily: " not in lines[statement.lineno - 2]
    ]
    assert silent == []


def test_no_two_modules_need_each_other():
    graph = {}
    for name, _, imports in PARSED:
        needed = {target for statement, _ in imports for target in _targets(name, statement)}
        # a package runs before its modules, so they may ask it for what is no module (core._core)
        graph[name] = {n for n in needed - {"facula"} if not name.startswith(f"{n}.")}
    graph["facula"] = set()
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names them


def test_a_module_in_a_room_is_imported_by_where_it_lies():
    """Elsewhere than in the room: `facula.namespaces.storage`, which checkers of types and layers follow."""
    inside = {
        name.split(".")[2] for name in MODULES if name.count(".") > 1
        if name.split(".")[1] in ROOMS
    }  # fmt: skip
    hidden = [
        f"{name}:{statement.lineno}"
        for name, _, imports in PARSED
        if name != "facula"
        for statement, _ in imports
        for target in _targets(name, statement)
        if len(target.split(".")) > 1 and target.split(".")[1] in inside
    ]
    assert hidden == []
