"""What losses share: how elements are reduced, and a weight.

Takes the reduction, or its older form.  Gives `_Loss` and `_WeightedLoss`.
Keeps true: ``reduction`` is the attribute, whichever form was given; the weight is a buffer.
"""

from __future__ import annotations

from typing import Any

from facula.nn import _reduction
from facula.nn.modules.module import Module


class _Loss(Module):
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            self.reduction = _reduction.legacy_get_string(size_average, reduce)
        else:
            self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: object = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.weight: Any
