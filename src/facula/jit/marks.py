"""TorchScript's marks on Python code, and the questions that code asks about where it runs.

Takes functions, methods and classes. Gives them back with a note for the compiler.
Keeps true: a mark changes nothing for Python.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.nn import Module

__all__ = [
    "Attribute",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "script_method",
    "unused",
]

MARK = "_torchscript_modifier"


def mark_of(function: Callable[..., Any] | None) -> str:
    """The mark of a function, or nothing."""
    return getattr(getattr(function, "__func__", function), MARK, "")


def _marked(function: Callable[..., Any], mark: str) -> Any:
    if isinstance(function, property):
        setattr(function.fget, MARK, mark)
    else:
        setattr(function, MARK, mark)
    return function


def ignore(drop: object = False, **options: object) -> Any:
    """A decorator: scripted code calls the function or method as it is, in Python.

    Args:
        drop: whether a call in a saved module raises
        **options: older forms

    Example:
        >>> class Logged(facula.nn.ReLU):
        ...     @facula.jit.ignore
        ...     def log(self, x):
        ...         print(tuple(x.shape))
        >>> Logged().log(facula.ones(2))
        (2,)
    """
    if callable(drop):
        return _marked(drop, "ignore")
    return lambda function: _marked(function, "unused" if drop else "ignore")


def _unwrap_optional(optional: object) -> Any:
    """The value, which must not be None; scripted code knows then that it is none.

    Raises:
        RuntimeError: it is None.
    """
    if optional is None:
        fail(RuntimeError, "jit._unwrap_optional", "a value was required (Unwrapping null optional)", "None",
             hint="ask `is None` first")  # fmt: skip
    return optional


def unused(fn: Callable[..., Any]) -> Any:
    """A decorator: the method is not compiled, and a call of it in scripted code raises.

    Args:
        fn: the method

    Example:
        >>> class Tested(facula.nn.ReLU):
        ...     @facula.jit.unused
        ...     def check(self):
        ...         return True
        >>> Tested().check()
        True
    """
    return _marked(fn, "unused")


def export(fn: Callable[..., Any]) -> Any:
    """A decorator: the method is compiled although ``forward`` does not call it.

    Args:
        fn: the method

    Example:
        >>> class Both(facula.nn.ReLU):
        ...     @facula.jit.export
        ...     def size(self, x: facula.Tensor) -> int:
        ...         return x.dim()
        >>> Both().size(facula.ones(2, 3))
        2
    """
    return _marked(fn, "export")


def script_method(fn: Callable[..., Any]) -> Any:
    """Marks a method of a subclass of `ScriptModule` to be compiled.

    Args:
        fn: the method

    Example:
        >>> class Double(facula.jit.ScriptModule):
        ...     @facula.jit.script_method
        ...     def forward(self, x):
        ...         return x * 2
        >>> Double()(facula.ones(1))
        tensor([2.])
    """
    return export(fn)


def interface(obj: Any) -> Any:
    """A decorator of a class of methods without bodies: any scripted class with these methods is of
    this type.

    Args:
        obj: the class; its base is `nn.Module` where modules are meant, and nothing else

    Raises:
        RuntimeError: the class has another base.

    Example:
        >>> @facula.jit.interface
        ... class OneTensor:
        ...     def forward(self, x: facula.Tensor) -> facula.Tensor:
        ...         pass
    """
    odd = [base.__name__ for base in obj.__bases__ if base is not object and base is not Module]
    if odd:
        fail(RuntimeError, "jit.interface", f"a class without bases was required ({obj.__name__} does not "
                                            f"support inheritance "
             "yet. Please directly inherit from nn.Module, or from nothing)", ", ".join(odd),
             hint="write the methods of the base into the interface")  # fmt: skip
    obj.__torch_script_interface__ = True
    return obj


#: overloads by the name of the function
OVERLOADS: dict[str, list[Any]] = {}


def _declares_only(func: Callable[..., Any]) -> bool:
    """Whether a function has no body but `pass`, `...` and texts; True where its source is not to be had."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(func)))
    except (OSError, TypeError, SyntaxError):
        return True
    definition = tree.body[0]
    body = definition.body if isinstance(definition, ast.FunctionDef) else []
    return all(
        isinstance(n, ast.Pass) or isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        for n in body
    )


def _overload(func: Callable[..., Any]) -> Any:
    """One of the declarations among which the arguments' types choose."""
    if not _declares_only(func):
        fail(RuntimeError, "jit._overload", "a declaration was required (Only `pass` statement or `...` can "
                           "be the body "
             "of an overload)", func.__qualname__, hint="the implementation follows, without the "
             "decorator")  # fmt: skip
    OVERLOADS.setdefault(f"{func.__module__}.{func.__qualname__}", []).append(func)
    return func


_overload_method = _overload


def annotate(the_type: object, the_value: object) -> Any:
    """The value itself; scripted code takes its type from here.

    Args:
        the_type: such as ``List[int]``
        the_value: of that type

    Example:
        >>> facula.jit.annotate(list[int], [])
        []
    """
    return the_value


class Attribute:
    """A value together with the type that scripted code gives it.

    Args:
        value: the value
        type: its type

    Example:
        >>> facula.jit.Attribute({}, dict[str, int]).value
        {}
    """

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


def is_scripting() -> bool:
    """Whether the code is scripted: Python never sees True.

    Example:
        >>> facula.jit.is_scripting()
        False
    """
    return False


TRACING: list[Any] = []


def is_tracing() -> bool:
    """Whether `trace` is recording.

    Example:
        >>> facula.jit.is_tracing()
        False
    """
    return bool(TRACING)


is_scripting._jit_question = is_tracing._jit_question = True  # type: ignore[attr-defined]


def script_if_tracing(fn: Callable) -> Callable:
    """A decorator: the function is compiled once a trace comes by, so that its control flow stays.

    Args:
        fn: the function

    Example:
        >>> @facula.jit.script_if_tracing
        ... def double(x):
        ...     return x * 2
        >>> double(facula.ones(1))
        tensor([2.])
    """

    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> Any:
        if not is_tracing():
            return fn(*args, **kwargs)
        return SCRIPT[0](fn)(*args, **kwargs)

    wrapper.__original_fn = fn  # type: ignore[attr-defined]
    wrapper.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return wrapper


#: `script`, filled by the package
SCRIPT: list[Any] = []
