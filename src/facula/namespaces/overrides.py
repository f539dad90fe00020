"""Handling facula's functions oneself: `__torch_function__`, on classes and in modes.

Takes classes that define `__torch_function__(cls, func, types, args, kwargs)`, and `TorchFunctionMode`s.
Gives PyTorch's helpers around them; which functions can be overridden follows from the operator table
and from the methods of `Tensor`.
Keeps true: subclasses are asked before their bases, otherwise arguments from left to right; a mode is
not asked about what it calls itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import facula
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import PLACES, TABLE

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode",
    "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

Tensor = core.Tensor
_Function = TypeVar("_Function", bound=Callable[..., Any])
#: what operators are found as in public namespaces
_OPERATORS = (core.Op, core.InplaceOp, core.Alias)
_disabled = core._disabled_torch_function_impl

#: names on Tensor that are never offered to overrides: they make tensors or tell what Python needs to know
_IGNORED_METHODS = frozenset(
    "__class__ __init__ __new__ __init_subclass__ __subclasshook__ __getattribute__ __setattr__ "
    "__delattr__ __dir__ __doc__ __module__ __hash__ __sizeof__ __getstate__ __reduce__ __weakref__ "
    "__torch_function__ __torch_dispatch__ __dict__ __pyx_vtable__ __setstate__ "
    "_make_subclass _make_wrapper_subclass as_subclass __str__".split()
)


#: the methods that Python calls where a tensor stands on the right: the operator that each runs
_REFLECTED = {
    getattr(Tensor, f"__r{word}__"): TABLE[name]
    for word, name in {
        "sub": "sub",
        "truediv": "div",
        "floordiv": "floor_divide",
        "mod": "remainder",
        "pow": "pow",
        "lshift": "bitwise_left_shift",
        "rshift": "bitwise_right_shift",
    }.items()
}


def as_operator(func: object, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A call as overrides hear of it, as one of the operator behind it: `Tensor.__rsub__(x, 1)` is `sub(1, x)`."""
    reflected = _REFLECTED.get(func)
    if reflected is not None and len(args) == 2:
        return reflected, args[::-1]
    return core.operator_of(func), args


def _handler(value: object) -> Any:
    found = getattr(type(value), "__torch_function__", None)
    if type(value) is Tensor or found is None or found is _disabled:
        return None
    return None if getattr(found, "__func__", None) is _disabled else found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a function mode is active, or one of the arguments handles functions itself.

    Args:
        relevant_args: an iterable

    Example:
        >>> facula.nn.functional.has_torch_function((facula.ones(1),))
        False
    """
    if not hasattr(relevant_args, "__iter__"):
        fail(
            TypeError,
            "has_torch_function",
            "an iterable was required (expected a sequence)",
            type(relevant_args).__name__,
            hint="has_torch_function_unary(x) asks about one argument",
        )
    if core.FUNCTION_MODES:
        return True
    return any(_handler(value) is not None for value in relevant_args)


def has_torch_function_unary(value: object) -> bool:
    """`has_torch_function` of one argument.

    Args:
        value: the argument

    Example:
        >>> facula.nn.functional.has_torch_function_unary(facula.ones(1))
        False
    """
    return has_torch_function((value,))


def has_torch_function_variadic(*values: object) -> bool:
    """`has_torch_function` of several arguments.

    Args:
        *values: the arguments

    Example:
        >>> facula.nn.functional.has_torch_function_variadic(facula.ones(1), 2)
        False
    """
    return has_torch_function(values)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: object, **kwargs: object
) -> Any:
    """Has a function handled by the active mode or by its arguments.

    Args:
        public_api: the function that the handlers are told about.
        relevant_args: those of its arguments that may handle it.

    Raises:
        TypeError: every handler returned `NotImplemented`.

    Example:
        >>> from facula.overrides import handle_torch_function
        >>> class Named(facula.Tensor):
        ...     @classmethod
        ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
        ...         return func.__name__
        >>> x = facula.ones(1).as_subclass(Named)
        >>> handle_torch_function(max, (x,), x)
        'max'
    """
    relevant = tuple(relevant_args)
    handling = core.overloaded_arguments(relevant, {})
    types = tuple(type(value) for value in handling)
    if core.FUNCTION_MODES:
        mode = core.pop_function_mode()
        try:
            result = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            core.push_function_mode(mode)
        if result is not NotImplemented:
            return result
    for value in handling:
        result = type(value).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    required = f"no implementation found for '{name}' on types that implement __torch_function__"
    fail(
        TypeError,
        "handle_torch_function",
        required,
        [kind.__name__ for kind in types],
        hint="return a result from one of the __torch_function__ methods instead of NotImplemented",
    )


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Decorates a function so that its arguments may handle it.

    Args:
        dispatcher: takes the function's arguments, gives those that may handle it.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: object, **kwargs: object) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


#: public module, below the package -> the functions in it that are no operators and that objects may handle
_OFFERED: dict[str, dict[str, Any]] = {}


def offered(function: _Function) -> _Function:
    """A function of tensors, which objects that are no tensors may handle: their class defines `__torch_function__`."""

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> Any:
        for value in args or kwargs.values():
            if not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__"):
                return handle_torch_function(wrapped, (*args, *kwargs.values()), *args, **kwargs)
        return function(*args, **kwargs)

    place = function.__module__.partition(".")[2]
    # the package itself has the functions of modules beside this one
    _OFFERED.setdefault(place if "." in place else "", {})[function.__name__] = wrapped
    return cast("_Function", wrapped)


def is_tensor_like(inp: object) -> bool:
    """Whether something is a tensor or handles functions as one."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is a method of Tensor, or the getter of one of its properties."""
    return func in _tensor_functions() or getattr(func, "__name__", "") == "__get__"


def _tensor_members() -> Iterator[tuple[str, Any]]:
    for base in reversed(Tensor.__mro__[:-1]):
        for name, value in vars(base).items():
            if name not in _IGNORED_METHODS:
                yield name, value
    for name in ("__repr__", "__format__", "__reduce_ex__", "__deepcopy__"):
        if hasattr(Tensor, name):
            yield name, getattr(Tensor, name)


@functools.cache
def _tensor_functions() -> dict[Any, str]:
    """Methods and getters of properties, with the names under which Tensor has them."""
    found: dict[Any, str] = {}
    for name, value in _tensor_members():
        if isinstance(value, property) or hasattr(type(value), "__set__"):
            found[value.__get__] = f"{name}.__get__"
        elif callable(value) and not isinstance(value, (staticmethod, classmethod, type)):
            found[getattr(Tensor, name)] = name
    return found


def _public_places() -> Iterator[tuple[str, dict[str, Any]]]:
    """Public modules of operators, below the package, with the functions in them by their names."""
    for place, functions in PLACES.items():
        if place != "Tensor" and not any(part.startswith("_") for part in place.split(".")):
            yield place, {name: f for name, f in functions.items() if not name.startswith("_")}
    yield from _OFFERED.items()


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Namespace -> the functions in it that `__torch_function__` is told about."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for place, functions in _public_places():
        namespace: Any = facula
        for part in place.split(".") if place else ():
            namespace = getattr(namespace, part)
        listed = {id(function): function for function in functions.values()}
        found.setdefault(namespace, []).extend(listed.values())
    found[facula].append(core.tensor)
    found[Tensor] = list(_tensor_functions())
    return found


@functools.cache
def get_ignored_functions() -> frozenset[Any]:
    """Public functions that are never offered to overrides."""
    found = []
    for name in dir(facula):
        value = getattr(facula, name)
        if callable(value) and not isinstance(value, _OPERATORS):
            found.append(value)
    return frozenset(value for value in found if value is not core.tensor and _hashable(value))


def _hashable(value: object) -> bool:
    return type(value).__hash__ is not None


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., int]]:
    """Overridable function -> a function of the same signature that returns -1."""
    found: dict[Callable[..., Any], Callable[..., int]] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _same_signature(function)
    return found


def _same_signature(function: Callable[..., Any]) -> Callable[..., int]:
    import inspect

    def answer(*args: object, **kwargs: object) -> int:
        return -1

    if getattr(function, "__name__", "") == "__get__":
        return lambda self: -1
    try:
        answer.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pass  # a C function without a signature: the answer takes anything
    return answer


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Getters whose results the default `__torch_function__` leaves as they are."""
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}


@functools.cache
def _names(places: int) -> dict[Any, str]:
    """The public names of functions, made anew when further modules (`nn.init`) are loaded: `places` counts those."""
    names: dict[Any, str] = {core.tensor: f"{core.DTYPE_PREFIX[0]}.tensor"}
    for place, functions in _public_places():
        prefix = f"{core.DTYPE_PREFIX[0]}.{place}." if place else f"{core.DTYPE_PREFIX[0]}."
        for name, function in functions.items():
            names.setdefault(function, prefix + name)
    for function, name in _tensor_functions().items():
        names.setdefault(function, f"{core.DTYPE_PREFIX[0]}.Tensor.{name}")
    return names


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of an overridable function, with its module; None for others."""
    names = _names(len(_OFFERED))
    if isinstance(f, _OPERATORS) and f not in names:
        return f"{f.__module__}.{f.__name__}"
    return names.get(f)


class TorchFunctionMode:
    """A block in which `__torch_function__` of this object is asked about every function.

    Subclasses define `__torch_function__(self, func, types, args=(), kwargs=None)`; what they call
    goes to the next mode outside, then to the arguments, then to facula.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        core.push_function_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        core.pop_function_mode()

    @classmethod
    def push(cls, *args: object, **kwargs: object) -> TorchFunctionMode:
        """An object of the class, for `with`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost active mode."""
    return core.FUNCTION_MODES[-1] if core.FUNCTION_MODES else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """The active modes, the innermost last."""
    return list(core.FUNCTION_MODES)


def _count_function_modes() -> int:
    """How many modes are active."""
    return len(core.FUNCTION_MODES)


class _NoOverrides:
    """A block in which subclasses of Tensor are treated as plain tensors."""

    def __enter__(self) -> None:
        self.before = core.set_overrides_disabled(True)

    def __exit__(self, *exception: object) -> None:
        core.set_overrides_disabled(self.before)


DisableTorchFunctionSubclass = _NoOverrides


class DisableTorchFunction(_NoOverrides):
    """A block without overrides, neither of subclasses nor of modes."""

    def __enter__(self) -> None:
        super().__enter__()
        self.modes = [core.pop_function_mode() for _ in range(_count_function_modes())]

    def __exit__(self, *exception: object) -> None:
        for mode in reversed(self.modes):
            core.push_function_mode(mode)
        super().__exit__(*exception)
