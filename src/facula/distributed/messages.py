"""Messages from one rank to another.

Takes: tensors and a rank. Gives: tensors that are written in place; `isend` and `irecv` give a `Work`.
Keeps true: names, arguments and results are PyTorch's; peers are ranks of the world; messages of two ranks with
one tag come in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.operations import _checked, _root
from facula.distributed.process_group import ProcessGroup
from facula.distributed.types import Work
from facula.distributed.world import group_of

Tensor = core.Tensor


def _peer(group: ProcessGroup, rank: int | None, group_rank: int | None, op: str) -> int:
    peer = _root(group, rank, group_rank, op)
    if peer == group.rank():
        fail(ValueError, op, "another rank was required (Invalid rank: destination rank should not be the "
             "same as the rank of the current process)", rank,
             hint="copy_() copies within a process")  # fmt: skip
    return peer


def isend(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:  # fmt: skip
    """Send a tensor to a rank; it may be changed as soon as this returns, one in the memory of a device once the
    work is done.

    Args:
        tensor: what is sent
        dst: the rank that gets it, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_dst: the same as a number of the group

    Raises:
        ValueError: another rank is required; in a group of one there is none.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.arange(2.0)
        >>> if dist.get_world_size() > 1:
        ...     dist.isend(x, dst=1).wait() if dist.get_rank() == 0 else dist.irecv(x, src=0).wait()
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    _checked(tensor if found is None else found.engine.taken(tensor), "isend")
    if found is None:
        return None
    peer = _peer(found, dst, group_dst, "isend")
    return found.send([tensor], peer, tag) if found.by_program else found.isend(tensor, peer, tag)


def irecv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> Work | None:  # fmt: skip
    """Write what a rank (any, without one) sends to a tensor.

    Args:
        tensor: written to
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.arange(2.0)
        >>> if dist.get_world_size() > 1:
        ...     dist.isend(x, dst=1).wait() if dist.get_rank() == 0 else dist.irecv(x, src=0).wait()
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    _checked(tensor if found is None else found.engine.taken(tensor), "irecv")
    if found is None:
        return None
    nobody = src is None and group_src is None
    peer = None if nobody else _peer(found, src, group_src, "irecv")
    if not found.by_program:
        return found.irecv(tensor, peer, tag)
    return found.recv_anysource([tensor], tag) if peer is None else found.recv([tensor], peer, tag)


def send(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> None:  # fmt: skip
    """Send a tensor to a rank.

    Args:
        tensor: what is sent
        dst: the rank that gets it, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_dst: the same as a number of the group

    Raises:
        ValueError: another rank is required; in a group of one there is none.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.arange(2.0)
        >>> if dist.get_world_size() > 1:
        ...     dist.send(x, dst=1) if dist.get_rank() == 0 else dist.recv(x, src=0)
        >>> dist.destroy_process_group()
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> int:  # fmt: skip
    """Wait for what a rank (any, without one) sends; gives the sender's rank.

    Args:
        tensor: written to
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.arange(2.0)
        >>> if dist.get_world_size() > 1:
        ...     dist.send(x, dst=1) if dist.get_rank() == 0 else dist.recv(x, src=0)
        >>> dist.destroy_process_group()
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """One of several messages that are started together: `isend` or `irecv`, a tensor, a rank.

    Args:
        op: `isend` or `irecv`
        tensor: what is sent, or written to
        peer: the other rank, a number of the world
        group: the ranks; None for all
        tag: tells messages of two ranks apart
        group_peer: the other rank as a number of the group

    Raises:
        ValueError: `op` is another function, or there is no such rank.

    Example:
        >>> dist = facula.distributed
        >>> try:
        ...     dist.P2POp(dist.broadcast, facula.ones(1), 1)
        ... except ValueError:
        ...     print("isend or irecv")
        isend or irecv
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: core.Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if getattr(op, "__name__", "") not in ("isend", "irecv"):
            fail(
                ValueError,
                "P2POp",
                "distributed.isend or distributed.irecv was required (Invalid op)",
                op,
                hint="pass the function itself",
            )
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer

    def start(self) -> Work | None:
        """Start it."""
        return self.op(self.tensor, self.peer, group=self.group, tag=self.tag, **self._group_peer())

    def _group_peer(self) -> dict[str, Any]:
        if self.group_peer is None:
            return {}
        name = "group_dst" if self.op.__name__ == "isend" else "group_src"
        return {name: self.group_peer}


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages; receives first, so that none waits for memory.

    Args:
        p2p_op_list: a `P2POp` for each message

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> me, count = dist.get_rank(), dist.get_world_size()
        >>> x, y = facula.full((1,), me), facula.empty(1, dtype=facula.int64)
        >>> if count > 1:
        ...     ring = [
        ...         dist.P2POp(dist.isend, x, (me + 1) % count),
        ...         dist.P2POp(dist.irecv, y, (me - 1) % count),
        ...     ]
        ...     for work in dist.batch_isend_irecv(ring):
        ...         work.wait()
        >>> dist.destroy_process_group()
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        fail(ValueError, "batch_isend_irecv", "a list of P2POp was required (Invalid ``p2p_op_list``. Each "
             "op is expected to be of type ``P2POp``)", p2p_op_list,
             hint="P2POp(distributed.isend, tensor, peer) makes one")  # fmt: skip
    order = sorted(range(len(p2p_op_list)), key=lambda i: p2p_op_list[i].op.__name__ == "isend")
    works = {i: p2p_op_list[i].start() for i in order}
    return [w for _, w in sorted(works.items()) if w is not None]
