"""The collectives that write to tensors, as operators: `ops.c10d`.

Takes: tensors, groups and reductions as objects. Gives: the tensors that were written to.
Keeps true: each does what the function of `distributed` does that it is named for; `CommDebugMode` counts under
these names.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.distributed import operations
from facula.ops.table.registry import composite

__all__: list[str] = []

Tensors = list[core.Tensor]


def _collective(schema: str) -> Any:
    schema = schema.replace("GROUP", "any process_group").replace(
        "LAST", "bool async_op=True, int timeout=-1"
    )
    return composite(f"c10d::{schema}", names=(), out=False, inplace=False, keeps=False)


@_collective(
    "allreduce_(Tensor[] tensors, GROUP, any reduce_op, Tensor? sparse_indices=None, LAST) -> Tensor[]"
)
def _allreduce(
    tensors: Tensors, process_group: Any, reduce_op: Any, sparse_indices: Any, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    operations.all_reduce(tensors[0], reduce_op, process_group)
    return list(tensors)


@_collective(
    "broadcast_(Tensor[] tensors, GROUP, int root_rank, int root_tensor=0, LAST) -> Tensor[]"
)
def _broadcast(
    tensors: Tensors, process_group: Any, root_rank: int, root_tensor: int, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    operations.broadcast(tensors[0], group=process_group, group_src=root_rank)
    return list(tensors)


@_collective(
    "reduce_(Tensor[] tensors, GROUP, any reduce_op, int root_rank, int root_tensor=0, LAST) -> Tensor[]"
)
def _reduce(
    tensors: Tensors, process_group: Any, reduce_op: Any, root_rank: int, root_tensor: int, async_op: bool,
    timeout: int,
) -> Tensors:  # fmt: skip
    operations.reduce(tensors[0], op=reduce_op, group=process_group, group_dst=root_rank)
    return list(tensors)


@_collective("allgather_(any output_tensors, Tensor[] input_tensors, GROUP, LAST) -> Tensor[]")
def _allgather(
    output_tensors: Any, input_tensors: Tensors, process_group: Any, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    operations.all_gather(list(output_tensors[0]), input_tensors[0], process_group)
    return list(output_tensors[0])


@_collective("_allgather_base_(Tensor output_tensor, Tensor input_tensor, GROUP, LAST) -> Tensor")
def _allgather_base(
    output_tensor: core.Tensor, input_tensor: core.Tensor, process_group: Any, async_op: bool, timeout: int
) -> core.Tensor:  # fmt: skip
    operations.all_gather_into_tensor(output_tensor, input_tensor, process_group)
    return output_tensor


@_collective(
    "reduce_scatter_(Tensor[] output_tensors, any input_tensors, GROUP, any reduce_op, LAST) -> Tensor[]"
)
def _reduce_scatter(
    output_tensors: Tensors, input_tensors: Any, process_group: Any, reduce_op: Any, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    operations.reduce_scatter(output_tensors[0], list(input_tensors[0]), reduce_op, process_group)
    return list(output_tensors)


@_collective(
    "_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor, GROUP, any reduce_op, LAST) -> Tensor"
)
def _reduce_scatter_base(
    output_tensor: core.Tensor, input_tensor: core.Tensor, process_group: Any, reduce_op: Any, async_op: bool,
    timeout: int,
) -> core.Tensor:  # fmt: skip
    operations.reduce_scatter_tensor(output_tensor, input_tensor, reduce_op, process_group)
    return output_tensor


@_collective("alltoall_(Tensor[] output_tensors, Tensor[] input_tensors, GROUP, LAST) -> Tensor[]")
def _alltoall(
    output_tensors: Tensors, input_tensors: Tensors, process_group: Any, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    operations.all_to_all(list(output_tensors), list(input_tensors), process_group)
    return list(output_tensors)


@_collective(
    "gather_(any output_tensors, Tensor[] input_tensors, GROUP, int root_rank, LAST) -> Tensor[]"
)
def _gather(
    output_tensors: Any, input_tensors: Tensors, process_group: Any, root_rank: int, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    mine = list(output_tensors[0]) if output_tensors else None
    operations.gather(input_tensors[0], mine, group=process_group, group_dst=root_rank)
    return mine or []


@_collective(
    "scatter_(Tensor[] output_tensors, any input_tensors, GROUP, int root_rank, LAST) -> Tensor[]"
)
def _scatter(
    output_tensors: Tensors, input_tensors: Any, process_group: Any, root_rank: int, async_op: bool, timeout: int
) -> Tensors:  # fmt: skip
    given = list(input_tensors[0]) if input_tensors else None
    operations.scatter(output_tensors[0], given, group=process_group, group_src=root_rank)
    return list(output_tensors)
