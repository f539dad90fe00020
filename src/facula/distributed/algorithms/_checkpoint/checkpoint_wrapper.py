"""`checkpoint_wrapper`: a module whose intermediate results are computed again in the backward pass.

Takes: a module, or a model and which of its modules. Gives: a module of the same forward.
Keeps true: states have the names of the bare module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from facula import nn
from facula.autograd.checkpoint import checkpoint
from facula.autograd.graph import save_on_cpu
from facula.core.errors import fail

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
    "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_PREFIX = "_checkpoint_wrapped_module."


class CheckpointImpl(Enum):
    """How results are computed again: within another backward pass, or by hooks."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(nn.Module):
    """A module within another one that keeps its intermediate results elsewhere, or not at all."""

    def __init__(self, mod: nn.Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self.register_load_state_dict_pre_hook(_with_prefix)
        self._register_state_dict_hook(_without_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result; a subclass says what is kept."""
        fail(ValueError, type(self).__name__, "a subclass with a forward of its own was required (Subclasses should "
             "implement forward().)", "none", hint="CheckpointWrapper and OffloadWrapper are such")  # fmt: skip

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Names of the bare module, and parameters."""
        for name, value in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), value


class CheckpointWrapper(ActivationWrapper):
    """A module that is computed again."""

    def __init__(self, mod: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__(mod)
        self._run = run

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return self._run(self._checkpoint_wrapped_module, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose intermediate results wait in the processor's memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def _without_prefix(module: Module, state: Any, prefix: str, metadata: Any) -> None:
    for name in list(state):
        if name.startswith(prefix + _PREFIX):
            state[prefix + name[len(prefix + _PREFIX) :]] = state.pop(name)


def _with_prefix(module: Module, state: Any, prefix: str, *rest: object) -> None:
    for name in list(state):
        if name.startswith(prefix) and not name.startswith(prefix + _PREFIX):
            state[prefix + _PREFIX + name[len(prefix) :]] = state.pop(name)


def checkpoint_wrapper(
    module: nn.Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None, **checkpoint_fn_kwargs: Any,
) -> nn.Module:  # fmt: skip
    """A module whose intermediate results are computed again.

    Args:
        checkpoint_fn: computes it; default: `utils.checkpoint`, with `checkpoint_fn_kwargs`.
    """
    again = checkpoint_impl is CheckpointImpl.REENTRANT
    run = checkpoint_fn or partial(checkpoint, use_reentrant=again)
    return CheckpointWrapper(module, partial(run, **checkpoint_fn_kwargs))


def offload_wrapper(module: nn.Module) -> nn.Module:
    """A module whose intermediate results wait in the processor's memory for the backward pass."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: nn.Module, checkpoint_wrapper_fn: Callable[[nn.Module], nn.Module] = checkpoint_wrapper,
    check_fn: Callable[[nn.Module], bool] | None = None, auto_wrap_policy: Any = None,
) -> None:  # fmt: skip
    """Wrap the submodules for which a function is true (all, without one), in place."""

    def chosen(module: nn.Module) -> bool:
        if auto_wrap_policy is not None:
            return bool(auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=0))
        return check_fn is None or check_fn(module)

    for name, child in list(model.named_children()):
        apply_activation_checkpointing(child, checkpoint_wrapper_fn, check_fn, auto_wrap_policy)
        if chosen(child):
            model._modules[name] = checkpoint_wrapper_fn(child)
