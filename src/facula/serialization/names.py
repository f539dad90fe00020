"""The names that stand in checkpoint files for facula's own constants.

Takes dtypes, layouts, memory formats and the names under which files know them; gives each from the
other.  Keeps true: files speak of `torch.float32` and `FloatStorage` whatever facula's own modules
are called, so that PyTorch reads what facula writes and the other way round.
"""

from typing import Any

from facula import core

__all__ = [
    "CONSTANTS",
    "STORAGE_DTYPES",
    "dtype_word",
    "layout_named",
    "storage_name",
]

_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_MEMORY_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")

# dtypes that came after typed storages are saved with an untyped storage and their own name
_TYPED = (
    ("float32", "Float"),
    ("float64", "Double"),
    ("float16", "Half"),
    ("bfloat16", "BFloat16"),
    ("int64", "Long"),
    ("int32", "Int"),
    ("int16", "Short"),
    ("int8", "Char"),
    ("uint8", "Byte"),
    ("bool", "Bool"),
    ("complex64", "ComplexFloat"),
    ("complex128", "ComplexDouble"),
)
#: the dtypes of quantized tensors
_QUANTIZED = tuple((name, kind.type_word) for name, kind in core.QUANTIZED.items())
_UNTYPED = (
    "complex32",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    *core.NARROW,
)
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
}


def _constant(name: str) -> Any:
    return getattr(core, "bool_" if name == "bool" and hasattr(core, "bool_") else name)


#: `torch.<name>` in a file: the constant
CONSTANTS: dict[str, Any] = {
    name: _constant(name)
    for name in (*(name for name, _ in _TYPED + _QUANTIZED), *_UNTYPED, *_LAYOUTS, *_MEMORY_FORMATS)
}
CONSTANTS.update({alias: CONSTANTS[name] for alias, name in _ALIASES.items()})

#: `torch.<word>Storage` in a file: the dtype of its elements
STORAGE_DTYPES: dict[str, Any] = {
    f"{word}Storage": CONSTANTS[name] for name, word in _TYPED + _QUANTIZED
}

_STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}
_WORDS = {CONSTANTS[name]: name for name in (*(name for name, _ in _TYPED + _QUANTIZED), *_UNTYPED)}


def storage_name(dtype: core.dtype) -> str | None:
    """The typed storage's name for a dtype; None where there is none."""
    return _STORAGE_NAMES.get(dtype)


def dtype_word(dtype: core.dtype) -> str:
    """A dtype's name without its module: `float32`."""
    return _WORDS[dtype]


def layout_named(text: str) -> Any:
    """The layout for `torch.sparse_coo`; KeyError where there is none."""
    name = text.rpartition(".")[2]
    if name not in _LAYOUTS:
        raise KeyError(text)
    return CONSTANTS[name]
