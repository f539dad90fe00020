"""Checkpoints that all ranks write together, and that any number of ranks reads.

Re-exports. Keeps true: importing this opens nothing.
"""

from __future__ import annotations

from facula.distributed.checkpoint import state_dict
from facula.distributed.checkpoint.api import async_save, load, save
from facula.distributed.checkpoint.errors import CheckpointException
from facula.distributed.checkpoint.planner import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    DefaultLoadPlanner,
    DefaultSavePlanner,
    Metadata,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.checkpoint.storage import FileSystemReader, FileSystemWriter

__all__ = [
    "BytesStorageMetadata", "CheckpointException", "ChunkStorageMetadata", "DefaultLoadPlanner",
    "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter", "Metadata", "Stateful",
    "TensorStorageMetadata", "async_save", "load", "save", "state_dict",
]  # fmt: skip
