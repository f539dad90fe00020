"""Collectives and messages on tensors (on objects: `object_operations`).

Takes: tensors and a group. Gives: tensors that are written in place; with
`async_op=True` a `Work`.
Keeps true: names, arguments and results are PyTorch's; a process that is no member of the group does
nothing; roots and peers are ranks of the world.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from facula import core
from facula.core.errors import fail
from facula.distributed.buffers import fill, host, view_of
from facula.distributed.engine import TAKERS, Exchange, telling
from facula.distributed.errors import DistBackendError
from facula.distributed.nvidia.communicator import Piece
from facula.distributed.process_group import BY_PROGRAM, ByMessages, ProcessGroup
from facula.distributed.program_groups import called, signature
from facula.distributed.sparse_sums import all_reduce_sparse, is_sparse
from facula.distributed.stores import seconds_of
from facula.distributed.types import ReduceOp, Work
from facula.distributed.world import group_of
from facula.ops.table.registry import F

Tensor = core.Tensor
#: the reductions that have no meaning for fractions, by name
_OF_BITS = frozenset(op.name for op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR))
#: what lets a trace see a collective (`traced_collectives`)
TRACED: list[Callable[..., bool]] = []
P = ParamSpec("P")
R = TypeVar("R")


def _checked(tensors: object, op: str, name: str = "tensor") -> None:
    """Raise unless these are dense tensors."""
    many = tensors if isinstance(tensors, (list, tuple)) else [tensors]
    for t in many:
        if not isinstance(t, (Tensor, Piece)):
            if hasattr(t, "__cuda_array_interface__"):
                fail(RuntimeError, op, "a collective over backend='nccl' was required of an array in the "
                     "memory of a device", f"{op} over {', '.join(e.name for e in TAKERS) or 'others'}",
                     hint="convert it, or use the collectives and messages of a group over nccl")  # fmt: skip
            fail(TypeError, op, f"a tensor was required as {name} (Invalid function argument. Expected "
                 f"parameter `{name}` to be a tensor)", type(t).__name__,
                 hint="facula.as_tensor(value) makes one")  # fmt: skip


def _collective(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which takes arrays of other packages where there is an engine for them, and calls the methods of
    groups that the program derived."""
    named = signature(function)
    by_name: Callable[..., R] = function

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if BY_PROGRAM:
            given = named(*args, **kwargs)
            found = group_of(given["group"])
            if found is not None and found.by_program:
                return called(function.__name__, found, given)
        if core.DISPATCH_MODES and _seen_by_trace(function.__name__, named(*args, **kwargs)):
            return None  # type: ignore[return-value]
        if not TAKERS:
            return function(*args, **kwargs)
        # lists that are written to hold tensors, which stay the same
        given = named(*args, **kwargs)
        found = group_of(given["group"])
        if found is None:
            return function(*args, **kwargs)
        taken = {name: found.engine.taken(value) for name, value in given.items()}
        return by_name(**taken)

    return run


def _seen_by_trace(name: str, given: dict[str, Any]) -> bool:
    """Whether a trace that runs took the call."""
    if not TRACED:  # what fills it is loaded by the first trace that may want it
        importlib.import_module("facula.distributed.traced_collectives")
    return bool(TRACED[0](name, given, group_of))


def _started(
    group: ProcessGroup, name: str, algorithm: Any, tensors: Sequence[Any], async_op: bool,
    seconds: float | None = None,
) -> Work | None:  # fmt: skip
    group.engine.check(name, tensors)
    for t in tensors:  # before anything is sent: other ranks may not trace now
        simulated = getattr(t, "is_meta", False) and not group.engine.counts_only
        if simulated or getattr(t, "_is_fake", False):
            fail(NotImplementedError, name, "tensors with elements were required",
                 f"{type(t).__name__} on {t.device}",
                 hint="a program that is traced calls distributed._functional_collectives")  # fmt: skip
    told = telling(algorithm)
    if async_op:
        return group.start(name, told, tensors, seconds)
    group.run(name, told, tensors, seconds)
    return None


def _flat(t: Any) -> Any:
    """The elements of a tensor, one behind the other, in the memory that its engine reaches."""
    return t if isinstance(t, Piece) else host(t).view(-1)


class _Targets:
    """Tensors that an engine writes to, densely and in the processor's memory; `done` writes them back to
    those that lie otherwise."""

    def __init__(self, tensors: Sequence[Tensor], read: bool = False) -> None:
        self.back: list[tuple[Tensor, Tensor]] = []
        self.flat: list[Tensor] = []
        for t in tensors:
            self.flat.append(self._place(t, read))

    def _place(self, t: Tensor, read: bool) -> Tensor:
        if isinstance(t, Piece):
            return t
        if t.device.type == "cpu" and t.is_contiguous():
            return t.detach().view(-1)
        made = _flat(t) if read else core.empty((t.numel(),), dtype=t.dtype)
        self.back.append((t, made))
        return made

    def done(self) -> None:
        """All was written."""
        for flat in self.flat:
            if isinstance(flat, Piece) and isinstance(flat.owner, Tensor):
                core.count_unseen_write(flat.owner.detach())
        for target, flat in self.back:
            fill(target, view_of(flat))


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None, op: str) -> int:
    """A rank of the world, or one of the group, as a rank of the group."""
    if group_rank is not None:
        if rank is not None:
            fail(
                ValueError,
                op,
                "a rank or a rank of the group was required",
                "both",
                hint="leave one of them out",
            )
        return group_rank
    if rank is None:
        fail(
            ValueError,
            op,
            "a rank was required",
            "none",
            hint="pass the rank in the whole world, or that in the group by its own argument",
        )
    if rank not in group.ranks:
        fail(ValueError, op, f"a rank out of {group.ranks} was required (Global rank {rank} is not part of "
             "group)", rank, hint="get_global_rank(group, rank) gives it for a rank of the group")  # fmt: skip
    return group.ranks.index(rank)


def _check_reduction(op: Any, t: Tensor) -> None:
    """Raise unless the elements can be combined so."""
    if isinstance(t, Piece):
        return  # the engine says what it does
    if getattr(op, "combine", None) is None:
        fail(RuntimeError, "all_reduce", "an operation that engines of the processor's memory have was "
             f"required (Cannot use ReduceOp.{getattr(op, 'name', op)} with Gloo)", repr(op),
             hint="scale the tensor, and reduce with SUM")  # fmt: skip
    if t.dtype.is_complex and op not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT):
        fail(ValueError, "all_reduce", f"a dtype that has an order or bits was required (all_reduce does not "
             f"support {op!r} on complex tensors)", t.dtype, hint="facula.view_as_real(t) has its parts")  # fmt: skip
    if t.dtype.is_floating_point and op.name in _OF_BITS:
        fail(RuntimeError, "all_reduce", f"a dtype of whole numbers was required (Cannot use ReduceOp.{op.name} "
             "with non-integral dtype)", t.dtype, hint="t.view(facula.int32) has its bits")  # fmt: skip
    if op == ReduceOp.AVG and not (t.dtype.is_floating_point or t.dtype.is_complex):
        fail(RuntimeError, "all_reduce", "a dtype of fractions was required for AVG", t.dtype,
             hint="reduce with SUM, and divide")  # fmt: skip


@_collective
def all_reduce(
    tensor: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Put the combination of all ranks' tensors into each of them.

    Args:
        tensor: this rank's, which is written to
        op: a `ReduceOp`: how tensors become one
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.tensor([1.0, 2.0])
        >>> dist.all_reduce(x, dist.ReduceOp.SUM)
        >>> x
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "all_reduce")
    found = group_of(group)
    if found is None:
        return None
    _check_reduction(op, tensor)
    if is_sparse(tensor):
        return all_reduce_sparse(tensor, op, found, async_op)

    def run(x: Exchange) -> None:
        places = _Targets([tensor], read=True)
        x.all_reduce(places.flat[0], op)
        places.done()

    return _started(found, "all_reduce", run, [tensor], async_op)


@_collective
def all_reduce_coalesced(
    tensors: list[Tensor],
    op: object = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """`all_reduce` of several tensors.

    Args:
        tensors: this rank's, which are written to
        op: a `ReduceOp`: how tensors become one
        group: the ranks; None for all
        async_op: whether a future of the tensors is given at once

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = [facula.ones(1), facula.ones(2)]
        >>> dist.all_reduce_coalesced(x)
        >>> x[1]
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    _checked(tensors, "all_reduce_coalesced", "tensors")
    found = group_of(group)
    if found is None or not tensors:
        return None
    if any(t.dtype != tensors[0].dtype for t in tensors):
        fail(TypeError, "all_reduce_coalesced", "tensors of one dtype were required (Invalid usage of tensors with "
             "different dtypes)", [t.dtype for t in tensors], hint="convert them to one dtype with .to()")  # fmt: skip
    work = reduced_together(list(tensors), op, found)
    if async_op:
        return work.get_future()
    work.wait()
    return None


def reduced_together(tensors: list[Tensor], op: Any, group: ProcessGroup) -> Work:
    """The work of one `all_reduce` of tensors of one dtype behind each other; one may stand in the list twice."""
    _check_reduction(op, tensors[0])
    group.engine.check("all_reduce", tensors)

    def run(x: Exchange) -> None:
        if isinstance(tensors[0], Piece):
            places = _Targets(tensors, read=True)
            for flat in places.flat:
                x.all_reduce(flat, op)
            places.done()
            return
        total = F.cat([_flat(t) for t in tensors])
        x.all_reduce(total, op)
        for t, part in zip(tensors, total.split([t.numel() for t in tensors]), strict=True):
            fill(t, view_of(part))

    return group.start("all_reduce", run, tensors)


@_collective
def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Put the combination of all ranks' tensors into that of one rank.

    Args:
        tensor: this rank's, which is written to
        dst: the rank that gets it, a number of the world
        op: a `ReduceOp`: how tensors become one
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for
        group_dst: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.tensor([3.0])
        >>> dist.reduce(x, dst=0, op=dist.ReduceOp.MAX)
        >>> x
        tensor([3.])
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "reduce")
    found = group_of(group)
    if found is None:
        return None
    root = _root(found, dst, group_dst, "reduce")
    _check_reduction(op, tensor)

    def run(x: Exchange) -> None:
        places = _Targets([tensor], read=True)
        x.reduce(places.flat[0], op, root)
        if x.rank == root:
            places.done()

    return _started(found, "reduce", run, [tensor], async_op)


@_collective
def broadcast(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
    group_src: int | None = None,
) -> Any:  # fmt: skip
    """Put one rank's tensor into those of all.

    Args:
        tensor: this rank's, which is written to
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = facula.tensor([3.0])
        >>> dist.broadcast(x, src=0)
        >>> x
        tensor([3.])
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "broadcast")
    found = group_of(group)
    if found is None:
        return None
    root = _root(found, src, group_src, "broadcast")

    def run(x: Exchange) -> None:
        places = _Targets([tensor], read=True)
        x.broadcast(places.flat[0], root)
        if x.rank != root:
            places.done()

    return _started(found, "broadcast", run, [tensor], async_op)


@_collective
def all_gather(
    tensor_list: list[Tensor],
    tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Put each rank's tensor into the list of all.

    Args:
        tensor_list: one for each rank, written to
        tensor: this rank's
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [facula.empty(2)]
        >>> dist.all_gather(parts, facula.ones(2))
        >>> parts
        [tensor([1., 1.])]
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "all_gather")
    _checked(tensor_list, "all_gather", "tensor_list")
    found = group_of(group)
    if found is None:
        return None
    if len(tensor_list) != found.size():
        fail(
            ValueError,
            "all_gather",
            f"a list of {found.size()} tensors was required",
            len(tensor_list),
            hint="[facula.empty_like(tensor) for _ in range(get_world_size(group))]",
        )
    if any(t.dtype != tensor.dtype for t in tensor_list):
        fail(TypeError, "all_gather", "tensors of one dtype were required (Invalid usage of tensors with "
             "different dtypes)", [t.dtype for t in tensor_list],
             hint="convert them to one dtype with .to()")  # fmt: skip

    if tensor_list[found.rank()].numel() != tensor.numel():
        fail(ValueError, "all_gather", "a tensor of this rank's size was required at its place in the list "
             "(invalid tensor size)", f"{tuple(tensor_list[found.rank()].shape)} for {tuple(tensor.shape)}",
             hint="facula.empty_like(tensor) makes one that fits")  # fmt: skip

    def run(x: Exchange) -> None:
        places = _Targets(tensor_list)
        x.all_gather(places.flat, _flat(tensor))
        places.done()

    return _started(found, "all_gather", run, tensor_list, async_op)


@_collective
def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Put all ranks' tensors behind each other into one.

    Args:
        output_tensor: as long as all together; written to
        input_tensor: this rank's
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> whole = facula.empty(2)
        >>> dist.all_gather_into_tensor(whole, facula.ones(2))
        >>> whole
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    return gathered_into(output_tensor, input_tensor, group, async_op)


def gathered_into(
    output_tensor: Tensor, input_tensor: Tensor, group: object, async_op: bool, about: str = ""
) -> Work | None:
    """`all_gather_into_tensor` of something that must be the same on all ranks, in words."""
    _checked([output_tensor, input_tensor], "all_gather_into_tensor")
    found = group_of(group)
    if found is None:
        return None
    if output_tensor.numel() != input_tensor.numel() * found.size():
        fail(ValueError, "all_gather_into_tensor", f"an output of {found.size()} times the input's elements "
             "was required", tuple(output_tensor.shape),
             hint="its first dimension is the input's times the number of ranks")  # fmt: skip

    def run(x: Exchange) -> None:
        flat, places = _flat(input_tensor), _Targets([output_tensor])
        n, x.about = flat.numel(), about or x.about
        x.all_gather([places.flat[0][r * n : (r + 1) * n] for r in range(x.size)], flat)
        places.done()

    return _started(found, "all_gather_into_tensor", run, [output_tensor], async_op)


_all_gather_base = all_gather_into_tensor


@_collective
def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """Combine the ranks' lists entry by entry; rank r gets entry r.

    Args:
        output: this rank's part, written to
        input_list: one for each rank
        op: a `ReduceOp`: how tensors become one
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine = facula.empty(2)
        >>> dist.reduce_scatter(mine, [facula.ones(2)])
        >>> mine
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    _checked(output, "reduce_scatter", "output")
    _checked(input_list, "reduce_scatter", "input_list")
    found = group_of(group)
    if found is None:
        return None
    if len(input_list) != found.size():
        fail(ValueError, "reduce_scatter", f"a list of {found.size()} tensors was required",
             len(input_list), hint="give one tensor for each rank")  # fmt: skip
    _check_reduction(op, output)

    def run(x: Exchange) -> None:
        places = _Targets([output])
        x.reduce_scatter(places.flat[0], [_flat(t) for t in input_list], op)
        places.done()

    return _started(found, "reduce_scatter", run, [output], async_op)


@_collective
def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: object = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:  # fmt: skip
    """`reduce_scatter` of one tensor in equal parts.

    Args:
        output: this rank's part, written to
        input: the parts of all ranks behind each other
        op: a `ReduceOp`: how tensors become one
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine = facula.empty(2)
        >>> dist.reduce_scatter_tensor(mine, facula.ones(2))
        >>> mine
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return None
    if input.numel() != output.numel() * found.size():
        fail(ValueError, "reduce_scatter_tensor", f"an input of {found.size()} times the output's elements "
             "was required", tuple(input.shape),
             hint="its first dimension is the output's times the number of ranks")  # fmt: skip
    if isinstance(input, Piece):
        parts = [input[r * output.count : (r + 1) * output.count] for r in range(found.size())]
    else:
        parts = list(input.detach().reshape(found.size(), -1).unbind(0))
    return reduce_scatter(output, parts, op, group, async_op)


_reduce_scatter_base = reduce_scatter_tensor


@_collective
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """Entry r of the inputs goes to rank r; entry r of the outputs comes from it.

    Args:
        output_tensor_list: one from each rank, written to
        input_tensor_list: one for each rank
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> got = [facula.empty(1)]
        >>> dist.all_to_all(got, [facula.ones(1)])
        >>> got
        [tensor([1.])]
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return None
    for given in (output_tensor_list, input_tensor_list):
        _checked(given, "all_to_all")
        if len(given) != found.size():
            fail(
                ValueError,
                "all_to_all",
                f"lists of {found.size()} tensors were required",
                len(given),
                hint="give one tensor for each rank",
            )

    def run(x: Exchange) -> None:
        places = _Targets(output_tensor_list)
        x.all_to_all(places.flat, [_flat(t) for t in input_tensor_list])
        places.done()

    return _started(found, "all_to_all", run, output_tensor_list, async_op)


@_collective
def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: ProcessGroup | None = None, async_op: bool = False,
) -> Any:  # fmt: skip
    """`all_to_all` of one tensor, in equal parts or parts of these sizes along the first dimension.

    Args:
        output: written to
        input: parts for all ranks behind each other
        output_split_sizes: rows from each rank; None for equal parts
        input_split_sizes: rows for each rank; None for equal parts
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> got = facula.empty(2)
        >>> dist.all_to_all_single(got, facula.arange(2.0))
        >>> got
        tensor([0., 1.])
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return None
    _checked([output, input], "all_to_all_single")

    def parts(t: Tensor, sizes: Any) -> list[Tensor]:
        if not sizes:
            if t.shape[0] % found.size():
                fail(ValueError, "all_to_all_single", f"a first dimension that {found.size()} divides was "
                     "required", tuple(t.shape),
                     hint="pass the sizes for each rank, or pad the tensor")  # fmt: skip
            sizes = [t.shape[0] // found.size()] * found.size()
        if isinstance(t, Piece):
            return t.split(sizes)
        return list(t.detach().split(list(sizes), 0))

    return all_to_all(
        parts(output, output_split_sizes), parts(input, input_split_sizes), group, async_op
    )


@_collective
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None,
    group: ProcessGroup | None = None, async_op: bool = False, group_dst: int | None = None,
) -> Any:  # fmt: skip
    """Put each rank's tensor into the list of one rank.

    Args:
        tensor: this rank's
        gather_list: one for each rank, written to; on the rank that gets them
        dst: the rank that gets it, a number of the world
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for
        group_dst: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> parts = [facula.empty(1)]
        >>> dist.gather(facula.ones(1), parts, dst=0)
        >>> parts
        [tensor([1.])]
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "gather")
    found = group_of(group)
    if found is None:
        return None
    root = _root(found, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    if found.rank() == root and len(gather_list or []) != found.size():
        fail(ValueError, "gather", f"a gather_list of {found.size()} tensors was required on the "
             "destination rank", len(gather_list or []),
             hint="[facula.empty_like(tensor) for _ in range(get_world_size(group))]")  # fmt: skip

    def run(x: Exchange) -> None:
        places = _Targets(gather_list or [])
        x.gather(places.flat, _flat(tensor), root)
        places.done()

    return _started(found, "gather", run, gather_list or [tensor], async_op)


@_collective
def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None,
    group: ProcessGroup | None = None, async_op: bool = False, group_src: int | None = None,
) -> Any:  # fmt: skip
    """Put entry r of one rank's list into the tensor of rank r.

    Args:
        tensor: this rank's, written to
        scatter_list: one for each rank; on the rank that has them
        src: the rank that has it, a number of the world
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for
        group_src: the same as a number of the group

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mine = facula.empty(1)
        >>> dist.scatter(mine, [facula.ones(1)], src=0)
        >>> mine
        tensor([1.])
        >>> dist.destroy_process_group()
    """
    _checked(tensor, "scatter")
    found = group_of(group)
    if found is None:
        return None
    root = _root(found, 0 if src is None and group_src is None else src, group_src, "scatter")
    if found.rank() == root and len(scatter_list or []) != found.size():
        fail(ValueError, "scatter", f"a scatter_list of {found.size()} tensors was required on the source "
             "rank", len(scatter_list or []), hint="give one tensor for each rank")  # fmt: skip

    def run(x: Exchange) -> None:
        places = _Targets([tensor])
        x.scatter(places.flat[0], [_flat(t) for t in scatter_list or []], root)
        places.done()

    return _started(found, "scatter", run, [tensor], async_op)


@_collective
def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: object = None
) -> Any:
    """Wait until all ranks have come here.

    Args:
        group: the ranks; None for all
        async_op: whether a `Work` is given at once, to be waited for
        device_ids: kept for PyTorch's API

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.barrier()
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return None
    return _started(found, "barrier", lambda x: x.barrier(), [], async_op)


@_collective
def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: datetime.timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """A barrier whose error names the first rank that did not come, or all of them.

    Args:
        group: the ranks; None for all
        timeout: how long it may take; None for the group's time
        wait_all_ranks: whether all ranks that are missing are named

    Raises:
        DistBackendError: a rank did not come in time.

    Example:
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.monitored_barrier()
        >>> dist.destroy_process_group()
    """
    found = group_of(group)
    if found is None:
        return
    limit = seconds_of(timeout, found.seconds)

    def run(x: Exchange) -> None:
        end = x.end = time.monotonic() + limit
        missing = []
        if x.rank:
            x.send(0, 0, b"")
            x.end = end + limit
            x.receive(0, 1, 0)
            return
        for peer in range(1, x.size):
            try:
                x.receive(peer, 0, 0)
            except (TimeoutError, DistBackendError):
                missing.append(found.ranks[peer])
                if not wait_all_ranks:
                    break
        if missing:
            names = ", ".join(map(str, missing))
            fail(DistBackendError, "monitored_barrier", f"all ranks were required within {limit:g} s "
                 f"(timeout): ranks {names} failed to come", f"{x.size - len(missing)} of {x.size}",
                 f"look at the output of rank {names}")  # fmt: skip
        for peer in range(1, x.size):
            x.send(peer, 1, b"")

    _started(found, "monitored_barrier", ByMessages(run), [], False, 2 * limit + 5)
