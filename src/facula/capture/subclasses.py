"""Tensor subclasses with `__torch_function__` in captured programs.

Takes: calls with such tensors among their arguments. Gives: what the class makes of them, by following
its Python.
Keeps true: a class is told about the function that eager tells it about; the graph holds plain tensors
only: inputs lose their class on the way in, results get theirs on the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.domain import Part
from facula.capture.guards import facts_of
from facula.capture.inner_graphs import Slot, build, given_of
from facula.capture.sources import Source
from facula.capture.values import Known, SequenceValue, TensorValue

if TYPE_CHECKING:
    from facula.capture.symbolic import Symbolic


_DEFAULT = core.Tensor.__dict__["__torch_function__"].__func__


def dispatches(kind: type) -> bool:
    """Whether tensors of a class are more than a tensor: their Python decides below what is captured."""
    dispatch = getattr(kind, "__torch_dispatch__", None)
    return dispatch is not None or getattr(kind, "_facula_holds_tensors", False)


class SubclassValue(TensorValue):
    """A tensor of a class that overrides functions; `inner` is the plain tensor on the same memory."""

    __slots__ = ("inner", "kind")

    def __init__(
        self, kind: type, inner: TensorValue, real: core.Tensor | None, source: Source | None
    ) -> None:
        super().__init__(inner.fake, None, real, source)
        self.kind = kind
        self.inner = inner

    @property
    def cls(self) -> type:
        return self.kind


def as_class(tensor: core.Tensor, kind: type) -> Any:
    """A tensor on the same memory, with the same history, in another class."""
    return core.run_without_overrides(core.Tensor.as_subclass, (tensor, kind), {})


def as_plain(tensor: core.Tensor) -> Any:
    """A tensor without its class."""
    return as_class(tensor, core.Tensor)


def overrides(kind: type) -> bool:
    """Whether a class has its own idea of functions."""
    found = getattr(kind, "__torch_function__", None)
    plain = getattr(found, "__func__", found)
    return plain is not None and plain is not core._disabled_torch_function_impl and kind not in (
        core.Tensor,
    )  # fmt: skip


class _Asked(Exception):  # noqa: N818 - it is no error
    """What a class is told."""

    def __init__(self, func: Any, args: tuple, kwargs: dict) -> None:
        self.call = (func, args, kwargs)


class _Probe(core.Tensor):
    """Stands for a tensor of a subclass, to hear what its class would be told."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _Asked(func, args, kwargs or {})


class Subclasses(Part):
    """The part of `Symbolic` that asks subclasses."""

    overrides_off: bool
    in_class: dict[tuple[int, type], SubclassValue]

    def subclass_tensor(self, tensor: core.Tensor, kind: type, source: Source) -> SubclassValue:
        """A tensor of such a class from outside."""
        plain = as_plain(tensor)
        inner = TensorValue(self.fakes.from_tensor(plain), None, plain, source.apply(as_plain))
        facts = facts_of(plain, frozenset())._replace(cls=kind)
        self.guards.add("tensor", source, facts)
        self.guards.add("type", inner.source, core.Tensor)  # so that guards read it
        value = SubclassValue(kind, inner, tensor, source)
        self.in_class[id(inner), kind] = value
        return value

    def of_class(self, value: object, kind: type) -> Any:
        """A result in a class; sequences item by item."""
        value = self.force(value)
        if isinstance(value, SequenceValue):
            items = [self.of_class(item, kind) for item in value.items]
            return self.made(SequenceValue(value.kind, items))
        if isinstance(value, SubclassValue):
            return value if issubclass(value.kind, kind) else self.of_class(value.inner, kind)
        if not isinstance(value, TensorValue) or kind is core.Tensor:
            return value
        known = self.in_class.get((id(value), kind))
        if known is None:
            known = self.made(SubclassValue(kind, value, None, None))
            self.in_class[id(value), kind] = known
        return known

    def in_another_class(self, value: TensorValue, kind: type) -> Any:
        """`tensor.as_subclass(kind)`."""
        plain = value.inner if isinstance(value, SubclassValue) else value
        if kind is core.Tensor:
            return plain
        if not overrides(kind) or dispatches(kind):
            raise Break("tensor-subclass", f"as_subclass({kind.__name__})")
        return self.of_class(plain, kind)

    def asks_subclass(self, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Whether a class is to be asked about a call."""
        return not self.overrides_off and bool(_classes(self, [*args, *kwargs.values()]))

    def overridden(
        self, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], shown: str
    ) -> Any:
        """A call, as the classes of its arguments have it."""
        _, leaves, (positional, words) = given_of(self, (tuple(args), dict(kwargs)))
        stands = [_stand_in(leaf) for leaf in leaves]
        try:
            run(*build(positional, stands), **build(words, stands))
        except _Asked as asked:
            func, given, named = asked.call
        else:
            raise Break("tensor-subclass", f"{shown} does not ask the class of its arguments")
        known = {id(stand): leaf for stand, leaf in zip(stands, leaves, strict=True)}
        values = [_symbolic(self, part, known) for part in given]
        more = {name: _symbolic(self, part, known) for name, part in named.items()}
        return self.ask_classes(func, values, more, shown)

    def ask_classes(self, func: Any, args: list[Any], kwargs: dict[str, Any], shown: str) -> Any:
        """What the first class says that says something."""
        kinds = _classes(self, [*args, *kwargs.values()])
        types = self.build_tuple([self.trusted(kind) for kind in kinds])
        for kind in kinds:
            handler = self.getattr(self.trusted(kind), "__torch_function__")
            words = self.build_dict([Known(name) for name in kwargs], list(kwargs.values()))
            given = [self.trusted(func), types, self.build_tuple(args), words]
            result = self.force(self.call(handler, given, {}))
            if not (isinstance(result, Known) and result.obj is NotImplemented):
                return result
        self.fail(TypeError, f"no implementation found for '{shown}' on types {kinds}")

    def without_overrides(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with subclasses taken as plain tensors."""
        before, self.overrides_off = self.overrides_off, True
        try:
            words = {} if self.is_none(kwargs) else self.keywords(kwargs)
            return self.call(func, self.unpack_all(args), words)
        finally:
            self.overrides_off = before


def _classes(d: Any, values: list[Any]) -> list[type]:
    """The overriding classes among arguments, subclasses first."""
    found: list[type] = []
    for value in values:
        value = d.force(value)
        if isinstance(value, SubclassValue):
            kinds = [value.kind]
        elif isinstance(value, SequenceValue):
            kinds = _classes(d, value.items)
        else:
            continue
        for kind in kinds:
            if kind not in found:
                place = next((n for n, k in enumerate(found) if issubclass(kind, k)), len(found))
                found.insert(place, kind)
    return found


def _stand_in(leaf: TensorValue) -> Any:
    if not isinstance(leaf, SubclassValue):
        return leaf.fake
    fake = leaf.fake
    plain = core.empty_strided(
        tuple(fake.shape), tuple(fake.stride()), dtype=fake.dtype, device="meta"
    )
    return plain.as_subclass(_Probe)


def _symbolic(d: Any, part: object, known: dict[int, Any]) -> Any:
    if id(part) in known:
        return known[id(part)]
    if isinstance(part, (tuple, list)):
        return d.made(SequenceValue(type(part), [_symbolic(d, item, known) for item in part]))
    return d.lift(part)


def _default(d: Symbolic, args: list, kwargs: dict) -> Any:
    """`Tensor.__torch_function__`: run the function, and give results the class."""
    words = dict(zip(("cls", "func", "types", "args", "kwargs"), args, strict=False), **kwargs)
    kind, func = d.constant_of(words["cls"]), d.force(words["func"])
    result = d.without_overrides(
        func, words.get("args", Known(())), words.get("kwargs", Known(None))
    )
    return d.of_class(result, kind)


def _switch(d: Symbolic, args: list, kwargs: dict) -> Any:
    before, d.overrides_off = d.overrides_off, bool(d.constant_of(args[0]))
    return Known(before)


def read_property(d: Any, getter: Any, args: list) -> Any:
    """A call of `Tensor.shape.__get__` or its like, which classes are told about; NotImplemented for others."""
    name = getattr(getter, "__name__", "")
    owner = d.force(args[0]) if args else None
    if name != "__get__" or not isinstance(owner, TensorValue):
        return NotImplemented
    own = getter.__self__
    names = (key for cls in core.Tensor.__mro__ for key, v in vars(cls).items() if v is own)
    found = next(names, None)
    return NotImplemented if found is None else d.getattr(owner, found)


def put(rules: dict) -> None:
    """Fill in the rules."""
    rules[_DEFAULT] = _default
    rules[core.set_overrides_disabled] = _switch
    rules[core._disabled_torch_function_impl] = lambda d, args, kwargs: d.without_overrides(
        args[0], args[2] if len(args) > 2 else Known(()), args[3] if len(args) > 3 else Known(None)
    )


__all__ = ["Slot", "SubclassValue", "Subclasses", "as_class", "as_plain", "overrides", "put"]
