"""Which operators draw random numbers, also those that take no generator: dropout, and what calls it.

Takes definitions. Gives answers, found in the code of composites: whether it reaches a draw.
Keeps true: an operator that draws is known as one; one that draws for some arguments only counts as well.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from typing import Any

from facula import core
from facula.ops.random.draws import draw, drawn_for
from facula.ops.table.definition import Definition
from facula.ops.table.registry import PLACES, F

__all__ = ["draws"]

_SOURCES = (draw, drawn_for)
_known: dict[int, bool] = {}


def draws(definition: Definition) -> bool:
    """Whether two calls with the same arguments may give different results.

    Args:
        definition: that of an operator
    """
    if definition.random or definition.kind != "composite":
        return definition.random
    key = id(definition)  # definitions live as long as the table
    if key not in _known:
        _known[key] = False  # what calls itself draws where another path does
        _known[key] = _reaches(definition.body, set())
    return _known[key]


def _reaches(body: Any, seen: set[object]) -> bool:
    """Whether a draw is among what a function names, and what that names."""
    if not isinstance(body, types.FunctionType) or body in seen:
        return False
    seen.add(body)
    for value in _named(body, body.__code__):
        if value in _SOURCES:
            return True
        definition = getattr(core.operator_of(value), "definition", None)
        if isinstance(definition, Definition):
            if draws(definition):
                return True
        elif getattr(value, "__module__", "").startswith("facula.ops.") and _reaches(value, seen):
            return True
    return False


def _named(body: types.FunctionType, code: types.CodeType) -> Iterator[Any]:
    """The functions and operators that code names: globals, `F.name`, methods, and what it closes over."""
    table = False
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            method = core.operator_of(PLACES["Tensor"].get(step.argval))
            if table:
                yield getattr(F, step.argval, None)
            elif method is not None and method.definition.random:
                yield method
        table = False
        if step.opname == "LOAD_GLOBAL":
            value = body.__globals__.get(step.argval)
            table = value is F
            if callable(value):
                yield value
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _named(body, constant)
    for cell in body.__closure__ or ():
        if callable(cell.cell_contents):
            yield cell.cell_contents
