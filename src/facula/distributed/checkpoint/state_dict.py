"""States of models and optimizers by the names of parameters, whatever wraps the model.

Takes: a model, its optimizers, options. Gives: states for `save`, and takes them again.
Keeps true: names are those of the bare model; a state that is asked for as a whole has whole tensors (on rank 0
alone, where they are to lie on the cpu).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.distributed import world
from facula.distributed.data_parallel import DistributedDataParallel
from facula.distributed.object_operations import broadcast_object_list
from facula.distributed.tensor.distributing import distribute_tensor
from facula.distributed.tensor.dtensor import DTensor
from facula.ops.table.registry import F

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip

#: the kinds of values in states, for annotations
PrimitiveType = DTensor | core.Tensor | int | float | str
ValueType = (
    PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType, ...] | dict[str, PrimitiveType]
)
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]
FQNS_T = set[str]

#: parts of names that wrappers add
_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


@dataclass
class StateDictOptions:
    """What a state is to hold."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _bare(model: nn.Module, name: str) -> str:
    """A name without what wrappers add."""
    for part in _WRAPPERS:
        name = name.replace(part, "")
    return name.removeprefix("module.") if isinstance(model, DistributedDataParallel) else name


def _names(model: nn.Module) -> dict[str, str]:
    """Name in the wrapped model -> name in the bare one."""
    return {name: _bare(model, name) for name in model.state_dict()}


def _parameters(model: nn.Module) -> dict[int, str]:
    """Parameter -> name in the bare model."""
    for inner in model.modules():
        state = getattr(inner, "_fsdp_state", None)
        if state is not None:
            state.unit.reshard()
    return {id(value): _bare(model, name) for name, value in model.named_parameters()}


def _shown(value: Any, options: StateDictOptions) -> Any:
    """A value as the options want it."""
    if not isinstance(value, core.Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    if (
        options.cpu_offload
        and options.full_state_dict
        and world.is_initialized()
        and world.get_rank()
    ):
        return None
    value = value.detach()
    return value.cpu() if options.cpu_offload and not isinstance(value, DTensor) else value


def _kept(found: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    alone = options.full_state_dict and options.cpu_offload
    return {k: v for k, v in found.items() if v is not None or not alone}


def get_model_state_dict(
    model: nn.Module, *, submodules: object = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model.

    Args:
        submodules: kept for PyTorch's API.
    """
    options = options or StateDictOptions()
    names, state = _names(model), model.state_dict()
    frozen = set()
    if options.ignore_frozen_params:
        frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    found = {names[k]: _shown(v, options) for k, v in state.items() if k not in frozen}
    return _kept(found, options)


def _placed(value: object, like: object, options: StateDictOptions) -> Any:
    """A value as the tensor lies that takes it."""
    if options.broadcast_from_rank0 and world.is_initialized():
        held = [value]
        broadcast_object_list(held, src=0)
        value = held[0]
    if (
        isinstance(like, DTensor)
        and isinstance(value, core.Tensor)
        and not isinstance(value, DTensor)
    ):
        return distribute_tensor(
            value.to(like.dtype), like.device_mesh, like.placements, src_data_rank=None
        )
    return value


def set_model_state_dict(
    model: nn.Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Put a state into a model; gives what `load_state_dict` does."""
    options = options or StateDictOptions()
    state = model.state_dict()
    found = {}
    for name, bare in _names(model).items():
        if bare in model_state_dict or options.broadcast_from_rank0:
            found[name] = _placed(model_state_dict.get(bare), state[name], options)
    unknown = [k for k in model_state_dict if k not in set(_names(model).values())]
    found.update({k: model_state_dict[k] for k in unknown})
    return model.load_state_dict(found, strict=options.strict)


def _optimizers(optimizers: object) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def _init_optim_state(optimizer: Any) -> None:
    """Make an optimizer's state, as its first step would, with no change to the parameters.

    A step with gradients of zero and rates of zero; nothing where there is a state, or gradients that wait for a step.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    for p in parameters:
        if p.requires_grad:
            p.grad = F.zeros_like(p)
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if rate is not None:
            group["lr"] = F.zeros_like(rate) if isinstance(rate, core.Tensor) else 0.0
    try:
        optimizer.step(closure=None)
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(
    model: nn.Module, optimizers: object, *, submodules: object = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The state of optimizers, by the names of parameters."""
    options = options or StateDictOptions()
    names = _parameters(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        for p, values in optimizer.state.items():
            state[names[id(p)]] = {k: _shown(v, options) for k, v in values.items()}
        for group in optimizer.param_groups:
            held = [names[id(p)] for p in group["params"] if id(p) in names]
            groups.append({**group, "params": held})
    if options.flatten_optimizer_state_dict:
        flat = {f"state.{n}.{k}": v for n, values in state.items() for k, v in values.items()}
        for group in groups:
            for name in group["params"]:
                flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
        return flat
    return {"state": state, "param_groups": groups}


def _unflattened(flat: dict[str, Any], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """A state of which each entry had a name of its own."""
    state: dict[str, Any] = {}
    made = []
    for group in groups:
        values = {}
        for name in group["params"]:
            for key, value in flat.items():
                if key.startswith(f"state.{name}.") and "." not in key[len(f"state.{name}.") :]:
                    state.setdefault(name, {})[key[len(f"state.{name}.") :]] = value
                prefix = f"param_groups.{name}."
                if key.startswith(prefix) and "." not in key[len(prefix) :]:
                    values[key[len(prefix) :]] = value
        made.append({**values, "params": group["params"]})
    return {"state": state, "param_groups": made}


def set_optimizer_state_dict(
    model: nn.Module, optimizers: object, optim_state_dict: dict[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Put a state into optimizers."""
    options = options or StateDictOptions()
    names = _parameters(model)
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        groups = [
            [names[id(p)] for p in g["params"] if id(p) in names] for g in optimizer.param_groups
        ]
        given = optim_state_dict
        if "param_groups" not in given:
            given = _unflattened(given, [{"params": held} for held in groups])
        for group, held in zip(optimizer.param_groups, groups, strict=True):
            source = next((g for g in given["param_groups"] if set(g["params"]) == set(held)), None)
            if source is None:
                fail(ValueError, "set_optimizer_state_dict", "a group of the same parameters was required",
                     held, "make the optimizer with the groups that were saved")  # fmt: skip
            group.update({k: v for k, v in source.items() if k != "params"})
            for p in group["params"]:
                values = given["state"].get(names[id(p)])
                if values is not None:
                    optimizer.state[p] = {k: _like(v, p, options) for k, v in values.items()}


def _like(value: object, parameter: Any, options: StateDictOptions) -> Any:
    alike = isinstance(value, core.Tensor) and value.shape == parameter.shape
    made = _placed(value, parameter if alike else None, options)
    return made.detach().clone() if isinstance(made, core.Tensor) else made


def get_state_dict(
    model: nn.Module, optimizers: object, *, submodules: object = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The states of a model and of its optimizers."""
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: nn.Module, optimizers: object, *, model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any], options: StateDictOptions | None = None,
) -> Any:  # fmt: skip
    """Put states into a model and its optimizers."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
