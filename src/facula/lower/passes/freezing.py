"""What depends on a module's own tensors alone, computed once: packed weights, folded batch norms.

Takes: a flat inference graph. Gives: `take_frozen_out`: the graph without those parts, whose results are
further inputs, and a `Frozen` that has them ready; `Unfrozen`, the same graph without.
Keeps true: a write to any of those tensors, through whatever alias, and another tensor in its place
are seen at the next call; where somebody may hold an address of one, through which writes are not counted
(`core.write_counts`), nothing is frozen: a graph that reads the weights where they lie runs instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.fx import Graph, GraphModule, Node
from facula.fx.fake_tensor import FakeTensor
from facula.lower import table
from facula.lower.aot.partition import extract
from facula.lower.passes import epilogues
from facula.ops.table.registry import F


class Frozen:
    """The results of a graph of owned tensors, kept until one of those changes."""

    def __init__(self, module: Any, places: Sequence[int], packs: int) -> None:
        self.module, self.places, self.packs = module, tuple(places), packs
        #: hears how many weights were packed
        self.told: Callable[[int], None] = _nobody
        self.key: Any = None
        self.sources: list[Any] = []  # keeps the memory that the key names alive
        self.results: list[Any] = []

    def __call__(self, args: Sequence[Any]) -> list[Any] | None:
        """The results for these inputs of the whole graph; None where writes may go unseen."""
        given = [args[place] for place in self.places]
        key = core.write_counts(given)
        if key is None:
            self.key, self.sources, self.results = None, [], []
            return None
        if key != self.key:
            recording = core.set_grad_enabled(False)
            try:
                self.results = list(self.module(*given))
            finally:
                core.set_grad_enabled(recording)
            self.key, self.sources = key, [x.detach() for x in given]
            self.told(self.packs)
        return self.results


def take_frozen_out(module: Any) -> Frozen | None:
    """Take the frozen part out of an inference graph; None where there is none."""
    graph = module.graph
    frozen = epilogues.frozen_nodes(graph)
    computed = {n for n in frozen if n.op == "call_function" and _computes(n, frozen)}
    edge = [n for n in graph.nodes if n in computed and any(u not in computed for u in n.users)]
    if not edge:
        return None
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    needed = _sources(edge)
    places = [k for k, n in enumerate(inputs) if n in needed]
    part = GraphModule(module, extract(graph, [inputs[k] for k in places], edge, "frozen"))
    last = inputs[-1]
    for number, node in enumerate(edge):
        with graph.inserting_after(last):
            last = graph.placeholder(f"frozen_{number}")
        last.meta = {**node.meta, "owned": True}
        node.replace_all_uses_with(last)
    for node in reversed([n for n in graph.nodes if n in computed]):
        graph.erase_node(node)
    packs = sum(table.operator_of(n.target) in _PACKS for n in computed)
    return Frozen(part, places, packs)


def _computes(node: Node, frozen: set[Node]) -> bool:
    """Whether a node, or what it reads, is more than a view of an input."""
    if not table.is_view(node):
        return True
    return any(n.op == "call_function" and _computes(n, frozen) for n in node.all_input_nodes)


def _sources(nodes: Sequence[Node]) -> set[Node]:
    """The placeholders that nodes depend on."""
    found: set[Node] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(node.all_input_nodes)
    return {n for n in found if n.op == "placeholder"}


class Unfrozen:
    """A graph as it was before a part of it was frozen, compiled when it is first wanted."""

    def __init__(self, module: Any, compiler: Callable[[Any], Callable[[list[Any]], Any]]) -> None:
        kept = Graph()
        kept.output(kept.graph_copy(module.graph, {}))
        self.module: Any = GraphModule(module, kept)
        self.module.meta = dict(module.meta)
        self.compiler = compiler
        self.call: Callable[[list[Any]], Any] | None = None
        self.lock = threading.Lock()

    def __call__(self, args: list[Any]) -> Any:
        with self.lock:
            if self.call is None:
                self.call = self.compiler(self.module)
                self.module = None
        return self.call(args)


def may_be_frozen(x: object) -> bool:
    """Whether all writes to an input would be counted; of a fake one the real one will be asked."""
    return isinstance(x, FakeTensor) or core.write_counts([x]) is not None


def with_frozen(
    call: Callable[[list[Any]], Any], frozen: Frozen, unfrozen: Unfrozen
) -> Callable[[list[Any]], Any]:
    """A compiled graph that takes the frozen results behind its inputs."""

    def run(args: list[Any]) -> Any:
        results = frozen(args)
        return unfrozen(args) if results is None else call([*args, *results])

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _nobody(count: int) -> None:
    """Hears what nobody wants to know."""


_PACKS = (F._conv_pack, F._linear_pack)
