"""Lowered graphs on disk, so that another process goes from a flat graph to its kernels at once.

Takes: flat graphs, and what they were lowered to (`Lowered`). Gives: `key_of`, what a lowering
depends on; `load` and `keep`.
Keeps true: what is read is data, and what does not read well is made anew; a key covers the graph, its
options, the machine's compiler flags and this package's own files; a graph that holds what text can
not name has no key; what is read back makes the same wrapper and the same C text.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import facula.core
from facula import core
from facula.compiler import options as config
from facula.compiler import trace
from facula.compiler.disk_format import Launch, Lowered, Unsaid, from_bytes, to_bytes
from facula.compiler.passes import left_out
from facula.core import logs
from facula.core.errors import own_name
from facula.fx.fake_tensor import FakeTensor
from facula.lower.loops.targets import callee_of
from facula.runtime import cache
from facula.runtime.compile import graph_flags

if TYPE_CHECKING:
    from facula.nn import Module


__all__ = ["Launch", "Lowered", "constants", "keep", "key_of", "load"]

log = logs.get_logger("inductor")

#: packages whose files decide what a graph is lowered to
_PACKAGES = ("core", "ops", "fx", "lower", "codegen", "compiler")
_NAMED = (core.dtype, core.device, core.layout, core.memory_format)


def key_of(module: Module) -> str | None:
    """What the lowering of a graph depends on, as a name for files; None where it is not kept."""
    if (
        not config.get("fx_graph_cache")
        or config.get("force_disable_caches")
        or config.get("debug")
        or trace.folder() is not None
    ):
        return None
    lines = [_surroundings(), repr(graph_flags()), repr(sorted(config.snapshot().items()))]
    lines.append(repr(sorted(left_out())))
    lines.append(repr((module.meta.get("part"), sorted(module.meta.get("writes", {}).items()))))
    try:
        lines += _Text(module).lines()
    except Unsaid as reason:
        log.debug("not kept on disk: %s", reason)
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:40]


def load(key: str | None, module: Module) -> Lowered | None:
    """What was kept under a key, with the constants of this graph."""
    entry = cache.find("graphs", key, ".json") if key is not None else None
    if entry is None:
        return None
    entry.close()
    try:
        found = from_bytes(entry.content)
        tensors = [tensor.detach() for tensor in constants(module)]
        read = found.program
        read.constants = [(b, t) for (b, _), t in zip(read.constants, tensors, strict=True)]
    except Exception as error:
        log.warning("%s can not be read (%s), and is made anew", entry.path, error)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry.path)
        return None
    log.debug("read instead of lowered and fused: %s", entry.path)
    log.debug("read: %d steps as %d runs and calls", found.steps, len(found.order))
    log.debug("planned: %d bytes of arena", found.plan.size)
    return found


def keep(key: str | None, lowered: Lowered) -> None:
    """Keep a lowered graph for other processes."""
    if key is None:
        return
    try:
        content = to_bytes(lowered)
    except Unsaid as error:
        log.debug("not kept on disk: %s", error)
        return
    cache.entry("graphs", key, ".json", lambda path: _write(path, content)).close()


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def constants(module: Module) -> list[Any]:
    """The tensors that a graph reads from its module, each once, in the order of the graph."""
    found = (_attribute(module, n.target) for n in module.graph.nodes if n.op == "get_attr")
    return list({id(t): t for t in found if isinstance(t, core.Tensor)}.values())


def _attribute(module: Module, path: str) -> Any:
    return functools.reduce(getattr, path.split("."), module)


@functools.cache
def _surroundings() -> str:
    """Python, and the files of this package by size and time."""
    root = os.path.dirname(os.path.dirname(facula.core.__file__))
    files = sorted(entry for name in _PACKAGES for entry in _files(os.path.join(root, name)))
    return f"{sys.version_info[:3]} {files}"


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith((".py", ".so")):
                status = entry.stat()
                yield entry.path, status.st_size, status.st_mtime_ns


class _Text:
    """A graph as text, without the names of its nodes."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.numbers: dict[Any, int] = {}
        self.constants: dict[int, int] = {}

    def lines(self) -> list[str]:
        """A line for each node."""
        found = []
        for node in self.module.graph.nodes:
            self.numbers[node] = len(self.numbers)
            if node.op == "call_function":
                head = self.target(node.target)
            else:
                head = node.op
            if node.op == "get_attr":
                head += self.attribute(_attribute(self.module, node.target))
                found.append(head)
            elif node.op == "placeholder":
                found.append(head + self.value(node.meta.get("val")))
            else:
                given = f"{self.text(node.args)}{self.text(node.kwargs)}"
                found.append(f"{head}{given}{self.value(node.meta.get('val'))}")
        return found

    def target(self, target: Any) -> str:
        """The name of what is called; the table's own operators and functions only."""
        below = callee_of(target)
        if isinstance(below, core.Op):
            if "::" in below.name:
                raise Unsaid(f"the operator {below.name}")
            return str(target)
        name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
        module = getattr(target, "__module__", None) or getattr(below, "__module__", "") or ""
        module = own_name(module)  # a function of ours bears the alias's name where there is one
        if name is None or "<" in name:
            raise Unsaid(f"the function {target}")
        if module and module.partition(".")[0] not in ("facula", "_operator", "operator"):
            raise Unsaid(f"the function {target}")
        return f"{module}.{name}"

    def attribute(self, value: Any) -> str:
        """What a module holds: of tensors only the layout, since they are arguments."""
        if not isinstance(value, core.Tensor):
            return self.text(value)
        number = self.constants.setdefault(id(value), len(self.constants))
        return f"#{number}{self.value(value)}"

    def value(self, value: Any) -> str:
        """What is known of a node's value."""
        if type(value) in (FakeTensor, core.Tensor):
            return (
                f"{value.dtype.code}{tuple(value.shape)}{tuple(value.stride())}"
                f"{value.storage_offset()}{value.device}"
            )
        if isinstance(value, (tuple, list)):
            return f"({','.join(map(self.value, value))})"
        return self.text(value)

    def text(self, value: Any) -> str:
        """An argument."""
        number = self.numbers.get(value) if hasattr(value, "all_input_nodes") else None
        if number is not None:
            return f"%{number}"
        if value is None or type(value) in (bool, int, float, complex, str):
            return repr(value)
        if isinstance(value, (tuple, list)):
            return f"[{','.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return f"{{{','.join(f'{k}={self.text(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            return f"slice{self.text((value.start, value.stop, value.step))}"
        if isinstance(value, _NAMED):
            return repr(value)
        raise Unsaid(f"an argument of type {type(value).__name__}")
