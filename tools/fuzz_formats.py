"""The kinds of files that facula reads, for `fuzz_loaders`.

Takes nothing. Gives `formats()`: by the name of a kind sound bytes, what reads them, and how they are
mutated.
Keeps true: every reader of the package is among them; what reads writes below `SCRATCH` only.
"""

from __future__ import annotations

import ast
import collections
import datetime
import io
import itertools
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz_programs
from fuzz_mutations import (
    STRANGE_TEXTS,
    mutated_bytes,
    mutated_json,
    mutated_operations,
    mutated_parts,
    packed,
    parts_of,
)

import facula
from facula import distributed, export, fx, nn, serialization
from facula.compiler import disk_format, pipeline
from facula.core import config
from facula.distributed import tcp_store
from facula.export.archive import own_bytes
from facula.fx.graph_module import code_on_demand
from facula.fx.proxy_tensor import make_fx
from facula.runtime import cache, trust
from facula.runtime import compile as runtime_compile
from facula.serialization import safetensors
from facula.serialization.archive import ArchiveWriter
from facula.torch_api import hub

#: where readers may write
SCRATCH: str | None = None
#: what is asked after a file was read, while nothing is watched: a problem, or None
Check = Callable[[], str | None]


@dataclass
class Format:
    """A kind of file. `load` may give a check of what it read."""

    data: bytes
    load: Callable[[bytes], Check | None]
    mutate: Callable[[bytes, random.Random], bytes]
    #: how many of the files are of this kind, beside 1 for most: less where each takes long
    share: float = 1.0


# ------------------------------------------------------------------ checkpoints


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


def _split(archive: bytes) -> tuple[bytes, dict[str, bytes]]:
    records = {name.partition("/")[2]: content for name, content in parts_of(archive)}
    return records.pop("data.pkl"), records


def _load_bytes(data: bytes) -> None:
    serialization.load(io.BytesIO(data))


def _in_a_file(read: Callable[[str], Any], suffix: str) -> Callable[[bytes], None]:
    """A reader of paths."""

    def load(data: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=suffix, dir=SCRATCH) as file:
            file.write(data)
            file.flush()
            read(file.name)

    return load


def _read_safetensors(path: str) -> None:
    for tensor in safetensors.load_file(path).values():
        tensor.sum()


def _read_from_hub(path: str) -> None:
    folder, name = os.path.split(path)
    hub.load_state_dict_from_url(f"https://example.invalid/{name}", model_dir=folder)


def _mutated_header(data: bytes, generator: random.Random) -> bytes:
    """safetensors whose JSON is changed."""
    size = int.from_bytes(data[:8], "little")
    header = mutated_json(data[8 : 8 + size], generator)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def _checkpoints() -> dict[str, Format]:
    stream = io.BytesIO()
    serialization.save(_sample(), stream)
    archive = stream.getvalue()
    body, records = _split(archive)
    stream = io.BytesIO()
    serialization.save(_numpy_sample(), stream)
    values, _ = _split(stream.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.safetensors"
        safetensors.save_file({"a": facula.zeros(3, 4), "b": facula.arange(5)}, path, {"k": "v"})
        safe = path.read_bytes()
    older = Path(__file__).parents[1] / "tests/serialization/data/before_1_6.pt"

    def repacked(data: bytes) -> None:
        _load_bytes(_archive(data, records))

    mapped = _in_a_file(lambda path: serialization.load(path, mmap=True), ".pt")
    of_one = packed([("model.pt", older.read_bytes())])
    return {
        "archive": Format(archive, _load_bytes, mutated_bytes),
        "archive, mapped": Format(archive, mapped, mutated_bytes),
        "archive, its parts": Format(archive, _load_bytes, mutated_parts),
        "archive, mapped, its parts": Format(archive, mapped, mutated_parts),
        "pickle in an archive": Format(body, repacked, mutated_bytes),
        "operations in an archive": Format(body, repacked, mutated_operations),
        "NumPy's values": Format(values, repacked, mutated_bytes),
        "NumPy's values, operations": Format(values, repacked, mutated_operations),
        "before 1.6": Format(older.read_bytes(), _load_bytes, mutated_bytes),
        "before 1.6, in an archive": Format(
            of_one, _in_a_file(_read_from_hub, ".zip"), mutated_parts, 0.3
        ),
        "safetensors": Format(safe, _in_a_file(_read_safetensors, ".safetensors"), mutated_bytes),
        "safetensors, header": Format(
            safe, _in_a_file(_read_safetensors, ".safetensors"), _mutated_header
        ),
    }


def _numpy_sample() -> list[Any]:
    import numpy

    return [
        numpy.arange(6).reshape(2, 3), numpy.float64(2.5), numpy.dtype("<i4"), numpy.array(["a", "bc"]),
        numpy.array([1, 2], "M8[ns]"), numpy.asfortranarray(numpy.ones((2, 3), "f4")), numpy.bool_(True),
    ]  # fmt: skip


# ------------------------------------------------------------------ exported programs


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("count", facula.zeros(()))

    def forward(self, x: Any, options: dict[str, Any]) -> Any:
        self.count += 1
        y = self.layer(x).relu() * options["scale"]
        return {"y": y.reshape(x.shape[0] * 3), "sum": y.sum(0, keepdim=True)}


def _exported() -> tuple[bytes, bytes]:
    """An exported program in facula's own format, and in PyTorch's."""
    stream = io.BytesIO()
    n = export.Dim("n", min=2, max=64)
    inputs = (facula.ones(5, 4), {"scale": facula.tensor(2.0)})
    shapes = {"x": {0: n}, "options": {"scale": None}}
    program = export.export(_Net(), inputs, dynamic_shapes=shapes)
    export.save(program, stream)
    return own_bytes(program), stream.getvalue()


#: names of Python's that code of graphs may use
_PLAIN_NAMES = frozenset(("getattr", "slice", "self", "device"))


def _problem_of_code(text: str, known: set[str]) -> str | None:
    """What code says that no graph needs: a name of Python's own, or a second statement of another kind."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return f"the code reads {node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name not in known and name not in _PLAIN_NAMES:
                return f"the code calls {name}"
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Global, ast.Lambda, ast.ClassDef)):
            return f"the code has {type(node).__name__}"
    return None


def _load_exported(data: bytes) -> Check:
    found = export.load(io.BytesIO(data))

    def check() -> str | None:
        code = found.graph.python_code("self", verbose=True)
        return _problem_of_code(code.src, set(code.globals))

    return check


def _load_tensors(exported: bytes) -> tuple[bytes, Callable[[bytes], None]]:
    """The tensors of an exported program, in the archive of checkpoints that is inside."""
    described, tensors = (content for _, content in parts_of(exported))
    body, records = _split(tensors)

    def load(data: bytes) -> None:
        inner = _archive(data, records)
        export.load(io.BytesIO(packed([("program.json", described), ("tensors.pt", inner)])))

    return body, load


# ------------------------------------------------------------------ folders of graph modules

_folders = itertools.count()


def _write_folder(data: bytes) -> Check | None:
    """A module with these names of children, parameters, buffers, keywords and inputs, as a folder."""
    try:
        names = json.loads(data)
        child, parameter, buffer, keyword, target = (str(name) for name in names)
    except (ValueError, TypeError, RecursionError):
        return None
    root = nn.Module()
    root._modules[child] = nn.Linear(2, 2)
    root._parameters[parameter] = nn.Parameter(facula.ones(2))
    root._buffers[buffer] = facula.ones(2)
    try:
        made = fx.Graph()
        x = made.create_node("placeholder", target)
        y = made.call_module("held", (x,), {keyword: 1})
        made.output(made.call_method("add", (y, x)))
        with code_on_demand():  # to run it is not the matter here
            module = fx.GraphModule({"held": nn.Linear(2, 2)}, made)
    except ValueError:
        return None
    module._modules.update(root._modules)
    module._parameters.update(root._parameters)
    module._buffers.update(root._buffers)
    folder = os.path.join(str(SCRATCH), f"folder-{next(_folders)}")
    try:
        module.to_folder(folder)
    except (ValueError, OSError, KeyError, TypeError):
        return lambda: shutil.rmtree(folder, ignore_errors=True)

    def check() -> str | None:
        tree = ast.parse(Path(folder, "module.py").read_text(errors="replace"))
        shutil.rmtree(folder)
        (made,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        calls = [
            n.func.id
            for n in ast.walk(made)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        ]
        strange = set(calls) - {"super", "Path", "getattr"}
        return f"the class calls {strange}" if strange else None

    return check


def _mutated_names(data: bytes, generator: random.Random) -> bytes:
    names = json.loads(data)
    for _ in range(generator.choice((1, 1, 2, 5))):
        names[generator.randrange(len(names))] = generator.choice(STRANGE_TEXTS)
    return json.dumps(names).encode()


# ------------------------------------------------------------------ what is kept on disk


def _put(kind: str, key: str, suffix: str, data: bytes) -> None:
    """A file of the cache as somebody else could leave it."""
    place = Path(cache.directory()) / kind / key[:2] / f"{key[2:]}{suffix}"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.parent.chmod(0o700)
    place.write_bytes(data)
    place.chmod(0o600)


def _find(kind: str, suffix: str, sound: list[bytes]) -> Callable[[bytes], None]:
    """A reader of the cache: what it finds sound is what was written."""
    key = "ab" * 20

    def load(data: bytes) -> None:
        config.set("cache_dir", os.path.join(str(SCRATCH), "cache"))
        os.makedirs(cache.directory(), mode=0o700, exist_ok=True)
        _put(kind, key, suffix, data)
        found = cache.find(kind, key, suffix)
        if found is not None:
            found.close()
            if bytes(found.content) not in sound:
                raise AssertionError("content that nobody wrote")

    return load


def _sealed(kind: str, suffix: str, content: bytes) -> bytes:
    label = f"{kind}/{'ab' * 20}{suffix}".encode()
    secret = trust.secret(cache.directory())
    return content + cache._MARK + trust.seal(secret, label, content)


def _load_stored(data: bytes) -> None:
    """A stored graph with a good seal: whatever it holds, it runs nothing."""
    try:
        disk_format.from_bytes(data)
    except Exception as error:  # as `stored.load` does: a miss
        if isinstance(error, MemoryError):
            raise


def _lowered() -> bytes:
    module = make_fx(
        lambda x, y: ((x @ y).relu().softmax(1).sort(dim=1)[1], x.sum(0) + float("inf")),
        tracing_mode="fake",
    )(facula.ones(3, 4), facula.ones(4, 5))
    return disk_format.to_bytes(pipeline.lowered(module))


def _caches() -> dict[str, Format]:
    lowered = _lowered()
    library = runtime_compile.library("int facula_fuzzed = 1;", flags=("-shared", "-O1"))
    content = bytes(library.content)
    library.close()
    forms = {"stored graph, resealed": Format(lowered, _load_stored, mutated_json)}
    for name, kind, suffix, body in (
        ("stored graph", "graphs", ".json", lowered),
        ("compiled library", "kernels", ".so", content),
        ("measured choice", "tuning", ".txt", b"winograd conv2d 3x3\n"),
    ):
        sealed = _sealed(kind, suffix, body)
        forms[name] = Format(sealed, _find(kind, suffix, [body]), mutated_bytes)
    return forms


# ------------------------------------------------------------------ stores


def _load_store(path: str) -> None:
    store = distributed.FileStore(path, 2)
    store.check(["a"])
    store.add("n", 1)


class _Connection:
    """A socket whose peer has sent what it sends."""

    def __init__(self, data: bytes) -> None:
        self.left = io.BytesIO(data)

    def recv_into(self, buffer: memoryview) -> int:
        return self.left.readinto(buffer)

    def recv(self, count: int, flags: int) -> bytes:
        raise BlockingIOError  # who waits is still there, and says nothing

    def sendall(self, data: bytes) -> None:
        pass


class _Server(tcp_store.Server):
    def __init__(self) -> None:
        self.table = tcp_store._Table()
        self.table.set_timeout(datetime.timedelta(0))


def _serve(data: bytes) -> None:
    """What a client that knows the secret sends."""
    tcp_store._LONGEST_WAIT = 0.01
    server, connection = _Server(), _Connection(data)
    try:
        while server._serve_one(connection):  # type: ignore[arg-type]
            pass
    except ConnectionError:
        pass


def _mutated_requests(data: bytes, generator: random.Random) -> bytes:
    if generator.randrange(3) == 0:
        return mutated_bytes(data, generator)
    changed = mutated_json(data[4 : 4 + int.from_bytes(data[:4], "big")], generator)
    size = len(changed) if generator.randrange(8) else generator.randrange(1 << 32)
    return size.to_bytes(4, "big") + changed + data


def _stores() -> dict[str, Format]:
    table = json.dumps({"a": "Yg==", "n": "Mw=="}).encode()
    requests = b""
    for request in (
        ["set", ["k", {"bytes": "dg=="}]], ["multi_set", [["a", "b"], [{"bytes": ""}, {"bytes": "eA=="}]]],
        ["add", ["n", 1]], ["multi_get", [["k"]]], ["wait", [["k"], 0.0]], ["num_keys", []],
    ):  # fmt: skip
        text = json.dumps(request).encode()
        requests += len(text).to_bytes(4, "big") + text
    return {
        "store in a file": Format(table, _in_a_file(_load_store, ".store"), mutated_json),
        "requests to a store": Format(requests, _serve, _mutated_requests),
    }


def formats() -> dict[str, Format]:
    """All kinds of files by their names."""
    exported, archive = _exported()
    body, load_tensors = _load_tensors(exported)
    described = dict(parts_of(exported))["program.json"]
    tensors = dict(parts_of(exported))["tensors.pt"]

    def load_description(data: bytes) -> Check:
        return _load_exported(packed([("program.json", data), ("tensors.pt", tensors)]))

    records = parts_of(archive)
    model = next(content for name, content in records if name.endswith("models/model.json"))

    def load_records(data: bytes) -> Check:
        changed = [
            (n, data if n.endswith("models/model.json") else content) for n, content in records
        ]
        return _load_exported(packed(changed))

    return {
        **_checkpoints(),
        "exported program for PyTorch": Format(archive, _load_exported, mutated_bytes),
        "exported program for PyTorch, its parts": Format(archive, _load_exported, mutated_parts),
        "exported program for PyTorch, its records": Format(model, load_records, mutated_json),
        **{name: Format(*row) for name, row in fuzz_programs.others().items()},
        "exported program": Format(exported, _load_exported, mutated_bytes),
        "exported program, its parts": Format(exported, _load_exported, mutated_parts),
        "exported program, description": Format(described, load_description, mutated_json),
        "exported program, tensors": Format(body, load_tensors, mutated_operations),
        "folder of a graph module": Format(
            b'["child", "parameter", "buffer", "keyword", "x"]', _write_folder, _mutated_names, 0.1
        ),
        **_caches(),
        **_stores(),
    }
