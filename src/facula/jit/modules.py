"""Types of modules and classes: attributes, constants, methods that compile when they are needed.

Takes a module, or a Python class. Gives its `ClassType`.
Keeps true: modules of one class with attributes of the same types, the same constants and submodules of the
same types share a type, and so their compiled methods.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.jit import dataclass_methods
from facula.jit.context_classes import STAND_INS
from facula.jit.functions import make_unit
from facula.jit.marks import Attribute
from facula.jit.python_types import (
    CLASS_TYPE,
    MODULE_TYPE,
    NoType,
    qualified_name,
    type_of_class,
    type_of_value,
)
from facula.jit.python_values import is_own
from facula.jit.running import SCRIPTED_CLASS
from facula.jit.special_units import special_unit
from facula.jit.stock_attention import STOCK_ATTENTION
from facula.jit.stock_modules import STOCK, STOCK_CONSTANTS, STOCK_PACKED
from facula.ops.table.schemas import types as T

__all__ = ["class_type", "module_attributes", "module_type"]

_HIDDEN = frozenset(vars(nn.Module())) - {"training"} | {"_defined"}
#: what a module is made of: constants name it where all of its modules are meant
_MADE_OF = frozenset(("_parameters", "_buffers", "_modules"))
_TYPES: dict[Any, T.ClassType] = {}
_CLASSES: dict[type, T.ClassType] = {}


def module_type(module: nn.Module) -> T.ClassType:
    """The type of a module."""
    known = getattr(module, "_script_type", None)
    if isinstance(known, T.ClassType):
        return known
    _was_made(module)
    kind = T.ClassType(qualified_name(type(module)), True, type(module))
    module_attributes(kind, module)
    key = _key(kind, module)
    if key in _TYPES:
        return _TYPES[key]
    _TYPES[key] = kind
    _methods(kind, type(module))
    for base, function in (*STOCK.items(), *STOCK_ATTENTION.items()):
        if type(module).forward is base.forward:
            whole = kind.methods["forward"] = make_unit(function, kind)
            if base in STOCK_PACKED:
                packed = kind.methods["forward_packed"] = make_unit(STOCK_PACKED[base], kind)
                kind.methods["forward"] = RecurrentUnit(whole, packed)
            named = [n for n in STOCK_CONSTANTS if n not in module._modules]
            kind.constants.update({n: getattr(module, n) for n in named if hasattr(module, n)})
            for name in named:
                kind.attributes.pop(name, None)
    stand_in = getattr(type(module), "_script_forward", None)
    if stand_in is not None:
        kind.methods["forward"] = make_unit(stand_in, kind)
    if type(module).forward is nn.Sequential.forward:
        kind.methods["forward"] = SequentialUnit(kind)
    replaced = vars(module).get("forward")
    if inspect.ismethod(replaced) and replaced.__self__ is module:
        kind.methods["forward"] = make_unit(replaced.__func__, kind)
    for hook in module._forward_pre_hooks.values():
        kind.pre_hooks.append(_hook(kind, hook, "Pre-hook"))
    for hook in module._forward_hooks.values():
        kind.hooks.append(_hook(kind, hook, "Hook"))
    return kind


def _was_made(module: nn.Module) -> None:
    """Refuses a module whose class forgets the constructor of modules."""
    if "_parameters" not in vars(module):
        fail(RuntimeError, "jit.script", f"a module that was made was required ({type(module).__name__!r} has not been "
             "initialized, did you forget to call 'super()'?)", "one without parameters and modules",
             hint="super().__init__() at the start of __init__")  # fmt: skip


def _key(kind: T.ClassType, module: nn.Module) -> tuple[Any, ...]:
    """What modules of one type have in common."""
    return (
        type(module),
        tuple(kind.attributes.items()),
        _ignored(module),
        repr(sorted(kind.constants.items(), key=str)),
        tuple(text for text, _ in vars(module).get("_defined", ())),
        (*module._forward_pre_hooks.values(), None, *module._forward_hooks.values()),
        getattr(vars(module).get("forward"), "__func__", None),
    )


def _hook(kind: T.ClassType, hook: Any, word: str) -> str:
    """The name of the method that a hook becomes."""
    if not inspect.isfunction(hook):
        fail(RuntimeError, "jit.script", "a function as hook of a module was required", f"{type(hook).__name__} on "
             f"{kind.name}", hint="remove the hook before scripting: hooks are compiled with the module")  # fmt: skip
    name = hook.__name__
    known = kind.methods.get(name)
    if known is not None and getattr(known, "python", None) is not hook:
        if name in (*kind.pre_hooks, *kind.hooks):
            said = (
                f"{word} '{name}' on {kind.name} has at least two different python definitions. Please use unique "
                "names for all hooks."
            )
        else:
            said = (
                f"Can't define hook: {name} on class: {kind.name} because a method or hook with that name already "
                "exists."
            )
        fail(RuntimeError, "jit.script", f"hooks with names of their own were required ({said})", name,
             hint="rename the hook")  # fmt: skip
    if known is None:
        kind.methods[name] = make_unit(hook, kind)
    return str(name)


def _annotations(kind: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ != nn.Module.__module__:
            try:
                found.update(inspect.get_annotations(base, eval_str=True))
            except Exception:  # what a name in quotes stands for may be gone
                found.update(inspect.get_annotations(base))
    return found


def module_attributes(kind: T.ClassType, module: nn.Module) -> None:
    """Enter the attributes, constants and submodules of a module into its type."""
    hints = _annotations(type(module))
    finals = {n for n, h in hints.items() if _is_final(h)} | set(
        getattr(module, "__constants__", ())
    )
    kind.finals = frozenset(n for n in finals if n not in _MADE_OF)
    ignored = _ignored(module)
    for name, value in module._parameters.items():
        kind.attributes[name] = T.TENSOR if value is not None else T.NONE
        if value is not None:
            kind.parameters.append(name)
        elif name in hints:
            _typed(kind, name, hints[name])
    for name, value in module._buffers.items():
        kind.attributes[name] = T.TENSOR if value is not None else T.NONE
        kind.buffers.append(name)
        if name in hints and _is_optional(hints[name]):
            _typed(kind, name, hints[name])
    for name, child in module._modules.items():
        if name in ignored:  # which may have no type
            continue
        own = T.NONE if child is None else module_type(child)
        kind.attributes[name] = _interface(hints.get(name)) or own
    _leave_out(kind, ignored)
    for name, value in vars(module).items():
        if name not in _HIDDEN and name not in ignored and not name.startswith("__"):
            _plain(kind, name, value, hints, finals)
    if is_own(type(module)):  # what the library's classes say about themselves
        for base in reversed(type(module).__mro__):
            plain = {n: v for n, v in vars(base).items() if type(v) in (str, int, bool, float)}
            kind.constants.update({n: v for n, v in plain.items() if not n.startswith("__")})
    for name in finals - set(vars(module)):
        if name in kind.attributes:
            continue
        if hasattr(type(module), name):
            kind.constants[name] = getattr(type(module), name)


def _ignored(module: nn.Module) -> frozenset[str]:
    """The attributes that Python alone has."""
    return frozenset(getattr(module, "__jit_ignored_attributes__", ()))


def _leave_out(kind: T.ClassType, ignored: frozenset[str]) -> None:
    kind.notes.update(dict.fromkeys(ignored, "the attribute was ignored during compilation"))
    for name in ignored:
        kind.attributes.pop(name, None)
    kind.parameters = [name for name in kind.parameters if name not in ignored]
    kind.buffers = [name for name in kind.buffers if name not in ignored]


def _interface(hint: Any) -> T.ClassType | None:
    """The interface that an attribute is annotated with; None of other annotations."""
    return class_type(hint) if getattr(hint, "__torch_script_interface__", False) else None


def _plain(
    kind: T.ClassType, name: str, value: object, hints: dict[str, Any], finals: set[str]
) -> None:
    """An attribute that is neither parameter, buffer nor module."""
    if name in finals and name not in kind.attributes:
        kind.constants[name] = value
        return
    if isinstance(value, Attribute):
        kind.attributes[name] = type_of_class(value.type)
        return
    if name in hints and not is_own(kind.python):
        _typed(kind, name, hints[name])
        return
    if (
        inspect.isroutine(value)
        or isinstance(value, (type, core.Op, core.Alias))
        or hasattr(value, "_script_unit")
    ):
        kind.constants[name] = value
        return
    try:
        kind.attributes[name] = type_of_value(value)
    except NoType as reason:
        kind.notes[name] = f"its value has no TorchScript type: {reason}"
    except RuntimeError as reason:
        kind.notes[name] = (f"failed to convert Python type {type(value).__name__!r} to a TorchScript type: "
                            f"{str(reason).splitlines()[0]}")  # fmt: skip


def _typed(kind: T.ClassType, name: str, hint: Any) -> None:
    try:
        found = type_of_class(hint)
    except NoType as reason:
        kind.notes[name] = f"its annotation is no TorchScript type: {reason}"
        return
    if found.kind != "Any" or not is_own(kind.python):
        kind.attributes[name] = found


def _is_final(hint: Any) -> bool:
    return hint is typing.Final or typing.get_origin(hint) is typing.Final or (
        isinstance(hint, str) and hint.startswith(("Final", "torch.jit.Final"))
    )  # fmt: skip


def _is_optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)


class RecurrentUnit:
    """`forward` of a recurrent layer: one form for tensors, one for packed sequences."""

    def __init__(self, unit: Any, packed: Any) -> None:
        self.unit, self.packed, self.name = unit, packed, "forward"
        self.result_type = unit.result_type

    @property
    def parameters(self) -> Any:
        """The arguments of the form for tensors."""
        return self.unit.parameters

    def compiled(self) -> Any:
        """The form for tensors."""
        return self.unit.compiled()

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of the form that takes the input."""
        given, named = builder.plain(args, kwargs)
        first = given[1] if len(given) > 1 else named.get("input")
        is_packed = first is not None and isinstance(first.type, T.NamedTupleType)
        unit, name = (self.packed, "forward_packed") if is_packed else (self.unit, "forward")
        inputs = builder.bind_arguments(unit.compiled(), given, named)
        return builder.value("prim::CallMethod", inputs, unit.result_type(), name=name)


class SequentialUnit:
    """`Sequential.forward`: each module in turn; its graph is made for one tensor."""

    def __init__(self, kind: T.ClassType) -> None:
        self.kind, self.name, self._unit = kind, "forward", None

    def lower_call(self, builder: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The calls, one after the other."""
        container, thing = builder.as_value(args[0]), args[1] if len(args) > 1 else kwargs["input"]
        items = builder.items_of_module(container, self.kind)
        assert items is not None
        for _, each in items:
            thing = builder.call_thing(each, [thing], {})
        return builder.as_value(thing)

    def compiled(self) -> Any:
        """The unit that runs it: made like that of a method of three lines."""
        if self._unit is None:
            unit: Any = make_unit(forward, self.kind)
            unit.name = "forward"
            self._unit = unit
        assert self._unit is not None
        return self._unit.compiled()


def forward(self, input):  # type: ignore[no-untyped-def]  # the name that its code gets
    for module in self:
        input = module(input)
    return input


def _methods(kind: T.ClassType, python: type) -> None:
    """Units of all methods; they compile when they are called."""
    for base in reversed(python.__mro__):
        if base in (object, nn.Module, tuple) or base.__module__ == nn.Module.__module__:
            continue
        for name, found in vars(base).items():
            if isinstance(found, staticmethod):
                kind.static[name] = _unit(found.__func__, None)
            elif isinstance(found, property) and found.fget is not None:
                if name not in getattr(python, "__jit_unused_properties__", ()):
                    kind.properties[name] = _unit(found.fget, kind)
                    if found.fset is not None:
                        kind.setters[name] = _unit(found.fset, kind)
            elif inspect.isfunction(found) and dataclass_methods.generated(base, found):
                written = dataclass_methods.method_unit(base, found, kind)
                if written is not None:
                    kind.methods[name] = written
            elif inspect.isfunction(found):
                kind.methods[name] = _unit(found, kind)


class _Later:
    """A unit that is made when it is first asked for."""

    def __init__(self, function: Any, kind: T.ClassType | None) -> None:
        self.function, self.kind, self.name = function, kind, function.__name__
        self._unit: Any = None

    @property
    def unit(self) -> Any:
        if self._unit is None:
            made = special_unit(self.function, self.kind)
            self._unit = made if made is not None else make_unit(self.function, self.kind)
        return self._unit

    @property
    def lower_call(self) -> Any:
        return getattr(self.unit, "lower_call", None)

    def compiled(self) -> Any:
        return self.unit.compiled()

    @property
    def parameters(self) -> Any:
        return self.unit.parameters

    def result_type(self) -> T.Type:
        return self.unit.result_type()


def _unit(function: Callable[..., Any], kind: T.ClassType | None) -> _Later:
    return _Later(function, kind)


def scripted_class(python: type) -> T.ClassType | None:
    """The type of a Python class that scripts have used; None of another one."""
    return _CLASSES.get(python)


def class_type(python: type) -> T.ClassType:
    """The type of a Python class that scripted code uses."""
    if python in _CLASSES:
        return _CLASSES[python]
    if python in STAND_INS:
        stand_in, module = STAND_INS[python]
        kind = _CLASSES[python] = T.ClassType("", False, stand_in)
        kind.name = f"{module}.{python.__name__}"
        kind.methods = {
            n: make_unit(f, kind) for n, f in vars(stand_in).items() if inspect.isfunction(f)
        }
        kind.methods["__init__"].compiled()
        return kind
    if issubclass(python, nn.Module) and not getattr(python, "__torch_script_interface__", False):
        raise NoType(f"the module class {python.__name__} (a module is an attribute of another)")
    if python.__module__ == "builtins" or issubclass(python, BaseException) or is_own(python):
        raise NoType(f"{python.__module__}.{python.__qualname__}")
    kind = _CLASSES[python] = T.ClassType(qualified_name(python), False, python)
    kind.is_interface = bool(getattr(python, "__torch_script_interface__", False))
    _methods(kind, python)
    if kind.is_interface:
        own = [n for n, f in vars(python).items() if inspect.isfunction(f) and n != "__init__"]
        kind.methods = {name: kind.methods[name] for name in own}
    for name, hint in inspect.get_annotations(python).items():
        if not isinstance(hint, str):
            _typed(kind, name, hint)
    for name, value in vars(python).items():
        if name in getattr(python, "__constants__", ()) or _is_final(
            inspect.get_annotations(python).get(name)
        ):
            kind.constants[name] = value
    if "__init__" in kind.methods and not kind.is_interface:
        try:
            kind.methods["__init__"].compiled()  # it says which attributes there are
        except Exception:
            del _CLASSES[python]
            raise
    return kind


CLASS_TYPE.append(class_type)
SCRIPTED_CLASS.append(scripted_class)
MODULE_TYPE.append(module_type)
