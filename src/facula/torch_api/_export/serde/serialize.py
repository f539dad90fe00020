"""Exported programs as bytes and back, under PyTorch's names.

Takes: an exported program, or the bytes of one. Gives: `serialize`, `deserialize`, and what they are made of, which
stands in `export.pt2`.
Keeps true: what is read runs no code.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from facula.core.errors import fail
from facula.export.exported_program import ExportedProgram
from facula.export.pt2 import records
from facula.export.pt2.canonical import canonicalize
from facula.export.pt2.codes import ExtensionHandler, register_extension
from facula.export.pt2.plain import SerializeError, from_plain, json_bytes, read_json, to_plain
from facula.export.pt2.reading import (
    ExportedProgramDeserializer,
    GraphModuleDeserializer,
    deserialize_torch_artifact,
)
from facula.export.pt2.writing import (
    ExportedProgramSerializer,
    GraphModuleSerializer,
    serialize_sym_int,
    serialize_tensor_meta,
    serialize_torch_artifact,
)

__all__ = [
    "ExportedProgramDeserializer", "ExportedProgramSerializer", "ExtensionHandler", "GraphModuleDeserializer",
    "GraphModuleSerializer", "SerializeError", "SerializedArtifact", "canonicalize", "deserialize",
    "deserialize_torch_artifact", "register_extension", "serialize", "serialize_sym_int", "serialize_tensor_meta",
    "serialize_torch_artifact",
]  # fmt: skip

_dict_to_dataclass = from_plain
_dataclass_to_dict = to_plain
_to_json_bytes = json_bytes


def _bytes_to_dataclass(cls: Any, artifact_bytes: bytes) -> Any:
    """The record of a kind from JSON."""
    return read_json(cls, artifact_bytes)


@dataclasses.dataclass
class SerializedArtifact:
    """A program as bytes: its records as JSON, and its tensors as checkpoints."""

    exported_program: bytes
    state_dict: bytes
    constants: bytes
    example_inputs: bytes


def serialize(
    exported_program: ExportedProgram,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
    **parts: bool,
) -> SerializedArtifact:
    """A program as bytes.

    Args:
        exported_program: the program
        opset_version: namespace of operators -> version, which is noted
        pickle_protocol: of the checkpoints
        parts: `serialize_state_dict`, `serialize_constants`, `serialize_example_inputs`: False leaves them out
    """
    made = ExportedProgramSerializer(opset_version, pickle_protocol).serialize(
        exported_program, **parts
    )
    return SerializedArtifact(
        json_bytes(made.exported_program), made.state_dict, made.constants, made.example_inputs
    )


def deserialize(
    artifact: SerializedArtifact,
    expected_opset_version: dict[str, int] | None = None,
    *,
    _unsafe_skip_version_check: bool = False,
) -> ExportedProgram:
    """The program of bytes; nothing in them is run.

    Args:
        artifact: what `serialize` gave
        expected_opset_version: kept for PyTorch's API

    Raises:
        SerializeError: it is no program, or one of another version.
    """
    if not isinstance(artifact.exported_program, bytes):
        fail(AssertionError, "deserialize", "bytes were required", type(artifact.exported_program).__name__,
             hint="serialize(program) gives them")  # fmt: skip
    record = read_json(records.ExportedProgram, artifact.exported_program)
    return ExportedProgramDeserializer(expected_opset_version).deserialize(
        record, artifact.state_dict, artifact.constants, artifact.example_inputs,
        _unsafe_skip_version_check=_unsafe_skip_version_check,
    )  # fmt: skip
