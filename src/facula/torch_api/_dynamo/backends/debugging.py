"""Backends that show what the compiler does, as functions."""

from facula.compiler.backends import lookup_backend
from facula.compiler.explanation import ExplainOutput, ExplainWithBackend

eager = lookup_backend("eager")
aot_eager = lookup_backend("aot_eager")
aot_eager_default_partitioner = lookup_backend("aot_eager_default_partitioner")
aot_eager_decomp_partition = lookup_backend("aot_eager_decomp_partition")

__all__ = [
    "ExplainOutput", "ExplainWithBackend",
    "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "eager",
]  # fmt: skip
