"""Transforms in forward mode: `jvp`, `jacfwd`, `hessian`, `linearize`.

Takes functions of tensors and nestings of tensors, and tangents of the same structure.  Gives
outputs and their tangents.
Keeps true: every operator with a gradient has a tangent; an output that does not depend on the
inputs has a tangent of zeros (with `strict`: raises).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.transforms.gradients import (
    check_argnums,
    jacrev,
    unit_vectors,
    vjp,
    with_args,
)
from facula.autograd.transforms.levels import is_differentiable
from facula.autograd.transforms.tangents import JvpLevel
from facula.autograd.transforms.tree import flatten, map_leaves
from facula.autograd.transforms.vmapping import vmap
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor


def dual(x: Tensor, tangent: Tensor, level: JvpLevel) -> Tensor:
    """`x` with a tangent: another tensor on the same memory, history included."""
    made = level.call_below(x.view_as, (x,), {})
    level.lend(made, tangent)
    return made


def primal(x: object, level: JvpLevel) -> Any:
    """`x` without its tangent at a level."""
    if not isinstance(x, Tensor) or not x._tangents or level.number not in x._tangents:
        return x
    rest = {n: t for n, t in x._tangents.items() if n != level.number}
    x._tangents = rest or None
    return x


def _split(x: core.Tensor, level: JvpLevel, strict: bool) -> tuple[Any, Any]:
    """An output and its tangent, zeros where it has none."""
    if not isinstance(x, Tensor):
        fail(
            RuntimeError,
            "jvp",
            (
                "jvp(f, primals, tangents): Expected f to only return tensors, got "
                f"unsupported type {type(x)}"
            ),
            hint=(
                "return facula.as_tensor(value), or has_aux=True with the others as second result"
            ),
        )
    tangent = level.tangent(x)
    value = primal(x, level)
    if tangent is None:
        if strict:
            fail(
                RuntimeError,
                "jvp",
                (
                    "jvp(f, primals, tangents, strict=True): The output of f is independent of "
                    "the inputs. This is not allowed with strict=True."
                ),
                hint="strict=False gives zeros there",
            )
        tangent = F.zeros_like(value)
    return value, tangent


def _check_leaves(name: str, leaves: list[Any]) -> None:
    if not leaves:
        fail(
            RuntimeError,
            "jvp",
            f"jvp(f, primals, tangents): Expected {name} to be non-empty",
            hint="give at least one tensor",
        )
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            fail(
                RuntimeError,
                "jvp",
                (
                    f"jvp(f, primals, tangents): Expected {name} to only contain tensors, got "
                    f"{type(leaf)}"
                ),
                hint="close over the other values: jvp(lambda x: f(x, other), (x,), (t,))",
            )


def _check(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[list[Any], list[Any], Any]:
    if not isinstance(primals, tuple):
        fail(
            RuntimeError,
            "jvp",
            (
                "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should "
                f"be valid to call f(*primals). Got {type(primals)}"
            ),
            hint="(x,) is a tuple of one input",
        )
    values, structure = flatten(primals)
    moves, other = flatten(tangents)
    if structure != other:
        fail(
            RuntimeError,
            "jvp",
            (
                "jvp(f, primals, tangents): Expected primals and tangents to have the same "
                "python structure. For example, if primals is a tuple of 3 tensors, tangents "
                f"also must be. Got primals with structure {structure} and tangents with "
                f"structure {other}"
            ),
            hint="one tangent for every primal, in lists and dicts of the same form",
        )
    _check_leaves("primals", values)
    _check_leaves("tangents", moves)
    for x, t in zip(values, moves, strict=True):
        check_pair("jvp", x, t)
    return values, moves, structure


def check_pair(op: str, x: Tensor, tangent: Tensor) -> None:
    """Raise unless `tangent` can be the tangent of `x`."""
    if x.shape != tangent.shape:
        fail(
            RuntimeError,
            op,
            f"a tangent of shape {list(x.shape)} was required",
            got=f"{list(tangent.shape)} (Expected tangent to have the same size as the primal; Trying to set a "
            "forward gradient that has a different size than that of the "
            f"original Tensor, this is not supported. Tensor is of size {list(x.shape)} while the given forward "
            f"gradient is of size {list(tangent.shape)}.)",
            hint="facula.zeros_like(primal) has the size",
        )
    if not is_differentiable(x):
        fail(
            ValueError,
            op,
            (
                "a floating-point or complex tensor was required: Expected primal to be "
                f"floating point or complex, but got: {x.dtype}"
            ),
            hint="convert it with .float()",
        )
    # another precision is taken as it is, as PyTorch takes it: what is computed with it promotes
    if not is_differentiable(tangent) or tangent.dtype.is_complex != x.dtype.is_complex:
        fail(
            ValueError,
            op,
            f"a tangent of the kind of {x.dtype} was required",
            got=f"{tangent.dtype} (Expected tangent to be floating point or complex)",
            hint="tangent.to(primal.dtype) converts it",
        )


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of a function, and its Jacobian times tangents, in one run of forward mode.

    Args:
        func: of tensors
        primals: the arguments, a tuple
        tangents: of their shapes, a tuple
        strict: whether an output that does not depend on an input is an error
        has_aux: whether the function gives (value, something else), which is handed on

    Example:
        >>> facula.func.jvp(lambda x: x * x, (facula.tensor([1.0, 2.0]),), (facula.ones(2),))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    values, moves, structure = _check(primals, tangents)
    with JvpLevel() as level:
        duals = [dual(x, t, level) for x, t in zip(values, moves, strict=True)]
        outputs = func(*structure.build(duals))
        aux = None
        if has_aux:
            if not (isinstance(outputs, tuple) and len(outputs) == 2):
                fail(
                    RuntimeError,
                    "jvp",
                    (
                        "jvp(f, primals, tangents): output of function f should be a tuple: (output, "
                        "aux) if has_aux is True"
                    ),
                    hint="return (output, aux), or leave has_aux out",
                )
            outputs, aux = outputs
        leaves, shape = flatten(outputs)
    pairs = [_split(leaf, level, strict) for leaf in leaves]
    value, moved = shape.build([p for p, _ in pairs]), shape.build([t for _, t in pairs])
    if has_aux:
        return value, moved, map_leaves(lambda x: primal(x, level), aux)
    return value, moved


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that gives the Jacobian, by forward mode: for more outputs than inputs.

    Args:
        func: of tensors
        argnums: which argument is differentiated, an int or a tuple of ints
        has_aux: whether the function gives (value, something else), which is handed on
        randomness: 'error', 'different' or 'same', as of `vmap`

    Example:
        >>> facula.func.jacfwd(lambda x: x * x)(facula.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        positions = check_argnums(argnums, args)
        primals = tuple(args[i] for i in positions)
        inputs, in_structure = flatten(primals)

        def column(*vectors: object) -> Any:
            def of_chosen(*values: object) -> Any:
                return func(*with_args(args, positions, values), **kwargs)

            found = jvp(of_chosen, primals, in_structure.build(vectors), has_aux=has_aux)
            return found[1:]

        columns = vmap(column, randomness=randomness)(*unit_vectors(inputs))
        outputs, structure = flatten(columns[0])
        blocks = [_columns(o, inputs, in_structure, argnums) for o in outputs]
        result = structure.build(blocks)
        if not has_aux:
            return result
        return result, map_leaves(lambda x: x[0] if isinstance(x, Tensor) else x, columns[1])

    return jacobian


def _columns(moved: Tensor, inputs: list[Any], structure: Any, argnums: int) -> Any:
    """The columns of one output, cut by input."""
    shape, start, blocks = moved.shape[1:], 0, []
    for x in inputs:
        count = x.numel()
        part = moved.narrow(0, start, count).movedim(0, -1).reshape((*shape, *x.shape))
        blocks.append(part)
        start += count
    built = structure.build(blocks)
    return built[0] if isinstance(argnums, int) else built


def hessian(func: Callable[..., Any], argnums: object = 0) -> Callable[..., Any]:
    """A function that gives all second derivatives: forward over reverse mode.

    Args:
        func: of tensors, to a tensor of one element
        argnums: which argument is differentiated, an int or a tuple of ints

    Example:
        >>> facula.func.hessian(lambda x: (x**3).sum())(facula.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: object) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and a function from tangents of its inputs to those of its outputs.

    The function is made once and run for each tangent.

    Args:
        func: of tensors
        *primals: the arguments

    Example:
        >>> value, push = facula.func.linearize(facula.sin, facula.tensor(0.0))
        >>> value, push(facula.tensor(2.0))
        (tensor(0.), tensor(2.))
    """
    inputs, structure = flatten(primals)
    outputs, pullback = vjp(func, *primals)
    leaves, shape = flatten(outputs)
    # any place would do for a linear map; some formulas take logarithms of gradients
    ones = [F.ones_like(o) for o in leaves]

    def of_cotangents(*cotangents: object) -> Any:
        return pullback(shape.build(cotangents))

    _, transposed = vjp(of_cotangents, *ones)

    def push(*tangents: object) -> Any:
        given, other = flatten(tangents)
        if other != structure:
            fail(
                RuntimeError,
                "jvp",
                (
                    f"Expected the tangents {other} to have the same structure as the primals "
                    f"{structure}"
                ),
                hint="one tangent for every primal, in lists and dicts of the same form",
            )
        for x, t in zip(inputs, given, strict=True):
            check_pair("linearize", x, t)
        pushed = list(transposed(tangents))
        if not any(x.requires_grad for x in (*leaves, *given)):
            pushed = [p.detach() for p in pushed]  # the recorded pullback has a history of its own
        return shape.build(pushed)

    return outputs, push
