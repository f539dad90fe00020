"""Folders that hold checkpoints.

Takes: a path. Gives: `FileSystemWriter` and `FileSystemReader`.
Keeps true: a checkpoint is there as a whole, or the one before it is: files have names that no checkpoint had
before, and the table of contents, which names them, is exchanged at last and at once. Files are PyTorch's.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO

from facula import core
from facula.core.errors import fail
from facula.distributed.buffers import host
from facula.distributed.checkpoint.default_planner import narrowed
from facula.distributed.checkpoint.metadata import Metadata, StorageMeta
from facula.distributed.checkpoint.metadata_file import StorageInfo, packed, unpacked
from facula.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from facula.distributed.checkpoint.staging import BlockingAsyncStager
from facula.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from facula.namespaces.futures import Future
from facula.serialization import load as load_file
from facula.serialization import save as save_file

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_CONTENTS = ".metadata"
_SUFFIX = ".distcp"
_VERSION = "1.0.0"
_FILE = re.compile(r"__(\d+)_\w+\.distcp")
_STALE = re.compile(r"(__\d+)?\.metadata\.(\w+|tmp)")


class SerializationFormat(Enum):
    """How tensors lie in files."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass
class _StoragePrefix:
    """How the names of a rank's files begin."""

    prefix: str


def done(value: object) -> Future:
    """A future that has its value."""
    future: Future = Future()
    future.set_result(value)
    return future


def _synced_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _can_hold(checkpoint_id: str | os.PathLike[str]) -> bool:
    """Whether a folder of this name is there, or could be made."""
    if "://" in str(checkpoint_id):
        return False
    above = Path(checkpoint_id).absolute()
    while not above.exists():
        above = above.parent
    return os.access(above, os.W_OK)


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint to a folder; the one that is in it stays until the new one is whole.

    Args:
        path: the folder, which is made
        single_file_per_rank: whether a rank's pieces lie in one file (for each thread)
        sync_files: whether to wait until the disk has the bytes
        thread_count: in how many threads, and files, each rank writes
        per_thread_copy_ahead: kept for PyTorch's API
        cache_staged_state_dict: whether `async_save` copies into the same memory each time
        overwrite: whether a checkpoint that is there may be replaced
        serialization_format: how tensors lie in files

    Example:
        >>> checkpoint = facula.distributed.checkpoint
        >>> writer = checkpoint.FileSystemWriter("in_two_threads", thread_count=2)
        >>> found = checkpoint.save({"x": facula.ones(2), "n": 3}, storage_writer=writer)
        >>> sorted(found.state_dict_metadata)
        ['n', 'x']
    """

    def __init__(
        self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True,
        thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False, overwrite: bool = True,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:  # fmt: skip
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        self.path = Path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.per_thread_copy_ahead = thread_count, per_thread_copy_ahead
        self.overwrite, self.serialization_format = overwrite, serialization_format
        self.save_id = secrets.token_hex(8)
        self.rank: int | None = None
        self.use_collectives = True
        self._written: list[Path] = []

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a folder that is there, or can be made."""
        return _can_hold(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new checkpoint begins."""
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.save_id = secrets.token_hex(8)

    def set_up_storage_writer(self, is_coordinator: bool, *args: object, **kwargs: Any) -> None:
        """Hear which rank this is."""
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)
        self._written = []

    def storage_meta(self) -> StorageMeta | None:
        """The folder, and this checkpoint's number."""
        return StorageMeta(os.fspath(self.checkpoint_id), self.save_id)

    def _contents(self) -> Path:
        alone = not self.use_collectives and self.rank is not None
        return self.path / (f"__{self.rank}{_CONTENTS}" if alone else _CONTENTS)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and self._contents().exists():
            fail(RuntimeError, "checkpoint.save", "a folder without a checkpoint was required, where "
                 "overwrite=False", self.path, "choose another checkpoint_id")  # fmt: skip
        if self.rank is not None and not self.use_collectives:
            return replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_{self.save_id}_"))
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Choose names of files that no checkpoint had."""
        return [
            replace(plan, storage_data=_StoragePrefix(f"__{rank}_{self.save_id}_"))
            if plan.storage_data is None
            else plan
            for rank, plan in enumerate(plans)
        ]

    # ---------------------------------------------------------------- writing

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write this rank's items."""
        parts = [[item] for item in plan.items]
        if self.single_file_per_rank:
            parts = _shared_out(plan.items, self.thread_count)
        prefix = plan.storage_data.prefix
        names = [f"{prefix}{number}{_SUFFIX}" for number in range(len(parts))]
        return self.write_files(list(zip(names, parts, strict=True)), planner)

    def write_files(self, files: list[tuple[str, list[WriteItem]]], planner: SavePlanner) -> Future:
        """Write files, each with its items, in the threads that were asked for."""

        def write(job: tuple[str, list[WriteItem]]) -> list[WriteResult]:
            recording = core.set_grad_enabled(False)
            try:
                return self._write_file(*job, planner)
            finally:
                core.set_grad_enabled(recording)

        if self.thread_count <= 1 or len(files) <= 1:
            found = [write(job) for job in files]
        else:
            with ThreadPoolExecutor(self.thread_count, "facula-checkpoint") as threads:
                found = list(threads.map(write, files))
        if self.sync_files and files:
            _synced_folder(self.path)
        return done([result for results in found for result in results])

    def _write_file(
        self, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        path = self.path / name
        with open(path, "xb") as stream:
            self._written.append(path)
            found = self.fill(stream, name, items, planner)
            stream.flush()
            if self.sync_files:
                os.fsync(stream.fileno())
        return found

    def fill(
        self, stream: BinaryIO, name: str, items: list[WriteItem], planner: SavePlanner
    ) -> list[WriteResult]:
        """Write items behind each other."""
        if self.serialization_format is not SerializationFormat.TORCH_SAVE:
            fail(NotImplementedError, "checkpoint.save", "SerializationFormat.TORCH_SAVE was required",
                 self.serialization_format, "HuggingFaceStorageWriter writes safetensors")  # fmt: skip
        found = []
        for item in items:
            data = packed_item(item, planner.resolve_data(item))
            start = stream.tell()
            stream.write(data)
            found.append(
                WriteResult(item.index, len(data), StorageInfo(name, start, len(data)))
            )  # fmt: skip
        return found

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make it the folder's checkpoint, and forget the one before."""
        metadata.version, metadata.storage_meta = _VERSION, self.storage_meta()
        metadata.storage_data = {r.index: r.storage_data for found in results for r in found}
        path = self._contents()
        beside = path.with_name(f"{path.name}.{self.save_id}")
        with open(beside, "wb") as file:
            file.write(packed(metadata))
            file.flush()
            os.fsync(file.fileno())
        _synced_folder(self.path)
        os.replace(beside, path)
        named = {info.relative_path for info in metadata.storage_data.values()}
        with contextlib.suppress(OSError):  # it stands: what can not be removed is no failure
            _synced_folder(self.path)
            for other in self.path.iterdir():
                if other.name not in named and self._is_stale(other.name):
                    other.unlink()

    def _is_stale(self, name: str) -> bool:
        """Whether a file belongs to a checkpoint that this one replaces."""
        if self.use_collectives or self.rank is None:
            return bool(_FILE.fullmatch(name) or _STALE.fullmatch(name))
        mine = _FILE.fullmatch(name)
        return mine is not None and int(mine[1]) == self.rank

    def give_up(self) -> None:
        """Take back what this rank wrote."""
        for path in self._written:
            path.unlink(missing_ok=True)
        self._written = []


def _shared_out(items: list[WriteItem], count: int) -> list[list[WriteItem]]:
    """Items for each thread, of about as many bytes."""
    if count <= 1:
        return [items] if items else []
    parts: list[list[WriteItem]] = [[] for _ in range(count)]
    load = [0] * count
    for item in sorted(items, key=lambda i: -(i.tensor_storage_size() or 0)):
        least = load.index(min(load))
        parts[least].append(item)
        load[least] += item.tensor_storage_size() or 1
    return [part for part in parts if part]


def packed_item(item: WriteItem, value: object) -> memoryview:
    """What is written for an item."""
    if isinstance(value, io.BytesIO):
        return value.getbuffer()
    if item.type is WriteItemType.BYTE_IO or not isinstance(value, core.Tensor):
        fail(TypeError, "checkpoint.save", f"an io.BytesIO was required of resolve_data for {item.index.fqn}"
             if item.type is WriteItemType.BYTE_IO else f"a tensor was required for {item.index.fqn}",
             type(value).__name__, "facula.save(value, stream) fills one")  # fmt: skip
    dense = host(value)
    if dense.untyped_storage().nbytes() != dense.numel() * dense.element_size():
        dense = dense.clone()  # otherwise the whole storage would be written
    stream = io.BytesIO()
    save_file(dense, stream)
    return stream.getbuffer()


# ------------------------------------------------------------------ reading


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder.

    Args:
        path: the folder

    Example:
        >>> checkpoint = facula.distributed.checkpoint
        >>> _ = checkpoint.save({"x": facula.ones(2, 3)}, checkpoint_id="to_read")
        >>> checkpoint.FileSystemReader("to_read").read_metadata().state_dict_metadata["x"].size
        facula.Size([2, 3])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.storage_data: Any = {}
        self.load_id = secrets.token_hex(8)
        self.rank: int | None = None
        self.use_collectives = True

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a folder that is there, or can be made."""
        return _can_hold(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Another checkpoint is about to be read."""
        self.storage_data = {}
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.load_id = secrets.token_hex(8)

    def read_metadata(self, *args: object, **kwargs: object) -> Metadata:
        """What the checkpoint holds, entry by entry: dtypes, shapes, pieces.

        Args:
            kwargs: `rank`, for what a rank wrote alone.
        """
        rank = kwargs.get("rank")
        path = self.path / (_CONTENTS if rank is None else f"__{rank}{_CONTENTS}")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            fail(RuntimeError, "checkpoint.load", "a folder with a whole checkpoint was required",
                 self.path, "distributed.checkpoint.save() writes one")  # fmt: skip
        found = unpacked(data, str(path))
        if not isinstance(found.storage_meta, StorageMeta):
            found.storage_meta = StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: object, **kwargs: Any
    ) -> None:
        """Take the table of contents."""
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)
        self.storage_data = metadata.storage_data
        if not isinstance(self.storage_data, dict):
            fail(RuntimeError, "checkpoint.load", "places of pieces were required", type(self.storage_data).__name__,
                 "the table of contents was changed: load another checkpoint")  # fmt: skip

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def place_of(self, item: ReadItem) -> Any:
        """Where the piece of an item lies."""
        found = self.storage_data.get(item.storage_index)
        if found is None:
            fail(RuntimeError, "checkpoint.load", f"the place of {item.storage_index.fqn} was required", "none",
                 "the table of contents was changed: load another checkpoint")  # fmt: skip
        return found

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read this rank's items, file by file; a piece is read once for all items that need it."""
        by_place: dict[tuple[str, int, int], list[ReadItem]] = {}
        for item in plan.items:
            info = _checked(self.place_of(item))
            by_place.setdefault((info.relative_path, info.offset, info.length), []).append(item)
        for place in sorted(by_place):
            data = _slice(self.path, *place)
            held: Any = None
            for item in by_place[place]:
                if item.type is LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(data))
                    continue
                held = load_file(io.BytesIO(data), map_location="cpu") if held is None else held
                give(item, held, planner)
        return done(None)


def give(item: ReadItem, piece: Any, planner: LoadPlanner) -> None:
    """Write the part of a piece that an item is to where the planner wants it."""
    name = item.storage_index.fqn
    ends = [a + n for a, n in zip(item.storage_offsets, item.lengths, strict=True)]
    if not isinstance(piece, core.Tensor) or piece.dim() != len(ends) or any(
        end > size for end, size in zip(ends, piece.shape, strict=True)
    ):  # fmt: skip
        got = tuple(piece.shape) if isinstance(piece, core.Tensor) else type(piece).__name__
        fail(RuntimeError, "checkpoint.load", f"a piece of {name} with elements up to {ends} was required", got,
             "the checkpoint was changed: load another one")  # fmt: skip
    source = narrowed(piece, item.storage_offsets, item.lengths)
    target = planner.resolve_tensor(item).detach()
    if target.shape != source.shape:
        fail(RuntimeError, "checkpoint.load", f"a tensor of shape {tuple(source.shape)} was required of "
             f"resolve_tensor for {name}", tuple(target.shape), "item.lengths is the shape")  # fmt: skip
    target.copy_(source)
    planner.commit_tensor(item, target)


def _checked(place: Any) -> StorageInfo:
    good = isinstance(place, StorageInfo) and isinstance(place.relative_path, str)
    good = good and os.path.basename(place.relative_path) == place.relative_path
    if (
        not good
        or not (type(place.offset) is type(place.length) is int)
        or min(place.offset, place.length) < 0
    ):
        fail(RuntimeError, "checkpoint.load", "files in the checkpoint's folder, and places in them, were "
             "required", place, "the table of contents was changed")  # fmt: skip
    if place.transform_descriptors:
        fail(NotImplementedError, "checkpoint.load", "pieces that were not transformed were required",
             place.transform_descriptors, "save without extensions of the stream")  # fmt: skip
    return place


def _slice(folder: Path, name: str, start: int, size: int) -> bytes:
    """Some bytes of a file of a folder."""
    # without O_NONBLOCK, a pipe in place of the file would be waited for
    descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            fail(RuntimeError, "checkpoint.load", "a regular file was required", name,
                 "the folder was changed")  # fmt: skip
        file.seek(min(start, found.st_size))
        data = file.read(min(size, found.st_size))
    if len(data) != size:
        fail(RuntimeError, "checkpoint.load", f"{size} bytes of {name} were required", len(data),
             "the file was cut off: load another checkpoint")  # fmt: skip
    return data
