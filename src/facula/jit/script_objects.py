"""What `script` gives: functions and modules that run their graphs.

Takes units and types. Gives `ScriptFunction`, `ScriptModule`, `RecursiveScriptModule`, `ScriptMethod`.
Keeps true: arguments are checked against the declared types before anything runs; a scripted module is a
module: parameters, buffers, `state_dict`, `to`, `train`, hooks are those of `nn.Module`.
"""

from __future__ import annotations

import enum
import functools
import io
import pickle
from types import SimpleNamespace
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.errors import described
from facula.jit.functions import Empty, caller_names
from facula.jit.marks import TRACING, mark_of
from facula.jit.python_types import MODULE_TYPE, NoType, type_of_value
from facula.jit.running import SCRIPTED_CLASS, is_instance
from facula.jit.script_schemas import unit_schema
from facula.nn import Module
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of
from facula.ops.table.schemas.function import FunctionSchema
from facula.torch_api._C import _jit_get_inline_everything_mode as inlines_always

__all__ = ["RecursiveScriptModule", "ScriptFunction", "ScriptMethod", "ScriptModule"]


def converted(value: Any, kind: T.Type, what: str) -> Any:
    """An argument from Python as a type wants it; an error where it does not fit."""
    if kind.kind == "Tensor" and hasattr(value, "untyped_storage"):
        return value
    if kind.kind == "Any":
        return value
    if kind.kind in ("Optional", "Union"):
        return _one_of(value, kind, what)
    if kind.kind == "int" and isinstance(value, CODED):
        return code_of(value)
    if kind.kind == "int" and TRACING and isinstance(value, int) and type(value) is not bool:
        return value  # a size that the trace follows
    if kind.kind in ("float", "int", "bool", "Scalar", "complex") and hasattr(value, "item"):
        if not hasattr(value, "untyped_storage") or value.numel() == 1:
            value = value.item()
    if kind.kind == "float" and type(value) is int:
        return float(value)
    if kind.kind == "bool" and type(value) is int:
        return bool(value)
    if kind.kind == "Device" and isinstance(value, str):
        return core.device(value)
    if getattr(type(value), "_is_script_container", False) and value._script_type == kind:
        return value  # what the script changes, the caller sees
    if kind.kind == "List" and isinstance(value, (list, tuple)):
        return [converted(v, kind.item, what) for v in value]
    if kind.kind == "Dict" and isinstance(value, dict):
        key, item = kind.inner
        return {converted(k, key, what): converted(v, item, what) for k, v in value.items()}
    if kind.kind == "Tuple" and isinstance(value, (tuple, list)) and len(value) == len(kind.inner):
        if isinstance(kind, T.NamedTupleType):
            what += f" (aka NamedTuple({', '.join(kind.fields)}))"
        items = [converted(v, t, what) for v, t in zip(value, kind.inner, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if _good(value, kind):
        return value
    what += _lacking(value, kind)
    return fail(
        RuntimeError, what.partition("() ")[0], f"Expected a value of type '{kind.annotation_str}' for "
        f"{what.partition('() ')[2]}", f"type '{type(value).__name__}'",
        hint="convert the value, or change the annotation and script again",
    )  # fmt: skip


def _lacking(value: object, kind: T.Type) -> str:
    """What a value lacks to be one of a class, in the words of an error."""
    if not isinstance(kind, T.ClassType):
        return ""
    if kind.is_interface:
        return _unlike(value, kind)
    lacking = [n for n in kind.attributes if not hasattr(value, n)]
    return f" (it has a missing attribute {lacking[0]})" if lacking else ""


def _one_of(value: object, kind: T.Type, what: str) -> Any:
    if value is None:
        if T.NONE in T.members(kind):
            return None
    members = [m for m in T.members(kind) if m != T.NONE]
    for member in members:
        if is_instance(value, member):
            return value
    for member in members:
        try:
            return converted(value, member, what)
        except RuntimeError:
            continue
    if len(members) == 1:
        return converted(value, members[0], what)
    try:
        have = type_of_value(value).annotation_str
    except (NoType, RuntimeError):  # an empty list, an object of no class
        have = type(value).__name__
    return fail(
        RuntimeError, what.partition("() ")[0], f"Expected a value of type '{kind.annotation_str}' for "
        f"{what.partition('() ')[2]}", f"type '{type(value).__name__}' (Expected a member of "
        f"{kind.annotation_str} but instead found type {have})",
        hint="convert the value, or change the annotation and script again",
    )  # fmt: skip


def _good(value: object, kind: T.Type) -> bool:
    plain = {"Device": "device", "Generator": "Generator", "Future": "Future"}.get(kind.kind)
    if plain is not None:
        return type(value).__name__ == plain
    if kind.kind == "Scalar":
        return isinstance(value, (int, float, complex))
    if isinstance(kind, T.EnumType):
        return isinstance(value, enum.Enum)
    if isinstance(kind, T.ClassType):
        if kind.is_interface:
            return not _unlike(value, kind)
        return kind.is_module or isinstance(value, kind.python or object)
    return is_instance(value, kind)


def _unlike(value: object, kind: T.ClassType) -> str:
    """Why an object is not of an interface; nothing where it is."""
    of_modules = kind.is_module or isinstance(kind.python, type) and issubclass(kind.python, Module)
    if of_modules and not isinstance(value, ScriptModule):
        return " (only a ScriptModule class can be subtype of module interface)"
    own = getattr(value, "_script_type", None) or SCRIPTED_CLASS[0](type(value))
    if not isinstance(own, T.ClassType):
        return f" (its class is not scripted, and is not compatible with interface {kind})"
    lacking = "" if own == kind else T.unlike_interface(own, kind)
    return f" ({own} is not compatible with interface {kind}: {lacking})" if lacking else ""


def handed_out(value: Any) -> Any:
    """A value as Python gets it: lists and dictionaries are copies, so that nobody changes those of a program."""
    kind = type(value)
    if kind is list:
        return [handed_out(v) for v in value]
    if kind is dict:
        return {k: handed_out(v) for k, v in value.items()}
    if kind is tuple:
        return tuple(handed_out(v) for v in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(handed_out(v) for v in value)
    return value


def run_unit(unit: Any, name: str, given: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a unit with arguments from Python."""
    unit = unit.compiled()
    if not hasattr(unit, "parameters"):
        return unit.run(*given, **kwargs)
    values = []
    rest, left = list(given), dict(kwargs)
    for own, kind, default in unit.parameters:
        if rest:
            value = rest.pop(0)
        elif own in left:
            value = left.pop(own)
        elif default is not Empty:
            value = default
        else:
            fail(RuntimeError, name, f"a value for argument '{own}' was required "
                 f"({name}() is missing value for argument '{own}'. Declaration: {unit_schema(name, unit)})", "none",
                 hint=f"the arguments are {', '.join(n for n, _, _ in unit.parameters)}")  # fmt: skip
        is_self = isinstance(kind, T.ClassType) and kind.is_module
        values.append(value if is_self else _argument(value, kind, unit, name, own))
    if rest or left:
        extra = (
            f"Unknown keyword argument '{next(iter(left))}'"
            if left
            else f"{len(rest)} more arguments"
        )
        known, given_ = len(unit.parameters), len(given) + len(kwargs)
        fail(RuntimeError, name, f"{name}() expected at most {known} argument(s) but received {given_} argument(s). "
             f"Declaration: {unit_schema(name, unit)}", extra,
             hint=f"the arguments are {', '.join(n for n, _, _ in unit.parameters)}")  # fmt: skip
    if TRACING and TRACING[-1].keeps_call(unit, values):
        return TRACING[-1].call_unit(unit, name, values)
    try:
        return handed_out(unit.run(*values))
    except Exception as error:
        raise described(error) from error.__cause__


def _argument(value: Any, kind: T.Type, unit: Any, name: str, own: str) -> Any:
    """An argument from Python as the function wants it."""
    if own in getattr(unit, "inferred", ()) and not hasattr(value, "untyped_storage"):
        if not isinstance(value, core.Tensor):
            fail(RuntimeError, name, f"Expected a value of type 'Tensor (inferred)' for argument '{own}'",
                 f"type '{type(value).__name__}' (Inferred '{own}' to be of type 'Tensor', since it has no annotation)",
                 hint=f"annotate it: {own}: {type(value).__name__}")  # fmt: skip
    length = getattr(unit, "lengths", {}).get(own, 0)
    if length and type(value) in (int, float):
        value = [value] * length
    try:
        return converted(value, kind, f"{name}() argument '{own}'")
    except RuntimeError as error:
        shown = repr(value) if len(repr(value)) < 200 else type(value).__name__
        place = [n for n, _, _ in unit.parameters].index(own)
        declared = f"Position: {place}\nValue: {shown}\nDeclaration: {unit_schema(name, unit)}"
        error.args = (f"{error}\n{declared}",)
        raise


#: `save`, `code` and `inlined_graph`, which lie above: filled by the package
SAVE: list[Any] = []
#: compiles what `define` was given: filled by the package
DEFINE: list[Any] = []
#: makes an instance of a subclass of `ScriptModule` a scripted module: filled by the package
FINISH: list[Any] = []
CODE: list[Any] = []
INLINE: list[Any] = []


class _HasGraph:
    """Graph and code of a unit, under PyTorch's names."""

    @property
    def unit(self) -> Any:
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The graph."""
        return self.inlined_graph if inlines_always() else self.unit.compiled().graph

    @property
    def inlined_graph(self) -> Any:
        """The graph with all calls written out."""
        return INLINE[0](self.unit.compiled().graph)

    @property
    def code(self) -> str:
        """The graph as text of a restricted Python, as files have it."""
        return CODE[0](self.unit.compiled())[0]

    @property
    def code_with_constants(self) -> tuple[str, Any]:
        """The text of `code`, and the tensors that it names `CONSTANTS.c0`, ..."""
        text, constants = CODE[0](self.unit.compiled())
        return text, SimpleNamespace(**{f"c{i}": value for i, value in enumerate(constants)})

    def graph_for(self, *args: object, **kwargs: object) -> Any:
        """The graph that runs for such arguments: the same for all."""
        return self.graph


def _python_of(unit: object) -> Any:
    """The Python function that a unit was compiled of, or will be; None of one without."""
    return getattr(unit, "python", None) or getattr(unit, "function", None)


def _is_traced_as_python(unit: object) -> bool:
    """Whether a program is exported now, in whose graph a script is what its Python does."""
    # lazily: scripts are imported without what captures programs
    from facula.capture.exports import is_exporting

    return _python_of(unit) is not None and is_exporting()


class ScriptFunction(_HasGraph):
    """A scripted function, as `script` and `trace` give it; ``graph`` and ``code`` show what it does.

    Args:
        unit: what was compiled

    Example:
        >>> type(facula.jit.trace(facula.sin, facula.zeros(1))).__name__
        'ScriptFunction'
    """

    def __init__(self, unit: Any) -> None:
        self._script_unit = unit
        self.__name__ = unit.definition.name
        self.__qualname__ = getattr(unit.python, "__qualname__", self.__name__)
        self.__module__ = getattr(unit.python, "__module__", "__torch__")
        self.__doc__ = getattr(unit.python, "__doc__", None)
        self._torchdynamo_inline = unit.python
        self.__wrapped__ = unit.python

    @property
    def unit(self) -> Any:
        return self._script_unit

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def qualified_name(self) -> str:
        return self.unit.name

    @property
    def schema(self) -> FunctionSchema:
        """The arguments and the result."""
        return unit_schema(self.name, self.unit.compiled())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if core.DISPATCH_MODES and _is_traced_as_python(self.unit):
            return self.unit.python(*args, **kwargs)
        return run_unit(self.unit, self.__name__, args, kwargs)

    def save(self, filename: object, _extra_files: object = None) -> None:
        """Write the function to a file."""
        SAVE[0](self, filename, _extra_files)

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.qualified_name}>"

    def __deepcopy__(self, memo: object) -> ScriptFunction:
        return self

    def __reduce__(self) -> Any:
        return fail(pickle.PickleError, "pickle", "an object that a pickle can hold was required", "a function of "
                    "TorchScript (ScriptFunction cannot be pickled)",
                    hint="jit.save() writes it to a file of its own")  # fmt: skip


class ScriptMethod(_HasGraph):
    """A method of a scripted module, bound to it.

    Args:
        owner: the module
        name: the method's
        unit: what was compiled

    Example:
        >>> type(facula.jit.script(facula.nn.ReLU()).forward).__name__
        'ScriptMethod'
    """

    def __init__(self, owner: Any, name: str, unit: Any) -> None:
        self.owner, self.name, self._unit = owner, name, unit
        self.__name__ = name

    @classmethod
    def of(cls, name: str, owner: Any) -> ScriptMethod:
        """The method of that name of a scripted module."""
        return cls(owner, name, owner._unit_named(name))

    @property
    def unit(self) -> Any:
        return self._unit

    @property
    def schema(self) -> FunctionSchema:
        """The arguments, the module first, and the result."""
        return unit_schema(self.name, self.unit.compiled())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ScriptMethod)
            and other.owner is self.owner
            and other._unit is self._unit
        )

    def __hash__(self) -> int:
        return hash((id(self.owner), self.name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if core.DISPATCH_MODES and _is_traced_as_python(self._unit):
            return _python_of(self._unit)(self.owner, *args, **kwargs)
        return run_unit(self._unit, self.name, (self.owner, *args), kwargs)


class ScriptModule(Module):
    """The base of scripted modules.

    A subclass is scripted when its ``__init__`` is done: its ``forward`` and the methods marked with
    `script_method`.

    Example:
        >>> class Double(facula.jit.ScriptModule):
        ...     @facula.jit.script_method
        ...     def forward(self, x):
        ...         return x * 2
        >>> Double()(facula.ones(2)), isinstance(Double(), facula.jit.ScriptModule)
        (tensor([2., 2.]), True)
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "RecursiveScriptModule" not in globals() or issubclass(cls, RecursiveScriptModule):
            return
        written = vars(cls).get("__init__")

        def __init__(self: Any, *args: Any, **options: Any) -> None:
            if written is not None:
                written(self, *args, **options)
            else:
                super(cls, self).__init__(*args, **options)
            if type(self) is cls:
                FINISH[0](self)

        made = functools.wraps(written)(__init__) if written is not None else __init__
        cls.__init__ = made  # type: ignore[method-assign]

    def define(self, src: str) -> None:
        """Add methods that a text defines.

        Args:
            src: the source of methods
        """
        self.__dict__.setdefault("_defined", []).append((src, caller_names(1)))
        if "_script_type" in self.__dict__:
            DEFINE[0](self)


class Children(dict[str, Any]):
    """The modules inside of a scripted module, by name."""


class RecursiveScriptModule(ScriptModule, _HasGraph):
    """A scripted module, as `script` gives it; ``graph`` and ``code`` show its forward, ``save``
    writes it.

    Args:
        kind: its class in the script
        state: its attributes by name

    Example:
        >>> scripted = facula.jit.script(facula.nn.Linear(2, 1))
        >>> scripted.original_name, scripted.weight.shape
        ('Linear', facula.Size([1, 2]))
    """

    def __init__(self, kind: T.ClassType, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)
        self.__dict__["_modules"] = Children(self.__dict__["_modules"])
        self.__dict__["_script_type"] = kind

    @property
    def unit(self) -> Any:
        return self._unit_named("forward")

    def _unit_named(self, name: str) -> Any:
        kind = self.__dict__["_script_type"]
        found = kind.methods.get(name)
        if found is None:
            fail(AttributeError, "jit", f"a compiled method of {self.original_name} was required", name,
                 hint="mark it @jit.export")  # fmt: skip
        return found

    @property
    def original_name(self) -> str:
        """The name of the Python class."""
        return self.__dict__["_script_type"].name.rpartition(".")[2]

    @property
    def qualified_name(self) -> str:
        return self.__dict__["_script_type"].name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph of `forward`."""
        return run_unit(self._unit_named("forward"), "forward", (self, *args), kwargs)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        given = (destination, prefix, keep_vars)
        self._exported("_save_to_state_dict", super()._save_to_state_dict, given)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._exported("_load_from_state_dict", super()._load_from_state_dict, args, **kwargs)

    def _exported(self, name: str, otherwise: Any, args: tuple[Any, ...], **kwargs: Any) -> None:
        """The user's method of a name that modules have, where it is marked `@jit.export`; else the modules' own."""
        unit = self.__dict__["_script_type"].methods.get(name)
        marked = mark_of(getattr(unit, "function", None)) == "export"
        if marked or getattr(unit, "is_archive", False):
            run_unit(unit, name, (self, *args), kwargs)
        else:
            otherwise(*args, **kwargs)

    def __getattribute__(self, name: str) -> Any:
        if name == "forward":
            kind = object.__getattribute__(self, "__dict__").get("_script_type")
            if kind is not None and name in kind.methods:
                return ScriptMethod(self, name, kind.methods[name])
        value = super().__getattribute__(name)
        if type(value) in (list, dict) and not name.startswith("_"):
            kind = object.__getattribute__(self, "__dict__").get("_script_type")
            if kind is not None and name in kind.attributes:
                return handed_out(value)
        return value

    def __getattr__(self, name: str) -> Any:
        kind = self.__dict__.get("_script_type")
        if kind is not None and not name.startswith("__"):
            if name in kind.methods:
                return ScriptMethod(self, name, kind.methods[name])
            if name in kind.properties:
                return run_unit(kind.properties[name], name, (self,), {})
            if name in kind.constants:
                return kind.constants[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self.__dict__.get("_script_type")
        if kind is not None and name in kind.finals:
            fail(RuntimeError, "jit", f"an attribute that is no constant was required (Cannot mutate "
                               f"TorchScript constant "
                 f"value: {name!r})", value, hint="change it in the Python module, and script that again")  # fmt: skip
        if (
            isinstance(value, Module)
            and not isinstance(value, ScriptModule)
            and name in self.__dict__["_modules"]
        ):
            fail(RuntimeError, "jit", f"a scripted module was required for {name!r} (Cannot re-assign modules in "
                 "a ScriptModule with non-scripted module)", type(value).__name__,
                 hint="jit.script(module)")  # fmt: skip
        if kind is not None and isinstance(value, ScriptModule) and name in self._modules:
            _check_module(name, kind.attributes.get(name), value.__dict__.get("_script_type"))
        super().__setattr__(name, value)

    def _items(self) -> list[Any]:
        return list(self._modules.values())

    def __len__(self) -> int:
        return self._special("__len__", lambda: len(self._modules))

    def __iter__(self) -> Any:
        return self._special("__iter__", lambda: iter(self._items()))

    def __contains__(self, key: object) -> bool:
        return self._special("__contains__", lambda: key in self._modules, key)

    def __getitem__(self, key: Any) -> Any:
        given = lambda: self._modules[key] if isinstance(key, str) else self._items()[key]  # noqa: E731
        return self._special("__getitem__", given, key)

    def __bool__(self) -> bool:
        return True

    def _special(self, name: str, otherwise: Any, *args: object) -> Any:
        """A method with a special name that the class defines, or what lists of modules do."""
        kind = self.__dict__["_script_type"]
        if name in kind.methods and not self._modules_only():
            return run_unit(kind.methods[name], name, (self, *args), {})
        if not self._modules_only() and name != "__contains__":
            fail(TypeError, "jit", f"a {name} of {self.original_name} was required (the object is not "
                            f"iterable)", "none",
                 hint="lists, sequences and dicts of modules have it")  # fmt: skip
        return otherwise()

    def _modules_only(self) -> bool:
        return self.original_name in ("ModuleList", "Sequential", "ModuleDict")

    def get_debug_state(self) -> Any:
        fail(NotImplementedError, "jit", "a state that there is was required", "a profiling executor",
             hint="graphs run as they stand: look at .graph")  # fmt: skip

    def save(self, f: object, **kwargs: object) -> None:
        """Write the module to a file."""
        SAVE[0](self, f, kwargs.get("_extra_files"))

    def save_to_buffer(self, **kwargs: object) -> bytes:
        """The bytes of the file."""
        made = io.BytesIO()
        self.save(made, **kwargs)
        return made.getvalue()

    def _save_for_lite_interpreter(
        self,
        f: object,
        _extra_files: object = None,
        _save_mobile_debug_info: bool = False,
        _use_flatbuffer: bool = False,
    ) -> None:
        """Write the module to a file, which `jit.mobile._load_for_lite_interpreter` reads: one of `save`, whichever
        of PyTorch's two formats is asked for.
        """
        SAVE[0](self, f, _extra_files)

    def _save_to_buffer_for_lite_interpreter(self, *args: Any, **kwargs: Any) -> bytes:
        made = io.BytesIO()
        self._save_for_lite_interpreter(made, *args, **kwargs)
        return made.getvalue()

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def _get_name(self) -> str:
        return "RecursiveScriptModule"


def _of_interface(name: str, wanted: T.ClassType, have: Any) -> T.ClassType:
    """The class of a module where an interface is asked for; its methods that the interface has are compiled."""
    lacking = T.unlike_interface(have, wanted)
    if lacking:
        fail(RuntimeError, "jit", f"a module with the methods of {wanted} was required for {name!r} ({have} is not "
             f"compatible with interface {wanted})", lacking, hint="script a module that has them")  # fmt: skip
    for method in wanted.methods:
        have.methods[method].compiled()
    return have


def _check_module(name: str, wanted: Any, have: object) -> None:
    """A module of a script is replaced by one of its type, or of its interface."""
    if wanted is None or have is None or wanted == have:
        return
    if wanted.is_interface:
        _of_interface(name, wanted, have)
        return
    unit = "(of Python compilation unit)"
    fail(RuntimeError, "jit", f"a module of type {wanted} was required for {name!r}: its methods are those that were "
         f"compiled (Expected a value of type '{wanted} {unit}' for field {name!r}, but found '{have} {unit}')", have,
         hint="change it in the Python module, and script that again")  # fmt: skip


def script_module(module: Module, kind: T.ClassType) -> RecursiveScriptModule:
    """The scripted form of a module: its tensors are shared, its other attributes copied."""
    state = dict(vars(module))
    for name in ("_parameters", "_buffers", "_modules"):
        state[name] = dict(state[name])
    for name, child in module._modules.items():
        ignored = name not in kind.attributes
        if child is not None and not ignored and not isinstance(child, ScriptModule):
            child_kind = kind.attributes[name]
            assert isinstance(child_kind, T.ClassType)
            if child_kind.is_interface:
                child_kind = _of_interface(name, child_kind, MODULE_TYPE[0](child))
            state["_modules"][name] = script_module(child, child_kind)
    for name, value in module.__dict__.items():
        if type(value).__name__ == "Attribute" and hasattr(value, "type"):
            state[name] = value.value
    for name, value in state.items():
        if name in kind.attributes and type(value) in (list, dict, tuple):
            state[name] = _own_container(value)
    return RecursiveScriptModule(kind, state)


def _own_container(value: Any) -> Any:
    """A list or dictionary of the scripted module's own; tensors in it are shared."""
    if type(value) is list:
        return [_own_container(v) for v in value]
    if type(value) is tuple:
        return tuple(_own_container(v) for v in value)
    if type(value) is dict:
        return {k: _own_container(v) for k, v in value.items()}
    return value
