"""Bags of rows of tables whose rows are bytes, or halves of them.

Takes: a flat graph in which tables are packed where an observer named the operator for them. Gives: the graph with that
operator. Keeps true: bags are sums, and no row is left out of them: another bag is an error that names what it has.
"""

from __future__ import annotations

from facula.core.errors import fail
from facula.jit.ir import Graph, Node, Value
from facula.jit.passes.constants import constant
from facula.jit.quantizing import roles
from facula.jit.quantizing.converting import Builder
from facula.ops.table.schemas import types as T

__all__ = ["packed_tables"]


def packed_tables(graph: Graph) -> None:
    """Bags of packed tables are computed by the operators for these.

    Args:
        graph: the flat graph
    """
    for node in list(graph.all_nodes()):
        weight = roles.arguments(node).get("weight") if roles.name_of(node) else None
        kind = "" if weight is None else weight.node.kind_
        if weight is not None and kind.startswith("quantized::") and kind.endswith("_prepack"):
            if weight.type.kind == "Tensor":
                _rows(node, weight, kind.removesuffix("_prepack"))


def _rows(node: Node, weight: Value, operator: str) -> None:
    names = roles.arguments(node)
    for name, kept in (("padding_idx", (None, -1)), ("mode", ("sum", 0))):
        known, found = constant(names[name]) if name in names else (True, kept[0])
        if not known or found not in kept:
            fail(RuntimeError, "quantize_jit", f"{kept[0]} as {name} was required (Expected aten::embedding_bag {name} "
                 f"input to be {kept[0]})", found, hint="leave that layer out: {'name': None}")  # fmt: skip
    make = Builder(node)
    none, no, zero = (make.constant(v, t) for v, t in ((None, T.NONE), (False, T.BOOL), (0, T.INT)))
    given = [
        weight, names["indices"] if "indices" in names else node.inputs_[0], names.get("offsets", none),
        names.get("scale_grad_by_freq", no), zero, no, names.get("per_sample_weights", none), none,
        names.get("include_last_offset", no),
    ]  # fmt: skip
    made = make.call(f"{operator}_rowwise_offsets", *given)
    node.outputs_[0].replaceAllUsesWith(made)
    node.destroy()
