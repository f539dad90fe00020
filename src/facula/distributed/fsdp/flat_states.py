"""States of modules in flat units, and of their optimizers.

Takes: `FullyShardedDataParallel` modules. Gives: states of the kinds that were chosen, and takes them.
Keeps true: names are those of the bare module; a whole state is that of one process; all ranks call these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.fsdp.api import StateDictType
from facula.distributed.fsdp.flat_unit import FlatUnit
from facula.distributed.operations import all_reduce
from facula.distributed.tensor.distributing import distribute_tensor
from facula.distributed.tensor.dtensor import DTensor
from facula.distributed.tensor.placement_types import Shard
from facula.distributed.types import ReduceOp
from facula.distributed.world import get_rank
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = [
    "bare", "chosen_optimizer_state", "load_state", "names_of", "optimizer_state", "optimizer_state_to_load",
    "show_gradients", "state_of", "total_norm",
]  # fmt: skip

Tensor = core.Tensor
_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
#: whether the outermost module is making a state: inner ones then are as any module
_INSIDE = [False]


def bare(name: str) -> str:
    """A name without what wrappers add."""
    for part in _WRAPPERS:
        name = name.replace(part, "")
    return name


def total_norm(units: list[FlatUnit], order: float) -> Tensor:
    """The norm of all gradients of all ranks."""
    infinite = order == float("inf")
    total = core.tensor(0.0, dtype=core.float64)
    for unit in units:
        grad = unit.local_gradient()
        part = core.tensor(0.0, dtype=core.float64)
        if grad is not None and grad.numel():
            magnitude = grad.detach().double().abs()
            part = magnitude.amax() if infinite else (magnitude**order).sum()
        if unit.shard_group is not None:
            all_reduce(part, ReduceOp.MAX if infinite else ReduceOp.SUM, unit.shard_group)
        total = F.maximum(total, part) if infinite else total + part
    return total if infinite else total ** (1.0 / order)


def show_gradients(unit: FlatUnit) -> None:
    """Give whole parameters whole gradients."""
    grad = unit.local_gradient()
    flag = core.tensor([int(grad is not None)])
    if unit.shard_group is not None:
        all_reduce(flag, ReduceOp.MAX, unit.shard_group)
    if not int(flag):
        return
    mine = F.zeros((unit.size,), dtype=unit.own) if grad is None else grad
    for leaf, value in zip(unit.leaves, unit.whole_of(mine), strict=True):
        if leaf.parameter.requires_grad:
            leaf.parameter.grad = value.to(leaf.dtype)


def _mesh(unit: FlatUnit) -> DeviceMesh:
    group = unit.shard_group
    return DeviceMesh("cpu", core.tensor(group.ranks, dtype=core.int32), _groups=[group])


def state_of(module: Any, plain: Any, args: Any, kwargs: Any) -> Any:
    """The state of a module."""
    settings = module._settings
    if _INSIDE[0] or kwargs.get("destination") is not None or args:
        return plain(*args, **kwargs)
    prefix = kwargs.get("prefix", "")
    _INSIDE[0] = True
    try:
        if settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            found = plain(**kwargs)
            return type(found)((bare(k), v.detach().clone()) for k, v in found.items())
        with type(module).summon_full_params(module, writeback=False):
            found = plain(**kwargs)
            made = type(found)()
            for name, value in found.items():
                made[bare(name)] = value.detach().clone() if isinstance(value, Tensor) else value
    finally:
        _INSIDE[0] = False
    if settings.state_dict_type is StateDictType.SHARDED_STATE_DICT:
        for unit_module in module.fsdp_modules(module):
            unit = unit_module._unit
            if unit.shard_group is None:
                continue
            mesh = _mesh(unit)
            for name in _names(module, unit):
                full = prefix + name
                made[full] = distribute_tensor(made[full], mesh, [Shard(0)], src_data_rank=None)
    elif getattr(settings.state_dict_config, "rank0_only", False) and get_rank():
        made.clear()
    return made


def _names(module: Module, unit: FlatUnit) -> list[str]:
    """The names of a unit's parameters in the bare module."""
    of = {id(inner): name for name, inner in module.named_modules()}
    found = []
    for leaf in unit.leaves:
        inner, name = leaf.places[0]
        path = of[id(inner)]
        found.append(bare(f"{path}.{name}" if path else name))
    return found


def load_state(module: Any, plain: Any, state: Any, strict: bool) -> Any:
    """Take a state."""
    if _INSIDE[0]:
        return plain(state, strict)
    whole = {k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in state.items()}
    _INSIDE[0] = True
    try:
        if module._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            return plain(_wrapped(plain.__self__, whole), strict)
        with type(module).summon_full_params(module):
            return plain(_wrapped(plain.__self__, whole), strict)
    finally:
        _INSIDE[0] = False


def _wrapped(module: Module, state: dict[str, Any]) -> dict[str, Any]:
    """A state under the names that wrapped modules have."""
    names = {bare(name): name for name in module.state_dict()}
    return {names.get(name, name): value for name, value in state.items()}


# ------------------------------------------------------------------ optimizers


def _shown(unit: FlatUnit) -> list[Any]:
    return unit.shown if unit.original else [unit.flat]


def _vector(unit: FlatUnit, states: list[Any], key: str) -> Tensor:
    """This rank's part of one entry of the state."""
    if not unit.original:
        return states[0][key]
    like = next(s[key] for s in states if key in s)
    made = F.zeros((unit.size,), dtype=like.dtype)
    for leaf, state in zip(unit.leaves, states, strict=True):
        if key in state:
            unit._part(made, leaf).copy_(state[key])
    return made


def names_of(model: Module) -> list[str]:
    """The names of all parameters of a bare model, in its order."""
    units = [m._unit for m in model.modules() if isinstance(getattr(m, "_unit", None), FlatUnit)]
    flat = {id(unit.flat) for unit in units}
    place = {id(inner): i for i, inner in enumerate(model.modules())}
    found: list[tuple[int, str]] = []
    for unit in units:
        of = zip(unit.leaves, _names(model, unit), strict=True)
        found += [(place[id(leaf.places[0][0])], name) for leaf, name in of]
    seen = {name for _, name in found}
    taken: set[int] = set()
    for path, inner in model.named_modules():
        for name, value in inner._parameters.items():
            full = bare(f"{path}.{name}" if path else name)
            if value is not None and id(value) not in flat | taken and full not in seen:
                found.append((place[id(inner)], full))
                taken.add(id(value))
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def chosen_optimizer_state(model: Module, optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer, of the kind that was chosen for the model."""
    settings = _kind(model).get_state_dict_type(model)
    sharded = settings.state_dict_type is StateDictType.SHARDED_STATE_DICT
    made = optimizer_state(model, optimizer, sharded)
    whole_on_first = getattr(settings.optim_state_dict_config, "rank0_only", False)
    return {} if whole_on_first and not sharded and get_rank() else made


def optimizer_state(model: Module, optimizer: Any, sharded: bool) -> dict[str, Any]:
    """The state of an optimizer by the names of parameters: whole, or distributed tensors."""
    fsdp = _kind(model)
    state: dict[str, Any] = {}
    owner: dict[int, list[str]] = {}
    for module in fsdp.fsdp_modules(model):
        unit = module._unit
        if not unit.leaves:
            continue
        names = _names(model, unit)
        for i, shown in enumerate(_shown(unit)):
            owner[id(shown)] = [names[i]] if unit.original else names
        states = [optimizer.state.get(p, {}) for p in _shown(unit)]
        for key in dict.fromkeys(k for s in states for k in s):
            sample = next(s[key] for s in states if key in s)
            if not isinstance(sample, Tensor) or sample.dim() == 0:
                for name in names:
                    state.setdefault(name, {})[key] = (
                        sample.clone() if isinstance(sample, Tensor) else sample
                    )
                continue
            for name, value in zip(names, unit.whole_of(_vector(unit, states, key)), strict=True):
                if sharded and unit.shard_group is not None:
                    value = distribute_tensor(value, _mesh(unit), [Shard(0)], src_data_rank=None)
                state.setdefault(name, {})[key] = value
    groups = [
        {**g, "params": [n for p in g["params"] for n in owner.get(id(p), [])]}
        for g in optimizer.param_groups
    ]
    return {"state": state, "param_groups": groups}


def optimizer_state_to_load(model: Module, optimizer: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the optimizer takes on this rank."""
    number = {
        id(p): i for i, p in enumerate(p for g in optimizer.param_groups for p in g["params"])
    }
    state: dict[int, Any] = {}
    for module in _kind(model).fsdp_modules(model):
        unit = module._unit
        if not unit.leaves:
            continue
        names = _names(model, unit)
        held = [given["state"].get(name, {}) for name in names]
        for key in dict.fromkeys(k for s in held for k in s):
            sample = next(s[key] for s in held if key in s)
            places = [number[id(p)] for p in _shown(unit)]
            if not isinstance(sample, Tensor) or sample.dim() == 0:
                for place in places:  # each its own: optimizers count steps in place
                    own = sample.clone() if isinstance(sample, Tensor) else sample
                    state.setdefault(place, {})[key] = own
                continue
            values = [
                _whole(s.get(key), leaf, sample) for s, leaf in zip(held, unit.leaves, strict=True)
            ]
            part = unit.part_of(values)
            parts = [unit._part(part, leaf) for leaf in unit.leaves] if unit.original else [part]
            for place, value in zip(places, parts, strict=True):
                state.setdefault(place, {})[key] = value.clone()
    groups = []
    for group, source in zip(optimizer.param_groups, given["param_groups"], strict=True):
        rest = {k: v for k, v in source.items() if k != "params"}
        groups.append({**rest, "params": [number[id(p)] for p in group["params"]]})
    return {"state": state, "param_groups": groups}


def _whole(value: Any, leaf: Any, like: Tensor) -> Tensor:
    if value is None:
        return F.zeros(leaf.shape, dtype=like.dtype)
    return value.full_tensor() if isinstance(value, DTensor) else value


def _kind(model: Module) -> Any:
    """The class of the units in a model."""
    for module in model.modules():
        if isinstance(getattr(module, "_unit", None), FlatUnit):
            return type(module)
    return fail(ValueError, "optim_state_dict", "a module with a unit was required", type(model).__name__,
                "wrap it in FullyShardedDataParallel")  # fmt: skip
