"""Collectives that gradients flow through, and modules on other workers."""

from facula.distributed.nn import functional
from facula.distributed.nn.api.remote_module import RemoteModule
from facula.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)
from facula.distributed.types import ReduceOp

__all__ = [
    "ReduceOp", "RemoteModule", "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast",
    "functional", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip
