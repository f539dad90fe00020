"""How operators treat sparse tensors: the rules, and what follows from a definition without one.

Takes: calls that the core hands over because an argument is sparse (`core.SPARSE`). Gives: results.
Keeps true: a rule stands beside the others of its family, by the name of the operator; an elementwise
operator without one runs on the values where it maps zero to zero, which its own kernel says; a
composite without one runs through; anything else raises as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.sparse_layouts.tensor import (
    COO,
    SparseTensor,
    assign,
    layout_word,
    rebuilt,
    values_of,
)
from facula.ops.table.registry import TABLE, F

Tensor = core.Tensor

#: operator name -> function of the operator's arguments; `NotImplemented`: as if there were none
RULES: dict[str, Callable[..., Any]] = {}
#: the same for in-place forms whose target is dense
INPLACE_RULES: dict[str, Callable[..., Any]] = {}
#: operators that take sparse tensors as they are: what values and places are made with
PRIMITIVES = frozenset(("_sparse_compose", "_sparse_values"))


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what the named operators do with sparse arguments."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def inplace_rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what the in-place forms do to a dense tensor with sparse arguments."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        INPLACE_RULES.update(dict.fromkeys(names, function))
        return function

    return enter


def _sparse_arguments(args: tuple[Any, ...]) -> list[SparseTensor]:
    found = []
    for a in args:
        if isinstance(a, SparseTensor):
            found.append(a)
        elif isinstance(a, (tuple, list)):
            found += [x for x in a if isinstance(x, SparseTensor)]
    return found


def _other_class(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The class of an argument that is not sparse and has rules of its own: quantized tensors."""
    for a in (*args, *kwargs.values()):
        for x in a if isinstance(a, (tuple, list)) else (a,):
            if hasattr(type(x), "_route"):
                return type(x)
    return None


def route(op: core.Op, function: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One call of an operator, or of its in-place form, that has a sparse argument."""
    other = _other_class(args, kwargs)
    if other is not None:
        return other._route(op, function, args, kwargs)
    if op.name in PRIMITIVES:
        return NotImplemented
    bound, out = core.bind_arguments(op, args, kwargs)
    if function is not op:
        return _inplace(op, bound)
    result = run(op, bound)
    return result if out is None else _stored(op, out, result)


def run(op: core.Op, args: tuple[Any, ...]) -> Any:
    """The functional form on arguments in schema order."""
    found = RULES.get(op.name)
    if found is not None:
        result = found(*args)
        if result is not NotImplemented:
            return result
    kind = op.definition.kind
    if kind == "pointwise":
        result = on_values(op, args)
        if result is not NotImplemented:
            return result
    if kind == "composite":
        return core.run_implementation(op, args)
    return unsupported(op, args)


def unsupported(op: Any, args: Any) -> Any:
    """Raise for an operator that sparse tensors do not have."""
    sparse = _sparse_arguments(args)[0]
    definition = getattr(op, "definition", None)
    if sparse._form is not COO and definition is not None and definition.kind == "pointwise":
        word = layout_word(sparse._form)
        fail(
            RuntimeError, op.name, f"unsupported tensor layout: {word}", hint="use to_dense() first"
        )
    fail(
        NotImplementedError,
        op.name,
        f"Could not run 'aten::{op.name}' with arguments from the "
        f"'{layout_word(sparse._form)}CPU' backend",
        hint="use to_dense() first",
    )


# ------------------------------------------------------------------ elementwise operators

_keeps_zero: dict[Any, bool] = {}


def keeps_zero(op: core.Op, args: tuple[Any, ...], position: int) -> bool:
    """Whether an elementwise operator maps zero at `position` to zero, its other arguments given."""
    key = (
        op.name,
        args[position].dtype,
        position,
        *map(str, args[:position] + args[position + 1 :]),
    )
    if key not in _keeps_zero:
        zero = F.zeros((1,), dtype=args[position].dtype)
        with_zero = (*args[:position], zero, *args[position + 1 :])
        _keeps_zero[key] = not bool(
            (op(*with_zero[: _positional(op)], **_keywords(op, with_zero)) != 0).any()
        )
    return _keeps_zero[key]


def _positional(op: core.Op) -> int:
    return sum(not p.keyword_only for p in op.definition.schema.parameters)


def _keywords(op: core.Op, args: tuple[Any, ...]) -> dict[str, Any]:
    pairs = zip(op.definition.schema.parameters, args, strict=True)
    return {p.name: a for p, a in pairs if p.keyword_only}


def on_values(op: core.Op, args: tuple[Any, ...]) -> Any:
    """An elementwise operator of one sparse tensor and numbers, on its values."""
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    if len(places) != 1:
        return NotImplemented
    position = places[0]
    if not keeps_zero(op, args, position):
        return NotImplemented
    sparse = args[position]
    if sparse._form is COO and not sparse._unique:
        sparse = F.coalesce(sparse)
    given = (*args[:position], values_of(sparse), *args[position + 1 :])
    values = op(*given[: _positional(op)], **_keywords(op, given))
    return rebuilt(sparse, values)


# ------------------------------------------------------------------ results that are given


def _inplace(op: core.Op, args: tuple[Any, ...]) -> Any:
    target = args[0]
    if not isinstance(target, SparseTensor):
        found = INPLACE_RULES.get(op.name)
        result = found(*args) if found is not None else NotImplemented
        return target.copy_(_dense(run(op, args))) if result is NotImplemented else result
    result = run(op, args)
    if not isinstance(result, SparseTensor):
        fail(
            RuntimeError,
            f"{op.name}_",
            "a sparse result was required",
            "a dense one",
            hint=f"{op.name}() without the underscore returns the dense result",
        )
    if result.shape != target.shape and op.definition.kind == "pointwise":
        fail(
            RuntimeError,
            f"{op.name}_",
            f"a result of the shape of self, {list(target.shape)}",
            list(result.shape),
            hint=f"{op.name}() without the underscore returns a tensor of that shape",
        )
    if result.dtype is not target.dtype:
        if not core.can_cast(result.dtype, target.dtype):
            fail(
                RuntimeError,
                f"{op.name}_",
                f"result type {result.dtype} can't be cast to the desired output type",
                target.dtype,
                hint=f"convert self with .to({result.dtype}) first",
            )
        result = result.to(target.dtype)
    return assign(target, result)


def _dense(value: object) -> Any:
    return F.to_dense(value) if isinstance(value, SparseTensor) else value


def _stored(op: core.Op, out: Any, result: Any) -> Any:
    if isinstance(out, SparseTensor):
        if not isinstance(result, SparseTensor):
            fail(
                RuntimeError,
                op.name,
                "a dense out= was required",
                out.layout,
                hint="call it without out=",
            )
        return assign(out, result)
    if isinstance(result, SparseTensor):
        fail(
            RuntimeError,
            op.name,
            "a sparse out= was required",
            out.layout,
            hint="call it without out=",
        )
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


# ------------------------------------------------------------------ methods that are no operators


def route_method(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method of the core whose tensor, or an argument, is sparse."""
    other = _other_class(args, kwargs)
    if other is not None:
        return other._route_method(function, args, kwargs)
    name = function.__name__.removeprefix("m_")
    target = args[0]
    if isinstance(target, SparseTensor):
        own = vars(SparseTensor).get(name)
        if own is not None:
            return own(*args, **kwargs)
        return unsupported(_Named(name), args)
    if name == "copy_":
        fail(
            RuntimeError,
            "copy_",
            "copy_() between dense and sparse Tensors is not implemented: a dense source",
            args[1].layout,
            "use copy_(other.to_dense())",
        )
    return unsupported(_Named(name), args)


class _Named:
    """A method, as error texts need it."""

    def __init__(self, name: str) -> None:
        self.name = name


core.SPARSE[0] = route
core.SPARSE[1] = route_method
core.SPARSE[2] = _other_class

__all__ = ["RULES", "TABLE", "inplace_rule", "on_values", "route", "rule", "run"]
