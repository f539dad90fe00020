"""Classes with `__torch_function__`, and modes, in captured programs.

Takes: calls with tensors or other objects of such classes among their arguments, and calls below a
`TorchFunctionMode` that the segment has entered. Gives: what the class or the mode makes of them, by
following its Python.
Keeps true: it is told about the function that eager tells it about; the graph holds plain tensors
only: inputs lose their class on the way in, results get theirs on the way out; a segment leaves
the modes that it enters.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.capture.breaks import Break, Earlier
from facula.capture.guards.conditions import facts_of
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.inner_graphs import Opaque, Slot, given_of, mapped
from facula.capture.values.kinds import Known, ObjectValue, SequenceValue, TensorValue
from facula.capture.values.sources import Source
from facula.capture.values.wrappers import WrapperValue
from facula.namespaces import overrides as overriding

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


#: what classes have that define nothing of their own: results get the class
INHERITED = core.Tensor.__dict__["__torch_function__"].__func__


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
        cls, func: object, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _Asked(func, args, kwargs or {})


class _ObjectProbe:
    """Stands for an object that is no tensor, to hear what its class would be told."""

    @classmethod
    def __torch_function__(
        cls, func: object, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _Asked(func, args, kwargs or {})


class _ModeProbe:
    """Stands for the active mode."""

    def __torch_function__(
        self, func: object, types: object, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise _Asked(func, args, kwargs or {})


class Subclasses(Part):
    """The part of `Symbolic` that asks classes and modes."""

    overrides_off: bool
    in_class: dict[tuple[int, type], SubclassValue]
    #: the modes that the segment has entered, with the number of the instruction that entered each
    function_modes: tuple[tuple[int, Any], ...]

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

    def asks_others(self, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Whether a mode or a class is to be asked about a call."""
        if self.function_modes:
            return True
        return not self.overrides_off and bool(_classes(self, [*args, *kwargs.values()]))

    def overridden(
        self, run: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], shown: str
    ) -> Any:
        """A call, as the active mode or the classes of its arguments have it; NotImplemented where
        a mode is not told about it."""
        _, leaves, (positional, words) = given_of(self, (tuple(args), dict(kwargs)))
        known: dict[int, Any] = {}
        stands = [self._stand_in(leaf, known) for leaf in leaves]

        def stand(part: object) -> Any:
            if isinstance(part, Opaque):
                return self._stand_in(part.value, known)
            return stands[part.number] if isinstance(part, Slot) else part

        call = self._told(run, mapped(positional, stand), mapped(words, stand))
        if call is None:
            if self.function_modes:
                return NotImplemented
            raise Break("tensor-subclass", f"{shown} does not ask the class of its arguments")
        func, given, named = call
        values = [_symbolic(self, part, known) for part in given]
        more = {name: _symbolic(self, part, known) for name, part in named.items()}
        if self.function_modes:
            return self._ask_mode(func, values, more, shown)
        return self.ask_classes(func, values, more, shown)

    def _told(self, run: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """What the first that is asked is told: function, arguments and keywords; None where nobody is asked."""
        probed = bool(self.function_modes)
        if probed:
            core.push_function_mode(_ModeProbe())
        try:
            run(*args, **kwargs)
        except _Asked as asked:
            return asked.call
        except Exception:
            if not probed:
                raise
            return None  # a call that is not announced fails where it is recorded
        finally:
            if probed:
                core.pop_function_mode()
        return None

    @staticmethod
    def _stand_in(leaf: Any, known: dict[int, Any]) -> Any:
        """What an operator gets in an argument's place."""
        if isinstance(leaf, SubclassValue):
            fake = leaf.fake
            plain = core.empty_strided(
                tuple(fake.shape), tuple(fake.stride()), dtype=fake.dtype, device="meta"
            )
            made: Any = plain.as_subclass(_Probe)
        elif isinstance(leaf, ObjectValue) and overrides(leaf.kind):
            made = _ObjectProbe()
        else:
            made = leaf.fake if hasattr(leaf, "fake") else Opaque(leaf)
        known[id(made)] = leaf
        return made

    def enter_mode(self, mode: Any) -> Any:
        """`push_function_mode`."""
        if self.enclosing:
            raise Break("unsupported-call", "a mode that is entered inside of a transform")
        self.function_modes = (*self.function_modes, (self.tick, self.force(mode)))
        return Known(None)

    def leave_mode(self) -> Any:
        """`pop_function_mode`."""
        if not self.function_modes:
            raise Break("unsupported-call", "a mode of the outside that is left")
        *outer, (_, mode) = self.function_modes
        self.function_modes = tuple(outer)
        return mode

    def check_modes_left(self) -> None:
        """A segment that ends below a mode has to end before the mode is entered."""
        if self.function_modes:
            tick, mode = self.function_modes[0]
            reason = Break("tensor-subclass", f"an end below the mode {mode.cls.__name__}")
            self.locate(reason)
            raise Earlier(tick, reason)

    def _ask_mode(self, func: object, args: list[Any], kwargs: dict[str, Any], shown: str) -> Any:
        """What the innermost mode says; what it calls goes to the modes outside of it."""
        before = self.function_modes
        mode = before[-1][1]
        self.function_modes = before[:-1]
        kinds = _classes(self, [*args, *kwargs.values()])
        classes = self.build_tuple([self.trusted(kind) for kind in kinds])
        words = self.build_dict([Known(name) for name in kwargs], list(kwargs.values()))
        try:
            handler = self.getattr(mode, "__torch_function__")
            given = [self.trusted(func), classes, self.build_tuple(args), words]
            result = self.force(self.call(handler, given, {}))
            if isinstance(result, Known) and result.obj is NotImplemented:
                return self.ask_classes(func, args, kwargs, shown)
            return result
        finally:
            self.function_modes = before

    def asked_attribute(self, owner: TensorValue, name: str) -> Any:
        """An attribute of a tensor that its class answers; NotImplemented where it is not asked."""
        if isinstance(owner, WrapperValue):
            return self.wrapper_attribute(owner, name)
        if type(owner) is not SubclassValue or self.overrides_off or self.function_modes:
            return NotImplemented
        descriptor = getattr(core.Tensor, name, None)
        handler: Any = getattr(owner.kind, "__torch_function__")  # noqa: B009 - a `type` has none for mypy
        if not hasattr(type(descriptor), "__set__") or handler.__func__ is INHERITED:
            return NotImplemented
        call = self._told(lambda tensor: getattr(tensor, name), (self._stand_in(owner, {}),), {})
        if call is None:
            return NotImplemented
        return self.ask_classes(call[0], [owner], {}, name)

    def ask_classes(self, func: object, args: list[Any], kwargs: dict[str, Any], shown: str) -> Any:
        """What the first class says that says something."""
        kinds = _classes(self, [*args, *kwargs.values()])
        classes = self.build_tuple([self.trusted(kind) for kind in kinds])
        for kind in kinds:
            handler = self.getattr(self.trusted(kind), "__torch_function__")
            words = self.build_dict([Known(name) for name in kwargs], list(kwargs.values()))
            given = [self.trusted(func), classes, self.build_tuple(args), words]
            result = self.force(self.call(handler, given, {}))
            if not (isinstance(result, Known) and result.obj is NotImplemented):
                return result
        self.fail(TypeError, f"no implementation found for '{shown}' on types {kinds}")

    def new_subclass(self, cls: Known, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`Class(tensor)`, of a class of tensors: the tensor's elements in the class."""
        kind = cls.obj
        make = self.type_lookup(kind, "__new__")
        make = make.__func__ if isinstance(make, staticmethod) else make
        if dispatches(kind) or not overrides(kind):
            return self.constructed(kind, args, kwargs)
        base = self.class_of_attribute(kind, "__new__")
        if isinstance(make, types.FunctionType) and base is not core.Tensor:
            value = self.call(self.trusted(make), [cls, *args], kwargs)
        elif len(args) == 1 and isinstance(self.force(args[0]), TensorValue):
            value = self.in_class_apart(kind, args[0])
        else:
            raise Break("unsupported-call", f"the constructor {kind.__name__}")
        init = self.type_lookup(kind, "__init__")
        if isinstance(init, types.FunctionType):
            self.call(self.trusted(init), [value, *args], kwargs)
        return value

    def in_class_apart(self, kind: type, tensor: Any) -> Any:
        """`_make_subclass`: a tensor of a class on the same memory, without the history."""
        tensor = self.force(tensor)
        plain = tensor.inner if isinstance(tensor, SubclassValue) else tensor
        if dispatches(kind) or not overrides(kind):
            raise Break("unsupported-call", f"the constructor {kind.__name__}")
        apart = self.without_overrides(
            Known(core.Tensor.detach), self.build_tuple([plain]), self.build_dict([], [])
        )
        return self.of_class(apart, kind)

    def without_overrides(self, func: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
        if isinstance(value, SubclassValue) or (
            isinstance(value, ObjectValue) and overrides(value.kind)
        ):
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


def _symbolic(d: Any, part: object, known: dict[int, Any]) -> Any:
    if id(part) in known:
        return known[id(part)]
    if isinstance(part, Opaque):
        return part.value
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


def _make_subclass(d: Symbolic, args: list, kwargs: dict) -> Any:
    if len(args) != 2 or kwargs:
        raise Break("unsupported-call", "_make_subclass with settings")
    return d.in_class_apart(d.constant_of(args[0]), args[1])


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
    rules[core.push_function_mode] = lambda d, args, kwargs: d.enter_mode(args[0])
    rules[core.pop_function_mode] = lambda d, args, kwargs: d.leave_mode()
    rules[overriding._count_function_modes] = lambda d, args, kwargs: Known(len(d.function_modes))
    rules[overriding._get_current_function_mode_stack] = lambda d, args, kwargs: d.build_list(
        [mode for _, mode in d.function_modes]
    )
    rules[overriding._get_current_function_mode] = lambda d, args, kwargs: (
        d.function_modes[-1][1] if d.function_modes else Known(None)
    )
    rules[INHERITED] = _default
    rules[core.Tensor._make_subclass] = _make_subclass
    rules[core.set_overrides_disabled] = _switch
    rules[core._disabled_torch_function_impl] = lambda d, args, kwargs: d.without_overrides(
        args[0], args[2] if len(args) > 2 else Known(()), args[3] if len(args) > 3 else Known(None)
    )


__all__ = [
    "INHERITED",
    "Slot",
    "SubclassValue",
    "Subclasses",
    "as_class",
    "as_plain",
    "overrides",
    "put",
]
