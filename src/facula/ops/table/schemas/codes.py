"""The numbers by which schemas and TorchScript know dtypes, layouts and memory formats.

Takes a constant or its number. Gives the other one.
Keeps true: the numbers are those of PyTorch's files.
"""

from __future__ import annotations

from typing import Any

from facula import core

__all__ = ["code_of", "dtype_of", "layout_of", "memory_format_of"]

_DTYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 12: "qint8", 13: "quint8", 14: "qint32",
    15: "bfloat16", 16: "quint4x2", 17: "quint2x4", 23: "float8_e5m2",
    24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz", 27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
_LAYOUTS = {0: "strided", 1: "sparse_coo", 2: "sparse_csr", 4: "sparse_csc", 5: "sparse_bsr",
            6: "sparse_bsc"}  # fmt: skip
_FORMATS = {0: "contiguous_format", 1: "preserve_format", 2: "channels_last", 3: "channels_last_3d"}

_DTYPES |= {30 + n: f"uint{n + 1}" for n in range(7)} | {37 + n: f"int{n + 1}" for n in range(7)}

_DTYPE_OF = {n: getattr(core, name) for n, name in _DTYPES.items()}
_LAYOUT_OF = {n: getattr(core, name) for n, name in _LAYOUTS.items()}
_FORMAT_OF = {n: getattr(core, name) for n, name in _FORMATS.items()}
_CODES = {value: n for table in (_DTYPE_OF, _LAYOUT_OF, _FORMAT_OF) for n, value in table.items()}
#: the classes of what stands as a number in graphs
CODED = (core.dtype, core.layout, core.memory_format)


def code_of(value: object) -> int:
    """The number of a dtype, layout or memory format."""
    return _CODES[value]


def dtype_of(code: Any) -> Any:
    """The dtype of a number; a dtype as it is."""
    return _DTYPE_OF[code] if isinstance(code, int) else code


def layout_of(code: Any) -> Any:
    """The layout of a number; a layout as it is."""
    return _LAYOUT_OF[code] if isinstance(code, int) else code


def memory_format_of(code: Any) -> Any:
    """The memory format of a number; a memory format as it is."""
    return _FORMAT_OF[code] if isinstance(code, int) else code
