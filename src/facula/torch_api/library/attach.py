"""The decorators of the operator table, for operators outside the package.

Takes what the table's own decorators take. Gives the operator; with `names=`, it also appears in the
public API, as facula's own operators do.
Keeps true: without `names=` nothing of facula's changes; a place that is taken is an error.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table import registry

__all__ = ["composite", "operator", "pointwise", "view"]


_ARGUMENTS = """

For operators outside the package; kernels are compiled on first use.

Args:
    schema: ``namespace::name(Tensor self, ...) -> Tensor``
    names: where users find the operator, such as 'nn.functional.name' or 'Tensor.name'
    **fields: those of the definition (docs/kernel_interfaces.md)

Example:
"""


def _outside(decorator: Callable[..., Any], example: str) -> Callable[..., Any]:
    """A decorator of the table whose operators appear only where `names=` says."""

    def define(schema: str, *, names: tuple[str, ...] = (), **fields: Any) -> Callable[[Any], Any]:
        places = (names,) if isinstance(names, str) else tuple(names)
        for name in places:
            _check_free(name)

        def decorate(body: Callable[..., Any]) -> Any:
            operator = decorator(schema, names=places, **fields)(body)
            for name in places:
                _attach(name, operator)
            return operator

        return decorate

    define.__name__ = define.__qualname__ = decorator.__name__
    define.__doc__ = f"{decorator.__doc__}{_ARGUMENTS}{textwrap.indent(example.strip(), '    ')}"
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
    found = registry.PLACES[module]
    forms = {last: found[last]}
    if operator.inplace is not None and not last.startswith("__"):
        forms[last + "_"] = found[last + "_"]
    for key, form in forms.items():
        if namespace is core.Tensor:
            core.set_type_attribute(core.Tensor, key, form)
        elif namespace is not None:
            setattr(namespace, key, form)


pointwise = _outside(
    registry.pointwise,
    """
>>> @facula.library.pointwise("docs::twice(Tensor self) -> Tensor", dtypes="int float")
... def twice(x):
...     return x + x
>>> facula.ops.docs.twice(facula.ones(2))
tensor([2., 2.])
""",
)
operator = _outside(
    registry.operator,
    """
>>> @facula.library.operator("docs::plus_one(Tensor self) -> Tensor")
... class plus_one:
...     def meta(self):
...         return facula.core.empty(self.shape, dtype=self.dtype, device=self.device)
...     def cpu(out, self):
...         out.copy_(self + 1)
>>> facula.ops.docs.plus_one(facula.zeros(2))
tensor([1., 1.])
""",
)
composite = _outside(
    registry.composite,
    """
>>> @facula.library.composite("docs::half_mean(Tensor self) -> Tensor")
... def half_mean(self):
...     return self.mean() / 2
>>> facula.ops.docs.half_mean(facula.ones(2))
tensor(0.5000)
""",
)
view = _outside(
    registry.view,
    """
>>> @facula.library.view("docs::turned(Tensor self) -> Tensor")
... class turned:
...     def geometry(self):
...         return self.transpose(0, -1)
...     def backward(grad):
...         return grad.transpose(0, -1)
>>> facula.ops.docs.turned(facula.ones(2, 3)).shape
facula.Size([3, 2])
""",
)
