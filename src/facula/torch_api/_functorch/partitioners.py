"""Partitioners under PyTorch's name: see `facula.lower.aot.partition` and `min_cut`."""

from facula.lower.aot.min_cut import min_cut_rematerialization_partition
from facula.lower.aot.partition import default_partition

__all__ = ["default_partition", "min_cut_rematerialization_partition"]
