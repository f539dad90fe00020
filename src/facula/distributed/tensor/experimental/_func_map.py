"""Functions of plain tensors on the pieces of distributed ones.

Takes: a function, and the placements of its results (and arguments). Gives: a function of distributed tensors.
Keeps true: where no argument is distributed, it is the function itself; nothing is moved unless that is asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.dtensor import DTensor
from facula.fx import _pytree as pytree

__all__ = ["local_map"]


def _pieces(
    leaves: list[Any], wanted: Any, grads: Any, mesh: DeviceMesh | None, redistribute: bool
) -> tuple[list[Any], DeviceMesh | None, bool]:
    """The arguments with this rank's pieces, the mesh, and whether any was distributed."""
    op = "local_map"
    for name, given in (("in_placements", wanted), ("in_grad_placements", grads)):
        if given is not None and len(given) != len(leaves):
            fail(AssertionError, op, f"{name} of {len(leaves)} entries, one for each argument, was required",
                 len(given), hint="give None for what is no distributed tensor")  # fmt: skip
    found, some = [], False
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, DTensor):
            found.append(leaf)
            continue
        some, mesh = True, leaf.device_mesh if mesh is None else mesh
        if wanted is not None:
            if wanted[i] is None:
                fail(AssertionError, op, "placements of each distributed argument were required (Tensor input "
                     "expected placements but received None)", f"None for argument {i}",
                     hint="give its placements, such as [Shard(0)]")  # fmt: skip
            if tuple(leaf.placements) != tuple(wanted[i]):
                if not redistribute:
                    fail(ValueError, op, f"placements {tuple(wanted[i])} of argument {i} were required (set "
                         "redistribute_inputs=True to redistribute)", tuple(leaf.placements),
                         hint="redistribute the argument, or pass redistribute_inputs=True")  # fmt: skip
                leaf = leaf.redistribute(mesh, wanted[i])
        found.append(leaf.to_local(grad_placements=None if grads is None else grads[i]))
    return found, mesh, some


def _whole(result: object, placements: Any, mesh: Any) -> Any:
    """The function's results as distributed tensors."""
    leaves, spec = pytree.tree_flatten(result)
    each = (
        placements if placements and isinstance(placements[0], (list, tuple, type(None))) else None
    )
    if each is None:
        each = [placements] * len(leaves) if len(leaves) == 1 else None
    if each is None or len(each) != len(leaves):
        fail(AssertionError, "local_map", f"out_placements for {len(leaves)} results were required", placements,
             hint="a tuple of placements, one for each result")  # fmt: skip
    made = []
    for leaf, where in zip(leaves, each, strict=True):
        if isinstance(leaf, core.Tensor) and not isinstance(leaf, DTensor) and where is not None:
            leaf = DTensor.from_local(leaf, mesh, where, run_check=False)
        elif where is not None:
            fail(AssertionError, "local_map", "None was required where a result is no tensor", where,
                 hint="only tensors have placements")  # fmt: skip
        made.append(leaf)
    return pytree.tree_unflatten(made, spec)


def local_map(
    func: Callable[..., Any] | None = None, out_placements: object = None,
    in_placements: Sequence[Any] | None = None, in_grad_placements: Sequence[Any] | None = None,
    device_mesh: DeviceMesh | None = None, *, redistribute_inputs: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function of plain tensors as one of distributed tensors: it gets this rank's pieces.

    Args:
        func: the function; None makes a decorator
        out_placements: where the pieces it gives lie, for one result; for several a tuple of such, None for what
            is no tensor
        in_placements: what the arguments' placements must be, one entry for each; None asks nothing
        in_grad_placements: the placements of the gradients of the arguments' pieces; None for the arguments' own
        device_mesh: of the results; None for that of the first distributed argument
        redistribute_inputs: whether arguments of other placements are moved; otherwise they are an error

    Raises:
        ValueError: an argument has other placements.
        AssertionError: there are more or fewer entries than arguments or results.

    Example:
        >>> from facula.distributed.tensor.experimental import local_map
        >>> double = local_map(lambda x: 2 * x, out_placements=None)
        >>> double(facula.ones(2))
        tensor([2., 2.])
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )  # fmt: skip
    called = func

    @functools.wraps(called)
    def mapped(*args: object, **kwargs: object) -> Any:
        leaves, spec = pytree.tree_flatten(args)
        pieces, mesh, some = _pieces(
            leaves, in_placements, in_grad_placements, device_mesh, redistribute_inputs
        )
        result = called(*pytree.tree_unflatten(pieces, spec), **kwargs)
        return _whole(result, out_placements, mesh) if some else result

    return mapped
