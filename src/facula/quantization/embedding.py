"""Quantized embeddings: tables of 8- and 4-bit rows, each with its own scale and zero point.

Takes: tables quantized by rows with float zero points, or float tables (row-wise prepacking), of which only
some rows may be there. Gives: float rows, or sums of bags of them.
Keeps true: a table is kept in its integers; what a lookup reads is dequantized by itself.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.batch_forms import anywhere
from facula.ops.table.registry import F, composite
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

    def __len__(self) -> int:
        return self._weight.shape[0]

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
        return _rows_of(weight, bits)


def _rows_of(weight: core.Tensor, bits: int) -> Any:
    """The numbers of rows of few bits that end in their step and least number."""
    tail = weight[..., -4:].contiguous().view(core.float16).to(core.float32)
    levels = _unpacked(weight[..., :-4], bits)
    return levels.to(core.float32) * tail[..., :1] + tail[..., 1:]


def _unpacked(rows: core.Tensor, bits: int) -> Any:
    parts = [(rows >> (bits * i)) & ((1 << bits) - 1) for i in range(8 // bits)]
    return F.stack(parts, -1).flatten(-2)


_few_bits(4, "4bit")
_few_bits(2, "2bit")


def _starts(op: str, indices: core.Tensor, offsets: Any, last: bool) -> Any:
    """Where each bag begins among the flat indices, checked; with `last` the end of the last one too."""
    if indices.dim() == 2:
        return F.arange(0, indices.numel(), indices.shape[1])
    if offsets is None:
        hint = "offsets say where each bag begins"
        fail(
            RuntimeError, op, "embedding_bag operator requires offsets for 1-D indices", None, hint
        )
    starts, count = offsets.to(core.int64).reshape(-1), indices.numel()
    limit = F.full((1,), count, dtype=core.int64)
    bounds = F.cat([F.zeros((1,), dtype=core.int64), starts, limit])
    wrong = bounds[1:] < bounds[:-1]
    # nothing lies in front of the first bag, and with `last` nothing behind the end
    ends = F.cat([starts[:1] != 0, starts[-1:] != count] if last else [starts[:1] != 0])
    if anywhere(F.cat([wrong, ends])) or (last and not starts.numel()):
        required = f"offsets from 0 that rise to at most the {count} indices were required"
        if last:
            required = f"offsets from 0 that rise to the {count} indices were required"
        hint = "they are the sums of the lengths of the bags before"
        fail(RuntimeError, op, required, offsets.tolist(), hint=hint)
    return starts


def _kept_rows(op: str, table: Any, indices: core.Tensor, mapping: core.Tensor) -> Any:
    """The rows of indices in a table that holds only some of its rows; zeros for the others.

    `mapping` says for each index which row it has, -1 for none."""
    if mapping.dim() != 1 or mapping.dtype not in (core.int32, core.int64):
        required = "a mapping from indices to rows was required, int32 or int64"
        got = f"{mapping.dtype} {list(mapping.shape)}"
        fail(RuntimeError, op, required, got, hint="-1 stands for rows that were left out")
    kept = mapping.to(core.int64)[indices]
    if anywhere(kept < -1):
        hint = "-1 stands for rows that were left out"
        fail(RuntimeError, op, "rows of at least -1 were required", kept.min().item(), hint=hint)
    if not len(table) and not anywhere(kept >= 0):
        return F.zeros((indices.numel(), table.rows(kept[:0]).shape[1]))
    found = table.rows(kept.clamp(min=0))
    return F.where((kept >= 0)[:, None], found, F.zeros_like(found))


def _bag(
    op: str,
    table: Any,
    indices: Any,
    offsets: Any,
    mode: int,
    weights: Any,
    mapping: Any,
    last: bool,
) -> Any:
    if mode != 0:
        hint = "divide the sums by the lengths of the bags for means"
        fail(RuntimeError, op, "mode 'sum' (0) was required", mode, hint=hint)
    indices = indices.to(core.int64)
    starts = _starts(op, indices, offsets, last and indices.dim() == 1)
    bags = starts.numel() - int(last and indices.dim() == 1)
    indices = indices.reshape(-1)
    rows = table.rows(indices) if mapping is None else _kept_rows(op, table, indices, mapping)
    if weights is not None:
        if weights.numel() != indices.numel():
            required, hint = f"{indices.numel()} weights were required", "one for each index"
            fail(RuntimeError, op, required, list(weights.shape), hint=hint)
        rows = rows * weights.reshape(-1, 1)
    places = F.arange(indices.numel())
    owner = F.searchsorted(starts[:bags].contiguous(), places, right=True) - 1
    return F.zeros((bags, rows.shape[1])).index_add(0, owner, rows)


def _mapping(op: str, pruned: bool, mapping: Any) -> Any:
    """The mapping of a table that holds only some of its rows, None for one that holds all."""
    if not pruned:
        return None
    if mapping is None:
        required = "compressed_indices_mapping was required of a table without some of its rows"
        fail(RuntimeError, op, required, "none", hint="pruned_weights=False where all are there")
    # a single 0 says that nothing was left out
    return None if mapping.numel() == 1 and mapping.item() == 0 else mapping


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
        mapping = _mapping(op, pruned_weights, compressed_indices_mapping)
        given = (indices, offsets, mode, per_sample_weights, mapping, include_last_offset)
        return _bag(op, table, *given)

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

    def __len__(self) -> int:
        return self.weight.shape[0]

    def rows(self, indices: Any) -> Any:
        """The float rows of some indices."""
        taken = self.weight[indices]
        return embedding_bag_byte_unpack(taken) if self.bits == 8 else _rows_of(taken, self.bits)


for _word, _bits in (
    ("byte", 8),
    ("4bit", 4),
    ("byte_rowwise_offsets", 8),
    ("4bit_rowwise_offsets", 4),
    ("2bit_rowwise_offsets", 2),
):
    _define_bag(_word, _bits)


def table_of(weight: Any, dtype: core.dtype) -> Any:
    """A float table quantized by rows, as `nn.quantized.Embedding` starts with."""
    bits = 4 if dtype is core.quint4x2 else 8
    values, step, low = _bits_of(weight, bits)
    scale = step.reshape(-1)
    zero = -low.reshape(-1) / scale
    return wrap(values, dtype, Quantizer(per_channel_affine_float_qparams, scale, zero, 0))
