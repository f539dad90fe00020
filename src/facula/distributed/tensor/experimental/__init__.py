"""Context parallelism, rules for operators of programs, and plain tensors beside distributed ones.

Re-exports. Keeps true: importing this opens nothing.
"""

from __future__ import annotations

from facula.distributed.tensor.dtensor import implicit_replication
from facula.distributed.tensor.experimental._attention import context_parallel
from facula.distributed.tensor.experimental._func_map import local_map
from facula.distributed.tensor.experimental._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
