"""What an export to ONNX raises.

Takes nothing. Gives the exceptions, and `onnx_package`, which imports what is needed.
Keeps true: whatever stops an export is an `OnnxExporterError`; a package that is not there is an
ImportError that says how to get it.
"""

from __future__ import annotations

import importlib
from typing import Any

from facula.core.errors import fail

__all__ = [
    "OnnxExporterError",
    "OnnxExporterWarning",
    "SymbolicValueError",
    "UnsupportedOperatorError",
    "onnx_package",
]


class OnnxExporterError(RuntimeError):
    """A model could not be written as ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """A model uses an operator, or a form of one, that ONNX has no form for."""


def onnx_package(name: str = "onnx") -> Any:
    """A package that is an extra: `onnx` or `onnxruntime`, or a module of theirs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        # an error of the package's own, in a package that is there, is not about the package
        if error.name is None or error.name.partition(".")[0] != name.partition(".")[0]:
            raise
        package = name.partition(".")[0]
        fail(
            ImportError,
            "onnx",
            f"the package {package} was required",
            "it is not installed",
            hint=f"pip install {package}"
            + (", or facula[onnx]" if package == "onnx" else " runs ONNX models"),
        )


class OnnxExporterWarning(UserWarning):
    """Something about an export to ONNX that is worth knowing."""


class SymbolicValueError(OnnxExporterError):
    """A symbolic function got a value that it has no form for."""
