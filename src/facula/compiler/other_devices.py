"""Graphs whose tensors are on a device that a backend adds: the backend compiles them, or their calls run there.

Takes: flat graphs. Gives: `device_of`, the type of such a device; `on_device`, what runs the graph.
Keeps true: a backend without `compile_graph`, and a graph that it can not compile (`NotLoops`, or another
NotImplementedError), means that each call of the graph runs on the device as in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core import logs
from facula.core.nested import tensors_in
from facula.lower.at_sizes import graph_at, symbols_of

__all__ = ["device_of", "on_device"]

log = logs.get_logger("inductor")


def device_of(module: Any) -> str | None:
    """The type of the device that a graph works on; None for the processor."""
    for node in module.graph.nodes:
        for tensor in tensors_in(node.meta.get("val")):
            if tensor.device.type not in ("cpu", "meta"):
                return str(tensor.device.type)
    return None


def on_device(module: Any, device: str) -> Any:
    """What runs a graph: a function of the list of its inputs; where sizes are symbols, one that gives it for their
    values."""
    symbols = symbols_of(module.graph)
    return _compiled(module, device) if symbols is None else _ForSizes(module, device)


def _compiled(module: Any, device: str) -> Callable[[Any], Any]:
    compile_graph = getattr(core.BACKENDS[device], "compile_graph", None)
    if compile_graph is not None:
        # lazily: graphs of the processor, and those read from disk, need nothing of what lowers
        from facula.lower.loops.values import NotLoops

        try:
            return compile_graph(module)
        except (NotLoops, NotImplementedError) as reason:
            log.info("a graph for %s runs call by call: %s", device, reason)

    def run(inputs: Any) -> Any:
        return module(*inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


class _ForSizes:
    """A graph whose sizes are symbols."""

    def __init__(self, module: Any, device: str) -> None:
        self.module, self.device = module, device
        self.names = list(symbols_of(module.graph).shape_env.hints)

    def __call__(self, *values: int) -> Any:
        sizes = dict(zip(self.names, values, strict=True))
        return _compiled(graph_at(self.module, sizes), self.device)

    def check(self, sizes: dict[str, int]) -> bool:
        """The graph for given sizes is made from the graph itself: it can not differ."""
        return True
