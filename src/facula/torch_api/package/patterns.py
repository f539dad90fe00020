"""What is to become of modules: the patterns of a package that is made, and the hooks that hear of each.

Takes patterns with an action. Gives the first one that matches a module.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any

from facula.autograd.hooks import RemovableHandle
from facula.core.errors import fail

from .errors import EmptyMatchError
from .glob_group import GlobGroup, GlobPattern

__all__ = ["Action", "Patterns", "comes_with_python"]

Hook = Callable[[Any, str], None]
#: modules through which a packaged module reaches out of the package: they are named or refused
_NAMED_ONLY = frozenset(("sys", "io"))


class Action(Enum):
    """What becomes of a module."""

    INTERN = "intern"
    EXTERN = "extern"
    MOCK = "mock"
    DENY = "deny"


def comes_with_python(module_name: str) -> bool:
    """Whether a module is left to the interpreter unless something else is said: facula's and Python's own."""
    top = module_name.partition(".")[0]
    if top in ("torch", "facula"):
        return True
    return top in sys.stdlib_module_names and top not in _NAMED_ONLY


class Patterns:
    """What an exporter was told about modules: the first pattern that matches one decides."""

    def __init__(self) -> None:
        self._given: list[tuple[GlobGroup, Action, bool]] = []
        self._matched: set[int] = set()
        self._hooks: dict[Action, OrderedDict[int, Hook]] = {a: OrderedDict() for a in Action}

    def add(
        self, action: Action, include: GlobPattern, exclude: GlobPattern, allow_empty: bool
    ) -> None:
        """Add a pattern after those that are there."""
        self._given.append((GlobGroup(include, exclude=exclude), action, allow_empty))

    def action_for(self, module_name: str) -> Action | None:
        """What becomes of a module; None where no pattern matches."""
        for number, (group, action, _) in enumerate(self._given):
            if group.matches(module_name):
                self._matched.add(number)
                return action
        return None

    def check_matched(self) -> None:
        """Refuse patterns that matched nothing though they had to."""
        for number, (group, action, allow_empty) in enumerate(self._given):
            if not allow_empty and number not in self._matched:
                fail(
                    EmptyMatchError,
                    action.value,
                    "a pattern that matches modules was required",
                    f"{group}, which did not match any modules",
                    hint="leave the call out, or give allow_empty=True",
                )

    def hook(self, action: Action, hook: Hook) -> RemovableHandle:
        """Have a function called with the exporter and each module of an action."""
        handle = RemovableHandle(self._hooks[action])
        self._hooks[action][handle.id] = hook
        return handle

    def tell(self, action: Action, exporter: object, module_name: str) -> None:
        """Call the hooks of an action."""
        for hook in list(self._hooks[action].values()):
            hook(exporter, module_name)
