"""Which names of which modules hold a constant in which a place lies.

Takes: places, and the modules of a package.
Gives: `holders(root, places)`, for each module the names, its own and imported ones, whose values are
made of such constants, with the places' numbers.
Keeps true: text of C is put together from constants of several modules, so a name that is imported, or
whose value is computed from a holder when a module is loaded, is a holder too; what functions return
is not followed (probes stand in them).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: module -> name, or `module alias.name` -> numbers of places
Holders = dict[str, dict[str, set[int]]]


def module_name(path: Path) -> str:
    """The dotted name of a file below `src`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def holders(root: Path, places: list[dict[str, Any]]) -> Holders:
    """The names that hold places, by module."""
    found: Holders = {}
    trees: dict[str, ast.Module] = {}
    for path in sorted({place["path"] for place in places}):
        name = module_name(Path(path).relative_to("src"))
        trees[name] = ast.parse((root / path).read_text())
        for number, place in enumerate(places):
            if place["path"] == path:
                for target in _targets_at(trees[name], place["line"]):
                    found.setdefault(name, {}).setdefault(target, set()).add(number)
    texts = {
        module_name(path.relative_to(root / "src")): path.read_text()
        for path in sorted((root / "src").rglob("*.py"))
    }
    while _spread(found, texts, trees):
        pass
    return found


def _targets_at(tree: ast.Module, line: int) -> Iterator[str]:
    for statement in tree.body:
        if statement.lineno <= line <= (statement.end_lineno or 0):
            yield from _targets(statement)


def _targets(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module gives values to."""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        given = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
        for target in given:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _spread(found: Holders, texts: dict[str, str], trees: dict[str, ast.Module]) -> bool:
    """One step: into the modules that import a holder, and the constants made of one."""
    parents = {module.rpartition(".")[0] for module in found}
    before = sum(len(numbers) for names in found.values() for numbers in names.values())
    for module, text in texts.items():
        if module not in found and not any(f"from {parent}" in text for parent in parents):
            continue
        if module not in trees:
            trees[module] = ast.parse(text)
        tree = trees[module]
        own = dict(found.get(module, {}))
        for statement in tree.body:
            for local, numbers in _imported(statement, found):
                own[local] = own.get(local, set()) | numbers
            reached = set().union(*(own.get(name, set()) for name in _read(statement)))
            for target in _targets(statement) if reached else ():
                own[target] = own.get(target, set()) | reached
        if own:
            found[module] = own
    return before != sum(len(numbers) for names in found.values() for numbers in names.values())


def _imported(statement: ast.stmt, found: Holders) -> Iterator[tuple[str, set[int]]]:
    if not isinstance(statement, ast.ImportFrom) or statement.level:
        return
    for alias in statement.names:
        local = alias.asname or alias.name
        numbers = found.get(statement.module or "", {}).get(alias.name)
        if numbers:
            yield local, numbers
        for name, numbers in found.get(f"{statement.module}.{alias.name}", {}).items():
            if "." not in name:
                yield f"{local}.{name}", numbers


def _read(statement: ast.stmt) -> Iterator[str]:
    """The names, and attributes of names, that a statement reads."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
