"""Datasets, samplers and loaders.

Takes data.  Gives PyTorch's `torch.utils.data` names.
Keeps true: a loader gives the same batches with any number of worker processes.
"""

from __future__ import annotations

from facula.data.collate import default_collate, default_convert
from facula.data.dataloader import DataLoader, _DatasetKind, get_worker_info
from facula.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from facula.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = """BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler
IterableDataset RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler
TensorDataset WeightedRandomSampler _DatasetKind default_collate default_convert get_worker_info
random_split""".split()
