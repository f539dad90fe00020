"""Tensors that are made of plain ones, in captured programs: quantized tensors.

Takes: tensors of classes with `__tensor_flatten__` that handle their calls themselves. Gives: values whose
calls are nodes as those of any tensor are; objects that a graph holds as they are (`_graph_constant`).
Keeps true: only plain tensors pass a graph's ends: such a tensor from outside is made again of its parts inside of
the graph, and a result is taken apart there; what its class says of it beside the parts (scale, zero point) is guarded,
and so are the attributes of held objects that `_graph_constant` names.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any

from facula.capture.breaks import Break
from facula.capture.domain import Part
from facula.capture.identity import hashes_fields
from facula.capture.sources import Source
from facula.capture.values import LITERAL_TYPES, ObjectValue, TensorValue

if TYPE_CHECKING:
    from facula.fx import Node


class WrapperValue(TensorValue):
    """A tensor made of plain ones; `parts` are those of one from outside, by name."""

    __slots__ = ("kind", "parts")

    def __init__(
        self, fake: Any, node: Node | None = None, real: Any = None, source: Any = None
    ) -> None:
        super().__init__(fake, node, real, source)
        self.kind = type(fake)
        self.parts: dict[str, TensorValue] = {}

    @property
    def cls(self) -> type:
        return self.kind


class Form:
    """What makes a tensor of its parts: the class, the names of the parts, and what else the class knows."""

    def __init__(self, kind: Any, names: Any, context: Any) -> None:
        self.kind, self.names, self.context = kind, tuple(names), context

    def __call__(self, *parts: Any) -> Any:
        """The tensor of these parts."""
        inner = dict(zip(self.names, parts, strict=True))
        return self.kind.__tensor_unflatten__(inner, self.context, None, None)


def made_of(form: Form, *parts: Any) -> Any:
    """A tensor of its parts: a node of a captured graph."""
    return form(*parts)


def is_wrapper(kind: type) -> bool:
    """Whether tensors of a class handle their calls themselves, and are made of plain ones."""
    return getattr(kind, "_is_sparse_tensor", False) and hasattr(kind, "__tensor_flatten__")


def _context_of(tensor: Any) -> Any:
    return tensor.__tensor_flatten__()[1]


class Wrappers(Part):
    """The part of `Symbolic` that knows such tensors."""

    def wrapper_tensor(self, tensor: Any, source: Source) -> WrapperValue:
        """One from outside."""
        kind, form = type(tensor), _form_of(tensor)
        self.guards.add("type", source, kind)
        self.guards.add("equal", source.apply(_context_of), form.context)
        parts = {name: self.wrap(getattr(tensor, name), source.attr(name)) for name in form.names}
        fake = form(*[part.fake for part in parts.values()])
        value = WrapperValue(fake, None, tensor, source)
        value.parts = parts
        value.dynamic = next(iter(parts.values())).dynamic
        return value

    def wrapper_node(self, value: WrapperValue) -> Any:
        """The node of such a tensor; of one from outside, what makes it again."""
        if value.node is None:
            form = self.attach(_form_of(value.fake), "form")
            nodes = [self.node_of(part) for part in value.parts.values()]
            value.node = self._new_node("call_function", made_of, (form, *nodes), {}, value.fake)
            self.by_fake[id(value.fake)] = value
        return value.node

    def wrapper_result(self, result: object, node: Node) -> WrapperValue:
        """What a node gives."""
        _form_of(result)
        value: WrapperValue = self.made(WrapperValue(result, node))
        self.by_fake[id(result)] = value
        return value

    def taken_apart(self, value: WrapperValue) -> tuple[Form, list[Any]]:
        """The form of a result and its parts, which are results of the graph."""
        form = _form_of(value.fake)
        for name in form.names:
            if name not in value.parts:
                part = getattr(value.fake, name)
                known = self.by_fake.get(id(part))
                if known is None:
                    args = (self.node_of(value), name)
                    node = self._new_node("call_function", getattr, args, {}, part)
                    known = self.by_fake[id(part)] = self.made(TensorValue(part, node))
                value.parts[name] = known
        return form, list(value.parts.values())

    def object_node(self, value: ObjectValue) -> tuple[Any, Any] | None:
        """The node and the object, of an object that a node may be given; None of others."""
        found = self.held_object(value)
        return self._frozen_dataclass(value) if found is None else found

    def _frozen_dataclass(self, value: ObjectValue) -> tuple[Any, Any] | None:
        """A frozen dataclass of what nodes may be given: a node that makes it again."""
        kind = value.kind
        parameters = getattr(kind, "__dataclass_params__", None)
        if parameters is None or not parameters.frozen or hasattr(kind, "__post_init__"):
            return None
        fields = dataclasses.fields(kind)
        if not all(field.init for field in fields) or "__init__" not in vars(kind):
            return None
        pairs = {field.name: self.argument(self.getattr(value, field.name)) for field in fields}
        made = kind(**{name: fake for name, (_, fake) in pairs.items()})
        given = {name: node for name, (node, _) in pairs.items()}
        return self._new_node("call_function", kind, (), given, made), made

    def held_object(self, value: ObjectValue) -> tuple[Any, Any] | None:
        """The node and the object, of an object that a graph may hold; None of others."""
        guarded = getattr(value.kind, "_graph_constant", () if _is_constant(value.real) else None)
        if guarded is None or value.real is None:
            return None
        source = value.source
        by_value = dataclasses.is_dataclass(value.kind) and _is_constant(value.real)
        self.guards.add("equal" if by_value else "is", source, value.real)
        for path in guarded:
            found, place = value.real, source
            for name in path.split("."):
                found, place = getattr(found, name, None), place.attr(name)
                if found is None:
                    break
            else:
                self.guards.add("equal", place, found)
        return self.attach(value.real, "held"), value.real


def _is_constant(obj: Any) -> bool:
    """Whether an object stays what it is: a member of an enumeration, a frozen dataclass of plain values."""
    kind = type(obj)
    if isinstance(obj, (enum.Enum, *LITERAL_TYPES)):
        return True
    if kind is tuple:
        return all(_is_constant(item) for item in obj)
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or not hashes_fields(kind):
        return False
    return all(_is_constant(getattr(obj, f.name)) for f in dataclasses.fields(obj))


def _form_of(tensor: Any) -> Form:
    names, context = tensor.__tensor_flatten__()
    if context is None:
        raise Break("tensor-subclass", f"a {type(tensor).__name__} whose parameters are tensors")
    return Form(type(tensor), names, context)


__all__ = ["WrapperValue", "Wrappers", "is_wrapper", "made_of"]
