"""Files of tensors: PyTorch's checkpoints and safetensors.

Takes nestings of tensors and plain values, and paths or streams.  Keeps true: loading makes data
and runs no code, and saving to a path leaves the old file or the whole new one.
"""

from facula.serialization.checkpoint import load, save
from facula.serialization.legacy import MAGIC as MAGIC_NUMBER
from facula.serialization.legacy import PROTOCOL as PROTOCOL_VERSION
from facula.serialization.locations import (
    DEFAULT_PROTOCOL,
    FILE_LIKE,
    MAP_LOCATION,
    LoadEndianness,
    default_restore_location,
    get_default_load_endianness,
    location_tag,
    normalize_storage_type,
    register_package,
    set_default_load_endianness,
)
from facula.serialization.options import (
    get_crc32_options,
    get_default_mmap_options,
    set_crc32_options,
    set_default_mmap_options,
    skip_data,
)
from facula.serialization.pickle_names import get_unsafe_globals_in_checkpoint
from facula.serialization.rebuild import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)


class SourceChangeWarning(Warning):
    """That the source of a saved class is another now; files here hold no source, so nothing warns."""


__all__ = [
    "DEFAULT_PROTOCOL",
    "FILE_LIKE",
    "LoadEndianness",
    "MAGIC_NUMBER",
    "MAP_LOCATION",
    "PROTOCOL_VERSION",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
