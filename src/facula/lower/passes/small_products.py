"""Small matrix products as sums of products.

Takes and gives a flat graph with metas.
Keeps true: a product is replaced only where the call of a matrix kernel costs more than its work, and
where float sums are at least as exact as the kernel's; sizes, strides and dtypes stay.

What comes out are reductions, which loops fuse with what stands around them: a graph of small layers
becomes one call of the core.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.fx import Graph, Node
from facula.lower import table
from facula.ops.table.overloads import overload_of
from facula.ops.table.registry import F

Tensor = core.Tensor

#: multiplications up to which loops are faster than the call of a kernel
LIMIT = 4096


class Writer:
    """Writes calls in front of a node, with their metas."""

    def __init__(self, graph: Graph, place: Node) -> None:
        self.graph, self.place = graph, place

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        known = [a.meta["val"] if isinstance(a, Node) else a for a in args]
        target = overload_of(function, tuple(known), kwargs)
        with self.graph.inserting_before(self.place):
            node = self.graph.call_function(target, args, kwargs)
        recording = core.set_grad_enabled(False)
        try:
            node.meta["val"] = function(*known, **kwargs)
        finally:
            core.set_grad_enabled(recording)
        if "stack_trace" in self.place.meta:
            node.meta["stack_trace"] = self.place.meta["stack_trace"]
        return node

    def product(self, left: Node, right: Node) -> Node:
        """`left @ right` of tensors of equal rank: rows by columns, the last dimension summed."""
        rows = self(F.unsqueeze, left, -2)
        columns = self(F.unsqueeze, self(F.transpose, right, -2, -1), -3)
        return self(F.sum, self(F.mul, rows, columns), [-1])


def _mm(write: Writer, left: Node, right: Node) -> Node:
    return write.product(left, right)


def _addmm(
    write: Writer, added: Node, left: Node, right: Node, *, beta: int = 1, alpha: int = 1
) -> Node | None:
    if beta != 1 or alpha != 1:
        return None
    return write(F.add, write.product(left, right), added)


def _linear(write: Writer, input: Node, weight: Node, bias: Node | None = None) -> Node:
    rows = write(F.unsqueeze, input, -2)
    found = write(F.sum, write(F.mul, rows, weight), [-1])
    return found if bias is None else write(F.add, found, bias)


#: operator -> its form as sums
FORMS: dict[Any, Callable[..., Node | None]] = {
    F.mm: _mm, F.bmm: _mm, F.addmm: _addmm, F.baddbmm: _addmm, F.linear: _linear,
}  # fmt: skip


def _is_small(node: Node) -> bool:
    """Whether a product has few multiplications, of floats that need no wider sum."""
    tensors = [a.meta.get("val") for a in node.args if isinstance(a, Node)]
    made = node.meta.get("val")
    if not all(isinstance(t, Tensor) and t.dtype in (core.float32, core.float64) for t in tensors):
        return False
    if not isinstance(made, Tensor) or made.device.type != "cpu" or not made.is_contiguous():
        return False
    if any(t.dtype is not made.dtype or t.dim() == 0 or t.numel() == 0 for t in tensors):
        return False
    operator = table.operator_of(node.target)
    if operator is F.linear and tensors[1].dim() != 2:
        return False
    inner = tensors[1 if operator in (F.addmm, F.baddbmm) else 0].shape[-1]
    return 0 < math.prod(made.shape) * inner <= LIMIT


def replace_small_products(graph: Graph) -> int:
    """Write small products as sums; gives how many."""
    count = 0
    for node in list(graph.nodes):
        form = FORMS.get(table.operator_of(node.target)) if node.op == "call_function" else None
        if form is None or not _is_small(node):
            continue
        made = form(Writer(graph, node), *node.args, **node.kwargs)
        if made is None:
            continue
        if made.meta["val"].stride() != node.meta["val"].stride():
            write = Writer(graph, node)
            made = write(Tensor.clone, made, memory_format=core.contiguous_format)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        count += 1
    return count
