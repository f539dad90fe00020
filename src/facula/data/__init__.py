"""Datasets, samplers and loaders.

Takes data.  Gives PyTorch's `torch.utils.data` names.
Keeps true: a loader gives the same batches with any number of worker processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute
from facula.data.collate import default_collate, default_convert
from facula.data.dataloader import DataLoader, _DatasetKind, get_worker_info
from facula.data.datapipes import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
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

__all__ = """BatchSampler ChainDataset ConcatDataset DFIterDataPipe DataChunk DataLoader Dataset
DistributedSampler IterDataPipe IterableDataset MapDataPipe RandomSampler Sampler SequentialSampler
StackDataset Subset SubsetRandomSampler TensorDataset WeightedRandomSampler _DatasetKind
argument_validation default_collate default_convert functional_datapipe get_worker_info
guaranteed_datapipes_determinism non_deterministic random_split runtime_validation
runtime_validation_disabled""".split()

#: modules that are loaded when they are asked for
_MODULES = frozenset(("_utils", "distributed"))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise _no_attribute("facula.utils.data", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
