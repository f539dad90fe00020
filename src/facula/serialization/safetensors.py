"""The safetensors format: a JSON header and the tensors' bytes.

Takes a dict of tensors; gives a file, and the dict back.  Keeps true: the layout is the format's
own (header length, a header padded with spaces, tensors without gaps or overlap), so that other
libraries read it; a header is believed only as far as the file reaches; nothing but JSON is parsed.
"""

import json
import os
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.serialization import storages
from facula.serialization.files import map_file, written_atomically
from facula.serialization.names import CONSTANTS

__all__ = ["load_file", "load_metadata", "save_file"]

_LONGEST_HEADER = 100_000_000
_NAMES = {
    "F32": "float32",
    "F64": "float64",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}
_DTYPES = {word: CONSTANTS[name] for word, name in _NAMES.items()}
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}


def save_file(
    tensors: dict[str, Any],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes tensors under their names; each is stored contiguously, sharing is not kept.

    Raises ValueError for a tensor that shares storage with another (save one of them, or clones),
    and for a dtype that the format does not know.
    """
    _check_sharing(tensors)
    # large alignments first, then by name: the order that the format recommends
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in names:
        value = tensors[name]
        if value.dtype not in _WORDS:
            fail(
                ValueError,
                "save_file",
                "the dtype must be one of safetensors'",
                got=value.dtype,
                hint="convert it with .to(facula.float32)",
            )
        begin, end = end, end + value.numel() * value.dtype.itemsize
        header[name] = {
            "dtype": _WORDS[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with written_atomically(filename) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            stream.write(_bytes_of(tensors[name]))


def _check_sharing(tensors: dict[str, Any]) -> None:
    seen: dict[Any, str] = {}
    for name, value in tensors.items():
        if not isinstance(value, core.Tensor):
            fail(
                TypeError,
                "save_file",
                f"{name} must be a tensor",
                got=type(value).__name__,
                hint="facula.as_tensor(value) makes one; text goes into metadata",
            )
        key = storages.identity(value.untyped_storage())
        if key[0] and seen.setdefault(key, name) != name:
            fail(
                ValueError,
                "save_file",
                "tensors must not share storage",
                got=f"{seen[key]} and {name}",
                hint="leave one out, or pass .clone()",
            )


def _bytes_of(value: Any) -> memoryview:
    """A tensor's elements in order."""
    value = value.detach().cpu().contiguous()
    begin = value.storage_offset() * value.dtype.itemsize
    data = storages.contents(value.untyped_storage())
    return data[begin : begin + value.numel() * value.dtype.itemsize]


def _damaged(path: Any, got: str) -> NoReturn:
    fail(
        RuntimeError,
        "load_file",
        f"{os.fspath(path)} must be a complete safetensors file",
        got=got,
        hint="the file is truncated or damaged; fetch or save it again",
    )


def _header(data: memoryview, path: object) -> tuple[dict[str, Any], int]:
    """The parsed header, and where the tensors begin."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _LONGEST_HEADER):
        _damaged(path, f"a header of {length} bytes in a file of {len(data)}")
    try:
        header = json.loads(bytes(data[8 : 8 + length]).decode())
    except (ValueError, RecursionError) as error:
        _damaged(path, f"a header that is not JSON ({error})")
    if not isinstance(header, dict):
        _damaged(path, "a header that is not an object")
    return header, 8 + length


def _entry(name: str, entry: Any, available: int, path: Any) -> tuple[Any, tuple[int, ...], int]:
    """The dtype, shape and place of one tensor, checked against the bytes that are there."""
    try:
        dtype = _DTYPES[entry["dtype"]]
        shape = tuple(entry["shape"])
        begin, end = entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        _damaged(path, f"an entry {name} without a known dtype, shape and place ({error})")
    count = 1
    for number in (*shape, begin, end):
        if type(number) is not int or number < 0:
            _damaged(path, f"an entry {name} with {number!r} for a number")
    for number in shape:
        count *= number
    if end - begin != count * dtype.itemsize or end > available:
        _damaged(path, f"bytes {begin} to {end} for {name}, a {entry['dtype']} of shape {shape}")
    return dtype, shape, begin


def load_file(
    filename: str | os.PathLike[str], device: core.device | str | int | None = "cpu"
) -> dict[str, Any]:
    """The tensors of a file by name, on `device`.

    On the CPU they stand on one private mapping of the file: pages come when they are used, and
    changing a tensor does not change the file.
    """
    with open(filename, "rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            _damaged(filename, "an empty file")
        data = memoryview(map_file(stream))
    header, start = _header(data, filename)
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, begin = _entry(name, entry, len(data) - start, filename)
        found[name] = _tensor(data, start + begin, dtype, shape)
    return found if str(device) == "cpu" else {n: value.to(device) for n, value in found.items()}


def _tensor(data: memoryview, begin: int, dtype: Any, shape: tuple[int, ...]) -> Any:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    size = dtype.itemsize * (0 if 0 in shape else step)
    piece = data[begin : begin + size]
    if begin % dtype.itemsize:
        # the header of another writer need not be padded: such elements are moved to where they may
        # be read
        storage = storages.allocate(size)
        storages.contents(storage)[:] = piece
    else:
        storage = storages.from_buffer(piece)
    return storages.tensor_on(storage, dtype, 0, shape, tuple(reversed(strides)))


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The text that the writer added to the header."""
    with open(filename, "rb") as stream:
        head = stream.read(8)
        length = min(int.from_bytes(head, "little"), _LONGEST_HEADER)
        header, _ = _header(memoryview(head + stream.read(length)), filename)
    return dict(header.get("__metadata__", {}))
