"""Passes that run one after the other, in an order that constraints decide.

Takes passes: functions, or objects of `PassBase`, that take a graph module and give a `PassResult`; constraints on
their order, and checks that run after each. Gives the module that they made.
Keeps true: passes without a constraint between them stay in the order in which they were given; a failing pass is
named, with those that ran before it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from facula.core.errors import fail
from facula.fx.graph_module import GraphModule
from facula.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass | None) -> Pass | None:
    """A pass that gives a `PassResult`, of one that changes the module and gives nothing.

    Args:
        fn: the pass; None stays None

    Example:
        >>> from facula.fx.passes.infra.pass_manager import pass_result_wrapper
        >>> quiet = pass_result_wrapper(lambda graph_module: None)
        >>> quiet(facula.fx.symbolic_trace(facula.nn.ReLU())).modified
        True
    """
    if fn is None:
        return None

    @functools.wraps(fn, updated=())
    def wrapped(graph_module: GraphModule) -> Any:
        result = fn(graph_module)
        return PassResult(graph_module, True) if result is None else result

    wrapped.__name__ = _name(fn)
    return wrapped


def _name(function: Any) -> str:
    """The name of a pass: the function's, or that of its class."""
    return function.__name__ if inspect.isfunction(function) else type(function).__name__


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass comes before another.

    Args:
        this: comes first
        that: comes later

    Example:
        >>> from facula.fx.passes.infra.pass_manager import this_before_that_pass_constraint
        >>> first, second = (lambda m: m), (lambda m: m)
        >>> this_before_that_pass_constraint(first, second)(second, first)
        False
    """

    def holds(earlier: Pass, later: Pass) -> bool:
        return not (earlier is that and later is this)

    return holds


def _topological_sort_passes(
    passes: Sequence[Pass], constraints: Sequence[Constraint]
) -> list[Pass]:
    """The passes in an order that all constraints allow: of those that may come next, the one that was ready first."""
    if not constraints:
        return list(passes)
    later: dict[Pass, list[Pass]] = {p: [] for p in passes}
    waits = dict.fromkeys(passes, 0)
    for one in passes:
        for other in passes:
            if one is not other and not all(holds(other, one) for holds in constraints):
                later[one].append(other)
                waits[other] += 1
    # of the passes that wait for nothing the last given comes last, as those that get free stand behind them
    ready = [p for p in passes if waits[p] == 0]
    found: list[Pass] = []
    while ready:
        found.append(ready.pop(0))
        for follower in later[found[-1]]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
    if len(found) < len(passes):
        circle = [p for p in passes if waits[p] > 0]
        fail(RuntimeError, "PassManager", "constraints that an order can meet were required",
             f"Circular dependency detected within the following passes: {circle}",
             hint="take one of the constraints between them away")  # fmt: skip
    return found


class PassManager:
    """Runs passes in an order that constraints decide.

    Args:
        passes: functions of a graph module that give a `PassResult`
        constraints: functions of an earlier and a later pass that say whether this order is allowed
        steps: how often all of them run at most; they stop where nothing changes
        run_checks_after_each_pass: whether the checks run after each pass, not only at the end
        suppress_check_failures: whether a failing check is passed over

    Example:
        >>> from facula.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
        >>> manager = PassManager([pass_result_wrapper(lambda graph_module: None)])
        >>> manager(facula.fx.symbolic_trace(facula.nn.ReLU())).modified
        True
    """

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        constraints: Sequence[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Pass] = list(passes or ())
        self.constraints: list[Constraint] = list(constraints or ())
        self.steps = steps or 1
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Append a pass.

        Args:
            _pass: the pass
        """
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint.

        Args:
            constraint: says of an earlier and a later pass whether this order is allowed
        """
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises:
        RuntimeError: two passes stand in an order that a constraint forbids.
        """
        for constraint in self.constraints:
            for at, one in enumerate(self.passes):
                for other in self.passes[at + 1 :]:
                    if not constraint(one, other):
                        fail(RuntimeError, "PassManager", "passes in an allowed order were required",
                             f"pass schedule constraint violated: {_name(one)} before {_name(other)}",
                             hint="solve_constraints() finds an order that all constraints allow")  # fmt: skip
        self._validated = True

    def solve_constraints(self) -> None:
        """Put the passes in an order that the constraints allow.

        Raises:
            RuntimeError: constraints go in a circle.
        """
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Any], None]) -> None:
        """Set what looks at the module after passes, and raises where something is wrong.

        Args:
            check: a function of the module

        Raises:
            TypeError: it takes another number of arguments.
        """
        parameters = list(inspect.signature(check).parameters)
        if len(parameters) != 1:
            fail(TypeError, "PassManager.add_checks", "a function of one argument was required",
                 f"one of {len(parameters)} arguments", hint="it gets the module")  # fmt: skip
        self.check = check  # type: ignore[assignment, method-assign]

    def check(self, module: Any) -> None:
        """What runs after the passes; `add_checks` sets another.

        Args:
            module: what the passes made
        """

    def _checked(self, module: Any) -> None:
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise

    def _run(self, function: Pass, module: Any, before: list[str]) -> PassResult:
        said = f"An error occurred when running the '{_name(function)}' pass after the following passes: {before}"
        try:
            result = function(module)
        except Exception as error:  # noqa: BLE001 - the pass is the program's own
            fail(Exception, "PassManager", "passes that end were required",
                 f"{type(error).__name__}: {error} ({said})", hint="the pass raised this itself")  # fmt: skip
        if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
            fail(TypeError, "PassManager", "a PassResult was required of each pass",
                 f"{type(result).__name__} ({said})", hint="pass_result_wrapper(fn) makes one of a module")  # fmt: skip
        return result

    def __call__(self, module: Any) -> PassResult:
        """Run the passes.

        Args:
            module: a graph module
        """
        if not self._validated:
            self.solve_constraints()
        self._checked(module)
        changed = False
        for _ in range(self.steps):
            modified, before = False, []  # type: ignore[var-annotated]
            for function in self.passes:
                result = self._run(function, module, before)
                module, modified = result.graph_module, modified or result.modified
                if isinstance(module, GraphModule):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self._checked(module)
                before.append(_name(function))
            self._checked(module)
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)
