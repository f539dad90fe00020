"""Hooks that exchange the mean: plain, or in 16 bits.

Takes: a process group as state, and a bucket. Gives: a future of the bucket's new buffer.
Keeps true: ranks get the same bits; a wrapped hook gets a buffer of the shorter dtype, and its result
is put back into the bucket's own buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from facula import core
from facula.distributed.operations import all_reduce
from facula.distributed.world import own_group
from facula.namespaces.futures import Future

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip

Hook = Callable[[Any, Any], Future]


def mean_of(buffer: Any, group: ProcessGroup | None) -> Future:
    """A future of the mean of all ranks' buffers, which is written to this one."""
    found = own_group(group, "comm_hook")
    work = all_reduce(buffer.div_(found.size()), group=found, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: ProcessGroup | None, bucket: Any) -> Future:
    """The mean of the gradients, as without a hook."""
    return mean_of(bucket.buffer(), process_group)


def _compressed(process_group: ProcessGroup | None, bucket: Any, dtype: core.dtype) -> Future:
    buffer = bucket.buffer()
    found = own_group(process_group, "comm_hook")
    short = buffer.to(dtype).div_(found.size())
    work = all_reduce(short, group=found, async_op=True)

    def back(future: Future) -> Any:
        return buffer.copy_(future.value()[0])

    return work.get_future().then(back)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: Any) -> Future:
    """The mean, sent as float16; gradients beyond 65504 are no longer finite."""
    return _compressed(process_group, bucket, core.float16)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: Any) -> Future:
    """The mean, sent as bfloat16: the range of float32 with 8 bits of precision."""
    return _compressed(process_group, bucket, core.bfloat16)


def _wrapper(hook: Hook, dtype: core.dtype) -> Hook:
    def wrapped(state: object, bucket: Any) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))

        def back(future: Future) -> Any:
            value = future.value()
            result = value[0] if isinstance(value, (list, tuple)) else value
            bucket.set_buffer(buffer)
            return buffer.copy_(result)

        return hook(state, bucket).then(back)

    return wrapped


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that sees the gradients as float16."""
    return _wrapper(hook, core.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that sees the gradients as bfloat16."""
    return _wrapper(hook, core.bfloat16)
