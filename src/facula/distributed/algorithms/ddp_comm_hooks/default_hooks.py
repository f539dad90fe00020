"""Communication hooks that send gradients whole, or in 16 bits.

Takes: a process group (None: the default one) and a bucket. Gives: a future of the averaged buffer.
Keeps true: all ranks get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.distributed.buckets import GradBucket
from facula.distributed.operations import all_reduce
from facula.distributed.world import default_group
from facula.namespaces.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip


def _averaged(group: Any, tensor: core.Tensor) -> Future:
    found = group if group is not None else default_group()
    tensor.div_(found.size())
    return all_reduce(tensor, group=found, async_op=True).get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, in the gradients' dtype."""
    return _averaged(process_group, bucket.buffer()).then(lambda done: done.value()[0])


def _compressed(process_group: Any, bucket: GradBucket, dtype: Any) -> Future:
    buffer = bucket.buffer()
    small = _averaged(process_group, buffer.to(dtype))

    def widen(done: Future) -> Any:
        recording = core.set_grad_enabled(False)
        try:
            return buffer.copy_(done.value()[0])
        finally:
            core.set_grad_enabled(recording)

    return small.then(widen)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as float16."""
    return _compressed(process_group, bucket, core.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, sent as bfloat16."""
    return _compressed(process_group, bucket, core.bfloat16)


def _wrapper(hook: Callable[[Any, GradBucket], Future], dtype: Any) -> Callable[..., Future]:
    """Another hook, given the gradients in a smaller dtype."""

    def wrapped(state: Any, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def widen(done: Future) -> Any:
            value = done.value()
            recording = core.set_grad_enabled(False)
            try:
                bucket.set_buffer(buffer)
                return buffer.copy_(value[0] if isinstance(value, (list, tuple)) else value)
            finally:
                core.set_grad_enabled(recording)

        return hook(state, bucket).then(widen)

    return wrapped


def fp16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[..., Future]:
    """A hook that gets, and gives, the gradients as float16."""
    return _wrapper(hook, core.float16)


def bf16_compress_wrapper(hook: Callable[[Any, GradBucket], Future]) -> Callable[..., Future]:
    """A hook that gets, and gives, the gradients as bfloat16."""
    return _wrapper(hook, core.bfloat16)
