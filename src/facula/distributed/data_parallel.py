"""`DistributedDataParallel`: the same module on every rank, gradients averaged.

Takes: a module and a process group. Gives: a module of the same forward.
Keeps true: all ranks begin with rank 0's parameters and buffers, and after each backward pass have the
same gradients, the mean of all ranks'; buffers are rank 0's at the start of each forward.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.autograd.graph import leaves_reached
from facula.core.errors import fail
from facula.distributed.algorithms.join import Join, JoinHook, _Config
from facula.distributed.buckets import Reducer, coalesced, flattened
from facula.distributed.object_operations import all_gather_object
from facula.distributed.operations import all_reduce, broadcast
from facula.distributed.types import ReduceOp
from facula.distributed.world import own_group

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


Tensor = core.Tensor

__all__ = ["DistributedDataParallel"]


def _tensors(value: object) -> Iterator[Tensor]:
    """The tensors in nested results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _tensors(inner)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _tensors(vars(value))


def _sparse_tables(module: nn.Module) -> list[Any]:
    """The parameters whose gradients are sparse."""
    tables = (m for m in module.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag)))
    return [table.weight for table in tables if table.sparse]


def _reached(results: Iterable[Tensor]) -> set[int]:
    """The leaves whose gradients a backward pass from these results computes."""
    return set(leaves_reached(results))


def spread(tensors: Iterable[Tensor], group: ProcessGroup | None, root: int = 0) -> None:
    """Give all ranks the root's tensors."""
    recording = core.set_grad_enabled(False)
    try:
        for same in coalesced(tensors):
            flat = flattened(same)
            broadcast(flat, group=group, group_src=root)
            for t, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
                t.detach().copy_(part.view(t.shape))
    finally:
        core.set_grad_enabled(recording)


class _Shadow(JoinHook):
    """The steps of a rank without inputs."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        """The exchange of one step: buffers, then gradients of zero."""
        ddp = self.ddp
        if ddp.will_sync_module_buffers():
            spread(ddp._shared_buffers, ddp.process_group, ddp.buffers_from(False))
        ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the parameters of the rank that went on longest."""
        ddp = self.ddp
        rank = core.tensor([ddp.process_group.rank() if is_last_joiner else -1])
        all_reduce(rank, ReduceOp.MAX, ddp.process_group)
        ddp.reducer.divisor = None
        spread([*ddp._trained, *ddp._shared_buffers], ddp.process_group, int(rank))


def _check_devices(here: Any, device_ids: Any, output_device: Any) -> None:
    """Raise where a module is to be on another device than the one on which its parameters lie."""
    if here.type == "cpu" and (device_ids or output_device):
        fail(ValueError, "DistributedDataParallel", "no device_ids and no output_device were required for a module on "
             "the cpu (DistributedDataParallel device_ids and output_device arguments only work with "
             "single-device GPU modules)", f"device_ids={device_ids}, output_device={output_device}",
             hint="leave them out, or move the module to the device first")  # fmt: skip


class DistributedDataParallel(nn.Module):
    """A module that every rank runs on data of its own.

    >>> model = DistributedDataParallel(model)
    >>> loss(model(x), y).backward()  # gradients are the mean of all ranks' now
    """

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        """Wrap a module.

        Args:
            broadcast_buffers: whether buffers are rank 0's at each forward.
            init_sync: whether parameters and buffers are rank 0's from now on.
            process_group: default: all ranks.
            bucket_cap_mb: how many MiB of gradients go together; default 25.
            find_unused_parameters: whether the loss may not depend on some parameters.
            device_ids, output_device, dim, check_reduction, options: kept for PyTorch's API; they
                change nothing here.
            gradient_as_bucket_view: whether gradients are parts of the buckets, which saves a copy.
            static_graph: the set of used parameters never changes: the first backward pass shows which
                these are, and how often each one's gradient comes.
        """
        super().__init__()
        self.module = module
        self.process_group = own_group(process_group, "DistributedDataParallel")
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in ignored]
        self._trained = [p for _, p in named if p.requires_grad]
        if not self._trained:
            fail(
                RuntimeError,
                "DistributedDataParallel",
                "a parameter that requires a gradient was required (DistributedDataParallel is not "
                "needed when a module doesn't have any parameters that require a gradient)",
                "none",
                hint="use the module itself, without DistributedDataParallel",
            )
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.device = self._trained[0].device
        _check_devices(self.device, device_ids, output_device)
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters and not static_graph
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self._divide_by_all = True
        self._join_config = _Config(False, False, False)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._shared_buffers = [b for n, b in module.named_buffers() if n not in ignored]
        if init_sync:
            self._compare(named)
            spread([p for _, p in named] + self._shared_buffers, self.process_group)
        self.bucket_cap_mb = 25 if bucket_cap_mb is None else bucket_cap_mb
        self.reducer = Reducer(
            self._trained, self.process_group, self.bucket_cap_mb, self.find_unused_parameters,
            static=static_graph, views=gradient_as_bucket_view, sparse=_sparse_tables(module),
        )  # fmt: skip

    def _compare(self, named: list[tuple[str, Any]]) -> None:
        """Raise where ranks have different parameters."""
        mine = [(n, tuple(p.shape), str(p.dtype)) for n, p in named]
        every: list[Any] = [None] * self.process_group.size()
        all_gather_object(every, mine, self.process_group)
        for rank, theirs in enumerate(every):
            if theirs != mine:
                other = next((pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]),
                             (f"{len(mine)} parameters", f"{len(theirs)}"))  # fmt: skip
                fail(RuntimeError, "DistributedDataParallel", "the same parameters on all ranks were "
                     f"required (Params are not the same across processes): {other[0]}",
                     f"{other[1]} on rank {rank}", hint="build the module alike on all ranks")  # fmt: skip

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's result."""
        self._before()
        return self._after(self.module(*inputs, **kwargs))

    def _before(self) -> None:
        if self._join_config.enable:
            active = Join.notify_join_context(self)
            if active is not None and not self._divide_by_all:
                self.reducer.divisor = active
        if self.require_forward_param_sync and self.will_sync_module_buffers():
            spread(self._shared_buffers, self.process_group, self.buffers_from(True))

    def buffers_from(self, active: bool) -> int:
        """The rank whose buffers count: the first one; while ranks join, the first with an input."""
        if not self._join_config.enable:
            return 0
        size, me = self.process_group.size(), self.process_group.rank()
        first = core.tensor([me if active else size])
        all_reduce(first, ReduceOp.MIN, self.process_group)
        return int(first) % size

    def _after(self, result: object) -> Any:
        if core.is_grad_enabled() and self.require_backward_grad_sync:
            self.require_forward_param_sync = True
            unused: set[int] = set()
            if self.find_unused_parameters:
                reached = _reached(_tensors(result))
                unused = {id(p) for p in self._trained} - reached
            self.reducer.prepare(unused)
        elif core.is_grad_enabled():
            self.require_forward_param_sync = False
        return result

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward gives buffers rank 0's values."""
        return bool(
            self.require_forward_param_sync and self.broadcast_buffers and self._shared_buffers
        )

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose forwards have backwards without an exchange: gradients add up locally."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], Any]) -> None:
        """Exchange buckets by a function `(state, bucket) -> Future` of the new buffer; once."""
        if not callable(hook):
            fail(TypeError, "register_comm_hook", "a callable was required (Communication hook must be "
                 "callable)", type(hook).__name__,
                 hint="a hook is a function of state and bucket that gives a Future")  # fmt: skip
        if self.reducer.hook is not None:
            fail(RuntimeError, "register_comm_hook", "a module without a hook was required "
                 "(register_comm_hook can only be called once)", "a second one",
                 hint="make another DistributedDataParallel for another hook")  # fmt: skip
        self.reducer.hook, self.reducer.state = hook, state

    # ---------------------------------------------------------------- uneven inputs

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:  # fmt: skip
        """A block in which ranks may have different numbers of inputs.

        Args:
            divide_by_initial_world_size: whether the sum of the gradients is divided by the number of
                all ranks, also where some have no more inputs.
        """
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)  # fmt: skip

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What stands for this module on ranks without inputs."""
        self._divide_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The ranks that exchange gradients."""
        return self.process_group

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What this module is made of, and how its gradients are exchanged."""
        buckets = self.reducer.buckets
        sizes = [b.buffer().numel() * b.buffer().element_size() for b in buckets]
        dtypes = dict.fromkeys(str(p.dtype) for p in self._trained)
        return {
            "rank": self.process_group.rank(),
            "world_size": self.process_group.size(),
            "backend_name": self.process_group.backend_name,
            "module_name": type(self.module).__name__,
            "iteration": self.reducer.iterations,
            "num_parameter_tensors": len(self._trained),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in self._trained),
            "dtypes": ", ".join(dtypes),
            "bucket_cap_bytes": int(self.bucket_cap_mb * (1 << 20)),
            "bucket_sizes": ", ".join(map(str, sizes)),
            "has_rebuilt_buckets": int(self.reducer.rebuilt),
            "rebuilt_bucket_sizes": ", ".join(map(str, sizes)) if self.reducer.rebuilt else "",
            "broadcast_buffers": int(self.broadcast_buffers),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
            "comm_hook": getattr(self.reducer.hook, "__name__", "") if self.reducer.hook else "",
        }

    def _set_static_graph(self) -> None:
        """Say that the set of used parameters never changes."""
        self.static_graph = self.reducer.static = True
        self.find_unused_parameters = self.reducer.find_unused = False

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """Choose the module's mode."""
        super().train(mode)
        return self

    def __getstate__(self) -> dict[str, Any]:
        fail(RuntimeError, "DistributedDataParallel", "the inner module was required to be saved",
             "the wrapper", "save model.module, or state_dict()")  # fmt: skip
