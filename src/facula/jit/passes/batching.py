"""Products of matrices that are computed as one: sums of products, products with one matrix in common; tasks and
layers that are written out or put together.

Takes a graph. Gives it with fewer nodes.
Keeps true: only products are put together that nobody writes to, nor to what they read; where shapes or dtypes of
what is given do not allow for one product, each is computed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.jit.ir import Block, Graph, Node, Value
from facula.jit.ir_editing import copied_node
from facula.jit.passes.aliases import Aliases
from facula.jit.passes.cleaning import dce
from facula.jit.passes.constants import constant
from facula.jit.passes.rewriting import Match, rewrite
from facula.jit.running import RUNS
from facula.ops.table.registry import F
from facula.ops.table.schemas import types as T

__all__ = ["batch_mm", "fuse_linear", "inline_fork_wait"]

#: as many products in a sum are worth copying matrices for
TREE = 4
#: as many products with one matrix
SIDE = 8


# ------------------------------------------------------------------ products of matrices


def batch_mm(graph: Graph) -> None:
    """Sums of products, and products with a matrix in common, become nodes of one product each.

    Args:
        graph: the graph to change
    """
    aliases = Aliases(graph)
    for block in list(graph.all_blocks()):
        _sums(block, aliases)
        for side in (0, 1):
            _sides(block, aliases, side)
    dce(graph)


def _is_free(node: Node, aliases: Aliases) -> bool:
    """Whether nobody writes to what a product reads, and to the product."""
    if node.kind_ != "aten::mm":
        return False
    return not any(aliases.has_writers(v) for v in (*node.inputs_, *node.outputs_))


def _leaves(value: Value, block: Block, aliases: Aliases) -> list[Node] | None:
    """The products that a value is the sum of; None of anything else."""
    node = value.node
    if node.block is not block:
        return None
    if node.kind_ == "aten::mm":
        return [node] if _is_free(node, aliases) else None
    if node.kind_ != "aten::add" or aliases.has_writers(value):
        return None
    if len(node.inputs_) > 2 and constant(node.inputs_[2]) != (True, 1):
        return None
    left, right = (_leaves(v, block, aliases) for v in node.inputs_[:2])
    return None if left is None or right is None else left + right


def _sums(block: Block, aliases: Aliases) -> None:
    inside: set[Value] = set()
    for node in reversed(list(block.nodes_)):
        if node.kind_ != "aten::add":
            continue
        found = _leaves(node.outputs_[0], block, aliases)
        if node.outputs_[0] in inside:
            inside.update(node.inputs_[:2])
            continue
        if found is None or len(found) < TREE:
            continue
        inside.update(node.inputs_[:2])
        given = [n.inputs_[side] for side in (0, 1) for n in found]
        made = Node(block, "prim::MMTreeReduce", given, [T.TENSOR], place=node.place)
        made.insertBefore(node)
        node.outputs_[0].replaceAllUsesWith(made.outputs_[0])


def _sides(block: Block, aliases: Aliases, side: int) -> None:
    groups: dict[Value, list[Node]] = {}
    for node in block.nodes_:
        if _is_free(node, aliases):
            groups.setdefault(node.inputs_[side], []).append(node)
    for common, nodes in groups.items():
        first = block.nodes_.index(nodes[0])
        there = set(block.nodes_[:first])
        nodes = [n for n in nodes if _is_there(n.inputs_[1 - side], block, there)]
        if len(nodes) < SIDE:
            continue
        given = [common, *(n.inputs_[1 - side] for n in nodes)]
        types = [T.TENSOR] * len(nodes)
        made = Node(block, "prim::MMBatchSide", given, types, {"side": side}, nodes[0].place)
        made.insertBefore(block.nodes_[first])
        for node, value in zip(nodes, made.outputs_, strict=True):
            node.outputs_[0].replaceAllUsesWith(value)
            node.destroy()


def _is_there(value: Value, block: Block, before: set[Node]) -> bool:
    """Whether a value exists where those nodes of a block have run."""
    return value.node in before or value in block.parameters or value.node.block is not block


def _alike(matrices: list[Any], along: int) -> bool:
    """Whether matrices can be parts of one."""
    first = matrices[0]
    return all(
        m.dim() == 2 and m.dtype is first.dtype and m.device == first.device and not m.is_sparse
        and m.shape[1 - along] == first.shape[1 - along]
        for m in matrices
    )  # fmt: skip


def _tree(node: Node) -> Callable[..., Any]:
    """The sum of products: one product of the matrices side by side."""
    count = len(node.inputs_) // 2

    def run(*given: core.Tensor) -> Any:
        left, right = list(given[:count]), list(given[count:])
        pairs = list(zip(left, right, strict=True))
        fits = all(a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0] for a, b in pairs)
        if fits and _alike(left, 1) and _alike(right, 0) and left[0].dtype is right[0].dtype:
            return F.mm(F.cat(left, 1), F.cat(right, 0))
        total = F.mm(*pairs[0])
        for a, b in pairs[1:]:
            total = total + F.mm(a, b)
        return total

    return run


def _side(node: Node) -> Callable[..., Any]:
    """Products with one matrix: one product, in parts."""
    side = node.attributes["side"]

    def run(common: core.Tensor, *others: core.Tensor) -> Any:
        along = 1 - side
        if not _alike(list(others), along):
            return [F.mm(x, common) if side else F.mm(common, x) for x in others]
        whole = F.cat(list(others), along)
        made = F.mm(whole, common) if side else F.mm(common, whole)
        return list(F.split(made, [x.shape[along] for x in others], along))

    return run


RUNS["prim::MMTreeReduce"] = _tree
RUNS["prim::MMBatchSide"] = _side


# ------------------------------------------------------------------ tasks


def inline_fork_wait(graph: Graph) -> None:
    """Tasks that are waited for are written out where they were started.

    Args:
        graph: the graph to change
    """
    while any(_written_out(n) for n in list(graph.all_nodes()) if n.kind_ == "prim::fork"):
        pass


def _written_out(fork: Node) -> bool:
    future = fork.outputs_[0]
    users = [use.user for use in future.uses()]
    function = fork.attributes.get("function")
    inner = getattr(function.compiled(), "_graph", None) if function is not None else None
    waits = users and all(u is not None and u.kind_ == "aten::wait" for u in users)
    if not isinstance(inner, Graph) or not waits or len(inner.results) != 1:
        return False
    values = dict(zip(inner.parameters, fork.inputs_, strict=True))
    for node in inner.nodes_:
        copied_node(node, fork.block, values).insertBefore(fork)
    result = values[inner.results[0]]
    for wait in users:
        wait.outputs_[0].replaceAllUsesWith(result)
        wait.destroy()
    fork.destroy()
    return True


# ------------------------------------------------------------------ layers

_SUM = """
graph(%input, %weight, %bias, %alpha):
  %turned = aten::t(%weight)
  %product = aten::matmul(%input, %turned)
  %sum = aten::{add}(%product, %bias, %alpha)
  return (%sum)"""
_SUM_MADE = """
graph(%input, %weight, %bias, %alpha):
  %linear = aten::linear(%input, %weight, %bias)
  return (%linear)"""
_ADDMM = """
graph(%bias, %input, %weight, %beta, %alpha):
  %turned = aten::t(%weight)
  %product = aten::addmm(%bias, %input, %turned, %beta, %alpha)
  return (%product)"""
_ADDMM_MADE = """
graph(%bias, %input, %weight, %beta, %alpha):
  %linear = aten::linear(%input, %weight, %bias)
  return (%linear)"""
_PRODUCT = """
graph(%input, %weight):
  %turned = aten::t(%weight)
  %product = aten::matmul(%input, %turned)
  return (%product)"""
_PRODUCT_MADE = """
graph(%input, %weight):
  %none : NoneType = prim::Constant()
  %linear = aten::linear(%input, %weight, %none)
  return (%linear)"""


def _is_plain(match: Match, values: dict[str, Value]) -> bool:
    """Whether a sum has no factors, and adds a row."""
    factors = [values[n] for n in ("alpha", "beta") if n in values]
    shape = getattr(values["bias"].type, "shape", None)
    one = all(constant(f) == (True, 1) for f in factors)
    return one and values["bias"].type.kind == "Tensor" and (shape is None or len(shape) == 1)


def fuse_linear(graph: Graph) -> None:
    """A product with a transposed weight, and the bias that is added, become a linear layer.

    Args:
        graph: the graph to change
    """
    pairs = [("linear", "product")]
    for add in ("add_", "add"):
        rewrite(_SUM.format(add=add), _SUM_MADE, graph, pairs, [_is_plain])
    rewrite(_ADDMM, _ADDMM_MADE, graph, pairs, [_is_plain])
    rewrite(_PRODUCT, _PRODUCT_MADE, graph, pairs)
