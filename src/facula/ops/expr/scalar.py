"""Scalar expressions: what the body of a pointwise operator builds, and what is done with it.

Takes: a body (a Python function over scalars), the dtypes of its tensor arguments, its attributes.
Gives: `trace`, `gradient`, `tangent`, `evaluate`, and the scalar functions that bodies call.
Keeps true: a trace holds real arithmetic only (complex values are pairs); kernel pointers follow `Traced.inputs`;
parameters stand in the order of the attributes, the same in the forward and in every gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from facula.core.errors import fail
from facula.ops.expr import primitives as scalar_primitives
from facula.ops.expr.complex_functions import angle, conj, sgn, sigmoid
from facula.ops.expr.derivative import derivative, scale
from facula.ops.expr.holomorphic import continued, continues
from facula.ops.expr.node import (
    COMPLEX_PARTS,
    FLOATS,
    Complex,
    Scalar,
    Value,
    apply,
    cast,
    constant,
    flatten,
    grad,
    input,
    lift,
    node,
    parameter,
    parts,
    power,
    result,
    substitute,
    tangent_input,
    topological_order,
    unify,
)
from facula.ops.expr.primitives import PRIMITIVES, clamp, ldexp, where

__all__ = [
    "PRIMITIVES",
    "Complex",
    "Runtime",
    "Scalar",
    "Traced",
    "angle",
    "apply",
    "cast",
    "clamp",
    "conj",
    "constant",
    "evaluate",
    "grad",
    "gradient",
    "input",
    "is_trivial",
    "ldexp",
    "lift",
    "node",
    "parameter",
    "parts",
    "power",
    "pushforward",
    "result",
    "sgn",
    "sigmoid",
    "tangent",
    "topological_order",
    "trace",
    "unify",
    "where",
]

#: results that a gradient reads from memory; those of other functions stay free to be overwritten, as in PyTorch
_KEPT = frozenset("exp exp2 expm1 sqrt rsqrt tanh tan reciprocal hypot pow".split())


class Runtime:
    """An attribute that is known only when the kernel runs; `dtype` is `f64` or `i64`."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: str = "f64") -> None:
        self.dtype = dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runtime) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class Traced:
    """An expression with its place in a kernel: pointers are outputs, then `inputs`; attributes are `parameters`."""

    __slots__ = ("attributes", "inputs", "names", "outputs", "parameters", "real", "values")

    def __init__(
        self,
        outputs: tuple[Any, ...],
        inputs: tuple[Scalar, ...],
        parameters: tuple[Scalar, ...],
        values: tuple[Any, ...] = (),
        names: tuple[str, ...] = (),
        attributes: dict[str, Any] | None = None,
        real: Callable[[], Traced | None] | None = None,
    ) -> None:
        self.outputs = outputs
        self.inputs = inputs
        self.parameters = parameters
        self.values = values
        self.names = names
        self.attributes = attributes or {}
        #: the same body over real numbers, of an expression over complex ones
        self.real = real

    @property
    def uses(self) -> tuple[Any, ...]:
        """What each input pointer is: an argument number, `"grad"`, `"result"`, or these with a number from 1."""
        return tuple(_use(leaf) for leaf in self.inputs)

    @property
    def output_dtypes(self) -> tuple[str, ...]:
        """The dtype of each output."""
        return tuple(output.dtype for output in self.outputs)

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        """The dtype of each input."""
        return tuple(leaf.dtype for leaf in self.inputs)


def _use(leaf: Scalar) -> Any:
    if leaf.op == "input":
        return leaf.value
    return leaf.op if leaf.value == 0 and leaf.op != "tangent" else f"{leaf.op}{leaf.value}"


def _argument_names(body: Callable[..., Any]) -> tuple[str, ...]:
    from inspect import signature  # a third of the time that importing this module takes

    return tuple(signature(body).parameters)


def trace(
    body: Callable[..., Any], dtypes: Sequence[str | None], attributes: dict[str, Any] | None = None
) -> Traced:
    """Run a body on symbols.

    Args:
        body: takes one scalar a tensor argument, then the attributes by keyword; returns a scalar or a tuple.
        dtypes: compute dtype of each tensor argument, None where an optional one is absent.
        attributes: values, or `Runtime` for those that are known only at run time.
    """
    resolved, parameters = {}, []
    for name, value in (attributes or {}).items():
        if isinstance(value, Runtime):
            value = parameter(name, value.dtype)
            parameters.append(value)
        resolved[name] = value
    values = tuple(None if d is None else input(i, d) for i, d in enumerate(dtypes))
    returned = body(*values, **resolved)
    returned = returned if isinstance(returned, tuple) else (returned,)
    strong = next((d for d in dtypes if d is not None), "f32")
    outputs = tuple(_settle(output, strong) for output in returned)
    inputs = tuple(node("input", (), d, i) for i, d in enumerate(dtypes) if d is not None)
    names = _argument_names(body)[: len(dtypes)]
    real = None
    if any(d in COMPLEX_PARTS for d in dtypes):
        real = partial(_over_real_numbers, body, tuple(dtypes), attributes)
    return Traced(outputs, inputs, tuple(parameters), values, names, resolved, real)


def _over_real_numbers(
    body: Callable[..., Any], dtypes: Sequence[str | None], attributes: dict[str, Any] | None
) -> Traced | None:
    """The expression of a body for real arguments; None where it has none."""
    try:
        return trace(body, [d and COMPLEX_PARTS.get(d, d) for d in dtypes], attributes)
    except (TypeError, NotImplementedError):
        return None  # a function of complex numbers only


def _settle(output: Value, dtype: str) -> Any:
    """Give an output that is made of numbers only the dtype of the kernel."""
    output = lift(output)
    if not output.weak:
        return output
    if isinstance(output, Complex) and dtype in FLOATS:
        return Complex(cast(output.re, dtype), cast(output.im, dtype))
    return cast(output, dtype)


def _leaves(outputs: Sequence[Any]) -> tuple[Scalar, ...]:
    """The tensor leaves in pointer order: gradients, results, tangents, then arguments by number."""
    kinds = ("grad", "result", "tangent", "input")
    found = [leaf for leaf in topological_order(outputs) if leaf.op in kinds]
    return tuple(sorted(found, key=lambda leaf: (kinds.index(leaf.op), leaf.value)))


def _incoming(traced: Traced) -> list[Any]:
    return [grad(i, out.dtype) for i, out in enumerate(traced.outputs)]


def gradient(traced: Traced, wrt: int, backward: Callable[..., Any] | None = None) -> Traced | None:
    """The vector-Jacobian product with respect to tensor argument `wrt`; None where that is no floating-point argument.

    Complex gradients are PyTorch's: `dL/dre + i dL/dim`.

    Raises:
        NotImplementedError: the derivative with respect to this argument is not known.
    """
    leaf = traced.values[wrt]
    if leaf is None or not (leaf.is_float or leaf.is_complex):
        return None
    if backward is not None:
        return _explicit(traced, wrt, backward)
    if traced.real is not None and leaf.is_complex:
        found = _by_continuation(traced, wrt, traced.real())
        if found is not None:
            return found
    incoming = _incoming(traced)
    sums = tuple(_reverse(traced.outputs, incoming, part) for part in flatten((leaf,)))
    output = Complex(*sums) if isinstance(leaf, Complex) else sums[0]
    return _with_results(traced, output)


def _by_continuation(traced: Traced, wrt: int, real: Traced | None) -> Traced | None:
    """The gradient of a holomorphic function, from that of the function over real numbers."""
    if real is None or len(traced.outputs) != 1 or not continues(real.outputs):
        return None
    pairs = zip(real.values, traced.values, strict=True)
    same = continued(real.outputs[0], {id(a): b for a, b in pairs})
    if list(map(id, flatten((same,)))) != list(map(id, flatten(traced.outputs))):
        return None  # a body that takes a conjugate, or does something else for complex numbers
    found = gradient(real, wrt)
    if found is None or not continues(found.outputs):
        return None
    saved = {"grad": _incoming(traced)[0], "result": conj(result(0, traced.outputs[0].dtype))}
    values = {
        id(leaf): conj(traced.values[leaf.value]) if leaf.op == "input" else saved[leaf.op]
        for leaf in found.inputs
    }
    output = cast(continued(found.outputs[0], values), traced.values[wrt].dtype)
    inputs = _leaves((output,)) or (node("grad", (), traced.outputs[0].dtype, 0),)
    return Traced((output,), inputs, traced.parameters)


def _reverse(outputs: Sequence[Any], incoming: list[Any], leaf: Scalar) -> Scalar:
    """Sum over outputs of gradient times derivative with respect to one real leaf."""
    total: Any = None
    seeds = {id(leaf): constant(1.0, leaf.dtype)}
    for output, gradient_of in zip(flatten(outputs), flatten(incoming), strict=True):
        slope = derivative(output, seeds) if output.dtype in FLOATS else None
        if slope is not None:
            term = scale(slope, cast(gradient_of, slope.dtype))
            total = term if total is None else total + term
    return constant(0.0, leaf.dtype) if total is None else cast(total, leaf.dtype)


def pushforward(
    traced: Traced, wrt: int, backward: Callable[..., Any] | None = None
) -> Traced | None:
    """The Jacobian-vector product with respect to tensor argument `wrt`: the transpose of `gradient`.

    Its input `"grad"` is the argument's tangent. None where the argument has no derivative.
    """
    found = gradient(traced, wrt, backward)
    if found is None:
        return None
    moving = flatten((grad(0, traced.values[wrt].dtype),))
    slopes = flatten(found.outputs)
    outputs = []
    for output, incoming in zip(traced.outputs, _incoming(traced), strict=True):
        parts_of = tuple(_reverse(slopes, list(moving), part) for part in flatten((incoming,)))
        outputs.append(Complex(*parts_of) if isinstance(output, Complex) else parts_of[0])
    inputs = _leaves(outputs) or (node("grad", (), traced.values[wrt].dtype, 0),)
    return Traced(tuple(outputs), inputs, traced.parameters)


def _with_results(traced: Traced, output: object) -> Traced:
    """Read forward results from memory instead of computing them again, where that is worth it."""
    replacement = {}
    for i, out in enumerate(traced.outputs):
        for forward, saved in zip(flatten((out,)), flatten((result(i, out.dtype),)), strict=True):
            if forward.op in _KEPT:
                replacement[id(forward)] = saved
    (output,) = substitute((output,), replacement)
    inputs = _leaves((output,)) or tuple(
        node("grad", (), out.dtype, i) for i, out in enumerate(traced.outputs[:1])
    )
    return Traced((output,), inputs, traced.parameters)


def _explicit(traced: Traced, wrt: int, backward: Callable[..., Any]) -> Traced:
    known: dict[str, Any] = dict(zip(traced.names, traced.values, strict=True))
    known |= traced.attributes
    incoming = _incoming(traced)
    results = [result(i, out.dtype) for i, out in enumerate(traced.outputs)]
    known |= {"grad": incoming[0], "result": results[0], "grads": incoming, "results": results}
    returned = backward(**{name: known[name] for name in _argument_names(backward)})
    returned = returned if isinstance(returned, tuple) else (returned,)
    if len(returned) != len(traced.values):
        wanted = f"one gradient for each of {len(traced.values)} tensor arguments"
        fail(
            TypeError,
            "backward",
            f"{wanted} was required",
            len(returned),
            hint="return None where there is no gradient",
        )
    leaf, output = traced.values[wrt], returned[wrt]
    output = constant(0.0, flatten((leaf,))[0].dtype) if output is None else output
    output = cast(output, leaf.dtype) if not _is_zero(output) or leaf.is_complex else output
    inputs = _leaves((output,)) or (node("grad", (), traced.outputs[0].dtype, 0),)
    return Traced((output,), inputs, traced.parameters)


def _is_zero(output: Complex | Scalar) -> bool:
    return isinstance(output, Scalar) and output.op == "constant" and output.value == 0


def is_trivial(found: Traced) -> bool:
    """Whether a gradient needs no kernel: it is the incoming gradient itself, or zero."""
    output = found.outputs[0]
    if isinstance(output, Scalar):
        return output.op == "grad" or _is_zero(output)
    re, im = output.re, output.im
    same = re.op == "real" and im.op == "imag" and re.args[0] is im.args[0]
    return (same and re.args[0].op == "grad") or (_is_zero(re) and _is_zero(im))


def tangent(traced: Traced) -> Traced:
    """The Jacobian-vector product: outputs are tangents, inputs `tangent<i>` for each floating-point argument."""
    seeds: dict[int, Scalar] = {}
    for i, leaf in enumerate(traced.values):
        if leaf is not None and (leaf.is_float or leaf.is_complex):
            moving = flatten((tangent_input(i, leaf.dtype),))
            seeds |= {id(part): new for part, new in zip(flatten((leaf,)), moving, strict=True)}
    outputs = []
    for output in traced.outputs:
        moved = [_or_zero(derivative(part, seeds), part.dtype) for part in flatten((output,))]
        outputs.append(Complex(*moved) if isinstance(output, Complex) else moved[0])
    return Traced(tuple(outputs), _leaves(outputs), traced.parameters)


def _or_zero(value: Scalar | None, dtype: str) -> Scalar:
    return constant(0.0, dtype) if value is None else value


def evaluate(
    traced: Traced, inputs: Sequence[Any], parameters: Sequence[Any], namespace: Any
) -> tuple[Any, ...]:
    """Run the expression on anything for which `namespace` has functions named like the scalar operations.

    Besides the primitives, `namespace` has `where(c, a, b)`, `cast(x, dtype)`, `real(x)`, `imag(x)`, `complex(re, im)`.
    `inputs` follow `traced.inputs`, `parameters` follow `traced.parameters`; constants are passed as Python numbers.
    """
    known: dict[int, Any] = {}
    for leaf, value in zip(traced.inputs + traced.parameters, (*inputs, *parameters), strict=True):
        known[id(leaf)] = value
    for current in topological_order(traced.outputs):
        if id(current) in known:
            continue
        if current.op == "constant":
            known[id(current)] = current.value
        elif current.op == "cast":
            known[id(current)] = _evaluate_cast(current, known, namespace)
        else:
            args = [known[id(arg)] for arg in current.args]
            known[id(current)] = _evaluate_one(current.op, args, namespace)
    return tuple(
        namespace.complex(known[id(out.re)], known[id(out.im)])
        if isinstance(out, Complex)
        else known[id(out)]
        for out in traced.outputs
    )


def _evaluate_one(name: str, args: list[Any], namespace: Any) -> Any:
    """Apply one operation; Python numbers among themselves stay Python numbers."""
    if name == "where" and isinstance(args[0], (bool, int)):
        return args[1] if args[0] else args[2]
    if name in PRIMITIVES and all(type(arg) in (bool, int, float) for arg in args):
        fold = PRIMITIVES[name].fold
        if fold is not None:
            return fold(*args)
    return getattr(namespace, name)(*args)


def _evaluate_cast(current: Scalar, known: dict[int, Any], namespace: Any) -> Any:
    value = known[id(current.args[0])]
    if isinstance(value, (bool, int, float)):
        return float(value) if current.dtype in FLOATS else value
    return namespace.cast(value, current.dtype)


def __getattr__(name: str) -> Any:
    """The function of a primitive, by the primitive's name."""
    if name in PRIMITIVES or hasattr(scalar_primitives, name):
        return getattr(scalar_primitives, name)
    raise AttributeError(f"[scalar] a scalar function was required: got {name!r}")
