"""What is written and read, in PyTorch's words: default planners, and the description of a checkpoint.

Takes: a table of contents. Gives: `DefaultSavePlanner`, `DefaultLoadPlanner`, `Metadata` and what it consists of.
Keeps true: a planner that would do something else than these two is refused, not passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from facula import core
from facula.core.errors import fail

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "DefaultLoadPlanner", "DefaultSavePlanner", "Metadata",
    "TensorProperties", "TensorStorageMetadata", "checked_planner", "dtype_named", "metadata_of",
]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A piece of a tensor: where it begins, and its shape."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass
class TensorProperties:
    """What a saved tensor is besides its shape."""

    dtype: Any = None
    layout: Any = core.strided
    requires_grad: bool = False
    pin_memory: bool = False


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint: its dtype, its whole shape, and its pieces."""

    properties: TensorProperties
    size: tuple[int, ...]
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value of a checkpoint that is no tensor."""


@dataclass
class Metadata:
    """What a checkpoint holds: each entry by its name."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = field(default=None, repr=False)


class _Planner:
    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True
    ) -> None:
        if not (flatten_state_dict and flatten_sharded_tensors):
            fail(NotImplementedError, type(self).__name__, "states as they are (flatten_state_dict=True, "
                 "flatten_sharded_tensors=True) were required", (flatten_state_dict, flatten_sharded_tensors),
                 "entries are named by the path of their keys, whatever they are nested in")  # fmt: skip


class DefaultSavePlanner(_Planner):
    """Writes every entry, each piece from one of the ranks that have it: what `save` does.

    Args:
        flatten_state_dict, flatten_sharded_tensors: only True, which is what happens.
        dedup_replicated_tensors, dedup_save_to_lowest_rank, enable_plan_caching: kept for PyTorch's API: pieces
            that many ranks have are written once, by the rank that has least to write.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None, dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(flatten_state_dict, flatten_sharded_tensors)


class DefaultLoadPlanner(_Planner):
    """Reads every entry of the state that is to be filled: what `load` does.

    Args:
        flatten_state_dict, flatten_sharded_tensors: only True, which is what happens.
        allow_partial_load: entries that the checkpoint does not have keep their values, instead of an error.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(flatten_state_dict, flatten_sharded_tensors)
        self.allow_partial_load = allow_partial_load


def checked_planner(planner: Any, kind: type[_Planner], op: str) -> Any:
    """The planner, or a default one; planners of other classes are refused."""
    if planner is None:
        return kind()
    if type(planner) is not kind:
        fail(NotImplementedError, f"checkpoint.{op}", f"a {kind.__name__} was required", type(planner).__name__,
             "choose what is in the state instead: another planner's methods would not be called")  # fmt: skip
    return planner


def dtype_named(name: Any) -> Any:
    """The dtype that a table of contents names."""
    found = getattr(core, name, None) if isinstance(name, str) else None
    if not isinstance(found, core.dtype):
        fail(RuntimeError, "checkpoint.load", "the name of a dtype was required", repr(name),
             "the table of contents was changed")  # fmt: skip
    return found


def metadata_of(contents: dict[str, Any]) -> Metadata:
    """The description of a checkpoint, from its table of contents."""
    found: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for name, entry in contents["entries"].items():
        if "shape" not in entry:
            found[name] = BytesStorageMetadata()
            continue
        pieces = [
            ChunkStorageMetadata(tuple(start), tuple(size)) for start, size, _ in entry["pieces"]
        ]
        found[name] = TensorStorageMetadata(
            TensorProperties(dtype_named(entry["dtype"])), tuple(entry["shape"]), pieces
        )
    return Metadata(found)
