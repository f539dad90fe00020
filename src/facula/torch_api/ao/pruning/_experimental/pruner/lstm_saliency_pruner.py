"""Rows of each gate of an LSTM with the smallest sums of absolute values go.

Takes: the share of rows. Gives: `LSTMSaliencyPruner`. Keeps true: all gates lose equally many rows.
"""

from __future__ import annotations

from typing import Any

from facula import nn

from .base_structured_sparsifier import BaseStructuredSparsifier
from .parametrization import FakeStructuredSparsity
from .saliency_pruner import saliency_of

__all__ = ["LSTMSaliencyPruner"]


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """Prunes in every gate of an LSTM the rows with the smallest sums of absolute values.

    A group's setting `sparsity_level` is the share of rows that go.

    Args:
        defaults, patterns: as for `BaseStructuredSparsifier`.

    >>> from facula.ao.pruning._experimental.pruner import LSTMSaliencyPruner
    >>> model = facula.nn.Sequential(facula.nn.LSTM(2, 4))
    >>> pruner = LSTMSaliencyPruner({"sparsity_level": 0.5})
    >>> pruner.prepare(model, [{"tensor_fqn": "0.weight_ih_l0"}])
    >>> pruner.step()
    >>> int(model[0].parametrizations.weight_ih_l0[0].mask.sum())
    8
    """

    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
        """Sets the mask of one tensor.

        Args:
            module: the module that has it.
            tensor_name: its name there.
            kwargs: the group's settings, `sparsity_level` among them.
        """
        saliency = saliency_of(getattr(module, tensor_name))
        rows = len(saliency) // 4
        dropped = int(rows * kwargs["sparsity_level"])
        for one in module.parametrizations[tensor_name]:
            if not isinstance(one, FakeStructuredSparsity):
                continue
            for gate in range(4):
                inside = slice(gate * rows, (gate + 1) * rows)
                order = saliency[inside].argsort(stable=True)[:dropped]
                one.mask.data[inside][order] = False
