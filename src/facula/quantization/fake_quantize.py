"""Modules that replace numbers by the nearest levels while a model is trained.

Takes: tensors. Gives: `FakeQuantize`, an observer and `fake_quantize_*` in one, and its kin. Keeps true: both halves
can be
switched off, each by a buffer, so that the switches are saved with the model.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import Module
from facula.quantization import fake
from facula.quantization.observer import (
    POST_PROCESSES,
    FixedQParamsObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _Arguments,
    _is_activation_post_process,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from facula.quantization.tensor import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

_BY_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)


def _is_per_channel(qscheme: object) -> bool:
    return qscheme in _BY_CHANNEL


class FakeQuantizeBase(Module):
    """The two switches."""

    fake_quant_enabled: Any
    observer_enabled: Any

    def __init__(self) -> None:
        super().__init__()
        # numbers, not bools: they are read by kernels and saved as such
        self.register_buffer("fake_quant_enabled", core.tensor([1], dtype=core.uint8))
        self.register_buffer("observer_enabled", core.tensor([1], dtype=core.uint8))

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Replace numbers, or leave them."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Leave numbers as they are."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Look at numbers, or not."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Keep scale and zero point."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **keywords: object) -> _Arguments:
        """The class with some of its arguments."""
        return _Arguments(cls).with_args(**keywords)


class FakeQuantize(FakeQuantizeBase):
    """Looks at numbers with `observer` and replaces them by the nearest levels."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            fake._check_range("FakeQuantize", quant_min, quant_max)
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observer(**observer_kwargs)
        seen = self.activation_post_process
        self.quant_min, self.quant_max = seen.quant_min, seen.quant_max
        self.is_dynamic = is_dynamic
        kind = core.float32 if seen.qscheme is per_channel_affine_float_qparams else core.int32
        self.register_buffer("scale", core.tensor([1.0]))
        self.register_buffer("zero_point", core.tensor([0], dtype=kind))
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis = getattr(seen, "ch_axis", -1)
        if self.qscheme not in (*_BY_CHANNEL, per_tensor_affine, per_tensor_symmetric):
            fail(
                AssertionError,
                "FakeQuantize",
                "Only per channel and per tensor quantization are supported in fake quantize",
                self.qscheme,
                hint="per_tensor_affine is the default",
            )
        self.is_per_channel = _is_per_channel(self.qscheme)

    def calculate_qparams(self) -> Any:
        """The observer's scale and zero point."""
        return self.activation_post_process.calculate_qparams()

    def _put(self, scale: core.Tensor, zero: core.Tensor) -> None:
        if self.scale.shape != scale.shape:
            self.scale.resize_(scale.shape)
            self.zero_point.resize_(zero.shape)
        self.scale.copy_(scale)
        self.zero_point.copy_(zero)

    def forward(self, X: core.Tensor) -> Any:  # noqa: N803 - PyTorch's name
        """The tensor, or the nearest levels."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero = self.calculate_qparams()
            self._put(scale.reshape(-1), zero.reshape(-1))
        if self.fake_quant_enabled[0] != 1:
            return X
        limits = (self.activation_post_process.quant_min, self.activation_post_process.quant_max)
        if self.is_per_channel:
            return fake.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits
            )
        return fake.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        """The switches and the parameters."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # how many channels there are stands in the file
        for name in ("scale", "zero_point"):
            found = state_dict.get(prefix + name)
            if isinstance(found, core.Tensor):
                getattr(self, name).resize_(found.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Replaces numbers by levels that are known."""

    def __init__(self, observer: Any) -> None:
        super().__init__(observer=observer)
        seen = self.activation_post_process
        if type(seen) is not FixedQParamsObserver:
            fail(
                AssertionError,
                "FixedQParamsFakeQuantize",
                "observer must be a FixedQParamsObserver",
                type(seen).__name__,
                hint="FixedQParamsObserver.with_args(scale=1 / 256, zero_point=0)",
            )
        self.scale, self.zero_point = seen.scale, seen.zero_point

    def calculate_qparams(self) -> Any:
        """The scale and the zero point."""
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """`FakeQuantize` with a moving average, by one operator."""

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, is_dynamic, **observer_kwargs)
        kinds = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, kinds):
            fail(
                AssertionError,
                "FusedMovingAvgObsFakeQuantize",
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver",
                type(self.activation_post_process).__name__,
                hint="FakeQuantize takes any observer",
            )
        self.register_buffer("fake_quant_enabled", core.tensor([1], dtype=core.int64))
        self.register_buffer("observer_enabled", core.tensor([1], dtype=core.int64))
        self.is_symmetric_quant = self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def forward(self, X: core.Tensor) -> Any:  # noqa: N803 - PyTorch's name
        """The tensor, or the nearest levels."""
        seen = self.activation_post_process
        return fake.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, seen.min_val, seen.max_val,
            self.scale, self.zero_point, seen.averaging_constant, seen.quant_min, seen.quant_max,
            self.ch_axis, self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip


_SYMMETRIC = {"dtype": core.qint8, "qscheme": per_tensor_symmetric, "reduce_range": False}
_CHANNELS = {"dtype": core.qint8, "qscheme": per_channel_symmetric, "reduce_range": False}
_BYTE: dict[str, Any] = {"quant_min": 0, "quant_max": 255}
_SIGNED: dict[str, Any] = {"quant_min": -128, "quant_max": 127}
_NARROW: dict[str, Any] = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}

default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    dtype=core.quint8,
    qscheme=per_tensor_affine,
    reduce_range=True,
    **_BYTE,
)
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_SIGNED, **_SYMMETRIC
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    is_dynamic=True,
    dtype=core.quint8,
    averaging_constant=1,
    **_BYTE,
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
_FIXED_RANGES = {
    "neg1to1": (
        default_fixed_qparams_range_neg1to1_observer,
        default_fixed_qparams_range_neg1to1_fake_quant,
    ),
    "0to1": (
        default_fixed_qparams_range_0to1_observer,
        default_fixed_qparams_range_0to1_fake_quant,
    ),
}


def fixed_range(interval: str, training: bool) -> Any:
    """What makes the observer of results in an interval that is known; in training they pass through its levels."""
    return _FIXED_RANGES[interval][training]


default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, ch_axis=0, **_SIGNED, **_CHANNELS
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=per_channel_affine_float_qparams,
    dtype=core.quint8,
    ch_axis=0,
    averaging_constant=1,
    **_BYTE,
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    qscheme=per_channel_affine_float_qparams,
    ch_axis=0,
    dtype=core.quint4x2,
    averaging_constant=1,
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=MinMaxObserver, dtype=core.quint8, qscheme=per_tensor_affine, **_BYTE
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, dtype=core.quint8, **_BYTE
)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    dtype=core.qint8,
    qscheme=per_tensor_symmetric,
    **_SIGNED,
)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    dtype=core.qint8,
    qscheme=per_channel_symmetric,
    **_SIGNED,
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver,
    dtype=core.qint8,
    qscheme=per_tensor_symmetric,
    **_NARROW,
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver,
    dtype=core.qint8,
    qscheme=per_channel_symmetric,
    **_NARROW,
)


def _names(kind: type) -> set[str]:
    """The names of a class and of what is derived from it."""
    return {kind.__name__}.union(*map(_names, kind.__subclasses__()))


def _on_each(name: str, buffer: str, value: int) -> Any:
    def switch(mod: Module) -> None:
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()
        elif getattr(mod, "original_name", None) in _names(FakeQuantizeBase):
            # the script of such a module, in which the switch is a buffer as well
            getattr(mod, buffer)[0] = value

    switch.__name__ = name
    switch.__doc__ = f"`{name}` of a module that has it, scripted or not: for `model.apply`."
    return switch


disable_fake_quant = _on_each("disable_fake_quant", "fake_quant_enabled", 0)
enable_fake_quant = _on_each("enable_fake_quant", "fake_quant_enabled", 1)
disable_observer = _on_each("disable_observer", "observer_enabled", 0)
enable_observer = _on_each("enable_observer", "observer_enabled", 1)


POST_PROCESSES.append(FakeQuantizeBase)
is_activation_post_process = _is_activation_post_process
