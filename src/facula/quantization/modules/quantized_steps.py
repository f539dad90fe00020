"""LSTM and attention of integers, of layers whose steps were observed: `ao.nn.quantized.LSTM`, `MultiheadAttention`.

Takes: the observed layers of `quantizable`. Gives: the same layers with products and sums of integers. Keeps true: the
names of parameters stay.
"""

from __future__ import annotations

from typing import Any, NoReturn

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.quantization import eager
from facula.quantization.create import _choose_qparams_per_tensor, quantize_per_tensor
from facula.quantization.modules import quantizable, quantizable_attention

__all__ = ["LSTM", "MultiheadAttention"]


def _refuse(what: str, other: Any) -> NoReturn:
    fail(NotImplementedError, what, f"It looks like you are trying to convert a non-observed {what} module",
         type(other).__name__, hint="prepare() and a run on examples come first")  # fmt: skip


def _converted(cls: Any, other: Any) -> Any:
    if not isinstance(other, cls._FLOAT_MODULE):
        fail(AssertionError, f"{cls.__name__}.from_observed", f"Expected module type {cls._FLOAT_MODULE}",
             type(other).__name__, hint="convert() calls it for observed layers")  # fmt: skip
    made = eager.convert(other, inplace=False, remove_qconfig=True)
    object.__setattr__(made, "__class__", cls)
    return made


class LSTM(quantizable.LSTM):
    """An LSTM of integers.

    Example:
        >>> facula.ao.nn.quantized.LSTM.__bases__[0].__name__
        'LSTM'
    """

    _FLOAT_MODULE = quantizable.LSTM

    def _get_name(self) -> str:
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, other: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises NotImplementedError: integers are made of an observed layer."""
        _refuse("LSTM", other)

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """The observed layer as one of integers."""
        return _converted(cls, other)


class MultiheadAttention(quantizable_attention.MultiheadAttention):
    """Attention whose projections are of integers.

    Example:
        >>> facula.ao.nn.quantized.MultiheadAttention.__bases__[0].__name__
        'MultiheadAttention'
    """

    _FLOAT_MODULE = quantizable_attention.MultiheadAttention

    def _get_name(self) -> str:
        return "QuantizedMultiheadAttention"

    @classmethod
    def from_float(cls, other: Any = None) -> NoReturn:
        """Raises NotImplementedError: integers are made of an observed layer."""
        _refuse("MHA", other)

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """The observed layer as one of integers; rows that are added to keys and values become integers, too."""
        made = _converted(cls, other)
        chosen = None
        for name in ("bias_k", "bias_v"):
            row = made._parameters.pop(name, None)
            if row is not None:
                # both by the range of the first, as in PyTorch
                chosen = chosen or _choose_qparams_per_tensor(row, False)
                row = quantize_per_tensor(row.detach(), *chosen, core.quint8)
            setattr(made, name, row)
        for name in ("in_proj_weight", "in_proj_bias"):
            made._parameters.pop(name, None)
        return made


#: float layer -> the observed one, which is `INTEGERS`' key
OBSERVED = {
    nn.LSTM: quantizable.LSTM,
    nn.MultiheadAttention: quantizable_attention.MultiheadAttention,
}
INTEGERS = {
    quantizable.LSTM: LSTM,
    quantizable_attention.MultiheadAttention: MultiheadAttention,
}
