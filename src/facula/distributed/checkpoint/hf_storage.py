"""Checkpoints as Hugging Face's libraries keep them: safetensors files, and an index of them.

Takes: a folder. Gives: `HuggingFaceStorageWriter` and `HuggingFaceStorageReader`.
Keeps true: files get their names when all of them are written; a file with pieces says in its header where each begins.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    SerializationFormat,
    done,
    give,
)
from facula.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from facula.distributed.checkpoint.metadata_file import StorageInfo
from facula.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from facula.distributed.checkpoint.storage import WriteResult
from facula.namespaces.futures import Future
from facula.serialization.files import written_atomically
from facula.serialization.safetensors import load_file, load_metadata, save_file

__all__ = [
    "HuggingFaceStorageReader", "HuggingFaceStorageWriter", "bytes_of", "write_index", "write_whole",
]  # fmt: skip

_INDEX = "model.safetensors.index.json"
_SUFFIX = ".safetensors"
_OFFSETS, _VERSION = "DCP_SHARDING_INFO", "DCP_VERSION"


def _name(number: int, count: int, shard: int | None = None) -> str:
    """The name of a file: which of how many it is, and of which rank."""
    start = "" if shard is None else f"shard-{shard:05}-"
    return f"{start}model-{number:05}-of-{count:05}{_SUFFIX}"


@dataclass
class _Place:
    """Which file a tensor lies in."""

    relative_path: str
    shape: Any
    dtype: Any


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors to safetensors files.

    Args:
        path: the folder, which is made
        fqn_to_index_mapping: the number of the file of each entry, from 1 on; default: one file
        thread_count: in how many threads each rank writes
        save_distributed: whether each rank writes its pieces; otherwise one rank has and writes all
        enable_consolidation: whether whole tensors are put together from the pieces, which lie in the
            folder `sharded` then
        thread_count_consolidation: in how many threads

    Example:
        >>> from facula.distributed.checkpoint import load, save
        >>> from facula.distributed.checkpoint.hf_storage import (
        ...     HuggingFaceStorageReader, HuggingFaceStorageWriter
        ... )
        >>> _ = save({"w": facula.ones(2)}, storage_writer=HuggingFaceStorageWriter("hugging"))
        >>> state = {"w": facula.zeros(2)}
        >>> load(state, storage_reader=HuggingFaceStorageReader("hugging"))
        >>> state["w"]
        tensor([1., 1.])
    """

    def __init__(
        self, path: str | os.PathLike[str], fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1, save_distributed: bool = False, enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(
            path, thread_count=thread_count, serialization_format=SerializationFormat.SAFETENSORS
        )
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation = enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path: Path | None = None
        if enable_consolidation:
            self.consolidated_output_path, self.path = self.path, self.path / "sharded"

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Number the ranks' files."""
        writing = [rank for rank, plan in enumerate(plans) if plan.items]
        if len(writing) > 1 and not self.save_distributed:
            fail(ValueError, "checkpoint.save", "one rank that has all tensors was required", f"ranks {writing}",
                 "save_distributed=True has each rank write its pieces")  # fmt: skip
        made = []
        for rank, plan in enumerate(plans, start=1):
            data: dict[str, Any] = {"save_id": self.save_id}
            if self.fqn_to_index_mapping is not None:
                data["fqn_to_index_mapping"] = self.fqn_to_index_mapping
            if self.save_distributed:
                data["shard_index"] = rank
            made.append(replace(plan, storage_data=data))
        return made

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write this rank's tensors."""
        data: dict[str, Any] = plan.storage_data
        self.save_id = data["save_id"]
        numbers = data.get("fqn_to_index_mapping")
        parts: dict[int, list[WriteItem]] = {}
        for item in plan.items:
            number = 1 if numbers is None else numbers.get(item.index.fqn)
            if number is None:
                fail(ValueError, "checkpoint.save", f"the number of a file was required for {item.index.fqn}",
                     "none", "fqn_to_index_mapping names all entries")  # fmt: skip
            parts.setdefault(number, []).append(item)
        count = 1 if numbers is None else max(numbers.values())
        shard = data.get("shard_index")
        files = [(_name(number, count, shard), items) for number, items in sorted(parts.items())]
        return self.write_files(files, planner)

    def _write_file(
        self, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        beside = self.path / f"{name}.{self.save_id}"
        self._written.append(beside)
        tensors: dict[str, Any] = {}
        offsets: dict[str, Any] = {}
        for item in items:
            value = planner.resolve_data(item)
            if not isinstance(value, core.Tensor) or item.tensor_data is None:
                fail(ValueError, "checkpoint.save", f"a tensor was required for {item.index.fqn}",
                     type(value).__name__, "safetensors files hold nothing else: use FileSystemWriter")  # fmt: skip
            # what shares its memory with another entry is written twice
            tensors[item.index.fqn] = value.detach().cpu().contiguous().clone()
            offsets[item.index.fqn] = {"saved_offsets": list(item.tensor_data.chunk.offsets)}
        text = {"format": "pt", _OFFSETS: json.dumps(offsets), _VERSION: "1.0"}
        save_file(tensors, beside, text)
        found = []
        for item in items:
            size = tensors[item.index.fqn].numel() * tensors[item.index.fqn].element_size()
            found.append(WriteResult(item.index, size, StorageInfo(name, 0, size)))
        return found

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Give the files their names, and write the index, or whole tensors."""
        written = [result for found in results for result in found]
        for name in sorted({result.storage_data.relative_path for result in written}):
            os.replace(self.path / f"{name}.{self.save_id}", self.path / name)
        if not self.save_distributed:
            names = {r.index.fqn: r.storage_data.relative_path for r in written}
            write_index(self.path, names, sum(r.size_in_bytes for r in written))
        elif self.consolidated_output_path is not None:
            files = {result.storage_data.relative_path for result in written}
            self._consolidate(metadata, sorted(files), self.consolidated_output_path)

    def _consolidate(self, metadata: Metadata, files: list[str], target: Path) -> None:
        """Put whole tensors together, file by file."""
        numbers = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
        wanted = sorted(set(numbers.values()))
        paths = [self.path / name for name in files]
        names = write_whole(
            metadata, paths, target, numbers, wanted, self.thread_count_consolidation
        )
        sizes = metadata.state_dict_metadata
        write_index(target, names, sum(bytes_of(sizes[name]) for name in names))


def bytes_of(md: Any) -> int:
    """How many bytes a tensor has."""
    return math.prod(md.size) * md.properties.dtype.itemsize


def write_whole(
    metadata: Metadata, files: list[Path], target: Path, numbers: dict[str, int], wanted: Sequence[int],
    threads: int,
) -> dict[str, str]:  # fmt: skip
    """Put whole tensors together from files of pieces, and write some of the files that these make.

    Gives the name of the file of each entry."""
    held = {path: (load_file(path), _offsets(path)) for path in files}
    count = max(numbers.values())

    def write(number: int) -> list[str]:
        recording = core.set_grad_enabled(False)
        try:
            whole = {
                name: _joined(name, md, held.values())
                for name, md in metadata.state_dict_metadata.items()
                if numbers.get(name) == number
            }
            save_file(whole, target / _name(number, count), {"format": "pt"})
            return list(whole)
        finally:
            core.set_grad_enabled(recording)

    with ThreadPoolExecutor(threads, "facula-checkpoint") as pool:
        found = list(pool.map(write, wanted))
    return {name: _name(numbers[name], count) for names in found for name in names}


def _joined(name: str, md: Any, files: Any) -> Any:
    """A whole tensor from the pieces in files."""
    made = core.empty(tuple(md.size), dtype=md.properties.dtype)
    for tensors, offsets in files:
        piece = tensors.get(name)
        if piece is None:
            continue
        target = made
        start = offsets.get(name, {}).get("saved_offsets", [0] * piece.dim())
        for dim, (begin, size) in enumerate(zip(start, piece.shape, strict=True)):
            target = target.narrow(dim, begin, size)
        target.copy_(piece)
    return made


def write_index(folder: Path, names: dict[str, str], total: int) -> None:
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(names.items()))}
    with written_atomically(folder / _INDEX) as stream:
        stream.write(json.dumps(index, indent=2).encode())


def _offsets(path: Path) -> dict[str, Any]:
    """Where the pieces in a file begin."""
    text = load_metadata(path).get(_OFFSETS)
    try:
        found = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, dict) for v in found.values()):
        fail(RuntimeError, "checkpoint.load", f"the beginnings of pieces were required in {path}", str(text)[:80],
             "the file was changed: load another checkpoint")  # fmt: skip
    return found


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors from the safetensors files of a folder, whole ones or pieces.

    Args:
        path: the folder
        thread_count: in how many threads files are read
    """

    def __init__(self, path: str | os.PathLike[str], thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """What the files hold."""
        found: dict[str, Any] = {}
        places: dict[MetadataIndex, Any] = {}
        files = sorted(p for p in self.path.iterdir() if p.name.endswith(_SUFFIX))
        if not files:
            fail(RuntimeError, "checkpoint.load", f"a folder with {_SUFFIX} files was required", self.path,
                 "HuggingFaceStorageWriter writes them")  # fmt: skip
        for path in files:
            offsets = _offsets(path)
            for name, tensor in load_file(path).items():
                start = offsets.get(name, {}).get("saved_offsets", [0] * tensor.dim())
                if len(start) != tensor.dim() or not all(type(n) is int and n >= 0 for n in start):
                    fail(RuntimeError, "checkpoint.load", f"the beginning of {name} was required in {path}", start,
                         "the file was changed: load another checkpoint")  # fmt: skip
                ends = [a + n for a, n in zip(start, tensor.shape, strict=True)]
                chunk = ChunkStorageMetadata(core.Size(start), core.Size(tensor.shape))
                md = found.setdefault(
                    name, TensorStorageMetadata(TensorProperties(tensor.dtype), core.Size(ends), [])
                )
                md.size = core.Size([max(a, b) for a, b in zip(md.size, ends, strict=True)])
                md.chunks.append(chunk)
                places[MetadataIndex(name, start)] = _Place(path.name, tensor.shape, tensor.dtype)
        return Metadata(found, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read this rank's items."""
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            by_file.setdefault(self.place_of(item).relative_path, []).append(item)

        def read(name: str) -> None:
            recording = core.set_grad_enabled(False)
            try:
                tensors = load_file(self.path / name)
                for item in by_file[name]:
                    give(item, tensors.get(item.storage_index.fqn), planner)
            finally:
                core.set_grad_enabled(recording)

        with ThreadPoolExecutor(max(self.thread_count, 1), "facula-checkpoint") as threads:
            list(threads.map(read, by_file))
        return done(None)
