"""Which observers a layer gets: `QConfig`, and the defaults of every engine.

Takes: names of engines. Gives: pairs of classes with arguments, for activations and for weights.
Keeps true: engines whose products could run over 16 bits in PyTorch have activations of 7 bits, as there.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import Module
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.tensor import per_tensor_affine

_Pair = namedtuple("_Pair", ["activation", "weight"])


class QConfig(_Pair):
    """How activations and weights are observed: two classes with their arguments."""

    __slots__ = ()

    def __new__(cls, activation: object, weight: object) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            fail(
                ValueError,
                "QConfig",
                "QConfig received observer instance, please pass observer class instead",
                type(activation).__name__,
                hint="use MyObserver.with_args(x=1) to override arguments to constructor if needed",
            )
        return super().__new__(cls, activation, weight)


QConfigAny = QConfig | None

_HALVED: dict[str, Any] = {
    "observer": ob.MovingAverageMinMaxObserver,
    "quant_min": 0,
    "quant_max": 255,
}
default_qconfig = QConfig(ob.default_observer, ob.default_weight_observer)
default_debug_qconfig = QConfig(ob.default_debug_observer, ob.default_weight_observer)
default_per_channel_qconfig = QConfig(ob.default_observer, ob.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_weight_observer)
float16_dynamic_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=core.float16, is_dynamic=True),
    ob.PlaceholderObserver.with_args(dtype=core.float16),
)
float16_static_qconfig = QConfig(
    ob.PlaceholderObserver.with_args(dtype=core.float16),
    ob.PlaceholderObserver.with_args(dtype=core.float16),
)
per_channel_dynamic_qconfig = QConfig(
    ob.default_dynamic_quant_observer, ob.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer_4bit
)
default_qat_qconfig = QConfig(fq.default_fake_quant, fq.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fq.default_dynamic_fake_quant, fq.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(ob.NoopObserver, fq.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fq.default_fake_quant, ob.NoopObserver)
default_qat_qconfig_v2 = QConfig(fq.default_fused_act_fake_quant, fq.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ob.default_reuse_input_observer, ob.NoopObserver)
default_embedding_qat_qconfig = QConfig(ob.NoopObserver, fq.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(ob.NoopObserver, fq.default_embedding_fake_quant_4bit)
default_quint8_weight_qconfig = QConfig(ob.default_observer, ob.MinMaxObserver)
default_symmetric_qnnpack_qconfig = QConfig(
    ob.HistogramObserver.with_args(dtype=core.qint8, reduce_range=False, eps=2**-12),
    ob.weight_observer_range_neg_127_to_127,
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    ob.HistogramObserver.with_args(dtype=core.qint8, reduce_range=False, eps=2**-12),
    ob.per_channel_weight_observer_range_neg_127_to_127,
)
_QNNPACK = fq.FusedMovingAvgObsFakeQuantize.with_args(
    observer=ob.MovingAverageMinMaxObserver,
    quant_min=-128,
    quant_max=127,
    dtype=core.qint8,
    reduce_range=False,
    eps=2**-12,
)
default_symmetric_qnnpack_qat_qconfig = QConfig(
    _QNNPACK, fq.fused_wt_fake_quant_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _QNNPACK, fq.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)


def _check(backend: str) -> None:
    if backend not in ("fbgemm", "x86", "qnnpack", "onednn"):
        fail(
            AssertionError,
            "get_default_qconfig",
            "backend: one of fbgemm, x86, qnnpack, onednn was required, others are not supported",
            backend,
            hint="x86 is the default of this processor",
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """What a model gets that is quantized after training."""
    _check(backend)
    if backend == "qnnpack":
        activation = ob.HistogramObserver.with_args(reduce_range=False)
        return QConfig(activation, ob.default_weight_observer)
    halved = backend in ("fbgemm", "x86")
    activation = ob.HistogramObserver.with_args(reduce_range=halved)
    return QConfig(activation, ob.default_per_channel_weight_observer)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """What a model gets that is trained with fake quantization; version 1 does both steps in one."""
    _check(backend)
    kind = fq.FusedMovingAvgObsFakeQuantize if version else fq.FakeQuantize
    halved = backend in ("fbgemm", "x86")
    activation = kind.with_args(**_HALVED, **({"reduce_range": True} if halved else {}))
    if backend == "qnnpack":
        activation = kind.with_args(**_HALVED, reduce_range=False)
        weight = fq.default_fused_wt_fake_quant if version else fq.default_weight_fake_quant
        return QConfig(activation, weight)
    per_channel = fq.default_fused_per_channel_wt_fake_quant
    return QConfig(activation, per_channel if version else fq.default_per_channel_weight_fake_quant)


def is_dynamic(qconfig: Any) -> bool:
    """Whether activations are quantized by each input's range."""
    made = qconfig.activation()
    return bool(getattr(made, "is_dynamic", False))


def activation_dtype(qconfig: Any) -> Any:
    """The dtype of activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    """The dtype of weights."""
    return qconfig.weight().dtype


def activation_is_quantized(qconfig: Any) -> bool:
    """Whether activations become integers ahead of time."""
    made = qconfig.activation()
    kinds = (core.quint8, core.qint8, core.qint32, core.uint8, core.int8, core.int32)
    return made.dtype in kinds and not getattr(made, "is_dynamic", False)


def weight_is_quantized(qconfig: Any) -> bool:
    """Whether weights become integers."""
    return qconfig.weight().dtype in (core.quint8, core.qint8, core.quint4x2)


def qconfig_equals(q1: Any, q2: Any) -> bool:
    """Whether two configurations make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    return all(ob.same_maker(a, b) for a, b in zip(q1, q2, strict=True))


def assert_valid_qconfig(qconfig: Any, mod: Module) -> None:
    """Raise where a transposed convolution would have weights with a scale for each channel."""
    if qconfig is None:
        return
    if "ConvTranspose" in type(mod).__name__:
        example = qconfig.weight()
        if (
            example.qscheme is not per_tensor_affine
            and hasattr(example, "ch_axis")
            and (example.ch_axis >= 0)
        ):
            fail(
                AssertionError,
                "prepare",
                "Per channel weight observer is not supported yet for ConvTranspose{n}d.",
                type(mod).__name__,
                hint="take default_weight_observer for transposed convolutions",
            )
