"""The kinds of files that hold programs, archives and messages, for `fuzz_loaders`.

Takes nothing. Gives `others()`: formats by their names.
Keeps true: what is read is looked at as a user would, within bounds.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import re
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from fuzz_mutations import (
    mutated_bytes,
    mutated_json,
    mutated_operations,
    mutated_parts,
    packed,
    parts_of,
)

import facula
import facula.jit.mobile
from facula import jit, mobile
from facula.data.datapipes import iter as pipes
from facula.deploy import package as package_form
from facula.deploy.model import Model
from facula.namespaces import shared_memory
from facula.runtime.libraries import kernel_folder
from facula.serialization.names import CONSTANTS

__all__ = ["Rows", "others"]

#: bytes, what reads them, how they are mutated, how many of the files are of this kind
Rows = dict[
    str, tuple[bytes, Callable[[bytes], Any], Callable[[bytes, random.Random], bytes], float]
]

# ------------------------------------------------------------------ scripted programs

_WORDS = [
    "while True", "for i in range(9223372036854775807)", "torch.zeros([1 << 62])", "__torch__", "CONSTANTS.c0",
    "self", "x", "-1", "9223372036854775807", "1e999", "None", "[]", "()", "{}", "int", "Tensor", "List[int]",
    "Tuple[int, int]", "Optional[Tensor]", "ops.prim.raise", "torch.add", "torch.system", "getattr", "print",
    "__import__('os')", "annotate", "unchecked_cast", "uninitialized", "fork", "lambda: 0", "x for x in x",
    "len.__self__", "self.__class__", "__torch__.__init__.__globals__", "(" * 300, "'" + "a" * 5000 + "'",
    "\"{}\".format", "9" * 5000, "not ", "return", "break", "continue", "raise", "del x", "assert False",
]  # fmt: skip


def _mutated_code(data: bytes, generator: random.Random) -> bytes:
    """Python's text with words and lines left out, swapped, repeated or replaced."""
    if generator.randrange(12) == 0:
        return mutated_bytes(data, generator)
    lines = data.decode().split("\n")
    for _ in range(generator.choice((1, 1, 2, 3, 6))):
        first, second = generator.randrange(len(lines)), generator.randrange(len(lines))
        kind = generator.randrange(6)
        if kind == 0 and len(lines) > 1:
            del lines[first]
        elif kind == 1:
            lines.insert(first, lines[second])
        elif kind == 2:
            indent = re.match(" *", lines[first])
            assert indent is not None
            lines.insert(first, indent[0] + generator.choice(_WORDS))
        else:
            words = re.findall(r"\w+|\W", lines[first]) or [""]
            other = re.findall(r"\w+|\W", lines[second]) or [""]
            new = generator.choice(_WORDS if kind == 3 else other)
            words[generator.randrange(len(words))] = new
            lines[first] = "".join(words)
    return "\n".join(lines).encode()


def _programs() -> list[bytes]:
    folder = Path(__file__).parents[1] / "tests/jit/files"
    by_size = sorted(folder.glob("*.pt"), key=os.path.getsize)
    return [by_size[i].read_bytes() for i in (0, 4, 7)]


def _load_program(data: bytes) -> None:
    found = jit.load(io.BytesIO(data))
    if "forward" in found._script_type.methods:
        str(found.graph)
    found.state_dict()


def _with_record(archive: bytes, name: str) -> Callable[[bytes], None]:
    others = [(n, content) for n, content in parts_of(archive) if n != name]

    def load(data: bytes) -> None:
        _load_program(packed([*others, (name, data)]))

    return load


def programs() -> Rows:
    """What `jit.load` reads: the file, its parts, its code and its pickle."""
    found: Rows = {}
    for number, archive in enumerate(_programs()):
        word = f"program {number}"
        found[f"{word}, its parts"] = archive, _load_program, mutated_parts, 0.2
        if number == 0:
            found[word] = archive, _load_program, mutated_bytes, 0.5
        shown = [n for n, content in parts_of(archive) if n.endswith(".py") and b"def " in content]
        for name, content in parts_of(archive):
            if name in shown[:2]:
                found[f"{word}, {Path(name).name}"] = (
                    content,
                    _with_record(archive, name),
                    _mutated_code,
                    0.3,
                )
            if name.endswith("data.pkl"):
                read = _with_record(archive, name)
                found[f"{word}, its pickle"] = content, read, mutated_operations, 0.2
    return found


def _lite_program() -> bytes:
    layers = facula.nn.Sequential(facula.nn.Linear(3, 4), facula.nn.ReLU(), facula.nn.Linear(4, 2))
    return jit.script(layers.eval())._save_to_buffer_for_lite_interpreter()


def _load_lite(data: bytes) -> None:
    found = jit.mobile._load_for_lite_interpreter(io.BytesIO(data))
    found.run_method("forward", facula.ones(2, 3))


def lite_programs() -> Rows:
    """What the lite interpreter reads and runs."""
    archive = _lite_program()
    return {
        "lite program": (archive, _load_lite, mutated_bytes, 0.3),
        "lite program, its parts": (archive, _load_lite, mutated_parts, 0.5),
    }


# ------------------------------------------------------------------ quantized tensors


def _quantized() -> bytes:
    values = facula.arange(12.0).reshape(3, 4)
    scales, zeros = facula.tensor([0.1, 0.2, 0.3]), facula.tensor([0, 1, 2])
    made = io.BytesIO()
    kept = {
        "tensor": facula.quantize_per_tensor(values, 0.1, 3, facula.quint8),
        "channel": facula.quantize_per_channel(values, scales.double(), zeros, 0, facula.qint8),
        "half bytes": facula.quantize_per_channel(
            values, scales, zeros.float(), 0, facula.quint4x2
        ),
        "part": facula.quantize_per_tensor(values, 0.1, 3, facula.qint32)[1:, ::2],
    }
    facula.save(kept, made)
    return made.getvalue()


def _load_quantized(data: bytes) -> None:
    found = facula.load(io.BytesIO(data))
    for tensor in found.values() if isinstance(found, dict) else ():
        if isinstance(tensor, facula.Tensor) and tensor.is_quantized and tensor.numel() < 1 << 20:
            tensor.int_repr()
            tensor.dequantize().sum()


def quantized() -> Rows:
    """Checkpoints of quantized tensors."""
    archive = _quantized()
    others = [(n, content) for n, content in parts_of(archive) if not n.endswith("data.pkl")]
    ((name, body),) = [(n, c) for n, c in parts_of(archive) if n.endswith("data.pkl")]

    def load(data: bytes) -> None:
        _load_quantized(packed([*others, (name, data)]))

    return {
        "quantized, its parts": (archive, _load_quantized, mutated_parts, 0.5),
        "quantized, operations": (body, load, mutated_operations, 1.0),
        "quantized, pickle": (body, load, mutated_bytes, 1.0),
    }


# ------------------------------------------------------------------ archives that pipes open


def _tar(mode: str, form: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, size in (("a.txt", 700), ("folder/b", 10), ("é" * 60 + "x" * 60, 3)):
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(range(250)) * 3))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return made.getvalue()


def _zip() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, method in (("a", 0), ("b/c", 8), ("d", 12), ("e", 14)):
            archive.writestr(name, b"text " * 50, method)
    return made.getvalue()


def _pipe(step: Callable[[Any], Any]) -> Callable[[bytes], None]:
    """A reader of archives: every member lies below the archive, and is read up to a bound."""

    def load(data: bytes) -> None:
        source = pipes.IterableWrapper([("root/archive", io.BytesIO(data))], deepcopy=False)
        for found in step(source):
            if isinstance(found, bytes):
                continue
            path, stream = found
            if not path.startswith("root/archive") or ".." in path.split("/"):
                raise AssertionError(f"a member leads out of its archive: {path!r}")
            stream.read(1 << 20)
            stream.close()

    def refuses(data: bytes) -> None:
        try:
            load(data)
        except ValueError as error:  # of a name that leads out
            raise RuntimeError(str(error)) from error

    return refuses


def archives() -> Rows:
    """What the steps for archives read."""
    text = b"hello " * 100
    records = b"".join(
        struct.pack("<QI", n, 1) + b"z" * n + struct.pack("<I", 2) for n in (5, 100, 0, 33)
    )
    rows = {
        "tar": (_tar("w", tarfile.GNU_FORMAT), lambda p: p.load_from_tar()),
        "tar, pax": (_tar("w", tarfile.PAX_FORMAT), lambda p: p.load_from_tar()),
        "tar, a stream": (_tar("w:gz", tarfile.GNU_FORMAT),
                          lambda p: p.load_from_tar(mode="r|*")),
        "zip": (_zip(), lambda p: p.load_from_zip()),
        "gzip": (gzip.compress(text), lambda p: p.decompress(file_type="gzip")),
        "bzip2": (bz2.compress(text), lambda p: p.load_from_bz2()),
        "xz": (lzma.compress(text), lambda p: p.load_from_xz()),
        "records": (records, lambda p: p.load_from_tfrecord()),
    }  # fmt: skip
    return {
        f"pipe: {name}": (data, _pipe(step), mutated_bytes, 0.5)
        for name, (data, step) in rows.items()
    }


# ------------------------------------------------------------------ messages of shared memory


class _Sent:
    """A descriptor that came with a message."""

    def __init__(self, nbytes: int) -> None:
        self.own = os.memfd_create("fuzz")
        os.ftruncate(self.own, nbytes)

    def detach(self) -> int:
        own, self.own = self.own, -1
        return own


def _receive(data: bytes) -> None:
    """What a process does with the parts of a message, which tell it about memory."""
    try:
        nbytes, held, dtype, offset, shape, strides, path = json.loads(data.decode())
        sent = _Sent(max(0, min(int(held), 1 << 20)))
        kind = CONSTANTS.get(dtype)
        if not isinstance(kind, facula.dtype):
            raise TypeError("no dtype")
        try:
            memory = shared_memory._open_descriptor(sent, nbytes)
        finally:
            if sent.own >= 0:
                os.close(sent.own)
        made = shared_memory._tensor(
            memory, kind, (offset, tuple(shape), tuple(strides)), False, None
        )
        made.sum()
        made.fill_(1)
        shared_memory._open_file(path, nbytes)
    except (TypeError, ValueError, OSError, AttributeError, OverflowError, IndexError) as error:
        raise RuntimeError(str(error)) from error


def messages() -> Rows:
    """What arrives when tensors are sent."""
    sound = json.dumps([96, 96, "float32", 0, [2, 3], [3, 1], "/dev/shm/none"]).encode()

    def load(data: bytes) -> None:
        try:
            _receive(data)
        except RuntimeError:
            if data != sound:
                raise

    return {"message of shared memory": (sound, load, mutated_json, 1.0)}


# ------------------------------------------------------------------ packaged models


def _mobile_model() -> bytes:
    """A packaged model without native code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ptl"
        module = facula.nn.Sequential(
            facula.nn.Linear(6, 5), facula.nn.GELU(), facula.nn.Linear(5, 4)
        )
        mobile.export(module.eval(), (facula.randn(3, 6),), path)
        return path.read_bytes()


def _open_model(data: bytes) -> None:
    path = Path(tempfile.gettempdir()) / "fuzzed.ptl"
    path.write_bytes(data)
    try:
        found = Model(path, kernel_folder())
        found.describe()
        found.constants()
    finally:
        path.unlink()


def _mutated_numbers(data: bytes, generator: random.Random) -> bytes:
    """The text of a program with words replaced, left out, swapped or repeated."""
    if generator.randrange(6) == 0:
        return mutated_bytes(data, generator)
    words = data.decode().split(" ")
    for _ in range(generator.choice((1, 1, 2, 5))):
        at, other = generator.randrange(len(words)), generator.randrange(len(words))
        kind = generator.randrange(4)
        if kind == 0:
            words[at] = generator.choice(
                [
                    "-1",
                    "0",
                    "1",
                    "$0",
                    "$99999",
                    "x",
                    "9" * 20,
                    str(2**63 - 1),
                    str(-(2**63)),
                    "1048576",
                ]
            )
        elif kind == 1:
            words[at] = words[other]
        elif kind == 2:
            words.insert(at, words[other])
        elif len(words) > 1:
            del words[at]
    return " ".join(words).encode()


def models() -> Rows:
    """Packages, and their programs under digests that are right; of these nothing runs, since kernels are missing."""
    package = _mobile_model()
    entries = dict(parts_of(package))
    entries.pop("manifest")
    # once: the digest of weights is the runtime's, and calls by ctypes are watched for
    digest = package_form.digest_of(entries["weights"])

    def load(data: bytes) -> None:
        text = data if data == entries["program"] else data.replace(b":f32", b":no")
        with mock.patch.object(package_form, "digest_of", lambda content: digest):
            pieces = package_form.package_bytes({**entries, "program": text}, "any")
        _open_model(b"".join(pieces))

    return {
        "packaged model": (package, _open_model, mutated_bytes, 0.5),
        "packaged model, its program": (entries["program"], load, _mutated_numbers, 0.5),
    }


def others() -> Rows:
    """All kinds of this module."""
    return {
        **programs(), **lite_programs(), **quantized(), **archives(), **messages(), **models(),
    }  # fmt: skip
