"""Attention written by hand, in captured graphs: one call of `scaled_dot_product_attention`.

Takes: a captured graph whose nodes have `meta["val"]`.
Gives: the number of places where `softmax(q @ k.mT * scale + mask) @ v` was found and replaced.
Keeps true: only what is attention is touched: softmax over the last dimension, a scale that is a
number, a mask that is added or fills with -inf, no other reader of anything in between, no dropout
(whose numbers would be others).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from facula import core
from facula.fx import Graph, Node
from facula.ops.table.registry import PLACES

Tensor = core.Tensor

_PRODUCTS = frozenset(("matmul", "bmm"))
_DIVISIONS = frozenset(("div", "true_divide"))
#: Python's names of operators
_PYTHON = {
    "__matmul__": "matmul",
    "__add__": "add",
    "__radd__": "add",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "truediv": "div",
}


def _name(node: Node) -> str:
    """What a node calls, by the first of an operator's names; empty for anything but a call."""
    if not isinstance(node, Node) or node.op not in ("call_function", "call_method"):
        return ""
    target = node.target
    if node.op == "call_method":
        target = PLACES["Tensor"].get(target, target)
    target = core.operator_of(target)
    name = target if isinstance(target, str) else str(getattr(target, "__name__", ""))
    return _PYTHON.get(name, name)


def _val(node: Node) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _argument(node: Node, position: int, name: str, default: object = None) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, default)


def _number(value: float) -> float | None:
    return float(value) if type(value) in (int, float) else None


@dataclass(slots=True)
class _Found:
    query: Node
    key: Node
    value: Node
    scale: float
    mask: Any
    fills: bool
    transposed: bool
    result: Node


def recognise_attention(graph: Graph) -> int:
    """Replace attention written by hand; gives how often."""
    count = 0
    for node in list(graph.nodes):
        found = _attention_at(node) if _name(node) == "softmax" else None
        if found is not None:
            _replace(graph, found)
            count += 1
    if count:
        graph.eliminate_dead_code()
    return count


def _attention_at(softmax: Node) -> _Found | None:
    """The attention whose weights a softmax gives, if it is one."""
    value = _val(softmax)
    scores = softmax.args[0] if softmax.args else None
    dim = _argument(softmax, 1, "dim", _argument(softmax, 1, "axis"))
    if not isinstance(value, Tensor) or not isinstance(scores, Node) or type(dim) is not int:
        return None
    source = _val(scores)
    if (
        value.dim() < 2
        or dim % value.dim() != value.dim() - 1
        or source is None
        or source.dtype != value.dtype
    ):
        return None
    result = _only_user(softmax)
    if result is None or _name(result) not in _PRODUCTS or result.args[0] is not softmax:
        return None
    inner = _scores(scores)
    if inner is None:
        return None
    product, scale, mask, fills = inner
    key, transposed = _without_transposition(product.args[1])
    found = _Found(product.args[0], key, result.args[1], scale, mask, fills, transposed, result)
    return found if _fits(found) else None


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _scores(node: Node) -> tuple[Node, float, Any, bool] | None:
    """The product behind scores, its scale, and the mask with whether it fills."""
    scale, mask, fills = 1.0, None, False
    scaled = False
    while True:
        if len(node.users) != 1:
            return None
        name = _name(node)
        if name in _PRODUCTS:
            return (node, scale, mask, fills) if len(node.args) == 2 else None
        step = _scale_step(node, name)
        if step is not None:
            node, factor = step
            scale, scaled = scale * factor, True
            continue
        masked = None if mask is not None or scaled else _mask_step(node, name)
        if masked is None:
            return None
        node, mask, fills = masked


def _scale_step(node: Node, name: str) -> tuple[Node, float] | None:
    """What is scaled by a number, and the number."""
    if len(node.args) != 2 or node.kwargs:
        return None
    first, second = node.args
    if name == "mul":
        inner, factor = (first, second) if isinstance(first, Node) else (second, first)
        number = _number(factor)
    elif name in _DIVISIONS:
        inner, number = first, _number(second)
        number = 1.0 / number if number else None
    else:
        return None
    return (inner, number) if isinstance(inner, Node) and number is not None else None


def _mask_step(node: Node, name: str) -> tuple[Node, Any, bool] | None:
    """What is masked, the mask, and whether it says what is filled with -inf."""
    shape = tuple(_val(node).shape)
    if name == "add" and len(node.args) == 2 and not node.kwargs:
        for inner, mask in (node.args, node.args[::-1]):
            value, own = _val(mask), _val(inner)
            if not isinstance(value, Tensor) or not isinstance(own, Tensor):
                continue
            if tuple(own.shape) == shape and value.dtype == own.dtype and _is_scores(inner):
                return inner, mask, False
    if name == "masked_fill" and len(node.args) == 3:
        inner, mask, value = node.args
        if _number(value) == float("-inf") and isinstance(_val(mask), Tensor):
            return (inner, mask, True) if isinstance(inner, Node) else None
    return None


def _is_scores(node: Node) -> bool:
    """Whether a node is a product, maybe scaled."""
    while isinstance(node, Node):
        name = _name(node)
        if name in _PRODUCTS:
            return True
        step = _scale_step(node, name)
        if step is None:
            return False
        node = step[0]
    return False


def _without_transposition(node: Node) -> tuple[Any, bool]:
    """The matrix behind a transposition of the last two dimensions; else the node itself."""
    value, name = _val(node), _name(node)
    if not isinstance(value, Tensor):
        return node, False
    rank = value.dim()
    if name in ("transpose", "swapaxes") and len(node.args) == 3:
        if {d % rank for d in node.args[1:] if type(d) is int} == {rank - 2, rank - 1}:
            return node.args[0], True
    if name == "permute":
        dims = node.args[1] if len(node.args) == 2 else node.args[1:]
        wanted = [*range(rank - 2), rank - 1, rank - 2]
        if isinstance(dims, (tuple, list)) and [d % rank for d in dims] == wanted:
            return node.args[0], True
    if name == "getattr" and node.args[1] == "mT":
        return node.args[0], True
    return node, False


def _fits(found: _Found) -> bool:
    """Whether the operator takes these tensors: one dtype, three or four dimensions, equal batches."""
    q, k, v = _val(found.query), _val(found.key), _val(found.value)
    if not all(isinstance(x, Tensor) and x.dtype.is_floating_point for x in (q, k, v)):
        return False
    if not (q.dtype == k.dtype == v.dtype and q.dim() == k.dim() == v.dim() and q.dim() in (3, 4)):
        return False
    return tuple(q.shape[:-2]) == tuple(k.shape[:-2]) == tuple(v.shape[:-2])


def _replace(graph: Graph, found: _Found) -> None:
    attention = PLACES["nn.functional"]["scaled_dot_product_attention"]
    with graph.inserting_before(found.result):
        key = found.key
        if not found.transposed:
            key = graph.call_method("transpose", (key, -2, -1))
            key.meta["val"] = _val(found.key).transpose(-2, -1)
        options: dict[str, Any] = {"scale": found.scale}
        if found.mask is not None:
            mask = found.mask
            if found.fills:
                mask = graph.call_function(operator.invert, (mask,))
                mask.meta["val"] = _val(found.mask)
            options["attn_mask"] = mask
        made = graph.call_function(attention, (found.query, key, found.value), options)
    made.meta = dict(found.result.meta)
    found.result.replace_all_uses_with(made)
