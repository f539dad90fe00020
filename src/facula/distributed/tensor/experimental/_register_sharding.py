"""How operators of programs run on the pieces of distributed tensors: rules that programs register.

Takes operators, and functions of their arguments. Gives plans for `dtensor`.
Keeps true: a rule is asked for one dimension of a mesh; the cheapest of the ways that it allows is taken in each, and
pieces that are not of one length (which a rule knows nothing of) are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from facula import core
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor import dtensor
from facula.distributed.tensor.placement_types import Placement, Replicate, Shard
from facula.distributed.tensor.rules import Plan, change_cost
from facula.distributed.tensor.specs import DTensorSpec, TensorMeta
from facula.fx._pytree import tree_leaves, tree_map

__all__ = ["DTensorSpec", "TensorMeta", "register_sharding"]


Rule: TypeAlias = Callable[..., Sequence[tuple[Sequence[Any], Sequence[Any]]]]


def register_sharding(op: object) -> Callable[[Rule], Rule]:
    """Say how an operator runs on the pieces of distributed tensors.

    The function takes the operator's arguments, with a `DTensorSpec` for each tensor, and gives the ways that are
    allowed along one dimension of a mesh: pairs of the placements of the results, and of the arguments (None for one
    that is no tensor).

    Args:
        op: an operator (`torch.ops.library.name.default`), or several

    Raises:
        TypeError: `op` is no operator

    Example:
        >>> from facula.distributed.tensor import Replicate, Shard
        >>> from facula.distributed.tensor.experimental import register_sharding
        >>> @register_sharding(facula.ops.aten._softmax.default)
        ... def rule(x, dim, half_to_float):
        ...     rows = [([Shard(d)], [Shard(d), None, None]) for d in range(x.ndim) if d != dim % x.ndim]
        ...     return [([Replicate()], [Replicate(), None, None]), *rows]
    """
    found = [_name(one) for one in (op if isinstance(op, (list, tuple)) else [op])]

    def register(rule: Rule) -> Rule:
        for name in found:
            dtensor.REGISTERED[name] = lambda *call: _planned(rule, *call)
        return rule

    return register


def _name(op: object) -> str:
    definition = getattr(getattr(op, "_op", op), "definition", None)
    if definition is None:
        fail(TypeError, "register_sharding", "an operator was required", type(op).__name__,
             hint="torch.ops.library.name.default is one")  # fmt: skip
    return str(definition.name)


def _spec(value: Any, mesh: DeviceMesh) -> Any:
    if not isinstance(value, core.Tensor):
        return value
    placements = getattr(value, "placements", (Replicate(),) * mesh.ndim)
    known = TensorMeta(core.Size(value.shape), tuple(value.stride()), value.dtype)
    return DTensorSpec(mesh, tuple(placements), known)


def _planned(
    rule: Rule, func: Callable[..., Any], args: object, kwargs: object, tensors: list[Any], mesh: DeviceMesh
) -> Plan | None:  # fmt: skip
    """How a call runs, by a registered rule; None where none of its ways fits."""
    specs, named = tree_map(lambda v: _spec(v, mesh), (args, kwargs))
    ways = [
        (tuple(_placements(results)), tuple(p for p in given if p is not None))
        for results, given in rule(*specs, **named)
    ]
    chosen = []
    for mesh_dim in range(mesh.ndim):
        costs = [_cost(way[1], tensors, mesh, mesh_dim) for way in ways]
        if not costs or min(costs) == math.inf:
            return None
        chosen.append(ways[costs.index(min(costs))])
    if len(chosen) > 1 and _cut_twice(chosen):
        return None
    shapes = _whole_shapes(func, args, kwargs)
    wanted: list[Any] = [tuple(way[1][i] for way in chosen) for i in range(len(tensors))]
    placements = [tuple(way[0][i] for way in chosen) for i in range(len(chosen[0][0]))]
    return Plan(wanted, placements, ["*"] * len(placements), {}, shapes, {})


def _placements(given: Any) -> list[Placement]:
    return [given] if isinstance(given, Placement) else list(given)


def _cost(way: Sequence[Placement], tensors: list[Any], mesh: DeviceMesh, mesh_dim: int) -> float:
    """What a way costs; infinity where it does not fit."""
    if len(way) != len(tensors):
        return math.inf
    total, count = 0.0, mesh.size(mesh_dim)
    for tensor, new in zip(tensors, way, strict=True):
        if isinstance(new, Shard):
            if new.dim >= tensor.dim() or tensor.shape[new.dim] % count:
                return math.inf
        before = getattr(tensor, "placements", (Replicate(),) * mesh.ndim)[mesh_dim]
        total += change_cost(before, new, tensor.numel() * tensor.element_size() + 1, count)
    return total


def _cut_twice(chosen: list[Any]) -> bool:
    """Whether two dimensions of the mesh cut the same dimension of a tensor."""
    for place in zip(*(way[1] for way in chosen), strict=True):
        cut = [p.dim for p in place if isinstance(p, Shard)]
        if len(cut) != len(set(cut)):
            return True
    return False


def _whole_shapes(
    func: Callable[..., Any], args: object, kwargs: object
) -> tuple[tuple[int, ...], ...]:
    """The shapes of the results for whole tensors."""

    def bare(value: Any) -> Any:
        if not isinstance(value, core.Tensor):
            return value
        return core.empty(tuple(value.shape), dtype=value.dtype, device="meta")

    made = func(*tree_map(bare, args), **tree_map(bare, kwargs))
    return tuple(tuple(v.shape) for v in tree_leaves(made) if isinstance(v, core.Tensor))
