"""The class of masked tensors, and comparisons of them.

Takes masked tensors, or tensors. Gives the class, and whether two are alike. Keeps true: nothing is changed.
"""

from __future__ import annotations

from typing import Any

from facula.core import Tensor
from facula.ops.table.registry import F
from facula.torch_api._maskedtensor import MaskedTensor, is_masked_tensor
from facula.torch_api._maskedtensor.core import same_places

__all__ = ["MaskedTensor", "is_masked_tensor"]


def _tensors_match(
    a: Any, b: Any, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08
) -> bool:
    """Whether two tensors of one layout have the same elements, at the same places; or nearly the same.

    Raises:
        ValueError: the layouts differ.
    """
    if is_masked_tensor(a) or is_masked_tensor(b):
        a, b = (x.get_data() if is_masked_tensor(x) else x for x in (a, b))
    if a.layout is not b.layout:
        return False
    if a.is_sparse or a.is_sparse_csr:
        a, b = (x.coalesce() if x.is_sparse else x for x in (a, b))
        if tuple(a.shape) != tuple(b.shape) or not same_places(a, b):
            return False
        a, b = a.values(), b.values()
    if exact:
        return bool(a.dim() == b.dim() and F.eq(a, b).all().item())
    return bool(F.allclose(a, b, rtol=rtol, atol=atol))


def _masks_match(a: Any, b: Any) -> bool:
    """Whether two masked tensors have the same mask; an ordinary tensor beside one matches any."""
    if not (is_masked_tensor(a) and is_masked_tensor(b)):
        return True
    first, second = a.get_mask(), b.get_mask()
    return tuple(first.shape) == tuple(second.shape) and _tensors_match(first, second)


def _get_data(a: Any) -> Any:
    """The elements of a masked tensor; an ordinary one as it is."""
    return a.get_data() if is_masked_tensor(a) else a


def _maybe_get_mask(a: Any) -> Tensor | None:
    """The mask of a masked tensor, None of an ordinary one."""
    found: Tensor | None = a.get_mask() if is_masked_tensor(a) else None
    return found
