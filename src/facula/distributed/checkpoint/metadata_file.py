"""The table of contents of a checkpoint as a file, in PyTorch's form.

Takes: `Metadata`. Gives: its bytes, and the other way round.
Keeps true: the file is a pickle that PyTorch reads; reading makes the classes of `metadata` and plain values, and
runs nothing; what it says of places is checked before it is used.
"""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.checkpoint import metadata as words
from facula.serialization.names import dtype_word
from facula.serialization.pickle_writer import CheckpointPickler
from facula.serialization.rebuild import find as find_known
from facula.serialization.unpickle import DataUnpickler, Maker, UnpicklingError

__all__ = ["StorageInfo", "packed", "unpacked"]


@dataclass
class StorageInfo:
    """Where a piece lies: the name of a file, the first byte, and how many."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: list[str] | None = None


_METADATA = "torch.distributed.checkpoint.metadata"
_FILES = "torch.distributed.checkpoint.filesystem"
_CLASSES: dict[type, tuple[str, str]] = {
    kind: (_METADATA, kind.__name__)
    for kind in (
        words.ChunkStorageMetadata, words.TensorProperties, words.TensorStorageMetadata,
        words.BytesStorageMetadata, words.StorageMeta, words.Metadata, words.MetadataIndex,
    )
}  # fmt: skip
_CLASSES[StorageInfo] = (_FILES, "_StorageInfo")
_FORMATS = {0: core.contiguous_format, 1: core.channels_last, 2: core.preserve_format}


class _Pickler(CheckpointPickler):
    """Writes the classes of a table of contents under PyTorch's names."""

    def reducer_override(self, obj: Any) -> Any:
        name = _CLASSES.get(type(obj))
        if name is not None:
            return self.named(*name), tuple(getattr(obj, f.name) for f in fields(obj))
        return super().reducer_override(obj)


def packed(metadata: words.Metadata) -> bytes:
    """The bytes of the file."""
    stream = io.BytesIO()
    _Pickler(stream).dump(metadata)
    return stream.getvalue()


def _maker(kind: type) -> Maker:
    names = [f.name for f in fields(kind)]

    def make(*given: Any) -> Any:
        return kind(*given) if given else object.__new__(kind)

    def restore(value: object, state: Any) -> Any:
        if kind is words.TensorProperties and isinstance(state, tuple):
            state = dict(zip(names, state, strict=True))
        if not isinstance(state, dict) or not set(state) <= set(names):
            _changed(f"the fields of a {kind.__name__}", type(state).__name__)
        return kind(**state)

    return Maker(kind.__name__, make, restore, kind)


_MAKERS: dict[tuple[str, str], Any] = {name: _maker(kind) for kind, name in _CLASSES.items()}
_MAKERS[_METADATA, "_MEM_FORMAT_ENCODING"] = Maker("_MEM_FORMAT_ENCODING", _FORMATS.__getitem__)
for _path in ("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"):
    # also `pathlib._local`, where newer versions of Python have them
    for _module in ("pathlib", "pathlib._local"):
        _MAKERS[_module, _path] = Maker(_path, lambda *parts: str(pathlib.PurePosixPath(*parts)))


def _find(module: str, name: str) -> Any:
    found = _MAKERS.get((module, name))
    return find_known(module, name) if found is None else found


def _no_storage(identity: object) -> Any:
    return _changed("a table of contents without tensors", identity)


def _changed(required: str, got: object) -> Any:
    fail(RuntimeError, "checkpoint.load", f"{required} was required", got,
         "the table of contents was changed: load another checkpoint")  # fmt: skip


def unpacked(data: bytes, path: str) -> words.Metadata:
    """The table of contents in a file's bytes."""
    try:
        found = DataUnpickler(data, _find, _no_storage).load()
    except (UnpicklingError, TypeError) as error:
        _changed(f"a table of contents in {path}", str(error).partition("\n")[0])
    if not isinstance(found, words.Metadata):
        _changed(f"a table of contents in {path}", type(found).__name__)
    _checked(found)
    return found


def _numbers(value: Any, what: str) -> core.Size:
    # a dimension or an offset that no tensor can have would overflow later on
    if not isinstance(value, (tuple, list)) or not all(
        type(n) is int and 0 <= n < 1 << 62 for n in value
    ):
        _changed(f"numbers that are not negative as {what}", value)
    return core.Size(value)


def _each(value: Any, kind: type, what: str, check: Callable[[Any, Any], None]) -> None:
    if not isinstance(value, kind):
        _changed(f"a {kind.__name__} as {what}", type(value).__name__)
    for key in value:
        check(key, value[key] if isinstance(value, dict) else None)


def _checked(found: words.Metadata) -> None:
    """Raise unless what a file says has the right types; sizes become such."""

    def entry(name: Any, md: Any) -> None:
        if type(name) is not str:
            _changed("text as the name of an entry", name)
        if isinstance(md, words.BytesStorageMetadata):
            return
        if not isinstance(md, words.TensorStorageMetadata):
            _changed(f"a description of {name}", type(md).__name__)
        properties = md.properties
        if not isinstance(properties, words.TensorProperties) or not isinstance(
            properties.dtype, core.dtype
        ):
            _changed(f"the dtype of {name}", properties)
        dtype_word(properties.dtype)
        md.size = _numbers(md.size, f"the shape of {name}")
        _each(md.chunks, list, f"the pieces of {name}", lambda chunk, _: piece(name, md, chunk))

    def piece(name: str, md: Any, chunk: Any) -> None:
        if not isinstance(chunk, words.ChunkStorageMetadata):
            _changed(f"a piece of {name}", type(chunk).__name__)
        chunk.offsets = _numbers(chunk.offsets, f"the beginning of a piece of {name}")
        chunk.sizes = _numbers(chunk.sizes, f"the shape of a piece of {name}")
        ends = [a + n for a, n in zip(chunk.offsets, chunk.sizes, strict=False)]
        within = all(end <= total for end, total in zip(ends, md.size, strict=False))
        if not (len(chunk.offsets) == len(chunk.sizes) == len(md.size)) or not within:
            _changed(f"a piece of {name} that lies in it", f"{chunk} of {tuple(md.size)}")

    _each(found.state_dict_metadata, dict, "entries", entry)
