"""Passes one after the other, in an order that constraints allow.

Takes: functions from a module to a module. Gives: `PassManager`, and wrappers of passes.
Keeps true: passes run in the order of the list, which is an error where a constraint forbids it.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)
Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that gives what it got, of one that changes it and gives nothing.

    Args:
        fn: the pass.

    >>> from facula.fx.passes.pass_manager import inplace_wrapper
    >>> inplace_wrapper(list.sort)([2, 1])
    [1, 2]
    """

    @functools.wraps(fn)
    def wrapped(source: object, *args: object, **kwargs: object) -> Any:
        fn(source, *args, **kwargs)
        return source

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass that is logged when it has run.

    Args:
        fn: the pass.
        level: of the log.

    >>> from facula.fx.passes.pass_manager import log_hook
    >>> log_hook(sorted)([2, 1])
    [1, 2]
    """

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> Any:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\n Return value: %s", fn, result)
        return result

    return wrapped


def loop_pass(
    base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Pass:
    """A pass that runs another one several times.

    Args:
        base_pass: the pass.
        n_iter: how often.
        predicate: in the place of a number: whether to run it once more on what there is.

    >>> from facula.fx.passes.pass_manager import loop_pass
    >>> loop_pass(lambda x: 2 * x, n_iter=3)(1), loop_pass(lambda x: 2 * x, predicate=lambda x: x < 5)(1)
    (8, 8)
    """
    if (n_iter is None) == (predicate is None):
        fail(
            AssertionError,
            "loop_pass",
            "exactly one of `n_iter` and `predicate`",
            "both" if n_iter is not None else "none",
            hint="n_iter says how often, predicate whether once more",
        )

    @functools.wraps(base_pass)
    def wrapped(source: Any) -> Any:
        if predicate is None:
            for _ in range(n_iter or 0):
                source = base_pass(source)
            return source
        while predicate(source):
            source = base_pass(source)
        return source

    return wrapped


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that a pass never stands behind another.

    Args:
        this: the pass that comes first.
        that: the other.

    >>> from facula.fx.passes.pass_manager import this_before_that_pass_constraint
    >>> constraint = this_before_that_pass_constraint(min, max)
    >>> constraint(min, max), constraint(max, min)
    (True, False)
    """
    return lambda a, b: not (a == that and b == this)


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The constraint that passes which wrap one function never stand behind those that wrap another.

    Args:
        these: the function whose passes come first.
        those: the other.

    >>> from facula.fx.passes.pass_manager import (
    ...     loop_pass, these_before_those_pass_constraint)
    >>> constraint = these_before_those_pass_constraint(min, max)
    >>> constraint(loop_pass(max, 1), loop_pass(min, 1))
    False
    """
    return lambda a, b: not (inspect.unwrap(a) == those and inspect.unwrap(b) == these)


class PassManager:
    """Runs passes one after the other.

    Args:
        passes: functions from a module to a module.
        constraints: functions of two passes, the one that stands in front and the one behind it, that
            say whether this is allowed.

    >>> from facula.fx.passes.pass_manager import PassManager
    >>> PassManager([lambda x: x + 1, lambda x: 2 * x])(3)
    8
    """

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None
    ) -> None:
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of these passes.

        Args:
            passes: the passes.
        """
        return cls(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Puts a pass behind the others.

        Args:
            _pass: the pass.
        """
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint.

        Args:
            constraint: the constraint.
        """
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Takes passes out.

        Args:
            _passes: their names.
        """
        self.passes = [one for one in self.passes if one.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Puts a pass in the place of others.

        Args:
            _target: a pass with the name of those that go.
            _replacement: what comes.
        """
        name = _target.__name__
        self.passes = [_replacement if one.__name__ == name else one for one in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Checks the order of the passes against the constraints."""
        if self._validated:
            return
        for constraint in self.constraints:
            for place, first in enumerate(self.passes):
                for second in self.passes[place + 1 :]:
                    if not constraint(first, second):
                        fail(
                            RuntimeError,
                            "PassManager",
                            "an order that the constraints allow (pass schedule constraint violated)",
                            f"{first} in front of {second}",
                            hint="exchange the two in the list",
                        )
        self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for one in self.passes:
            source = one(source)
        return source
