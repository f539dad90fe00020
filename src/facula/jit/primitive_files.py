"""Operators that only PyTorch's files call: parts of functions, and other arguments than the library's functions have.

Takes nothing. Gives nothing: importing it fills `signatures.PRIMITIVE`.
Keeps true: each calls the library's function; the schema is PyTorch's. Those whose name is also that of a function
which scripts call have the overload `OF_FILES`: the source of a program means the function.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.jit.signatures import primitive
from facula.nn import functional as F
from facula.ops.table.schemas.codes import code_of

__all__: list[str] = []

_REDUCTIONS = ("none", "mean", "sum")


# ------------------------------------------------------------------ losses


primitive("aten::log_sigmoid(Tensor self) -> Tensor", F.logsigmoid)
primitive("aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
          "int ignore_index=-100) -> Tensor",
          lambda x, y, w, r, i: F.nll_loss(x, y, w, ignore_index=i, reduction=_REDUCTIONS[r]))  # fmt: skip
primitive("aten::multilabel_margin_loss.int(Tensor self, Tensor target, int reduction) -> Tensor",
          lambda x, y, r: F.multilabel_margin_loss(x, y, reduction=_REDUCTIONS[r]))  # fmt: skip
primitive("aten::multi_margin_loss.int(Tensor self, Tensor target, Scalar p, Scalar margin, Tensor? weight, "
          "int reduction) -> Tensor",
          lambda x, y, p, m, w, r: F.multi_margin_loss(x, y, p, m, w, reduction=_REDUCTIONS[r]))  # fmt: skip


def _ctc(x: Any, y: Any, have: Any, want: Any, blank: int, reduction: int, zero: bool) -> Any:
    return F.ctc_loss(x, y, have, want, blank, _REDUCTIONS[reduction], zero)


for _own, _kind in (("Tensor", "Tensor"), ("IntList", "int[]")):
    primitive(f"aten::ctc_loss.{_own}(Tensor log_probs, Tensor targets, {_kind} input_lengths, "
              f"{_kind} target_lengths, int blank, int reduction, bool zero_infinity) -> Tensor", _ctc)  # fmt: skip


# ------------------------------------------------------------------ images


def _convolution_mode(
    x: Any, w: Any, b: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Any:
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[w.dim()]
    return function(x, w, b, stride, padding, dilation, groups)


primitive("aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, int[] stride, str padding, "
          "int[] dilation, int groups) -> Tensor", _convolution_mode)  # fmt: skip


def _unpooled(dimensions: int) -> Any:
    """Pooling undone, by the sizes of the result alone."""

    def run(x: Any, at: Any, size: list[int], *unused: object) -> Any:
        rows = x.shape[:-dimensions]
        flat = x.new_zeros([*rows, _product(size)])
        made = flat.scatter(-1, at.flatten(-dimensions), x.flatten(-dimensions))
        return made.view([*rows, *size])

    return run


def _product(sizes: list[int]) -> int:
    made = 1
    for size in sizes:
        made *= size
    return made


primitive("aten::max_unpool2d.OF_FILES(Tensor self, Tensor indices, int[] output_size) -> Tensor",
          _unpooled(2))  # fmt: skip
primitive("aten::max_unpool3d.OF_FILES(Tensor self, Tensor indices, int[] output_size, int[] stride, "
          "int[] padding) -> Tensor", _unpooled(3))  # fmt: skip


def _fractional(function: Any) -> Any:
    return lambda x, kernel, size, samples: function(x, kernel, size, _random_samples=samples)


for _n, _pooled in (
    (2, F.fractional_max_pool2d_with_indices),
    (3, F.fractional_max_pool3d_with_indices),
):
    primitive(f"aten::fractional_max_pool{_n}d.OF_FILES(Tensor self, int[{_n}] kernel_size, int[{_n}] output_size, "
              "Tensor random_samples) -> (Tensor, Tensor)", _fractional(_pooled))  # fmt: skip


def _resampled(mode: str, aligns: bool, smooth: bool = False) -> Any:
    def run(x: Any, size: Any, *rest: Any) -> Any:
        options: dict[str, Any] = {"align_corners": rest[0]} if aligns else {}
        if smooth:
            options["antialias"] = True
        factors = None if size is not None else rest[-1]
        return F.interpolate(x, size, factors, mode=mode, **options)

    return run


for _n in (1, 2, 3):
    primitive(f"aten::_upsample_nearest_exact{_n}d.vec(Tensor input, int[]? output_size, float[]? scale_factors) "
              "-> Tensor", _resampled("nearest-exact", aligns=False))  # fmt: skip
for _mode in ("bilinear", "bicubic"):
    primitive(f"aten::_upsample_{_mode}2d_aa.vec(Tensor input, int[]? output_size, bool align_corners, "
              "float[]? scale_factors) -> Tensor", _resampled(_mode, aligns=True, smooth=True))  # fmt: skip


# ------------------------------------------------------------------ functions of tensors


primitive("aten::stft.parts(Tensor self, int n_fft, int? hop_length, int? win_length, Tensor? window, "
          "bool normalized, bool? onesided, bool? return_complex, bool? align_to_window) -> Tensor",
          lambda x, n, hop, length, window, normalized, onesided, made, aligned: facula.stft(
              x, n, hop, length, window, center=False, normalized=normalized, onesided=onesided,
              return_complex=made, align_to_window=aligned))  # fmt: skip


def _three(x: core.Tensor, inverse: bool, counts: bool, made: Any) -> Any:
    """Values, positions and counts; empty tensors for those that nobody asked for."""
    parts = list(made) if isinstance(made, tuple) else [made]
    none = facula.empty(0, dtype=core.int64)
    values = parts.pop(0)
    return values, (parts.pop(0) if inverse else none), (parts.pop(0) if counts else none)


primitive("aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> "
          "(Tensor, Tensor, Tensor)",
          lambda x, s, i, c: _three(x, i, c, facula.unique(x, s, i, c)))  # fmt: skip
primitive("aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, "
          "bool return_counts=False) -> (Tensor, Tensor, Tensor)",
          lambda x, d, s, i, c: _three(x, i, c, facula.unique(x, s, i, c, d)))  # fmt: skip
primitive("aten::unique_consecutive.OF_FILES(Tensor self, bool return_inverse, bool return_counts, int? dim) -> "
          "(Tensor, Tensor, Tensor)",
          lambda x, i, c, d: _three(x, i, c, facula.unique_consecutive(x, i, c, d)))  # fmt: skip
primitive("aten::tensordot.lists(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
          lambda a, b, left, right: facula.tensordot(a, b, (left, right)))  # fmt: skip
primitive("aten::tensordot.lists_out(Tensor self, Tensor other, int[] dims_self, int[] dims_other, *, Tensor out) "
          "-> Tensor",
          lambda a, b, left, right, out: facula.tensordot(a, b, (left, right), out=out))  # fmt: skip
for _name in ("movedim", "moveaxis"):
    primitive(f"aten::{_name}.int(Tensor self, int source, int destination) -> Tensor",
              getattr(facula, _name))  # fmt: skip
for _n in (1, 2, 3):
    primitive(f"aten::atleast_{_n}d(Tensor self) -> Tensor", getattr(facula, f"atleast_{_n}d"))
for _name in ("mT", "mH"):
    primitive(f"aten::{_name}(Tensor self) -> Tensor", lambda x, own=_name: getattr(x, own))
primitive("aten::is_leaf(Tensor self) -> bool", lambda x: bool(x.is_leaf))
for _first, _second in (
    ("Tensor", "Tensor"),
    ("Tensor", "Scalar"),
    ("Scalar", "Tensor"),
    ("Scalar", "Scalar"),
):
    primitive(f"aten::result_type.{_first}_{_second}({_first} a, {_second} b) -> int",
              lambda a, b: code_of(facula.result_type(a, b)))  # fmt: skip
primitive("aten::rrelu.OF_FILES(Tensor self, Scalar lower, Scalar upper, bool training, Generator? generator) -> "
          "Tensor", lambda x, low, high, training, unused: F.rrelu(x, low, high, training))  # fmt: skip
