"""ONNX: models for other runtimes.

Takes modules and exported programs. Gives `export`, `ONNXProgram`, and the registry of what programs
write themselves.
Keeps true: the package onnx is needed by `export` alone; an operator without an ONNX form is an error
that names it.
"""

from __future__ import annotations

from facula.onnx import errors
from facula.onnx.api import (
    OperatorExportTypes,
    TrainingMode,
    export,
    is_in_onnx_export,
    select_model_mode_for_export,
)
from facula.onnx.custom import register_custom_op_symbolic, unregister_custom_op_symbolic
from facula.onnx.errors import OnnxExporterError
from facula.onnx.program import ONNXProgram

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "unregister_custom_op_symbolic",
]
