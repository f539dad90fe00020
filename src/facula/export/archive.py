"""Exported programs in files.

Takes: an `ExportedProgram` and a place. Gives: PyTorch's archive (`pt2`), or, for a program that this has no words for,
a zip archive of a description in JSON and of tensors; and the program again.
Keeps true: a file is data only: loading names operators of this table, writes no code and runs none,
and whatever is wrong with a file is a RuntimeError or an UnpicklingError; a file is
replaced whole or not at all; a version that is not known is refused.
"""

from __future__ import annotations

import io
import json
import os
import struct
import warnings
import zipfile
import zlib
from typing import Any, NoReturn

from facula import core, nn, serialization
from facula.core.errors import fail
from facula.export import description as text
from facula.export import description_reader as reader
from facula.export.exported_program import ExportedProgram
from facula.export.pt2 import package
from facula.export.pt2.plain import SerializeError
from facula.fx import _pytree as pytree
from facula.fx import names as code_names
from facula.fx.shape_env import ShapeEnv
from facula.serialization.archive import length_of, read_entry
from facula.serialization.files import written_atomically

#: what this version writes, and the oldest that it reads
VERSION = 1
_PROGRAM, _TENSORS, _EXTRA = "program.json", "tensors.pt", "extra/"


def _is_data(x: object) -> bool:
    return isinstance(x, (core.Tensor, int, float, bool, str)) or x is None


def _tensors(program: ExportedProgram) -> bytes:
    """Everything with elements, as one checkpoint."""
    leaves = pytree.tree_leaves(program.example_inputs)
    held = {
        "state": dict(program.state_dict),
        "constants": dict(program.constants),
        "inputs": [_plain(x) for x in leaves] if all(map(_is_data, leaves)) else None,
    }
    buffer = io.BytesIO()
    serialization.save(held, buffer)
    return buffer.getvalue()


def _plain(x: object) -> Any:
    return x.detach() if isinstance(x, core.Tensor) else x


def _description(program: ExportedProgram) -> dict[str, Any]:
    """Everything else."""
    return {
        "format": "facula exported program",
        "version": VERSION,
        "nodes": text.write_graph(program.graph),
        "signature": text.write_signature(program.graph_signature),
        "in_spec": text.write_spec(program.in_spec),
        "out_spec": text.write_spec(program.out_spec),
        "ranges": {name: [r.lower, r.upper] for name, r in program.ranges.items()},
        "guards": [
            [text.write_expr(g.left), g.relation, text.write_expr(g.right)] for g in program.guards
        ],
        "arguments": program.argument_names,
        "parameters": [k for k, v in program.state_dict.items() if isinstance(v, nn.Parameter)],
        "training": program.training,
    }


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | io.IOBase,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    **options: object,
) -> None:
    """Writes a program to a file: PyTorch's archive of graph and tensors, which PyTorch loads.

    A program with what this format has no words for is kept in an archive of facula's own, with a warning.

    Args:
        ep: the program
        f: a path, or a file opened for writing bytes
        extra_files: further contents by name; `load` gives them back
        opset_version: namespace of operators -> version, which is noted in the file
        options: kept for PyTorch's API

    Example:
        >>> import io
        >>> program, file = facula.export.export(facula.nn.ReLU(), (facula.ones(2),)), io.BytesIO()
        >>> facula.export.save(program, file)
        >>> _ = file.seek(0)
        >>> facula.export.load(file).module()(facula.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    if not isinstance(ep, ExportedProgram):
        fail(
            TypeError,
            "export.save",
            "an ExportedProgram was required (The 'ep' parameter must be an instance of "
            "'ExportedProgram')",
            type(ep).__name__,
            hint="facula.export.export(module, args) makes one",
        )
    content = _content(ep, extra_files, opset_version)
    if isinstance(f, (str, os.PathLike)):
        write_whole(os.fspath(f), content)
    else:
        f.write(content)


def _content(
    program: ExportedProgram, extra_files: dict[str, Any] | None, opset_version: Any
) -> bytes:
    """The bytes of a file."""
    try:
        return package.archive_bytes({"model": program}, extra_files, opset_version)
    except (SerializeError, NotImplementedError) as error:
        made = own_bytes(program, extra_files)
        text = str(error).partition("\n")[0]
        warnings.warn(
            f"[export.save] the program is kept in facula's own format, which PyTorch does not load: {text}",
            UserWarning, stacklevel=3,
        )  # fmt: skip
        return made


def own_bytes(ep: ExportedProgram, extra_files: dict[str, Any] | None = None) -> bytes:
    """A program in facula's own format, which has words for all that programs are made of.

    Args:
        ep: the program
        extra_files: further contents by name
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_PROGRAM, json.dumps(_description(ep)))
        archive.writestr(_TENSORS, _tensors(ep))
        for name, content in (extra_files or {}).items():
            archive.writestr(_EXTRA + name, content)
    return buffer.getvalue()


def write_whole(path: str, content: bytes) -> None:
    """Put content into a file, which then has the old or the new content, never a part."""
    with written_atomically(path) as file:
        file.write(content)


def load(
    f: str | os.PathLike[str] | io.IOBase,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Reads a program; nothing in the file is run.

    Args:
        f: a path, or a file opened for reading bytes
        extra_files: a dictionary whose values are replaced by the file's contents of these names
        expected_opset_version: kept for PyTorch's API

    Example:
        >>> import io
        >>> program, file = facula.export.export(facula.nn.ReLU(), (facula.ones(2),)), io.BytesIO()
        >>> facula.export.save(program, file)
        >>> _ = file.seek(0)
        >>> type(facula.export.load(file)).__name__
        'ExportedProgram'
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as stream:
            return _load(stream, extra_files)
    return _load(f, extra_files)


def _load(stream: Any, extra_files: dict[str, Any] | None) -> ExportedProgram:
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            length = length_of(stream)
    except _DAMAGE as error:
        _not_ours(error)
    if package.is_pt2(names):
        return _load_pt2(stream, extra_files)
    try:
        with zipfile.ZipFile(stream) as archive:
            described = json.loads(read_entry(archive, _PROGRAM, length).decode())
            tensors = read_entry(archive, _TENSORS, length)
            found = {
                name: read_entry(archive, _EXTRA + name, length).decode()
                for name in extra_files or {}
            }
    except _DAMAGE as error:
        _not_ours(error)
    if not isinstance(described, dict) or described.get("version") != VERSION:
        fail(
            RuntimeError,
            "export.load",
            f"version {VERSION} of the format was required",
            described.get("version") if isinstance(described, dict) else type(described).__name__,
            "export the program again with this version of facula",
        )
    try:
        held = serialization.load(io.BytesIO(tensors), weights_only=True)
        made = _program(described, held)
    except _DAMAGE as error:
        _not_ours(error)
    if extra_files is not None:
        extra_files.update(found)
    return made


def _load_pt2(stream: Any, extra_files: dict[str, Any] | None) -> ExportedProgram:
    """The program of PyTorch's archive."""
    try:
        found = package.contents(stream, extra_files or {})
    except package.OtherVersion:
        raise
    except _DAMAGE as error:
        _not_ours(error)
    if len(found.exported_programs) != 1:
        fail(RuntimeError, "export.load", "an archive of one program was required",
             len(found.exported_programs), hint="save one program in a file")  # fmt: skip
    if extra_files is not None:
        extra_files.update(found.extra_files)
    return next(iter(found.exported_programs.values()))


#: what Python, zip archives and graphs raise for a file that is damaged or was made to mislead
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, LookupError, ValueError, TypeError,
    AttributeError, ArithmeticError, AssertionError, NotImplementedError, RecursionError,
)  # fmt: skip


def _not_ours(error: Exception) -> NoReturn:
    fail(
        RuntimeError,
        "export.load",
        "a file written by export.save was required",
        f"{type(error).__name__}: {error}",
        hint="facula.load() reads what facula.save() wrote",
    )


def _tensors_of(found: object) -> dict[str, Any]:
    """Tensors by their path; a path leads to no attribute that every object has."""
    if not isinstance(found, dict):
        raise TypeError(f"{type(found).__name__} instead of tensors by name")
    for path, value in found.items():
        parts = path.split(".")
        if not all(parts) or any(part.startswith("__") for part in parts):
            raise ValueError(f"{path!r} as the path of a tensor")
        if not isinstance(value, core.Tensor):
            raise TypeError(f"{type(value).__name__} instead of a tensor at {path!r}")
    return dict(found)


def _program(described: dict[str, Any], held: dict[str, Any]) -> ExportedProgram:
    module = reader.read_graph(described["nodes"], ShapeEnv(duck_shape=False))
    parameters = set(described["parameters"])
    constants = _tensors_of(held["constants"])
    state = {
        name: _parameter(t) if name in parameters else t
        for name, t in _tensors_of(held["state"]).items()
    }
    in_spec = reader.read_spec(described["in_spec"])
    inputs = held["inputs"]
    signature = reader.read_signature(described["signature"])
    reader.check_signature(signature, module.graph, {**state, **constants})
    arguments = [
        code_names.checked_name(name, "export.load", "an argument", code_names.is_parameter)
        for name in described["arguments"]
    ]
    return ExportedProgram(
        module,
        signature,
        state,
        constants,
        reader.read_ranges(described["ranges"]),
        in_spec,
        reader.read_spec(described["out_spec"]),
        guards=reader.read_guards(described["guards"]),
        argument_names=arguments,
        example_inputs=None if inputs is None else pytree.tree_unflatten(inputs, in_spec),
        training=bool(described["training"]),
    )


def _parameter(t: core.Tensor) -> nn.Parameter:
    if isinstance(t, nn.Parameter):
        return t
    return nn.Parameter(t.detach(), requires_grad=t.requires_grad)


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Makes a dataclass a container that programs take and give.

    Args:
        cls: the class
        serialized_type_name: its name in files; None for its own

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     left: facula.Tensor
        ...     right: facula.Tensor
        >>> facula.export.register_dataclass(Pair)
    """
    pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
