"""Calls: inlining Python functions, making instances, resuming generators.

Takes: a callee and its arguments. Gives: what it returns.
Keeps true: what a call means is asked in one order: a rule of `rules` for that very object,
the graph for operators, inlining for Python code, computation for known arguments; else it is a break.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import sys
import types
import weakref
from typing import Any

from facula import core
from facula.capture.breaks import Break
from facula.capture.guards.reading import (
    base_of_c,
    is_numpy_scalar,
    is_plain_dict,
    is_plain_sequence,
    is_trusted_name,
)
from facula.capture.interpreter import narration, special_methods
from facula.capture.interpreter.domain import Part
from facula.capture.interpreter.frames import NULL, STOP, UNBOUND, Frame, Returned
from facula.capture.interpreter.machine import run as run_frame
from facula.capture.interpreter.machine import throw
from facula.capture.marks import is_allowed_in_graph, is_disabled, original_of
from facula.capture.numpy.arrays import python_of
from facula.capture.rules import callables as rules
from facula.capture.rules import constant_results
from facula.capture.rules import transforms as transform_rules
from facula.capture.values import subclasses
from facula.capture.values.graph_ops import MODE_FUNCTIONS, NotGraphable, is_graph_value
from facula.capture.values.kinds import (
    ArrayValue,
    DictValue,
    FunctionValue,
    GeneratorValue,
    IteratorValue,
    Known,
    MethodValue,
    NodeValue,
    NumberValue,
    ObjectValue,
    PartialValue,
    Raised,
    SequenceValue,
    SetValue,
    SuperValue,
    TensorValue,
    Value,
    ViewValue,
)
from facula.core.errors import own_name
from facula.namespaces import legacy

_DEEPEST = 60
#: special methods of C that mean the same for every object
_ANSWERED = frozenset("__format__ __str__ __repr__ __hash__ __eq__ __ne__".split())
_DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_GETTERS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_VARARGS, _VARKEYWORDS, _COROUTINE = 4, 8, 0x80 | 0x200
#: modules of the framework whose functions are followed; functions of others are operators
_FOLLOWED = (
    "facula.nn.modules", "facula.nn.utils", "facula.nn.parameter", "facula.optim", "facula.utils",
    "facula.autograd", "facula.amp", "facula.capture", "facula.func", "facula.distributions",
    "facula.nn.attention", "facula.data", "facula.testing", "facula.core", "facula.profiler",
    "facula.alias", "facula.checks", "facula.foreach", "facula.fx",
)  # fmt: skip


def _makes_fields(kind: type) -> bool:
    """Whether a class of named tuples is made by the constructor that was written for its fields."""
    owner = next(base for base in kind.__mro__ if "__new__" in vars(base))
    return "_make" in vars(owner) or own_name(kind.__module__) == "facula.return_types"


def _referent(reference: Any) -> Any:
    """What a weak reference leads to, None where it is gone."""
    return reference()


class Calls(Part):
    """The part of `Symbolic` that knows calls."""

    def call_in(self, frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = self.force(function)
        if isinstance(function, Known):
            if function.obj is super and not args:
                return self.super(frame, function, args)
            if function.obj is locals and not args:
                names = {**frame.locals, **{n: c.content for n, c in frame.cells.items()}}
                there = {n: v for n, v in names.items() if v is not UNBOUND}
                return self.build_dict([Known(n) for n in there], list(there.values()))
            if function.obj is globals and not args:
                return self.globals_value(frame.globals)
        return self.call(function, args, kwargs)

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        function = self.force(function)
        if isinstance(function, FunctionValue):
            return self._call_function(function, args, kwargs)
        if isinstance(function, MethodValue):
            return self._call_method(function, args, kwargs)
        if isinstance(function, Known):
            return self._call_known(function, args, kwargs)
        if isinstance(function, PartialValue):
            return self.call(
                function.function, [*function.args, *args], {**function.kwargs, **kwargs}
            )
        if isinstance(function, NodeValue):
            return transform_rules.call_value(self, function, args, kwargs)
        if isinstance(function, ObjectValue):
            if self.is_module_class(function.kind):
                return self._call_module(function, args, kwargs)
            if function.kind is core.CompiledForward and function.real is not None:
                module = self.wrap(function.real.module, function.source.attr("module"))
                return self._call_module(module, args, kwargs)
            if function.kind is weakref.ReferenceType and function.args is not None:
                return self.force(function.args.items[0])
            if function.kind is weakref.ReferenceType and function.real is not None:
                return self.wrap(function.real(), function.source.apply(_referent))
            if self.type_lookup(function.kind, "__call__") is not None:
                return self.call_special(function, "__call__", args, kwargs)
        self.fail(TypeError, f"'{function.cls.__name__}' object is not callable")

    def call_special(
        self, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A special method, looked up on the type."""
        owner = self.force(owner)
        found = self.type_lookup(owner.cls, name)
        if found is None:
            self.fail(TypeError, f"'{owner.cls.__name__}' object does not support {name}")
        if isinstance(found, types.FunctionType):
            return self.call(self.trusted(found), [owner, *args], kwargs or {})
        if isinstance(found, (staticmethod, classmethod)):
            return self.call(self.getattr(owner, name), args, kwargs or {})
        if isinstance(owner, ObjectValue):
            if not isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
                return self.call(self.getattr(owner, name), args, kwargs or {})
            if isinstance(owner.real, enum.Enum):
                # members do not change: the number or text that they are answers
                self.guards.add("is", owner.source, owner.real)
                real = owner.real
                return self.fold(lambda *rest: getattr(real, name)(*rest), args, kwargs)
            if name not in _ANSWERED:
                raise Break("unsupported-call", f"{owner.kind.__name__}.{name}")
        return self.call(MethodValue(name, owner), args, kwargs or {})

    # functions ------------------------------------------------------------------------------------
    def _call_function(
        self, function: FunctionValue, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        real = function.real
        if real is not None:
            rule = rules.rule_for(real)
            if rule is not None:
                self.keep_identity(function, real)
                return rule(self, args, kwargs)
            if real in MODE_FUNCTIONS:
                return self.mode_call(real, args)
            if is_disabled(real):
                raise Break("disabled", real.__qualname__)
            other = getattr(real, "_facula_captured_as", None)
            if other is not None:
                self._prepare(real, args)
                return self.call(self.trusted(other), args, kwargs)
            if hasattr(real, "_facula_constant_result"):
                return self._constant_result(real, args, kwargs)
            wrapped = original_of(real)
            if wrapped is not None:
                return self.call(self.trusted(wrapped), args, kwargs)
            if is_allowed_in_graph(real):
                return self.graph_call(real, args, kwargs)
            if hasattr(real, "_facula_reads"):
                args, kwargs = self.known_numbers(real, args, kwargs)
            if self._is_operator_function(real) and self._has_graph_value(args, kwargs):
                return self._operator_or_inline(function, args, kwargs)
        return self.inline(function, args, kwargs)

    def _prepare(self, real: object, args: list[Any]) -> None:
        """Let an object make what its first call makes, so that one segment serves all calls; not
        where the segment has changed attributes, which it may depend on."""
        prepare = getattr(real, "_facula_prepared_by", None)
        owner = args[0] if args else None
        if prepare is None or not isinstance(owner, ObjectValue) or owner.real is None:
            return
        if not self.attribute_writes:
            prepare(owner.real, lambda x: id(x) in self.tracked)

    def _is_operator_function(self, real: object) -> bool:
        module = own_name(real.__module__)
        return module.startswith("facula.") and not module.startswith(_FOLLOWED)

    def _operator_or_inline(
        self, function: FunctionValue, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        try:
            for value in (*args, *kwargs.values()):
                self.argument(value)
        except NotGraphable:
            return self.inline(function, args, kwargs)
        return self.graph_call(function.real, args, kwargs)

    def _has_graph_value(self, args: list[Any], kwargs: dict[str, Any]) -> bool:
        return any(is_graph_value(self, value) for value in (*args, *kwargs.values()))

    def inline(self, function: FunctionValue, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Interpret a Python function's body."""
        given = transform_rules.call_given(self, function, args, kwargs)
        if given is not NotImplemented:
            return given
        code = function.code
        if code.co_flags & _COROUTINE:
            raise Break("unsupported-instruction", f"the async function {code.co_qualname}")
        if len(self.frames) > _DEEPEST:
            raise Break("recursion", code.co_qualname)
        narration.trace_call("inlined call of", code.co_qualname, self.user_line)
        frame = Frame(code, function, function.globals)
        frame.locals.update(self.bind(function, args, kwargs))
        for name, cell in zip(code.co_freevars, function.cells, strict=True):
            frame.cells[name] = cell
        result = self.run_inner(frame).value
        if isinstance(result, GeneratorValue) and not result.started and result.frame.code is code:
            result.recipe = function, list(args), dict(kwargs)
        return result

    def run_inner(self, frame: Frame) -> Any:
        """Run a frame below the present one."""
        self.frames.append(frame)
        try:
            return run_frame(self, frame)
        except Break as reason:
            self.locate(reason)
            raise
        finally:
            self.frames.pop()

    def bind(
        self, function: FunctionValue, args: list[Any], kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Parameters by name, as CPython binds them."""
        code, name = function.code, function.code.co_name
        count, names = code.co_argcount, code.co_varnames
        bound = dict(zip(names[:count], args, strict=False))
        extra = list(args[count:])
        at = count + code.co_kwonlyargcount
        if code.co_flags & _VARARGS:
            bound[names[at]] = self.build_tuple(extra)
            at += 1
        elif extra:
            self.fail(
                TypeError,
                f"{name}() takes {count} positional arguments but {len(args)} were given",
            )
        allowed = names[code.co_posonlyargcount : count + code.co_kwonlyargcount]
        more: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key in allowed:
                if key in bound:
                    self.fail(TypeError, f"{name}() got multiple values for argument '{key}'")
                bound[key] = value
            elif code.co_flags & _VARKEYWORDS:
                more[key] = value
            else:
                self.fail(TypeError, f"{name}() got an unexpected keyword argument '{key}'")
        if code.co_flags & _VARKEYWORDS:
            bound[names[at]] = self.build_dict([Known(k) for k in more], list(more.values()))
        self._fill_defaults(function, bound, names[:count], count)
        return bound

    def _fill_defaults(
        self, function: FunctionValue, bound: dict, names: tuple[Any, ...], count: int
    ) -> None:
        code = function.code
        offset = count - len(function.defaults)
        for n, name in enumerate(names):
            if name not in bound:
                if n < offset:
                    self.fail(
                        TypeError,
                        f"{code.co_name}() missing 1 required positional argument: '{name}'",
                    )
                bound[name] = function.defaults[n - offset]
        for name in code.co_varnames[count : count + code.co_kwonlyargcount]:
            if name not in bound:
                if name not in function.kwdefaults:
                    self.fail(
                        TypeError,
                        f"{code.co_name}() missing 1 required keyword-only argument: '{name}'",
                    )
                bound[name] = function.kwdefaults[name]

    def make_function(self, frame: Frame, code: types.CodeType, parts: dict[str, Any]) -> Any:
        function = self.made(FunctionValue(code, frame.globals, code.co_name))
        if not parts.get("closure") and code.co_freevars:
            function.cells = [frame.cells[name] for name in code.co_freevars]
        for name, value in parts.items():
            self.set_function_part(function, name, value)
        return function

    def set_function_part(self, function: FunctionValue, name: str, value: Any) -> Any:
        if function.source is not None:
            raise Break("unsupported-mutation", f"the {name} of a function from outside")
        if name == "closure":
            function.cells = list(value.items)
        elif name == "defaults":
            function.defaults = self.unpack_all(value)
        elif name == "kwdefaults":
            function.kwdefaults = self.keywords(value)
        return function

    # methods --------------------------------------------------------------------------------------
    def _call_method(self, method: MethodValue, args: list[Any], kwargs: dict[str, Any]) -> Any:
        owner, name = method.owner, method.function
        if not isinstance(name, str):
            return self.call(name, [owner, *args], kwargs)
        if "." in name:
            return special_methods.call_base(self, owner, name, args, kwargs)
        if isinstance(owner, PartialValue) and name == "__call__":
            return self.call(owner, args, kwargs)
        if isinstance(owner, TensorValue):
            return self._tensor_method(owner, name, args, kwargs)
        if isinstance(owner, ArrayValue):
            return self.array_method(owner, name, args, kwargs)
        if isinstance(owner, SequenceValue):
            if not name.startswith("__"):
                return self.sequence_method(owner, name, args, kwargs)
        elif isinstance(owner, DictValue):
            found = self.base_dict_method(owner, name, args, kwargs)
            if found is not NotImplemented:
                return found
        elif isinstance(owner, SetValue) and not name.startswith("__"):
            return self.set_method(owner, name, args)
        elif isinstance(owner, GeneratorValue) and name in ("send", "throw", "close"):
            return self._generator_method(owner, name, args)
        elif isinstance(owner, Known):
            return special_methods.call_known_method(self, owner, name, args, kwargs)
        elif isinstance(owner, FunctionValue) and name == "__get__":
            if self.is_none(args[0]):
                return owner
            return self.made(MethodValue(owner, self.force(args[0])))
        return special_methods.call_special_method(self, owner, name, args, kwargs)

    def _tensor_method(
        self, owner: TensorValue, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        self.watched.attribute(owner.cls, name)
        found = getattr(owner.cls, name)
        if isinstance(found, types.FunctionType) and not is_trusted_name(found.__module__):
            return self.call(self.trusted(found), [owner, *args], kwargs)
        if name.startswith("__") and name.endswith("__"):
            rule = special_methods.SPECIAL.get(name)
            if rule is not None and name not in ("__iter__",):
                return rule(self, owner, *args)
        if name == "new" and args and self.force(args[0]).cls is core.Size:
            args = self.unpack_all(args[0])  # a size is no sequence of elements
        if name == "as_subclass":
            return self.in_another_class(owner, self.constant_of(args[0]))
        return self.graph_method(name, owner, args, kwargs)

    # known callables ------------------------------------------------------------------------------
    def _call_cached(self, obj: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A function with a cache: of constants what it keeps for them, else its own function."""
        given = [self.force(arg) for arg in args]
        words = {name: self.force(arg) for name, arg in kwargs.items()}
        if not all(isinstance(value, Known) for value in (*given, *words.values())):
            return self.call(self.trusted(obj.__wrapped__), args, kwargs)
        try:
            found = obj(*[v.obj for v in given], **{k: v.obj for k, v in words.items()})
        except Exception as error:  # noqa: BLE001 - it is the program's exception
            self.raise_host(error)
        return self.trusted(found)

    def _call_known(self, function: Known, args: list[Any], kwargs: dict[str, Any]) -> Any:
        obj = core.operator_of(function.obj)
        rule = rules.rule_for(obj)
        if rule is not None:
            self._check_arguments(obj, args, kwargs)
            return rule(self, args, kwargs)
        if isinstance(obj, (core.Op, core.InplaceOp)):
            return self.graph_call(obj, args, kwargs)
        try:
            if obj in MODE_FUNCTIONS:
                return self.mode_call(obj, args)
        except TypeError:
            pass
        if isinstance(obj, type):
            return self.instantiate(function, args, kwargs)
        if isinstance(obj, functools._lru_cache_wrapper):
            return self._call_cached(obj, args, kwargs)
        return self._call_object(obj, args, kwargs)

    def _check_arguments(self, obj: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """That a builtin that has a rule takes these keywords."""
        if not kwargs or type(obj) is not types.BuiltinFunctionType:
            return
        try:
            signature = inspect.signature(obj)
        except (TypeError, ValueError):
            return  # C does not say what it takes
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            self.fail(TypeError, f"{obj.__name__}(): {error}")

    def _call_object(self, obj: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A known callable that is no class and no operator: by what kind of callable it is."""
        if isinstance(obj, types.MethodWrapperType):
            if obj.__name__ == "__get__" and isinstance(obj.__self__, _GETTERS) and args:
                return self.getattr(args[0], obj.__self__.__name__)
            found = subclasses.read_property(self, obj, args)
            if found is not NotImplemented:
                return found
        if isinstance(obj, property):
            raise Break("unsupported-call", "a property")
        if isinstance(obj, _DESCRIPTORS):
            return self._call_descriptor(obj, args, kwargs)
        if is_disabled(obj):
            raise Break("disabled", getattr(obj, "__qualname__", repr(obj)))
        if is_allowed_in_graph(obj) or self._is_core_operator(obj, args, kwargs):
            return self.graph_call(obj, args, kwargs)
        if isinstance(obj, types.MethodType):
            owner = self.trusted(obj.__self__)
            return self.call(self.trusted(obj.__func__), [owner, *args], kwargs)
        if isinstance(obj, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
            return special_methods.call_getter(self, obj, args[0])
        if rules.is_pure(obj):
            return self.fold(obj, args, kwargs)
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, type) and name == "__subclasses__":
            return self.lift(obj())
        if type(owner) is frozenset and name == "__contains__":
            return self.fold(obj, args, kwargs)
        python = python_of(obj)
        if python is not None:
            return self.call(self.trusted(python), args, kwargs)
        raise Break("unsupported-call", f"{getattr(obj, '__qualname__', obj)}")

    def _is_core_operator(self, obj: object, args: list[Any], kwargs: dict[str, Any]) -> bool:
        if rules.makes_tensors(obj):
            return True
        return rules.is_core_function(obj) and self._has_graph_value(args, kwargs)

    def _call_descriptor(self, obj: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        owner = self.force(args[0])
        name = obj.__name__
        if isinstance(owner, (ObjectValue, SuperValue)):
            kind = obj.__objclass__.__name__
            return special_methods.call_base(self, owner, f"{kind}.{name}", args[1:], kwargs)
        return self._call_method(MethodValue(name, owner), args[1:], kwargs)

    # modules --------------------------------------------------------------------------------------
    def _call_module(self, module: ObjectValue, args: list[Any], kwargs: dict[str, Any]) -> Any:
        call = self.type_lookup(module.kind, "__call__")
        own = isinstance(call, types.FunctionType) and not is_trusted_name(call.__module__)
        if own:
            return self.call(self.trusted(call), [module, *args], kwargs)
        if is_disabled(self.type_lookup(module.kind, "forward")):
            raise Break("disabled", f"{module.kind.__name__}.forward")
        implementation = self.type_lookup(module.kind, "_call_impl")
        if not is_trusted_name(implementation.__module__) or not self._is_plain(module):
            return self.call(self.trusted(implementation), [module, *args], kwargs)
        base = self.class_of_attribute(module.kind, "forward")
        forward = self.bind_attribute(base.__dict__["forward"], base, "forward", module)
        return self.call(forward, args, kwargs)

    def _is_plain(self, module: ObjectValue) -> bool:
        """Whether a module has no hooks, with one guard for all of them."""
        if module.real is None or module.source is None or not self.plain_module(module.real):
            return False
        attributes = self.instance_dict(module)
        if attributes is None or any(str(k).endswith("_hooks") for k in attributes.overwritten):
            return False
        self.guards.add("plain-module", module.source, self.plain_module)
        return True

    def _constant_result(self, real: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function gives whose result stays as it is once it was asked."""
        given = constant_results.real_values(self, [*args, *kwargs.values()])
        words = dict(zip(kwargs, given[len(args) :], strict=True))
        try:
            found = real(*given[: len(args)], **words)
        except Exception as error:  # noqa: BLE001 - it is the program's exception
            self.raise_host(error)
        return self.lift(constant_results.apart(self, found))

    # instances ------------------------------------------------------------------------------------
    def instantiate(self, cls: Known, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`cls(*args, **kwargs)`."""
        kind = cls.obj
        if kind is core.Tensor and len(args) == 1 and not kwargs:
            if isinstance(self.force(args[0]), SequenceValue):
                dtype = self.trusted(core.get_default_dtype())
                return self.call(Known(core.tensor), args, {"dtype": dtype})
        if issubclass(kind, core.Tensor):
            return self.new_subclass(cls, args, kwargs)
        if isinstance(kind, type(legacy.FloatTensor)):
            return self._typed_tensor(kind, args, kwargs)
        meta_call = self.type_lookup(type(kind), "__call__")
        if isinstance(meta_call, types.FunctionType) and not is_trusted_name(meta_call.__module__):
            return self.call(self.trusted(meta_call), [cls, *args], kwargs)
        if hasattr(kind, "_fields") and issubclass(kind, tuple) and _makes_fields(kind):
            return self._named_tuple(kind, args, kwargs)
        if kind is core.device:
            count, words = len(args), list(kwargs)
            return self.fold(
                lambda *given: core.device(
                    *given[:count], **dict(zip(words, given[count:], strict=True))
                ),
                [*args, *kwargs.values()],
            )
        if issubclass(kind, enum.Enum) or is_numpy_scalar(kind) or kind is bytes:
            return self.fold(kind, args)
        return self.new_instance(cls, kind, args, kwargs)

    def _typed_tensor(self, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`LongTensor([1, 2])` and the like."""
        if kwargs or len(args) != 1 or not isinstance(self.force(args[0]), SequenceValue):
            raise Break("unsupported-call", f"the constructor {kind.__name__}")
        return self.call(Known(core.tensor), args, {"dtype": Known(kind.dtype)})

    def new_instance(self, cls: Known, kind: type, args: list, kwargs: dict) -> Any:
        """`type.__call__`."""
        make = self.type_lookup(kind, "__new__")
        make = make.__func__ if isinstance(make, staticmethod) else make
        if isinstance(make, types.FunctionType):
            value = self.call(self.trusted(make), [cls, *args], kwargs)
        else:
            value = self.bare_instance(kind, args)
        holds = isinstance(value, SequenceValue) and is_plain_sequence(value.kind)
        if not (holds or isinstance(value, (DictValue, ObjectValue))):
            return value
        if kind not in value.kind.__mro__:
            return value
        init = self.type_lookup(kind, "__init__")
        if isinstance(init, types.FunctionType):
            self.call(self.trusted(init), [value, *args], kwargs)
        elif isinstance(value, DictValue):
            self.dict_init(value, args, kwargs)
        elif holds:
            self.sequence_init(value, args)
        elif init is object.__init__ and (args or kwargs) and make is object.__new__:
            self.fail(TypeError, f"{kind.__name__}() takes no arguments")
        return value

    def bare_instance(self, kind: type, args: list[Any]) -> Any:
        """`object.__new__(kind)`, or the same of an exception class."""
        if issubclass(kind, BaseException):
            return self.new_exception(kind, args)
        basic = base_of_c(kind)
        if issubclass(kind, dict) and is_plain_dict(kind):
            return self.made(DictValue(kind))
        if basic is list and is_plain_sequence(kind):
            return self.made(SequenceValue(kind, []))
        if basic is tuple and is_plain_sequence(kind):
            return self.made(SequenceValue(kind, self.unpack_all(args[0]) if args else []))
        made_by_c = isinstance(kind.__new__, types.BuiltinFunctionType)
        if basic is not object or (made_by_c and kind.__new__ is not object.__new__):
            raise Break("unsupported-call", f"the constructor {kind.__name__}")
        if getattr(kind, "__abstractmethods__", None):
            self.fail(TypeError, f"Can't instantiate abstract class {kind.__name__}")
        return self.made(ObjectValue(kind))

    def _named_tuple(self, kind: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if kind.__module__ == "facula.return_types":
            whole = len(args) == 1 and isinstance(self.force(args[0]), SequenceValue)
            return self.made(SequenceValue(kind, self.unpack_all(args[0]) if whole else list(args)))
        names = kind._fields
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        defaults = kind._field_defaults
        for name in names:
            if name not in given:
                if name not in defaults:
                    self.fail(TypeError, f"{kind.__name__}.__new__() missing argument: '{name}'")
                given[name] = self.trusted(defaults[name])
        if len(given) != len(names) or len(args) > len(names):
            self.fail(TypeError, f"{kind.__name__}.__new__() got unexpected arguments")
        return self.made(SequenceValue(kind, [given[name] for name in names]))

    # generators -----------------------------------------------------------------------------------
    def make_generator(self, frame: Frame) -> GeneratorValue:
        copy = Frame(frame.code, frame.function, frame.globals)
        copy.index, copy.locals, copy.cells = frame.index, frame.locals, frame.cells
        copy.stack, copy.instruction = frame.stack, frame.instruction
        return self.made(GeneratorValue(copy))

    def resume(self, generator: GeneratorValue, sent: Any, error: Any = None) -> Any:
        """Run a generator to its next value, or STOP; what it returns stays in `stopped`."""
        if generator.done:
            if error is not None:
                raise Raised(error)
            self.stopped = Known(None)
            return STOP
        frame = generator.frame
        if error is not None:
            if not generator.started or not throw(self, frame, error):
                generator.done = True
                raise Raised(error)
        elif generator.started:
            frame.push(sent)
        generator.started = True
        try:
            signal = self.run_inner(frame)
        except Raised as raised:
            generator.done = True
            error = self.stop_iteration_error(raised.value)
            if error is raised.value:
                raise
            raise Raised(error) from raised
        if isinstance(signal, Returned):
            generator.done = True
            self.stopped = self.force(signal.value)
            return STOP
        return self.force(signal.value)

    def send(self, receiver: Any, value: Value) -> tuple[bool, Any]:
        receiver, value = self.force(receiver), self.force(value)
        if isinstance(receiver, GeneratorValue):
            result = self.resume(receiver, value)
            return (True, self.stopped) if result is STOP else (False, result)
        result = self.next(receiver)
        return (True, Known(None)) if result is STOP else (False, result)

    def close(self, owner: GeneratorValue) -> None:
        """End a generator where it waits, as `close()` does and as its last reference goes."""
        if owner.started and not owner.done:
            try:
                if self.resume(owner, None, self.new_exception(GeneratorExit, [])) is not STOP:
                    self.fail(RuntimeError, "generator ignored GeneratorExit")
            except Raised as error:
                if not issubclass(error.value.kind, (GeneratorExit, StopIteration)):
                    raise
        owner.done = True

    def _generator_method(self, owner: GeneratorValue, name: str, args: list[Any]) -> Any:
        if name == "close":
            self.close(owner)
            return Known(None)
        if name == "throw":
            thrown = self.force(args[-1] if len(args) == 1 else args[1])
            if isinstance(thrown, Known) and isinstance(thrown.obj, type):
                thrown = self.call(thrown, [], {})
            result = self.resume(owner, None, thrown)
        else:
            result = self.resume(owner, self.force(args[0]))
        if result is STOP:
            stop = [] if self.is_none(self.stopped) else [self.stopped]
            self.raise_with(StopIteration, stop)
        return result

    # imports --------------------------------------------------------------------------------------
    def import_name(self, frame: Frame, name: str, names: object, level: int) -> Any:
        package = frame.globals.get("__package__") or ""
        if level:
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - level + 1])
            full = f"{base}.{name}" if name else base
        else:
            full = name
        if full not in sys.modules:
            if not is_trusted_name(full):
                raise Break("import", full)
            __import__(full)
        return self.trusted(sys.modules[full if names else full.partition(".")[0]])

    def import_from(self, module: Any, name: str) -> Any:
        found = self.getattr_or(module, name)
        if found is None:
            full = f"{self.constant_of(module).__name__}.{name}"
            if full not in sys.modules:
                raise Break("import", full)
            return self.trusted(sys.modules[full])
        return found

    def load_build_class(self, frame: Frame) -> Any:
        raise Break("unsupported-instruction", "a class definition")

    def unknown_instruction(self, frame: Frame, instruction: Any) -> None:
        raise Break("unsupported-instruction", instruction.name)


__all__ = [
    "NULL",
    "Calls",
    "IteratorValue",
    "NumberValue",
    "Value",
    "ViewValue",
    "functools",
    "inspect",
]
