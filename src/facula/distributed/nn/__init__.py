"""Collectives that gradients flow through, and modules on other workers."""

from facula.distributed.nn import functional
from facula.distributed.nn.api.remote_module import RemoteModule
from facula.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all_single,
    broadcast,
    reduce_scatter,
)

__all__ = [
    "RemoteModule", "all_gather", "all_reduce", "all_to_all_single", "broadcast", "functional", "reduce_scatter",
]  # fmt: skip
