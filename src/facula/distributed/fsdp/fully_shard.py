"""`fully_shard`: a module whose parameters lie in pieces on the ranks of a mesh. [Zhao et al. 2023]

Takes: a module (or several that run together), a mesh, and policies. Gives: the same module, which is an
`FSDPModule` now.
Keeps true: parameters are distributed tensors between steps, and whole ones while their module runs; losses are
those of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from facula import nn
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
from facula.distributed.fsdp.leaf import Place
from facula.distributed.fsdp.parameter_unit import ParameterUnit
from facula.distributed.fsdp.policies import MixedPrecisionPolicy, OffloadPolicy
from facula.distributed.fsdp.schedule import State
from facula.distributed.world import get_world_size

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class UnshardHandle:
    """A gathering under way."""

    def __init__(self, state: State) -> None:
        self._state: State | None = state

    def wait(self) -> None:
        """Have whole parameters."""
        if self._state is not None:
            self._state.unit.unshard()
            self._state = None


class FSDPModule:
    """What a module can do more after `fully_shard`."""

    _fsdp_state: State

    def _states(self, recurse: bool) -> Iterator[State]:
        assert isinstance(self, nn.Module)
        for inner in self.modules() if recurse else (self,):
            state = getattr(inner, "_fsdp_state", None)
            if state is not None:
                yield state

    def reshard(self) -> None:
        """Keep this rank's pieces only."""
        self._fsdp_state.unit.reshard()

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Have whole parameters; with `async_op`, from the handle's `wait` on."""
        unit = self._fsdp_state.unit
        unit.start_unshard()
        if async_op:
            return UnshardHandle(self._fsdp_state)
        unit.unshard()
        return None

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Say whether more backward passes come before the step."""
        self._fsdp_state.find_root().last_backward = is_last_backward

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Say whether gradients are reduced, or added up on each rank."""
        for state in self._states(recurse):
            state.unit.syncs = state.unit.all_reduces = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Say whether copies of the pieces are reduced."""
        for state in self._states(recurse):
            state.unit.all_reduces = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether pieces are enough between forward and backward."""
        for state in self._states(recurse):
            state.reshards = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Say whether pieces are enough after backward."""
        for state in self._states(recurse):
            state.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Name the modules that are gathered while this one runs forward."""
        self._fsdp_state.forward_prefetch = [m._fsdp_state for m in modules]

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Name the modules that are gathered while this one runs backward."""
        self._fsdp_state.backward_prefetch = [m._fsdp_state for m in modules]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide gradients by a number, not by that of the ranks."""
        self._fsdp_state.unit.divisor = factor

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """`set_gradient_divide_factor` under its older name."""
        self.set_gradient_divide_factor(factor)

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: object = None) -> None:
        """Have a function see (and change) the reduced pieces."""
        self._fsdp_state.unit.comm_hook = hook

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Say whether the parameters are needed in backward; they are gathered where they are."""
        self._fsdp_state.backward_prefetch = None if unshard_in_backward else []

    def _apply(self, *args: object, **kwargs: object) -> Any:
        """Convert or move the pieces."""
        self._fsdp_state.unit.reshard()
        made = super()._apply(*args, **kwargs)  # type: ignore[misc]
        for state in self._states(True):
            assert isinstance(state.unit, ParameterUnit)
            state.unit.take_replaced()
        return made


def _places(modules: list[nn.Module], ignored: set[int]) -> list[list[Place]]:
    """The parameters that belong to these modules and to no unit within, each with all of its places."""
    found: dict[int, list[Place]] = {}

    def walk(module: nn.Module) -> None:
        for name, value in module._parameters.items():
            if value is not None and id(value) not in ignored:
                found.setdefault(id(value), []).append((module, name))
        for inner in module.children():
            if getattr(inner, "_fsdp_state", None) is None:
                walk(inner)

    for module in modules:
        walk(module)
    return list(found.values())


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008 - a value, never written to
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008
    ignored_params: set[Any] | None = None,
) -> Any:
    """Cut a module's parameters into pieces, in place; inner modules first.

    >>> for block in model.blocks:
    ...     fully_shard(block)
    >>> fully_shard(model)

    Args:
        module: or a list of modules, which are gathered together.
        mesh: of one dimension, or of two, along the first of which copies of the pieces lie; default: all ranks.
        reshard_after_forward: whether pieces are enough between forward and backward; None: except for the
            root; a number counts as True.
        shard_placement_fn: gives the `Shard` of a parameter; default: along the first dimension.
        mp_policy: dtypes; offload_policy: where pieces lie.
        ignored_params: parameters that stay as they are.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        _check(one)
    mesh = mesh or init_device_mesh("cpu", (get_world_size(),))
    if getattr(mesh, "ndim", 0) not in (1, 2):
        fail(ValueError, "fully_shard", "a mesh of one or two dimensions was required (fully_shard expects "
             "a 1D or 2D DeviceMesh)", mesh, "mesh['dp'] is a slice of a larger one")  # fmt: skip
    ignored = {id(p) for p in ignored_params or ()}
    places = _places(modules, ignored)
    unit = ParameterUnit(
        places, mesh, type(modules[0]).__name__, mp_policy.param_dtype, mp_policy.reduce_dtype,
        shard_placement_fn,
    )  # fmt: skip
    reshards = None if reshard_after_forward is None else bool(reshard_after_forward)
    state = State(modules[0], unit, reshards)
    state.output_dtype = mp_policy.output_dtype
    state.input_dtype = mp_policy.param_dtype if mp_policy.cast_forward_inputs else None
    for one in modules:
        object.__setattr__(one, "_fsdp_state", state)
        one.__class__ = type(f"FSDP{type(one).__name__}", (FSDPModule, type(one)), {})
        one.register_state_dict_pre_hook(lambda *_: unit.reshard())
    return module


def _check(module: Module) -> None:
    if (
        isinstance(module, (nn.ModuleList, nn.ModuleDict))
        and type(module).forward is nn.Module.forward
    ):
        fail(ValueError, "fully_shard", "a module with a forward was required (fully_shard does not support "
             "containers that do not implement forward)", type(module).__name__,
             "apply it to the modules in it")  # fmt: skip
    if getattr(module, "_fsdp_state", None) is not None:
        fail(AssertionError, "fully_shard", "a module that has not been cut was required (Each distinct "
             "module can only be passed once)", type(module).__name__, "cut inner modules first")  # fmt: skip


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Have a method run as `forward` does: with whole parameters."""
    state = getattr(module, "_fsdp_state", None)
    if state is None:
        return
    inner = getattr(module, method_name)

    def method(*args: object, **kwargs: object) -> Any:
        changed = state.before_forward(module, args, kwargs)
        args, kwargs = (args, kwargs) if changed is None else changed
        output = inner(*args, **kwargs)
        after = state.after_forward(module, args, output)
        return output if after is None else after

    object.__setattr__(module, method_name, method)
