"""What all pruners of rows do: mask rows while a model trains, then take them out of it.

Takes: a model that can be traced. Gives: `BaseStructuredSparsifier`; a subclass has `update_mask`.
Keeps true: the pruned model computes what the masked one did.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail
from facula.fx import Node, symbolic_trace
from facula.nn import functional as F
from facula.nn.utils import parametrize

from ...sparsifier.base_sparsifier import BaseSparsifier
from . import prune_functions as ways
from .match_utils import apply_match
from .parametrization import BiasHook, FakeStructuredSparsity, module_contains_param

__all__ = ["BaseStructuredSparsifier"]

_ACTIVATIONS = (
    "ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU Hardshrink "
    "LeakyReLU LogSigmoid Softplus PReLU Softsign Tanhshrink GELU"
).split()
_FUNCTIONS = (
    "relu rrelu hardtanh relu6 sigmoid hardsigmoid tanh silu mish hardswish elu celu selu hardshrink "
    "leaky_relu logsigmoid softplus prelu softsign tanhshrink gelu relu_ elu_ rrelu_ hardtanh_ leaky_relu_"
).split()


def _get_supported_structured_pruning_modules() -> set[type[nn.Module]]:
    """Layers whose rows can go."""
    return {nn.Linear, nn.Conv2d, nn.LSTM}


def _get_supported_activation_functions() -> set[Callable[..., Any]]:
    """Functions of each element that may stand between layers."""
    return {getattr(F, name) for name in _FUNCTIONS} | {facula.relu, facula.sigmoid, facula.tanh}


def _get_supported_activation_modules() -> set[type[nn.Module]]:
    """Modules of each element that may stand between layers."""
    return {getattr(nn, name) for name in _ACTIVATIONS}


def _get_default_structured_pruning_patterns() -> dict[tuple[Any, ...], Callable[..., None]]:
    """The chains that are known, and the function that prunes each."""
    linear, conv = nn.Linear, nn.Conv2d
    patterns: dict[tuple[Any, ...], Callable[..., None]] = {
        (linear, "output"): ways.prune_linear,
        (linear, linear): ways.prune_linear_linear,
        (conv, "output"): ways.prune_conv2d,
        (conv, conv): ways.prune_conv2d_conv2d,
        (nn.LSTM, operator.getitem, linear): ways.prune_lstm_output_linear,
        (nn.LSTM, operator.getitem, nn.LayerNorm, linear): ways.prune_lstm_output_layernorm_linear,
    }
    pools = (nn.AvgPool2d, F.avg_pool2d, nn.MaxPool2d, F.max_pool2d)
    for step in _get_supported_activation_functions() | _get_supported_activation_modules():
        patterns[linear, step, linear] = ways.prune_linear_activation_linear
        patterns[conv, step, conv] = ways.prune_conv2d_activation_conv2d
        for pool in pools:
            patterns[conv, step, pool, conv] = ways.prune_conv2d_activation_pool_conv2d
            patterns[conv, pool, step, conv] = ways.prune_conv2d_pool_activation_conv2d
    adaptive = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
    for pool, flatten in itertools.product(adaptive, (nn.Flatten, facula.flatten)):
        patterns[conv, pool, flatten, linear] = ways.prune_conv2d_pool_flatten_linear
    return patterns


class BaseStructuredSparsifier(BaseSparsifier):
    """What computes masks for rows of layers, and takes them out.

    Args:
        defaults: settings that every group has unless its entry says another; `prune_bias`, on unless
            it is said, makes biases of rows go with them.
        patterns: more chains of layers, from tuples of classes, functions and names to functions
            that prune them; they come in front of the known ones.

    >>> from facula.ao.pruning._experimental.pruner import BaseStructuredSparsifier
    >>> class First(BaseStructuredSparsifier):
    ...     def update_mask(self, module, tensor_name, **config):
    ...         module.parametrizations[tensor_name][0].mask[0] = False
    >>> model = facula.nn.Sequential(facula.nn.Linear(4, 3), facula.nn.ReLU(), facula.nn.Linear(3, 2))
    >>> pruner = First()
    >>> pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> pruner.step()
    >>> before = model(facula.ones(1, 4))
    >>> small = pruner.prune()
    >>> small.get_submodule("0").weight.shape, facula.allclose(small(facula.ones(1, 4)), before)
    (facula.Size([2, 4]), True)
    """

    def __init__(
        self,
        defaults: dict[str, Any] | None = None,
        patterns: dict[tuple[Any, ...], Callable[..., None]] | None = None,
    ) -> None:
        super().__init__(defaults)
        self.patterns = {**(patterns or {}), **_get_default_structured_pruning_patterns()}

    def make_config_from_model(
        self, model: nn.Module, SUPPORTED_MODULES: set[type[nn.Module]] | None = None
    ) -> None:
        """Sets `config` to the weights of all layers of some classes.

        Args:
            model: where to look.
            SUPPORTED_MODULES: the classes; None is linear layers, convolutions of images, and LSTMs.
        """
        kinds = SUPPORTED_MODULES or _get_supported_structured_pruning_modules()
        self.config = [
            {"tensor_fqn": f"{name}.{tensor}" if name else tensor}
            for name, module in model.named_modules()
            if type(module) in kinds
            for tensor, _ in module.named_parameters(recurse=False)
            if tensor == "weight" or (isinstance(module, nn.LSTM) and "weight" in tensor)
        ]

    def _attach(
        self, module: nn.Module, tensor_name: str, mask: facula.Tensor | None, tensor: facula.Tensor
    ) -> None:
        """Gives the rows of a tensor the mask, in the parametrization that it has or in a new one."""
        if mask is None:
            mask = facula.ones(tensor.shape[0], dtype=facula.bool, device=tensor.device)
        if parametrize.is_parametrized(module, tensor_name):
            for one in module.parametrizations[tensor_name]:
                if isinstance(one, FakeStructuredSparsity):
                    one.mask = mask
                    return
        parametrize.register_parametrization(module, tensor_name, FakeStructuredSparsity(mask))

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Registers the masks of all groups, and has biases added behind the masked products."""
        for group in self.groups:
            module, tensor_name = group["module"], group["tensor_name"]
            tensor = getattr(module, tensor_name)
            mask = group.get("mask")
            if mask is None:
                mask = facula.ones(tensor.shape[0], dtype=facula.bool, device=tensor.device)
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeStructuredSparsity)
            parametrize.register_parametrization(module, tensor_name, kind(mask))
            if not isinstance(module, (nn.Linear, nn.Conv2d)):
                continue
            module.prune_bias = prune_bias = group.get("prune_bias", True)
            if module.bias is not None:
                module.register_parameter("_bias", nn.Parameter(module.bias.detach()))
                module.bias = None
            hook = BiasHook(module.parametrizations[tensor_name][0], prune_bias)
            module.register_forward_hook(hook)

    @staticmethod
    def _called(modules: dict[str, nn.Module], node: Node) -> Any:
        """What a node calls, with all arguments but the first."""
        if node.op == "call_module":
            return modules[node.target]
        if node.target is operator.getitem or not (node.args[1:] or node.kwargs):
            return node.target
        behind, named = node.args[1:], {k: v for k, v in node.kwargs.items() if k != "input"}

        @functools.wraps(node.target)
        def called(x: Any) -> Any:
            return node.target(x, *behind, **named)

        return called

    def prune(self) -> nn.Module:
        """Takes the masked rows out of the model; gives it as a graph.

        The layers of the model that was prepared get smaller with it."""
        traced = symbolic_trace(self.model)
        modules = dict(traced.named_modules())
        for node in traced.graph.nodes:
            first = modules.get(node.target) if node.op == "call_module" else None
            if first is None or not module_contains_param(first, FakeStructuredSparsity):
                continue
            for pattern, way in self.patterns.items():
                matched = apply_match(modules, pattern, node, [])
                if matched is not None:
                    way(*[self._called(modules, one) for one in matched if one.op != "output"])
                    break
        for name, module in traced.named_modules():
            if module_contains_param(module, FakeStructuredSparsity):
                fail(
                    RuntimeError,
                    "prune",
                    "a known chain of layers behind every layer that is pruned",
                    f"{name} still contains FakeStructuredSparsity parametrizations",
                    hint="leave it out of the config, or pass a function for its chain in patterns=",
                )
        traced.graph.lint()
        traced.recompile()
        return traced
