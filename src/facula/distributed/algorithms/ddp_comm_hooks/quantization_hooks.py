"""Hooks that send gradients in 8 bits.

Takes: a process group as state, and a bucket. Gives: a future of the mean of what ranks sent.
Keeps true: each rank's numbers have a scale of its own (one, or one for each piece of the buffer), so that a
large gradient of one rank costs the others no precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula import core
from facula.distributed.operations import all_gather
from facula.distributed.world import own_group
from facula.namespaces.futures import Future
from facula.ops.table.registry import F

if TYPE_CHECKING:
    from facula.distributed.world import ProcessGroup


__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

_LEVELS = 255.0


def _exchanged(group: ProcessGroup | None, bucket: Any, size: int) -> Future:
    """The mean of all ranks' buffers, each sent as 8-bit numbers with a scale for each `size` of them."""
    found = own_group(group, "quantization_hook")
    buffer = bucket.buffer()
    count = -(-buffer.numel() // size)
    rows = F.zeros((count * size,), dtype=core.float32)
    rows[: buffer.numel()].copy_(buffer)
    rows = rows.view(count, size)
    low = rows.amin(1)
    scale = ((rows.amax(1) - low) / _LEVELS).clamp_(min=1e-30)
    sent = ((rows - low[:, None]) / scale[:, None]).round_().to(core.uint8)
    ranges = F.stack([low, scale])
    all_ranges = [core.empty(tuple(ranges.shape), dtype=core.float32) for _ in range(found.size())]
    all_sent = [core.empty(tuple(sent.shape), dtype=core.uint8) for _ in range(found.size())]
    all_gather(all_ranges, ranges, found, async_op=True)
    work = all_gather(all_sent, sent, found, async_op=True)

    def mean(future: Future) -> Any:
        future.value()
        total = F.zeros((count, size), dtype=core.float32)
        for numbers, (start, step) in zip(all_sent, all_ranges, strict=True):
            total += numbers.float() * step[:, None] + start[:, None]
        return buffer.copy_(total.view(-1)[: buffer.numel()] / found.size())

    return work.get_future().then(mean)


def quantization_pertensor_hook(process_group: ProcessGroup | None, bucket: Any) -> Future:
    """8 bits, with one scale for the whole bucket."""
    return _exchanged(process_group, bucket, max(bucket.buffer().numel(), 1))


def quantization_perchannel_hook(
    process_group: ProcessGroup | None, bucket: Any, bucket_size: int = 512
) -> Future:
    """8 bits, with a scale for each `bucket_size` gradients."""
    return _exchanged(process_group, bucket, bucket_size)
