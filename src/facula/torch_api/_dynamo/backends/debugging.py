"""Backends that show what the compiler does, as functions."""

from facula.compiler.backends import lookup_backend

eager = lookup_backend("eager")
aot_eager = lookup_backend("aot_eager")
aot_eager_default_partitioner = lookup_backend("aot_eager_default_partitioner")
aot_eager_decomp_partition = lookup_backend("aot_eager_decomp_partition")

__all__ = [
    "aot_eager", "aot_eager_decomp_partition", "aot_eager_default_partitioner", "eager",
]  # fmt: skip
