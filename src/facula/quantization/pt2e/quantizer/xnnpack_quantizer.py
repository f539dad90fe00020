"""`XNNPACKQuantizer`: signed bytes for activations, symmetric signed bytes for weights.

Takes: a graph. Gives: annotations of layers, sums, `cat` and what passes integers on. Keeps true: settings by the name
of a module come before those by operator, and these before the global one.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.calls import named
from facula.quantization.pt2e.quantizer import annotate
from facula.quantization.pt2e.quantizer.annotate import QuantizationConfig
from facula.quantization.pt2e.quantizer.quantizer import QuantizationSpec, Quantizer
from facula.quantization.tensor import (
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]

_EPS = 2**-12
_LAYERS = named("xnnpack", "layer")
_ARITHMETIC = named("xnnpack", "arithmetic")
_JOINED = named("xnnpack", "joined")
#: operators whose results have their input's parameters; `contiguous` is a method without a definition
_PASSING = named("xnnpack", "shared", "activation") | {"contiguous"}


def _activation(is_qat: bool, is_dynamic: bool, low: int, high: int) -> QuantizationSpec:
    if is_dynamic:
        maker: Any = ob.PlaceholderObserver
    elif is_qat:
        maker = fq.FusedMovingAvgObsFakeQuantize
    else:
        maker = ob.HistogramObserver
    given = {} if is_dynamic else {"eps": _EPS}
    return QuantizationSpec(
        core.int8, maker.with_args(**given), low, high, per_tensor_affine, is_dynamic=is_dynamic
    )


def _weight(per_channel: bool, is_qat: bool, low: int, high: int) -> QuantizationSpec:
    scheme = per_channel_symmetric if per_channel else per_tensor_symmetric
    observer: Any = ob.PerChannelMinMaxObserver if per_channel else ob.MinMaxObserver
    if is_qat:
        moving = ob.MovingAveragePerChannelMinMaxObserver if per_channel else None
        chosen = moving or ob.MovingAverageMinMaxObserver
        maker = fq.FusedMovingAvgObsFakeQuantize.with_args(observer=chosen, eps=_EPS)
    else:
        maker = observer.with_args(eps=_EPS)
    return QuantizationSpec(core.int8, maker, low, high, scheme, 0 if per_channel else None)


def get_symmetric_quantization_config(
    is_per_channel: bool = False, is_qat: bool = False, is_dynamic: bool = False,
    act_qmin: int = -128, act_qmax: int = 127, weight_qmin: int = -127, weight_qmax: int = 127,
) -> QuantizationConfig:  # fmt: skip
    """Signed bytes; weights symmetric, as a whole or by channels."""
    activation = _activation(is_qat, is_dynamic, act_qmin, act_qmax)
    weight = _weight(is_per_channel, is_qat, weight_qmin, weight_qmax)
    output = None if is_dynamic else activation
    return QuantizationConfig(activation, output, weight, None, is_qat)


class XNNPACKQuantizer(Quantizer):
    """Annotates what the XNNPACK backend runs as integers."""

    def __init__(self) -> None:
        super().__init__()
        self.global_config: QuantizationConfig | None = None
        self.operator_type_config: dict[str, QuantizationConfig | None] = {}
        self.module_name_config: dict[str, QuantizationConfig | None] = {}

    def set_global(self, quantization_config: QuantizationConfig) -> XNNPACKQuantizer:
        """The setting of everything that has none of its own."""
        self.global_config = quantization_config
        return self

    def set_operator_type(self, operator_type: Any, quantization_config: Any) -> XNNPACKQuantizer:
        """The setting of an operator, as `ops.aten.linear.default`; None leaves it in float."""
        self.operator_type_config[_word(operator_type)] = quantization_config
        return self

    def set_module_name(self, module_name: str, quantization_config: Any) -> XNNPACKQuantizer:
        """The setting of layers in a module, by its name; None leaves them in float."""
        self.module_name_config[module_name] = quantization_config
        return self

    def _config(self, node: object) -> QuantizationConfig | None:
        by_type = self.operator_type_config
        return annotate.setting(node, self.module_name_config, by_type, self.global_config)

    def annotate(self, model: object) -> Any:
        """Annotate layers, sums and `cat`, then what passes their results on."""
        steps = (
            (_LAYERS, annotate.layer),
            (_ARITHMETIC, annotate.arithmetic),
            (_JOINED, annotate.joined),
        )
        for words, step in steps:
            for node in list(annotate.nodes_left(model, words)):
                config = self._config(node)
                if config is not None and (config.output_activation or words is _LAYERS):
                    step(node, config)
        for node in list(annotate.nodes_left(model, _PASSING)):
            annotate.passing(node)
        return model

    def validate(self, model: object) -> None:
        """Every annotated graph runs."""


def _word(operator_type: object) -> str:
    name = getattr(operator_type, "_schema_name", None) or getattr(operator_type, "__name__", "")
    if not name:
        fail(
            TypeError,
            "set_operator_type",
            "an operator was required",
            type(operator_type).__name__,
            hint="facula.ops.aten.linear.default",
        )
    return name.rpartition("::")[2].partition(".")[0]
