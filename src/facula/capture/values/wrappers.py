"""Tensors that are made of plain ones, in captured programs.

Takes: tensors of classes with `__tensor_flatten__`: quantized and nested ones, and the program's own classes
with `__torch_dispatch__`. Gives: values whose calls are nodes as those of any tensor are; objects that a graph
holds as they are (`_graph_constant`).
Keeps true: only plain tensors pass a graph's ends: such a tensor from outside is made again of its parts inside of
the graph, and a result is taken apart there; what its class says of it beside the parts (a scale, a constant) is
guarded, and so are the attributes of held objects that `_graph_constant` names. Where the class has its history
outside of the parts (`__torch_dispatch__`), gradients pass both ends as such tensors, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from facula import core
from facula.autograd.function import Function
from facula.autograd.transforms.wrapped import is_made_of_tensors
from facula.capture.breaks import Break
from facula.capture.errors import InternalTorchDynamoError
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.identity import hashes_fields
from facula.capture.values.kinds import (
    LITERAL_TYPES,
    Known,
    MethodValue,
    NodeValue,
    ObjectValue,
    SequenceValue,
    TensorValue,
)
from facula.capture.values.sources import Source
from facula.core.errors import fail
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.fx import Node


class WrapperValue(TensorValue):
    """A tensor made of plain ones; `parts` are those of one from outside, by name."""

    __slots__ = ("akin", "kind", "parts")

    def __init__(
        self, fake: Any, node: Node | None = None, real: object = None, source: object = None
    ) -> None:
        super().__init__(fake, node, real, source)
        self.kind = type(fake)
        self.parts: dict[str, TensorValue] = {}
        #: one from outside that came before, whose sizes it has (`akin_to`)
        self.akin: WrapperValue | None = None

    @property
    def cls(self) -> type:
        return self.kind


class Described(NamedTuple):
    """What such a tensor is beside its parts."""

    names: tuple[str, ...]
    #: what `__tensor_flatten__` says, compared by the class (`__metadata_guard__`) where it can
    context: Any
    #: the part that has the sizes and strides of the whole
    like: str | None
    #: those of the whole, where no part has them
    size: tuple[int, ...] | None
    stride: tuple[int, ...] | None
    requires_grad: bool


class Form:
    """What makes a tensor of its parts."""

    def __init__(self, kind: Any, described: Described) -> None:
        self.kind, self.described = kind, described
        self.names = described.names

    def __call__(self, *parts: Any) -> Any:
        """The tensor of these parts, with their history."""
        recorded = core.is_grad_enabled() and any(part.requires_grad for part in parts)
        if recorded and is_made_of_tensors(self.kind):
            return _Together.apply(self, *parts)
        return self.of(parts)

    def of(self, parts: Iterable[Any]) -> Any:
        """The tensor of these very parts."""
        inner = dict(zip(self.names, parts, strict=True))
        size, stride = self.described.size, self.described.stride
        if self.described.like is not None:
            like = inner[self.described.like]
            size, stride = like.shape, like.stride()
        return self.kind.__tensor_unflatten__(inner, self.described.context, size, stride)

    def agrees(self, context: Any) -> bool:
        """Whether the class takes another context for the same."""
        return bool(self.kind.__metadata_guard__(self.described.context, context))


class _Together(Function):
    """Parts as a tensor that is made of them; its gradient is such a tensor, too."""

    @staticmethod
    def forward(ctx: Any, form: Form, *parts: Any) -> Any:
        ctx.form = form
        ctx.set_materialize_grads(False)
        return form.of([part.detach() for part in parts])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        if grad is None:
            return (None,) * (1 + len(ctx.form.names))
        names = getattr(grad, "__tensor_flatten__", lambda: ((), None))()[0]
        if tuple(names) != ctx.form.names:
            kind = ctx.form.kind.__name__
            fail(
                RuntimeError,
                "compile",
                f"a gradient made of {', '.join(ctx.form.names)} was required for a {kind}",
                f"a {type(grad).__name__}",
                hint="return tensors of the class from __torch_dispatch__, or leave the function to "
                "eager execution: facula.compiler.disable",
            )
        return (None, *[getattr(grad, name) for name in names])


class _Apart(Function):
    """The parts of a tensor that is made of them; their gradients are those of such a tensor."""

    @staticmethod
    def forward(ctx: Any, whole: Any, copied: bool) -> Any:
        ctx.form = form_of(whole)
        parts = [getattr(whole, name) for name in ctx.form.names]
        ctx.save_for_backward(*parts)
        return tuple([part.clone() if copied else part.detach() for part in parts])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        given = [
            part if not (part.is_floating_point() or part.is_complex()) else
            F.zeros_like(part) if grad is None else grad
            for part, grad in zip(ctx.saved_tensors, grads, strict=True)
        ]  # fmt: skip
        return ctx.form.of(given), None


def parts_of(whole: object) -> tuple[Any, ...]:
    """The parts of a tensor from outside, with its history."""
    return _Apart.apply(whole, False)


def taken_apart(whole: Any) -> tuple[Any, ...]:
    """The parts of a result, with its history: a node of a captured graph."""
    if whole.requires_grad and is_made_of_tensors(type(whole)):
        return _Apart.apply(whole, True)
    return tuple([getattr(whole, name) for name in whole.__tensor_flatten__()[0]])


def made_of(form: Form, *parts: Any) -> Any:
    """A tensor of its parts: a node of a captured graph."""
    return form(*parts)


def made_akin(form: Form, other: Any, *parts: Any) -> Any:
    """The same, with sizes that are those of another one: a node of a captured graph."""
    return form(*parts)._akin(other)


def is_wrapper(kind: type) -> bool:
    """Whether tensors of a class handle their calls themselves, and are made of plain ones."""
    return hasattr(kind, "__tensor_flatten__") and (
        getattr(kind, "_is_sparse_tensor", False)
        or getattr(kind, "_facula_holds_tensors", False)
        or is_made_of_tensors(kind)
    )


def described(whole: Any) -> Described:
    """What a tensor is beside its parts."""
    names, context = whole.__tensor_flatten__()
    if not is_made_of_tensors(type(whole)):
        return Described(tuple(names), context, None, None, None, False)
    size, stride = tuple(whole.shape), tuple(whole.stride())
    for name in names:
        part = getattr(whole, name)
        if tuple(part.shape) == size and tuple(part.stride()) == stride:
            return Described(tuple(names), context, name, None, None, whole.requires_grad)
    return Described(tuple(names), context, None, size, stride, whole.requires_grad)


def _described_alone(whole: object) -> Described:
    """The same without the context, which the class compares."""
    return described(whole)._replace(context=None)


def _context_of(whole: Any) -> Any:
    return whole.__tensor_flatten__()[1]


def form_of(tensor: object) -> Form:
    """What makes a tensor of its parts."""
    found = described(tensor)
    if getattr(type(tensor), "_is_sparse_tensor", False) and found.context is None:
        raise Break("tensor-subclass", f"a {type(tensor).__name__} whose parameters are tensors")
    return Form(type(tensor), found)


class Wrappers(Part):
    """The part of `Symbolic` that knows such tensors."""

    def wrapper_tensor(self, tensor: object, source: Source) -> WrapperValue:
        """One from outside."""
        kind, form = type(tensor), form_of(tensor)
        self.guards.add("type", source, kind)
        self._guard_form(form, source)
        if form.described.requires_grad:
            apart, real = source.apply(parts_of), parts_of(tensor)
            self.kept.append(real)
            for name, part in zip(form.names, real, strict=True):
                marks = vars(getattr(tensor, name)).items()
                vars(part).update({k: v for k, v in marks if k.startswith("_dynamo_")})
            parts = [self.wrap(part, apart.item(n)) for n, part in enumerate(real)]
        else:
            parts = [self.wrap(getattr(tensor, name), source.attr(name)) for name in form.names]
        value = WrapperValue(form(*[part.fake for part in parts]), None, tensor, source)
        value.parts = dict(zip(form.names, parts, strict=True))
        self._find_akin(value)
        alike = form.described.like or (form.names[0] if _has_shape_of_parts(kind) else None)
        value.dynamic = frozenset() if alike is None else value.parts[alike].dynamic
        return value

    def _guard_form(self, form: Form, source: Source) -> None:
        if hasattr(form.kind, "__metadata_guard__"):
            _check_comparison(form.kind)
            alone = form.described._replace(context=None)
            self.guards.add("equal", source.apply(_described_alone), alone)
            self.guards.add("equal", source.apply(_context_of).apply(form.agrees), True)
        else:
            self.guards.add("equal", source.apply(described), form.described)

    def wrapper_node(self, value: WrapperValue) -> Any:
        """The node of such a tensor; of one from outside, what makes it again."""
        if value.node is None:
            form = self.attach(form_of(value.fake), "form")
            nodes = [self.node_of(part) for part in value.parts.values()]
            target, given = made_of, (form, *nodes)
            if value.akin is not None:
                target, given = made_akin, (form, self.node_of(value.akin), *nodes)
            value.node = self._new_node("call_function", target, given, {}, value.fake)
            self.by_fake[id(value.fake)] = value
        return value.node

    def wrapper_result(self, result: object, node: Node) -> WrapperValue:
        """What a node gives."""
        try:
            form_of(result)
        except AttributeError as error:  # it got its class without its parts
            raise Break("tensor-subclass", f"a {type(result).__name__} without parts") from error
        value: WrapperValue = self.made(WrapperValue(result, node))
        self.by_fake[id(result)] = value
        return value

    def taken_apart(self, value: WrapperValue) -> tuple[Form, list[Any]]:
        """The form of a result and its parts, which are results of the graph."""
        form = form_of(value.fake)
        if value.source is None and not value.parts:
            known = [self.by_fake.get(id(getattr(value.fake, name))) for name in form.names]
            if None in known or value.fake.requires_grad:
                args, apart = (self.node_of(value),), taken_apart(value.fake)
                node = self._new_node("call_function", taken_apart, args, {}, apart)
                known = self.from_result(apart, node).items
            value.parts = dict(zip(form.names, known, strict=True))
        return form, list(value.parts.values())

    def _find_akin(self, value: WrapperValue) -> None:
        """Let one from outside have the sizes of another, where these are more than numbers; guarded."""
        if not hasattr(value.kind, "_akin"):
            return
        for other in [v for v in self.tracked.values() if isinstance(v, WrapperValue)]:
            if other.kind is not value.kind:
                continue
            sizes = value.source.apply(value.kind._ragged), other.source.apply(value.kind._ragged)
            shared = other.real._shares_sizes(value.real)
            self.guards.add("same" if shared else "different", *sizes)
            if shared and value.akin is None:
                value.akin = other
                value.fake._akin(other.fake)

    def ragged_size(self, value: WrapperValue, dim: int) -> Known:
        """A size that is no plain number: that of a tensor from outside."""
        owner = value if value.source is not None else self.akin_to(value)
        if owner is None:
            raise Break("unsupported-attribute", "a ragged size that no argument has")
        return Known(value.fake.shape[dim], owner.source.attr("shape").item(dim))

    def akin_to(self, value: WrapperValue) -> WrapperValue | None:
        """The tensor from outside whose sizes a result has, where these are more than numbers (`_akin`)."""
        if not hasattr(value.kind, "_akin"):
            return None
        given = [v for v in self.tracked.values() if isinstance(v, WrapperValue)]
        found = (v for v in given if v.kind is value.kind and v.fake._shares_sizes(value.fake))
        return next(found, None)

    def wrapper_attribute(self, owner: WrapperValue, name: str) -> Any:
        """What an instance of such a class has under a name; NotImplemented where it has nothing."""
        if name == "size" and hasattr(owner.kind, "_akin"):
            return self.made(MethodValue(name, owner))
        slot = isinstance(getattr(owner.kind, name, None), types.MemberDescriptorType)
        if not slot and name not in vars(owner.fake):
            return NotImplemented
        if name in owner.parts and not owner.fake.requires_grad:
            return owner.parts[name]
        found = getattr(owner.fake, name)
        if isinstance(found, core.Tensor):
            return self.graph_call(getattr, [owner, Known(name)])
        if owner.source is not None:
            return self.wrap(getattr(owner.real, name), owner.source.attr(name))
        return self.trusted(found)

    @contextlib.contextmanager
    def writes_watched(self, args: list[Any]) -> Iterator[None]:
        """A block in which a tensor from outside that gets a history by a write, which stays in the
        graph, is a break."""
        made = [v for v in args if isinstance(v, WrapperValue) and v.source is not None]
        versions = [v.fake._version for v in made]
        yield
        for value, version in zip(made, versions, strict=True):
            if value.fake._version != version and value.fake.requires_grad:
                raise Break(
                    "unsupported-mutation", f"a write with gradients to a {value.kind.__name__}"
                )

    def constructed(self, kind: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`Class(...)`, of such a class: a node."""
        if not is_wrapper(kind):
            raise Break("unsupported-call", f"the constructor {kind.__name__}")
        words = {name: self._made_again(value) for name, value in kwargs.items()}
        return self.graph_call(kind, [self._made_again(value) for value in args], words)

    def _made_again(self, value: Any) -> Any:
        """A named tuple as a node that makes it; anything else as it is."""
        value = self.force(value)
        if not isinstance(value, SequenceValue) or not hasattr(value.kind, "_fields"):
            return value
        pairs = [self.argument(self._made_again(item)) for item in value.items]
        made = value.kind(*[fake for _, fake in pairs])
        node = self._new_node("call_function", value.kind, tuple(n for n, _ in pairs), {}, made)
        return NodeValue(made, node)

    def known_numbers(self, real: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call's arguments, with the numbers of tensors from outside for those that a function reads
        (`_facula_reads`: their names), which are guarded."""
        names = inspect.signature(real).parameters
        given = dict(zip(names, args, strict=False), **kwargs)
        for name in real._facula_reads:
            value = self.force(given.get(name))
            if type(value) is not TensorValue or value.source is None or core.writes(value.fake):
                continue
            found = value.real.tolist()
            self.guards.add("equal", value.source.apply(core.Tensor.tolist), found)
            given[name] = self.build_list([Known(n) for n in found])
        return [], given

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


def _has_shape_of_parts(kind: type) -> bool:
    """Whether tensors of a class have the sizes of their first part: quantized ones."""
    return bool(getattr(kind, "_is_sparse_tensor", False))


def _check_comparison(kind: type) -> None:
    """Raise for a comparison of contexts that can not be called."""
    found = inspect.getattr_static(kind, "__metadata_guard__")
    hint = "@classmethod def __metadata_guard__(cls, one, other): return one == other"
    if not isinstance(found, classmethod):
        refused = "Tensor subclass method __metadata_guard__ must be a classmethod"
    elif len(inspect.signature(found.__func__).parameters) != 3:
        refused = (
            "Tensor subclass method __metadata_guard__ must take exactly two subclass metadata "
            "arguments"
        )
    else:
        return
    fail(InternalTorchDynamoError, "compile", refused, kind.__name__, hint=hint)


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


__all__ = ["WrapperValue", "Wrappers", "is_wrapper", "made_of", "taken_apart"]
