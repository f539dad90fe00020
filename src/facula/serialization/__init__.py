"""Files of tensors: PyTorch's checkpoints and safetensors.

Takes nestings of tensors and plain values, and paths or streams.  Keeps true: loading makes data
and runs no code, and saving to a path leaves the old file or the whole new one.
"""

from facula.serialization.checkpoint import load, save
from facula.serialization.rebuild import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]
