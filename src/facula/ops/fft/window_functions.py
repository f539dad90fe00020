"""Window functions for spectra: those of the top level and those of `signal.windows`.

Takes: a length and a shape parameter. Gives: a vector of weights, computed in float64 and rounded once.
Keeps true: a periodic window of n is the symmetric one of n + 1 without its last weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, composite
from facula.ops.view.create import OPTIONS, check_layout, finished


def _dtype(op: str, dtype: Any) -> Any:
    dtype = core.get_default_dtype() if dtype is None else dtype
    if not op.endswith("_window"):  # those of `signal.windows`
        if dtype not in (core.float32, core.float64):
            fail(
                ValueError,
                op,
                f"{op} expects float32 or float64 dtypes, got: {dtype}",
                dtype,
                hint=f"leave dtype out, then convert with .to({dtype})",
            )
    elif not dtype.is_floating_point:
        fail(
            RuntimeError,
            op,
            f"{op} expects floating point dtypes",
            dtype,
            hint=f"leave dtype out, then convert with .to({dtype})",
        )
    return dtype


def _check_layout(op: str, layout: Any) -> None:
    if op.endswith("_window"):
        check_layout(op, layout)
    elif layout is not None and layout is not core.strided:
        fail(
            ValueError,
            op,
            f"{op} is implemented for strided tensors only, got: {layout}",
            layout,
            hint="leave layout out",
        )


def _made(
    op: str,
    length: int,
    periodic: bool,
    weights: Callable[[Any, int], Any],
    dtype: core.dtype,
    layout: Any,
    device: core.device | str | int | None,
    requires_grad: bool | None,
) -> Any:
    """The window out of `weights(places, n)`, where places are 0 .. n - 1 in float64."""
    _check_layout(op, layout)
    dtype = _dtype(op, dtype)
    if length < 0:
        fail(
            RuntimeError if op.endswith("_window") else ValueError,
            op,
            f"{op} requires non-negative window_length"
            if op.endswith("_window")
            else f"{op} requires non-negative window length, got M={length}",
            length,
            hint="0 gives an empty window",
        )
    if length <= 1:
        window = F.ones((length,), dtype=dtype, device=device)
        return finished(window, requires_grad)
    n = length + 1 if periodic else length
    places = F.arange(0, n, dtype=core.float64, device=device)
    window = weights(places, n).narrow(0, 0, length).to(dtype=dtype)
    return finished(window, requires_grad)


def _cosines(coefficients: Sequence[float]) -> Callable[[Any, int], Any]:
    """Alternating sums of cosines of whole multiples of the turn."""

    def weights(places: core.Tensor, n: int) -> Any:
        angle = places * (2 * math.pi / (n - 1))
        total = F.full_like(places, coefficients[0])
        for k, a in enumerate(coefficients[1:], 1):
            total = total + (angle * k).cos() * ((-1) ** k * a)
        return total

    return weights


def _triangle(places: Any, n: int) -> Any:
    return 1 - (places * (2 / (n - 1)) - 1).abs()


def _half_sine(places: Any, n: int) -> Any:
    return ((places + 0.5) * (math.pi / n)).sin()


def _bell(std: float) -> Callable[[Any, int], Any]:
    def weights(places: Any, n: int) -> Any:
        return (((places - (n - 1) / 2) / std).square() * -0.5).exp()

    return weights


def _bessel(beta: float) -> Callable[[Any, int], Any]:
    """[Kaiser & Schafer 1980]"""

    def weights(places: Any, n: int) -> Any:
        ratio = places * (2 / (n - 1)) - 1
        top = F.i0((1 - ratio.square()).clamp(min=0).sqrt() * beta)
        return top / F.i0(F.full_like(places, beta))

    return weights


def _decay(center: float | None, tau: float) -> Callable[[Any, int], Any]:
    def weights(places: Any, n: int) -> Any:
        middle = (n - 1) / 2 if center is None else center
        return ((places - middle).abs() * (-1 / tau)).exp()

    return weights


HANN = (0.5, 0.5)
BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _define_window(name: str, text: str, parameters: str, choose: Callable[..., Any]) -> None:
    """`name_window` of the top level, periodic unless told otherwise."""
    op = f"{name}_window"

    def window(window_length: int, periodic: bool, *rest: Any) -> Any:
        shape, options = rest[: len(rest) - 5], rest[len(rest) - 5 :]
        dtype, layout, device, _, requires_grad = options
        weights = choose(*shape)
        return _made(op, window_length, periodic, weights, dtype, layout, device, requires_grad)

    window.__name__ = op
    window.__doc__ = text
    composite(
        f"{op}(int window_length, bool periodic=True, {parameters}*, {OPTIONS}) -> Tensor",
        names=(op,),
        out=False,
    )(window)


_define_window("bartlett", "The triangle window.", "", lambda: _triangle)
_define_window("blackman", "The Blackman window.", "", lambda: _cosines(BLACKMAN))
_define_window(
    "hamming",
    "The Hamming window, `alpha - beta cos`.",
    "float alpha=0.54, float beta=0.46, ",
    lambda alpha, beta: _cosines((alpha, beta)),
)
_define_window("hann", "The Hann window, a raised cosine.", "", lambda: _cosines(HANN))
_define_window("kaiser", "The Kaiser window. [Kaiser & Schafer 1980]", "float beta=12.0, ", _bessel)


def _define_signal(name: str, text: str, parameters: str, choose: Callable[..., Any]) -> None:
    """`signal.windows.name`, symmetric unless told otherwise."""

    def window(M: int, *rest: Any) -> Any:  # noqa: N803 - PyTorch's name
        shape = rest[: len(rest) - 5]
        sym, dtype, layout, device, requires_grad = rest[len(rest) - 5 :]
        weights = choose(*shape)
        return _made(name, M, not sym, weights, dtype, layout, device, requires_grad)

    window.__name__ = name
    window.__doc__ = text
    composite(
        f"signal_{name}(int M, *, {parameters}bool sym=True, dtype? dtype=None, "
        "layout? layout=None, device? device=None, bool? requires_grad=False) -> Tensor",
        names=(f"signal.windows.{name}",),
        out=False,
    )(window)


def _positive(name: str, value: float) -> float:
    if value <= 0:
        fail(
            ValueError,
            name,
            f"{name.capitalize()} must be positive, got: {value:g} instead.",
            value,
            hint=f"a larger {name} makes a wider window",
        )
    return value


def _kaiser(beta: float) -> Any:
    if beta < 0:
        fail(
            ValueError,
            "kaiser",
            f"beta must be non-negative, got: {beta:g} instead.",
            beta,
            hint="beta=0 is a window of ones",
        )
    return _bessel(beta)


def _exponential(center: float | None, tau: float, sym: bool = True) -> Any:
    return _decay(center, _positive("tau", tau))


def _general(a: Any) -> Any:
    coefficients = tuple(float(x) for x in a)
    if not coefficients:
        fail(
            ValueError,
            "general_cosine",
            "Coefficients cannot be empty",
            a,
            hint="[0.5, 0.5] is a Hann window",
        )
    return _cosines(coefficients)


_define_signal("bartlett", "The triangle window.", "", lambda: _triangle)
_define_signal("blackman", "The Blackman window.", "", lambda: _cosines(BLACKMAN))
_define_signal("cosine", "Half a sine.", "", lambda: _half_sine)
_define_signal(
    "exponential",
    "Exponential decay from `center`, by e over `tau`.",
    "float? center=None, float tau=1.0, ",
    _exponential,
)
_define_signal(
    "gaussian",
    "A bell curve of deviation `std`.",
    "float std=1.0, ",
    lambda std: _bell(_positive("std", std)),
)
_define_signal(
    "general_cosine", "An alternating sum of cosines with coefficients `a`.", "any a, ", _general
)
_define_signal(
    "general_hamming",
    "`alpha - (1 - alpha) cos`.",
    "float alpha=0.54, ",
    lambda alpha: _cosines((alpha, 1 - alpha)),
)
_define_signal("hamming", "The Hamming window.", "", lambda: _cosines((0.54, 0.46)))
_define_signal("hann", "The Hann window.", "", lambda: _cosines(HANN))
_define_signal(
    "kaiser",
    "The Kaiser window. [Kaiser & Schafer 1980]",
    "float beta=12.0, ",
    _kaiser,
)
_define_signal(
    "nuttall", "The minimum four-term window. [Nuttall 1981]", "", lambda: _cosines(NUTTALL)
)
