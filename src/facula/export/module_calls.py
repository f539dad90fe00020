"""Which modules were running when a node was recorded.

Takes: the module that is exported, and the running frames. Gives: for each node the stack of module calls.
Keeps true: nothing is added to the modules; each call has a key of its own, also where one module is
called several times.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from inspect import unwrap
from types import FrameType
from typing import Any

from facula import nn

#: key of a call -> (path of the module, its class)
Stack = dict[str, tuple[str, str]]


@dataclass
class ModuleCallSignature:
    """What a module was called with, and gave.

    Args:
        inputs, outputs: the leaves: nodes by their names, and constants
        in_spec, out_spec: how they were nested
        forward_arg_names: the names of the arguments

    Example:
        >>> program = facula.export.export(facula.nn.ReLU(), (facula.ones(2),))
        >>> program.module_call_graph[0].signature.forward_arg_names
        ['input']
    """

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Let another node stand for one.

        Args:
            original_node, new_node: the nodes, or what has their names
        """
        for arg in (*self.inputs, *self.outputs):
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclass
class ModuleCallEntry:
    """A module of an exported program.

    Args:
        fqn: its path
        signature: what it was called with, where that was to be kept

    Example:
        >>> net = facula.nn.Sequential(facula.nn.ReLU())
        >>> program = facula.export.export(net, (facula.ones(2),))
        >>> [entry.fqn for entry in program.module_call_graph]
        ['', '0']
    """

    fqn: str
    signature: ModuleCallSignature | None = None


class ModuleCalls:
    """The calls of a module and of those in it, found among the frames that run."""

    def __init__(self, module: nn.Module) -> None:
        self.paths = {id(m): path for path, m in module.named_modules()}
        self.codes = {_code_of(m) for m in module.modules()} - {None}
        #: id of a frame -> the frame, kept so that no other gets its id, and the entry of its call
        self.known: dict[int, tuple[FrameType, str, tuple[str, str]]] = {}
        self.counts: dict[str, int] = {}

    def stack(self) -> Stack:
        """The calls that run now, the outermost first."""
        frame: FrameType | None = sys._getframe(1)
        found: list[tuple[str, tuple[str, str]]] = []
        while frame is not None:
            if frame.f_code in self.codes:
                entry = self._entry(frame)
                if entry is not None:
                    found.append(entry)
            frame = frame.f_back
        made: Stack = {}
        for key, value in reversed(found):
            if not made or next(reversed(made.values()))[0] != value[0]:  # super().forward(x)
                made[key] = value
        return made

    def _entry(self, frame: FrameType) -> tuple[str, tuple[str, str]] | None:
        known = self.known.get(id(frame))
        if known is not None:
            return known[1], known[2]
        module = frame.f_locals.get(frame.f_code.co_varnames[0])
        path = self.paths.get(id(module))
        if path is None:
            return None
        count = self.counts[path] = self.counts.get(path, -1) + 1
        key = f"L__self__{'_' if path else ''}{path.replace('.', '_')}" + (
            f"@{count}" if count else ""
        )
        kind = type(module)
        value = (path, f"{kind.__module__}.{kind.__qualname__}")
        self.known[id(frame)] = frame, key, value
        return key, value

    def close(self) -> None:
        """Let the frames go."""
        self.known.clear()


def _code_of(module: nn.Module) -> Any:
    function = unwrap(getattr(type(module), "forward", None) or (lambda: None))
    code = getattr(function, "__code__", None)
    return code if code is not None and code.co_argcount else None
