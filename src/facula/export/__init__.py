"""Programs to keep: a module's forward as a graph of operators, with everything that it reads.

Takes: a module and example arguments. Gives: `export` and `ExportedProgram`, `save` and `load`, `Dim` for
sizes that may change.
Keeps true: an exported program holds no Python of the user's; loading one runs no code of the file.
"""

from __future__ import annotations

from facula.export import _trace as _trace
from facula.export import graph_signature as graph_signature
from facula.export.additional_inputs import AdditionalInputs
from facula.export.api import export
from facula.export.archive import load, register_dataclass, save
from facula.export.constraints import (
    Constraint,
    constrain_as_size,
    constrain_as_value,
    dynamic_dim,
)
from facula.export.dynamic_shapes import Dim, ShapesCollection, dims
from facula.export.exported_program import (
    CustomDecompTable,
    ExportedProgram,
    default_decompositions,
)
from facula.export.module_calls import ModuleCallEntry, ModuleCallSignature
from facula.export.signature import ExportBackwardSignature, ExportGraphSignature
from facula.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "CustomDecompTable",
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "constrain_as_size",
    "constrain_as_value",
    "default_decompositions",
    "dims",
    "dynamic_dim",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
