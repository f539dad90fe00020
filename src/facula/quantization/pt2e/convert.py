"""Observed graphs as graphs of integers: quantization and its inverse in the place of observers.

Takes: a graph from `prepare`. Gives: the same with `quantized_decomposed` operators. Keeps true: whoever takes a number
that was an integer has an inverse of its own, so that compilers see each pair; constant weights are integers.
"""

from __future__ import annotations

import operator
from typing import Any

from facula import ops
from facula.fx import Node
from facula.quantization.fake_quantize import FakeQuantizeBase
from facula.quantization.observer import _PLAIN, ObserverBase, PlaceholderObserver
from facula.quantization.pt2e.canonical import _constant, value_of
from facula.quantization.pt2e.prepare import DerivedObserver
from facula.quantization.tensor import PER_CHANNEL, RANGES, per_channel_symmetric

__all__ = ["convert", "is_observer"]

_CHANNELS = (*PER_CHANNEL, per_channel_symmetric)


def is_observer(module: object) -> bool:
    """Whether a module observes, or pretends to quantize."""
    return isinstance(module, (ObserverBase, FakeQuantizeBase))


def _limits(observer: Any) -> tuple[int, int, Any]:
    """The least and the greatest integer, and their dtype."""
    kind = observer.dtype
    kept, low, high = RANGES[kind] if kind in RANGES else (kind, *_PLAIN[kind])
    least, most = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    return (low if least is None else least), (high if most is None else most), kept


def _parameters(model: Any, node: Node, observer: Any) -> tuple[str, tuple[Any, ...]]:
    """The word of the operators, and what they take between the tensor and the range."""
    if getattr(observer, "is_dynamic", False) or isinstance(observer, PlaceholderObserver):
        low, high, kind = _limits(observer)
        choose = ops.quantized_decomposed.choose_qparams.default
        eps = float(getattr(observer, "eps", None) or 2**-12)
        both = model.graph.call_function(choose, (node.args[0], low, high, eps, kind))
        get = operator.getitem
        return "tensor", tuple(model.graph.call_function(get, (both, at)) for at in (0, 1))
    scale, zero = observer.calculate_qparams()
    if observer.qscheme in _CHANNELS:
        scales = _constant(model, node, "_scale", scale.detach().clone())
        zeros = _constant(model, node, "_zero_point", zero.detach().clone())
        return "channel", (scales, zeros, int(observer.ch_axis))
    return "tensor", (float(scale), int(zero))


def _convert_node(model: Any, node: Node, observer: object) -> None:
    low, high, kind = _limits(observer)
    users = list(node.users)
    with model.graph.inserting_before(node):
        word, parameters = _parameters(model, node, observer)
        words = ops.quantized_decomposed
        to = getattr(words, f"quantize_per_{word}").default
        back = getattr(words, f"dequantize_per_{word}").default
        rest = (*parameters, low, high, kind)
        integers = model.graph.call_function(to, (node.args[0], *rest))
    for user in users:
        with model.graph.inserting_before(user):
            numbers = model.graph.call_function(back, (integers, *rest))
        user.replace_input_with(node, numbers)
    model.graph.erase_node(node)


def _fold_weights(model: Any) -> None:
    """Constants that are quantized are kept as integers."""
    words = ops.quantized_decomposed
    for node in list(model.graph.nodes):
        if node.target not in (
            words.quantize_per_tensor.default,
            words.quantize_per_channel.default,
        ):
            continue
        given = [a for a in node.args if isinstance(a, Node)]
        if not all(a.op == "get_attr" for a in given):
            continue
        values = [value_of(model, a).detach() if isinstance(a, Node) else a for a in node.args]
        frozen = _constant(model, node, "_frozen_param", node.target(*values))
        node.replace_all_uses_with(frozen)
        model.graph.erase_node(node)


def convert(model: Any, fold_quantize: bool) -> None:
    """Put operators in the place of observers; `fold_quantize`: weights become integers now."""
    modules = dict(model.named_modules(remove_duplicate=False))
    found = [
        (node, modules[node.target])
        for node in model.graph.nodes
        if node.op == "call_module" and is_observer(modules[node.target])
    ]
    # parameters that follow from those of others are asked for while these are there
    for node, observer in found:
        if not isinstance(observer, DerivedObserver):
            _convert_node(model, node, observer)
    for node, observer in found:
        if isinstance(observer, DerivedObserver):
            _convert_node(model, node, observer)
    if fold_quantize:
        _fold_weights(model)
    model.graph.eliminate_dead_code()
    for name in {node.target for node, _ in found}:
        delattr(model, name)
