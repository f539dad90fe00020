"""The imports in a module's source.

Takes a source, the module's name, and whether it is a package. Gives pairs of a module and the name that is taken
from it (None: the module alone). Keeps true: the source is parsed, never run.
"""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from typing import Any

__all__ = ["find_files_source_depends_on"]

Dependency = tuple[str, str | None]


def find_files_source_depends_on(source: str, package: str) -> list[Dependency]:
    """What a source imports, wherever in it, each once.

    Args:
        package: what relative imports are relative to.

    Raises:
        ImportError: a relative import leads out of the top-level package.
        SyntaxError: the source is no Python.
    """
    found: dict[Dependency, None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update({(alias.name, None): None for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", package, node.level)
            found.update({(base, _name(alias.name)): None for alias in node.names})
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "__import__":
            found.update(dict.fromkeys(_called(node, package)))
    return list(found)


def _name(name: str) -> str | None:
    return None if name == "*" else name


def _absolute(name: str, package: str, level: int) -> str:
    if not level:
        return name
    if not package:  # Python's own words for what leads out of the top-level package
        return resolve_name("." * (level + 1), "_")
    return resolve_name("." * level + name, package)


def _called(node: ast.Call, package: str) -> list[Dependency]:
    """What a call of `__import__` with constants imports; nothing where that cannot be seen."""
    given = dict(zip(("name", "globals", "locals", "fromlist", "level"), node.args, strict=False))
    given |= {k.arg: k.value for k in node.keywords if k.arg}

    def constant(word: str, otherwise: object) -> Any:
        return ast.literal_eval(given[word]) if word in given else otherwise

    try:
        name, names = constant("name", None), constant("fromlist", ())
        level = constant("level", 0)
        if not isinstance(name, str) or not isinstance(level, int):
            return []
        base = _absolute(name, package, level)
        return [(base, _name(str(n))) for n in names or ()] or [(base, None)]
    except ValueError:
        return []
