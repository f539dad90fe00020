"""What the core asks about pointwise operators: gradients' needs, and evaluation by other operators.

Takes: a definition, a variant and a compute dtype. Gives: for each tensor argument what its gradient reads, and the
expression evaluated on tensors. Keeps true: the rules come from the operator's own body (`ops.expr.scalar`)
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from facula import core
from facula.ops.expr import scalar
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


_INTEGERS = ("i64", "i32", "b8")

#: slot: loads the module of gradients that round after each step, which few programs need
STEPWISE: list[Any] = [None]
#: slot: loads the operators that are one node in 16-bit floats, as they are in PyTorch
NARROW: list[Any] = [None]


def one_node(*tensors: Any) -> bool:
    """Whether a composite of 16-bit floats, which is one operator in PyTorch, is to leave one node: its gradient
    may be differentiated again, in steps that round, and nothing maps or traces what runs."""
    if tensors[0].itemsize != 2:  # most calls
        return False
    if not core.is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return False
    narrow = all(t.itemsize == 2 and t.dtype.is_floating_point for t in tensors)
    alike = len({t.dtype for t in tensors}) == 1
    if (
        not (narrow and alike)
        or core.interpreters()
        or any(core.is_dispatching(t) for t in tensors)
    ):
        return False
    NARROW[0]()
    return True


def argument_dtypes(definition: Any, present: tuple[bool, ...], code: str) -> list[str | None]:
    """The compute dtype of each tensor argument, None for an absent one."""
    fixed = definition.compute or {}
    return [
        (fixed.get(p.name, code) if there else None)
        for p, there in zip(definition.schema.tensor_parameters, present, strict=True)
    ]


def runtime_dtype(parameter: Any, code: str) -> str:
    """The dtype in which a kernel of compute dtype `code` reads a runtime attribute."""
    return "i64" if code in _INTEGERS and parameter.type != "float" else "f64"


def variant_parts(
    definition: Any, chosen: dict[str, Any], code: str
) -> tuple[str, list[str | None], dict[str, Any]]:
    """The variant in which the attributes `chosen` differ from their defaults: its key in the names of
    kernels, the dtypes of its tensors, and the attributes to trace it with."""
    keys: list[str] = []
    dtypes: list[str | None] = []
    attributes: dict[str, Any] = {}
    fixed = definition.compute or {}
    for parameter in definition.schema.parameters:
        if parameter.is_tensor:
            present = not parameter.optional or chosen.get(parameter.name, False)
            dtypes.append(fixed.get(parameter.name, code) if present else None)
            if parameter.optional and present:
                keys.append(parameter.name)
            continue
        default = parameter.default if parameter.has_default else None
        key, value = _attribute(parameter, chosen.get(parameter.name, default), code)
        keys += [key] if key else []
        attributes[parameter.name] = value
    return ".".join(keys), dtypes, attributes


def _attribute(parameter: Any, given: object, code: str) -> tuple[str, Any]:
    """The part of the variant key, and the value to trace with, of one non-tensor argument."""
    default = parameter.default if parameter.has_default else None
    if not parameter.has_default or isinstance(given, scalar.Runtime):
        dtype = runtime_dtype(parameter, code)
        return (parameter.name if parameter.has_default else "", scalar.Runtime(dtype))
    if given == default and type(given) is type(default):
        return "", default
    if isinstance(given, bool):
        return (parameter.name if given else "no_" + parameter.name), given
    return ("no_" + parameter.name if given is None else str(given)), given


@cache
def traced(variant: core.Variant, code: str) -> scalar.Traced:
    """The expression of a variant in a compute dtype."""
    definition = variant.op.definition
    attributes: dict[str, Any] = {}
    for p in definition.schema.attributes:
        if p.name in variant.runtime:
            attributes[p.name] = scalar.Runtime(runtime_dtype(p, code))
        else:
            attributes[p.name] = variant.attributes.get(p.name)
    return scalar.trace(
        definition.body, argument_dtypes(definition, variant.present, code), attributes
    )


@cache
def gradient(variant: core.Variant, code: str, wrt: int) -> scalar.Traced | None:
    """The expression of the gradient of one tensor argument."""
    return scalar.gradient(traced(variant, code), wrt, variant.op.definition.explicit_backward)


#: what `unsigned_rule` says of uint64 operands in a kernel for int64
_ANY, _AMONG_THEMSELVES, _NEVER = range(3)


def unsigned_rule(variant: Any) -> int:
    """Whether the int64 kernel of a variant gives what uint64 operands mean: `_ANY`, beside signed
    ones too (sums and products that wrap); `_AMONG_THEMSELVES` (equality, choices); `_NEVER` (order,
    quotients and conversions, which read the highest bit as a sign)."""
    found = _ANY
    for node in scalar.topological_order(traced(variant, "i64").outputs):
        if not any(arg.dtype == "i64" for arg in node.args):
            continue
        primitive = scalar.PRIMITIVES.get(node.op)
        kept = node.op == "cast" and node.dtype in ("i64", "b8")
        if node.op == "where" or (primitive and primitive.signless and node.dtype == "b8"):
            found = max(found, _AMONG_THEMSELVES)
        elif not (kept or (primitive and primitive.signless)):
            found = _NEVER
    return found


def _rule(variant: core.Variant, code: str, wrt: int) -> Any:
    if not variant.present[wrt]:
        return None
    try:
        found = gradient(variant, code, wrt)
    except NotImplementedError:
        return ()  # raised again when this gradient is asked for
    if found is None:
        return None
    output = found.outputs[0]
    if isinstance(output, scalar.Scalar):
        if output.op == "grad":
            return "identity"
        if output.op == "constant" and output.value == 0:
            return None
    elif (
        output.re.op == "real" and output.im.op == "imag" and output.re.args[0] is output.im.args[0]
    ):
        if output.re.args[0].op == "grad":
            return "identity"
    return found.uses


def gradient_rules(definition: Definition, variant: core.Variant, code: str) -> list[Any]:
    """For each tensor argument: None, "identity", or what the gradient kernel reads, in order."""
    return [_rule(variant, code, wrt) for wrt in range(len(variant.present))]


def _plain(a: object, args: tuple[Any, ...]) -> Any:
    return a


def _wrapped(a: Any, args: tuple[Any, ...]) -> Any:
    return core.wrapped_number(a)


def _tensor(a: float, args: tuple[Any, ...]) -> Any:
    """A number for an operator that takes none: a trace would note it as a number."""
    like = next(x for x in args if isinstance(x, core.Tensor))
    if core.is_dispatching(like):
        return F.scalar_tensor(a, dtype=like.dtype, device=like.device)
    return core.wrapped_number(a)


def _form_of_numbers(definition: Any) -> Any:
    """How numbers are given to an operator beside tensors."""
    if definition.kind == "composite":
        return _plain
    return _tensor if definition.kind == "pointwise" and definition.strict else _wrapped


class _TensorNamespace:
    """The scalar operations on tensors: operators of the same name.

    code: the dtype in which the expression computes.
    """

    def __init__(self, code: str) -> None:
        self._computed = _DTYPE_OF[code].to_real()

    def __getattr__(self, name: str) -> Any:
        function = getattr(F, name)

        def call(*args: Any) -> Any:
            if not any(isinstance(a, core.Tensor) for a in args):
                return _on_numbers(function, args)
            return function(*[a if isinstance(a, core.Tensor) else number(a, args) for a in args])

        number = _form_of_numbers(function.definition)
        return call

    @staticmethod
    def cast(x: object, code: str) -> Any:
        return x.to(_DTYPE_OF[code]) if isinstance(x, core.Tensor) else x

    def where(self, condition: core.Tensor, a: object, b: object) -> Any:
        if not isinstance(condition, core.Tensor):
            return a if condition else b
        if type(a) is float and type(b) is float and self._computed.is_floating_point:
            # two numbers alone would have the default dtype
            a = F.scalar_tensor(a, dtype=self._computed, device=condition.device)
        return F.where(condition, a, b)

    @staticmethod
    def cond_and(a: object, b: object) -> Any:
        return F.logical_and(a, b)


def _on_numbers(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """An operator on Python numbers, in double precision: no override hears of it."""
    keys = core.suspend_dispatch()
    try:
        doubles = {float: core.float64, complex: core.complex128}
        dtypes = [doubles.get(type(a)) for a in args]
        given = [core.tensor(a, dtype=d) for a, d in zip(args, dtypes, strict=True)]
        return function(*given).item()
    finally:
        core.set_thread_keys(keys)


def _converted(values: list[Any], leaves: tuple[scalar.Scalar, ...]) -> list[Any]:
    """Operands in the dtypes that an expression computes in; numbers stay numbers."""
    converted = []
    for value, leaf in zip(values, leaves, strict=True):
        number = core.number_of(value)
        if number is None:
            converted.append(value.to(_DTYPE_OF[leaf.dtype]))
        else:
            kind = _NUMBER_OF.get(leaf.dtype)
            symbolic = getattr(number, "_is_symbolic", False)
            converted.append(number if kind is None or symbolic else kind(number))
    return converted


#: what numbers become beside tensors of a dtype
_NUMBER_OF = {"f32": float, "f64": float, "c64": complex, "c128": complex}
_DTYPE_OF = {
    "f32": core.float32,
    "f64": core.float64,
    "i64": core.int64,
    "i32": core.int32,
    "b8": core.bool_,
    "c64": core.complex64,
    "c128": core.complex128,
}


def evaluate(variant: Any, code: str, tensors: list[Any], parameters: list[Any]) -> Any:
    """The operator by others: where there is no kernel and no compiler."""
    expression = traced(variant, code)
    converted = [
        t.to(_DTYPE_OF[leaf.dtype]) for t, leaf in zip(tensors, expression.inputs, strict=True)
    ]
    return scalar.evaluate(expression, converted, parameters, _TensorNamespace(code))[0]


def evaluate_gradient(
    variant: core.Variant, code: str, wrt: int, values: list[Any], parameters: list[Any]
) -> Any:
    """The gradient of argument `wrt` by operators, so that it can be differentiated again."""
    expression = gradient(variant, code, wrt)
    assert expression is not None, "only asked for arguments that have a gradient"
    if code == "f32" and core.rounds_steps():
        stepwise = STEPWISE[0]()
        dtype = stepwise.dtype_of(variant.op, values)
        if dtype is not None:
            return stepwise.evaluate(variant, wrt, expression, values, parameters, dtype)
    low = values and all(v.dtype.code in ("bf16", "f16", "c32") for v in values)
    converted = _converted(values, expression.inputs)
    try:
        result = scalar.evaluate(expression, converted, parameters, _TensorNamespace(code))[0]
    except (ArithmeticError, ValueError):  # log(0) of a number: IEEE has an answer, for tensors
        converted = [
            v.to(_DTYPE_OF[leaf.dtype]) for v, leaf in zip(values, expression.inputs, strict=True)
        ]
        result = scalar.evaluate(expression, converted, parameters, _TensorNamespace(code))[0]
    if not isinstance(result, core.Tensor):
        like = next(c for c in converted if isinstance(c, core.Tensor))
        result = F.full_like(like, result)
    return result.to(_narrow(values[0].dtype, result.dtype)) if low else result


def _narrow(low: core.dtype, computed: core.dtype) -> Any:
    """The dtype of low precision that holds a result: real or complex as that is."""
    if computed.is_complex and not low.is_complex:
        return core.complex32 if low is core.float16 else computed
    return low.to_real() if low.is_complex and not computed.is_complex else low


@cache
def pushforward(variant: core.Variant, code: str, wrt: int) -> scalar.Traced | None:
    """The expression of the tangent that one argument's tangent gives."""
    return scalar.pushforward(traced(variant, code), wrt, variant.op.definition.explicit_backward)


def _compute_code(definition: Any, variant: Any, values: list[Any], operands: list[Any]) -> str:
    """The compute dtype of a call."""
    fixed = definition.compute or {}
    parameters = definition.schema.tensor_parameters
    typed = [
        x
        for p, x in zip(parameters, operands, strict=True)
        if x is not None and p.name not in fixed
    ]
    common = core.result_type(*typed)
    if definition.result_of is not None:
        common = definition.result_of(common, variant, values)
    if definition.result in ("float", "real_float") and not (
        common.is_floating_point or common.is_complex
    ):
        common = core.get_default_dtype()
    return {"bf16": "f32", "f16": "f32", "c32": "c64"}.get(common.code, common.code)


def _by_operators(
    op: core.Op, args: tuple[Any, ...], wrt: int, rule: Any, grad: core.Tensor, result: Any
) -> Any:
    """What a rule (`gradient`, `pushforward`) of tensor argument `wrt` gives for a call, by operators.

    Takes the call's arguments in schema order; a result of None is computed where the rule reads it. None where
    there is no rule, since the result does not depend on the argument.
    """
    definition = op.definition
    variant, values = core.pointwise_variant(op, args)
    operands = [x for p, x in zip(definition.schema.parameters, args, strict=True) if p.is_tensor]
    code = _compute_code(definition, variant, values, operands)
    expression = rule(variant, code, wrt)
    if expression is None:
        return None
    if result is None and "result" in expression.uses:
        result = op(*args)
    known = {"grad": grad, "result": result}
    inputs = []
    for use, leaf in zip(expression.uses, expression.inputs, strict=True):
        x = known[use] if isinstance(use, str) else operands[use]
        dtype = _DTYPE_OF[leaf.dtype]
        # a number has every digit of the dtype that computes
        inputs.append(x.to(dtype) if isinstance(x, core.Tensor) else core.tensor(x, dtype=dtype))
    return scalar.evaluate(expression, inputs, values, _TensorNamespace(code))[0]


def push(
    op: core.Op, args: tuple[Any, ...], wrt: int, tangent: core.Tensor, result: core.Tensor
) -> Any:
    """What the tangent of tensor argument `wrt` adds to the result's, by operators.

    Takes the call's arguments in schema order.  None where the result does not depend on it.
    """
    found = _by_operators(op, args, wrt, pushforward, tangent, result)
    if found is None:
        return None
    if not isinstance(found, core.Tensor):
        return None if found == 0 else F.full_like(result, found)
    return found.to(result.dtype)


def pull(
    op: core.Op, args: tuple[Any, ...], wrt: int, grad: core.Tensor, of_result: bool = False
) -> core.Tensor:
    """The gradient of tensor argument `wrt` for that of the result, by operators.

    Takes the call's arguments in schema order; with `of_result` the result stands in the place of argument
    `wrt`, on which the gradient must not depend otherwise.
    """
    found = _by_operators(op, args, wrt, gradient, grad, args[wrt] if of_result else None)
    assert found is not None, "only asked for arguments that have a gradient"
    if not isinstance(found, core.Tensor):
        found = F.full_like(grad, found)
    return found.to(args[wrt].dtype)


core.UNSIGNED_RULE[0] = unsigned_rule
core.GRADIENT_RULES[0] = gradient_rules
core.EVALUATE[0] = evaluate
core.EVALUATE_GRADIENT[0] = evaluate_gradient
