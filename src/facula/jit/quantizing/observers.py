"""Observers as modules of scripts.

Takes: observers, or what makes them. Gives: scripted modules whose methods are those of the observers. Keeps true: what
an observer sees lies in its own buffers, so that the scripted module and the observer are one.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.jit.module_views import module_of
from facula.jit.modules import module_attributes
from facula.jit.python_types import qualified_name
from facula.jit.script_objects import RecursiveScriptModule
from facula.nn import Module
from facula.ops.table.schemas import types as T
from facula.quantization.observer import ObserverBase

__all__ = ["fresh", "is_observer", "observer_of", "scripted"]


class ObserverMethod:
    """A method of an observer, as graphs call it: Python runs it."""

    def __init__(
        self, name: str, kind: T.ClassType, parameters: list[tuple[str, T.Type]], result: T.Type
    ) -> None:
        self.name, self.kind, self._result = name, kind, result
        self.parameters: list[tuple[str, T.Type, Any]] = [("self", kind, inspect.Parameter.empty)]
        self.parameters += [(n, t, inspect.Parameter.empty) for n, t in parameters]
        self.python = None

    def compiled(self) -> ObserverMethod:
        """Itself: there is nothing to compile."""
        return self

    def run(self, module: Any, *given: Any) -> Any:
        """The observer's method."""
        return getattr(module._observer, self.name)(*given)

    def result_type(self) -> T.Type:
        """The type of the result."""
        return self._result


_KINDS: dict[Any, T.ClassType] = {}


def _kind(observer: Module) -> T.ClassType:
    """The class of an observer in scripts."""
    made = T.ClassType(qualified_name(type(observer)), True, type(observer))
    module_attributes(made, observer)
    key = (type(observer), tuple(made.attributes.items()))
    if key not in _KINDS:
        made.methods = {
            "forward": ObserverMethod("forward", made, [("x", T.TENSOR)], T.TENSOR),
            "calculate_qparams": ObserverMethod(
                "calculate_qparams", made, [], T.tuple_of([T.TENSOR, T.TENSOR])
            ),
            "reset_min_max_vals": ObserverMethod("reset_min_max_vals", made, [], T.NONE),
        }
        _KINDS[key] = made
    return _KINDS[key]


def scripted(observer: Any) -> Any:
    """The scripted module of an observer.

    Args:
        observer: the observer, or its scripted module
    """
    if isinstance(observer, RecursiveScriptModule):
        return observer
    if not isinstance(observer, ObserverBase):
        fail(ValueError, "quantize_jit", "observers were required of a qconfig", type(observer).__name__,
             hint="QConfig(activation=MinMaxObserver, weight=default_weight_observer)")  # fmt: skip
    made = RecursiveScriptModule(_kind(observer), dict(vars(observer)))
    made.__dict__["_observer"] = observer
    return made


def fresh(maker: Callable[[], Any] | Any) -> Any:
    """A scripted observer of its own: of what makes observers, or a copy of one."""
    found = module_of(maker)
    if isinstance(found, RecursiveScriptModule):
        return scripted(copy.deepcopy(observer_of(found)))
    return scripted(found())


def is_observer(thing: Any) -> bool:
    """Whether a module, or the class of one, is an observer of scripts."""
    kind = thing if isinstance(thing, T.ClassType) else getattr(thing, "_script_type", None)
    return isinstance(kind, T.ClassType) and any(
        isinstance(unit, ObserverMethod) for unit in kind.methods.values()
    )


def observer_of(module: Any) -> Any:
    """The observer of a scripted module."""
    return module._observer
