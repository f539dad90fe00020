"""Quantized programs of plain tensors (PT2E) as integer kernels: a pass over flat graphs without gradients.

Takes: a flat graph with `to_numbers`: bytes that become numbers, which are multiplied with numbers of signed bytes.
Gives: `integer_products`: such products of bytes themselves, with weights packed ahead; `products.FOLLOWERS`: what
stands between a product and the next bytes (limits, a sum with other bytes, rounding) as a part of it.
Keeps true: which operators multiply is said by their definitions (`Definition.weighted`); only weights that a module
owns are packed; sums are exact, and rounded as by PyTorch's kernels for such graphs: once, in float32.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from facula import core
from facula.capture import events
from facula.fx import Graph, Node
from facula.lower import table
from facula.lower.passes.epilogues import Builder, frozen_nodes, given_to
from facula.ops.table.registry import F
from facula.quantization import create, products, rules

__all__ = ["integer_products"]


def integer_products(graph: Graph) -> int:
    """Products of numbers that are bytes, as products of the bytes; gives how many there were."""
    frozen = frozen_nodes(graph)
    count = _pools(graph)
    for node in list(graph.nodes):
        definition = table.definition_of(node) if node.op == "call_function" else None
        form = None if definition is None else _FORMS.get(definition.weighted)
        made = None if form is None else _product(graph, node, form, frozen)
        if made is not None:
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            count += 1
    events.COUNTERS["inductor"]["integer_operators"] += count
    return count


def _pools(graph: Graph) -> int:
    """Maxima of numbers that were bytes and become the same bytes, as maxima of the bytes."""
    count = 0
    for node in list(graph.nodes):
        if not _calls(node, create.to_integers):
            continue
        value, scale, zero, _, low, high, dtype = given_to(node)
        first = value.args[0] if value.target is operator.getitem and value.args[1] == 0 else None
        if not _calls(first, F._max_pool):
            continue
        x, *windows, _, _ = given_to(first)
        x = _source(x)
        own = given_to(x) if _calls(x, create.to_numbers) else None
        if own is None or own[1:] != [scale, zero] or own[0].meta["val"].dtype is not dtype:
            continue
        if len(windows[0]) == 2 and (low, high) == (0, 255) and dtype is core.uint8:
            size = tuple(value.meta["val"].shape[2:])
            made = Builder(graph, node)(rules.greatest, own[0], *windows, size)
            made.meta = dict(node.meta)
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            count += 1
    return count


def _calls(node: Node, function: Callable[..., Any]) -> bool:
    return (
        isinstance(node, Node)
        and node.op == "call_function"
        and table.operator_of(node.target) is function
    )


def _source(node: Node) -> Any:
    """A value behind its copies in another order of memory."""
    while _calls(node, F.clone) and node.args[0].meta["val"].dtype is node.meta["val"].dtype:
        node = node.args[0]
    return node


def _weight(node: Node, frozen: set[Node]) -> tuple[Any, Any, Any] | None:
    """Signed bytes of rows, their scales and zero points (None: 0), of a weight that is such numbers."""
    node = _source(node)
    if not isinstance(node, Node) or node not in frozen:
        return None
    if _calls(node, create.to_numbers):
        integers, scale, zero = given_to(node)
        found = (integers, float(scale), None) if zero == 0 else None
    elif _calls(node, create.channel_numbers):
        integers, scale, zero, axis = given_to(node)
        found = (integers, scale, zero) if axis == 0 else None
    else:
        return None
    return found if integers.meta["val"].dtype is core.int8 else None


def _product(graph: Graph, node: Node, form: Callable[..., Any], frozen: set[Node]) -> Any:
    """The product of bytes in the place of one of numbers; None where it is none."""
    image, weight, bias, *settings = given_to(node)
    image, found = _source(image), _weight(weight, frozen)
    if found is None or not _calls(image, create.to_numbers):
        return None
    x, scale, zero = given_to(image)
    if x.meta["val"].dtype is not core.uint8 or not float(zero).is_integer():
        return None
    if bias is not None and (bias not in frozen or bias.meta["val"].dim() != 1):
        return None
    return form(Builder(graph, node), (x, float(scale), int(zero)), found, bias, settings, node)


def _rows_form(
    build: Builder,
    given: object,
    weight: core.Tensor,
    bias: core.Tensor,
    settings: list[Any],
    node: Node,
) -> Any:
    size = tuple(node.meta["val"].shape)
    if weight[0].meta["val"].dim() != 2 or not math.prod(size):
        return None
    return _built(build, given, weight, bias, size, (), 1)


def _image_form(
    build: Builder,
    given: Any,
    weight: core.Tensor,
    bias: core.Tensor,
    settings: list[Any],
    node: Node,
) -> Any:
    stride, padding, dilation, groups, _ = settings
    size, image = tuple(node.meta["val"].shape), given[0].meta["val"]
    kernel = weight[0].meta["val"].shape
    apart = kernel[1] == 1 and groups == kernel[0]  # its kernel takes no zero points
    if image.dim() not in (4, 5) or not math.prod(size) or apart and weight[2] is not None:
        return None
    geometry: list[int] = []
    lists = ((image.shape[2:], 1), (image.shape[1:2], None), (size[2:], 1), (kernel[2:], 1),
             (stride, 1), (padding, 0), (dilation, 1))  # fmt: skip
    for values, fill in lists:
        geometry += values if fill is None else [*[fill] * (3 - len(values)), *values]
    return _built(build, given, weight, bias, size, tuple(geometry), groups)


#: by `Definition.weighted`
_FORMS = {"rows": _rows_form, "image": _image_form}


def _built(
    build: Builder, given: Any, weight: Any, bias: Any, size: Any, places: Any, groups: int
) -> Any:
    """The call of the product, as numbers; before it what follows from the weight alone."""
    (x, scale, zero), (integers, scales, zeros) = given, weight
    whole, each = (scales, None) if isinstance(scales, float) else (1.0, scales)
    made = build(
        products.product,
        x,
        build(products.packed_weight, integers, groups, zeros is None),
        build(products.weight_base, integers, zeros, zero),
        build(products.weight_multiplier, integers, each, whole, scale, 1.0),
        build(products.weight_shift, integers, each, whole, scale, bias, False),
        None if zeros is None else build(products.weight_zeros, zeros),
        None,
        size,
        (*places, groups, zero),
        (float("-inf"),),
        core.float32,
    )
    return made


# ------------------------------------------------------------------ what follows

_MULTIPLIER, _SHIFT = 3, 4


def _of_weight(given: list[Any]) -> bool:
    """Whether the arguments are those of a product that `_built` made, as numbers."""
    plain = given[products.ADDED] is None and given[products.DTYPE] is core.float32
    return plain and _calls(given[_MULTIPLIER], products.weight_multiplier)


def _scaled(build: Builder, given: list[Any], y_scale: float) -> None:
    """Let a product multiply as one of integers does."""
    *rest, _ = given_to(given[_MULTIPLIER])
    given[_MULTIPLIER] = build(products.weight_multiplier, *rest, y_scale)
    *rest, _ = given_to(given[_SHIFT])
    given[_SHIFT] = build(products.weight_shift, *rest, True)


def _as_bytes(build: Builder, given: list[Any], arguments: list[Any], at: int) -> Any:
    """A product of numbers that become bytes."""
    _, scale, zero, _, low, high, dtype = arguments
    (least,) = given[products.LIMITS]
    if not _of_weight(given) or dtype not in (core.uint8, core.int8) or least not in _LEAST:
        return None
    _scaled(build, given, scale)
    low = max(low, zero) if least == 0 else low
    given[products.LIMITS] = (float(zero), float(low), float(high))
    given[products.DTYPE] = dtype
    return build(products.product, *given)


#: what numbers are at least: with relu behind the product, and without
_LEAST = (0.0, float("-inf"))


def _not_negative(build: Builder, given: list[Any], arguments: list[Any], at: int) -> Any:
    if given[products.DTYPE] is not core.float32 or given[products.ADDED] is not None:
        return None
    given[products.LIMITS] = (max(0.0, given[products.LIMITS][0]),)
    return build(products.product, *given)


def _with_sum(build: Builder, given: list[Any], arguments: list[Any], at: int) -> Any:
    """A product, a sum with numbers that are bytes, maybe relu, and bytes again: one product."""
    other = _source(arguments[1 - at]) if at < 2 else None
    if (
        not _of_weight(given)
        or tuple(given[products.LIMITS]) != (float("-inf"),)
        or arguments[2] != 1
    ):
        return None
    last, least = _only_user(build.before), float("-inf")
    if last is not None and _calls(last, F.relu):
        last, least = _only_user(last), 0.0
    if not (_calls(last, create.to_integers) and _calls(other, create.to_numbers)):
        return None
    (added, more, offset), (_, scale, zero, _, low, high, dtype) = given_to(other), given_to(last)
    x, value = added.meta["val"], build.before.meta["val"]
    if x.dtype is not dtype or x.shape != value.shape or given[1].meta["val"].dim() == 2:
        return None
    build.before = last
    _scaled(build, given, 1.0)
    given[products.ADDED], given[products.DTYPE] = added, dtype
    of_sum = (1.0, more, offset, scale, zero, float(low), float(high), least, 0.0)
    given[products.LIMITS] = (0.0, float("-inf"), float("inf"), *of_sum)
    return build(products.product, *given)


def _only_user(node: Node) -> Any:
    return next(iter(node.users)) if len(node.users) == 1 else None


products.FOLLOWERS[create.to_integers] = _as_bytes
products.FOLLOWERS[F.relu] = _not_negative
products.FOLLOWERS[F.add] = _with_sum
