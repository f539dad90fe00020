"""Collectives that give new tensors, with gradients.

Takes: tensors and a group. Gives: tensors.
Keeps true: the gradient of a collective is the collective that is its transpose, so all ranks must run
the backward pass, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from facula import core
from facula.autograd import Function
from facula.distributed import operations as operations
from facula.distributed.types import ReduceOp
from facula.distributed.world import own_group
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


Tensor = core.Tensor

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip


def _group(group: ProcessGroup | None) -> Any:
    return own_group(group, "distributed.nn")


def _is_at(group: Any, rank: int) -> bool:
    return bool(group.ranks[group.rank()] == rank)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: core.Op, group: ProcessGroup | None, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        made = tensor.detach().clone()
        operations.all_reduce(made, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup | None, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        made = tensor.detach().clone()
        operations.broadcast(made, src, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = grad.detach().clone()
        operations.reduce(total, ctx.src, ReduceOp.SUM, ctx.group)
        return None, None, total if _is_at(ctx.group, ctx.src) else total.zero_()


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Any:
        ctx.group = group
        made = [core.empty(tuple(tensor.shape), dtype=tensor.dtype) for _ in range(group.size())]
        operations.all_gather(made, tensor.detach(), group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.group = group
        mine = tensors[group.rank()]
        made = core.empty(tuple(mine.shape), dtype=mine.dtype)
        operations.reduce_scatter(made, [t.detach() for t in tensors], op, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (None, None, *_AllGather.apply(ctx.group, grad))


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any,
        group: ProcessGroup | None,
        sizes_in: Any,
        sizes_out: Any,
        shape: Any,
        tensor: Tensor,
    ) -> Tensor:
        ctx.group, ctx.sizes = group, (sizes_in, sizes_out)
        ctx.shape = tuple(tensor.shape)
        made = core.empty(tuple(shape), dtype=tensor.dtype)
        operations.all_to_all_single(made, tensor.detach(), sizes_out, sizes_in, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        sizes_in, sizes_out = ctx.sizes
        found = _AllToAllSingle.apply(ctx.group, sizes_out, sizes_in, ctx.shape, grad)
        return None, None, None, None, found


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        made = [F.zeros_like(tensor) for _ in range(group.size())]
        operations.gather(tensor.detach(), made if _is_at(group, dst) else None, dst, group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: ProcessGroup | None, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        made = F.zeros_like(tensors[0])
        held = [t.detach() for t in tensors] if _is_at(group, src) else None
        operations.scatter(made, held, src, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (None, None, *_Gather.apply(ctx.src, ctx.group, grad))


class _Reduce(Function):
    @staticmethod
    def forward(
        ctx: Any, dst: int, op: core.Op, group: ProcessGroup | None, tensor: Tensor
    ) -> Tensor:
        ctx.dst, ctx.group = dst, group
        made = tensor.detach().clone()
        operations.reduce(made, dst, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: ProcessGroup | None, shapes: Any, *tensors: Tensor) -> Any:
        ctx.group, ctx.shapes = group, [tuple(t.shape) for t in tensors]
        made = [core.empty(shape, dtype=tensors[0].dtype) for shape in shapes]
        operations.all_to_all(made, [t.detach() for t in tensors], group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads))


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The combination of all ranks' tensors; its gradient is combined likewise."""
    return _AllReduce.apply(op, _group(group), tensor)


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """One rank's tensor; its gradient is the sum of all ranks', on that rank."""
    return _Broadcast.apply(src, _group(group), tensor)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """Each rank's tensor."""
    return _AllGather.apply(_group(group), tensor)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
) -> Tensor:
    """The combination of all ranks' entry with this rank's number; `output` says no more than its shape."""
    return _ReduceScatter.apply(op, _group(group), *input_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: ProcessGroup | None = None,
) -> Tensor:  # fmt: skip
    """Parts of the tensor to all ranks, parts from all; `output` says no more than the result's shape."""
    return _AllToAllSingle.apply(
        _group(group), input_split_sizes, output_split_sizes, output.shape, input
    )


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: ProcessGroup | None = None,
) -> tuple[Tensor, ...]:
    """One tensor to each rank, one from each; the outputs that are passed say no more than shapes."""
    shapes = [tuple(t.shape) for t in output_tensor_list]
    return _AllToAll.apply(_group(group), shapes, *input_tensor_list)


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """Each rank's tensor on rank `dst`, and zeros on the others; gradients go back to where tensors came from."""
    return _Gather.apply(dst, _group(group), tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """The entry with this rank's number of the list of rank `src`; the others' lists say no more than shapes."""
    return _Scatter.apply(src, _group(group), *tensors)


def reduce(
    tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The combination of all ranks' tensors on rank `dst`, and each's own on the others.

    Each rank's gradient is that of `dst`.
    """
    return _Reduce.apply(dst, op, _group(group), tensor)
