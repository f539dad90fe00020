"""Copies of a state, which are written while training goes on.

Takes: a state. Gives: `AsyncStager`, which users may implement, and two that copy.
Keeps true: what training does to its tensors afterwards does not change the copy.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from facula import core
from facula.distributed._shard.sharded_tensor.pieces import ShardedTensor
from facula.distributed.tensor.dtensor import DTensor

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions", "copied"]


def copied(value: object, kept: Any = None) -> Any:
    """A state of its own: tensors are copied, into those of an earlier copy where these fit."""
    if isinstance(value, core.Tensor):
        if isinstance(kept, core.Tensor) and not isinstance(value, DTensor) and _fits(kept, value):
            return kept.copy_(value.detach())
        found = value.detach()
        return found.clone() if isinstance(found, DTensor) else found.cpu().clone()
    if isinstance(value, ShardedTensor):
        return value.clone()
    if isinstance(value, dict):
        before = kept if isinstance(kept, dict) else {}
        return {k: copied(v, before.get(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        old = (
            kept
            if isinstance(kept, (list, tuple)) and len(kept) == len(value)
            else [None] * len(value)
        )
        made = [copied(v, k) for v, k in zip(value, old, strict=True)]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


def _fits(kept: Any, value: Any) -> bool:
    return (
        type(kept) is core.Tensor
        and kept.shape == value.shape
        and kept.dtype is value.dtype
        and kept.layout is value.layout is core.strided
    )


@runtime_checkable
class AsyncStager(Protocol):
    """Makes the copy that `async_save` writes."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` waits for the copy."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """The copy, or a future of it."""
        ...

    def synchronize_staging(self) -> None:
        """Wait for the copy."""
        ...

    def close(self) -> None:
        """Nothing more is copied."""
        ...


@dataclass
class StagingOptions:
    """How `DefaultStager` copies.

    use_async_staging: whether in a thread. The others are kept for PyTorch's API: memory of the processor is
    neither pinned nor shared.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """Copies a state; in a thread, where the options say so.

    Example:
        >>> from facula.distributed.checkpoint.staging import DefaultStager, StagingOptions
        >>> stager = DefaultStager(StagingOptions(use_async_staging=False))
        >>> stager.stage({"x": facula.ones(2)})
        {'x': tensor([1., 1.])}
        >>> stager.close()
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self._config = config or StagingOptions()
        self._threads: ThreadPoolExecutor | None = None
        self._last: Future[Any] | None = None
        if self._config.use_async_staging:
            self._threads = ThreadPoolExecutor(1, "facula-staging")

    def stage(self, state_dict: dict[str, Any], **kwargs: object) -> Any:
        """The copy, or a future of it."""
        if self._threads is None:
            return copied(state_dict)
        self._last = self._threads.submit(copied, state_dict)
        return self._last

    def synchronize_staging(self) -> None:
        """Wait for the copy."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """The thread ends."""
        if self._threads is not None:
            self._threads.shutdown()


class BlockingAsyncStager(AsyncStager):
    """Copies a state at once.

    Args:
        cache_staged_state_dict: whether the next copy goes into the same memory.
    """

    def __init__(self, cache_staged_state_dict: bool = False, type_check: bool = False) -> None:
        self.cache_staged_state_dict, self.type_check = cache_staged_state_dict, type_check
        self.state_dict_cache: Any = None

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """The copy."""
        made = copied(state_dict, self.state_dict_cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = made
        return made

    def synchronize_staging(self) -> None:
        """The copy was made at once."""

    def close(self) -> None:
        """Forget the copy."""
        self.state_dict_cache = None
