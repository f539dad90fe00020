"""Layer norms as their formula, where the result needs no memory.

Takes and gives a flat graph with metas.
Keeps true: only where the graph computes the rows' statistics by operators already, as gradients do
that may be differentiated again, and where everything that reads the result can be fused with it:
then forward need not write the result for backward, which has it from the input again.
"""

from __future__ import annotations

import operator

from facula import core
from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.small_products import Writer
from facula.ops.table.registry import F

#: kinds of definitions that loops fuse
_FUSED = frozenset({"pointwise", "reduction", "view"})


def write_norms_as_formulas(graph: Graph) -> int:
    """Take such layer norms apart; gives how many."""
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or table.operator_of(node.target) is not F.native_layer_norm:
            continue
        users = list(node.users)
        if any(user.target is not operator.getitem or user.args[1] != 0 for user in users):
            continue
        if not (_suits(node) and all(_is_fused(reader) for user in users for reader in user.users)):
            continue
        # a formula's result lies as its input does, what reads it was traced for the operator's
        if users and users[0].meta["val"].stride() != node.args[0].meta["val"].stride():
            continue
        result = _formula(Writer(graph, node), node)
        for user in users:
            user.replace_all_uses_with(result)
            graph.erase_node(user)
        graph.erase_node(node)
        count += 1
    return count


def _suits(node: Node) -> bool:
    """Whether the statistics are there by operators, in the input's dtype."""
    x = node.args[0]
    value = x.meta["val"]
    if value.dtype not in (core.float32, core.float64) or len(node.args) != 5:
        return False
    dims = _dims(node)
    return any(
        user.op == "call_function"
        and table.operator_of(user.target) is F.mean
        and [tuple(d) for d in user.args[1:2]] == [dims]
        and value.shape != user.meta["val"].shape
        for user in x.users
    )


def _dims(node: Node) -> tuple[int, ...]:
    rank = node.args[0].meta["val"].dim()
    return tuple(range(rank - len(node.args[1]), rank))


def _is_fused(node: Node) -> bool:
    definition = table.definition_of(node)
    return definition is not None and definition.kind in _FUSED


def _formula(write: Writer, node: Node) -> Node:
    x, _, weight, bias, eps = node.args
    dims = _dims(node)
    centred = write(F.sub, x, write(F.mean, x, dims, True))
    variance = write(F.mean, write(F.mul, centred, centred), dims, True)
    result = write(F.mul, centred, write(F.rsqrt, write(F.add, variance, eps)))
    if weight is not None:
        result = write(F.mul, result, weight)
    return result if bias is None else write(F.add, result, bias)
