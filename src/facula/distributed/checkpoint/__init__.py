"""Checkpoints that all ranks write together, and that any number of ranks reads.

Re-exports. Keeps true: importing this opens nothing.
"""

from __future__ import annotations

from facula.distributed.checkpoint import state_dict
from facula.distributed.checkpoint.api import CheckpointException
from facula.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from facula.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from facula.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from facula.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from facula.distributed.checkpoint.state_dict_loader import load, load_state_dict
from facula.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.checkpoint.storage import StorageReader, StorageWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter", "LoadPlan", "LoadPlanner", "Metadata",
    "ReadItem", "SavePlan", "SavePlanner", "Stateful", "StorageReader", "StorageWriter",
    "TensorStorageMetadata", "WriteItem", "async_save", "load", "load_state_dict", "save", "save_state_dict",
    "state_dict",
]  # fmt: skip
