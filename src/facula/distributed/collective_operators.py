"""Collectives as operators, `ops._c10d_functional`: a program that is traced holds them as calls.

Takes: tensors, and groups by their names. Gives: new tensors.
Keeps true: tracing sends nothing, since shapes follow from the arguments; a group is looked up by its name when a call
runs, by the process (or thread) that runs it.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.traffic import functional
from facula.distributed.types import ReduceOp
from facula.distributed.world import groups
from facula.fx import has_side_effect
from facula.ops.table.registry import operator

__all__ = [
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all_single",
    "broadcast",
    "group_named",
    "reduce_scatter_tensor",
    "way",
]

_SPACE = "_c10d_functional::"
_FIELDS: dict[str, Any] = {"names": (), "out": False, "inplace": False, "keeps": False}


def group_named(name: str, op: str) -> Any:
    """The process group with a name.

    Args:
        name: of the group.
        op: what asks for it, for the error.
    """
    for known in groups():
        if known.group_name == name:
            return known
    fail(ValueError, op, "the name of a process group was required", repr(name),
         hint="group.group_name is its name")  # fmt: skip


def way(reduce_op: str, op: str) -> Any:
    """The `ReduceOp` of a name, in whatever case.

    Args:
        reduce_op: the name.
        op: what asks for it, for the error.
    """
    found = getattr(ReduceOp, str(reduce_op).upper(), None)
    if not isinstance(found, ReduceOp.RedOpType):
        fail(ValueError, op, "the name of a reduction was required (Unsupported reduce operation)", repr(reduce_op),
             hint="\"sum\", \"avg\", \"product\", \"min\", \"max\", \"band\", \"bor\" or \"bxor\"")  # fmt: skip
    return found


def _empty(shape: Any, like: Any) -> Any:
    return core.empty(tuple(shape), dtype=like.dtype, device=like.device)


@operator(_SPACE + "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", **_FIELDS)
class all_reduce:  # noqa: N801 - the operator's name
    """The combination of all ranks' tensors."""

    def meta(input, reduce_op, group_name):
        way(reduce_op, "all_reduce")
        return _empty(input.shape, input)

    def cpu(out, input, reduce_op, group_name):
        with functional():
            out.copy_(input)
            group = group_named(group_name, "all_reduce")
            operations.all_reduce(out, way(reduce_op, "all_reduce"), group)

    def backward(grad, reduce_op, group_name):
        return all_reduce(grad, reduce_op, group_name)


@operator(_SPACE + "broadcast(Tensor input, int src, str group_name) -> Tensor", **_FIELDS)
class broadcast:  # noqa: N801
    """The tensor of rank `src`; its gradient is the sum of all ranks', there."""

    def meta(input, src, group_name):
        return _empty(input.shape, input)

    def cpu(out, input, src, group_name):
        with functional():
            out.copy_(input)
            operations.broadcast(out, src, group_named(group_name, "broadcast"))

    def backward(grad, src, group_name):
        group = group_named(group_name, "broadcast")
        total = all_reduce(grad, "sum", group_name)
        return total if group.ranks[group.rank()] == src else total * 0


@operator(
    _SPACE + "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor",
    **_FIELDS,
)
class all_gather_into_tensor:  # noqa: N801
    """All ranks' tensors, behind each other along the first dimension."""

    def meta(input, group_size, group_name):
        first = input.shape[0] if input.dim() else 1
        return _empty((first * group_size, *input.shape[1:]), input)

    def cpu(out, input, group_size, group_name):
        with functional():
            group = group_named(group_name, "all_gather_into_tensor")
            operations.all_gather_into_tensor(out, input, group)

    def backward(grad, input_meta, group_size, group_name):
        mine = reduce_scatter_tensor(grad, "sum", group_size, group_name)
        return mine.reshape(input_meta.shape)


@operator(
    _SPACE + "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) "
    "-> Tensor",
    **_FIELDS,
)
class reduce_scatter_tensor:  # noqa: N801
    """The combination of all ranks' tensors, of which each rank gets its part along the first dimension."""

    def meta(input, reduce_op, group_size, group_name):
        way(reduce_op, "reduce_scatter_tensor")
        if not input.dim() or input.shape[0] % group_size:
            fail(AssertionError, "reduce_scatter_tensor", f"a first dimension that {group_size} ranks divide was "
                 "required (input dimension 0 must be a multiple of group_size)", tuple(input.shape),
                 hint="pad the tensor")  # fmt: skip
        return _empty((input.shape[0] // group_size, *input.shape[1:]), input)

    def cpu(out, input, reduce_op, group_size, group_name):
        with functional():
            group = group_named(group_name, "reduce_scatter_tensor")
            operations.reduce_scatter_tensor(
                out, input, way(reduce_op, "reduce_scatter_tensor"), group
            )

    def backward(grad, reduce_op, group_size, group_name):
        whole = all_gather_into_tensor(grad, group_size, group_name)
        return whole / group_size if reduce_op.lower() == "avg" else whole


@operator(
    _SPACE + "all_to_all_single(Tensor input, int[] output_split_sizes, int[] input_split_sizes, "
    "str group_name) -> Tensor",
    **_FIELDS,
)
class all_to_all_single:  # noqa: N801
    """Parts along the first dimension to all ranks, parts from all."""

    def meta(input, output_split_sizes, input_split_sizes, group_name):
        return _empty((sum(output_split_sizes), *input.shape[1:]), input)

    def cpu(out, input, output_split_sizes, input_split_sizes, group_name):
        with functional():
            sizes = list(output_split_sizes), list(input_split_sizes)
            group = group_named(group_name, "all_to_all_single")
            operations.all_to_all_single(out, input, *sizes, group)

    def backward(grad, output_split_sizes, input_split_sizes, group_name):
        return all_to_all_single(grad, input_split_sizes, output_split_sizes, group_name)


for _collective in (
    all_reduce,
    broadcast,
    all_gather_into_tensor,
    reduce_scatter_tensor,
    all_to_all_single,
):
    has_side_effect(_collective)  # other ranks wait for it, also where nobody here reads its result
