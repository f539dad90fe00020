"""Embeddings of 8- and 4-bit rows.

Takes: indices. Gives: float rows, or sums of bags of them. Keeps true: the state has PyTorch's names.
"""

from __future__ import annotations

from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.quantization import embedding as rows
from facula.quantization.create import quantize_per_channel
from facula.quantization.modules import quantized as nnq
from facula.quantization.modules.quantized import quantized_weight

_OPS = nnq._ops()
_byte, _bag_byte = _OPS.embedding_byte, _OPS.embedding_bag_byte
_four_bits, _bag_four_bits = _OPS.embedding_4bit, _OPS.embedding_bag_4bit

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


class EmbeddingPackedParams(nn.Module):
    """The packed table as a module, with its place in state dictionaries."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = core.quint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype not in (core.quint8, core.quint4x2):
            fail(
                NotImplementedError,
                "EmbeddingPackedParams",
                "Unsupported dtype for quantized embedding: quint8 or quint4x2 was required",
                dtype,
                hint="dtype=facula.quint8",
            )
        scales, zeros = F.ones((num_embeddings,)), F.zeros((num_embeddings,))
        empty = F.zeros((num_embeddings, embedding_dim))
        self.set_weight(quantize_per_channel(empty, scales, zeros, 0, dtype))

    def set_weight(self, weight: Any) -> None:
        """Pack a table."""
        self._packed_weight = rows.embedding_bag_prepack(weight)

    def _weight(self) -> Any:
        return self._packed_weight.unpack()

    def forward(self, x: core.Tensor) -> Any:
        """The argument."""
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
        if prefix + "_packed_weight" in state_dict:
            self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __repr__(self) -> str:
        return str(self._weight())


class Embedding(nn.Module):
    """Rows of a table of integers."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None, max_norm: Any = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
        _weight: Any = None, dtype: core.dtype = core.quint8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            self._packed_params.set_weight(_weight)

    def forward(self, indices: core.Tensor) -> Any:
        """The rows."""
        if self.dtype == core.quint4x2:
            return _four_bits(self._packed_params._packed_weight, indices)
        return _byte(self._packed_params._packed_weight, indices)

    def set_weight(self, w: Any) -> None:
        """Take another table."""
        self._packed_params.set_weight(w)

    def weight(self) -> Any:
        """The quantized table."""
        return self._packed_params._weight()

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"  # without the table's elements

    def extra_repr(self) -> str:
        """Sizes and the dtype of the table."""
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    @classmethod
    def _table(cls, mod: Any) -> tuple[Any, Any]:
        if hasattr(mod, "weight_fake_quant"):
            observer = mod.weight_fake_quant
        else:
            # lazily: it imports the observers only where nobody chose one
            from facula.quantization.qconfig import float_qparams_weight_only_qconfig as default

            observer = (getattr(mod, "qconfig", None) or default).weight()
            observer(mod.weight)
        return quantized_weight(mod.weight, observer), observer.dtype

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a float table."""
        weight, dtype = cls._table(mod)
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=dtype)
        made.set_weight(weight)
        return made

    @classmethod
    def from_reference(cls, ref_embedding: Any) -> Any:
        """In the place of a reference table."""
        kind = ref_embedding.weight_dtype
        made = cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, dtype=kind)
        if hasattr(ref_embedding, "include_last_offset"):
            made.include_last_offset = ref_embedding.include_last_offset
        made.set_weight(ref_embedding.get_quantized_weight())
        return made


class EmbeddingBag(Embedding):
    """Sums of bags of rows."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: Any = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "sum", sparse: bool = False,
        _weight: Any = None, include_last_offset: bool = False, dtype: core.dtype = core.quint8,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset, self.pruned_weights = mode, include_last_offset, False

    def forward(
        self, indices: core.Tensor, offsets: core.Tensor | None = None,
        per_sample_weights: core.Tensor | None = None, compressed_indices_mapping: core.Tensor | None = None,
    ) -> Any:  # fmt: skip
        """The sums."""
        table = self._packed_params._packed_weight
        if self.dtype == core.quint4x2:
            return _bag_four_bits(
                table, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
                compressed_indices_mapping, self.include_last_offset,
            )  # fmt: skip
        return _bag_byte(
            table, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
            compressed_indices_mapping, self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """In the place of a float table."""
        weight, dtype = cls._table(mod)
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=dtype)
        made.include_last_offset = mod.include_last_offset
        made.set_weight(weight)
        return made
