"""Masks as masked operators read and give them.

Takes inputs and masks as masked operators do. Gives the mask of the input (`_input_mask`), the mask
of a result (`_output_mask`), and dimensions in one form (`_canonical_dim`). Keeps true: a masked
operator's result is defined where `_output_mask` is true.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F

_REDUCTIONS = frozenset(
    "sum prod amax amin argmax argmin mean median norm var std logsumexp".split()
)
_NORMALIZATIONS = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())


def _canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions as a sorted tuple; None and () are all of them."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    found = [wrap_dim("masked", d, ndim) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(found)) != len(found):
        fail(
            RuntimeError,
            "masked",
            "dimensions that appear once were required",
            f"dim={dim} (dim appears multiple times)",
            hint="leave out what is there twice",
        )
    return tuple(sorted(found))


def _input_mask(
    input: core.Tensor, *args: object, mask: core.Tensor | None = None, **kwargs: object
) -> Any:
    """The mask as bools of the shape of the input."""
    if mask is None:
        required = "a mask was required: _input_mask requires explicit mask"
        fail(
            ValueError, "masked", required, hint="mask=facula.ones_like(input).bool() is all of it"
        )
    if mask.dim() > input.dim():
        fail(
            IndexError,
            "masked",
            "a mask of at most the input's dimensions was required: _input_mask expected broadcastable "
            "mask (got mask dimensionality higher than of the input)",
            f"{mask.dim()} and {input.dim()}",
            hint="reduce the mask first, for example with mask.all(0)",
        )
    mask = mask.to_dense() if mask.layout is not core.strided else mask
    mask = mask if mask.shape == input.shape else F.broadcast_to(mask, input.shape)
    return mask.to(core.bool_)


def _output_mask(op: core.Op, input: core.Tensor, *args: object, **kwargs: Any) -> Any:
    """The mask of what a masked operator gives for these arguments."""
    name = getattr(op, "__name__", str(op)).rpartition("_masked_")[2]
    if name in _NORMALIZATIONS:
        return _input_mask(input, mask=kwargs.get("mask"))
    if name not in _REDUCTIONS:
        required = f"a masked reduction or normalization was required: _output_mask got {name}"
        fail(ValueError, "masked", required, hint="for example facula.masked.sum")
    if name == "norm":
        args = args[1:]  # without `ord`
    found = _input_mask(input, mask=kwargs.get("mask"))
    dims = _canonical_dim(args[0] if args else kwargs.get("dim"), input.dim())
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", False)
    for d in reversed(dims):
        found = found.any(d, keepdim=bool(keepdim))
    return found
