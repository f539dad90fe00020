"""Exported programs in files.

Takes: an `ExportedProgram` and a place. Gives: a zip archive of a description in JSON and of tensors,
and the program again.
Keeps true: a file is data only: loading names operators of this table, and runs nothing; a file is
replaced whole or not at all; a version that is not known is refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import fields, is_dataclass
from typing import Any

from facula import core, nn, serialization
from facula.core.errors import fail
from facula.export import description as text
from facula.export.dynamic_shapes import ValueRanges
from facula.export.exported_program import ExportedProgram
from facula.fx import _pytree as pytree
from facula.fx.shape_env import ShapeEnv, ShapeGuard

#: what this version writes, and the oldest that it reads
VERSION = 1
_PROGRAM, _TENSORS, _EXTRA = "program.json", "tensors.pt", "extra/"


def _is_data(x: Any) -> bool:
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


def _plain(x: Any) -> Any:
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
    **options: Any,
) -> None:
    """Write a program to a file.

    Args:
        f: a path, or a file opened for writing bytes.
        extra_files: further contents by name; `load` gives them back.
        opset_version, options: kept for PyTorch's API; they change nothing here.
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
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_PROGRAM, json.dumps(_description(ep)))
        archive.writestr(_TENSORS, _tensors(ep))
        for name, content in (extra_files or {}).items():
            archive.writestr(_EXTRA + name, content)
    if isinstance(f, (str, os.PathLike)):
        write_whole(os.fspath(f), buffer.getvalue())
    else:
        f.write(buffer.getvalue())


def write_whole(path: str, content: bytes) -> None:
    """Put content into a file, which then has the old or the new content, never a part."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".facula-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def load(
    f: str | os.PathLike[str] | io.IOBase,
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read a program.

    Args:
        f: a path, or a file opened for reading bytes.
        extra_files: its values are replaced by the file's contents of these names.
        expected_opset_version: kept for PyTorch's API; it changes nothing here.
    """
    try:
        source: Any = os.fspath(f) if isinstance(f, (str, os.PathLike)) else f
        with zipfile.ZipFile(source) as archive:
            described = json.loads(archive.read(_PROGRAM))
            tensors = archive.read(_TENSORS)
            for name in extra_files or {}:
                content = archive.read(_EXTRA + name)
                extra_files[name] = content.decode()  # type: ignore[index]
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        fail(
            RuntimeError,
            "export.load",
            "a file written by export.save was required",
            error,
            hint="facula.load() reads what facula.save() wrote",
        )
    if described.get("version") != VERSION:
        fail(
            RuntimeError,
            "export.load",
            f"version {VERSION} of the format was required",
            described.get("version"),
            "export the program again with this version of facula",
        )
    held = serialization.load(io.BytesIO(tensors), weights_only=True)
    return _program(described, held)


def _program(described: dict[str, Any], held: dict[str, Any]) -> ExportedProgram:
    env = ShapeEnv(duck_shape=False)
    module = text.read_graph(described["nodes"], env)
    parameters = set(described["parameters"])
    state = {name: _parameter(t) if name in parameters else t for name, t in held["state"].items()}
    in_spec = text.read_spec(described["in_spec"])
    inputs = held["inputs"]
    return ExportedProgram(
        module,
        text.read_signature(described["signature"]),
        state,
        dict(held["constants"]),
        {name: ValueRanges(*bounds) for name, bounds in described["ranges"].items()},
        in_spec,
        text.read_spec(described["out_spec"]),
        guards=[
            ShapeGuard(text.read_expr(left), relation, text.read_expr(right))
            for left, relation, right in described["guards"]
        ],
        argument_names=described["arguments"],
        example_inputs=None if inputs is None else pytree.tree_unflatten(inputs, in_spec),
        training=described["training"],
    )


def _parameter(t: Any) -> nn.Parameter:
    if isinstance(t, nn.Parameter):
        return t
    return nn.Parameter(t.detach(), requires_grad=t.requires_grad)


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Make a dataclass a container that programs take and give."""
    if not is_dataclass(cls):
        fail(AssertionError, "export.register_dataclass", "a dataclass was required (Only dataclasses "
             "can be registered with this function)", cls.__name__,
             hint="put @dataclass above the class")  # fmt: skip
    names = [field.name for field in fields(cls) if field.init]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        return [getattr(value, name) for name in names], tuple(names)

    def unflatten(values: Any, context: Any) -> Any:
        return cls(**dict(zip(context, values, strict=True)))

    def with_keys(value: Any) -> tuple[list[Any], Any]:
        return [(pytree.GetAttrKey(name), getattr(value, name)) for name in names], tuple(names)

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=with_keys)
