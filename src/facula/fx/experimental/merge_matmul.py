"""Products with the same right factor become one product.

Takes: a module that can be traced. Gives: a graph module with fewer calls of `matmul`.
Keeps true: what it computes; products that need each other's results stay apart.
"""

from __future__ import annotations

import operator
from typing import Any

from facula import core, nn
from facula.fx._symbolic_trace import symbolic_trace
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.passes.tools_common import legalize_graph
from facula.ops.table.registry import F

#: how far merging looks back for what a product needs
_DEPTH = 50

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: core.Tensor, inputs: list[core.Tensor]) -> tuple[core.Tensor, ...]:
    """Takes a product apart along the rows that its left factors had.

    Args:
        result: the product of the factors one below the other.
        inputs: the factors.

    >>> from facula.fx.experimental.merge_matmul import split_result_tensors
    >>> parts = split_result_tensors(facula.ones(3, 2), [facula.ones(1, 4), facula.ones(2, 4)])
    >>> [part.shape for part in parts]
    [facula.Size([1, 2]), facula.Size([2, 2])]
    """
    return result.split([factor.shape[0] for factor in inputs], 0)


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether a node may need the result of another.

    Args:
        a: the node that may need it.
        b: the other.
        search_depth: how far to look back; beyond, the answer is True.

    >>> from facula.fx.experimental.merge_matmul import may_depend_on
    >>> x, y, z, _ = facula.fx.symbolic_trace(lambda x: x.sin().cos()).graph.nodes
    >>> may_depend_on(z, x), may_depend_on(y, z)
    (True, False)
    """
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(before, b, search_depth - 1) for before in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether no node of a list may need another one's result.

    Args:
        nodes: the nodes.

    >>> from facula.fx.experimental.merge_matmul import are_nodes_independent
    >>> x, y, z, *_ = facula.fx.symbolic_trace(lambda x: x.sin() + x.cos()).graph.nodes
    >>> are_nodes_independent([y, z]), are_nodes_independent([x, y])
    (True, False)
    """
    return not any(may_depend_on(a, b) for a in nodes for b in nodes if a is not b)


def _merged(gm: GraphModule, products: list[tuple[Node, Node, Node]]) -> None:
    """Makes one product out of several: `(node, left, right)` each."""
    right = products[0][2]
    lefts = [left for _, left, _ in products]
    with gm.graph.inserting_before(products[0][0]):
        rows = gm.graph.call_function(F.cat, (lefts,), {})
        product = gm.graph.call_function(F.matmul, (rows, right), {})
        parts = gm.graph.call_function(split_result_tensors, (product, lefts), {})
        single = [
            gm.graph.call_function(operator.getitem, (parts, place), {})
            for place in range(len(products))
        ]
    for (node, *_), part in zip(products, single, strict=True):
        node.replace_all_uses_with(part)
        gm.graph.erase_node(node)


def merge_matmul(in_mod: nn.Module) -> GraphModule:
    """Makes products with the same right factor one product.

    Args:
        in_mod: the module, whose left factors are matrices.

    >>> from facula.fx.experimental.merge_matmul import merge_matmul
    >>> class Twice(facula.nn.Module):
    ...     def forward(self, x, y, w):
    ...         return facula.matmul(x, w) + facula.matmul(y, w)
    >>> made = merge_matmul(Twice())
    >>> sum(node.target is facula.matmul for node in made.graph.nodes)
    1
    """
    gm = symbolic_trace(in_mod)
    by_factor: dict[Any, list[tuple[Node, Node, Node]]] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target is not F.matmul:
            continue
        if len(node.args) != 2 or node.kwargs or not all(isinstance(a, Node) for a in node.args):
            continue
        left, right = node.args
        # two reads of one attribute are one factor
        key = ("attribute", right.target) if right.op == "get_attr" else right
        by_factor.setdefault(key, []).append((node, left, right))
    for products in by_factor.values():
        nodes = [node for node, *_ in products]
        if len(nodes) == 1 or any(
            may_depend_on(left, node, _DEPTH) for _, left, _ in products for node in nodes
        ):
            continue
        _merged(gm, products)
        legalize_graph(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
