"""Reading the world: real objects become symbolic values, with guards on what was looked at.

Takes: an object and its source. Gives: its symbolic value, the same one for the same object.
Keeps true: nothing is looked at without a guard or, for names of classes and modules, a watch;
containers are looked into only as far as the program does.
"""

from __future__ import annotations

import collections
import functools
import re
import sys
import types
from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.conditions import facts_of
from facula.capture.guards.watching import IMMUTABLE
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.frames import NULL, UNBOUND
from facula.capture.rules.callables import enter
from facula.capture.values.kinds import (
    ITERATORS,
    LITERAL_TYPES,
    VIEWS,
    CellValue,
    DictValue,
    FunctionValue,
    IteratorValue,
    Known,
    Lazy,
    MethodValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    ReplayIterator,
    SequenceValue,
    SetValue,
    TensorValue,
    Value,
    ViewValue,
    dict_of,
    rest_of,
)
from facula.capture.values.sources import Source, held
from facula.capture.values.subclasses import INHERITED, dispatches
from facula.capture.values.wrappers import is_wrapper
from facula.core.errors import is_own

#: objects that are compared by value; they do not change
_BY_VALUE = (range, slice, core.device, core.dtype, types.GenericAlias, types.UnionType)
_BY_IDENTITY = (
    type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, type(core.Tensor.copy_),
    type(core.strided), type(core.contiguous_format), property, staticmethod, classmethod,
    functools._lru_cache_wrapper, re.Pattern,
)  # fmt: skip
#: the attribute of `defaultdict`
DEFAULT_FACTORY: Any = vars(collections.defaultdict)["default_factory"]
DICTS = (dict, collections.OrderedDict, collections.defaultdict)
_NUMPY_CALLABLES = ("ufunc", "_ArrayFunctionDispatcher")
#: what is C's own in the classes of dictionaries that are looked into
_LOOKED_AT = ("__iter__", "__contains__", "__len__", "__getattribute__")
#: the flag of classes that are made at run time
HEAP = 1 << 9


def is_of_python(kind: type) -> bool:
    """Whether a class is written in Python: some made at run time are written in C (`deque`, from 3.13 on)."""
    return kind.__flags__ & (HEAP | IMMUTABLE) == HEAP


def base_of_c(kind: type) -> type:
    """The nearest class written in C that a class is made of."""
    return next(base for base in kind.__mro__ if not is_of_python(base))


def is_trusted_name(module: str | None) -> bool:
    """Whether a module belongs to the framework or the standard library, whose names do not change."""
    if not module:
        return False
    top = module.partition(".")[0]
    return (
        top == "numpy" or is_own(module) or (top in sys.stdlib_module_names and top != "__main__")
    )


def is_numpy_scalar(kind: type) -> bool:
    """Whether it is a class of NumPy's scalars."""
    return (
        kind.__module__ == "numpy"
        and hasattr(kind, "item")
        and hasattr(kind, "dtype")
        and (kind.__name__ not in ("ndarray", "memmap", "matrix", "recarray"))
    )


def is_annotation(kind: type) -> bool:
    """Whether it is a class of what annotations are made of (`Optional[int]`, type variables)."""
    return kind.__module__ in ("typing", "typing_extensions")


def is_array_class(kind: type) -> bool:
    """Whether it is NumPy's class of arrays."""
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


def is_plain_dict(kind: type) -> bool:
    """Whether a dictionary class holds its items as `dict` does; its methods may be its own."""
    return kind in DICTS or (
        issubclass(kind, dict)
        and not any(isinstance(getattr(kind, n), types.FunctionType) for n in _LOOKED_AT)
        and base_of_c(kind) in DICTS
    )


#: what the classes of sequences that are looked into leave as it is
_OF_SEQUENCES = (
    "__iter__", "__len__", "__getattribute__", "__setitem__", "__delitem__", "__add__", "__iadd__", "__mul__",
    "__imul__", "__eq__", "__ne__", "__lt__", "__gt__", "__bool__", "__reversed__",
)  # fmt: skip


def is_plain_sequence(kind: type) -> bool:
    """Whether a class of lists or tuples is written in Python and holds its items as these do."""
    return (
        is_of_python(kind)
        and base_of_c(kind) in (list, tuple)
        and not hasattr(kind, "_fields")
        and not hasattr(kind, "n_sequence_fields")
        and not any(isinstance(getattr(kind, n, None), types.FunctionType) for n in _OF_SEQUENCES)
    )


class Reading(Part):
    """The part of `Symbolic` that reads real objects."""

    def constant(self, value: object) -> Any:
        """A value that the program's text names."""
        if type(value) is tuple:
            return self.made(SequenceValue(tuple, [self.constant(item) for item in value]))
        if type(value) is frozenset:
            return self.build_set([self.constant(item) for item in value], frozenset)
        return Known(value)

    def made(self, value: Value) -> Any:
        """A value that was made in the segment, with the instruction of the root frame."""
        value.birth = self.tick
        return value

    def loaded(self, value: Value) -> Any:
        """What an instruction gets that loads a value."""
        return self.force(value)

    def force(self, value: object) -> Any:
        """The value of something that may not have been looked at."""
        if type(value) is not Lazy:
            return value
        if value.value is None:
            value.value = self.wrap(value.obj, value.source)
        return value.value

    def trusted(self, obj: object) -> Any:
        """The value of an object that stays where it is."""
        if type(obj) in LITERAL_TYPES:
            return Known(obj)
        return self.wrap(obj, held(obj))

    def wrap(self, obj: object, source: Source) -> Any:
        """The symbolic value of a real object."""
        kind = type(obj)
        if kind in LITERAL_TYPES:
            return self._literal(obj, kind, source)
        if obj is NULL or obj is UNBOUND:
            self.guards.add("is", source, obj)
            return obj
        known = self.tracked.get(id(obj))
        if known is not None:
            if known.source != source and known.source is not None and source.kind != "held":
                if known.source.kind == "held":
                    self.guards.add("is", source, obj)
                else:
                    self.guards.add("same", source, known.source)
            elif (
                source.kind == "held"
                and isinstance(known, TensorValue)
                and known.source is not None
            ):
                self.guards.add("is", known.source, obj)
            return known
        value = self._new(obj, kind, source)
        self.tracked[id(obj)] = value
        self.kept.append(obj)
        return value

    def _literal(self, obj: object, kind: type, source: Source) -> Value:
        if kind is int and self.is_dynamic_int(source, obj):
            number = self.dynamic_ints.get(source)
            if number is None:
                self.guards.add("integer", source)
                number = self.dynamic_ints[source] = NumberValue(obj, source=source)
            return number
        if kind is float and self.is_dynamic_float(source, obj):
            number = self.dynamic_floats.get(source)
            if number is None:
                self.guards.add("type", source, float)
                number = self.dynamic_floats[source] = NumberValue(obj, source=source)
            return number
        self.guards.add("equal", source, obj)
        return Known(obj, source)

    def _new(self, obj: Any, kind: type, source: Source) -> Any:
        """The value of an object that is read for the first time: tensors and what is a constant."""
        if isinstance(obj, core.Tensor) and is_wrapper(kind):
            return self.wrapper_tensor(obj, source)
        if isinstance(obj, core.Tensor) and not getattr(kind, "_is_sparse_tensor", False):
            return self._tensor(obj, source)
        if kind in _BY_VALUE or isinstance(obj, _BY_VALUE):
            self.guards.add("equal", source, obj)
            return Known(obj, source)
        if kind.__module__ == "numpy" and kind.__name__ in _NUMPY_CALLABLES:
            self._same_object(source, obj)
            return Known(obj, source)
        if kind.__module__ == "numpy.dtypes":
            self.guards.add("equal", source, obj)
            return Known(obj, source)
        if is_array_class(kind):
            array = self.array_from(obj, source)
            if array is not None:
                return array
        if is_numpy_scalar(kind):
            enter("numpy")
            self.guards.add("equal", source, obj)
            return Known(obj, source)
        if kind is types.BuiltinMethodType and self._is_method_of_container(obj):
            # `out.append` on the stack: another list has another one
            self.guards.add("type", source, kind)
            self.guards.add("equal", source.attr("__name__"), obj.__name__)
            return self._method(obj, obj.__name__, source)
        if isinstance(obj, str) and is_own(
            kind.__module__
        ):  # the version, a text that compares by numbers
            self._same_object(source, obj)
            return Known(obj, source)
        if kind is re.Match and source.kind == "held":
            return Known(obj, source)
        if isinstance(obj, _BY_IDENTITY) or kind in (core.Op, core.InplaceOp, core.Alias):
            self._same_object(source, obj)
            return Known(obj, source)
        return self._new_object(obj, kind, source)

    def _new_object(self, obj: Any, kind: type, source: Source) -> Any:
        """What is looked into: functions, methods, containers, and objects of the program's classes."""
        if kind is types.FunctionType:
            return self._function(obj, source)
        if kind is types.MethodType:
            self.guards.add("type", source, kind)
            return self._method(obj, self.wrap(obj.__func__, source.attr("__func__")), source)
        if not (kind is dict and _is_module_table(source)):
            self.guards.add("type", source, kind)
        if kind is types.CellType:
            return self.wrap_cell(obj, source)
        if isinstance(obj, (list, tuple, collections.deque)):
            return self._sequence(obj, kind, source)
        if isinstance(obj, dict) and is_plain_dict(kind):
            return self._dict(obj, kind, source)
        if kind is types.MappingProxyType:
            return DictValue(dict, source, obj)
        if kind in (set, frozenset):
            return self._set(obj, kind, source)
        if kind is functools.partial:
            return self._partial(obj, source)
        if kind is ReplayIterator:
            return self._replay(obj, source, source.attr("rest"), obj.rest)
        if kind in ITERATORS:
            return self._replay(obj, source, source.apply(rest_of), rest_of(obj))
        if kind in VIEWS:
            owner = self.wrap(dict_of(obj), source.apply(dict_of))
            view = ViewValue(owner, VIEWS[kind])
            view.source = source
            return view if isinstance(owner, DictValue) else ObjectValue(kind, source, obj)
        return ObjectValue(kind, source, obj)

    def _method(self, obj: Any, function: Any, source: Source) -> MethodValue:
        """A bound method: of a function, or of one of the container's by its name."""
        value = MethodValue(function, self.wrap(obj.__self__, source.attr("__self__")))
        value.source = source
        return value

    @staticmethod
    def _is_method_of_container(obj: Any) -> bool:
        """Whether it is a bound method of a container that is looked into."""
        owner = obj.__self__
        kind = type(owner)
        return (
            kind in (list, set, collections.deque)
            or isinstance(owner, dict)
            and is_plain_dict(kind)
        )

    def _same_object(self, source: Source, obj: object) -> None:
        """Ask that a source gives this very object; names of modules are watched, not read."""
        if source.kind == "item" and source.base.kind == "held":
            owner, name = source.base.key.value, source.key[1]
            if type(owner) is dict and type(name) is str:
                self.watched.name(owner, name, obj)
                return
        self.guards.add("is", source, obj)

    def _tensor(self, tensor: core.Tensor, source: Source) -> Value:
        kind = type(tensor)
        override = getattr(kind, "__torch_function__", None)
        override = getattr(override, "__func__", override)
        plain = override in (None, core._disabled_torch_function_impl) or kind is core.Tensor
        if override is INHERITED and is_trusted_name(kind.__module__):
            plain = True  # a class of the framework's, whose results are plain tensors
        if not plain and not dispatches(kind):
            return self.subclass_tensor(tensor, kind, source)
        if not plain or dispatches(kind):
            raise Break("tensor-subclass", f"{source.label()} is a {kind.__name__}")
        value = TensorValue(self.fakes.from_tensor(tensor), None, tensor, source)
        value.dynamic = self.dynamic_dimensions(source, tensor)
        self.note_marks(value)
        if source.kind == "held":
            self.guards.add("tensor", source, facts_of(tensor, value.dynamic))
        self.guards.add("tensor", source, facts_of(tensor, value.dynamic))
        return value

    def _function(self, function: types.FunctionType, source: Source) -> Value:
        value = FunctionValue(function.__code__, function.__globals__, function.__name__)
        value.real = function
        value.source = source
        if source.kind == "held":
            inner = source
            self.watched.code(function)
        elif source.kind == "item" and source.base.kind == "held":
            # a global: the function itself is what the program names
            self._same_object(source, function)
            self.watched.code(function)
            inner = held(function)
        else:
            self.guards.add("type", source, types.FunctionType)
            self.guards.add("is", source.attr("__code__"), function.__code__)
            inner = source
        cells = inner.attr("__closure__")
        value.cells = [
            self.wrap_cell(cell, cells.item(n)) for n, cell in enumerate(function.__closure__ or ())
        ]
        if function.__defaults__:
            base = inner.attr("__defaults__")
            value.defaults = [Lazy(v, base.item(n)) for n, v in enumerate(function.__defaults__)]
        if function.__kwdefaults__:
            base = inner.attr("__kwdefaults__")
            value.kwdefaults = {
                k: Lazy(v, base.item(k)) for k, v in function.__kwdefaults__.items()
            }
        return value

    def wrap_cell(self, cell: types.CellType, source: Source) -> CellValue:
        """A closure cell; what it holds is looked at when it is read."""
        known = self.tracked.get(id(cell))
        if known is not None:
            return known
        try:
            content: Any = Lazy(cell.cell_contents, source.attr("cell_contents"))
        except ValueError:
            content = UNBOUND
        value = self.tracked[id(cell)] = CellValue(content, source, cell)
        self.kept.append(cell)
        return value

    def _sequence(self, obj: Any, kind: type, source: Source) -> Value:
        fields = hasattr(kind, "_fields") or hasattr(
            kind, "n_sequence_fields"
        )  # as sys.version_info
        if kind not in (list, tuple, collections.deque, core.Size) and not fields:
            if not is_plain_sequence(kind):
                return ObjectValue(kind, source, obj)
        self.guards.add("length", source, len(obj))
        own = isinstance(getattr(kind, "__getitem__", None), types.FunctionType)
        base: Any = base_of_c(kind)
        items = [
            Lazy(item, source.apply(base.__getitem__, n) if own else source.item(n))
            for n, item in enumerate(base.__iter__(obj))
        ]
        value = SequenceValue(kind, items, source)
        value.real = obj
        if kind is collections.deque:
            value.maxlen = obj.maxlen
        return value

    def _dict(self, obj: Any, kind: type, source: Source) -> Value:
        value = DictValue(kind, source, obj)
        if issubclass(kind, collections.defaultdict):
            value.factory = self.wrap(obj.default_factory, source.attr("default_factory"))
        return value

    def _set(self, obj: Any, kind: type, source: Source) -> Value:
        if not all(type(item) in LITERAL_TYPES or _is_itself(item) for item in obj):
            return ObjectValue(kind, source, obj)
        self.guards.add("equal", source, kind(obj))
        value = SetValue(kind, source)
        value.items = {item: self.trusted(item) for item in obj}
        return value

    def _partial(self, obj: Any, source: Source) -> Value:
        args = source.attr("args")
        self.guards.add("length", args, len(obj.args))
        self.guards.add("keys", source.attr("keywords"), list(obj.keywords))
        words = source.attr("keywords")
        value = PartialValue(
            self.wrap(obj.func, source.attr("func")),
            [Lazy(v, args.item(n)) for n, v in enumerate(obj.args)],
            {k: Lazy(v, words.item(k)) for k, v in obj.keywords.items()},
        )
        value.source = source
        return value

    def _replay(self, obj: Any, source: Source, left: Source, rest: list[Any]) -> Value:
        """An iterator over items that are there: `rest` of them are left, at the source `left`."""
        value: IteratorValue

        def pull() -> Any:
            while value.consumed < len(rest):
                n = value.consumed
                self.guards.add("longer", left, n)
                value.consumed += 1
                yield self.wrap(rest[n], left.item(n))
            self.guards.add("length", left, len(rest))

        value = IteratorValue(pull(), source, type(obj))
        value.real = obj
        return value

    # globals --------------------------------------------------------------------------------------
    def globals_value(self, names: dict[str, Any]) -> DictValue:
        """The dictionary of a module's globals."""
        value = self.tracked.get(id(names))
        if value is None:
            value = self.tracked[id(names)] = DictValue(dict, held(names), names)
        return value


def _is_itself(obj: object) -> bool:
    """Whether an object is equal to itself alone: a function, a class, an operator."""
    return isinstance(obj, (*_BY_IDENTITY, types.FunctionType, core.Op, core.InplaceOp, core.Alias))


def _is_module_table(source: Source) -> bool:
    """Whether this is a module's own table of parts, which is a dict as long as the module lives."""
    return (
        source.kind == "item"
        and source.key[1] in ("_parameters", "_buffers", "_modules")
        and source.base.kind == "attr"
        and source.base.key == "__dict__"
    )
