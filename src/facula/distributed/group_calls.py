"""What the methods of a group with an engine of its own do (`group_methods`): collectives on lists of tensors.

Takes: a group, lists of tensors, options. Gives: a `Work` of the tensors that are written.
Keeps true: arguments are checked before anything is sent, with the engines' error types of PyTorch; several
tensors of a rank count as those of several ranks.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.engine import Exchange
from facula.distributed.group_methods import SERVED
from facula.distributed.operations import _flat, _Targets
from facula.distributed.options import _Options
from facula.distributed.process_group import ProcessGroup
from facula.distributed.types import Work, together

Tensor = core.Tensor
Tensors = list[Tensor]


@contextlib.contextmanager
def _within(group: ProcessGroup, options: _Options) -> Iterator[None]:
    """A block in which what begins has the time that the options name."""
    before, limit = group.seconds, options.seconds()
    group.seconds = before if limit is None else limit
    try:
        yield
    finally:
        group.seconds = before


# ------------------------------------------------------------------ checks


def _some(tensors: Sequence[Any], op: str, what: str = "tensor list") -> None:
    if not tensors:
        fail(RuntimeError, op, f"a list with tensors was required (requires non-empty {what})", "an empty one",
             hint="name a tensor")  # fmt: skip


def _alike(tensors: Sequence[Tensor], like: Tensor, op: str) -> None:
    """Raise unless the tensors are of one dtype, layout and shape."""
    for index, t in enumerate(tensors):
        for what, found, wanted in (
            ("layout", t.layout, like.layout),
            ("type", t.dtype, like.dtype),
            ("size", tuple(t.shape), tuple(like.shape)),
        ):
            if found != wanted:
                fail(RuntimeError, op, f"tensors of the {what} {wanted} were required (invalid tensor {what} at "
                     f"index {index})", found, hint="convert them, or call it for each")  # fmt: skip


def _only(tensors: Sequence[Any], op: str, what: str) -> Any:
    """The one entry of a list."""
    if len(tensors) != 1:
        fail(RuntimeError, op, f"one entry was required (requires a single-element {what})", len(tensors),
             hint="call it for each tensor")  # fmt: skip
    return tensors[0]


def _root(group: ProcessGroup, rank: int, op: str) -> int:
    if not 0 <= rank < group.size():
        fail(RuntimeError, op, f"a rank of the group in [0, {group.size()}) was required (invalid root rank: {rank})",
             rank, hint="roots are ranks of the group here")  # fmt: skip
    return rank


def _root_tensor(tensors: Tensors, index: int, op: str) -> int:
    if not 0 <= index < len(tensors):
        fail(RuntimeError, op, f"a place in the list of {len(tensors)} was required (invalid root tensor: {index})",
             index, hint="rootTensor counts from 0")  # fmt: skip
    return index


def _for_all(group: ProcessGroup, tensors: Tensors, like: Tensor, op: str) -> None:
    """Raise unless a list has a tensor like this for each rank."""
    if len(tensors) != group.size():
        fail(RuntimeError, op, f"a tensor for each of {group.size()} ranks was required (Incorrect list size "
             f"{len(tensors)}. Input/output list size should be {group.size()}, same as size of the process group.)",
             len(tensors), hint="group.size() says how many there are")  # fmt: skip
    _alike(tensors, like, op)


def _at_root(
    group: ProcessGroup, root: int, lists: list[Tensors], like: Tensor, op: str, what: str
) -> Any:
    """The list with a tensor for each rank that the root passes; None on the others, which pass none."""
    if group.rank() == root:
        found = _only(lists, op, f"{what} list")
        _for_all(group, found, like, op)
        return found
    if lists:
        fail(RuntimeError, op, f"no list was required here (requires empty {what} on non-root)", len(lists),
             hint="pass [] on the other ranks")  # fmt: skip
    return None


# ------------------------------------------------------------------ collectives


def allreduce(group: ProcessGroup, tensors: Tensors, opts: Any) -> Work:
    """The combination of all tensors of all ranks, written to each."""
    _some(tensors, "allreduce")
    _alike(tensors, tensors[0], "allreduce")
    with _within(group, opts):
        if len(tensors) == 1:
            work: Work = operations.all_reduce(tensors[0], opts.reduceOp, group, True)
            return work
        operations._check_reduction(opts.reduceOp, tensors[0])

        def run(x: Exchange) -> None:
            places = _Targets(tensors, read=True)
            total = places.flat[0].clone()
            for flat in places.flat[1:]:
                total = opts.reduceOp.combine(total, flat)
            x.all_reduce(total, opts.reduceOp)
            for flat in places.flat:
                flat.copy_(total)
            places.done()

        return group.start("all_reduce", run, tensors)


def allreduce_coalesced(group: ProcessGroup, tensors: Tensors, opts: Any) -> Work:
    """The combination of all ranks' tensors, entry by entry."""
    op = "allreduce_coalesced"
    _some(tensors, op)
    for index, t in enumerate(tensors):
        if t.layout != tensors[0].layout:
            fail(RuntimeError, op, f"one layout was required (invalid tensor layout at index {index})", t.layout,
                 hint="to_dense() makes dense tensors")  # fmt: skip
        if t.dtype != tensors[0].dtype:
            fail(RuntimeError, op, "one dtype was required (tensors must all have the same type)", t.dtype,
                 hint="convert them to one dtype with .to()")  # fmt: skip
    if tensors[0].layout != core.strided:
        fail(RuntimeError, op, "dense tensors were required (unsupported layout)", tensors[0].layout,
             hint="to_dense() makes dense tensors")  # fmt: skip
    with _within(group, opts):
        return operations.reduced_together(tensors, opts.reduceOp, group)


def broadcast(group: ProcessGroup, tensors: Tensors, opts: Any) -> Work:
    """One tensor of one rank, written to all tensors of all ranks."""
    root = _root(group, opts.rootRank, "broadcast")
    place = _root_tensor(tensors, opts.rootTensor, "broadcast")
    _alike(tensors, tensors[0], "broadcast")
    with _within(group, opts):
        if len(tensors) == 1:
            work: Work = operations.broadcast(tensors[0], None, group, True, root)
            return work

        def run(x: Exchange) -> None:
            places = _Targets(tensors, read=True)
            source = places.flat[place if x.rank == root else 0]
            x.broadcast(source, root)
            for flat in places.flat:
                if flat is not source:
                    flat.copy_(source)
            places.done()

        return group.start("broadcast", run, tensors)


def reduce(group: ProcessGroup, tensors: Tensors, opts: Any) -> Work:
    """The combination of all ranks' tensors, written to that of one rank."""
    root = _root(group, opts.rootRank, "reduce")
    _root_tensor(tensors, opts.rootTensor, "reduce")
    mine = _only(tensors, "reduce", "tensor list")
    with _within(group, opts):
        work: Work = operations.reduce(mine, None, opts.reduceOp, group, True, root)
        return work


def allgather(group: ProcessGroup, lists: list[Tensors], tensors: Tensors, opts: Any) -> Work:
    """The tensors of all ranks, written to each list: rank by rank, and each rank's one behind the other."""
    op, many = "allgather", len(tensors)
    _some(tensors, op, "input tensor list")
    if len(lists) != many:
        fail(RuntimeError, op, f"{many} lists were required (requires input/output tensor lists to have the same "
             "length)", len(lists), hint="a list for each tensor")  # fmt: skip
    for index, one in enumerate(lists):
        if len(one) != group.size() * many:
            fail(RuntimeError, op, f"{group.size() * many} tensors were required (invalid output tensor list at index "
                 f"{index}: expected length {group.size() * many}, got {len(one)})", len(one),
                 hint="a tensor for each of all ranks' tensors")  # fmt: skip
    _alike([*tensors, *(t for one in lists for t in one)], tensors[0], op)
    with _within(group, opts):
        if many == 1:
            work: Work = operations.all_gather(lists[0], tensors[0], group, True)
            return work

        def run(x: Exchange) -> None:
            for place, mine in enumerate(tensors):
                wanted = [one[r * many + place] for one in lists for r in range(x.size)]
                first = _Targets(wanted[: x.size])
                x.all_gather(first.flat, _flat(mine))
                first.done()
                for number, target in enumerate(wanted[x.size :]):
                    target.copy_(wanted[number % x.size])

        every = [t for one in lists for t in one]
        return together([group.start("all_gather", run, every)], lists)


def allgather_coalesced(
    group: ProcessGroup, lists: list[Tensors], tensors: Tensors, opts: Any
) -> Work:
    """Each rank's list, written to the list of that rank."""
    op = "allgather_coalesced"
    _some(tensors, op, "input tensor list")
    if len(lists) != group.size():
        fail(RuntimeError, op, f"{group.size()} lists were required (output lists should be equal to world size)",
             len(lists), hint="a list for each rank")  # fmt: skip
    for one in lists:
        if len(one) != len(tensors):
            fail(RuntimeError, op, f"{len(tensors)} tensors for each rank were required (invalid output size: "
                 "number of output tensors)", len(one), hint="a tensor for each input")  # fmt: skip
        for index, (made, mine) in enumerate(zip(one, tensors, strict=True)):
            if made.shape != mine.shape:
                fail(RuntimeError, op, f"the shape {tuple(mine.shape)} was required (invalid size of output tensor at "
                     f"index {index})", tuple(made.shape), hint="facula.empty_like(tensor)")  # fmt: skip
            if made.dtype != mine.dtype:
                fail(RuntimeError, op, f"{mine.dtype} was required (invalid tensor type at index {index})", made.dtype,
                     hint="facula.empty_like(tensor)")  # fmt: skip
    with _within(group, opts):
        works = [
            operations.all_gather([one[n] for one in lists], mine, group, True)
            for n, mine in enumerate(tensors)
        ]
    return together(works, lists)


def all_gather_single(group: ProcessGroup, output: Tensor, input: Tensor, opts: Any) -> Work:
    """All ranks' tensors behind each other."""
    with _within(group, opts):
        work: Work = operations.all_gather_into_tensor(output, input, group, True)
        return work


def all_gather_single_coalesced(
    group: ProcessGroup, outputs: Tensors, inputs: Tensors, opts: Any
) -> Work:
    """The same of each tensor."""
    pairs = zip(outputs, inputs, strict=True)
    return together([all_gather_single(group, out, one, opts) for out, one in pairs], outputs)


def gather(group: ProcessGroup, lists: list[Tensors], tensors: Tensors, opts: Any) -> Work:
    """Each rank's tensor, written to the list of one rank."""
    root = _root(group, opts.rootRank, "gather")
    mine = _only(tensors, "gather", "input tensor list")
    found = _at_root(group, root, lists, mine, "gather", "output")
    with _within(group, opts):
        work: Work = operations.gather(mine, found, None, group, True, root)
        return work


def scatter(group: ProcessGroup, tensors: Tensors, lists: list[Tensors], opts: Any) -> Work:
    """Entry r of one rank's list, written to the tensor of rank r."""
    root = _root(group, opts.rootRank, "scatter")
    mine = _only(tensors, "scatter", "output tensor list")
    found = _at_root(group, root, lists, mine, "scatter", "input")
    with _within(group, opts):
        work: Work = operations.scatter(mine, found, None, group, True, root)
        return work


def reduce_scatter(group: ProcessGroup, tensors: Tensors, lists: list[Tensors], opts: Any) -> Work:
    """The ranks' lists, combined entry by entry; rank r gets entry r."""
    mine = _only(tensors, "reduce_scatter", "output tensor list")
    found = _only(lists, "reduce_scatter", "input list")
    _for_all(group, found, mine, "reduce_scatter")
    with _within(group, opts):
        work: Work = operations.reduce_scatter(mine, found, opts.reduceOp, group, True)
        return work


def reduce_scatter_single(group: ProcessGroup, output: Tensor, input: Tensor, opts: Any) -> Work:
    """The same of one tensor in equal parts."""
    with _within(group, opts):
        work: Work = operations.reduce_scatter_tensor(output, input, opts.reduceOp, group, True)
        return work


def reduce_scatter_single_coalesced(
    group: ProcessGroup, outputs: Tensors, inputs: Tensors, opts: Any
) -> Work:
    """The same of each tensor."""
    pairs = zip(outputs, inputs, strict=True)
    return together([reduce_scatter_single(group, out, one, opts) for out, one in pairs], outputs)


def alltoall(group: ProcessGroup, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
    """Entry r of the inputs to rank r; entry r of the outputs from it."""
    with _within(group, opts):
        work: Work = operations.all_to_all(outputs, inputs, group, True)
        return work


def all_to_all_single(
    group: ProcessGroup,
    output: Tensor,
    input: Tensor,
    output_sizes: Any,
    input_sizes: Any,
    opts: Any,
) -> Work:
    """The same of parts of one tensor."""
    with _within(group, opts):
        work: Work = operations.all_to_all_single(
            output, input, output_sizes, input_sizes, group, True
        )
        return work


def barrier(group: ProcessGroup, opts: Any) -> Work:
    """All ranks have come."""
    with _within(group, opts):
        work: Work = operations.barrier(group, True)
        return work


def monitored_barrier(
    group: ProcessGroup, timeout: datetime.timedelta | None, wait_all_ranks: bool
) -> None:
    """All ranks have come, or are named."""
    operations.monitored_barrier(group, timeout, wait_all_ranks)


# ------------------------------------------------------------------ messages


def send(group: ProcessGroup, tensors: Tensors, peer: int, tag: int) -> Work:
    """A tensor to a rank of the group."""
    return group.isend(_only(tensors, "send", "tensor list"), _root(group, peer, "send"), tag)


def recv(group: ProcessGroup, tensors: Tensors, peer: int, tag: int) -> Work:
    """A tensor from a rank of the group."""
    return group.irecv(_only(tensors, "recv", "tensor list"), _root(group, peer, "recv"), tag)


def recv_anysource(group: ProcessGroup, tensors: Tensors, tag: int) -> Work:
    """A tensor from any rank of the group."""
    return group.irecv(_only(tensors, "recv_anysource", "tensor list"), None, tag)


for _method in (
    allreduce, allreduce_coalesced, broadcast, reduce, allgather, allgather_coalesced, all_gather_single,
    all_gather_single_coalesced, gather, scatter, reduce_scatter, reduce_scatter_single,
    reduce_scatter_single_coalesced, alltoall, all_to_all_single, barrier, monitored_barrier, send, recv,
    recv_anysource,
):  # fmt: skip
    SERVED[_method.__name__] = _method
