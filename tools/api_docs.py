"""The operators' pages of the documentation, out of the operator table.

Takes the table. Gives the text of each page by its name: one page a family (the module in which the
operators are defined) and an index.
Keeps true: every operator is on exactly one page; nothing is said that the definition does not say.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from facula import core
from facula.ops.table.registry import RESULT_DTYPES, own_operators

ROOT = Path(__file__).resolve().parent.parent
ORACLES = ROOT / "tests" / "oracles"
NOTE = "<!-- Generated from the operator table by tools/gen_api.py: edit the definitions. -->\n\n"


def family_of(definition: Any) -> str:
    """The module that defines an operator, below `ops`; user-level families keep their own name."""
    module = getattr(definition.body, "__module__", "facula.ops.other")
    return module.removeprefix("facula.ops.").replace(".", "-")


def _module(definition: Any) -> ModuleType | None:
    return inspect.getmodule(definition.body)


def source_of(definition: Any) -> str:
    """A link to the definition's source."""
    try:
        path = Path(inspect.getsourcefile(definition.body) or "")
        _, line = inspect.getsourcelines(definition.body)
        place = path.resolve().relative_to(ROOT)
    except (OSError, TypeError, ValueError):
        return "derived"
    return f"[{place}:{line}](../../{place}#L{line})"


def gradient_of(definition: Any) -> str:
    """How an operator is differentiated, in words."""
    if definition.kind == "composite":
        return "by the operators it is made of"
    if definition.kind == "pointwise":
        if not definition.differentiable:
            return "no"
        return "by a formula" if definition.explicit_backward else "derived from its expression"
    backward = getattr(definition, "backward", None)
    return "by a formula" if backward else "no"


@cache
def _oracles() -> tuple[ModuleType, dict[str, Any], frozenset[str]]:
    """The table of oracles, filled, and the operators whose values are stored."""
    sys.path.insert(0, str(ORACLES))
    try:
        table = importlib.import_module("oracle_table")
        stored = json.loads((ORACLES / "vectors.json").read_text())
        return table, table.load(), frozenset(stored)
    finally:
        sys.path.remove(str(ORACLES))


def oracle_of(definition: Any) -> str:
    """Where the tests know the values of an operator from, in words; empty where nothing is said of it."""
    table, oracles, stored = _oracles()
    kinds = []
    reference = getattr(definition, "reference", None)
    if definition.name in oracles:
        kinds.append(oracles[definition.name].kind)
    elif isinstance(reference, str):
        kinds.append(reference.partition(".")[0])
    if definition.name in stored:
        kinds.append("mpmath")
    return ", ".join(table.KINDS[kind] for kind in kinds)


def _facts(definition: Any) -> list[tuple[str, str]]:
    names = [f"`{_full_name(name)}`" for name in definition.names]
    facts = [("names", ", ".join(names) or "internal")]
    forms = []
    if definition.inplace:
        forms.append("in place (`name_`)")
    if definition.out:
        forms.append("`out=`")
    facts.append(("forms", ", ".join(["functional", *forms])))
    if definition.kind == "pointwise":
        facts.append(("dtypes", definition.dtypes.replace(" ", ", ")))
        facts.append(("result", RESULT_DTYPES[definition.result]))
    facts.append(("differentiable", gradient_of(definition)))
    if definition.convention:
        facts.append(("gradient by convention", definition.convention))
    if definition.autocast is not None:
        facts.append(("autocast", definition.autocast))
    oracle = oracle_of(definition)
    if oracle:
        facts.append(("values are held against", oracle))
    facts.append(("kind", definition.kind))
    facts.append(("source", source_of(definition)))
    return facts


def _full_name(name: str) -> str:
    return f"facula.{name}"


def entry(operator: core.Op) -> str:
    """One operator: its names, its schema, what it does, and its facts."""
    definition = operator.definition
    doc = inspect.cleandoc(definition.body.__doc__ or "")
    lines = [f"### {definition.name}\n", f"```\n{' '.join(definition.schema.text.split())}\n```\n"]
    if doc:
        lines.append(doc + "\n")
    lines.append("\n".join(f"* {key}: {value}" for key, value in _facts(definition)) + "\n")
    return "\n".join(lines)


def _title(family: str) -> str:
    return family.replace("-", ": ").replace("_", " ")


def page(family: str, operators: list[core.Op]) -> str:
    """One family."""
    module = _module(operators[0].definition)
    about = inspect.cleandoc(module.__doc__ or "") if module is not None else ""
    body = "\n".join(entry(operator) for operator in operators)
    return f"{NOTE}# {_title(family)}\n\n{about}\n\n{body}"


def index(families: dict[str, list[core.Op]]) -> str:
    """The list of families, and of every public name with its page."""
    lines = [
        NOTE + "# Operators\n",
        f"{len(own_operators())} operators in {len(families)} families.\n",
    ]
    for family in sorted(families):
        module = _module(families[family][0].definition)
        first = (inspect.cleandoc(module.__doc__ or "") if module else "").splitlines()[:1]
        lines.append(f"* [{_title(family)}]({family}.md): {' '.join(first)}")
    lines += ["", "## By name", ""]
    places = {}
    for family, operators in families.items():
        for operator in operators:
            for name in operator.definition.names:
                places[_full_name(name)] = f"[`{_full_name(name)}`]({family}.md#{operator.name})"
    lines += [f"* {places[name]}" for name in sorted(places)]
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Every page by its name."""
    families: dict[str, list[core.Op]] = defaultdict(list)
    for _, operator in sorted(own_operators().items()):
        families[family_of(operator.definition)].append(operator)
    made = {f"{family}.md": page(family, operators) for family, operators in families.items()}
    made["README.md"] = index(families)
    return made
