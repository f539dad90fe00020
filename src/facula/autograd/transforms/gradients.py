"""Transforms in reverse mode: `vjp`, `grad`, `grad_and_value`, `jacrev`.

Takes functions of tensors and nestings of tensors.  Gives functions that compute derivatives.
Keeps true: a result has a history only where somebody outside can differentiate again; nested
transforms nest derivatives; inputs that do not matter have zero gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.grad_mode import enable_grad
from facula.autograd.transforms.reverse import Tape, track
from facula.autograd.transforms.tree import Structure, flatten, map_leaves
from facula.autograd.transforms.vmapping import vmap
from facula.core.errors import fail
from facula.ops.table.registry import F

Tensor = core.Tensor


def check_argnums(argnums: object, args: tuple[Any, ...]) -> tuple[int, ...]:
    """The positions as a tuple of non-negative ints."""
    many = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(many, tuple):
        fail(
            RuntimeError,
            "argnums",
            f"argnum must be int or Tuple[int], got: {type(argnums)}",
            hint="argnums=0 is the first argument, (0, 1) the first two",
        )
    if not many:
        fail(
            RuntimeError,
            "argnums",
            "argnums must be non-empty",
            hint="argnums=0 is the first argument",
        )
    if not all(isinstance(a, int) for a in many):
        fail(
            RuntimeError,
            "argnums",
            f"argnums elements must be ints, got: {argnums}",
            hint="arguments are counted from 0; those by keyword have no number",
        )
    for a in many:
        if not -len(args) <= a < len(args):
            fail(
                RuntimeError,
                "argnums",
                f"Got argnum={a}, but only {len(args)} positional inputs",
                hint="pass the argument by position",
            )
    found = tuple(a % len(args) for a in many)
    if len(set(found)) != len(found):
        fail(
            RuntimeError,
            "argnums",
            f"argnums elements must be unique, got: {argnums}",
            hint="name every argument once",
        )
    return found


def with_args(args: tuple[Any, ...], positions: tuple[int, ...], values: Any) -> tuple[Any, ...]:
    """The arguments with some of them replaced."""
    changed = list(args)
    for position, value in zip(positions, values, strict=True):
        changed[position] = value
    return tuple(changed)


def pick(args: tuple[Any, ...], argnums: object) -> Any:
    """The arguments at `argnums`: one, or a tuple."""
    found = check_argnums(argnums, args)
    return args[found[0]] if isinstance(argnums, int) else tuple(args[i] for i in found)


class Recorded:
    """A function's outputs on tracked inputs."""

    def __init__(self, func: Callable[..., Any], primals: object, has_aux: bool, op: str) -> None:
        leaves, structure = flatten(primals)
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                fail(
                    RuntimeError,
                    op,
                    (
                        f"{op}: Expected all inputs to differentiate with respect to to be tensors, "
                        f"got {type(leaf)}"
                    ),
                    hint="facula.as_tensor(value) makes one of numbers",
                )
        self.structure = structure
        recording = core.is_grad_enabled()
        with enable_grad():
            tracked = [track(leaf, recording) for leaf in leaves]
            outputs = func(*structure.build(tracked))
            self.aux = None
            if has_aux:
                if not (isinstance(outputs, tuple) and len(outputs) == 2):
                    fail(
                        RuntimeError,
                        op,
                        (
                            f"{op}: output of function f should be a tuple: (output, aux) if has_aux is "
                            "True"
                        ),
                        hint="return (output, aux), or leave has_aux out",
                    )
                outputs, self.aux = outputs
            self.outputs = outputs
            flat, self.shape = flatten(outputs)
        self.leaves = flat
        self.tape = Tape([o for o in flat if isinstance(o, Tensor)], tracked, recording)
        if has_aux:
            self.aux = map_leaves(self.tape.result, self.aux)

    def values(self) -> Any:
        """The outputs as the caller gets them."""
        return self.shape.build([self.tape.result(o) for o in self.leaves])

    def gradients(self, cotangents: list[Any], retain: bool) -> list[Any]:
        """A gradient for every tracked leaf."""
        found = self.tape.pull(cotangents, retain)
        return [
            F.zeros_like(x) if g is None else g
            for g, x in zip(found, self.tape.inputs, strict=True)
        ]


def _check_outputs(recorded: Recorded, op: str) -> None:
    for leaf in recorded.leaves:
        if not isinstance(leaf, Tensor):
            fail(
                RuntimeError,
                op,
                (
                    f"{op}(f, ...): Expected f to only return tensors, got a leaf of type "
                    f"{type(leaf)}"
                ),
                hint=(
                    "return facula.as_tensor(value), or has_aux=True with the others as second "
                    "result"
                ),
            )
    if not recorded.leaves:
        fail(
            RuntimeError,
            op,
            f"{op}(f, ...): Expected f to be a function that has non-empty output",
            hint="return at least one tensor",
        )


def vjp(func: Callable[..., Any], *primals: object, has_aux: bool = False) -> Any:
    """The value of a function, and a function from gradients of its outputs to gradients of its
    inputs.

    Args:
        func: of tensors
        *primals: the arguments
        has_aux: whether the function gives (value, something else), which is handed on

    Returns:
        (value, function), or (value, function, something else).

    Example:
        >>> value, pull = facula.func.vjp(lambda x: x * x, facula.tensor([1.0, 2.0]))
        >>> value, pull(facula.ones(2))
        (tensor([1., 4.]), (tensor([2., 4.]),))
    """
    recorded = Recorded(func, primals, has_aux, "vjp")
    _check_outputs(recorded, "vjp")

    def pullback(cotangents: Tensor, *more: object) -> Any:
        if more:
            fail(
                RuntimeError,
                "vjp",
                (
                    "Expected pytree structure of cotangents to be the same as pytree structure "
                    f"of outputs to the function. cotangents: {len(more) + 1} arguments"
                ),
                hint="one cotangent for every output, in lists and dicts of the same form",
            )
        given, structure = flatten(cotangents)
        if structure != recorded.shape:
            fail(
                RuntimeError,
                "vjp",
                (
                    "Expected pytree structure of cotangents to be the same as pytree structure "
                    f"of outputs to the function. cotangents: {structure}, primal output: "
                    f"{recorded.shape}"
                ),
                hint="one cotangent for every output, in lists and dicts of the same form",
            )
        for c, o in zip(given, recorded.leaves, strict=True):
            if isinstance(c, Tensor) and c.shape != o.shape:
                fail(
                    RuntimeError,
                    "vjp",
                    f"a cotangent of shape {list(o.shape)} was required",
                    got=f"{list(c.shape)} (Mismatch in shape: grad_output[0] has a shape of {list(c.shape)} and "
                    f"output[0] has a shape of {list(o.shape)})",
                    hint="facula.ones_like(output) has the shape",
                )
        return recorded.structure.build(recorded.gradients(given, True))

    values = recorded.values()
    return (values, pullback, recorded.aux) if has_aux else (values, pullback)


def grad_and_value(
    func: Callable[..., Any], argnums: object = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of a function of one element.

    Args:
        func: of tensors, to a tensor without dimensions
        argnums: which argument is differentiated, an int or a tuple of ints
        has_aux: whether the function gives (value, something else), which is handed on

    Example:
        >>> facula.func.grad_and_value(lambda x: x**2)(facula.tensor(3.0))
        (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def differentiated(*args: object, **kwargs: object) -> Any:
        chosen = pick(args, argnums)
        positions = check_argnums(argnums, args)
        single = isinstance(argnums, int)

        def of_chosen(*values: object) -> Any:
            return func(*with_args(args, positions, values), **kwargs)

        primals = (chosen,) if single else chosen
        recorded = Recorded(of_chosen, primals, has_aux, "grad")
        output = recorded.outputs
        if not isinstance(output, Tensor):
            fail(
                RuntimeError,
                "grad",
                "Expected the function f passed to grad to return a Tensor"
                + (", aux" if has_aux else "")
                + f", got {type(output)}",
                hint="return a 0-d tensor, with has_aux=True as the first of two results",
            )
        if output.dim() != 0:
            fail(
                RuntimeError,
                "grad",
                (
                    "Expected the function f passed to grad to return a scalar tensor, got "
                    f"tensor with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev "
                    "APIs instead?"
                ),
                hint="sum() or mean() reduce the output to one number",
            )
        gradients = recorded.structure.build(recorded.gradients([F.ones_like(output)], False))
        value = recorded.values()
        result = gradients[0] if single else gradients
        return (result, (value, recorded.aux)) if has_aux else (result, value)

    return differentiated


def grad(
    func: Callable[..., Any], argnums: object = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of a function of one element.

    Args:
        func: of tensors, to a tensor without dimensions
        argnums: which argument is differentiated, an int or a tuple of ints
        has_aux: whether the function gives (value, something else), which is handed on

    Raises:
        RuntimeError: at the call, where the result is no tensor of one element without dimensions.

    Example:
        >>> facula.func.grad(facula.sin)(facula.tensor(0.0))
        tensor(1.)
        >>> facula.func.grad(facula.func.grad(lambda x: x**3))(facula.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def differentiated(*args: object, **kwargs: object) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return differentiated


def unit_vectors(leaves: list[Any]) -> list[Any]:
    """For each leaf all of its unit vectors: the batch of a basis of the leaves together."""
    total = sum(leaf.numel() for leaf in leaves)
    found, start = [], 0
    for leaf in leaves:
        count = leaf.numel()
        rows = F.zeros((total, count), dtype=leaf.dtype, device=leaf.device)
        rows.narrow(0, start, count).diagonal().fill_(1)
        found.append(rows.view((total, *leaf.shape)))
        start += count
    return found


def _rows(
    pullback: Callable[..., Any], basis: list[Any], structure: Structure, chunk_size: int | None
) -> list[Any]:
    def one(*vectors: object) -> Any:
        return pullback(structure.build(vectors))

    # pulled back gradients need no random numbers; "same" keeps functions with dropout usable
    return flatten(vmap(one, randomness="same", chunk_size=chunk_size)(*basis))[0]


def jacrev(
    func: Callable[..., Any],
    argnums: object = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian, by reverse mode: for more inputs than outputs.

    Args:
        func: of tensors
        argnums: which argument is differentiated, an int or a tuple of ints
        has_aux: whether the function gives (value, something else), which is handed on
        chunk_size: rows that are computed together; None for all

    Example:
        >>> facula.func.jacrev(lambda x: x * x)(facula.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        fail(
            ValueError,
            "jacrev",
            "jacrev: `chunk_size` should be greater than 0.",
            hint="chunk_size=None takes all rows at once",
        )

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        positions = check_argnums(argnums, args)
        primals = tuple(args[i] for i in positions)

        def of_chosen(*values: object) -> Any:
            return func(*with_args(args, positions, values), **kwargs)

        found = vjp(of_chosen, *primals, has_aux=has_aux)
        outputs, structure = flatten(found[0])
        inputs, in_structure = flatten(primals)
        rows = _rows(found[1], unit_vectors(outputs), structure, chunk_size)
        blocks = []
        sizes = [o.numel() for o in outputs]
        for i, output in enumerate(outputs):
            start = sum(sizes[:i])
            block = [
                row.narrow(0, start, sizes[i]).reshape((*output.shape, *x.shape))
                for row, x in zip(rows, inputs, strict=True)
            ]
            built = in_structure.build(block)
            blocks.append(built[0] if isinstance(argnums, int) else built)
        result = structure.build(blocks)
        return (result, found[2]) if has_aux else result

    return jacobian
