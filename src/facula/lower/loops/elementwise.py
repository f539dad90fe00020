"""Elementwise operators and conversions as expressions.

Takes: a pointwise operator, its arguments as values and numbers, and the result's dtype.
Gives: `pointwise`, a rule from positions to the result's expression; `converted`, an expression in
another dtype.
Keeps true: the expression is the one of the operator's own body, in the dtype in which eager
computes it; 16-bit floats are kept in f32 between operators, or rounded after each of them where
`equal_rounding` is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.fx.symbols import SymInt
from facula.lower.loops import ir
from facula.lower.loops.index import ZERO, Index, Indirect
from facula.lower.loops.index import constant as constant_index
from facula.lower.loops.values import NotLoops, Value
from facula.ops.expr.node import Complex, Scalar, cast, constant, lift, node
from facula.ops.expr.primitives import PRIMITIVES
from facula.ops.table import pointwise_rules

HALVES = ("f16", "bf16")
FLOATING = ("f32", "f64", "c64", "c128", *HALVES)


def converted(expression: Scalar, code: str) -> Any:
    """A value in the dtype in which values stored as `code` are computed with."""
    if code not in ir.REGISTER:
        raise NotLoops(f"the dtype {code}")
    found = cast(expression, ir.REGISTER[code])
    if code in ir.NARROW:
        return node("wrap", (found,), found.dtype, code)
    return found


def check_unsigned(code: str, other: str) -> None:
    """Raise where uint64, whose bits are kept in int64 registers, would become floats or come of
    them."""
    if (code == "u64" and ir.REGISTER[other] in FLOATING) or (other == "u64" and code in FLOATING):
        raise NotLoops("uint64 beside floating-point numbers")


def rounded(expression: Scalar, code: str) -> Any:
    """A value that went through memory of a dtype: 16-bit floats lose places."""
    found = converted(expression, code)
    return node("rounded", (found,), "f32", code) if code in HALVES else found


def finished(expression: Any, code: str) -> Any:
    """The result of an operator, rounded as eager's is before another operator reads it."""
    found = rounded(expression, code)
    if isinstance(found, Complex):
        return Complex(_whole(found.re), _whole(found.im))
    return found if code in HALVES else _whole(found)


def _whole(found: Scalar) -> Scalar:
    if found.dtype not in ("f32", "f64") or not found.args:
        return found
    return node("rounded", (found,), found.dtype, found.dtype)


def read_broadcast(value: Value, positions: Sequence[Index]) -> Any:
    """The element of an operand that broadcasts to the positions' shape."""
    shift = len(positions) - len(value.shape)
    own = [ZERO if size == 1 else positions[shift + d] for d, size in enumerate(value.shape)]
    return value.read(own)


def pointwise(
    op: core.Op,
    args: Sequence[Any],
    metas: Sequence[Any],
    code: str,
    equal_rounding: bool = False,
    attribute: Callable[[str, Any, str], Any] = lambda name, value, dtype: value,
) -> Callable[[list[Index]], Any]:
    """The rule of a call.

    Args:
        op: the operator.
        args: arguments in schema order, values where tensors stand.
        metas: the same with meta tensors.
        code: the result's storage dtype.
        equal_rounding: round after each operator.
        attribute: gives what stands for an attribute (by name, value, dtype) that is known only when kernels run.

    Raises:
        NotLoops: the operator does not compute in this dtype.
    """
    definition = op.definition
    variant, runtime = core.pointwise_variant(op, tuple(metas))
    parameters = definition.schema.parameters
    operands = [x for p, x in zip(parameters, metas, strict=True) if p.is_tensor]
    compute = pointwise_rules._compute_code(definition, variant, runtime, operands)
    if compute not in ir.REGISTER:
        raise NotLoops(f"{op.name} in {compute}")
    compute = ir.REGISTER[compute]
    if compute == "i32" and any(
        _beyond_32_bits(core.number_of(x) if isinstance(x, core.Tensor) else x) for x in operands
    ):
        compute = "i64"
    attributes = dict(variant.attributes)
    by_name = {p.name: p for p in definition.schema.attributes}
    for name, given in zip(variant.runtime, runtime, strict=True):
        whole = pointwise_rules.runtime_dtype(by_name[name], compute) == "i64"
        known = given if isinstance(given, complex) else (int if whole else float)(given)
        attributes[name] = attribute(name, known, "i64" if whole else "f64")
    values = [x for p, x in zip(parameters, args, strict=True) if p.is_tensor]
    dtypes = pointwise_rules.argument_dtypes(definition, variant.present, compute)
    for value, dtype in zip(values, dtypes, strict=True):
        if isinstance(value, Value) and dtype is not None:
            check_unsigned(value.code, dtype)
    common = core.result_type(*operands).code if definition.in_common_dtype else ""
    narrow = common if common in HALVES else ""

    def rule(positions: list[Index]) -> Any:
        inputs = [
            None if dtype is None else cast(_operand(value, positions, narrow), dtype)
            for value, dtype in zip(values, dtypes, strict=True)
        ]
        returned = definition.body(*inputs, **attributes)
        if isinstance(returned, tuple):
            raise NotLoops(f"{op.name} with several results")
        strong = next(d for d in dtypes if d is not None)
        output = _settled(lift(returned), strong)
        return (finished if equal_rounding else converted)(output, code)

    return rule


def _beyond_32_bits(number: object) -> bool:
    """Whether an operand is a number that int32 would cut."""
    return isinstance(number, int) and not -(2**31) <= number < 2**31


def _operand(value: object, positions: Sequence[Index], narrow: str) -> Any:
    """An element of an operand, rounded to a dtype of 16 bits where one is named."""
    found = _element(value, positions)
    stored = narrow and isinstance(value, Value) and value.code == narrow
    return rounded(found, narrow) if narrow and not stored else found


def _element(value: object, positions: Sequence[Index]) -> Any:
    if isinstance(value, Value):
        return read_broadcast(value, positions)
    if isinstance(
        value, SymInt
    ):  # a number that depends on sizes is one of the launch, as sizes are
        return ir.position(constant_index(value))
    return lift(value)


def _settled(output: Scalar, dtype: str) -> Any:
    """A result that is made of numbers only, in the dtype of the computation."""
    if not output.weak or (isinstance(output, Complex) and dtype not in ("f32", "f64")):
        return output
    if isinstance(output, Complex):
        return Complex(cast(output.re, dtype), cast(output.im, dtype))
    return cast(output, dtype)


def number(value: Any, code: str) -> Any:
    """A Python number as an element of a dtype."""
    register = ir.REGISTER[code]
    if register in ir.PART:
        whole = complex(value)
        part = ir.PART[register]
        return Complex(constant(whole.real, part), constant(whole.imag, part))
    if register == "b8":
        return constant(bool(value), "b8")
    if register in ("i32", "i64") and isinstance(value, float):
        value = int(value)
    return converted(constant(value, register), code)


#: a tensor is small beside one that has so many times its elements
SMALL = 64  # speed only


def is_dear(expression: Scalar, numel: int = 0) -> bool:
    """Whether computing a value twice costs more than storing it: a function call is in it, or
    many operations or loads; of `numel` elements, what is small beside them stays in a cache."""
    order = ir.topological_order([expression])
    if len(order) > 24:
        return True
    loads = sum(
        isinstance(current.value, ir.Load) and current.value.buffer.numel * SMALL >= numel
        for current in order
    )
    gathers = any(_gathers(current.value) for current in order if current.op == "input")
    return loads > 4 or gathers or any(is_call(current) for current in order)


def _gathers(value: object) -> bool:
    """Whether a leaf is read at a place that lies in memory."""
    return isinstance(value, ir.Load) and any(
        isinstance(atom, Indirect) and ir.loads_of([atom.value]) for atom in value.index.atoms()
    )


def is_call(current: Scalar) -> bool:
    """Whether a node is a function of some dozen instructions: one that only floats have."""
    primitive = PRIMITIVES.get(current.op)
    return (
        primitive is not None
        and "int" not in primitive.kinds
        and "{" not in primitive.c_form(current.args[0].dtype)
    )
