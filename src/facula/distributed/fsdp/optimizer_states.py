"""States of optimizers over flat units, whole or in pieces, under names or numbers of parameters.

Takes: a model, its optimizer, a state. Gives: what the static methods of `FullyShardedDataParallel` give.
Keeps true: no tensor is changed; a state that was written by one of these is taken by its counterpart on any
number of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.distributed.fsdp import flat_states
from facula.distributed.fsdp.api import OptimStateKeyType
from facula.distributed.object_operations import broadcast_object_list
from facula.distributed.world import get_rank, group_of

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup
    from facula.nn import Module

__all__ = ["flatten_sharded", "full", "rekey", "scatter_full", "shard_full", "sharded"]


def full(
    model: Module, optim: object, optim_input: object = None, rank0_only: bool = True,
    group: ProcessGroup | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The whole state by the names of parameters; all ranks call this.

    Args:
        optim_input: kept for PyTorch's API: `optim` has its parameters.
        rank0_only: whether ranks other than the first get an empty state.
        group: the ranks; default: all.
    """
    found = flat_states.optimizer_state(model, optim, False)
    return {} if rank0_only and get_rank(group_of(group)) else found


def sharded(model: Module, optim: object, group: ProcessGroup | None = None) -> dict[str, Any]:
    """The state by the names of parameters, tensors as distributed ones; all ranks call this."""
    return flat_states.optimizer_state(model, optim, True)


def shard_full(
    full_optim_state_dict: dict[str, Any],
    model: Module,
    optim_input: object = None,
    optim: object = None,
) -> dict[str, Any]:
    """What `optim.load_state_dict` takes on this rank, from a whole state that every rank has."""
    if optim is None:
        fail(ValueError, "shard_full_optim_state_dict", "optim was required", "None",
             hint="pass the optimizer whose state is loaded")  # fmt: skip
    named = rekey(full_optim_state_dict, OptimStateKeyType.PARAM_NAME, model, optim=optim)
    return flat_states.optimizer_state_to_load(model, optim, named)


def scatter_full(
    full_optim_state_dict: dict[str, Any] | None, model: Module, optim_input: object = None,
    optim: object = None, group: ProcessGroup | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The same from a whole state that the first rank has; the others pass None."""
    held = [full_optim_state_dict]
    broadcast_object_list(held, group=group_of(group), group_src=0)
    if held[0] is None:
        fail(ValueError, "scatter_full_optim_state_dict", "a state was required on rank 0", "None",
             hint="full_optim_state_dict gives one")  # fmt: skip
    return shard_full(held[0], model, optim_input, optim)


def flatten_sharded(
    sharded_optim_state_dict: dict[str, Any], model: Module, optim: object
) -> dict[str, Any]:
    """What `optim.load_state_dict` takes on this rank, from a state of distributed tensors."""
    return flat_states.optimizer_state_to_load(model, optim, sharded_optim_state_dict)


def rekey(
    optim_state_dict: dict[str, Any], optim_state_key_type: OptimStateKeyType, model: Module,
    optim_input: object = None, optim: object = None,
) -> dict[str, Any]:  # fmt: skip
    """A state whose entries are under names, under numbers, or the other way round; it may be whole or not.

    A parameter's number is its place among those of the optimizer, of `optim_input` (parameters, or groups of
    them), or of the model where neither is given.

    Args:
        optim_state_dict: the state
        optim_state_key_type: what its entries are to be under
        model: has the names
        optim_input: what the optimizer was made of
        optim: the optimizer
    """
    names = _names_in_order(model, optim_input, optim)
    number = {name: i for i, name in enumerate(names)}
    groups, state = optim_state_dict["param_groups"], optim_state_dict["state"]
    keys = [*state, *(key for group in groups for key in group["params"])]
    wants_names = optim_state_key_type is OptimStateKeyType.PARAM_NAME
    if all(isinstance(key, str if wants_names else int) for key in keys):
        return optim_state_dict

    def under(key: Any) -> Any:
        table: Any = names if wants_names else number
        known = isinstance(key, int) and 0 <= key < len(names) if wants_names else key in number
        if not known:
            fail(ValueError, "rekey_optim_state_dict", "keys of parameters of the model were required", repr(key),
                 hint=f"it has {names[:4]} ...")  # fmt: skip
        return table[key]

    return {
        "state": {under(key): value for key, value in state.items()},
        "param_groups": [{**g, "params": sorted(map(under, g["params"]))} for g in groups],
    }


def _names_in_order(model: Module, given: Any, optim: Any) -> list[str]:
    """The names of a bare model's parameters, in the order in which an optimizer numbers them."""
    if any(hasattr(module, "_unit") for module in model.modules()):
        return flat_states.names_of(model)
    of = {id(p): name for name, p in model.named_parameters()}
    given = optim.param_groups if optim is not None else given
    if given is None:
        return list(of.values())
    parts = [one["params"] if isinstance(one, dict) else [one] for one in given]
    return [of[id(p)] for part in parts for p in part]
