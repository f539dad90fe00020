"""Masks of several operands that have to be one.

Takes: masked tensors and the shape of a result. Gives: the mask that all have, or an error.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail

from .core import same_places


def common_mask(name: str, masked: list[Any], shape: object) -> Any:
    """The mask that all operands have, at the shape of the result."""
    masks = [m._masked_mask for m in masked]
    first = masks[0]
    if first.layout is core.strided:
        masks = [m if m.shape == shape else m.expand(shape) for m in masks]
    for other in masks[1:]:
        if other is not first and not _equal(masks[0], other):
            fail(
                ValueError,
                name,
                "Input masks must match",
                "masks that differ",
                hint="masked_tensor(data, a.get_mask() & b.get_mask()) gives operands a common mask",
            )
    return masks[0]


def _equal(a: Any, b: Any) -> bool:
    if a.layout is not b.layout or a.shape != b.shape:
        return False
    if a.layout is core.strided:
        return bool((a == b).all())
    return same_places(a, b) and bool((a.values() == b.values()).all())
