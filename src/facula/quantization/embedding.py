"""Quantized embeddings: tables of 8- and 4-bit rows, each with its own scale and zero point.

Takes: tables quantized by rows with float zero points, or float tables (row-wise prepacking). Gives: float rows, or
sums
of bags of them. Keeps true: a table is kept in its integers; what a lookup reads is dequantized by itself.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.registry import F, composite
from facula.quantization import engines
from facula.quantization.tensor import (
    PER_CHANNEL,
    QuantizedTensor,
    Quantizer,
    _packed,
    per_channel_affine_float_qparams,
    wrap,
)

__all__ = ["EmbeddingPackedParams"]


class EmbeddingPackedParams:
    """A table of rows of 8 or 4 bits."""

    def __init__(self, weight: core.Tensor) -> None:
        self._weight = weight

    def unpack(self) -> Any:
        """The table."""
        return self._weight

    def bit_rate(self) -> int:
        """Bits of an element."""
        return 4 if self._weight.dtype is core.quint4x2 else 8

    def version(self) -> int:
        """The version of the packed form in files."""
        return 1

    def rows(self, indices: core.Tensor) -> Any:
        """The float rows of some indices."""
        q = self._weight._quantizer
        levels = self._weight._integers[indices].to(core.float32)
        scale = q.scale.to(core.float32)[indices].unsqueeze(-1)
        least = -q.zero_point.to(core.float32)[indices].unsqueeze(-1) * scale
        if self.bit_rate() == 4:  # whose rows keep both in 16 bits
            scale, least = scale.half().float(), least.half().float()
        return levels * scale + least

    def __getstate__(self) -> Any:
        return (self._weight,)

    def __setstate__(self, state: Any) -> None:
        (weight,) = state
        self._weight = embedding_bag_prepack(weight).unpack()  # which checks it


def _define(schema: str) -> Any:
    return composite(f"quantized::{schema}", names=(), out=False, keeps=False)


@_define("embedding_bag_prepack(Tensor weight) -> any")
def embedding_bag_prepack(weight):
    """Parameters for lookups: a table quantized by rows, of dtype quint8 or quint4x2."""
    op = "quantized::embedding_bag_prepack"
    kinds = (core.quint8, core.quint4x2)
    if not isinstance(weight, QuantizedTensor) or weight.dtype not in kinds:
        fail(
            RuntimeError,
            op,
            "a table of dtype quint8 or quint4x2 was required",
            weight.dtype,
            hint="quantize_per_channel(weight, scales, zero_points, 0, facula.quint8)",
        )
    if weight.dim() != 2 or weight._quantizer.scheme not in PER_CHANNEL or weight._quantizer.axis:
        fail(
            RuntimeError,
            op,
            "a matrix quantized along its rows was required",
            f"{list(weight.shape)}, {weight.qscheme()}",
            hint="quantize_per_channel(weight, scales, float_zero_points, 0, dtype)",
        )
    return EmbeddingPackedParams(weight)


@_define("embedding_bag_unpack(any packed_weight) -> any")
def embedding_bag_unpack(packed_weight):
    """The table of packed parameters."""
    return _checked("quantized::embedding_bag_unpack", packed_weight).unpack()


def _checked(op: str, packed: Any) -> EmbeddingPackedParams:
    """Parameters for lookups."""
    maker = "embedding_bag_prepack(weight)"
    return engines.checked_packed(op, packed, (EmbeddingPackedParams,), maker)


def _table(op: str, weight: core.Tensor, exact: bool = True) -> Any:
    """The weight as a matrix of rows, or several matrices."""
    if weight.dim() < 2 or (exact and weight.dim() > 2):
        fail(
            RuntimeError,
            op,
            "a matrix of rows was required",
            f"a tensor of shape {list(weight.shape)}",
            hint="a table is [rows, elements of a row]",
        )
    return weight


def _bits_of(weight: core.Tensor, bits: int) -> Any:
    """Each row's integers, steps and least number."""
    weight = weight.detach().float()
    low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    levels = (1 << bits) - 1
    if bits == 8:
        step = (high - low) / levels
        factor = levels / ((high - low) + 1e-8)
    else:
        low = low.half().float()
        step = ((high - low) / levels).half().float()
        step = F.where(step == 0, F.ones_like(step), step)
        factor = step.reciprocal()
    return ((weight - low) * factor).round().clamp(0, levels).to(core.uint8), step, low


@_define("embedding_bag_byte_prepack(Tensor weight) -> Tensor")
def embedding_bag_byte_prepack(weight):
    """Rows of bytes, each followed by its step and its least number in 32 bits."""
    _table("quantized::embedding_bag_byte_prepack", weight, exact=False)
    values, step, low = _bits_of(weight, 8)
    tail = F.cat([step, low], -1).contiguous().view(core.uint8)
    return F.cat([values, tail], -1)


@_define("embedding_bag_byte_unpack(Tensor weight) -> Tensor")
def embedding_bag_byte_unpack(weight):
    """The rows of numbers of such a table."""
    _table("quantized::embedding_bag_byte_unpack", weight, exact=False)
    tail = weight[..., -8:].contiguous().view(core.float32)
    return weight[..., :-8].to(core.float32) * tail[..., :1] + tail[..., 1:]


def _few_bits(bits: int, word: str) -> None:
    each = 8 // bits

    @_define(
        f"embedding_bag_{word}_prepack(Tensor weight, bool optimized_qparams=False, int nbins=200, "
        "float ratio=0.16) -> Tensor"
    )
    def prepack(weight, optimized_qparams, nbins, ratio):
        """Rows of few bits, each followed by its step and its least number in 16 bits."""
        op = f"quantized::embedding_bag_{word}_prepack"
        if _table(op, weight, exact=False).shape[-1] % each:
            fail(
                RuntimeError,
                op,
                f"bitrate prepacking only works for columns that are a multiple of {each}",
                list(weight.shape),
                hint="pad the table with zeros",
            )
        values, step, low = _bits_of(weight, bits)
        rows = _packed(values, each).reshape(*weight.shape[:-1], -1)
        tail = F.cat([step, low], -1).half().contiguous().view(core.uint8)
        return F.cat([rows, tail], -1)

    @_define(f"embedding_bag_{word}_unpack(Tensor weight) -> Tensor")
    def unpack(weight):
        """The rows of numbers of such a table."""
        _table(f"quantized::embedding_bag_{word}_unpack", weight, exact=False)
        tail = weight[..., -4:].contiguous().view(core.float16).to(core.float32)
        levels = _unpacked(weight[..., :-4], bits)
        return levels.to(core.float32) * tail[..., :1] + tail[..., 1:]


def _unpacked(rows: core.Tensor, bits: int) -> Any:
    parts = [(rows >> (bits * i)) & ((1 << bits) - 1) for i in range(8 // bits)]
    return F.stack(parts, -1).reshape(*rows.shape[:-1], -1)


_few_bits(4, "4bit")
_few_bits(2, "2bit")


def _bag(table: Any, indices: Any, offsets: Any, mode: int, weights: Any, last: bool) -> Any:
    indices = indices.to(core.int64)
    if indices.dim() == 2:
        starts = F.arange(0, indices.numel(), indices.shape[1])
        indices = indices.reshape(-1)
    else:
        if offsets is None:
            fail(
                RuntimeError,
                "quantized::embedding_bag",
                "embedding_bag operator requires offsets for 1-D indices",
                None,
                hint="offsets say where each bag begins",
            )
        starts = offsets.to(core.int64)
    rows = table.rows(indices)
    if weights is not None:
        rows = rows * weights.reshape(-1, 1)
    if mode != 0:
        fail(
            RuntimeError,
            "quantized::embedding_bag",
            "mode 'sum' (0) was required",
            mode,
            hint="divide the sums by the lengths of the bags for means",
        )
    bags = starts.numel() - int(last)
    places = F.arange(indices.numel())
    owner = F.searchsorted(starts[:bags].contiguous(), places, right=True) - 1
    return F.zeros((bags, rows.shape[1])).index_add(0, owner, rows)


_BAG = (
    "(any weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, "
    "bool pruned_weights=False, Tensor? per_sample_weights=None, "
    "Tensor? compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor"
)


def _define_bag(word: str, bits: int) -> None:
    @_define(f"embedding_bag_{word}{_BAG}")
    def run(
        weight, indices, offsets, scale_grad_by_freq, mode, pruned_weights, per_sample_weights,
        compressed_indices_mapping, include_last_offset,
    ):  # fmt: skip
        """Sums of bags of rows."""
        op = f"quantized::embedding_bag_{word}"
        # plain tensors are rows that end in their parameters
        raw = isinstance(weight, core.Tensor) and not weight.is_quantized
        table = _Raw(_table(op, weight), bits) if raw else _checked(op, weight)
        return _bag(table, indices, offsets, mode, per_sample_weights, include_last_offset)

    if word.endswith("rowwise_offsets"):
        return

    @_define(f"embedding_{word}(any weight, Tensor indices, bool pruned_weights=False) -> Tensor")
    def rows(weight, indices, pruned_weights):
        """The rows of some indices."""
        return _checked(f"quantized::embedding_{word}", weight).rows(indices.to(core.int64))


class _Raw:
    """A table of rows that end in their parameters."""

    def __init__(self, weight: Any, bits: int) -> None:
        self.weight, self.bits = weight, bits

    def rows(self, indices: Any) -> Any:
        """The float rows of some indices."""
        taken = self.weight[indices]
        return embedding_bag_byte_unpack(taken) if self.bits == 8 else _unpack_four(taken)


def _unpack_four(rows: Any) -> Any:
    tail = rows[..., -4:].contiguous().view(core.float16).to(core.float32)
    return _unpacked(rows[..., :-4], 4).to(core.float32) * tail[..., :1] + tail[..., 1:]


for _word, _bits in (
    ("byte", 8),
    ("4bit", 4),
    ("byte_rowwise_offsets", 8),
    ("4bit_rowwise_offsets", 4),
):
    _define_bag(_word, _bits)


def table_of(weight: Any, dtype: core.dtype) -> Any:
    """A float table quantized by rows, as `nn.quantized.Embedding` starts with."""
    bits = 4 if dtype is core.quint4x2 else 8
    values, step, low = _bits_of(weight, bits)
    scale = step.reshape(-1)
    zero = -low.reshape(-1) / scale
    return wrap(values, dtype, Quantizer(per_channel_affine_float_qparams, scale, zero, 0))
