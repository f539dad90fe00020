"""Which module of the package imports which, read off its text.

Takes: the folder of the package. Gives: `MODULES` (name -> file), `PARSED` (name, lines and imports of each) and
`needs`, the graph of imports. Keeps true: nothing is imported, and imports in functions count, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import facula

ROOT = Path(facula.__file__).parent
#: the folders whose modules are modules of the root package
ROOMS = [Path(folder).name for folder in facula.__path__[1:]]
Import = ast.Import | ast.ImportFrom


def _modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("facula", *path.relative_to(ROOT).with_suffix("").parts)
        if "site" not in parts:  # alias/site is put where torch would be
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()
#: folders whose modules need nothing of facula: `check_nccl.py` loads them where the package is not built
ALONE = ("facula.distributed.engines.nccl.", "facula.distributed.nvidia.")


def _absolute(module: str, statement: ast.ImportFrom) -> str:
    """What an import says it imports from. Inside the rooms imports are relative, elsewhere
    none is but where a folder is loaded alone."""
    target = statement.module or ""
    if not statement.level:
        return target
    parts = module.split(".")
    assert parts[1] in ROOMS or module.startswith(ALONE), f"{module}: imports are absolute"
    package = parts if MODULES[module].name == "__init__.py" else parts[:-1]
    base = package[: len(package) - statement.level + 1]
    assert len(base) >= 2, f"{module}: a room imports what is outside of it by its full name"
    return ".".join([*base, target] if target else base)


def targets(module: str, statement: Import) -> list[str]:
    """The modules of facula that a statement names; the root package itself is anybody's."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        source = _absolute(module, statement)
        full = [f"{source}.{alias.name}" for alias in statement.names]
        names = [name if name in MODULES else source for name in full]
    return [name for name in names if name.split(".")[0] == "facula"]


def _imports(node: ast.AST, in_function: bool = False) -> Iterator[tuple[Import, bool]]:
    """(statement, whether it stands in a function) for what runs, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            inside = in_function or isinstance(child, ast.FunctionDef | ast.Lambda)
            yield from _imports(child, inside)


def parsed() -> Iterator[tuple[str, list[str], list[tuple[Import, bool]]]]:
    """The name, the lines and the imports of each module."""
    for name, path in MODULES.items():
        text = path.read_text()
        yield name, text.splitlines(), list(_imports(ast.parse(text)))


def needs() -> dict[str, set[str]]:
    """Module -> the modules that have to be there before it."""
    graph: dict[str, set[str]] = {}
    for name, _, imports in parsed():
        needed = {target for statement, _ in imports for target in targets(name, statement)}
        # a package runs before its modules, so they may ask it for what is no module (core._core)
        graph[name] = {n for n in needed - {"facula"} if not name.startswith(f"{n}.")}
    graph["facula"] = set()
    return graph
