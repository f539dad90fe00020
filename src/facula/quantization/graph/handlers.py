"""How results of patterns are observed, as classes: PyTorch's `fx.quantize_handler` and `fx.pattern_utils`.

Takes: a `BackendConfig`. Gives: a class for each of its patterns, and registries to which programs add patterns of
their own. Keeps true: everything that facula quantizes itself is said by a `BackendConfig`, so that the registries
are empty until a program fills them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula.quantization.backend_config.classes import (
    BackendConfig,
    DTypeConfig,
    ObservationType,
)
from facula.quantization.calls import FIXED, FIXED_MODULES
from facula.quantization.fake_quantize import fixed_range
from facula.quantization.graph.matching import _deepest

__all__ = ["QuantizeHandler", "get_default_fusion_patterns",
           "get_default_output_activation_post_process_map", "get_default_quant_patterns"]  # fmt: skip


def _default_root_node_getter(node_pattern: Any) -> Any:
    """The node of a match that is computed first."""
    return _deepest(node_pattern)


class QuantizeHandler:
    """What is known of a place where a pattern fits.

    Args:
        node_pattern: the nodes, in the shape of the pattern
        modules: the graph's modules by name
        root_node_getter: what gives the node with the weight; None for the one that is computed first
        is_custom_module: whether the module has an observed form of its own
        is_standalone_module: whether the module is quantized by itself

    Example:
        >>> from facula.quantization.graph.handlers import QuantizeHandler
        >>> QuantizeHandler(None, {}).is_general_tensor_value_op()
        False
    """

    def __init__(
        self, node_pattern: Any, modules: dict[str, nn.Module], root_node_getter: Callable[..., Any] | None = None,
        is_custom_module: bool = False, is_standalone_module: bool = False,
    ) -> None:  # fmt: skip
        self.node_pattern, self.modules = node_pattern, modules
        getter = _default_root_node_getter if root_node_getter is None else root_node_getter
        self.root_node = getter(node_pattern)
        self.is_custom_module_, self.is_standalone_module_ = is_custom_module, is_standalone_module
        self.num_tensor_args = (
            0 if node_pattern is None else len(getattr(self.root_node, "all_input_nodes", ()))
        )

    def is_general_tensor_value_op(self) -> bool:
        """Whether results have the parameters of inputs."""
        return False

    def is_custom_module(self) -> bool:
        """Whether the module has an observed form of its own."""
        return self.is_custom_module_

    def is_standalone_module(self) -> bool:
        """Whether the module is quantized by itself."""
        return self.is_standalone_module_


#: PyTorch has a class for each of these; what they do is said by patterns
(
    BinaryOpQuantizeHandler, CatQuantizeHandler, ConvReluQuantizeHandler, LinearReLUQuantizeHandler,
    BatchNormQuantizeHandler, EmbeddingQuantizeHandler, RNNDynamicQuantizeHandler, DefaultNodeQuantizeHandler,
    FixedQParamsOpQuantizeHandler, CopyNodeQuantizeHandler, CustomModuleQuantizeHandler,
    GeneralTensorShapeOpQuantizeHandler, StandaloneModuleQuantizeHandler,
) = (
    type(f"{_name}QuantizeHandler", (QuantizeHandler,), {"__module__": __name__})
    for _name in (
        "BinaryOp", "Cat", "ConvRelu", "LinearReLU", "BatchNorm", "Embedding", "RNNDynamic", "DefaultNode",
        "FixedQParamsOp", "CopyNode", "CustomModule", "GeneralTensorShapeOp", "StandaloneModule",
    )
)  # fmt: skip


def _get_quantize_handler_cls(
    observation_type: ObservationType, dtype_configs: list[DTypeConfig],
    num_tensor_args_to_observation_type: dict[int, ObservationType],
) -> type[QuantizeHandler]:  # fmt: skip
    """The class of patterns that are observed in one way."""
    shares = observation_type is ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT

    class ConfigurableQuantizeHandler(QuantizeHandler):
        """What is known of a place where a pattern of a `BackendConfig` fits."""

        def __init__(
            self, node_pattern: Any, modules: dict[str, nn.Module], *rest: Any, **named: Any
        ) -> None:
            super().__init__(node_pattern, modules, *rest, **named)
            table = num_tensor_args_to_observation_type
            self.observation_type = table.get(self.num_tensor_args, observation_type)
            self.dtype_configs = dtype_configs

        def is_general_tensor_value_op(self) -> bool:
            """Whether results have the parameters of inputs."""
            return shares

    return ConfigurableQuantizeHandler


def _get_pattern_to_quantize_handlers(backend_config: BackendConfig) -> dict[Any, Any]:
    """A class for each pattern of a backend."""
    return {
        pattern: _get_quantize_handler_cls(
            config.observation_type,
            config.dtype_configs,
            config._num_tensor_args_to_observation_type,
        )
        for pattern, config in backend_config._pattern_complex_format_to_config.items()
    }


# ------------------------------------------------------------------ registries

_FUSIONS: dict[Any, Any] = {}
_PATTERNS: dict[Any, Any] = {}
_OBSERVERS: dict[Any, Any] = {}
_FIXED_OBSERVERS: dict[Any, Any] = {}


def _register_fusion_pattern(pattern: Any) -> Callable[[Any], Any]:
    """A decorator: its class fuses a pattern."""

    def register(fn: Any) -> Any:
        _FUSIONS[pattern] = fn
        return fn

    return register


def _register_quant_pattern(
    pattern: Any, fixed_qparams_observer: Any = None
) -> Callable[[Any], Any]:
    """A decorator: its class quantizes a pattern."""

    def register(fn: Any) -> Any:
        _PATTERNS[pattern] = fn
        if fixed_qparams_observer is not None:
            _FIXED_OBSERVERS[pattern] = fixed_qparams_observer
        return fn

    return register


def get_default_fusion_patterns() -> dict[Any, Any]:
    """The patterns that programs registered for fusing."""
    return dict(_FUSIONS)


def get_default_quant_patterns() -> dict[Any, Any]:
    """The patterns that programs registered for quantization."""
    return dict(_PATTERNS)


def get_default_output_activation_post_process_map(is_training: bool) -> dict[Any, Any]:
    """What observes results that lie in an interval that is known.

    Args:
        is_training: whether results pass through their levels
    """
    known = {kind: fixed_range(interval, is_training) for kind, interval in FIXED_MODULES.items()}
    calls = {name: fixed_range(interval, is_training) for name, interval in FIXED.items()}
    return {**known, **calls, **_FIXED_OBSERVERS}


def _sorted_patterns_dict(patterns_dict: dict[Any, Any]) -> dict[Any, Any]:
    """The same patterns, the larger ones first."""

    def size(pattern: Any) -> int:
        return 1 + sum(map(size, pattern[1:])) if isinstance(pattern, tuple) else 1

    return dict(sorted(patterns_dict.items(), key=lambda item: -size(item[0])))
