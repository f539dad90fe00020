"""PyTorch's archive of exported programs: `.pt2`.

Takes: programs and a place. Gives: `package_pt2`, which writes the archive, and `load_pt2`, which reads it.
Keeps true: tensors that share memory share it again; a file is data only: nothing in it is run, and no pickle is opened
but for checkpoints of data; whatever is wrong with a file is a RuntimeError.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from facula import core, nn
from facula.core.errors import fail
from facula.export.exported_program import ExportedProgram
from facula.export.pt2 import codes
from facula.export.pt2 import records as R
from facula.export.pt2.plain import SerializeError, json_bytes, read_json, refuse
from facula.export.pt2.reading import ExportedProgramDeserializer, deserialize_torch_artifact
from facula.export.pt2.writing import ExportedProgramSerializer, serialize_tensor_meta
from facula.serialization.archive import ArchiveWriter, length_of, read_entry

__all__ = ["PT2ArchiveContents", "archive_bytes", "contents", "is_pt2"]

Tensor = core.Tensor
ROOT = "archive"
FORMAT, VERSION = "archive_format", "archive_version"
FORMAT_VALUE, VERSION_VALUE = b"pt2", b"0"
MODELS, WEIGHTS, CONSTANTS = "models/", "data/weights/", "data/constants/"
SAMPLES, EXTRA = "data/sample_inputs/", "extra/"
#: at most this many bytes in a tensor of a file
_LARGEST = 1 << 62


class OtherVersion(SerializeError, ValueError):
    """An archive of a version that is not known; PyTorch says so by a ValueError."""


@dataclass
class PT2ArchiveContents:
    """What an archive holds."""

    exported_programs: dict[str, ExportedProgram] = field(default_factory=dict)
    aoti_runners: dict[str, Any] = field(default_factory=dict)
    extra_files: dict[str, Any] = field(default_factory=dict)


# ------------------------------------------------------------------ writing


def archive_bytes(
    programs: Mapping[str, ExportedProgram],
    extra_files: Mapping[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
    root: str = ROOT,
) -> bytes:
    """The bytes of an archive.

    Args:
        programs: by their names
        extra_files: further contents by their names
        opset_version, pickle_protocol: as of `export.save`
        root: the folder within the archive
    """
    buffer = io.BytesIO()
    archive = ArchiveWriter(buffer, root)
    archive.add(FORMAT, FORMAT_VALUE)
    archive.add(VERSION, VERSION_VALUE)
    archive.add("byteorder", b"little")
    counts = {WEIGHTS: 0, CONSTANTS: 0}
    for name, program in programs.items():
        made = ExportedProgramSerializer(opset_version, pickle_protocol).serialize(
            program, serialize_state_dict=False, serialize_constants=False
        )
        for folder, stem, config, held in (
            (WEIGHTS, "weight_", "weights", program.state_dict),
            (CONSTANTS, "tensor_", "constants", program.constants),
        ):
            records, counts[folder] = _write_tensors(archive, held, folder, stem, counts[folder])
            archive.add(f"{folder}{name}_{config}_config.json", json_bytes(records))
        archive.add(f"{MODELS}{name}.json", json_bytes(made.exported_program))
        archive.add(f"{SAMPLES}{name}.pt", made.example_inputs)
    for name, content in (extra_files or {}).items():
        archive.add(EXTRA + name, content.encode() if isinstance(content, str) else content)
    archive.add(".data/version", b"6\n")
    archive.add("version", b"6\n")
    archive.close()
    return buffer.getvalue()


def _write_tensors(
    archive: ArchiveWriter, held: Mapping[str, Any], folder: str, stem: str, count: int
) -> tuple[R.PayloadConfig, int]:
    """Write the memory of tensors, each once."""
    written: dict[Any, str] = {}
    config: dict[str, R.PayloadMeta] = {}
    for name, tensor in held.items():
        if not isinstance(tensor, Tensor):
            refuse("tensors as what a program holds (Unsupported constant type)", type(tensor))
        plain = tensor.detach().cpu()
        meta = serialize_tensor_meta(plain)
        meta.requires_grad, meta.device = bool(tensor.requires_grad), codes.device_of(tensor.device)
        storage = plain.untyped_storage()
        content = _memory_of(plain)
        key = storage.data_ptr() if content else ("empty", plain.dtype, tuple(plain.shape))
        if key not in written:
            written[key] = f"{stem}{count}"
            archive.add(folder + written[key], content)
            count += 1
        config[name] = R.PayloadMeta(written[key], isinstance(tensor, nn.Parameter), False, meta)
    return R.PayloadConfig(config), count


def _memory_of(tensor: Any) -> bytes:
    """All bytes of the memory that a tensor lies in."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return b""
    everything = core.empty((0,), dtype=core.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
    return bytes(everything.numpy().tobytes())


# ------------------------------------------------------------------ reading


def is_pt2(names: list[str]) -> bool:
    """Whether the names of an archive's files are those of PyTorch's format."""
    return any(name.partition("/")[2] == FORMAT for name in names)


def contents(
    stream: Any, extra: Mapping[str, Any] | None = None, expected_opset_version: Any = None
) -> PT2ArchiveContents:
    """What an archive holds.

    Args:
        stream: a file opened for reading bytes
        extra: the names of further contents that are wanted; None for all
        expected_opset_version: kept for PyTorch's API

    Raises:
        SerializeError: what it holds is no program.
        OtherVersion: it has another version.
    """
    made = PT2ArchiveContents()
    with zipfile.ZipFile(stream) as archive:
        reader = _Reader(archive, length_of(stream))
        version = reader.read(VERSION)
        if version.strip() != VERSION_VALUE:
            shown = ascii(version[:20].decode(errors="replace"))[1:-1]
            required = f"archive version 0 was required (Saved archive version {shown} does not match our current"
            fail(OtherVersion, "export.load", f"{required} archive version)", version[:20],
                 hint="load it with the version that wrote it")  # fmt: skip
        for name in reader.names:
            if name.startswith(EXTRA) and (extra is None or name.removeprefix(EXTRA) in extra):
                made.extra_files[name.removeprefix(EXTRA)] = reader.read(name).decode()
            if name.startswith(MODELS) and name.endswith(".json"):
                model = name.removeprefix(MODELS).removesuffix(".json")
                made.exported_programs[model] = _program(reader, model, expected_opset_version)
    return made


class _Reader:
    """The records of an archive by their names below its folder."""

    def __init__(self, archive: zipfile.ZipFile, length: int) -> None:
        self.archive, self.length = archive, length
        found = archive.namelist()
        self.root = found[0].partition("/")[0] if found else ""
        self.names = [
            n.removeprefix(self.root + "/") for n in found if n.startswith(self.root + "/")
        ]

    def read(self, name: str) -> bytes:
        """The bytes of a record."""
        return read_entry(self.archive, f"{self.root}/{name}", self.length)


def _program(reader: _Reader, model: str, expected: Any) -> ExportedProgram:
    record = read_json(R.ExportedProgram, reader.read(f"{MODELS}{model}.json"))
    state = _read_tensors(reader, WEIGHTS, f"{model}_weights_config.json", f"{model}.pt")
    constants = _read_tensors(reader, CONSTANTS, f"{model}_constants_config.json", f"{model}.pt")
    samples = f"{SAMPLES}{model}.pt"
    inputs = reader.read(samples) if samples in reader.names else b""
    return ExportedProgramDeserializer(expected).deserialize(record, state, constants, inputs)


def _read_tensors(reader: _Reader, folder: str, config: str, older: str) -> dict[str, Any]:
    if folder + older in reader.names:  # one checkpoint of all, as older versions wrote it
        return checked_names(deserialize_torch_artifact(reader.read(folder + older)))
    found = read_json(R.PayloadConfig, reader.read(folder + config)).config
    memory: dict[str, Any] = {}
    made: dict[str, Any] = {}
    for name, meta in found.items():
        if meta.use_pickle or meta.tensor_meta is None:
            refuse("tensors of plain bytes", f"{name} as a pickle")
        if meta.path_name not in memory:
            data = bytearray(reader.read(folder + meta.path_name))
            memory[meta.path_name] = core.UntypedStorage(len(data)) if not data else _storage(data)
        made[name] = _tensor(memory[meta.path_name], meta, name)
    return checked_names(made)


def _storage(data: bytearray) -> Any:
    return core.frombuffer(data, dtype=core.uint8).clone().untyped_storage()


def _tensor(storage: Any, meta: R.PayloadMeta, name: str) -> Any:
    """A tensor of this memory."""
    known: Any = meta.tensor_meta
    dtype = codes.value_of(codes.DTYPES, known.dtype)
    sizes = [_whole(s) for s in known.sizes]
    strides = [_whole(s) for s in known.strides]
    offset = _whole(known.storage_offset)
    count = (
        1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=False)) if 0 not in sizes else 0
    )
    if len(sizes) != len(strides) or (offset + count) * dtype.itemsize > storage.nbytes() and count:
        refuse(
            f"a tensor inside of its {storage.nbytes()} bytes",
            f"{name}: {sizes}, strides {strides}",
        )
    tensor = core.empty((0,), dtype=dtype).set_(storage, offset if count else 0, sizes, strides)
    if meta.is_param:
        return nn.Parameter(tensor, requires_grad=known.requires_grad)
    return tensor.requires_grad_(known.requires_grad)


def _whole(x: R.SymInt) -> int:
    return (
        int(x.as_int)
        if x.type == "as_int" and 0 <= x.as_int <= _LARGEST
        else refuse("a whole number", x)
    )


def checked_names(found: Any) -> dict[str, Any]:
    """Tensors by their path; a path leads to no attribute that every object has."""
    if not isinstance(found, dict):
        refuse("tensors by name", type(found))
    for path, value in found.items():
        parts = path.split(".") if isinstance(path, str) else [""]
        if not all(parts) or any(part.startswith("__") for part in parts):
            refuse("the path of a tensor", repr(path))
        if not isinstance(value, Tensor):
            refuse(f"a tensor at {path!r}", type(value))
    return dict(found)
