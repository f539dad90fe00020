"""Embedding tables.

Takes integer indices.  Gives rows of a weight table, or their sums, means or maxima per bag.
Keeps true: the row ``padding_idx`` starts at zero and gets no gradient.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _wrap_padding_index(padding_idx: int | None, num_embeddings: int) -> int | None:
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        fail(
            AssertionError,
            "Embedding",
            "Padding_idx must be within num_embeddings",
            hint="padding_idx=0 is the first row, -1 the last",
        )
    return padding_idx % num_embeddings


class _EmbeddingTable(Module):
    """The table and what both layers do with it."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Any

    def _make_weight(
        self,
        given: core.Tensor | None,
        freeze: bool,
        device: core.device | str | int | None,
        dtype: Any,
    ) -> None:
        shape = [self.num_embeddings, self.embedding_dim]
        if given is None:
            empty = facula.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(given.shape) != shape:
            fail(
                AssertionError,
                type(self).__name__,
                "Shape of weight does not match num_embeddings and embedding_dim",
                hint="from_pretrained(weight) takes both from the weight",
            )
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new rows."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _table_sizes(embeddings: core.Tensor) -> tuple[int, int]:
    if embeddings.dim() != 2:
        fail(
            AssertionError,
            "from_pretrained",
            "Embeddings parameter is expected to be 2-dimensional",
            hint="one row for each entry",
        )
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(_EmbeddingTable):
    """A table of vectors: one row for each index. Gradients reach the rows that were asked for.

    ``weight`` is ``[num_embeddings, embedding_dim]`` and starts standard normal.

    Args:
        num_embeddings: number of rows
        embedding_dim: length of a row
        padding_idx: a row that starts at zero and gets no gradient; negative ones count from the
            end
        max_norm: rows with a larger norm are scaled down to it, in place, when they are read
        norm_type: the p of that norm
        scale_grad_by_freq: whether a row's gradient is divided by how often it stands in the batch
        sparse: whether the gradient of ``weight`` is a sparse tensor (for `optim.SparseAdam`,
            `optim.SGD` and `optim.Adagrad`)
        device, dtype: of ``weight``

    Shape:
        integer indices ``[*]`` to ``[*, embedding_dim]``.

    Raises:
        AssertionError: ``padding_idx`` is outside of the table.
        IndexError: at the call, where an index is outside of the table.

    Example:
        >>> table = facula.nn.Embedding.from_pretrained(facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> table(facula.tensor([1, 0, 1]))
        tensor([[3., 4.],
                [1., 2.],
                [3., 4.]])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _wrap_padding_index(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._make_weight(_weight, _freeze, device, dtype)
        self.sparse = sparse

    def forward(self, input: core.Tensor) -> Any:
        """``[...]`` indices to ``[..., embedding_dim]``."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """The parameters that differ from their defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: core.Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer with the given table, not trained unless ``freeze`` is False."""
        rows, columns = _table_sizes(embeddings)
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_EmbeddingTable):
    """Sums, means or maxima of the rows of bags of indices, without making the rows.

    Args:
        num_embeddings: number of rows
        embedding_dim: length of a row
        max_norm: rows with a larger norm are scaled down to it, in place, when they are read
        norm_type: the p of that norm
        scale_grad_by_freq: whether a row's gradient is divided by how often it stands in the batch;
            not for 'max'
        mode: 'sum', 'mean' or 'max'
        sparse: whether the gradient of ``weight`` is a sparse tensor; not for 'max'
        include_last_offset: whether the last of ``offsets`` is the end of the last bag
        padding_idx: a row that does not count in its bag and gets no gradient
        device, dtype: of ``weight``

    Shape:
        indices ``[B, L]`` for B bags of equal length; or ``[n]`` with ``offsets`` ``[B]``, where
        each bag begins. ``per_sample_weights``, of the indices' shape, multiplies rows ('sum'
        only). The result is ``[B, embedding_dim]``; an empty bag gives zeros.

    Example:
        >>> bags = facula.nn.EmbeddingBag.from_pretrained(facula.tensor([[1.0], [2.0], [4.0]]), mode="sum")
        >>> bags(facula.tensor([0, 1, 2, 2]), offsets=facula.tensor([0, 3]))
        tensor([[7.],
                [4.]])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _wrap_padding_index(padding_idx, num_embeddings)
        self._make_weight(_weight, False, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(
        self, input: core.Tensor, offsets: Any = None, per_sample_weights: Any = None
    ) -> Any:
        """``[B, N]`` indices, or ``[N]`` indices with the ``offsets`` of the bags, to ``[B,
        embedding_dim]``.
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """The parameters that differ from their defaults."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer with the given table, not trained unless ``freeze`` is False."""
        rows, columns = _table_sizes(embeddings)
        bag = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
