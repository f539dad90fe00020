"""Function transforms in captured programs: `vmap`, `grad`, `vjp`, `jvp` and their kin become nodes.

Takes: a transform, the function that it is given, and arguments. Gives: the transform's result.
Keeps true: the transform really runs on stand-ins while the program is captured, and the function is
captured from inside of it, as a graph of its own: so sizes, nesting and errors are the transform's.
Whenever the captured graph runs, the transform runs on that inner graph; tensors that the function reads
from outside are arguments of the node. A function that a transform gives (of `vjp`) is a value of a node.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.autograd import transforms as func
from facula.capture.breaks import Break
from facula.capture.interpreter.inner_graphs import (
    InnerFunction,
    Opaque,
    build,
    given_of,
    split,
    symbolic_of,
)
from facula.capture.values.kinds import FunctionValue, Known, NodeValue, PartialValue

if TYPE_CHECKING:
    from facula.capture.interpreter.symbolic import Symbolic
    from facula.fx import Graph


#: transforms that give a function
_GIVING = ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd", "hessian")
#: the code of the functions that they give -> (transform, what its closure says)
_CODES: dict[types.CodeType, tuple[Any, tuple[str, ...]]] = {}


def call_transformed(made: tuple, function: object, *args: object, **kwargs: object) -> Any:
    """The call of a transformed function; `made` is the transform with its other arguments."""
    transform, more, options = made
    return transform(function, *more, **options)(*args, **kwargs)


def put(table: dict) -> None:
    """Fill in the rules."""
    for name in _GIVING:
        table[getattr(func, name)] = _giving(getattr(func, name))
    table[call_transformed] = _call_transformed
    table[func.vjp] = _immediate(func.vjp, ("has_aux",))
    table[func.linearize] = _immediate(func.linearize, ())
    table[func.jvp] = _jvp(func.jvp)
    table[func.functionalize] = lambda d, args, kwargs: d.force(args[0])
    for transform in (func.vmap, func.grad_and_value, func.jacrev, func.jacfwd):
        given = transform(call_transformed)
        _CODES[given.__code__] = (transform, given.__code__.co_freevars)


def is_transformed(function: Callable[..., Any]) -> bool:
    """Whether a function is what a transform gave."""
    return isinstance(function, types.FunctionType) and function.__code__ in _CODES


def _giving(transform: Callable[..., Any]) -> Any:
    def rule(d: Symbolic, args: list, kwargs: dict) -> Any:
        words = dict(kwargs)
        function = d.force(args[0] if args else words.pop("func"))
        options = {name: d.constant_of(value) for name, value in words.items()}
        more = tuple([d.constant_of(value) for value in args[1:]])
        made = Known((transform, more, options))
        return d.made(PartialValue(Known(call_transformed), [made, function], {}))

    return rule


def _call_transformed(d: Symbolic, args: list, kwargs: dict) -> Any:
    transform, more, options = d.constant_of(args[0])

    def invoke(inner: object, *given: object, **words: object) -> Any:
        return transform(inner, *more, **options)(*given, **words)

    return transformed(d, transform.__name__, invoke, d.force(args[1]), args[2:], kwargs)


def call_given(d: Any, function: FunctionValue, args: list, kwargs: dict) -> Any:
    """A call of a function that a transform gave outside of the program; NotImplemented for others."""
    known = _CODES.get(function.code)
    if known is None:
        return NotImplemented
    transform, names = known
    parts = {name: d.read_cell(cell) for name, cell in zip(names, function.cells, strict=True)}
    inner = parts.pop("func")
    options = {name: d.constant_of(value) for name, value in parts.items()}

    def invoke(real: object, *given: object, **words: object) -> Any:
        return transform(real, **options)(*given, **words)

    return transformed(d, transform.__name__, invoke, inner, args, kwargs)


def _immediate(transform: Callable[..., Any], names: tuple[str, ...]) -> Any:
    """A transform that calls its function at once, with the arguments behind it."""

    def rule(d: Symbolic, args: list, kwargs: dict) -> Any:
        options = {name: d.constant_of(kwargs[name]) for name in names if name in kwargs}

        def invoke(inner: object, *given: object) -> Any:
            return transform(inner, *given, **options)

        return transformed(d, transform.__name__, invoke, d.force(args[0]), args[1:], {})

    return rule


def _jvp(transform: Callable[..., Any]) -> Any:
    def rule(d: Symbolic, args: list, kwargs: dict) -> Any:
        words = dict(zip(("func", "primals", "tangents"), args, strict=False), **kwargs)
        function, primals, tangents = (words.pop(n) for n in ("func", "primals", "tangents"))
        options = {name: d.constant_of(value) for name, value in words.items()}

        def invoke(inner: object, given: object, moved: object) -> Any:
            return transform(inner, given, moved, **options)

        return transformed(d, "jvp", invoke, d.force(function), [primals, tangents], {})

    return rule


def transformed(
    d: Symbolic, name: str, invoke: Callable[..., Any], function: object, args: list, kwargs: dict
) -> Any:
    """The node of a transform, `invoke(function, *args, **kwargs)`, and its result."""
    inner = InnerFunction(d, function)
    given, leaves, template = given_of(d, (tuple(args), dict(kwargs)))
    shown = f"{name} of {inner.name}"

    def on_stand_ins(*_: object) -> Any:
        return invoke(inner, *given[0], **given[1])

    result = d._fake_run(on_stand_ins, [], {}, shown)
    if inner.module is None:
        raise Break("unsupported-call", f"{shown}, which does not call its function")

    def run(graph: Graph, leaves: Any, lifted: Any) -> tuple:
        def real(*inner_args: object, **words: object) -> Any:
            return build(inner.template, graph(*split((inner_args, words))[0], *lifted))

        positional, words = build(template, leaves)
        return tuple(split(invoke(real, *positional, **words))[0])

    run.__name__ = run.__qualname__ = f"{name}_of_{inner.name}"
    graph = d.attach(inner.module, f"{name}_graph")
    lifted = tuple([d.node_of(value) for value in inner.lifted])
    nodes = tuple([d.node_of(value) for value in leaves])
    return _node(d, run, (graph, nodes, lifted), result)


def call_value(d: Any, value: NodeValue, args: list, kwargs: dict) -> Any:
    """A call of a function that a node gave."""
    given, leaves, template = given_of(d, (tuple(args), dict(kwargs)))

    def on_stand_ins(*_: object) -> Any:
        return value.fake(*given[0], **given[1])

    result = d._fake_run(on_stand_ins, [], {}, "a function of a transform")

    def call_result(function: Callable[..., Any], leaves: Any) -> tuple:
        positional, words = build(template, leaves)
        return tuple(split(function(*positional, **words))[0])

    nodes = tuple([d.node_of(leaf) for leaf in leaves])
    return _node(d, call_result, (d.node_of(value), nodes), result)


def _node(d: Symbolic, target: object, args: tuple, result: object) -> Any:
    """A node that gives the tensors and functions of a result, and the result in terms of its parts."""
    values, template = split(result)
    shown = tuple([v if isinstance(v, core.Tensor) else None for v in values])
    node = d._new_node("call_function", target, args, {}, shown)
    d.operator_count += 1
    return symbolic_of(d, template, [d.part_of(node, n, v) for n, v in enumerate(values)])


__all__ = ["Opaque", "call_given", "call_transformed", "call_value", "is_transformed", "put"]
