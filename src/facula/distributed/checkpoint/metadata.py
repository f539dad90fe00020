"""What a checkpoint holds, in PyTorch's words.

Takes and gives plain values. Keeps true: these are data alone, so that they are sent between ranks and read from
files without running code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.distributed._shard import descriptions

__all__ = [
    "STATE_DICT_TYPE", "STORAGE_TYPES", "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata",
    "MetadataIndex", "StorageMeta", "TensorProperties", "TensorStorageMetadata",
]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: where it begins, and its shape."""

    offsets: Any
    sizes: Any


class TensorProperties(descriptions.TensorProperties):
    """What a saved tensor is besides its shape."""


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint: its dtype, its whole shape, and its pieces."""

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value of a checkpoint that is no tensor."""


STORAGE_TYPES = TensorStorageMetadata | BytesStorageMetadata
STATE_DICT_TYPE = dict[str, Any]


@dataclass
class StorageMeta:
    """Which checkpoint this is."""

    checkpoint_id: str | os.PathLike[str] | None = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """What a checkpoint holds: each entry by its name.

    planner_data: what the planner keeps there; the default one: the path of each entry.
    storage_data: what the storage keeps there: where each piece lies.
    """

    state_dict_metadata: dict[str, STORAGE_TYPES]
    planner_data: Any = None
    storage_data: Any = field(default=None, repr=False)
    storage_meta: StorageMeta | None = None
    version: str | None = None


@dataclass(frozen=True)
class MetadataIndex:
    """An entry of a state, or a piece of one.

    fqn: the entry's name. offset: where the piece begins. index: which piece it is, as a hint, which is not compared.
    """

    fqn: str
    offset: Any = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "offset", None if offset is None else core.Size(offset))
        object.__setattr__(self, "index", index)
