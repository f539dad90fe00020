"""PyTorch's methods of process groups: `group.allreduce(tensors, options)` and its like, each of which gives a `Work`.

Takes: lists of tensors and options, or one tensor and plain values. Gives: `GroupMethods`, which every group has.
Keeps true: roots and peers are ranks of the group; a group that a program derived, and put together of others
(`_register_backend`), hands its calls on to those; what nothing serves is an error.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _Options,
)
from facula.distributed.types import Work

__all__ = ["BackendType", "GroupMethods"]

Tensor = core.Tensor
Tensors = Sequence[Tensor]
#: any type of device
_ANY = ""
#: what each method does in a group with an engine of its own; written by `group_calls`, which works on groups
SERVED: dict[str, Callable[..., Any]] = {}


class BackendType(enum.IntEnum):
    """The kinds of engines, by PyTorch's numbers."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, CUSTOM, XCCL = range(7)


def _options(kind: type[_Options], given: object, plain: str = "", **values: object) -> Any:
    """What a call is told: options, or plain values; `plain` is what one in the place of the options is."""
    if isinstance(given, _Options):
        return given
    made = kind()
    if plain and values[plain] is None:
        values[plain] = given
    for name, value in values.items():
        if value is not None:
            setattr(made, name, value)
    return made


def _list(given: Any) -> list[Tensor]:
    """A tensor, or a list of them, as a list."""
    return [given] if isinstance(given, Tensor) else list(given)


def _lists(given: Any, alone: bool) -> list[list[Tensor]]:
    """Lists of tensors; one list where the call is about one tensor."""
    return [list(given)] if alone else [list(one) for one in given]


class GroupMethods:
    """The methods of a group with an engine of its own, or with those of others."""

    #: the groups that serve types of devices, where a program put them together
    _by_device: dict[str, Any]
    #: whether a program derived this group and calls the methods that it wrote
    by_program = False
    bound_device_id: core.device | None = None
    BackendType = BackendType

    def _call(self, name: str, tensors: Tensors, *args: object) -> Any:
        """Do it by the group's own engine, or hand it on."""
        if not self.by_program:
            return SERVED[name](self, *args)
        kind = tensors[0].device.type if tensors else _ANY
        found = self._by_device.get(kind) or self._by_device.get(_ANY)
        if found is None:
            fail(RuntimeError, name, f"a backend for tensors on {kind or 'any device'} was required (No backend type "
                 f"associated with device type {kind}; the method is not implemented)", type(self).__name__,
                 hint="override the method, or call group._register_backend(device, kind, backend)")  # fmt: skip
        return getattr(found, name)(*args)

    # ---------------------------------------------------------------- collectives

    def allreduce(
        self, tensors: object, opts: object = None, timeout: object = None, op: object = None
    ) -> Work:
        """Put the combination of all tensors, of all ranks and of each list, into each of them."""
        mine = _list(tensors)
        told = _options(AllreduceOptions, opts, "reduceOp", reduceOp=op, timeout=timeout)
        return self._call("allreduce", mine, mine, told)

    def allreduce_coalesced(self, tensors: Tensors, opts: object = None) -> Work:
        """Put the combination of all ranks' tensors into each of them, entry by entry."""
        mine = list(tensors)
        return self._call(
            "allreduce_coalesced", mine, mine, _options(AllreduceCoalescedOptions, opts)
        )

    def broadcast(
        self, tensors: object, opts: object = None, timeout: object = None, root: object = None
    ) -> Work:
        """Put one tensor of one rank into all tensors of all ranks."""
        mine = _list(tensors)
        told = _options(BroadcastOptions, opts, "rootRank", rootRank=root, timeout=timeout)
        return self._call("broadcast", mine, mine, told)

    def reduce(
        self,
        tensors: object,
        opts: object = None,
        op: object = None,
        timeout: object = None,
        root: object = None,
    ) -> Work:
        """Put the combination of all ranks' tensors into that of one rank."""
        mine = _list(tensors)
        told = _options(
            ReduceOptions, opts, "rootRank", rootRank=root, reduceOp=op, timeout=timeout
        )
        return self._call("reduce", mine, mine, told)

    def allgather(
        self,
        output_tensors: object,
        input_tensors: object,
        opts: object = None,
        timeout: object = None,
    ) -> Work:
        """Put the tensors of all ranks into each list."""
        mine = _list(input_tensors)
        lists = _lists(output_tensors, isinstance(input_tensors, Tensor))
        return self._call(
            "allgather", mine, lists, mine, _options(AllgatherOptions, opts, timeout=timeout)
        )

    def allgather_coalesced(
        self, output_lists: Sequence[Tensors], input_list: Tensors, opts: object = None
    ) -> Work:
        """Put each rank's list into the lists of all."""
        mine = list(input_list)
        lists = [list(one) for one in output_lists]
        return self._call(
            "allgather_coalesced", mine, lists, mine, _options(AllgatherOptions, opts)
        )

    def all_gather_single(self, output: Tensor, input: Tensor, opts: object = None) -> Work:
        """Put all ranks' tensors behind each other into one."""
        told = _options(AllgatherOptions, opts)
        older = type(self)._allgather_base
        if self.by_program and older is not GroupMethods._allgather_base:
            return older(self, output, input, told)
        return self._call("all_gather_single", [input], output, input, told)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: object = None) -> Work:
        """The older name of `all_gather_single`."""
        return self.all_gather_single(output, input, opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> Work:
        """`all_gather_single` of each tensor of lists."""
        mine = list(inputs)
        told = _options(AllgatherOptions, opts)
        return self._call("all_gather_single_coalesced", mine, list(outputs), mine, told)

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> Work:
        """The older name of `all_gather_single_coalesced`."""
        return self.all_gather_single_coalesced(outputs, inputs, opts)

    def gather(
        self,
        output_tensors: object,
        input_tensors: object,
        opts: object = None,
        timeout: object = None,
        root: object = None,
    ) -> Work:
        """Put each rank's tensor into the list of one rank."""
        mine = _list(input_tensors)
        lists = _lists(output_tensors, isinstance(input_tensors, Tensor) and bool(output_tensors))
        told = _options(GatherOptions, opts, "rootRank", rootRank=root, timeout=timeout)
        return self._call("gather", mine, lists, mine, told)

    def scatter(
        self,
        output_tensors: object,
        input_tensors: object,
        opts: object = None,
        timeout: object = None,
        root: object = None,
    ) -> Work:
        """Put entry r of one rank's list into the tensor of rank r."""
        mine = _list(output_tensors)
        lists = _lists(input_tensors, isinstance(output_tensors, Tensor) and bool(input_tensors))
        told = _options(ScatterOptions, opts, "rootRank", rootRank=root, timeout=timeout)
        return self._call("scatter", mine, mine, lists, told)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None, op: Any = None
    ) -> Work:  # fmt: skip
        """Combine the ranks' lists entry by entry; rank r gets entry r."""
        mine = _list(output_tensors)
        lists = _lists(input_tensors, isinstance(output_tensors, Tensor))
        told = _options(ReduceScatterOptions, opts, "reduceOp", reduceOp=op, timeout=timeout)
        return self._call("reduce_scatter", mine, mine, lists, told)

    def reduce_scatter_single(
        self, outputTensor: Tensor, inputTensor: Tensor, opts: object = None
    ) -> Work:  # noqa: N803
        """`reduce_scatter` of one tensor in equal parts."""
        told = _options(ReduceScatterOptions, opts)
        older = type(self)._reduce_scatter_base
        if self.by_program and older is not GroupMethods._reduce_scatter_base:
            return older(self, outputTensor, inputTensor, told)
        return self._call("reduce_scatter_single", [inputTensor], outputTensor, inputTensor, told)

    def _reduce_scatter_base(
        self, outputTensor: Tensor, inputTensor: Tensor, opts: object = None
    ) -> Work:  # noqa: N803
        """The older name of `reduce_scatter_single`."""
        return self.reduce_scatter_single(outputTensor, inputTensor, opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> Work:
        """`reduce_scatter_single` of each tensor of lists."""
        mine = list(inputs)
        told = _options(ReduceScatterOptions, opts)
        return self._call("reduce_scatter_single_coalesced", mine, list(outputs), mine, told)

    def reduce_scatter_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> Work:
        """The older name of `reduce_scatter_single_coalesced`."""
        return self.reduce_scatter_single_coalesced(outputs, inputs, opts)

    def alltoall(
        self, output_tensors: Tensors, input_tensors: Tensors, opts: object = None
    ) -> Work:
        """Entry r of the inputs goes to rank r; entry r of the outputs comes from it."""
        mine = list(input_tensors)
        return self._call(
            "alltoall", mine, list(output_tensors), mine, _options(AllToAllOptions, opts)
        )

    def all_to_all_single(
        self, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None,
        timeout: Any = None,
    ) -> Work:  # fmt: skip
        """`alltoall` of one tensor, in equal parts or parts of these sizes along the first dimension."""
        told = _options(AllToAllOptions, opts, timeout=timeout)
        older = type(self).alltoall_base
        if self.by_program and older is not GroupMethods.alltoall_base:
            return older(self, output, input, output_split_sizes, input_split_sizes, told)
        sizes = (output_split_sizes, input_split_sizes)
        return self._call("all_to_all_single", [input], output, input, *sizes, told)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: object, input_split_sizes: object, opts: object = None,
        timeout: object = None,
    ) -> Work:  # fmt: skip
        """The older name of `all_to_all_single`."""
        sizes = (output_split_sizes, input_split_sizes)
        return self.all_to_all_single(output, input, *sizes, opts, timeout)

    def barrier(self, opts: object = None, timeout: object = None) -> Work:
        """Wait until all ranks have come here."""
        return self._call("barrier", [], _options(BarrierOptions, opts, timeout=timeout))

    def monitored_barrier(
        self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier whose error names the first rank that did not come, or all of them."""
        self._call("monitored_barrier", [], timeout, wait_all_ranks)

    # ---------------------------------------------------------------- messages

    def send(self, tensors: Tensors, dstRank: int, tag: int) -> Work:  # noqa: N803 - PyTorch's name
        """Send a tensor to a rank."""
        mine = list(tensors)
        return self._call("send", mine, mine, dstRank, tag)

    def recv(self, tensors: Tensors, srcRank: int, tag: int) -> Work:  # noqa: N803
        """Write what a rank sends to a tensor."""
        mine = list(tensors)
        return self._call("recv", mine, mine, srcRank, tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        """Write what the first rank that sends sends to a tensor."""
        mine = list(tensors)
        return self._call("recv_anysource", mine, mine, tag)

    # ---------------------------------------------------------------- what it is made of

    def _register_backend(
        self, device: core.device, backend_type: object, backend: Any = None
    ) -> None:
        """Say which group serves a type of device."""
        if backend is not None:
            self._by_device[device.type] = backend

    def _get_backend(self, device: core.device) -> Any:
        """The group that serves a type of device."""
        return self._by_device.get(device.type, self)

    def _set_default_backend(self, backend_type: object) -> None:
        """Kept for PyTorch's API: the group of the tensors' device serves."""

    def _has_hooks(self) -> bool:
        """Whether something hears the ends of operations: nothing does."""
        return False

    def _start_coalescing(self, device: object = None) -> None:
        """Kept for PyTorch's API: operations that begin one behind the other need not be gathered."""

    def _end_coalescing(self, device: object = None) -> Work:
        """What is done when all that began before is."""
        return self.barrier()

    @property
    def supports_coalescing(self) -> bool:
        """Whether operations are gathered: none has to be."""
        return False

    @property
    def supports_splitting(self) -> bool:
        """Whether an engine makes parts of groups by itself."""
        return False
