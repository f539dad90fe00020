"""Packages as files: a ZIP of stored entries with a manifest of their digests.

Takes: the entries. Gives: `write_package`, `package_bytes`.
Keeps true: an entry begins at a multiple of 64 bytes, so that weights are read where the file is mapped;
equal entries give equal files; a file is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from facula.deploy.model import ABI, digest_of
from facula.runtime import trust
from facula.runtime.cache import write_atomically

ALIGNMENT = 64
#: 1980-01-01, so that equal entries give equal files
_DATE = (0, 0x21)


def manifest(entries: Mapping[str, Any], machine: str) -> bytes:
    """The manifest of entries: version, machine, digests and sizes."""
    lines = ["facula-package 1", f"abi {ABI}", f"machine {machine}"]
    for name, content in entries.items():
        weights = name == "weights"
        digest = digest_of(content) if weights else hashlib.sha256(content).hexdigest()
        lines.append(f"entry {digest} {len(content)} {name}")
    text = "\n".join(lines) + "\n"
    return f"{text}end {hashlib.sha256(text.encode()).hexdigest()}\n".encode()


def package_bytes(entries: Mapping[str, Any], machine: str) -> list[Any]:
    """The pieces of the file, in order."""
    pieces: list[Any] = []
    table: list[bytes] = []
    at = 0
    for name, content in {"manifest": manifest(entries, machine), **entries}.items():
        word = name.encode()
        space = -(at + 30 + len(word) + 4) % ALIGNMENT
        extra = struct.pack("<HH", 0xFA, space) + bytes(space)
        sizes = (zlib.crc32(content), len(content), len(content), len(word), len(extra))
        head = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, *_DATE, *sizes) + word + extra
        table.append(
            struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 0, *_DATE, *sizes[:4], 0, 0, 0, 0, 0, at)
            + word
        )  # fmt: skip
        pieces += [head, content]
        at += len(head) + len(content)
    rows = b"".join(table)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(table), len(table), len(rows), at, 0)
    return [*pieces, rows, end]


def unnamed(pieces: list[Any], suffix: str) -> str:
    """Where a file lies whose place nobody named: among the temporary files, by what is in the package."""
    content = hashlib.sha256(pieces[1]).hexdigest()  # the manifest has the digests of all entries
    return os.path.join(trust.private_folder(), "packages", content[:40], f"model{suffix}")


def write_package(path: Any, entries: Mapping[str, Any], machine: str) -> Any:
    """Write a package (None: see `unnamed`); gives its path, or the open file that was given."""
    pieces = package_bytes(entries, machine)
    if hasattr(path, "write"):
        for piece in pieces:
            path.write(piece)
        return path
    target = unnamed(pieces, ".pt2") if path is None else os.path.abspath(os.fspath(path))
    with write_atomically(target) as temporary, open(temporary, "wb") as file:
        for piece in pieces:
            file.write(piece)
    return target


#: options of PyTorch's packages that are so here whatever they say: weights stand in the file beside the code,
#: constants are folded when it is opened and all keep their names, and there is no wrapper to compile
_SETTLED = frozenset(
    "always_keep_tensor_constants aot_inductor.package aot_inductor.package_constants_in_so "
    "aot_inductor.use_runtime_constant_folding aot_inductor.compile_wrapper_opt_level "
    "aot_inductor.force_mmap_weights".split()
)


def chosen_options(configs: Mapping[str, Any] | None) -> tuple[dict[str, Any], Any, Any]:
    """The compiler's options, the path and the metadata among those that PyTorch has for packages."""
    options = {key: value for key, value in (configs or {}).items() if key not in _SETTLED}
    path = options.pop("aot_inductor.output_path", None)
    return options, path, options.pop("aot_inductor.metadata", None)
