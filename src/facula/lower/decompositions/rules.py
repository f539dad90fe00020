"""The table of decompositions, and which of them lead to the core operators.

Takes: definitions, and functions registered for operators.
Gives: dictionaries from operators (as overloads) to functions of the operator's arguments.
Keeps true: a registered function replaces a derived one; whatever overload is asked for, the operator
decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from facula import core, ops
from facula.autograd.transforms.functionalization import makes_tensors
from facula.lower.decompositions import structured  # noqa: F401  (fills REGISTERED)
from facula.lower.decompositions.pointwise import decompose_pointwise, is_primitive
from facula.lower.decompositions.programs import PROGRAMS
from facula.lower.decompositions.registered import REGISTERED, Rule
from facula.lower.table import operator_of
from facula.ops.table.registry import TABLE as OPERATORS

#: operators that come down to the core only on request: row operators, which one kernel computes
ROWS = frozenset(PROGRAMS)


def overload(operator: core.Op) -> Any:
    """The overload by which tables name an operator."""
    space, _, name = operator.name.rpartition("::")
    return getattr(getattr(ops, space or "aten"), name).default


def _pointwise_rule(operator: core.Op) -> Rule:
    def rule(*args: object, **kwargs: object) -> Any:
        return decompose_pointwise(operator, args, kwargs)

    return rule


def _composite_rule(operator: core.Op) -> Rule:
    def rule(*args: object, **kwargs: object) -> Any:
        bound, out = core.bind_arguments(operator, args, kwargs)
        if out is not None:
            return operator(*args, **kwargs)
        return core.run_implementation(operator, bound)

    return rule


def rule_of(operator: core.Op) -> Rule | None:
    """The function that computes an operator by others, None for one that is not made of others."""
    found = REGISTERED.get(operator.name)
    if found is not None:
        return found
    if operator.name in PROGRAMS:
        return PROGRAMS[operator.name]
    definition = operator.definition
    if definition.kind == "pointwise":
        return None if is_primitive(operator) else _pointwise_rule(operator)
    if definition.kind == "composite" and not makes_tensors(definition):
        return _composite_rule(operator)
    return None


@cache
def core_operators() -> frozenset[str]:
    """The names of the operators that are not made of others."""
    return frozenset(
        name
        for name, operator in OPERATORS.items()
        if "::" not in name and (name in ROWS or rule_of(operator) is None)
    )


class _Table(dict[Any, Rule]):
    """Every decomposition, made when it is asked for the first time."""

    def fill(self) -> _Table:
        """Enter everything that the operator table knows."""
        if not self:
            for name, operator in OPERATORS.items():
                rule = rule_of(operator) if "::" not in name else None
                key = overload(operator) if rule is not None else None
                # some composites are known by the core's method of that name, which is not made of others
                if rule is not None and operator_of(key) is operator:
                    self[key] = rule
        return self


TABLE: _Table = _Table()


def core_decompositions() -> dict[Any, Rule]:
    """The decompositions that lead to the core operators; row operators stay whole."""
    return {o: rule for o, rule in TABLE.fill().items() if operator_of(o).name not in ROWS}


def decompositions_of(targets: Iterable[Any]) -> dict[Any, Rule]:
    """The decompositions of some operators (overloads, packets or operators)."""
    found: dict[Any, Rule] = {}
    for target in targets:
        operator = operator_of(target)
        rule = None if operator is None else rule_of(operator)
        if operator is not None and rule is not None:
            found[overload(operator)] = rule
    return found
