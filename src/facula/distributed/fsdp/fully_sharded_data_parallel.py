"""`FullyShardedDataParallel`: a module around another one, whose parameters lie in flat pieces on the ranks.

Takes: a module, a strategy, a policy for inner units. Gives: a module of the same forward.
Keeps true: between steps each rank has its part of each unit (of the state of the optimizer, too); losses are
those of one process; states have the names of the bare module. [Zhao et al. 2023]
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.core.errors import fail
from facula.distributed.data_parallel import spread
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp import flat_states, optimizer_states
from facula.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from facula.distributed.fsdp.flat_unit import FlatUnit
from facula.distributed.fsdp.leaf import Place
from facula.distributed.fsdp.schedule import State
from facula.distributed.fsdp.wrap import wrap_children
from facula.distributed.world import own_group

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig",
    "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy",
    "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip

_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEPT = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


def _groups(given: object, mesh: DeviceMesh | None, strategy: ShardingStrategy) -> tuple[Any, Any]:
    """The ranks among which parameters are cut, and those that have the same pieces."""
    if strategy in _HYBRID:
        if mesh is not None and mesh.ndim == 2:
            return mesh.get_group(1), mesh.get_group(0)
        if isinstance(given, tuple):
            return given
        fail(ValueError, "FullyShardedDataParallel", f"a mesh of two dimensions, or two process groups, were "
             f"required for {strategy.name}", given, "init_device_mesh('cpu', (nodes, ranks_per_node))")  # fmt: skip
    group = mesh.get_group() if mesh is not None else own_group(given, "FullyShardedDataParallel")
    return (None, group) if strategy is ShardingStrategy.NO_SHARD else (group, None)


class FullyShardedDataParallel(nn.Module):
    """A module whose parameters are cut over the ranks.

    >>> model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}))
    """

    def __init__(
        self,
        module: nn.Module,
        process_group: ProcessGroup | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: object = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], None] | None = None,
        device_id: object = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        """Wrap a module.

        Args:
            sharding_strategy: what is cut; default FULL_SHARD.
            auto_wrap_policy: which submodules become units of their own (`fsdp.wrap`).
            param_init_fn: initialises a module whose parameters are on the meta device; default:
                `to_empty` and `reset_parameters`.
            sync_module_states: whether rank 0's parameters and buffers count.
            use_orig_params: whether parameters keep their names and groups; each shows this rank's part.
            ignored_modules, ignored_states: modules and parameters that stay whole.
            process_group: for hybrid strategies the groups to cut and to copy among.
            cpu_offload, device_id, forward_prefetch, limit_all_gathers: kept for PyTorch's API; units lie in
                the processor's memory.
        """
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        ignored = {id(p) for m in ignored_modules or () for p in (m, *m.modules(), *m.parameters())}
        for one in ignored_states or ():
            ignored |= (
                {id(one), *(id(p) for p in one.parameters())}
                if isinstance(one, nn.Module)
                else {id(one)}
            )
        options = {
            "process_group": process_group, "sharding_strategy": strategy,
            "backward_prefetch": backward_prefetch, "mixed_precision": mixed_precision,
            "use_orig_params": use_orig_params, "device_mesh": device_mesh,
        }  # fmt: skip
        self._groups = _groups(process_group, device_mesh, strategy)
        _materialize(module, param_init_fn, ignored)
        if sync_module_states:
            whole = self._groups[0] or self._groups[1]
            spread([*module.parameters(), *module.buffers()], whole)
        if auto_wrap_policy is not None:

            def make(inner: nn.Module, more: dict[str, Any]) -> nn.Module:
                return FullyShardedDataParallel(
                    inner, ignored_states=_among(inner, ignored), **{**options, **more}
                )

            wrap_children(module, auto_wrap_policy, make, ignored)
        self._fsdp_wrapped_module = module
        self.sharding_strategy, self._use_orig_params = strategy, use_orig_params
        self._cut(ignored, mixed_precision or MixedPrecision(), backward_prefetch)
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )

    def _cut(self, ignored: set[int], precision: MixedPrecision, prefetch: object) -> None:
        """Make the unit, and hang it on this module."""
        places = _own_places(self._fsdp_wrapped_module, ignored)
        shard, copies = self._groups
        unit = FlatUnit(
            self, places, shard, copies, type(self._fsdp_wrapped_module).__name__, precision.param_dtype,
            self._use_orig_params,
        )  # fmt: skip
        unit.reduce_dtype = precision.reduce_dtype
        reshards = False if self.sharding_strategy in _KEPT else None
        state = State(self, unit, reshards)
        if precision.cast_forward_inputs or precision.cast_root_forward_inputs:
            state.input_dtype = precision.param_dtype
        if prefetch is not BackwardPrefetch.BACKWARD_PRE:
            state.backward_prefetch = []
        if precision.buffer_dtype is not None:
            for buffer in self._fsdp_wrapped_module.buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.data.to(precision.buffer_dtype)
        object.__setattr__(self, "_fsdp_state", state)
        object.__setattr__(self, "_unit", unit)

    # ---------------------------------------------------------------- the module within

    @property
    def module(self) -> nn.Module:
        """The module within."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key: core.Tensor) -> Any:
        return self._fsdp_wrapped_module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    @staticmethod
    def fsdp_modules(module: nn.Module, root_only: bool = False) -> list[Any]:
        """The units in a module."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    def check_is_root(self) -> bool:
        """Whether this is the outermost unit; known from the first forward on."""
        self._fsdp_state.find_root()
        return self._fsdp_state.is_root

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Names and parameters; of whole ones the names of the bare module."""
        for name, value in super().named_parameters(*args, **kwargs):
            yield (flat_states.bare(name) if self._unit.whole else name), value

    def apply(self, fn: Callable[[nn.Module], Any]) -> FullyShardedDataParallel:
        """Call a function with each module, whose parameters are whole meanwhile."""
        with self.summon_full_params(self):
            super().apply(fn)
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        units = [m._unit for m in self.fsdp_modules(self)]
        for unit in units:
            unit.reshard()
        made = super()._apply(*args, **kwargs)
        for unit in units:
            if unit.leaves:
                unit.take_again()
        return made

    # ---------------------------------------------------------------- training

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose backward passes reduce nothing: gradients add up on each rank."""
        units = [m._unit for m in self.fsdp_modules(self)]
        for unit in units:
            unit.syncs = False
        try:
            yield
        finally:
            for unit in units:
                unit.syncs = True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients so that the norm of all of them is at most a number; gives the norm before."""
        recording = core.set_grad_enabled(False)
        try:
            total = flat_states.total_norm(
                [m._unit for m in self.fsdp_modules(self)], float(norm_type)
            )
            factor = min(float(max_norm) / (float(total) + 1e-6), 1.0)
            for p in self.parameters():
                if p.grad is not None:
                    p.grad.mul_(factor)
        finally:
            core.set_grad_enabled(recording)
        return total

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: nn.Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False,
        offload_to_cpu: bool = False, with_grads: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """A block in which parameters are whole; what is written to them stays.

        Args:
            with_grads: whether gradients are whole, too.
            rank0_only, offload_to_cpu: kept for PyTorch's API; all ranks have whole parameters.
        """
        every = FullyShardedDataParallel.fsdp_modules(module)
        chosen = every if recurse else [m for m in every if m is module]
        opened = [m._unit for m in chosen if not m._unit.whole and m._unit.leaves]
        for unit in opened:
            unit.unshard()
            if with_grads:
                flat_states.show_gradients(unit)
        try:
            yield
        finally:
            for unit in opened:
                if writeback:
                    unit.write_back()
                if with_grads:
                    for leaf in unit.leaves:
                        leaf.parameter.grad = None
                unit.reshard()

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], None]) -> None:
        """Have a function see (and change) each unit's reduced part: `hook(state, part)`."""
        for module in self.fsdp_modules(self):
            module._unit.comm_hook = lambda part: hook(state, part)

    # ---------------------------------------------------------------- states

    @staticmethod
    def set_state_dict_type(
        module: nn.Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:  # fmt: skip
        """Choose the kind of states; gives the one before."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        config = state_dict_config or (
            FullStateDictConfig()
            if state_dict_type is StateDictType.FULL_STATE_DICT
            else StateDictConfig()
        )
        settings = StateDictSettings(
            state_dict_type, config, optim_state_dict_config or FullOptimStateDictConfig()
        )
        for inner in FullyShardedDataParallel.fsdp_modules(module):
            inner._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: nn.Module) -> StateDictSettings:
        """The kind of states."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        if not found:
            fail(ValueError, "FullyShardedDataParallel", "a module with a unit was required",
                 type(module).__name__, "wrap it in FullyShardedDataParallel")  # fmt: skip
        return found[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: nn.Module, state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:  # fmt: skip
        """A block with another kind of states."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for inner in FullyShardedDataParallel.fsdp_modules(module):
                inner._settings = before

    def state_dict(self, *args: object, **kwargs: object) -> Any:
        """The state, of the kind that was chosen, under the names of the bare module."""
        return flat_states.state_of(self, super().state_dict, args, kwargs)

    def load_state_dict(self, state_dict: object, strict: bool = True, assign: bool = False) -> Any:
        """Take a state of the kind that was chosen."""
        return flat_states.load_state(self, super().load_state_dict, state_dict, strict)

    @staticmethod
    def optim_state_dict(
        model: nn.Module,
        optim: object,
        optim_state_dict: object = None,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """The state of an optimizer, by the names of parameters: whole, or distributed tensors."""
        return flat_states.chosen_optimizer_state(model, optim)

    @staticmethod
    def optim_state_dict_to_load(
        model: nn.Module, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False,
        load_directly: bool = False, group: ProcessGroup | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """What `optim.load_state_dict` takes on this rank, from a state by the names of parameters."""
        made = flat_states.optimizer_state_to_load(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(made)
        return made

    full_optim_state_dict = staticmethod(optimizer_states.full)
    sharded_optim_state_dict = staticmethod(optimizer_states.sharded)
    shard_full_optim_state_dict = staticmethod(optimizer_states.shard_full)
    scatter_full_optim_state_dict = staticmethod(optimizer_states.scatter_full)
    flatten_sharded_optim_state_dict = staticmethod(optimizer_states.flatten_sharded)
    rekey_optim_state_dict = staticmethod(optimizer_states.rekey)


def _among(module: nn.Module, ignored: set[int]) -> list[Any]:
    return [p for p in module.parameters() if id(p) in ignored]


def _own_places(module: nn.Module, ignored: set[int]) -> list[list[Place]]:
    """The parameters that lie in no inner unit, each with all of its places."""
    found: dict[int, list[Place]] = {}

    def walk(inner: nn.Module) -> None:
        if hasattr(inner, "_fsdp_state") or id(inner) in ignored:
            return
        for name, value in inner._parameters.items():
            if value is not None and id(value) not in ignored:
                found.setdefault(id(value), []).append((inner, name))
        for child in inner.children():
            walk(child)

    walk(module)
    return list(found.values())


def _materialize(
    module: nn.Module, init: Callable[[nn.Module], None] | None, ignored: set[int]
) -> None:
    """Give parameters on the meta device elements."""
    for inner in module.modules():
        own = [*inner._parameters.values(), *inner._buffers.values()]
        if id(inner) in ignored or not any(v is not None and v.is_meta for v in own):
            continue
        if init is not None:
            init(inner)
            continue
        inner.to_empty(device="cpu", recurse=False)
        reset = getattr(inner, "reset_parameters", None)
        if reset is None:
            fail(RuntimeError, "FullyShardedDataParallel", "a module with reset_parameters() was required for "
                 "parameters on the meta device", type(inner).__name__, "pass param_init_fn")  # fmt: skip
        reset()
