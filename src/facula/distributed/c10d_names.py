"""What programs and libraries read from PyTorch's extension module of groups, beside the classes of this package.

Takes and gives what PyTorch's functions of these names do. Keeps true: nothing here is what this package works with.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
from collections.abc import Iterator, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.errors import DistStoreError
from facula.distributed.process_group import ProcessGroup
from facula.distributed.stores import Store
from facula.distributed.types import Work
from facula.distributed.world import _STATE
from facula.namespaces.futures import Future

Tensor = core.Tensor

STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"
_DEFAULT_FIRST_BUCKET_BYTES = 1 << 20
_DEFAULT_PG_TIMEOUT = datetime.timedelta(minutes=30)
_DEFAULT_NO_TIMEOUT = datetime.timedelta(0)

OpType = enum.IntEnum(
    "OpType",
    "BROADCAST ALLREDUCE ALLREDUCE_COALESCED REDUCE ALLGATHER _ALLGATHER_BASE ALLGATHER_COALESCED GATHER SCATTER "
    "REDUCE_SCATTER ALLTOALL_BASE ALLTOALL SEND RECV RECVANYSOURCE BARRIER _REDUCE_SCATTER_BASE COALESCED "
    "_ALLREDUCE_SPARSE REDUCE_SCATTER_TENSOR_COALESCED UNKNOWN",
    start=0,
)  # fmt: skip
WorkResult = enum.IntEnum("WorkResult", "SUCCESS TIMEOUT COMM_ERROR UNKNOWN", start=0)
ErrorType = enum.IntEnum("ErrorType", "SUCCESS TIMEOUT COMM_ERROR REMOTE_ERROR", start=0)
BuiltinCommHookType = enum.IntEnum("BuiltinCommHookType", "ALLREDUCE FP16_COMPRESS")


def _create_work_from_future(future: Future) -> Work:
    """The work that ends as a future does."""
    return Work.of_future(future)


def _set_thread_isolation_mode(isolated: bool) -> None:
    """Let each thread have groups of its own, as processes have them, or all threads the same."""
    _STATE.isolate(isolated)


def _get_work_registry_size() -> int:
    """How many works wait for somebody who asks for them by their tensor: results are there when calls return."""
    return 0


def _register_process_group(group_name: str, group: ProcessGroup) -> None:
    """Name a group."""
    group._set_group_name(group_name)


def _store_based_barrier(
    rank: int, store: Store, group_name: str, rendezvous_count: int, timeout: datetime.timedelta,
    logging_interval: datetime.timedelta = datetime.timedelta(seconds=10),
) -> None:  # fmt: skip
    """Wait until this many ranks have come, by a store alone."""
    key = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    came = store.add(key, 1)
    if came == rendezvous_count:
        store.set(f"{key}:last_worker", "1")
    try:
        store.wait([f"{key}:last_worker"], timeout)
    except DistStoreError as error:
        fail(DistStoreError, "barrier", f"all {rendezvous_count} ranks were required within {timeout} (Timed out "
             f"initializing process group in store based barrier on rank: {rank}, for key: {key})",
             f"{store.add(key, 0)} of them ({error})", "see whether all processes were started")  # fmt: skip


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor], bucket_size: Sequence[int], expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (), logger: Any = None,
) -> tuple[list[list[int]], list[int]]:  # fmt: skip
    """Numbers of tensors in buckets by dtype and device, and how many bytes each bucket was to have.

    Args:
        bucket_size: bytes of the first buckets of a kind; the last entry is for all others
        expect_sparse_gradient: whether a tensor is alone
        tensor_indices: the numbers of the tensors, where those are not their places
    """
    if not tensors or not bucket_size:
        fail(RuntimeError, "_compute_bucket_assignment_by_size", "tensors and sizes were required",
             f"{len(tensors)} and {len(bucket_size)}", hint="for example ([weight], [25 << 20])")  # fmt: skip
    made: list[tuple[list[int], int]] = []
    #: of each kind: the open bucket, its bytes, which limit counts for it
    opened: dict[Any, tuple[list[int], int, int]] = {}
    for place, tensor in enumerate(tensors):
        number = tensor_indices[place] if tensor_indices else place
        if expect_sparse_gradient and expect_sparse_gradient[number]:
            made.append(([number], 0))
            continue
        kind = (tensor.dtype, tensor.device)
        held, size, turn = opened.get(kind, ([], 0, 0))
        held, size = [*held, number], size + tensor.numel() * tensor.element_size()
        limit = bucket_size[turn]
        if size >= limit:
            made.append((held, limit))
            held, size, turn = [], 0, min(turn + 1, len(bucket_size) - 1)
        opened[kind] = (held, size, turn)
    made += [(held, bucket_size[turn]) for held, _, turn in opened.values() if held]
    if not tensor_indices:  # else their order says when gradients come
        made.sort(key=lambda one: min(one[0]))
    return [held for held, _ in made], [limit for _, limit in made]


class _CollOp:
    """A collective that waits for others: what is called, and its tensors."""

    def __init__(
        self, op: Any, tensor: Tensor, dst_tensor: Tensor | None = None, redop: Any = None, root: int | None = None
    ) -> None:  # fmt: skip
        self.op, self.tensor, self.dst_tensor, self.redop, self.root = (
            op, tensor, dst_tensor, redop, root,
        )  # fmt: skip


class _CoalescingManager:
    """Works of a block."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None) -> None:
        """One more."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all of them."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(
    group: ProcessGroup | None = None, device: Any = None, async_ops: bool = False
) -> Iterator[_CoalescingManager]:
    """A block whose collectives may be gathered; here they begin one behind the other.

    Args:
        async_ops: whether the caller waits for what the block gathered
    """
    gathered = _CoalescingManager()
    yield gathered
    if not async_ops:
        gathered.wait()
