"""Collectives that gradients flow through."""

from facula.distributed.nn import functional
from facula.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all_single,
    broadcast,
    reduce_scatter,
)

__all__ = [
    "all_gather", "all_reduce", "all_to_all_single", "broadcast", "functional", "reduce_scatter",
]  # fmt: skip
