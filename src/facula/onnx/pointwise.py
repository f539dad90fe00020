"""Pointwise operators as ONNX nodes: their scalar expression, primitive by primitive.

Takes a call of a pointwise operator: its arguments as the graph shows them, and as values. Gives the
values of its results.
Keeps true: the expression is the one that kernels are written from, in the dtype that they compute
in; so every pointwise operator is covered whose primitives are.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx.symbols import plain
from facula.onnx.errors import UnsupportedOperatorError
from facula.onnx.graph import Graph, Value
from facula.onnx.scalars import Namespace
from facula.ops.expr import scalar
from facula.ops.table import pointwise_rules as evaluation

Tensor = core.Tensor
#: whole numbers that expressions know as wider ones
_COMPUTED = {"u8": "i32", "i8": "i32", "i16": "i32", "u16": "i32", "u32": "i64"}


def _example(x: object) -> Any:
    """An argument by which a variant is chosen: sizes by the value that they have in the example."""
    return plain(x) if isinstance(x, int) and not isinstance(x, bool) else x


def write_pointwise(
    graph: Graph, operator: core.Op, shown: list[Any], given: list[Any], metas: list[Any]
) -> Any:
    """The results of a call.

    Args:
        shown: the arguments in schema order, tensors as those without elements.
        given: the same, as values and numbers.
        metas: results without elements.
    """
    definition = operator.definition
    examples = [_example(x) for x in shown]
    if any(isinstance(x, Tensor) and x.dtype.is_complex for x in (*examples, *metas)):
        fail(UnsupportedOperatorError, "onnx.export", "real numbers were required",
             "complex ones", hint="view_as_real() gives the parts")  # fmt: skip
    variant, runtime = core.pointwise_variant(operator, tuple(examples))
    parameters = definition.schema.parameters
    pairs = list(zip(parameters, examples, given, strict=True))
    operands = [x for p, x, _ in pairs if p.is_tensor]
    values = [v for p, _, v in pairs if p.is_tensor]
    code = evaluation._compute_code(definition, variant, runtime, operands)
    code = _COMPUTED.get(code, code)
    expression = evaluation.traced(variant, code)
    dtypes = evaluation._DTYPE_OF
    wide = {leaf.dtype: dtypes[leaf.dtype] for leaf in expression.inputs}
    narrow = _narrow(expression, values, metas)
    if narrow is not None:  # one rounding either way
        wide[code] = narrow
    inputs = [
        _leaf(graph, values[use], wide[leaf.dtype])
        for use, leaf in zip(expression.uses, expression.inputs, strict=True)
    ]
    names = [p.name for p in definition.schema.attributes if p.name in variant.runtime]
    changing = {p.name: v for p, _, v in pairs if isinstance(v, Value)}
    attributes = [
        _leaf(graph, changing[name], wide.get(code, dtypes[code])) if name in changing else number
        for name, number in zip(names, runtime, strict=True)
    ]
    namespace = Namespace(graph, wide.get(code, dtypes[code]), {**dtypes, **wide})
    results = scalar.evaluate(expression, inputs, attributes, namespace)
    return [_settled(graph, r, m, values) for r, m in zip(results, metas, strict=True)]


def _leaf(graph: Graph, value: object, dtype: core.dtype) -> Any:
    return graph.cast(value, dtype) if isinstance(value, Value) else value


def _narrow(expression: scalar.Traced, values: list[Any], metas: list[Any]) -> Any:
    """float16 where the expression is one operation of it, which then needs no conversions; ONNX has
    few operations of bfloat16."""
    order = scalar.topological_order(expression.outputs)
    inner = [n for n in order if n.args]
    tensors = [v for v in values if isinstance(v, Value)]
    dtype = metas[0].dtype
    same = dtype is core.float16 and all(v.dtype is dtype for v in tensors)
    known = all(n.args or n.op == "input" for n in order)
    return dtype if same and known and len(inner) <= 1 and len(metas) == 1 else None


def _settled(graph: Graph, result: Value, meta: core.Tensor, values: list[Any]) -> Value:
    """A result in the dtype that the operator gives, and over all elements."""
    if isinstance(result, Value):
        return graph.cast(result, meta.dtype)
    like = next(v for v in values if isinstance(v, Value))
    one = core.tensor([result], dtype=meta.dtype)
    return graph.op("ConstantOfShape", graph.op("Shape", like, gives=core.int64), value=one,
                    gives=meta.dtype)  # fmt: skip
