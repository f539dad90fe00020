"""Row operators as their programs, computed by reductions and elementwise operators.

Takes: the arguments of an operator that a row program computes.  Gives: its results by `amax`, `sum`
and the like, and primitives.
Keeps true: the program is the one that kernels are written from; a row is one dimension (the last one
for norms, whose normalised dimensions are merged); statistics are in the compute dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula.ops.programs.row  # noqa: F401  (fills the table)
from facula import core
from facula.lower.decompositions.pointwise import Namespace
from facula.ops.expr import rows, scalar
from facula.ops.table import pointwise_rules as evaluation
from facula.ops.table.registry import F

Tensor = core.Tensor

_FOLDS: dict[str, Callable[[Any, int], Any]] = {
    "sum": lambda x, dim: F.sum(x, dim, True),
    "prod": lambda x, dim: F.prod(x, dim, True),
    "max": lambda x, dim: F.amax(x, dim, True),
    "min": lambda x, dim: F.amin(x, dim, True),
}


def _program(name: str) -> rows.RowProgram:
    return rows.ROW_PROGRAMS[name]


def run_rows(name: str, operands: list[Any], dim: int, parameters: tuple[Any, ...] = ()) -> list:
    """The results of a row program; operands broadcast against rows along `dim`."""
    program = _program(name)
    first = operands[0]
    code = rows.COMPUTE[first.dtype.code]
    traced = rows.trace_rows(program, first.dtype.code)
    wide = evaluation._DTYPE_OF[code]
    run = _Run(Namespace(wide, first.device), dim, first.shape)
    for number, operand in enumerate(operands):
        leaf = scalar.input(rows.OPERAND + number, code)
        run.known[id(leaf)] = operand if operand.dtype is wide else operand.to(wide)
    for name_, value in zip(program.parameters, parameters, strict=True):
        run.known[id(scalar.parameter(name_, "f64"))] = value
    for fold in traced.folds:
        value = run.value(fold.expression)
        run.known[id(fold.leaf)] = _FOLDS[fold.operation](run.full(value), dim)
    made = []
    for operand, result in zip(program.outputs, traced.results, strict=True):
        value = run.value(result)
        made.append(value.to(first.dtype) if operand.dtype == "storage" else value)
    return made


class _Run:
    """Evaluates expressions of a program whose leaves are known."""

    def __init__(self, namespace: Namespace, dim: int, shape: Any) -> None:
        self.namespace = namespace
        self.dim = dim
        self.shape = shape
        #: the value of an expression, by identity: expressions are unique
        self.known: dict[int, Any] = {}

    def value(self, expression: Any) -> Any:
        """The value of an expression."""
        length = scalar.input(rows.LENGTH, expression.dtype)
        self.known.setdefault(id(length), float(self.shape[self.dim]))
        leaves, values = [], []
        for current in scalar.topological_order((expression,)):
            if current.op in ("input", "parameter") or id(current) in self.known:
                leaves.append(current)
                values.append(self._leaf(current))
        traced = scalar.Traced((expression,), tuple(leaves), ())
        return scalar.evaluate(traced, values, (), self.namespace)[0]

    def _leaf(self, leaf: Any) -> Any:
        if id(leaf) not in self.known and leaf.op == "input" and leaf.value == rows.LENGTH:
            self.known[id(leaf)] = float(self.shape[self.dim])
        return self.known[id(leaf)]

    def full(self, value: object) -> Any:
        """A value that may be a number, as a tensor over the rows."""
        if isinstance(value, Tensor):
            return value
        return F.full(tuple(self.shape), value, dtype=self.namespace.dtype)


def _along(name: str) -> Callable[..., Any]:
    def one(self: Tensor, dim: int, dtype: core.dtype | None = None) -> Any:
        x = self if dtype is None else self.to(dtype)
        x = x.reshape(1) if x.dim() == 0 else x
        return run_rows(name, [x], dim % x.dim())[0].reshape(self.shape)

    return one


def _along_backward(name: str) -> Callable[..., Any]:
    def two(grad: Tensor, output: Tensor, dim: int) -> Any:
        y = output.reshape(1) if output.dim() == 0 else output
        found = run_rows(name, [grad.to(y.dtype).reshape(y.shape), y], dim % y.dim())
        return found[0].reshape(output.shape)

    return two


def _merged(x: Tensor, normalized_shape: tuple[Any, ...]) -> tuple[Tensor, list[int]]:
    """The normalised dimensions as one, and the shape of the statistics."""
    kept = x.dim() - len(normalized_shape)
    lead = list(x.shape[:kept])
    return x.reshape([*lead, math.prod(normalized_shape)]), [*lead, *(1,) * len(normalized_shape)]


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Any, ...]:
    """The normalised tensor, the mean and the inverse deviation of each row."""
    flat, statistics = _merged(input, normalized_shape)
    operands, name = [flat], "layer_norm"
    if weight is not None or bias is not None:
        operands.append((F.ones_like(bias) if weight is None else weight).reshape(-1))
        name += ".weight"
    if bias is not None:
        operands.append(bias.reshape(-1))
        name += ".bias"
    y, mean, rstd = run_rows(name, operands, flat.dim() - 1, (float(eps),))
    return y.reshape(input.shape), mean.reshape(statistics), rstd.reshape(statistics)


def fused_rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor, eps: float
) -> tuple[Any, ...]:
    """The normalised tensor and the inverse root mean square of each row."""
    flat, statistics = _merged(input, normalized_shape)
    operands, name = [flat], "rms_norm"
    if weight is not None:
        operands.append(weight.reshape(-1))
        name += ".weight"
    y, rstd = run_rows(name, operands, flat.dim() - 1, (float(eps),))
    return y.reshape(input.shape), rstd.reshape(statistics)


#: operator name -> its row program, run by operators
PROGRAMS: dict[str, Callable[..., Any]] = {
    "softmax": _along("softmax"),
    "log_softmax": _along("log_softmax"),
    "softmax_backward": _along_backward("softmax.backward"),
    "log_softmax_backward": _along_backward("log_softmax.backward"),
    "native_layer_norm": native_layer_norm,
    "fused_rms_norm": fused_rms_norm,
}
