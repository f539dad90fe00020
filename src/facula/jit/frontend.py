"""What PyTorch's front end of scripts raises, and the definition of a function as it reads it.

Takes nothing. Gives the classes of errors under PyTorch's names.
Keeps true: the classes are those that `script` raises.
"""

from __future__ import annotations

from facula.jit.source import (
    FrontendError,
    FrontendTypeError,
    NotSupportedError,
    UnsupportedNodeError,
)

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]
