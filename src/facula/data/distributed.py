"""The name under which PyTorch has DistributedSampler; it stands in `sampler`."""

from facula.data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
