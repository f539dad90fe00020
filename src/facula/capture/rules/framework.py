"""Rules for functions of the framework that lie above the core.

Takes: the table of rules. Gives: entries for questions about modes, and for functions that run the
engine.
Keeps true: a function that changes a mode is one of `MODE_FUNCTIONS`, so that it is both in the graph
and in effect while the program is captured.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import autograd, core
from facula.autograd import autocast
from facula.autograd.checkpoint import checkpoint
from facula.capture.breaks import Break
from facula.capture.exports import is_exporting
from facula.capture.interpreter.inner_graphs import given_of
from facula.capture.rules import higher_order
from facula.capture.values.graph_ops import MODE_FUNCTIONS
from facula.capture.values.kinds import LITERAL_TYPES, Known, ObjectValue, TensorValue
from facula.namespaces import functional
from facula.nn.modules.lazy import LazyModuleMixin

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic


def put(rules: dict) -> None:
    """Fill in the rules."""
    for name in ("backward", "grad"):
        rules[getattr(autograd, name)] = _engine(name)
    rules[functional.is_tensor] = lambda d, args, kwargs: Known(
        isinstance(d.force(args[0]), TensorValue)
    )
    for name in vars(autocast):
        if name.startswith(("is_autocast", "get_autocast")):
            rules[getattr(autocast, name)] = _question(getattr(autocast, name))
        elif name.startswith(("set_autocast", "autocast_", "clear_autocast")):
            MODE_FUNCTIONS.add(getattr(autocast, name))
    rules[core.is_grad_enabled] = _question(core.is_grad_enabled)
    _questions_about_compiling(rules)
    _functions_as_nodes(rules)
    higher_order.put(rules)


def _engine(name: str) -> Any:
    def run(d: Symbolic, args: list, kwargs: dict) -> Any:
        raise Break("backward", f"autograd.{name}")

    return run


def _question(function: Callable[..., Any]) -> Any:
    return lambda d, args, kwargs: d.trusted(function(*[d.constant_of(arg) for arg in args]))


def is_compiling() -> bool:
    """Whether the program is captured, or traced for export, now; False when it simply runs.

    Example:
        >>> facula.compiler.is_compiling()
        False
        >>> facula.compile(lambda x: x + facula.compiler.is_compiling())(facula.zeros(1))
        tensor([1.])
    """
    return is_exporting()


def graph_break(msg: str = "") -> None:
    """End the captured graph here; nothing happens when the program simply runs."""


def assume_constant_result(function: Any) -> Any:
    """Calls a function once, while the program is captured, and keeps its result.

    Args:
        function: what is called, without tensors

    Example:
        >>> @facula.compiler.assume_constant_result
        ... def factor():
        ...     return 3
        >>> facula.compile(lambda x: x * factor(), fullgraph=True)(facula.ones(2))
        tensor([3., 3.])
    """
    function._facula_constant_result = True
    return function


@functools.cache
def applied(cls: type) -> Any:
    """`cls.apply` of an autograd function as one function object, as a node needs it."""

    def apply(*args: object, **kwargs: object) -> Any:
        return cls.apply(*args, **kwargs)  # type: ignore[attr-defined]

    apply.__name__ = apply.__qualname__ = f"{cls.__name__}_apply"
    return apply


def _with_objects(d: Symbolic, function: Callable[..., Any], args: list) -> tuple[Any, list]:
    """A function with the objects among its arguments bound, and the arguments that are left.

    Such an object is one of the outside whose attributes are plain values; these are guarded.
    """
    bound: dict[int, Any] = {}
    for n, value in enumerate(map(d.force, args)):
        if (
            not isinstance(value, ObjectValue)
            or value.real is None
            or d.is_module_class(value.kind)
        ):
            continue
        names = getattr(value.real, "__dict__", None)
        written = value.attributes is not None and value.attributes.overwritten
        if not isinstance(names, dict) or written or hasattr(value.kind, "__slots__"):
            continue
        if all(type(held) in LITERAL_TYPES for held in names.values()):
            source = value.source.attr("__dict__")
            d.guards.add("type", value.source, value.kind)
            d.guards.add("keys", source, list(names))
            for name, held in names.items():
                d.guards.add("equal", source.item(name), held)
            bound[n] = value.real
    if not bound:
        return function, args

    def apply(*rest: object, **kwargs: object) -> Any:
        left = iter(rest)
        given = [bound[n] if n in bound else next(left) for n in range(len(args))]
        return function(*given, **kwargs)

    apply.__name__ = apply.__qualname__ = function.__name__
    return apply, [arg for n, arg in enumerate(args) if n not in bound]


def _apply(d: Symbolic, args: list, kwargs: dict) -> Any:
    """`Function.apply`: one node."""
    objects = [v for v in map(d.force, args[1:]) if isinstance(v, ObjectValue) and v.real]
    before = [dict(getattr(value.real, "__dict__", {})) for value in objects]
    function, given = _with_objects(d, applied(d.constant_of(args[0])), args[1:])
    result = d.graph_call(function, given, kwargs)
    if before != [dict(getattr(value.real, "__dict__", {})) for value in objects]:
        for value, names in zip(objects, before, strict=True):
            vars(value.real).clear()
            vars(value.real).update(names)
        raise Break("unsupported-mutation", "an object that an autograd function changes")
    return result


class Uninitialised(Exception):  # noqa: N818 - it is no error
    """A lazy module has to make its parameters before capture can go on."""

    def __init__(self, module: Any, args: tuple, kwargs: dict) -> None:
        self.given = module, args, kwargs

    def make(self) -> None:
        """Make them, from arguments of the same shapes."""
        module, args, kwargs = self.given
        module._infer_parameters(module, args, kwargs)


def _infer(d: Symbolic, args: list, kwargs: dict) -> Any:
    """What a lazy module does before its first forward: done ahead, and captured behind it."""
    module = d.force(args[1])
    if not isinstance(module, ObjectValue) or module.real is None:
        raise Break("unsupported-call", "the first call of a lazy module that the program makes")
    words = d.keywords(args[3]) if len(args) > 3 else {}
    given, _, _ = given_of(d, (tuple(d.unpack_all(args[2])), words))
    raise Uninitialised(module.real, *given)


def _functions_as_nodes(rules: dict) -> None:
    rules[LazyModuleMixin._infer_parameters] = _infer
    rules[autograd.Function.apply.__func__] = _apply  # type: ignore[attr-defined]
    own = (
        "use_reentrant",
        "preserve_rng_state",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
    )
    rules[checkpoint] = lambda d, args, kwargs: d.call(
        args[0], args[1:], {name: value for name, value in kwargs.items() if name not in own}
    )
    rules[sys.exc_info] = _exc_info
    rules[sys.exception] = _handled


def _handled(d: Symbolic, args: list, kwargs: dict) -> Any:
    for frame in reversed(d.frames):
        if frame.handling is not None and not d.is_none(frame.handling):
            return frame.handling
    return Known(None)


def _exc_info(d: Symbolic, args: list, kwargs: dict) -> Any:
    handled = _handled(d, args, kwargs)
    if d.is_none(handled):
        return d.constant((None, None, None))
    return d.build_tuple(d.exception_triple(handled))


def _module_tracers(d: Symbolic, args: list, kwargs: dict) -> Any:
    """What `Module.__call__` asks first; nothing traces modules while programs are captured."""
    if core.module_tracers() != (None, None):
        raise Break("unsupported-call", "a module under a tracer of modules")
    return d.constant((None, None))


def _questions_about_compiling(rules: dict) -> None:
    rules[core.module_tracers] = _module_tracers
    rules[is_compiling] = lambda d, args, kwargs: Known(True)
    rules[is_exporting] = lambda d, args, kwargs: Known(is_exporting())

    def explicit(d: Symbolic, args: list, kwargs: dict) -> Any:
        raise Break("explicit", "graph_break()")

    rules[graph_break] = explicit
