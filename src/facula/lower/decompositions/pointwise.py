"""Elementwise operators as their scalar expression, computed by primitive operators.

Takes: an elementwise operator and a call's arguments.  Gives: its result by operators that are scalar
primitives, `where`, `clamp` and casts.
Keeps true: the expression is the one that kernels are written from; 16-bit floats are computed in f32
and rounded once; numbers stay numbers, so that a traced program holds no constant tensors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from facula import core
from facula.autograd.transforms.levels import Suspended
from facula.fx.symbols import plain
from facula.ops.expr import scalar
from facula.ops.expr.primitives import PRIMITIVES
from facula.ops.table import pointwise_rules as evaluation
from facula.ops.table.registry import F

Tensor = core.Tensor

#: what expressions are made of besides the primitives
CONSTRUCTORS = frozenset(("where", "clamp"))
#: the operator that a scalar function is, where it has another name
_SPELLED = {"cond_and": "logical_and", "cond_or": "logical_or"}


def is_primitive(operator: core.Op) -> bool:
    """Whether an elementwise operator is a scalar primitive, and so made of nothing else."""
    name = operator.name.removeprefix("_")  # what composites of the same name call
    return name in PRIMITIVES or operator.name in CONSTRUCTORS


class Namespace:
    """The scalar operations on tensors and numbers, in a compute dtype."""

    def __init__(self, dtype: core.dtype, device: core.device | None) -> None:
        self.dtype = dtype
        self.device = device

    def _tensor(self, x: object) -> Tensor:
        if isinstance(x, Tensor):
            return x
        kind = core.bool_ if isinstance(x, bool) else self.dtype
        return F.full((), x, dtype=kind, device=self.device)

    def __getattr__(self, name: str) -> Any:
        function = getattr(F, _SPELLED.get(name, name))
        strict = bool(function.definition.kind == "pointwise" and function.definition.strict)

        def call(*args: Any) -> Any:
            if strict:
                args = tuple(self._tensor(a) for a in args)
            elif not any(isinstance(a, Tensor) for a in args):
                args = (self._tensor(args[0]), *args[1:])
            return function(*args)

        return call

    def maximum(self, a: object, b: object) -> Any:
        """The larger value; of a number, by `clamp`."""
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return F.maximum(a, b)
        return F.clamp(a, min=b) if isinstance(a, Tensor) else F.clamp(b, min=a)

    def minimum(self, a: object, b: object) -> Any:
        """The smaller value; of a number, by `clamp`."""
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return F.minimum(a, b)
        return F.clamp(a, max=b) if isinstance(a, Tensor) else F.clamp(b, max=a)

    def cast(self, x: object, code: str) -> Any:
        """`x` in a dtype by its short name."""
        return x.to(evaluation._DTYPE_OF[code]) if isinstance(x, Tensor) else x

    def where(self, condition: object, a: object, b: object) -> Any:
        """`a` where the condition holds, else `b`."""
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            a = self._tensor(a)
        return F.where(condition, a, b)


#: the dtype in which small integers are computed, as kernels do
_WORKED_IN = {"i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32", "u32": "i64"}


def decompose_pointwise(operator: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call, by primitive operators."""
    definition = operator.definition
    bound, out = core.bind_arguments(operator, args, kwargs)
    if out is not None:
        return operator(*args, **kwargs)
    variant, values = core.pointwise_variant(operator, bound)
    parameters = definition.schema.parameters
    operands = [x for p, x in zip(parameters, bound, strict=True) if p.is_tensor]
    tensors = [x for x in operands if isinstance(x, Tensor)]
    code = evaluation._compute_code(definition, variant, values, operands)
    code = _WORKED_IN.get(code, code)
    expression = evaluation.traced(variant, code)
    inputs = _operands(expression, operands)
    namespace = Namespace(evaluation._DTYPE_OF[code], tensors[0].device)
    results = scalar.evaluate(expression, inputs, values, namespace)
    wanted = _result_meta(operator, bound)
    shape = _broadcast(tensors)
    made = [_settled(r, w, shape, namespace) for r, w in zip(results, wanted, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _operands(expression: scalar.Traced, operands: list[Any]) -> list[Any]:
    """The tensors in their compute dtype; numbers as numbers."""
    made = []
    for use, leaf in zip(expression.uses, expression.inputs, strict=True):
        x = operands[use]
        if isinstance(x, Tensor):
            wanted = evaluation._DTYPE_OF[leaf.dtype]
            x = x if x.dtype is wanted else x.to(wanted)
        made.append(x)
    return made


def _result_meta(operator: core.Op, bound: tuple[Any, ...]) -> list[Any]:
    """Shapes and dtypes of the results, from the operator itself on tensors without elements."""
    key = tuple(_described(a) for a in bound)
    return _metas(operator, key)


def _described(a: object) -> Any:
    if isinstance(a, Tensor):  # the example sizes, where sizes are symbols
        return ("tensor", tuple(Tensor.size(a)), a.dtype)
    return ("value", type(a), a)


@cache
def _metas(operator: core.Op, key: tuple[Any, ...]) -> list[Any]:
    with Suspended([]):
        keys = core.thread_keys()
        core.set_thread_keys(0)
        try:
            args = [
                core.empty(k[1], dtype=k[2], device="meta") if k[0] == "tensor" else k[2]
                for k in key
            ]
            positional, keywords = operator.definition.trim(tuple(args))
            result = operator(*positional, **keywords)
        finally:
            core.set_thread_keys(keys)
    results = result if isinstance(result, tuple) else (result,)
    return [core.TensorMeta(r) for r in results]


def _broadcast(tensors: list[Tensor]) -> list[Any] | None:
    """The shape of a result where operands have symbols for sizes, which shape functions lose."""
    if all(getattr(t, "_symbolic", None) is None for t in tensors):
        return None
    rank = max(t.dim() for t in tensors)
    shape: list[Any] = [1] * rank
    for t in tensors:
        for dim, size in enumerate(t.shape, rank - t.dim()):
            shape[dim] = shape[dim] if plain(size) == 1 else size
    return shape


def _settled(result: object, meta: Any, shape: list[Any] | None, namespace: Namespace) -> Tensor:
    """A result in the dtype and shape that the operator gives."""
    wanted = list(meta.shape) if shape is None else shape
    if not isinstance(result, Tensor):
        return F.full(wanted, result, dtype=meta.dtype, device=namespace.device)
    if result.dtype is not meta.dtype:
        result = result.to(meta.dtype)
    return result if Tensor.size(result) == meta.shape else result.expand(wanted)
