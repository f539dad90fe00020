"""Feeds mutated files to the readers of checkpoints and safetensors, for as long as one likes.

Takes the number of files, a seed and optionally one kind of file. Gives a table of what became of
them; exit status 1 for a crash, a hang, an undocumented exception, code that ran, or memory beyond
the limit, with the file that did it saved. Keeps true: the same seed gives the same files; every
batch runs in a process of its own, so that a crash is counted and not suffered.

    python tools/fuzz_loaders.py --count 100000
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import os
import pickle
import pickletools
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import facula
from facula import serialization
from facula.serialization import safetensors
from facula.serialization.archive import ArchiveWriter

#: what the readers promise to raise for a file that is not one
PROMISED = (pickle.UnpicklingError, RuntimeError, EOFError)
#: what no data-only reader may cause (`sys.addaudithook`); importing a module lists folders
FORBIDDEN = ("os.", "subprocess.", "exec", "ctypes.", "socket.", "shutil.", "pty.")
HARMLESS = ("os.listdir", "os.scandir")
SECONDS_A_FILE = 10
MEMORY = 1 << 30
BATCH = 500


# ------------------------------------------------------------------ sound files


def _sample() -> dict[str, Any]:
    """A checkpoint with something of everything."""
    layer = facula.nn.Linear(3, 2)
    optimizer = facula.optim.AdamW(layer.parameters())
    layer(facula.ones(1, 3)).sum().backward()
    optimizer.step()
    base = facula.arange(24.0).reshape(4, 6)
    return {
        "model": layer.state_dict(),
        "optimizer": optimizer.state_dict(),
        "views": [base, base[1:3, ::2], base.t()],
        "dtypes": [facula.ones(3, dtype=facula.bfloat16), facula.ones(2, dtype=facula.complex64)],
        "plain": {"n": 1 << 70, "s": "text", "b": b"bytes", "set": {1, 2}, "f": 1.5, "t": (None,)},
        "counter": collections.Counter("aab"),
        "layer": facula.nn.Sequential(layer, facula.nn.ReLU()),
    }


def _archive(body: bytes, records: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    archive = ArchiveWriter(stream, "archive")
    archive.add("data.pkl", body)
    for name, data in records.items():
        archive.add(name, data)
    archive.close()
    return stream.getvalue()


def _parts_of(archive: bytes) -> tuple[bytes, dict[str, bytes]]:
    import zipfile

    source = zipfile.ZipFile(io.BytesIO(archive))
    records = {name.partition("/")[2]: source.read(name) for name in source.namelist()}
    return records.pop("data.pkl"), records


def _load_bytes(data: bytes) -> None:
    serialization.load(io.BytesIO(data))


def _load_safetensors(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".safetensors", dir=SCRATCH) as file:
        file.write(data)
        file.flush()
        for tensor in safetensors.load_file(file.name).values():
            tensor.sum()


def _load_mapped(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".pt", dir=SCRATCH) as file:
        file.write(data)
        file.flush()
        serialization.load(file.name, mmap=True)


SCRATCH: str | None = None


def _kinds() -> dict[str, tuple[bytes, Callable[[bytes], None], Callable[..., bytes]]]:
    """For each kind of file: sound bytes, the reader, and how bytes are mutated."""
    stream = io.BytesIO()
    serialization.save(_sample(), stream)
    archive = stream.getvalue()
    body, records = _parts_of(archive)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.safetensors"
        safetensors.save_file({"a": facula.zeros(3, 4), "b": facula.arange(5)}, path, {"k": "v"})
        safe = path.read_bytes()
    older = Path(__file__).parents[1] / "tests/serialization/data/before_1_6.pt"

    def repacked(data: bytes) -> None:
        _load_bytes(_archive(data, records))

    return {
        "archive": (archive, _load_bytes, mutated_bytes),
        "archive, mapped": (archive, _load_mapped, mutated_bytes),
        "pickle in an archive": (body, repacked, mutated_bytes),
        "operations in an archive": (body, repacked, mutated_operations),
        "before 1.6": (older.read_bytes(), _load_bytes, mutated_bytes),
        "safetensors": (safe, _load_safetensors, mutated_bytes),
    }


# ------------------------------------------------------------------ mutations


def mutated_bytes(data: bytes, generator: random.Random) -> bytes:
    """A copy with bytes cut off, changed, replaced, repeated, or numbers made extreme."""
    found = bytearray(data)
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        if not found:
            break
        kind = generator.randrange(6)
        first, second = generator.randrange(len(found)), generator.randrange(len(found))
        length = generator.randint(1, 20)
        if kind == 0:
            del found[first:]
        elif kind == 1:
            found[first] = generator.randrange(256)
        elif kind == 2:
            found[first] ^= 1 << generator.randrange(8)
        elif kind == 3:
            found[first : first + length] = generator.randbytes(generator.randint(0, 20))
        elif kind == 4:
            found[first : first + length] = found[second : second + length]
        else:
            width = generator.choice((1, 2, 4, 8))
            extreme = generator.choice((0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1)))
            found[first : first + width] = extreme.to_bytes(width, "little")
    return bytes(found)


def _operations(data: bytes) -> list[bytes]:
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    return [data[a:b] for a, b in zip(places, [*places[1:], len(data)], strict=True)]


_STRANGE = [
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"cbuiltins\ngetattr\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch.nn.modules.linear\nLinear\n",
    b"cfacula\nload\n",
    b"(S'true'\ni__main__\nx\n",
    b"\x81",
    b"R",
    b"b",
    b"Q",
    b"u",
    b"e",
    b"K\xff",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b"\x88",
    b"N",
    b")",
    b"}",
    b"]",
    b"(",
    b"0",
    b"2",
]


def mutated_operations(data: bytes, generator: random.Random) -> bytes:
    """A pickle whose operations are left out, swapped, repeated, or joined by strange ones."""
    found = _operations(data)
    for _ in range(generator.choice((1, 1, 2, 3, 8))):
        first, second = generator.randrange(len(found)), generator.randrange(len(found))
        kind = generator.randrange(5)
        if kind == 0 and len(found) > 2:
            del found[first]
        elif kind == 1:
            found[first], found[second] = found[second], found[first]
        elif kind == 2:
            found.insert(first, found[second])
        elif kind == 3:
            found.insert(first, generator.choice(_STRANGE))
        else:
            found[first] = generator.choice(_STRANGE)
    return b"".join(found)


# ------------------------------------------------------------------ one batch in a process


def mutations(
    kind: str, seed: int, count: int
) -> Iterator[tuple[int, bytes, Callable[[bytes], None]]]:
    """The files of one kind: their numbers, their bytes and their reader."""
    data, load, mutate = _kinds()[kind]
    for number in range(count):
        yield number, mutate(data, random.Random(f"{seed} {kind} {number}")), load


def _is_a_library(code: Any) -> bool:
    """Whether the code is a module of Python's or of facula's, which a reader may bring in."""
    libraries = (sys.base_prefix, sys.prefix, str(Path(facula.__file__).parent), "<frozen ")
    return code.co_name == "<module>" and code.co_filename.startswith(libraries)


class _Watch:
    """Raises a flag when a reader causes what data cannot."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self.on or not event.startswith(FORBIDDEN) or event in HARMLESS:
            return
        if event != "exec" or not _is_a_library(arguments[0]):
            self.seen.append(f"{event} {arguments!r}"[:200])


def _fate(load: Callable[[bytes], None], data: bytes, watch: _Watch) -> str:
    """What became of one file; a text that starts with "!" is a fault."""
    watch.on = load is not _load_mapped and load is not _load_safetensors
    signal.alarm(SECONDS_A_FILE)
    try:
        load(data)
        fate = "read"
    except PROMISED as error:
        fate = type(error).__name__
    except BaseException:
        fate = "! " + traceback.format_exc(limit=-2).replace("\n", " | ")
    finally:
        signal.alarm(0)
        watch.on = False
    if watch.seen:
        fate = "! code ran: " + watch.seen.pop()
        watch.seen.clear()
    return fate


def _run_batch(files: list[tuple[int, bytes, Callable[[bytes], None]]], report: int) -> None:
    """In the child: a line for each file, written before and after."""
    # on top of what the process that was copied had already
    with open("/proc/self/statm") as stream:
        before = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (before + MEMORY, before + MEMORY))
    watch = _Watch()
    sys.addaudithook(watch)
    # what readers import on the way runs code of its own: a device that nobody knows is looked for
    # among the installed packages
    with contextlib.suppress(RuntimeError):
        facula.device("unknown")
    for number, data, load in files:
        os.write(report, f"{number}\t?\n".encode())
        os.write(report, f"{number}\t{_fate(load, data, watch)}\n".encode())


def _batch_in_child(files: list[tuple[int, bytes, Callable[[bytes], None]]]) -> dict[int, str]:
    """The fate of each file by its number; a crash is a fate."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            _run_batch(files, write)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        lines = stream.read().decode(errors="replace").splitlines()
    _, status = os.waitpid(child, 0)
    fates: dict[int, str] = {}
    for line in lines:
        name, _, fate = line.partition("\t")
        fates[int(name)] = fate
    for number, fate in fates.items():
        if fate == "?":
            fates[number] = f"! the process ended with status {status}"
    return fates


def _keep(folder: Path, kind: str, number: int, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind.replace(' ', '_').replace(',', '')}_{number}.bin"
    path.write_bytes(data)
    return path


def fuzz(kind: str, seed: int, count: int, folder: Path) -> tuple[collections.Counter, list[str]]:
    """Runs `count` files of one kind; gives how often each fate came up, and the faults."""
    fates: collections.Counter = collections.Counter()
    faults: list[str] = []
    source = mutations(kind, seed, count)
    waiting = [file for _, file in zip(range(BATCH), source, strict=False)]
    while waiting:
        results = _batch_in_child(waiting)
        left = []
        for number, data, load in waiting:
            fate = results.get(number)
            if fate is None:  # the process ended before it came to this one
                left.append((number, data, load))
                continue
            fates[fate if not fate.startswith("!") else "FAULT"] += 1
            if fate.startswith("!"):
                faults.append(f"{kind} {number}: {fate[2:]} -> {_keep(folder, kind, number, data)}")
        waiting = left + [file for _, file in zip(range(BATCH - len(left)), source, strict=False)]
    return fates, faults


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100_000, help="files in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(_kinds()), help="one kind of file only")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where faults go")
    options = parser.parse_args(arguments)
    kinds = [options.kind] if options.kind else list(_kinds())
    faults: list[str] = []
    for kind in kinds:
        fates, found = fuzz(kind, options.seed, -(-options.count // len(kinds)), options.keep)
        faults += found
        print(f"{kind:26s} {fates.total():7d}  {dict(fates.most_common())}", flush=True)
    for fault in faults[:20]:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
