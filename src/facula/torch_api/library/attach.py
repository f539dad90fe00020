"""The decorators of the operator table, for operators outside the package.

Takes what the table's own decorators take. Gives the operator; with `names=`, it also appears in the
public API, as facula's own operators do.
Keeps true: without `names=` nothing of facula's changes; a place that is taken is an error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops import registry

__all__ = ["composite", "operator", "pointwise", "view"]


def _outside(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of the table whose operators appear only where `names=` says."""

    def define(schema: str, *, names: tuple[str, ...] = (), **fields: Any) -> Callable[[Any], Any]:
        places = (names,) if isinstance(names, str) else tuple(names)
        for name in places:
            _check_free(name)

        def decorate(body: Any) -> Any:
            operator = decorator(schema, names=places, **fields)(body)
            for name in places:
                _attach(name, operator)
            return operator

        return decorate

    define.__name__ = define.__qualname__ = decorator.__name__
    define.__doc__ = (
        f"{decorator.__doc__}\n\nFor operators outside the package; see `facula.library`."
    )
    return define


def _namespace(module: str) -> Any:
    """What stands for a place: the class, or the module if it is loaded (else it reads the table later)."""
    if module == "Tensor":
        return core.Tensor
    return sys.modules.get(f"facula.{module}" if module else "facula")


def _check_free(name: str) -> None:
    module, _, last = name.rpartition(".")
    namespace = _namespace(module)
    taken = namespace is not None and last in {*vars(namespace), *getattr(namespace, "__all__", ())}
    if taken or last in registry.PLACES.get(module, {}):
        hint = "choose another name; an operator of facula is not replaced"
        fail(ValueError, "library", "a place that is free was required", repr(name), hint)


def _attach(name: str, operator: Any) -> None:
    module, _, last = name.rpartition(".")
    namespace = _namespace(module)
    forms = {last: operator}
    if operator.inplace is not None and not last.startswith("__"):
        forms[last + "_"] = operator.inplace
    for key, form in forms.items():
        if namespace is core.Tensor:
            core.set_type_attribute(core.Tensor, key, form)
        elif namespace is not None:
            setattr(namespace, key, form)


pointwise = _outside(registry.pointwise)
operator = _outside(registry.operator)
composite = _outside(registry.composite)
view = _outside(registry.view)
