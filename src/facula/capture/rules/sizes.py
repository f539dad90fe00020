"""Rules for questions about sizes: what is true for all of them, and what is taken where nobody knows.

Takes: conditions on numbers that may change. Gives: known truths.
Keeps true: a question whether something is *always* true fixes nothing; what was decided or checked before it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.rules.callables import Rule, rule
from facula.capture.values.kinds import Known, NumberValue
from facula.fx.experimental import symbolic_shapes
from facula.fx.symbols import negated

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


def _always(d: Symbolic, value: NumberValue) -> bool | None:
    """The truth of a condition for all sizes for which the segment runs; None where that is not known."""
    for number, outcome in d.conditions:
        condition = d.condition(number)
        if condition is not None:
            d.known.learn(condition if outcome else negated(condition))
    return d.known_truth(value)


def _statically(answer: bool) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        value = d.force(args[0])
        if isinstance(value, NumberValue):
            return Known(_always(d, value) is answer)
        return Known(d.truth(value) is answer)

    return run


def _or(otherwise: bool) -> Rule:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        value = d.force(args[0])
        if isinstance(value, NumberValue) and d.reads_in(value):
            known = d.known_truth(value)
            return Known(otherwise if known is None else known)
        return d.to_bool(value)

    return run


for _function, _answer in (("statically_known_true", True), ("statically_known_false", False)):
    rule(getattr(symbolic_shapes, _function))(_statically(_answer))
for _function, _answer in (
    ("guard_or_false", False),
    ("guard_size_oblivious", False),
    ("guard_or_true", True),
):
    rule(getattr(symbolic_shapes, _function))(_or(_answer))


@rule(symbolic_shapes.has_static_value)
def _has_static_value(d: Symbolic, args: list, kwargs: dict) -> Any:
    value = d.force(args[0])
    if not isinstance(value, NumberValue):
        return Known(True)
    if isinstance(value.hint, bool):
        return Known(_always(d, value) is not None)
    found = d.expression(value)
    low, high = (0, 1) if found is None else d.known.bounds(found)
    return Known(low == high)


@rule(core.interpreters)
def _interpreters(d: Symbolic, args: list, kwargs: dict) -> Any:
    return d.lift(list(core.interpreters()))
