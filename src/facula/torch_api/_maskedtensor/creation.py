"""The two functions that make masked tensors, as `tensor` and `as_tensor` make ordinary ones.

Takes elements and bools of one shape and layout. Gives masked tensors that share no memory with them.
"""

from __future__ import annotations

from facula import core

from .core import MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: object, mask: core.Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor that is a leaf of its own: no gradient reaches `data`.

    Args:
        data: the elements (strided, COO or CSR).
        mask: bools of the same shape and layout; True: the element counts.
        requires_grad: whether the masked tensor gets a gradient.

    >>> data = facula.arange(4.0)
    >>> facula.masked.masked_tensor(data, data > 1).sum()
    MaskedTensor(  5.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: object, mask: core.Tensor) -> MaskedTensor:
    """A masked tensor through which gradients reach `data`; they are masked tensors too."""
    return MaskedTensor._from_values(data, mask)
