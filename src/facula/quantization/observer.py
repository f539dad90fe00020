"""Observers: modules that look at numbers and choose the scale and the zero point for them.

Takes: tensors, one after the other. Gives: the tensors unchanged; `calculate_qparams` gives what was chosen.
Keeps true: what an observer has seen is kept in buffers, so that it is saved with the model; the parameters are
PyTorch's formulas over the extremes; one that saw nothing says so in a warning and gives scale 1, zero point 0.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import partial
from typing import Any

from facula import core
from facula.core.errors import fail, message
from facula.nn import Module
from facula.ops.table.registry import F
from facula.quantization.tensor import (
    RANGES,
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)

EPS = 2.0**-23
SYMMETRIC = (per_tensor_symmetric, per_channel_symmetric)
#: integer dtypes of plain tensors that observers take beside the quantized ones
_PLAIN = {
    core.uint8: (0, 255),
    core.int8: (-128, 127),
    core.int16: (-(2**15), 2**15 - 1),
    core.uint16: (0, 2**16 - 1),
    core.int32: (-(2**31), 2**31 - 1),
}


class _Arguments:
    """A class with some of its arguments: called, it makes an observer; `with_args` adds more."""

    def __init__(self, p: Any) -> None:
        self.p = p
        self.callable_args: dict[str, Any] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        given = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **{**given, **keywords})

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **keywords: object) -> _Arguments:
        """The same with more arguments."""
        made = _Arguments(partial(self, **keywords))
        return made

    def with_callable_args(self, **keywords: Any) -> _Arguments:
        """The same with arguments that are made anew at each call."""
        made = _Arguments(self.p)
        made.callable_args = {**self.callable_args, **keywords}
        return made


def same_maker(first: object, second: object) -> bool:
    """Whether two of these make the same observer."""
    return first == second or _spread(first) == _spread(second)


def _spread(made: Any) -> Any:
    """The class and all of its arguments."""
    keywords: dict[str, Any] = {}
    while isinstance(made, (_Arguments, partial)):
        if isinstance(made, partial):
            keywords = {**made.keywords, **keywords}
            made = made.func
        else:
            made = made.p
    return made, keywords


_PartialWrapper = _Arguments


class ObserverBase(Module):
    """What all observers have: a dtype, and whether parameters are chosen anew for every input."""

    def __init__(self, dtype: core.dtype, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: core.Tensor) -> Any:
        """Look at a tensor and give it back."""

    @abstractmethod
    def calculate_qparams(self, **kwargs: object) -> Any:
        """The scale and the zero point."""

    @classmethod
    def with_args(cls, **keywords: Any) -> _Arguments:
        """The class with some of its arguments."""
        return _Arguments(partial(cls, **keywords))

    @classmethod
    def with_callable_args(cls, **keywords: object) -> _Arguments:
        """The class with arguments that are made anew at each call."""
        return _Arguments(partial(cls)).with_callable_args(**keywords)


AffineQuantizedObserverBase = ObserverBase


class UniformQuantizationObserverBase(ObserverBase):
    """Observers of extremes: the range of the integers, and the formulas for scale and zero point."""

    def __init__(
        self,
        dtype: core.dtype = core.quint8,
        qscheme: Any = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: object = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        self.register_buffer("eps", core.tensor([eps], dtype=core.float32))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if quant_min is not None and quant_max is not None:
            _check_range(type(self).__name__, quant_min, quant_max)
        if dtype not in RANGES and dtype not in _PLAIN:
            fail(
                AssertionError,
                type(self).__name__,
                "Default Observer only works for qint8, quint8 and quint4x2 data type",
                dtype,
                hint="PlaceholderObserver takes dtypes that are no integers",
            )
        self.quant_min, self.quant_max = _limits(dtype, reduce_range, quant_min, quant_max)

    def _calculate_qparams(self, min_val: core.Tensor, max_val: core.Tensor) -> tuple[Any, Any]:
        if not _seen(min_val, max_val):
            return core.tensor([1.0]), core.tensor([0])
        low, high = min_val.clamp(max=0.0), max_val.clamp(min=0.0)
        span = float(self.quant_max - self.quant_min)
        integer = core.int64 if self.dtype not in (core.qint32,) else core.int64
        if self.qscheme in SYMMETRIC:
            scale = F.maximum(F.maximum(-low, high) / (span / 2), self.eps.to(low.dtype))
            return scale, F.full(scale.shape, self._middle(), dtype=integer)
        if self.qscheme is per_channel_affine_float_qparams:
            scale = (max_val - min_val) / span
            scale = F.where(scale > self.eps, scale, F.ones_like(scale))
            return scale, -min_val / scale
        scale = F.maximum((high - low) / span, self.eps.to(low.dtype))
        zero = self.quant_min - (low / scale).round().to(core.int64)
        return scale, zero.clamp(self.quant_min, self.quant_max).to(integer)

    def _middle(self) -> int:
        if self.dtype is core.uint16:
            return 2**15
        if self.dtype not in (core.quint8, core.uint8):
            return 0
        return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        fail(
            NotImplementedError,
            type(self).__name__,
            "an observer that can forget was required",
            type(self).__name__,
            hint="define reset_min_max_vals in the class",
        )


_ObserverBase = UniformQuantizationObserverBase


def _check_range(op: str, low: int, high: int) -> None:
    if not low <= 0 <= high or low >= high:
        fail(
            AssertionError,
            op,
            "Used-specified quantization range must include 0 and qmin must be less than qmax",
            f"{low} to {high}",
            hint="0 to 255, or -128 to 127",
        )


def _limits(
    dtype: core.dtype, reduce_range: bool, low: int | None, high: int | None
) -> tuple[int, int]:
    """The integers that are used."""
    if low is None or high is None:
        low, high = RANGES[dtype][1:] if dtype in RANGES else _PLAIN[dtype]
        return (int(low / 2), high // 2) if reduce_range and high - low == 255 else (low, high)
    return (int(low / 2), high // 2) if reduce_range and high - low + 1 <= 256 else (low, high)


def _seen(low: core.Tensor, high: core.Tensor) -> bool:
    """Whether there are extremes that numbers were seen between."""
    if not low.numel() or not high.numel():
        nothing = True
    else:
        nothing = bool((low == float("inf")).any()) and bool((high == -float("inf")).any())
    if nothing:
        text = "must run observer before calling calculate_qparams. Returning default values."
        hint = "run the prepared model on some inputs before it is converted"
        warnings.warn(message("calculate_qparams", text, hint=hint), UserWarning, stacklevel=3)
        return False
    if not bool((low <= high).all()):
        fail(
            AssertionError,
            "calculate_qparams",
            "numbers that are no NaN were required: min should be less than max",
            f"min {low.tolist()}, max {high.tolist()}",
            hint="the observed tensors hold NaN; look for where it comes from",
        )
    return True


class MinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest number."""

    min_val: Any
    max_val: Any
    _schemes: tuple[Any, ...] = (per_tensor_affine, per_tensor_symmetric)

    def __init__(
        self,
        dtype: core.dtype = core.quint8,
        qscheme: object = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: object = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        if qscheme not in self._schemes:
            fail(
                NotImplementedError,
                type(self).__name__,
                f"MinMaxObserver's qscheme only support one of {list(self._schemes)}",
                qscheme,
                hint="PerChannelMinMaxObserver takes schemes of channels",
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic
        )
        self.register_buffer("min_val", core.tensor(float("inf")))
        self.register_buffer("max_val", core.tensor(-float("inf")))
        if qscheme is per_tensor_symmetric and reduce_range and dtype is core.quint8:
            fail(
                NotImplementedError,
                type(self).__name__,
                "Cannot reduce range for symmetric quantization for quint8",
                reduce_range,
                hint="take qint8, or per_tensor_affine",
            )

    def forward(self, x_orig: core.Tensor) -> Any:
        """Look at a tensor and give it back."""
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype)
            self._take(x.amin(), x.amax())
        return x_orig

    def _take(self, low: core.Tensor, high: core.Tensor) -> None:
        self.min_val.copy_(F.minimum(low, self.min_val))
        self.max_val.copy_(F.maximum(high, self.max_val))

    def calculate_qparams(self, **_: object) -> Any:
        """The scale and the zero point."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.copy_(core.tensor(float("inf")))
        self.max_val.copy_(core.tensor(-float("inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Keeps averages of the extremes, to which each tensor adds `averaging_constant` of its own."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: core.dtype = core.quint8,
        qscheme: object = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            fail(
                NotImplementedError,
                type(self).__name__,
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging "
                "constant of",
                averaging_constant,
                hint="averaging_constant=1",
            )

    def _take(self, low: core.Tensor, high: core.Tensor) -> None:
        if self.min_val == float("inf") and self.max_val == -float("inf"):
            self.min_val.copy_(low)
            self.max_val.copy_(high)
            return
        share = self.averaging_constant
        self.min_val.copy_(self.min_val + share * (low - self.min_val))
        self.max_val.copy_(self.max_val + share * (high - self.max_val))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Keeps the least and the greatest number of each channel."""

    min_val: Any
    max_val: Any

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: core.dtype = core.quint8,
        qscheme: object = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: object = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic
        )
        self.ch_axis = ch_axis
        self.register_buffer("min_val", core.tensor([]))
        self.register_buffer("max_val", core.tensor([]))

    def forward(self, x_orig: core.Tensor) -> Any:
        """Look at a tensor and give it back."""
        if x_orig.numel():
            x = x_orig.detach().to(self.min_val.dtype).transpose(0, self.ch_axis)
            x = x.reshape(x.shape[0], -1)
            self._take(x.amin(1), x.amax(1))
        return x_orig

    def _take(self, low: core.Tensor, high: core.Tensor) -> None:
        if self.min_val.numel():
            low, high = F.minimum(low, self.min_val), F.maximum(high, self.max_val)
        self._put(low, high)

    def _put(self, low: core.Tensor, high: core.Tensor) -> None:
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)

    def calculate_qparams(self, **_: object) -> Any:
        """The scales and the zero points."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        # how many channels there are stands in the file; older ones have other names
        for name in ("min_val", "max_val"):
            if f"{prefix}{name}s" in state_dict:
                state_dict[prefix + name] = state_dict.pop(f"{prefix}{name}s")
            found = state_dict.get(prefix + name)
            if isinstance(found, core.Tensor):
                getattr(self, name).resize_(found.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val, self.max_val = F.rand((0,)), F.rand((0,))


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Keeps averages of the extremes of each channel."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: core.dtype = core.quint8,
        qscheme: object = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        limits = (quant_min, quant_max)
        super().__init__(ch_axis, dtype, qscheme, reduce_range, *limits, None, eps, is_dynamic)
        self.averaging_constant = averaging_constant

    def _take(self, low: core.Tensor, high: core.Tensor) -> None:
        if self.min_val.numel():
            share = self.averaging_constant
            low = self.min_val + share * (low - self.min_val)
            high = self.max_val + share * (high - self.max_val)
        self._put(low, high)


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps a histogram, and chooses the range whose levels have the least squared error."""

    min_val: Any
    max_val: Any
    histogram: Any

    def __init__(
        self,
        bins: int = 2048,
        dtype: core.dtype = core.quint8,
        qscheme: object = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: object = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        if qscheme not in (per_tensor_affine, per_tensor_symmetric):
            fail(
                NotImplementedError,
                "HistogramObserver",
                "HistogramObserver's qscheme only support per_tensor_symmetric and "
                "per_tensor_affine",
                qscheme,
                hint="PerChannelMinMaxObserver takes schemes of channels",
            )
        if is_dynamic:
            fail(
                NotImplementedError,
                "HistogramObserver",
                "HistogramObserver doesn't support dynamic quantization",
                is_dynamic,
                hint="MinMaxObserver does",
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps)
        self.bins = bins
        self.register_buffer("histogram", F.zeros((bins,)))
        self.register_buffer("min_val", core.tensor(float("inf")))
        self.register_buffer("max_val", core.tensor(-float("inf")))
        self.dst_nbins = self.quant_max - self.quant_min + 1
        self.upsample_rate = 16  # parts of a bin that go over to other bins by themselves

    def forward(self, x_orig: core.Tensor) -> Any:
        """Look at a tensor and give it back."""
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach().float()
        if bool(x.isinf().any()):
            text = "torch.inf detected in input tensor, ignoring input"
            hint = "the observer looks at the finite numbers only"
            warnings.warn(message("HistogramObserver", text, hint=hint), UserWarning, stacklevel=2)
            x = x[x.isfinite()]
            if not x.numel():
                return x_orig
        low, high = x.min(), x.max()
        if bool(low.isnan()):
            text = "nan detected in input tensor, ignoring input"
            hint = "the observer keeps what it has seen before"
            warnings.warn(message("HistogramObserver", text, hint=hint), UserWarning, stacklevel=2)
            return x_orig
        fresh = bool(self.min_val == float("inf"))
        if not fresh:
            low, high = F.minimum(low, self.min_val), F.maximum(high, self.max_val)
        counts = F.histc(x, self.bins, low.item(), high.item())
        if not fresh:
            counts = counts + self._moved(low.item(), high.item())
        self.histogram.copy_(counts)
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig

    def _moved(self, low: float, high: float) -> Any:
        """The histogram over a wider range: each bin goes over in parts, by the middles of these."""
        first, last = self.min_val.item(), self.max_val.item()
        if (low, high) == (first, last):
            return self.histogram
        if last == first:
            return F.histc(self.min_val, self.bins, low, high) * self.histogram.sum()
        count = self.bins * self.upsample_rate
        parts = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        middles = F.linspace(first, last, count + 1)[:-1] + 0.5 * ((last - first) / count)
        borders = F.linspace(low, high, self.bins + 1)
        places = (F.bucketize(middles, borders, right=True) - 1).clamp(0, self.bins - 1)
        return F.bincount(places, parts, self.bins).to(core.float32)

    def calculate_qparams(self, **_: object) -> Any:
        """The scale and the zero point of the best range."""
        if bool(self.min_val == float("inf")) and bool(self.max_val == -float("inf")):
            _seen(self.min_val, self.max_val)
            return core.tensor([1.0]), core.tensor([0])
        return self._calculate_qparams(*self._non_linear_param_search())

    def _compute_quantization_error(self, first: int, last: int) -> float:
        """The squared error of all numbers where the levels cover the bins `first` to `last`."""
        low, high = self.min_val.item(), self.max_val.item()
        width = (high - low) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (F.arange(self.bins, dtype=core.float64) - first) * width
        end = begin + width
        level_begin = (begin / step).floor().clamp(0, self.dst_nbins - 1)
        level_end = (end / step).floor().clamp(0, self.dst_nbins - 1)
        density = self.histogram.double() / width
        half = step / 2
        from_begin = begin - (level_begin + 0.5) * step
        to_end = end - (level_end + 0.5) * step
        between = (level_end - level_begin - 1) * (2 * half**3)
        total = (half**3 - from_begin**3) + between + (to_end**3 + half**3)
        return float((density * total).sum()) / 3

    def _non_linear_param_search(self) -> tuple[Any, Any]:
        """Take bins off the ends, where fewer numbers lie first, while the error gets less."""
        low, high = self.min_val.item(), self.max_val.item()
        width = (high - low) / self.bins
        below = self.histogram.double().cumsum(0).tolist()
        total, step = below[-1], 1e-5
        first, last, shares = 0, self.bins - 1, [0.0, 1.0]
        least = float("inf")
        while shares[0] < shares[1]:
            left, right = first, last
            while left < last and below[left] < (shares[0] + step) * total:
                left += 1
            while right > first and below[right] > (shares[1] - step) * total:
                right -= 1
            if left - first > last - right:
                ends, shares[0] = (left, last), shares[0] + step
            else:
                ends, shares[1] = (first, right), shares[1] - step
            if ends == (first, last):
                continue
            error = self._compute_quantization_error(*ends)
            if error > least:
                break
            least, (first, last) = error, ends
        found = low + width * first, low + width * (last + 1)
        return core.tensor(found[0]), core.tensor(found[1])

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.copy_(core.tensor(float("inf")))
        self.max_val.copy_(core.tensor(-float("inf")))
        self.histogram.zero_()

    def extra_repr(self) -> str:
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class FixedQParamsObserver(ObserverBase):
    """Gives a scale and a zero point that are known."""

    scale: Any
    zero_point: Any

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: core.dtype = core.quint8,
        qscheme: Any = per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        if is_dynamic:
            fail(
                NotImplementedError,
                "FixedQParamsObserver",
                "FixedQParamsObserver doesn't support dynamic quantization",
                is_dynamic,
                hint="MinMaxObserver does",
            )
        super().__init__(dtype, is_dynamic)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", core.tensor([scale]))
        self.register_buffer("zero_point", core.tensor([zero_point], dtype=core.int32))

    def forward(self, X: core.Tensor) -> Any:  # noqa: N803 - PyTorch's name
        """The tensor."""
        return X

    def calculate_qparams(self, **_: object) -> Any:
        """The scale and the zero point."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Looks at nothing: it says what dtype is wanted, e.g. of inputs that are quantized dynamically."""

    def __init__(
        self,
        dtype: core.dtype = core.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: Any = None,
        eps: Any = None,
        is_dynamic: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(dtype, is_dynamic or bool(compute_dtype))
        self.qscheme = qscheme if qscheme is not None else per_tensor_affine
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.custom_op = custom_op_name
        if compute_dtype:
            self.dtype = compute_dtype

    def forward(self, x: core.Tensor) -> Any:
        """The tensor."""
        return x

    def extra_repr(self) -> str:
        """The dtype."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"

    def calculate_qparams(self, **_: object) -> Any:
        """Raises: nothing was looked at."""
        fail(
            Exception,
            "PlaceholderObserver",
            "calculate_qparams should not be called for PlaceholderObserver",
            self.dtype,
            hint="MinMaxObserver and HistogramObserver look at numbers",
        )


class RecordingObserver(ObserverBase):
    """Keeps every tensor."""

    def __init__(self, dtype: core.dtype = core.quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Any] = []

    def forward(self, x: core.Tensor) -> Any:
        """Keep a copy."""
        self.tensor_val.append(x.clone())
        return x

    def calculate_qparams(self, **_: object) -> Any:
        """Raises: nothing was computed."""
        hint = "MinMaxObserver and HistogramObserver look at numbers"
        text = "calculate_qparams should not be called for RecordingObserver"
        fail(Exception, "RecordingObserver", text, len(self.tensor_val), hint)

    def get_tensor_value(self) -> list[Any]:
        """The tensors."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Looks at nothing."""

    def __init__(self, dtype: core.dtype = core.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: core.Tensor) -> Any:
        """The tensor."""
        return x

    def calculate_qparams(self, **_: object) -> Any:
        """Raises: nothing was computed."""
        hint = "MinMaxObserver and HistogramObserver look at numbers"
        text = "calculate_qparams should not be called for NoopObserver"
        fail(Exception, "NoopObserver", text, self.dtype, hint)


class ReuseInputObserver(ObserverBase):
    """Stands where a result has the parameters of the input."""

    def __init__(self) -> None:
        super().__init__(core.quint8)

    def forward(self, x: core.Tensor) -> Any:
        """The tensor."""
        return x

    def calculate_qparams(self, **_: object) -> Any:
        """Raises: the input's parameters count."""
        hint = "the observer of the input has them"
        text = "calculate_qparams should not be called for ReuseInputObserver"
        fail(Exception, "ReuseInputObserver", text, self.dtype, hint)


#: the kinds of modules that stand behind values: those that observe, and those that replace by levels, which
#: `fake_quantize` enters
POST_PROCESSES: list[type] = [ObserverBase]


def _is_activation_post_process(module: Module) -> bool:
    """Whether a module observes, or replaces by levels."""
    return isinstance(module, tuple(POST_PROCESSES))


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """The part of a model's state that belongs to observers."""
    found = mod.state_dict()
    return {k: v for k, v in found.items() if "observer" in k or "activation_post_process" in k}


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Put that part into another model."""
    missing = [name for name in get_observer_state_dict(mod) if name not in obs_dict]
    for name in missing:
        hint = "the state was saved from another model"
        text = f"Missing keys for observer {name} in state_dict"
        fail(Exception, "load_observer_state_dict", text, None, hint)
    mod.load_state_dict(obs_dict, strict=False)


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(dtype=core.qint8, qscheme=per_tensor_symmetric)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=core.qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=core.qint8, qscheme=per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=core.qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=core.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=core.quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=core.quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=core.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=core.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver
