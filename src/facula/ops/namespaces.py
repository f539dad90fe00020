"""`facula.ops.<namespace>.<name>`: operators by qualified names, as PyTorch programs reach them.

Takes names. Gives packets: callable, with PyTorch's overloads (`default`, `Tensor`, ...) as
attributes, which are `OpOverload`s (`ops/overloads.py`).
Keeps true: a namespace exists as soon as an operator of it is defined; `aten` holds facula's own.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.ops.overloads import METHOD_NAMES, named_overload, overload_name, overload_of
from facula.ops.registry import TABLE, own_operators

#: namespaces whose names are those of the table without a prefix
OWN = ("aten", "prims", "facula")
_METHODS = {theirs: ours for ours, theirs in METHOD_NAMES.items()}


class Packet:
    """One operator with its overloads."""

    def __init__(self, qualname: str, function: Any) -> None:
        self._qualified_op_name = qualname
        self._function = function
        self.__name__ = qualname.rpartition("::")[2]
        self.__doc__ = function.__doc__

    @property
    def _schema(self) -> Any:
        return self._function.__wrapped_definition__.schema

    @property
    def __wrapped_definition__(self) -> Any:
        return self._function.__wrapped_definition__

    def overloads(self) -> list[str]:
        """The names of the overloads: one schema takes all that PyTorch's take."""
        return [overload_name(self._function, (None,) * 8, {})]

    @property
    def op(self) -> Any:
        """The operator itself."""
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'{self._qualified_op_name}' has no attribute {name!r}")
        space, _, own = self._qualified_op_name.partition("::")
        return named_overload(space, own, name, self._function)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Packet):
            return self._function is other._function
        return other is self._function or getattr(other, "_op", None) is self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __str__(self) -> str:
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self) -> str:
        return f"<operator packet {self._qualified_op_name}>"


def _core_method(name: str) -> Any:
    """A method of the core that overrides are told about under this name, as `clone`; None for operators."""
    method = getattr(core.Tensor, _METHODS.get(name, name), None)
    known = TABLE.get(name)
    replaces = known is None or known.definition.kind == "composite"
    return method if replaces and type(method) is type(core.Tensor.copy_) else None


class Namespace:
    """The operators of one namespace as attributes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._packets: dict[str, Packet] = {}

    def __getattr__(self, name: str) -> Packet:
        if name.startswith("__"):
            raise AttributeError(name)
        function = self._find(name)
        known = self._packets.get(name)
        if known is None or known._function is not function:
            known = self._packets[name] = Packet(f"{self.name}::{name}", function)
        return known

    def _find(self, name: str) -> Any:
        if self.name not in OWN:
            found = TABLE.get(f"{self.name}::{name}")
        else:
            found = _core_method(name) or TABLE.get(name)
            if found is None and name.endswith("_") and name[:-1] in TABLE:
                found = TABLE[name[:-1]].inplace
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found

    def __dir__(self) -> list[str]:
        if self.name in OWN:
            return sorted(own_operators())
        prefix = f"{self.name}::"
        return sorted(name.removeprefix(prefix) for name in TABLE if name.startswith(prefix))

    def __repr__(self) -> str:
        return f"<operators of the namespace {self.name!r}>"


_NAMESPACES: dict[str, Namespace] = {}


def namespace(name: str) -> Namespace:
    """The namespace of a name; it may still be empty."""
    return _NAMESPACES.setdefault(name, Namespace(name))


def packet_of(operator: Any) -> Packet:
    """The packet of an operator."""
    space, _, name = operator.name.rpartition("::")
    return getattr(namespace(space or "aten"), name)


core.OP_ATTRIBUTES.update(
    overloadpacket=packet_of,
    _overloadpacket=packet_of,
    _schema=lambda operator: operator.definition.schema,
    _overloadname=lambda operator: overload_of(operator)._overloadname,
    namespace=lambda operator: operator.name.rpartition("::")[0] or "aten",
)
