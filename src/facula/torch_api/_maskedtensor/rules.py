"""What operators do with masked tensors: rules by name, and what follows from a definition without one.

Takes: calls of functions (with history of their own) and of operators (below the tape). Gives: results,
masked tensors of the operator's result on the elements, with the mask that this result has.
Keeps true: an operator is known by its definition. A reduction is the masked operator of the same name;
an elementwise operator needs operands of one mask; a view, and what moves elements, does to the mask
what it does to the elements; a composite runs through; anything else is an error.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces.overrides import as_operator
from facula.ops.table.registry import PLACES, TABLE, F

from . import methods  # noqa: F401  (fills the tables)
from .arguments import BELOW, METHODS, RULES, call, masked_in, over, refuse, rule, unsupported
from .core import RUN, is_masked_tensor, same_places, with_values, wrapped
from .masks import common_mask
from .reductions import reduced

Tensor = core.Tensor

# ------------------------------------------------------------------ calls


def _function(func: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that a program calls: its history is that of what runs on the elements."""
    func, args = as_operator(func, args)
    if isinstance(func, core.Op):
        bound, out = core.bind_arguments(func, args, kwargs)
        if out is not None:
            refuse(func.name, "a result of its own was required", "out=")
        return _run(func, bound)
    method = METHODS.get(getattr(func, "__name__", ""))
    if method is not None:
        return method(*args, **kwargs)
    return core.run_without_overrides(func, args, kwargs)


def _dispatch(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator below the tape: history is recorded above."""
    func = overload._op
    if isinstance(func, core.InplaceOp):
        return _inplace(func, args, kwargs)
    below = BELOW.get(overload._opname)
    if below is not None:
        return below(*args, **kwargs)
    args, kwargs = over(args, _bare), {k: over(v, _bare) for k, v in kwargs.items()}
    if isinstance(func, core.Op):
        return _run(func, core.bind_arguments(func, args, kwargs)[0])
    known = TABLE.get(overload._opname)
    if known is None:
        unsupported(overload._opname)
    return _run(known, core.bind_arguments(known, args, kwargs)[0])


def _bare(masked: Any) -> Any:
    """The same parts without history."""
    return wrapped(masked._masked_data, masked._masked_mask) if masked.requires_grad else masked


RUN.update(function=_function, dispatch=_dispatch)


def _run(op: core.Op, bound: tuple[Any, ...]) -> Any:
    """An operator on arguments in schema order."""
    definition = op.definition
    found = RULES.get(op.name)
    if found is not None:
        return found(*bound)
    if definition.kind == "pointwise" or definition.elementwise:
        return _elementwise(op, bound)
    if len(definition.schema.results) == 1 and _has_masked_form(op):
        return reduced(op, bound)
    if definition.kind == "view" or definition.rearranges:
        return _moved(op, bound)
    if definition.kind == "composite":
        return core.run_implementation(op, bound)
    return unsupported(op.name)


def _has_masked_form(op: core.Op) -> bool:
    return PLACES["masked"].get(op.definition.public_name, op) is not op


# ------------------------------------------------------------------ elementwise operators


def _elementwise(op: core.Op, bound: tuple[Any, ...]) -> Any:
    masked = masked_in(bound)
    if masked[0].is_sparse:
        return _on_values(op, bound, masked)
    result = call(op, [over(v, lambda m: m.get_data()) for v in bound])
    return wrapped(result, common_mask(op.name, masked, result.shape))


def _on_values(op: core.Op, bound: tuple[Any, ...], masked: list[Any]) -> Any:
    """An elementwise operator of sparse masked tensors: on what they store."""
    mask = common_mask(op.name, masked, masked[0].shape)

    def stored(value: Any) -> Any:
        if is_masked_tensor(value):
            return value.get_data().values()
        if isinstance(value, Tensor) and value.dim():
            return _stored_at(op.name, value, mask)
        return value

    return wrapped(with_values(mask, call(op, [stored(v) for v in bound])), mask)


def _stored_at(name: str, tensor: core.Tensor, mask: core.Tensor) -> Any:
    """What an ordinary operand has where a sparse mask stores elements."""
    if tensor.layout is core.strided:
        return tensor.expand(mask.shape).sparse_mask(mask).values()
    tensor = tensor.coalesce() if tensor.layout is core.sparse_coo else tensor
    if tensor.layout is not mask.layout or not same_places(tensor, mask):
        fail(
            ValueError,
            name,
            "sparse operands that store elements at the same places were required",
            "indices that differ",
            hint="tensor.to_dense() is taken at any places",
        )
    return tensor.values()


def _inplace(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The in-place form: the elements are written, the mask stays."""
    target, op = args[0], func.op
    if not is_masked_tensor(target):
        refuse(op.name, "a masked tensor as what is written to was required", "an ordinary one")
    if not (op.definition.kind == "pointwise" or op.definition.elementwise):
        unsupported(op.name + "_")
    bound = core.bind_arguments(op, args, kwargs)[0]
    if target.is_sparse:
        target._masked_data = _elementwise(op, bound)._masked_data
        return target
    common_mask(op.name + "_", masked_in(bound), target.shape)
    positional, named = op.definition.trim(tuple(over(list(bound), lambda m: m._masked_data)))
    func(*positional, **named)
    return target


# ------------------------------------------------------------------ what moves elements


def _moved(op: core.Op, bound: tuple[Any, ...]) -> Any:
    """A view, or an operator that takes elements by their places: the same of the mask."""
    masked = masked_in(bound)
    if any(m.is_sparse for m in masked):
        fail(
            TypeError,
            op.name,
            "strided masked tensors were required",
            str(masked[0].layout),
            hint="mt.to_dense() makes one",
        )
    data = call(op, [over(v, lambda m: m.get_data()) for v in bound])
    return _zipped(data, call(op, [_masks(v) for v in bound]))


def _masks(value: Any) -> Any:
    """The mask of an operand; all of an ordinary tensor beside masked ones counts."""
    if is_masked_tensor(value):
        return value._masked_mask
    if isinstance(value, (list, tuple)) and masked_in(value):
        return type(value)(
            F.ones(v.shape, dtype=core.bool_, device=v.device)
            if isinstance(v, Tensor) and not is_masked_tensor(v)
            else _masks(v)
            for v in value
        )
    return value


def _zipped(data: object, mask: core.Tensor) -> Any:
    if isinstance(data, (list, tuple)):
        return type(data)(_zipped(d, m) for d, m in zip(data, mask, strict=True))
    return wrapped(data, mask)


@rule("where")
def _where(condition: Any, self: Any, other: Any) -> Any:
    """Elements, and whether they count, from where the condition says."""
    plain = condition.get_data() if is_masked_tensor(condition) else condition
    parts = [v.get_data() if is_masked_tensor(v) else v for v in (self, other)]
    data = F.where(plain, *parts)
    masks = [
        v.get_mask() if is_masked_tensor(v) else F.ones((), dtype=core.bool_) for v in (self, other)
    ]
    mask = F.where(plain, *masks).expand(data.shape)
    return wrapped(data, mask & condition.get_mask() if is_masked_tensor(condition) else mask)
