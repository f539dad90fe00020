"""Gradients in buckets: sent while the backward pass goes on.

Takes: parameters, a group, how a bucket is exchanged. Gives: `Reducer`, which hears of each gradient.
Keeps true: buckets are exchanged in one order on all ranks, each as soon as it and those before it are
full; when the last gradient has come, all parameters have the exchanged ones. After the first step buckets
are cut anew, in the order in which gradients came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.buffers import begin_together
from facula.distributed.operations import all_reduce, broadcast
from facula.distributed.process_group import ProcessGroup
from facula.distributed.types import ReduceOp
from facula.namespaces.futures import Future
from facula.ops.table.registry import F

Tensor = core.Tensor
#: the first bucket is small, so that the exchange begins early
_FIRST_BYTES = 1 << 20


class GradBucket:
    """Gradients that are exchanged together, as communication hooks see them."""

    def __init__(
        self, index: int, parameters: list[Any], is_last: bool, sparse: bool = False
    ) -> None:
        self._index, self._parameters, self._is_last = index, parameters, is_last
        #: whether it is the one gradient of a table, of which few rows were used
        self.sparse = sparse
        like = parameters[0]
        total = sum(p.numel() for p in parameters)
        self._buffer: Tensor = (
            empty_sparse(like)
            if sparse
            else core.empty((total,), dtype=like.dtype, device=like.device)
        )
        self.left: set[int] = set()
        self.future: Any = None

    def index(self) -> int:
        """Its number, in the order of the exchange."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last one of the backward pass."""
        return self._is_last

    def buffer(self) -> Tensor:
        """All gradients behind each other."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Exchange another tensor."""
        self._buffer = tensor

    def parameters(self) -> list[Any]:
        """The parameters that the gradients belong to."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradients, as parts of the buffer."""
        if self.sparse:
            return [self._buffer]
        parts = self._buffer.split([p.numel() for p in self._parameters])
        return [part.view(p.shape) for part, p in zip(parts, self._parameters, strict=True)]


def empty_sparse(like: Any) -> Tensor:
    """A sparse tensor of a parameter's shape without elements."""
    places = core.empty((1, 0), dtype=core.int64)
    values = core.empty((0, *like.shape[1:]), dtype=like.dtype)
    return F.sparse_coo_tensor(places, values, tuple(like.shape))


def bucketed(
    parameters: Iterable[Any], cap: float, sparse: Collection[int] = ()
) -> list[list[Any]]:
    """Parameters in the order in which gradients come, by dtype and device, in parts of some bytes.

    `sparse`: parameters (by `id`) that are alone, because their gradients are sparse.
    """
    open_ones: dict[Any, tuple[list[Any], int]] = {}
    made: list[list[Any]] = []
    for p in parameters:
        if id(p) in sparse:
            made.append([p])
            continue
        key = (p.dtype, p.device)
        held, size = open_ones.get(key, ([], 0))
        held.append(p)
        size += p.numel() * p.element_size()
        limit = cap if made else min(cap, _FIRST_BYTES)
        if size >= limit:
            made.append(held)
            open_ones.pop(key, None)
        else:
            open_ones[key] = (held, size)
    return made + [held for held, _ in open_ones.values()]


class Reducer:
    """Exchanges the gradients of one module."""

    def __init__(
        self, parameters: list[Any], group: ProcessGroup, cap_megabytes: float, find_unused: bool,
        *, static: bool = False, views: bool = False, sparse: Iterable[Any] = (),
    ) -> None:  # fmt: skip
        self.sparse = {id(p) for p in sparse}
        self.group, self.find_unused, self.static, self.views = group, find_unused, static, views
        self.hook: Callable[[Any, GradBucket], Future] | None = None
        self.state: Any = None
        #: runs after the next exchange, once
        self.when_done: Callable[[], Any] | None = None
        #: ranks that the sum is divided by, where some have no more inputs; None: all
        self.divisor: int | None = None
        self.cap, self.parameters = cap_megabytes * (1 << 20), parameters
        self.active, self.began, self.rebuilt = False, False, False
        self.next = self.iterations = 0
        self.unused: set[int] = set()
        #: the parameters in the order in which their gradients came; how often each came
        self.arrived: list[Any] = []
        self.uses: dict[int, int] | None = None
        self.seen: dict[int, int] = {}
        self._cut(bucketed(reversed(parameters), self.cap, self.sparse))
        self.handles = [p.register_post_accumulate_grad_hook(self.came) for p in parameters]

    def _cut(self, parts: list[list[Any]]) -> None:
        last = len(parts) - 1
        self.buckets = [
            GradBucket(i, part, i == last, id(part[0]) in self.sparse)
            for i, part in enumerate(parts)
        ]
        self.place = {id(p): (b, i) for b in self.buckets for i, p in enumerate(b._parameters)}
        get_logger("distributed").info(
            "gradients of %d parameters in %d buckets", len(self.parameters), len(parts)
        )

    def _rebuild(self) -> None:
        """Cut buckets anew in the order in which rank 0's gradients came, after the first step."""
        self.rebuilt = True
        number = {id(p): i for i, p in enumerate(self.parameters)}
        came = list(dict.fromkeys(number[id(p)] for p in self.arrived))
        rest = [i for i in reversed(range(len(self.parameters))) if i not in set(came)]
        order = core.tensor(came + rest, dtype=core.int64)
        broadcast(order, group=self.group, group_src=0)
        chosen = [self.parameters[i] for i in order.tolist()]
        self._cut(bucketed(chosen, self.cap, self.sparse))

    def prepare(self, unused: set[int]) -> None:
        """A forward pass whose backward is to be exchanged has run."""
        if self.active and self.began:
            missing = sum(len(b.left) for b in self.buckets)
            self.active = self.began = False
            fail(
                RuntimeError,
                "DistributedDataParallel",
                "gradients of all parameters were required (Expected to have finished reduction in the "
                "prior iteration before starting a new one)",
                f"none for {missing} parameters",
                "pass find_unused_parameters=True where the loss does not depend on all of them",
            )
        if self.iterations and not self.rebuilt and not self.find_unused:
            self._rebuild()
        self.active, self.began, self.next = True, False, 0
        self.unused, self.seen = unused, {}
        self.arrived = []
        for bucket in self.buckets:
            bucket.left = {id(p) for p in bucket._parameters}
            bucket.future = None

    def came(self, parameter: Any) -> None:
        """The gradient of a parameter is complete."""
        if not self.active:
            return
        self.arrived.append(parameter)
        if not self.began:
            self._begin(parameter)
        if self.static:
            times = self.seen[id(parameter)] = self.seen.get(id(parameter), 0) + 1
            if self.uses is None or times < self.uses.get(id(parameter), 1):
                return
        self._ready(parameter)

    def _begin(self, parameter: Any) -> None:
        """The first gradient of a backward pass came."""
        self.began = True
        if self.static and self.uses is None:
            core.queue_callback(self._learn)
            return
        for p in self.parameters:
            if id(p) in self.unused and id(p) != id(parameter):
                self._ready(p)

    def _learn(self) -> None:
        """The first backward pass of a graph that never changes is over: what it used is known."""
        self.uses = dict(self.seen)
        self.unused = {id(p) for p in self.parameters if id(p) not in self.seen}
        for bucket in self.buckets:
            for p in bucket._parameters:
                if id(p) in bucket.left:
                    self._ready(p)

    def _ready(self, parameter: Any) -> None:
        bucket, index = self.place[id(parameter)]
        if id(parameter) not in bucket.left:
            fail(
                RuntimeError,
                "DistributedDataParallel",
                "one gradient for each parameter and forward pass was required (Expected to mark a "
                "variable ready only once)",
                f"a second one for parameter {index} of bucket {bucket.index()}",
                "pass static_graph=True where a parameter is used by several backward passes of one forward",
            )
        bucket.left.discard(id(parameter))
        recording = core.set_grad_enabled(False)
        try:
            self._keep(bucket, index, parameter)
            while self.next < len(self.buckets) and not self.buckets[self.next].left:
                self._exchange(self.buckets[self.next])
                self.next += 1
            if self.next == len(self.buckets):
                self._finish()
        finally:
            core.set_grad_enabled(recording)

    @staticmethod
    def _keep(bucket: GradBucket, index: int, parameter: Any) -> None:
        if bucket.sparse:
            grad = parameter.grad
            bucket.set_buffer(empty_sparse(parameter) if grad is None else grad.to_sparse().clone())
            return
        part = bucket.gradients()[index]
        if parameter.grad is None:
            part.zero_()
        elif not begin_together(parameter.grad, part):
            part.copy_(parameter.grad)

    def _exchange(self, bucket: GradBucket) -> None:
        if self.hook is not None:
            bucket.future = self.hook(self.state, bucket)
            return
        bucket.buffer().div_(self.divisor or self.group.size())
        work = all_reduce(bucket.buffer(), group=self.group, async_op=True)
        bucket.future = work

    def _used(self) -> set[int] | None:
        """The parameters that some rank used; None where all are."""
        if not self.find_unused and not self.static:
            return None
        flags = [int(id(p) not in self.unused) for p in self.parameters]
        used = core.tensor(flags, dtype=core.int32)
        all_reduce(used, ReduceOp.MAX, self.group)
        return {id(p) for p, flag in zip(self.parameters, used.tolist(), strict=True) if flag}

    def _finish(self) -> None:
        """Wait for all buckets and give the parameters their gradients."""
        self.active = self.began = False
        used = self._used()
        for bucket in self.buckets:
            self._take(bucket)
            for p, part in zip(bucket._parameters, bucket.gradients(), strict=True):
                if used is None or id(p) in used:
                    self._give(p, part)
        self.iterations += 1
        then, self.when_done = self.when_done, None
        if then is not None:
            then()

    def _give(self, parameter: Any, part: Tensor) -> None:
        """Give a parameter its part of a bucket: the part itself, or a copy."""
        if part.layout is not core.strided:
            parameter.grad = part
        elif self.views:
            if parameter.grad is None or not begin_together(parameter.grad, part):
                parameter.grad = part
        elif parameter.grad is None:
            parameter.grad = part.clone()
        else:
            parameter.grad.copy_(part)

    def shadow(self) -> None:
        """Take part in the exchange of one backward pass with nothing to give."""
        recording = core.set_grad_enabled(False)
        try:
            if self.iterations and not self.rebuilt and not self.find_unused:
                self._rebuild()
            for bucket in self.buckets:
                bucket.buffer().zero_()
                self._exchange(bucket)
            self.unused = {id(p) for p in self.parameters}
            self._used()
            for bucket in self.buckets:
                self._take(bucket)
            self.iterations += 1
        finally:
            core.set_grad_enabled(recording)

    def _take(self, bucket: GradBucket) -> None:
        future = bucket.future
        if not isinstance(future, Future):
            future.wait()
            return
        value = future.wait()
        result = value[0] if isinstance(value, (list, tuple)) else value
        if bucket.sparse:
            bucket.set_buffer(result)
        elif not begin_together(result, bucket.buffer()):
            bucket.buffer().copy_(result.reshape(-1))


def coalesced(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Tensors by dtype and device."""
    found: dict[Any, list[Tensor]] = {}
    for t in tensors:
        found.setdefault((t.dtype, t.device), []).append(t)
    return list(found.values())


def flattened(tensors: list[Tensor]) -> Tensor:
    """Tensors of one dtype behind each other."""
    return F.cat([t.detach().reshape(-1) for t in tensors])
