"""Operators of which gradients can be had for each entry: the backward pass of one entry, mapped over the batch.

Takes a call with expanded weights. Gives its result. Keeps true: the derivative is that of the operator itself, so
there is none to write per operator; an operator is here if its result for an entry depends on that entry alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from facula import core
from facula.autograd.function import Function
from facula.autograd.grad_mode import enable_grad
from facula.autograd.transforms import vjp, vmap
from facula.core.errors import fail
from facula.nn import functional
from facula.nn.utils._expanded_weights.expanded_weights_utils import (
    check_inputs,
    forward_helper,
    is_expanded,
    set_grad_sample_if_exists,
    unpack_expanded_weight_or_tensor,
)


def _given(gradients: core.Tensor, weight: object) -> core.Tensor:  # noqa: ARG001 - what is asked about
    """Gradients that are known already."""
    return gradients


def _refuse(name: str, text: str, hint: str) -> None:
    fail(RuntimeError, name, f"Expanded Weights: {text}", hint=hint)


def _check_linear(given: dict[str, Any]) -> None:
    if given["input"].dim() < 2:
        text = "an input with a batch dimension was required (rank 2 or more)"
        _refuse("linear", text, "unsqueeze(0) is a batch of one")


def _check_convolution(given: dict[str, Any]) -> None:
    if given["input"].dim() != given["weight"].dim():
        text = "convolutions of a batch were required (unbatched input)"
        _refuse("convolution", text, "unsqueeze(0) is a batch of one")


def _check_embedding(given: dict[str, Any]) -> None:
    if given["input"].dim() < 2:
        text = "indices with a batch dimension were required (rank 2 or more)"
        _refuse("embedding", text, "unsqueeze(0) is a batch of one")


def _check_layer_norm(given: dict[str, Any]) -> None:
    if given["input"].dim() <= len(given["normalized_shape"]):
        text = "a layer norm that does not normalize over the batch was required"
        _refuse("layer_norm", text, "normalized_shape leaves out the first dimension")


def _check_instance_norm(given: dict[str, Any]) -> None:
    if not given.get("use_input_stats", True):
        text = "statistics of the input were required"
        _refuse("instance_norm", text, "use_input_stats=True, or a layer in training mode")


def _nothing(given: dict[str, Any]) -> None:
    """Any batch will do."""


#: the operators, and what must hold of their arguments
SUPPORTED: dict[Any, Callable[[dict[str, Any]], None]] = {
    core.operator_of(getattr(functional, name)): check
    for name, check in {
        "linear": _check_linear,
        "conv1d": _check_convolution,
        "conv2d": _check_convolution,
        "conv3d": _check_convolution,
        "embedding": _check_embedding,
        "group_norm": _nothing,
        "instance_norm": _check_instance_norm,
        "layer_norm": _check_layer_norm,
    }.items()
}


def _named(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by their names, the input as `input`."""
    names = [p.name for p in operator.definition.schema.parameters]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    first = names[0]
    if first in given:
        given = {"input": given.pop(first), **given}
    return given


class _Call(Function):
    """One call: backward gives the input's gradient, and puts those of the weights on their parameters."""

    @staticmethod
    def forward(ctx: Any, operator: Any, given: dict[str, Any], input: Any, *weights: Any) -> Any:  # noqa: A002, ARG004
        ctx.operator, ctx.given = operator, given
        ctx.save_for_backward(input)
        rest = {k: v for k, v in given.items() if k != "input"}
        return forward_helper(operator, (input,), rest)

    @staticmethod
    def backward(ctx: Any, grad: core.Tensor) -> Any:
        (input,) = ctx.saved_tensors  # noqa: A001
        expanded = {k: v for k, v in ctx.given.items() if is_expanded(v)}
        fixed = {k: v for k, v in ctx.given.items() if k not in expanded and k != "input"}
        for name in ("max_norm", "running_mean", "running_var"):
            if name in fixed:
                fixed[name] = None  # the forward pass has written what it writes
        weights = {k: v.orig_weight.detach() for k, v in expanded.items()}
        above = None
        with enable_grad():
            if ctx.needs_input_grad[2]:
                above = vjp(lambda x: ctx.operator(x, **weights, **fixed), input)[1](grad)[0]

            def one(entry: Any, cotangent: Any) -> Any:
                whole = entry.unsqueeze(0)
                back = vjp(lambda w: ctx.operator(whole, **w, **fixed), weights)[1]
                return back(cotangent.unsqueeze(0))[0]

            found = vmap(one)(input.detach(), grad)
        for name, weight in expanded.items():
            gradients = found[name].detach()
            set_grad_sample_if_exists(weight, functools.partial(_given, gradients))
        return (None, None, above, *(None for _ in expanded))


def run(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a supported operator in which a weight is expanded."""
    given = _named(operator, args, kwargs)
    if isinstance(given.get("input"), core.Tensor):
        SUPPORTED[operator](given)
    check_inputs(operator, (given.get("input"),), {k: v for k, v in given.items() if k != "input"})
    for name, value in given.items():
        if name != "input":
            unpack_expanded_weight_or_tensor(value)
    weights = [v for v in given.values() if is_expanded(v)]
    return _Call.apply(operator, given, given["input"], *(w.orig_weight for w in weights))
