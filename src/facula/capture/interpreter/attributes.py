"""Attributes: Python's look-up rules on symbolic values.

Takes: an owner and a name. Gives: what `getattr` would, through instance dictionaries, the classes of
the MRO, properties, descriptors, `__getattr__` and `super`.
Keeps true: attributes of tensors that are operators go through the graph; a write to an object from
outside is noted and read back from the note.
"""

from __future__ import annotations

import builtins
import collections
import functools
import threading
import types
from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import DEFAULT_FACTORY, is_plain_sequence, is_trusted_name
from facula.capture.guards.watching import ABSENT
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.exceptions import EXCEPTION_LINKS
from facula.capture.interpreter.frames import UNBOUND
from facula.capture.values.kinds import (
    LITERAL_TYPES,
    ArrayValue,
    CellValue,
    DictValue,
    FunctionValue,
    GeneratorValue,
    IteratorValue,
    Known,
    Lazy,
    MethodValue,
    NodeValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    Raised,
    SequenceValue,
    SetValue,
    SliceValue,
    SuperValue,
    TensorValue,
    Value,
    ViewValue,
)
from facula.capture.values.sources import held

#: descriptors of C that hold a plain attribute of the object itself
_SLOTS = (types.MemberDescriptorType,)
_TABLES = ("_parameters", "_buffers", "_modules")
#: the descriptors of the fields of named tuples
FIELD: type = type(collections.namedtuple("_Pair", "a b").a)  # type: ignore[attr-defined] # noqa: PYI024


def _place(field: Any) -> int:
    """Which item the descriptor of a named tuple's field is for."""
    return field.__reduce__()[1][0]


def _is_filled(owner: object, slot: Any) -> bool:
    """Whether the slot of a class with `__slots__` has a value in an instance."""
    try:
        slot.__get__(owner, type(owner))
    except AttributeError:
        return False
    return True


def _has_attributes(owner: Value) -> bool:
    """Whether it is a container of a class that may have attributes."""
    if isinstance(owner, SequenceValue):
        named = hasattr(owner.kind, "_fields") and bool(owner.kind.__dictoffset__)
        return named or is_plain_sequence(owner.kind)
    return isinstance(owner, DictValue) and owner.kind is not dict


class Attributes(Part):
    """The part of `Symbolic` that knows attributes."""

    def getattr(self, owner: Any, name: str) -> Any:
        owner = self.force(owner)
        if isinstance(owner, TensorValue):
            return self.tensor_attribute(owner, name)
        if isinstance(owner, ObjectValue) or _has_attributes(owner):
            return self.object_attribute(owner, name)
        if isinstance(owner, Known):
            return self._known_attribute(owner, name)
        if isinstance(owner, ArrayValue):
            return self.array_attribute(owner, name)
        if isinstance(owner, SuperValue):
            return self._super_attribute(owner, name)
        if isinstance(owner, FunctionValue):
            return self._function_attribute(owner, name)
        if isinstance(owner, (SequenceValue, DictValue, SetValue, ViewValue)):
            return self._container_attribute(owner, name)
        return self._other_attribute(owner, name)

    def getattr_or(self, owner: Value, name: str) -> Any:
        """The attribute, None where there is none."""
        try:
            return self.getattr(owner, name)
        except Raised as error:
            if issubclass(error.value.kind, AttributeError):
                return None
            raise

    def no_attribute(self, kind: type, name: str) -> Any:
        """Raises what Python raises."""
        self.fail(AttributeError, f"'{kind.__name__}' object has no attribute '{name}'")

    def _other_attribute(self, owner: Value, name: str) -> Any:
        if name == "__class__":
            return self.trusted(owner.cls)
        if isinstance(owner, NodeValue):
            raise Break("unsupported-attribute", f"{owner.cls.__name__}.{name}")
        if isinstance(owner, MethodValue):
            if name == "__self__":
                return owner.owner
            if name == "__func__":
                return owner.function
            if not isinstance(owner.function, str):
                return self.getattr(owner.function, name)
            if name == "__name__":
                return Known(owner.function)
        if isinstance(owner, NumberValue):
            if name in ("real", "numerator"):
                return owner
            if not hasattr(owner.cls, name):
                said = f"'{owner.cls.__name__}' object has no attribute '{name}'"
                self.fail(AttributeError, said)
            return self.made(MethodValue(name, owner))
        if isinstance(owner, PartialValue):
            found = self._attribute_of_partial(owner, name)
            if found is not None:
                return found
        if isinstance(owner, SliceValue) and name in ("start", "stop", "step"):
            return owner.parts[("start", "stop", "step").index(name)]
        if isinstance(owner, CellValue) and name == "cell_contents":
            return self.read_cell(owner)
        if isinstance(owner, (GeneratorValue, IteratorValue)) and name in (
            "__next__", "__iter__", "send", "throw", "close",
        ):  # fmt: skip
            return self.made(MethodValue(name, owner))
        self.no_attribute(owner.cls, name)

    def _attribute_of_partial(self, owner: PartialValue, name: str) -> Any:
        """What `functools.partial` gives under a name; None where it has none."""
        if name == "func":
            return owner.function
        if name == "args":
            return self.build_tuple(owner.args)
        if name == "keywords":
            return self.build_dict([Known(n) for n in owner.kwargs], list(owner.kwargs.values()))
        if name == "__doc__":
            return Known(functools.partial.__doc__)
        if name == "__dict__":
            return self.build_dict([], [])
        if self.class_of_attribute(functools.partial, name) is not None:
            return self.made(MethodValue(name, owner))
        return None

    # objects --------------------------------------------------------------------------------------
    def type_lookup(self, cls: type, name: str) -> Any:
        """The attribute of a class, unbound; None where there is none."""
        found = self.watched.attribute(cls, name)
        return None if found is ABSENT else found

    def class_of_attribute(self, cls: type, name: str) -> Any:
        """The class of the MRO that has the attribute."""
        self.watched.attribute(cls, name)
        return next((base for base in cls.__mro__ if name in base.__dict__), None)

    def instance_dict(self, owner: Any) -> DictValue | None:
        """The dictionary of an object's own attributes."""
        if owner.attributes is None:
            if not isinstance(owner, ObjectValue) and not owner.kind.__dictoffset__:
                return None
            if owner.source is None:
                owner.attributes = DictValue(dict)
            else:
                names = getattr(owner.real, "__dict__", None)
                if not isinstance(names, dict):
                    return None
                # each thread has a dictionary of its own, which only Python's look-up finds
                of_thread = issubclass(owner.kind, threading.local)
                source = owner.source.apply(vars) if of_thread else owner.source.attr("__dict__")
                owner.attributes = DictValue(dict, source, names)
        return owner.attributes

    def object_attribute(self, owner: ObjectValue | DictValue, name: str) -> Any:
        """An attribute of an instance."""
        if self.is_module_class(owner.kind) and self.class_of_attribute(owner.kind, name) is None:
            # a registered name is never in the instance's own dictionary, too
            found = self._registered(owner, name)
            if found is not None:
                return found
        lookup = self.type_lookup(owner.kind, "__getattribute__")
        fallback = self.type_lookup(owner.kind, "__getattr__")
        if isinstance(lookup, types.FunctionType):
            try:
                return self.call(self.trusted(lookup), [owner, Known(name)], {})
            except Raised as error:
                if fallback is None or not issubclass(error.value.kind, AttributeError):
                    raise
        else:
            found = self.plain_attribute(owner, name)
            if found is not UNBOUND:
                return found
        if isinstance(fallback, types.FunctionType):
            if fallback is self.module_class.__getattr__:
                return self._module_part(owner, name)
            return self.call(self.trusted(fallback), [owner, Known(name)], {})
        self.no_attribute(owner.kind, name)

    def plain_attribute(self, owner: ObjectValue | DictValue, name: str) -> Any:
        """`object.__getattribute__`; UNBOUND where there is nothing."""
        if name == "__class__":
            return self.trusted(owner.kind)
        if name == "__dict__":
            found = self.instance_dict(owner)
            if found is None:
                self.no_attribute(owner.kind, name)
            return found
        if name == "args" and issubclass(owner.kind, BaseException):
            return self.exception_args(owner)
        if issubclass(owner.kind, BaseException) and owner.real is None:
            part = self.exception_part(owner, name)
            if part is not None:
                return part
        base = self.class_of_attribute(owner.kind, name)
        found = base.__dict__[name] if base is not None else None
        if base is not None and self._is_data_descriptor(found):
            return self.bind_attribute(found, base, name, owner)
        attributes = self.instance_dict(owner)
        if attributes is not None:
            own = self.dict_find(attributes, name)
            if own is not UNBOUND:
                return own
        if base is not None:
            return self.bind_attribute(found, base, name, owner)
        if issubclass(owner.kind, BaseException) and name.startswith("__"):
            return Known(None)
        if owner.real is not None and attributes is None and hasattr(owner.real, name):
            raise Break("unsupported-attribute", f"{owner.kind.__name__}.{name}")
        return UNBOUND

    @staticmethod
    def _is_data_descriptor(found: object) -> bool:
        """Whether it gives the attribute, whatever the instance has of that name."""
        kind = type(found)
        sets = hasattr(kind, "__set__") or hasattr(kind, "__delete__")
        return sets and hasattr(kind, "__get__")

    def bind_attribute(self, found: Any, base: type, name: str, owner: Any) -> Any:
        """A class attribute as an instance (or a class: `owner` a Known) gives it."""
        if isinstance(found, types.FunctionType):
            return self.made(MethodValue(self.trusted(found), owner))
        if isinstance(found, staticmethod):
            return self.trusted(found.__func__)
        if isinstance(found, classmethod):
            cls = owner if isinstance(owner, Known) else self.trusted(owner.cls)
            return self.made(MethodValue(self.trusted(found.__func__), cls))
        if isinstance(found, property):
            if found.fget is None:
                self.no_attribute(owner.cls, name)
            return self.call(self.trusted(found.fget), [owner], {})
        if isinstance(found, functools._lru_cache_wrapper):
            called = self.trusted(found)
            return called if isinstance(owner, Known) else self.made(MethodValue(called, owner))
        if isinstance(found, functools.cached_property):
            return self._cached(found, name, owner)
        if isinstance(found, _SLOTS):
            if found is DEFAULT_FACTORY:
                return owner.factory or Known(None)
            return self._slot(found, name, owner)
        if isinstance(found, FIELD) and isinstance(owner, SequenceValue):
            return self.force(owner.items[_place(found)])
        if isinstance(
            found, (types.MethodDescriptorType, types.WrapperDescriptorType)
        ) or isinstance(found, type(core.Tensor.copy_)):
            return self.made(MethodValue(name, owner))
        if isinstance(found, types.GetSetDescriptorType):
            if name == "__weakref__" and owner.source is None:
                return Known(None)  # nothing refers to an object of the segment
            raise Break("unsupported-attribute", f"{base.__name__}.{name}")
        getter = self.type_lookup(type(found), "__get__")
        if isinstance(getter, types.FunctionType):
            descriptor = self.trusted(found)
            cls = self.trusted(owner.cls)
            return self.call(self.trusted(getter), [descriptor, owner, cls], {})
        if getter is not None and not isinstance(owner, Known):
            if callable(found):
                return self.made(MethodValue(name, owner))  # of C that is not CPython's own
            raise Break("unsupported-attribute", f"{base.__name__}.{name}")
        return self._class_value(base, name, found)

    def _class_value(self, base: type, name: str, found: object) -> Any:
        if is_trusted_name(base.__module__):
            return self.trusted(found)
        return self.wrap(found, held(base).attr("__dict__").item(name))

    def _cached(self, found: Any, name: str, owner: Any) -> Any:
        attributes = self.instance_dict(owner)
        known = self.dict_find(attributes, name)
        if known is UNBOUND:
            known = self.call(self.trusted(found.func), [owner], {})
            self.dict_set(attributes, Known(name), known)
        return known

    def _slot(self, found: Any, name: str, owner: ObjectValue) -> Any:
        if not isinstance(owner, ObjectValue):
            raise Break("unsupported-attribute", f"{owner.kind.__name__}.{name}")
        if name in owner.slots:
            return self.force(owner.slots[name][1])
        if owner.real is not None:
            try:
                value = found.__get__(owner.real, owner.kind)
            except AttributeError:
                self.guards.add("equal", owner.source.apply(_is_filled, found), False)
                self.no_attribute(owner.kind, name)
            return self.wrap(value, owner.source.attr(name))
        if issubclass(owner.kind, BaseException):
            return Known(None)
        self.no_attribute(owner.kind, name)

    def is_module_class(self, cls: type) -> bool:
        """Whether it is a class of `nn.Module`."""
        return issubclass(cls, self.module_class)

    def _module_part(self, owner: Any, name: str) -> Any:
        """A registered parameter, buffer or child."""
        attributes = self.instance_dict(owner)
        for table in _TABLES:
            parts = self.dict_find(attributes, table)
            if parts is not UNBOUND:
                found = self.dict_find(parts, name)
                if found is not UNBOUND:
                    return found
        self.no_attribute(owner.kind, name)

    def _registered(self, owner: Any, name: str) -> Any:
        """A registered part, found without asking the other tables; None where it is not that."""
        real = getattr(owner.real, "__dict__", None)
        if real is None:
            return None
        for table in _TABLES:
            if name in real.get(table, ()):
                parts = self.dict_find(self.instance_dict(owner), table)
                if parts is UNBOUND or name in parts.deleted:
                    return None
                return self.dict_find(parts, name)
        return None

    def _super_attribute(self, owner: SuperValue, name: str) -> Any:
        value: Any = owner.owner
        is_class = isinstance(value, Known) and isinstance(value.obj, type)
        is_class = is_class and owner.after in value.obj.__mro__  # else a class as an instance
        cls = value.obj if is_class else value.cls
        order = cls.__mro__
        for base in order[order.index(owner.after) + 1 :]:
            self.watched.attribute(base, name)
            if name in base.__dict__:
                found = base.__dict__[name]
                if is_class and isinstance(found, types.FunctionType):
                    return self.trusted(found)
                if isinstance(found, types.WrapperDescriptorType) or (
                    base is object or isinstance(found, types.BuiltinFunctionType)
                ):
                    return self.made(MethodValue(f"{base.__name__}.{name}", value))
                return self.bind_attribute(found, base, name, value)
        self.fail(AttributeError, f"'super' object has no attribute '{name}'")

    # things that are known ------------------------------------------------------------------------
    def _known_attribute(self, owner: Known, name: str) -> Any:
        obj = owner.obj
        if isinstance(obj, types.ModuleType):
            return self._module_attribute(owner, name)
        if isinstance(obj, type):
            return self._class_attribute(owner, name)
        try:
            found = getattr(obj, name)
        except AttributeError as error:
            self.fail(AttributeError, str(error))
        if name == "__get__" and isinstance(obj, types.GetSetDescriptorType):
            return Known(found)  # what classes are told about an attribute
        if isinstance(found, (types.BuiltinMethodType, types.MethodWrapperType)):
            return self.made(MethodValue(name, owner))
        if isinstance(found, types.MethodType):
            return self.made(MethodValue(self.trusted(found.__func__), owner))
        return self.trusted(found)

    def _module_attribute(self, owner: Known, name: str) -> Any:
        names = self.tracked.get(id(vars(owner.obj)))
        if names is not None and name in names.items:
            return self.force(names.items[name][1])
        try:
            found = getattr(owner.obj, name)
        except AttributeError as error:
            self.fail(AttributeError, str(error))
        if is_trusted_name(owner.obj.__name__) or owner.source is None:
            self.watched.name(vars(owner.obj), name, vars(owner.obj).get(name, ABSENT))
            return self.trusted(found)
        return self.wrap(found, owner.source.attr(name))

    def _class_attribute(self, owner: Known, name: str) -> Any:
        cls = owner.obj
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__"):
            return self.constant(getattr(cls, name))
        meta = self.type_lookup(type(cls), name)
        if isinstance(meta, property):
            return self.call(self.trusted(meta.fget), [owner], {})
        base = self.class_of_attribute(cls, name)
        if base is None:
            if isinstance(meta, types.FunctionType):
                return self.made(MethodValue(self.trusted(meta), owner))
            if hasattr(cls, name):
                return self.trusted(getattr(cls, name))
            self.fail(AttributeError, f"type object '{cls.__name__}' has no attribute '{name}'")
        found = base.__dict__[name]
        if isinstance(found, types.FunctionType):
            return self.trusted(found)
        if isinstance(found, (staticmethod, classmethod)):
            return self.bind_attribute(found, base, name, owner)
        if isinstance(found, (property, types.MethodDescriptorType, types.WrapperDescriptorType)):
            return Known(found)
        if hasattr(type(found), "__get__"):
            return self.trusted(getattr(cls, name))
        return self._class_value(base, name, found)

    def _function_attribute(self, owner: FunctionValue, name: str) -> Any:
        if owner.attributes is not None and name in owner.attributes.items:
            return self.force(owner.attributes.items[name][1])
        written = self.attribute_writes.get((id(owner), name))
        if written is not None:
            return self.force(written[2])
        if name in owner.special:
            return self.force(owner.special[name])
        if name == "__qualname__" and owner.real is None:
            return Known(getattr(owner.code, "co_qualname", owner.name))
        if name in ("__name__", "__qualname__"):
            return Known(owner.name if owner.real is None else getattr(owner.real, name))
        if name == "__class__":
            return Known(types.FunctionType)
        if name == "__code__":
            return Known(owner.code)
        if name == "__dict__":
            return self._function_dict(owner)
        if name == "__get__":
            return self.made(MethodValue("__get__", owner))
        if owner.real is not None:
            try:
                found = getattr(owner.real, name)
            except AttributeError as error:
                self.fail(AttributeError, str(error))
            if isinstance(found, types.MethodWrapperType):
                return self.made(MethodValue(name, owner))
            if name in vars(owner.real) and not is_trusted_name(owner.real.__module__):
                return self.wrap(found, held(owner.real).attr("__dict__").item(name))
            return self.trusted(found)
        if name == "__doc__":
            first = owner.code.co_consts[:1]
            return Known(first[0] if first and isinstance(first[0], str) else None)
        if name == "__module__":
            return Known(owner.globals.get("__name__"))
        self.fail(AttributeError, f"'function' object has no attribute '{name}'")

    def _function_dict(self, owner: FunctionValue) -> DictValue:
        if owner.attributes is None:
            owner.attributes = DictValue(dict)
        return owner.attributes

    def _container_attribute(self, owner: Any, name: str) -> Any:
        if name == "__class__":
            return self.trusted(owner.cls)
        if isinstance(owner, SequenceValue) and hasattr(owner.kind, "_fields"):
            if name in owner.kind._fields:
                return self.force(owner.items[owner.kind._fields.index(name)])
            found = self.type_lookup(owner.kind, name)
            if isinstance(found, (types.FunctionType, property, staticmethod, classmethod)):
                if name not in ("_asdict", "_replace", "__getnewargs__", "__repr__"):
                    return self.bind_attribute(found, owner.kind, name, owner)
        if isinstance(owner, SequenceValue) and hasattr(owner.kind, "n_fields"):
            return self._result_field(owner, name)
        if isinstance(owner, DictValue) and name == "default_factory":
            return owner.factory or Known(None)
        if isinstance(found := getattr(owner.cls, name, None), tuple):
            return self.trusted(found)  # the names of a named tuple's fields
        if hasattr(owner.cls, name):
            return self.made(MethodValue(name, owner))
        self.no_attribute(owner.cls, name)

    def _result_field(self, owner: SequenceValue, name: str) -> Any:
        fields: Any = getattr(owner.kind, "__match_args__", None)
        if fields is None:
            fields = [n for n in dir(owner.kind) if not n.startswith("_")]
        if name in fields:
            return self.force(owner.items[fields.index(name)])
        if owner.real is not None and isinstance(getattr(owner.kind, name, None), _SLOTS):
            return self.wrap(getattr(owner.real, name), owner.source.attr(name))
        return self.made(MethodValue(name, owner))

    # writes ---------------------------------------------------------------------------------------
    def setattr(self, owner: Any, name: str, value: Any) -> None:
        owner, value = self.force(owner), self.force(value)
        if isinstance(owner, ObjectValue) or _has_attributes(owner):
            setter = self.type_lookup(owner.kind, "__setattr__")
            if isinstance(setter, types.FunctionType):
                self.call(self.trusted(setter), [owner, Known(name), value], {})
            else:
                self.plain_setattr(owner, name, value)
        elif isinstance(owner, TensorValue):
            self.set_tensor_attribute(owner, name, value)
        elif isinstance(owner, FunctionValue) and owner.source is None:
            if name in ("__name__", "__qualname__", "__doc__", "__module__"):
                if name == "__name__":
                    owner.name = self.constant_of(value)
                owner.special[name] = value
                return
            self.dict_set(self._function_dict(owner), Known(name), value)
        elif isinstance(owner, FunctionValue) and not name.startswith("__"):
            self.attribute_writes[(id(owner), name)] = (owner, name, value)
        elif isinstance(owner, Known) and type(owner.obj) is types.ModuleType:
            self.dict_set(self.globals_value(vars(owner.obj)), Known(name), value)
        else:
            raise Break("unsupported-mutation", f"attribute {name} of a {owner.cls.__name__}")

    def plain_setattr(self, owner: ObjectValue | DictValue, name: str, value: Any) -> None:
        """`object.__setattr__`."""
        found = self.type_lookup(owner.kind, name)
        if isinstance(found, property):
            if found.fset is None:
                self.fail(AttributeError, f"property '{name}' has no setter")
            self.call(self.trusted(found.fset), [owner, value], {})
            return
        keeps = isinstance(found, _SLOTS) or found in EXCEPTION_LINKS.values()
        if keeps and isinstance(owner, ObjectValue):
            owner.slots[name] = (found, value)
            if owner.source is not None:
                self.effects.setdefault(id(owner), owner)
            return
        setter = self.type_lookup(type(found), "__set__") if found is not None else None
        if isinstance(setter, types.FunctionType):
            self.call(self.trusted(setter), [self.trusted(found), owner, value], {})
            return
        if isinstance(found, FIELD):
            self.fail(AttributeError, "can't set attribute")
        if (
            name == "args"
            and isinstance(owner, ObjectValue)
            and issubclass(owner.kind, BaseException)
        ):
            owner.args = self.build_tuple(self.unpack_all(value))
            return
        attributes = self.instance_dict(owner)
        if attributes is None or name in ("__dict__", "__class__"):
            raise Break("unsupported-mutation", f"{owner.kind.__name__}.{name}")
        self.dict_set(attributes, Known(name), value)

    def delattr(self, owner: Any, name: str) -> None:
        owner = self.force(owner)
        if not isinstance(owner, ObjectValue) and not _has_attributes(owner):
            raise Break("unsupported-mutation", f"del {owner.cls.__name__}.{name}")
        deleter = self.type_lookup(owner.kind, "__delattr__")
        if isinstance(deleter, types.FunctionType):
            self.call(self.trusted(deleter), [owner, Known(name)], {})
        else:
            self.plain_delattr(owner, name)

    def plain_delattr(self, owner: ObjectValue | DictValue, name: str) -> None:
        """`object.__delattr__`."""
        found = self.type_lookup(owner.kind, name)
        if isinstance(found, property):
            if found.fdel is None:
                self.fail(AttributeError, f"property '{name}' has no deleter")
            self.call(self.trusted(found.fdel), [owner], {})
            return
        deleter = self.type_lookup(type(found), "__delete__") if found is not None else None
        if isinstance(deleter, types.FunctionType):
            self.call(self.trusted(deleter), [self.trusted(found), owner], {})
            return
        if isinstance(found, _SLOTS):
            raise Break("unsupported-mutation", f"del {owner.kind.__name__}.{name}")
        attributes = self.instance_dict(owner)
        if attributes is None or self.dict_find(attributes, name) is UNBOUND:
            self.no_attribute(owner.kind, name)
        self.dict_delete(attributes, Known(name))

    # cells ----------------------------------------------------------------------------------------
    def is_cell(self, value: Any) -> bool:
        return isinstance(value, CellValue)

    def make_cell(self, content: object) -> CellValue:
        return self.made(CellValue(content))

    def read_cell(self, cell: CellValue) -> Any:
        return self.force(cell.content)

    def write_cell(self, cell: CellValue, value: object) -> None:
        cell.content = value
        if cell.source is not None:
            cell.changed = True
            self.effects.setdefault(id(cell), cell)

    # globals --------------------------------------------------------------------------------------
    def load_global(self, frame: Any, name: str) -> Any:
        names = frame.globals
        known = self.tracked.get(id(names))
        if known is not None and name in known.items:
            return self.force(known.items[name][1])
        if name in names and not (known is not None and name in known.deleted):
            if is_trusted_name(names.get("__name__")):
                self.watched.name(names, name, names[name])
                return self.trusted(names[name])
            return self.wrap(names[name], held(names).item(name))
        self.watched.name(names, name, ABSENT)
        found = vars(builtins).get(name, ABSENT)
        self.watched.name(vars(builtins), name, found)
        if found is not ABSENT:
            return self.trusted(found)
        self.fail(NameError, f"name '{name}' is not defined")

    def store_global(self, frame: Any, name: str, value: Value) -> None:
        self.dict_set(self.globals_value(frame.globals), Known(name), value)

    def delete_global(self, frame: Any, name: str) -> None:
        self.dict_delete(self.globals_value(frame.globals), Known(name))

    def super(self, frame: Any, function: Any, arguments: list[Any]) -> Any:
        if arguments:
            cls, owner = self.force(arguments[0]), self.force(arguments[1])
        else:
            cls = self.read_cell(frame.cells["__class__"])
            first = frame.code.co_varnames[0]
            owner = frame.locals.get(first, UNBOUND)
            if owner is UNBOUND:
                owner = self.read_cell(frame.cells[first])
            owner = self.force(owner)
        return self.made(SuperValue(self.constant_of(cls), owner))

    def attribute_source(self, value: Value, name: str) -> Any:
        """The source of an attribute of a value from outside."""
        return None if value.source is None else value.source.attr(name)


__all__ = ["LITERAL_TYPES", "Attributes", "Lazy"]
