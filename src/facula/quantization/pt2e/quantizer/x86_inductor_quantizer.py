"""`X86InductorQuantizer`: bytes for activations, symmetric signed bytes by channels for weights.

Takes: a graph. Gives: annotations. Keeps true: layers take integers and give numbers (or, with an activation, one value
behind it); what passes integers on does so where its input is one.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx import Node
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.calls import named
from facula.quantization.pt2e.quantizer import annotate
from facula.quantization.pt2e.quantizer.annotate import QuantizationConfig
from facula.quantization.pt2e.quantizer.quantizer import (
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from facula.quantization.tensor import per_channel_symmetric, per_tensor_affine

__all__ = ["X86InductorQuantizer", "get_default_x86_inductor_quantization_config"]

_LAYERS = named("x86", "layer")
#: operators that a layer's kernel does, too
_SUMS = named("x86", "arithmetic")
#: operators that take and give integers with the same parameters
_KEEPING = named("x86", "shared")


def get_default_x86_inductor_quantization_config(
    is_qat: bool = False, is_dynamic: bool = False, reduce_range: bool = False
) -> QuantizationConfig:
    """Bytes (of 7 bits with `reduce_range`) for activations, signed bytes by channels for weights."""
    given: dict[str, Any] = {} if is_dynamic else {"eps": 2**-12}
    if is_dynamic:
        maker: Any = ob.PlaceholderObserver
    elif is_qat:
        maker = fq.FusedMovingAvgObsFakeQuantize
        given["observer"] = ob.MovingAverageMinMaxObserver
    else:
        maker = ob.HistogramObserver
    high = 127 if reduce_range else 255
    made = maker.with_args(**given)
    activation = QuantizationSpec(
        core.uint8, made, 0, high, per_tensor_affine, is_dynamic=is_dynamic
    )
    weights: Any = ob.PerChannelMinMaxObserver.with_args(eps=2**-12)
    if is_qat:
        moving = ob.MovingAveragePerChannelMinMaxObserver
        weights = fq.FusedMovingAvgObsFakeQuantize.with_args(observer=moving, eps=2**-12)
    weight = QuantizationSpec(core.int8, weights, -128, 127, per_channel_symmetric, 0)
    return QuantizationConfig(activation, activation, weight, None, is_qat)


def _is_layer_for(x: core.Tensor, user: Node) -> bool:
    """Whether a value is that of an annotated layer, which nobody else takes."""
    return (
        isinstance(x, Node)
        and list(x.users) == [user]
        and annotate.call_word(x) in _LAYERS
        and annotate.annotation_of(x) is not None
    )


class X86InductorQuantizer(Quantizer):
    """Annotates what compiled graphs run as integers on x86."""

    def __init__(self) -> None:
        super().__init__()
        self.global_config: QuantizationConfig | None = None
        self.operator_type_config: dict[str, QuantizationConfig | None] = {}
        self.module_name_qconfig: dict[str, QuantizationConfig | None] = {}

    def set_global(self, quantization_config: QuantizationConfig) -> X86InductorQuantizer:
        """The setting of everything that has none of its own."""
        if not isinstance(quantization_config, QuantizationConfig):
            fail(
                TypeError,
                "set_global",
                "a QuantizationConfig was required",
                type(quantization_config).__name__,
                hint="get_default_x86_inductor_quantization_config() gives one",
            )
        self.global_config = quantization_config
        return self

    def set_module_name_qconfig(self, module_name: str, quantization_config: Any) -> Any:
        """The setting of layers in a module, by its name; None leaves them in float."""
        self.module_name_qconfig[module_name] = quantization_config
        return self

    def set_function_type_qconfig(self, function_type: Any, quantization_config: Any) -> Any:
        """The setting of a function, as `nn.functional.linear`; None leaves it in float."""
        self.operator_type_config[function_type.__name__] = quantization_config
        return self

    def _config(self, node: Node) -> QuantizationConfig | None:
        by_type = self.operator_type_config
        return annotate.setting(node, self.module_name_qconfig, by_type, self.global_config)

    def annotate(self, model: object) -> Any:
        """Annotate layers, then sums and pools between them."""
        for node in list(annotate.nodes_left(model, _LAYERS)):
            config = self._config(node)
            if config is not None:
                # the result stays a number: what takes it says whether it becomes an integer
                annotate.layer(node, _without_output(config))
        for node in list(annotate.nodes_left(model, _SUMS)):
            self._sum(node)
        for node in list(annotate.nodes_left(model, _KEEPING)):
            self._keep(node)
        return model

    def _sum(self, node: Node) -> None:
        """A sum with the result of a layer: it takes its other argument as integers, in the layer's kernel."""
        config = self._config(node)
        layer = next((x for x in node.args[:2] if _is_layer_for(x, node)), None)
        if config is None or layer is None or config.input_activation is None:
            return
        other = node.args[1] if layer is node.args[0] else node.args[0]
        if not isinstance(other, Node) or config.input_activation.is_dynamic:
            return
        if getattr(other.meta.get("val"), "shape", None) == layer.meta["val"].shape:
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                {other: config.input_activation}, None, _annotated=True
            )

    def _keep(self, node: Node) -> None:
        """A pool between layers: it takes integers, and gives them with the same parameters."""
        config, x = self._config(node), node.args[0]
        before = annotate.annotation_of(x)
        if config is None or config.input_activation is None or before is None:
            return
        if config.input_activation.is_dynamic:
            return
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            {x: config.input_activation}, SharedQuantizationSpec((x, node)), _annotated=True
        )

    def validate(self, model: object) -> None:
        """Every annotated graph runs."""


def _without_output(config: QuantizationConfig) -> QuantizationConfig:
    return QuantizationConfig(
        config.input_activation, None, config.weight, config.bias, config.is_qat
    )
