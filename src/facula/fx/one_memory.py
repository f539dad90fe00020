"""How the inputs of a program share memory.

Takes: inputs. Gives: `sharing`, what a program that writes to its inputs is made for, `first_places`, and whether
a graph counts places in memory (`counts_places`).
Keeps true: a program serves other inputs of the same answer: what it takes in the place of inputs on one
memory (their base, or the whole memory) has the layout that it was made for, and they lie at the same
places in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from facula import core


def sharing(inputs: Sequence[Any], places: bool = False) -> tuple[Any, ...] | None:
    """Which tensors lie on one memory, where in it, and as views of what; None where each has its own.

    places: where they lie counts for each of them, whether or not it shares its memory.
    """
    tensors = [x for x in inputs if isinstance(x, core.Tensor) and x.layout is core.strided]
    keys = list(map(core.storage_key, tensors))
    first = first_places(keys)
    if len(first) == len(keys) and not places:
        return None
    number = Counter(keys)
    wholes = [x if x._base is None else x._base for x in tensors]
    views_of = first_places(list(map(id, wholes)))
    return tuple(
        (first[key], x.storage_offset(), views_of[id(whole)], *_layout(whole))
        if places or number[key] > 1
        else (first[key],)
        for key, x, whole in zip(keys, tensors, wholes, strict=True)
    )


def counts_places(graph_module: Any) -> bool:
    """Whether a call of a graph, or of one inside of it, counts from the beginning of a tensor's memory."""
    modules = graph_module.modules() if hasattr(graph_module, "modules") else [graph_module]
    graphs = [m.graph for m in modules if hasattr(m, "graph")]
    return any(_counts_places(node) for graph in graphs for node in graph.nodes)


def _counts_places(node: Any) -> bool:
    target = node.target
    if node.op == "call_method":
        target = getattr(core.Tensor, target, None)
    elif node.op != "call_function":
        return False
    target = core.operator_of(target)
    if isinstance(target, core.InplaceOp):
        target = target.op
    if not isinstance(target, core.Op):
        return False
    return any(p.name == "storage_offset" for p in target.definition.schema.parameters)


def first_places(keys: list[Any]) -> dict[Any, int]:
    """Where each is for the first time."""
    return {key: i for i, key in reversed(list(enumerate(keys)))}


def _layout(whole: core.Tensor) -> tuple[Any, ...]:
    """Of what inputs are views of, and programs take in their place: all that a program is made for."""
    place = (tuple(whole.shape), tuple(whole.stride()), whole.storage_offset())
    return (whole.dtype, *place, whole.requires_grad, whole.untyped_storage().nbytes())
