"""Collectives as functions: they give new tensors and write to none (PyTorch's `_functional_collectives`).

Takes: tensors, and a group in any of PyTorch's spellings: ranks, a `ProcessGroup`, its name, a `DeviceMesh` of
one dimension, a mesh and a dimension of it. Gives: tensors whose numbers are there when the call returns.
Keeps true: gradients are those of `distributed.nn`; `ops._c10d_functional` has the same functions as operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from facula import core
from facula.core.errors import fail
from facula.distributed import collective_operators as operators
from facula.distributed import nn
from facula.distributed.collective_operators import group_named, way
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.process_group import ProcessGroup
from facula.distributed.world import default_group, groups, new_group
from facula.namespaces.functional import tensor_required
from facula.ops.table.registry import F, composite

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]

Tensor = core.Tensor

#: for a default group, as long as it lives: the groups of lists of ranks
_OF_RANKS: WeakKeyDictionary[Any, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


class AsyncCollectiveTensor(Tensor):
    """The class of results that are under way on devices with queues. Here calls return when the numbers are
    there, so nothing gives one; programs ask `isinstance`, and wrap a tensor that they wait for themselves.

    Args:
        elem: the tensor

    Example:
        >>> from facula.distributed._functional_collectives import AsyncCollectiveTensor
        >>> AsyncCollectiveTensor(facula.ones(2)).wait()
        tensor([1., 1.])
    """

    elem: Tensor
    completed: bool

    @staticmethod
    def __new__(cls, elem: Tensor) -> AsyncCollectiveTensor:
        made: Any = elem.detach().as_subclass(cls)
        made.elem, made.completed = elem, False
        return made

    def trigger_wait(self) -> Tensor:
        """The tensor itself, whose numbers are there."""
        self.completed = True
        return self.elem

    wait = trigger_wait


def _group(group: Any, op: str) -> Any:
    """The process group that an argument means."""
    if isinstance(group, str):
        return group_named(group, op)
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)) and group:
        return _group_of_ranks(group, op)
    fail(ValueError, op, "a group was required: ranks, a ProcessGroup, a DeviceMesh, or a mesh and a dimension of it",
         repr(group), hint="facula.distributed.group.WORLD is the group of all ranks")  # fmt: skip


def _group_of_ranks(ranks: Sequence[Any], op: str) -> Any:
    """The group of some ranks; of several lists the one in which this process is."""
    lists = [tuple(r) for r in ranks] if isinstance(ranks[0], (list, tuple)) else [tuple(ranks)]
    whole, mine = default_group(), None
    made = _OF_RANKS.setdefault(whole, {tuple(whole.ranks): whole})
    for wanted in lists:
        if wanted not in made:
            made[wanted] = new_group(list(wanted))
        if isinstance(made[wanted], ProcessGroup):
            mine = made[wanted]
    if mine is None:
        fail(ValueError, op, "ranks with this process among them were required", lists,
             hint="call it in the processes of the group only")  # fmt: skip
    return mine


def _named(self: Tensor, group: Any) -> bool:
    """Whether an operator stands for a collective: it finds the group by its name; engines that count hear of tensors
    on the meta device, too."""
    counted = self.is_meta and group.engine.counts_only and not getattr(self, "_is_fake", False)
    return not counted and any(known is group for known in groups())


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, once its numbers are there."""
    return tensor.trigger_wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def broadcast(self: Tensor, src: int, group: object, tag: str = "") -> Tensor:
    """The tensor of rank `src`."""
    found = _group(group, "broadcast")
    tensor_required("broadcast", self)
    if _named(self, found):
        return operators.broadcast(self, src, found.group_name)
    return nn.functional.broadcast(self, src, found)


def all_reduce(self: Tensor, reduceOp: str, group: object, tag: str = "") -> Tensor:  # noqa: N803
    """The combination of all ranks' tensors."""
    found, op = _group(group, "all_reduce"), way(reduceOp, "all_reduce")
    tensor_required("all_reduce", self)
    if _named(self, found):
        return operators.all_reduce(self, str(reduceOp), found.group_name)
    return nn.functional.all_reduce(self, op, found)


def all_gather_tensor(self: Tensor, gather_dim: int, group: object, tag: str = "") -> Tensor:
    """All ranks' tensors, behind each other along a dimension."""
    found = _group(group, "all_gather_tensor")
    tensor_required("all_gather_tensor", self)
    dim = gather_dim % self.dim() if self.dim() and self.size(gather_dim) >= 0 else 0
    if not _named(self, found):
        return F.cat(list(nn.functional.all_gather(self, found)), dim)
    whole = operators.all_gather_into_tensor(self.contiguous(), found.size(), found.group_name)
    return F.cat(whole.chunk(found.size(), 0), dim) if dim else whole


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: object, tag: str = ""  # noqa: N803
) -> Tensor:  # fmt: skip
    """The combination of all ranks' tensors, of which each rank gets its part along a dimension."""
    op = "reduce_scatter_tensor"
    found, by = _group(group, op), way(reduceOp, op)
    tensor_required(op, self)
    if self.size(scatter_dim) % found.size():
        fail(AssertionError, op, f"a dimension that {found.size()} ranks divide was required (input dimension "
             f"{scatter_dim} must be a multiple of group_size)", self.size(scatter_dim),
             hint="pad the tensor")  # fmt: skip
    parts = [part.contiguous() for part in self.chunk(found.size(), scatter_dim)]
    if _named(self, found):
        whole = F.cat(parts, 0) if scatter_dim % self.dim() else self.contiguous()
        return operators.reduce_scatter_tensor(whole, str(reduceOp), found.size(), found.group_name)
    return nn.functional.reduce_scatter(parts[found.rank()], parts, by, found)


def all_to_all_single(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Tensor:  # fmt: skip
    """Parts along the first dimension to all ranks, parts from all."""
    found = _group(group, "all_to_all_single")
    tensor_required("all_to_all_single", self)
    if _named(self, found):
        sizes = [
            _even(self, found.size()) if given is None else given
            for given in (output_split_sizes, input_split_sizes)
        ]
        return operators.all_to_all_single(self.contiguous(), *sizes, found.group_name)
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    like = core.empty((rows, *self.shape[1:]), dtype=self.dtype)
    return nn.functional.all_to_all_single(like, self, output_split_sizes, input_split_sizes, found)


def _even(tensor: Tensor, count: int) -> list[int]:
    """Equal parts for all ranks."""
    rows = tensor.shape[0]
    if rows % count:
        fail(ValueError, "all_to_all_single", f"a first dimension that {count} ranks divide was required", rows,
             hint="give the sizes of the parts")  # fmt: skip
    return [rows // count] * count


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single


def permute_tensor(self: Tensor, src_dst: list[int], group: object, tag: str = "") -> Tensor:
    """The tensor of the rank whose target this one is; `src_dst[r]` is where rank r's tensor goes."""
    found = _group(group, "permute_tensor")
    count = self.shape[0] if self.dim() else 1
    if sorted(src_dst) != list(range(found.size())):
        fail(ValueError, "permute_tensor", f"each of {found.size()} ranks once was required as a target", src_dst,
             hint="[1, 2, 0] moves tensors one rank on")  # fmt: skip
    out, back = [0] * found.size(), [0] * found.size()
    out[src_dst[found.rank()]] = back[src_dst.index(found.rank())] = count
    moved = all_to_all_single(self.reshape(count, -1).contiguous(), back, out, found)
    return moved.reshape(self.shape)


def _each(one: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    def of_lists(self: Sequence[Tensor], *args: object) -> list[Tensor]:
        return [one(tensor, *args) for tensor in self]

    of_lists.__doc__ = f"`{one.__name__}` of each tensor of a list."
    return of_lists


all_reduce_coalesced = _each(all_reduce)


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: object, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` along the first dimension of each tensor of a list."""
    return [all_gather_tensor(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: object, tag: str = ""  # noqa: N803
) -> list[Tensor]:  # fmt: skip
    """`reduce_scatter_tensor` of each tensor of a list, each along its dimension."""
    if len(inputs) != len(scatter_dim):
        fail(ValueError, "reduce_scatter_tensor_coalesced", f"a dimension for each of {len(inputs)} tensors "
             "was required", list(scatter_dim), hint="[0] * len(inputs) scatters along the first")  # fmt: skip
    return [
        reduce_scatter_tensor(tensor, reduceOp, dim, group, tag)
        for tensor, dim in zip(inputs, scatter_dim, strict=True)
    ]


def _collective(schema: str, namespace: str = "_c10d_functional") -> Any:
    return composite(f"{namespace}::{schema}", names=(), out=False, inplace=False, keeps=False)


@_collective("wait_tensor(Tensor tensor) -> Tensor")
def _wait_tensor(tensor: Tensor) -> Tensor:
    return wait_tensor(tensor)


@_collective("_wrap_tensor_autograd(Tensor input) -> Tensor")
def _wrap_tensor_autograd(input: Tensor) -> Tensor:
    return input


def _with_ranks(schema: str) -> Any:
    """An operator of the older namespace, whose groups are ranks."""
    ranks = "str tag, int[] ranks, int group_size"
    return _collective(schema.replace("RANKS", ranks), "c10d_functional")


@_with_ranks("wait_tensor(Tensor self) -> Tensor")
def _wait_of_ranks(self: Tensor) -> Tensor:
    return wait_tensor(self)


@_with_ranks("broadcast(Tensor self, int src, RANKS) -> Tensor")
def _broadcast_of_ranks(self: Tensor, src: int, tag: str, ranks: Any, group_size: int) -> Tensor:
    return broadcast(self, src, list(ranks))


@_with_ranks("all_reduce(Tensor self, str reduceOp, RANKS) -> Tensor")
def _all_reduce_of_ranks(
    self: Tensor, reduceOp: str, tag: str, ranks: Any, group_size: int  # noqa: N803
) -> Tensor:  # fmt: skip
    return all_reduce(self, reduceOp, list(ranks))


@_with_ranks("all_gather_into_tensor(Tensor shard, RANKS) -> Tensor")
def _all_gather_of_ranks(shard: Tensor, tag: str, ranks: Any, group_size: int) -> Tensor:
    return all_gather_tensor(shard, 0, list(ranks))


@_with_ranks("reduce_scatter_tensor(Tensor input, str reduceOp, RANKS) -> Tensor")
def _reduce_scatter_of_ranks(
    input: Tensor, reduceOp: str, tag: str, ranks: Any, group_size: int  # noqa: N803
) -> Tensor:  # fmt: skip
    return reduce_scatter_tensor(input, reduceOp, 0, list(ranks))


@_with_ranks(
    "all_to_all_single(Tensor input, int[]? output_split_sizes, int[]? input_split_sizes, RANKS) -> Tensor"
)
def _all_to_all_of_ranks(
    input: Tensor, output_split_sizes: Any, input_split_sizes: Any, tag: str, ranks: Any, group_size: int
) -> Tensor:  # fmt: skip
    return all_to_all_single(input, output_split_sizes, input_split_sizes, list(ranks))
