"""Quantized tensors out of files.

Takes: what a file says of a tensor: integers, their geometry, a scheme with its parameters. Gives: the tensor. Keeps
true: parameters are checked as those of `quantize_per_tensor` and `quantize_per_channel` are, before a tensor is
made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail
from facula.quantization.create import channel_quantizer, checked_quantizer
from facula.quantization.embedding import _unpacked
from facula.quantization.tensor import PER_BYTE, PER_CHANNEL, RANGES, per_tensor_affine, wrap

__all__ = ["rebuilt"]


def rebuilt(
    integers: Callable[..., Any],
    kind: object,
    size: Any,
    stride: object,
    parameters: tuple[Any, ...],
) -> Any:
    """The tensor; `integers(dtype, size)` gives those of the file."""
    if kind not in RANGES:
        _refuse("a storage of a quantized dtype", kind)
    scheme, *rest = parameters
    if scheme is per_tensor_affine and len(rest) == 2:
        scale, zero_point = map(_number, rest)
        quantizer = checked_quantizer("load", scale, zero_point, kind)
    elif scheme in PER_CHANNEL and len(rest) == 3 and _are_tensors(rest):
        scales, zeros, axis = rest
        quantizer = channel_quantizer("load", size, scales, zeros, axis, kind)
    else:
        _refuse("the parameters of a scheme", scheme)
    kept = RANGES[kind][0]
    if kind not in PER_BYTE:
        return wrap(integers(kept, None), kind, quantizer)
    each, count = PER_BYTE[kind], 1
    for n in size:
        count *= n
    rows = integers(kept, (-(-count // each),))
    return wrap(_unpacked(rows, 8 // each)[:count].reshape(size), kind, quantizer)


def _refuse(required: str, got: Any) -> NoReturn:
    fail(TypeError, "load", f"{required} was required", got, hint="the file is damaged")


def _number(value: float) -> Any:
    if type(value) not in (int, float):
        _refuse("numbers as scale and zero point", type(value).__name__)
    return value


def _are_tensors(rest: list[Any]) -> bool:
    return isinstance(rest[0], core.Tensor) and isinstance(rest[1], core.Tensor)
