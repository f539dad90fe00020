"""Tables of a trained model that become sparse and integers.

Takes: a model with tables. Gives: `post_training_sparse_quantize`. Keeps true: other layers stay as they are.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import nn
from facula.quantization import convert, float_qparams_weight_only_qconfig, prepare

from ...sparsifier.utils import module_to_fqn
from .base_data_sparsifier import BaseDataSparsifier

__all__ = ["post_training_sparse_quantize"]

SUPPORTED_MODULES: set[type[nn.Module]] = {nn.Embedding, nn.EmbeddingBag}


def _quantize(model: nn.Module, tables: list[nn.Module]) -> None:
    """Makes these tables, and nothing else of the model, tables of integers."""
    for table in tables:
        table.qconfig = float_qparams_weight_only_qconfig
    prepare(model, inplace=True)
    convert(model, inplace=True)


def post_training_sparse_quantize(
    model: nn.Module,
    data_sparsifier_class: type[BaseDataSparsifier],
    sparsify_first: bool = True,
    select_embeddings: list[nn.Module] | None = None,
    **sparse_config: Any,
) -> None:
    """Makes tables of a model sparse and integers, in place.

    Args:
        model: the model.
        data_sparsifier_class: what computes the masks.
        sparsify_first: whether masks are computed of the tables before they become integers.
        select_embeddings: which tables; None is all of them.
        sparse_config: settings for `data_sparsifier_class`.

    >>> from facula.ao.pruning._experimental.data_sparsifier import DataNormSparsifier
    >>> from facula.ao.pruning._experimental.data_sparsifier.quantization_utils import (
    ...     post_training_sparse_quantize)
    >>> model = facula.nn.Sequential(facula.nn.Embedding(8, 4))
    >>> post_training_sparse_quantize(model, DataNormSparsifier, sparsity_level=0.5)
    >>> int((model[0].weight().dequantize().abs() < 1e-2).sum()) >= 16
    True
    """
    tables = select_embeddings
    if tables is None:
        tables = [module for module in model.modules() if type(module) in SUPPORTED_MODULES]
    names = [module_to_fqn(model, table) or "" for table in tables]
    sparsifier = data_sparsifier_class(**sparse_config)
    if not sparsify_first:
        _quantize(model, tables)
    for name in names:
        table: Any = model.get_submodule(name)
        weight = table.weight if sparsify_first else table.weight().dequantize()
        sparsifier.add_data(name=name.replace(".", "_"), data=weight)
    sparsifier.step()
    sparsifier.squash_mask()
    for name in names:
        table = model.get_submodule(name)
        data = sparsifier.get_data(name.replace(".", "_"), return_original=False).detach()
        if sparsify_first:
            table.weight = nn.Parameter(data)
        else:
            old = table.weight()
            table.set_weight(
                facula.quantize_per_channel(
                    data,
                    old.q_per_channel_scales(),
                    old.q_per_channel_zero_points(),
                    old.q_per_channel_axis(),
                    old.dtype,
                )
            )
    if sparsify_first:
        _quantize(model, tables)
