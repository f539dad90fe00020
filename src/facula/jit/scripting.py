"""`script`: from a Python function, class or module to its scripted form.

Takes them. Gives `ScriptFunction`, the class itself, or `RecursiveScriptModule`.
Keeps true: `forward` and what is marked `@export` compile at once; what they call compiles with them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from functools import partial
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit._state import _enabled, _python_cu
from facula.jit.builtin_calls import BUILTINS
from facula.jit.compilation_unit import look_up_name, text_units
from facula.jit.containers import ScriptDict, ScriptList, script_container
from facula.jit.functions import EXTRA_NAMES, FunctionUnit, caller_names, make_unit, unit_of_python
from facula.jit.graph_functions import unit_of_operator
from facula.jit.marks import SCRIPT, Attribute, annotate, mark_of
from facula.jit.modules import class_type, module_type
from facula.jit.python_types import NoType, enum_type, named_tuple
from facula.jit.script_objects import (
    DEFINE,
    FINISH,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptMethod,
    ScriptModule,
    script_module,
)
from facula.jit.source import refuse
from facula.namespaces._awaits import _awaitable, _awaitable_nowait, _awaitable_wait
from facula.namespaces.futures import Future, wait_all
from facula.nn import Module
from facula.ops.table.schemas.types import ClassType

__all__ = ["fork", "script", "wait"]


def script(
    obj: object,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The scripted form of a function or module: its source, as a statically typed graph with control
    flow.

    Arguments are tensors unless annotated; what the language has is in PyTorch's TorchScript
    reference. A class is checked and given back. A list or dictionary becomes one that scripted
    functions change in place.

    Args:
        obj: a function, module, class, dictionary or list
        optimize: an older argument without effect
        example_inputs: kept as in PyTorch

    Raises:
        RuntimeError: the source is not TorchScript; the error names the line.

    Example:
        >>> layer = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.ReLU())
        >>> scripted = facula.jit.script(layer)
        >>> scripted(facula.ones(1, 2)).shape
        facula.Size([1, 2])
    """
    if not _enabled or isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    EXTRA_NAMES.append(caller_names(_frames_up + 1))
    try:
        made = _scripted(obj)
        if isinstance(made, ScriptFunction):
            _python_cu.add(made)
        return made
    finally:
        EXTRA_NAMES.pop()


def _scripted(obj: object) -> Any:
    if isinstance(obj, Module):
        return _module(obj)
    if isinstance(obj, type):
        return _class(obj)
    if type(obj) in (list, dict, ScriptList, ScriptDict):
        return script_container(obj)
    operator = core.operator_of(obj)
    if isinstance(operator, core.Op) and operator.definition.public_module.endswith("functional"):
        return ScriptFunction(unit_of_operator(operator))
    if not callable(obj):
        fail(RuntimeError, "jit.script", "a function, class or module was required", type(obj).__name__,
             hint="see docs/torchscript.md")  # fmt: skip
    unit = unit_of_python(obj)
    if not isinstance(unit, FunctionUnit):
        unit = make_unit(obj)
    unit.compiled()
    return ScriptFunction(unit)


def _class(kind: type) -> type:
    if issubclass(kind, Module) and not getattr(kind, "__torch_script_interface__", False):
        fail(RuntimeError, "jit.script", "an instance of a module was required",
             f"the class {kind.__name__}, which cannot be compiled since it inherits from nn.Module",
             hint=f"jit.script({kind.__name__}(...))")  # fmt: skip
    try:
        if issubclass(kind, enum.Enum):
            enum_type(kind)
        elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
            named_tuple(kind)
        else:
            made = class_type(kind)
            if (
                len(kind.__mro__) > 2
                and not made.is_interface
                and not dataclasses.is_dataclass(kind)
            ):
                raise NoType(
                    f"{kind.__name__}, which has a base class (TorchScript does not support inheritance)"
                )
            if not made.is_interface:
                for unit in list(made.methods.values()):
                    unit.compiled()
    except NoType as reason:
        refuse(None, "a class that can be scripted was required", str(reason))
    return kind


def _module(module: Module) -> Any:
    prepare = getattr(module, "__prepare_scriptable__", None)
    if prepare is not None:
        module = prepare()
    kind = module_type(module)
    for name in ["forward", *(n for n, u in kind.methods.items() if _exported(u))]:
        unit = kind.methods.get(name)
        if unit is not None and getattr(type(module), name, None) is not getattr(
            Module, name, None
        ):
            unit.compiled()
    methods = kind.methods
    if _exported(methods.get("__setstate__")) and not _exported(methods.get("__getstate__")):
        fail(RuntimeError, "jit.script", f"a method __getstate__ of {kind.name} marked @jit.export was required beside "
             "__setstate__", "none", hint="it returns what __setstate__ takes")  # fmt: skip
    for name in (*kind.pre_hooks, *kind.hooks):
        kind.methods[name].compiled()
    if kind.pre_hooks or kind.hooks:
        # lazily: few modules have hooks
        from facula.jit.hook_signatures import check_hooks

        check_hooks(kind)
    return script_module(module, kind)


def _finish(module: Any) -> None:
    """Make an instance of a subclass of `ScriptModule` a scripted module."""
    python = type(module)
    kind = module_type(module)
    if mark_of(python.forward) != "export":
        kind.methods.pop("forward", None)  # Python's, as PyTorch has it
    chosen = [name for name, unit in kind.methods.items() if _exported(unit)]
    defined = _define(module, kind)
    for name in chosen:
        kind.methods[name].compiled()
    chosen += defined
    for name, child in module._modules.items():
        if child is not None and not isinstance(child, ScriptModule):
            child_kind = kind.attributes[name]
            assert isinstance(child_kind, ClassType)
            child_kind = module_type(child) if child_kind.is_interface else child_kind
            module._modules[name] = script_module(child, child_kind)
    state = vars(module)
    state.update({n: v.value for n, v in state.items() if isinstance(v, Attribute)})
    methods = {
        name: property(partial(ScriptMethod.of, name)) for name in chosen if name != "forward"
    }
    if "forward" not in chosen and "forward" not in kind.methods:
        methods["forward"] = python.forward
    scripted = type(python.__name__, (RecursiveScriptModule, python), {
        "__module__": python.__module__, "__qualname__": python.__qualname__,
        "_get_name": lambda self: python.__name__, **methods,
    })  # fmt: skip
    state["_script_type"] = kind
    object.__setattr__(module, "__class__", scripted)


def _define(module: ScriptModule, kind: ClassType) -> list[str]:
    """The names of the methods that `define` was given as texts; they are compiled."""
    names: list[str] = []
    for text, scope in module.__dict__.pop("_defined", ()):
        EXTRA_NAMES.append(scope)
        try:
            units = text_units(text, kind.name, look_up_name, kind)
            kind.methods.update({unit.definition.name: unit for unit in units})
            names += [unit.compiled().definition.name for unit in units]
        finally:
            EXTRA_NAMES.pop()
    return names


def _exported(unit: Any) -> bool:
    return mark_of(getattr(unit, "function", None)) == "export"


def fork(func: Callable[..., Any], *args: object, **kwargs: object) -> Future:
    """Starts a function and gives a future, which is done when this comes back.

    Args:
        func: what is called
        *args, **kwargs: its arguments

    Example:
        >>> facula.jit.wait(facula.jit.fork(facula.sin, facula.zeros(1)))
        tensor([0.])
    """
    made: Future = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Any) -> Any:
    """The value of a future of `fork`.

    Args:
        future: which

    Example:
        >>> facula.jit.wait(facula.jit.fork(facula.sin, facula.zeros(1)))
        tensor([0.])
    """
    return wait_all([future])[0]


SCRIPT.append(script)
FINISH.append(_finish)
DEFINE.append(lambda module: _define(module, module._script_type))
for _function, _name in (
    (annotate, "annotate"),
    (fork, "fork"),
    (wait, "wait"),
    (_awaitable, "awaitable"),
    (_awaitable_wait, "awaitable_wait"),
    (_awaitable_nowait, "awaitable_nowait"),
):
    BUILTINS[_function] = BUILTINS[_name]
