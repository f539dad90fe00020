"""What wrappers of modules share, under the names that libraries import from PyTorch.

Takes: modules, arguments of calls, states. Gives: equal parameters on all ranks, moved or cast arguments.
Keeps true: containers keep their types; what is no tensor is passed on as it is; tensors are changed only where a
function says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from facula import core, nn
from facula.core.errors import fail
from facula.distributed.buckets import bucketed
from facula.distributed.data_parallel import spread
from facula.distributed.object_operations import all_gather_object
from facula.distributed.world import own_group
from facula.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup

__all__: list[str] = []


def _p_assert(cond: object, s: str, raise_assertion_error: bool = True) -> None:
    """Raise where something does not hold; within a backward pass, whose errors lose their place, after it is told
    on the error output by the caller's exception hook."""
    if not cond and raise_assertion_error:
        fail(
            AssertionError,
            "distributed",
            s,
            "something else",
            hint="see the traceback for where it was asked",
        )


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A nested value whose tensors and packed sequences were replaced."""
    if isinstance(value, (core.Tensor, PackedSequence)):
        return change(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _mapped(getattr(value, f.name), change) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    if isinstance(value, Mapping):
        items = {key: _mapped(inner, change) for key, inner in value.items()}
        return type(value)(items) if isinstance(value, dict) else items
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(inner, change) for inner in value))
    if isinstance(value, (list, tuple, set)):
        return type(value)(_mapped(inner, change) for inner in value)
    return value


def _apply_to_tensors(fn: Callable[[Any], Any], container: object) -> Any:
    """A nested value with a function's results in place of its tensors; sequences that are packed stay."""

    def change(value: Any) -> Any:
        if isinstance(value, PackedSequence):
            fn(value.data)
            return value
        return fn(value)

    return _mapped(container, change)


def _cast_forward_inputs(
    dtype: core.dtype | None, *args: object, **kwargs: object
) -> tuple[Any, Any]:
    """Arguments whose floating-point tensors have a dtype."""
    if dtype is None:
        return args, kwargs

    def cast(tensor: Any) -> Any:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    return _apply_to_tensors(cast, args), _apply_to_tensors(cast, kwargs)


def _recursive_to(
    inputs: object, target_device: object, use_side_stream_for_tensor_copies: bool = False
) -> list[Any]:
    """A nested value on a device, as the only entry of a list: one for each device, as `scatter` gives."""
    device = core.device(target_device)
    return [_mapped(inputs, lambda value: value.to(device))]


def _to_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_device: object,
    use_side_stream_for_tensor_copies: bool = False,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:  # fmt: skip
    """Arguments on a device: positional ones and named ones, for each device."""
    moved = _recursive_to(inputs, target_device) if inputs else []
    named = _recursive_to(kwargs, target_device) if kwargs else []
    count = max(len(moved), len(named))
    moved += [() for _ in range(count - len(moved))]
    named += [{} for _ in range(count - len(named))]
    return tuple(moved), tuple(named)


def _pack_kwargs(*args: object, **kwargs: object) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """All arguments behind each other, and the names of the last ones."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(
    flat_args: tuple[Any, ...], kwarg_keys: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments of what `_pack_kwargs` gave."""
    split = len(flat_args) - len(kwarg_keys)
    if split < 0:
        fail(AssertionError, "distributed", f"at least {len(kwarg_keys)} arguments were required for as many names "
             "(too many keys)", len(flat_args), hint="pass what _pack_kwargs gave")  # fmt: skip
    return flat_args[:split], dict(zip(kwarg_keys, flat_args[split:], strict=True))


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Rename the entries of a state that begin with a text, in place."""
    if old_prefix == new_prefix:
        fail(ValueError, "distributed", "two different prefixes were required (old_prefix and new_prefix must be "
             "distinct)", repr(old_prefix), hint="nothing would be renamed")  # fmt: skip
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix) :]] = state_dict.pop(key)


def _get_root_modules(modules: Sequence[nn.Module]) -> list[nn.Module]:
    """Those of some modules that lie in no other one of them."""
    inner = {id(m) for outer in modules for m in outer.modules() if m is not outer}
    return [module for module in modules if id(module) not in inner]


def _verify_param_shape_across_processes(
    process_group: ProcessGroup, tensors: Sequence[Any], logger: object = None
) -> None:
    """Look whether all ranks have parameters of the same shapes; an error names the first that differ."""
    group = own_group(process_group, "distributed.utils")
    mine = [tuple(t.shape) for t in tensors]
    every: list[Any] = [None] * group.size()
    all_gather_object(every, mine, group)
    for rank, shapes in enumerate(every):
        if len(shapes) != len(every[0]):
            fail(RuntimeError, "DistributedDataParallel", "as many parameters on all ranks were required (DDP "
                 f"expects same model across all ranks, but Rank 0 has {len(every[0])} params)",
                 f"rank {rank} has {len(shapes)}", hint="make the same module on all ranks")  # fmt: skip
        for number, (first, one) in enumerate(zip(every[0], shapes, strict=True)):
            if first != one:
                fail(RuntimeError, "DistributedDataParallel", f"parameter {number} of one shape on all ranks was "
                     f"required ({first} on rank 0)", f"{one} on rank {rank} (sizes do not match)",
                     hint="make the same module on all ranks")  # fmt: skip


def _sync_params_and_buffers(
    process_group: ProcessGroup, module_states: Sequence[Any], broadcast_bucket_size: int, src: int
) -> None:
    """Give all ranks the tensors of one of them.

    Args:
        broadcast_bucket_size: how many bytes are sent together.
        src: the rank, a number of the group.
    """
    for bucket in bucketed(module_states, broadcast_bucket_size):
        spread(bucket, process_group, src)


def _sync_module_states(
    module: nn.Module, process_group: ProcessGroup, broadcast_bucket_size: int, src: int,
    params_and_buffers_to_ignore: Container[str], broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Give all ranks the parameters and buffers of one of them.

    Args:
        params_and_buffers_to_ignore: names of those that stay as they are.
        broadcast_buffers: whether buffers go along.
    """
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    chosen = [value for name, value in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, chosen, broadcast_bucket_size, src)


def _alloc_storage(tensor: Any, size: core.Size) -> None:
    """Give a tensor whose memory was freed as much as a shape needs; nothing where it has it."""
    wanted = core.Size(size).numel() * tensor.element_size()
    if tensor.untyped_storage().nbytes() != wanted:
        _p_assert(tensor.untyped_storage().nbytes() == 0, "a storage without bytes was required")
        tensor.untyped_storage().resize_(wanted)


def _free_storage(tensor: Any) -> None:
    """Give the memory of a tensor back, which must be all of its storage."""
    held = tensor.untyped_storage().nbytes()
    if held:
        _p_assert(tensor.storage_offset() == 0, "a tensor at the start of its storage was required")
        tensor.untyped_storage().resize_(0)


def _data_ptr_allocated(tensor: Any) -> bool:
    """Whether a tensor has memory."""
    return tensor.untyped_storage().nbytes() > 0
