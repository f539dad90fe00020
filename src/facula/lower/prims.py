"""The primitive operators: what programs come down to, with arguments that say everything.

Takes: tensors and numbers.  Gives: `PRIMS`, by name: the scalar primitives of the table as they are,
and functions for shapes, conversions, reductions and factories that broadcast and promote nothing.
Keeps true: the elementwise ones are the table's primitives; none is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.lower.decompositions.pointwise import is_primitive
from facula.ops.table.registry import TABLE, F, own_operators

Tensor = core.Tensor


def broadcast_in_dim(
    a: Tensor, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Tensor:
    """`a` repeated to `shape`; its dimension i becomes `broadcast_dimensions[i]`."""
    if len(broadcast_dimensions) != a.dim():
        fail(
            ValueError,
            "broadcast_in_dim",
            f"{a.dim()} dimensions were required",
            tuple(broadcast_dimensions),
            hint="name where every dimension of the tensor goes",
        )
    for dim in range(len(shape)):
        if dim not in broadcast_dimensions:
            a = a.unsqueeze(dim)
    return a.expand(tuple(shape))


def convert_element_type(a: Tensor, dtype: core.dtype) -> Tensor:
    """The elements in another dtype."""
    return a.to(dtype)


def device_put(a: Tensor, device: core.device | None, non_blocking: bool = False) -> Tensor:
    """The elements on another device."""
    return a.to(device)


def collapse_view(a: Tensor, start: int, end: int) -> Tensor:
    """The dimensions from `start` to `end` (included) as one."""
    return a.flatten(start, end)


def split_dim(a: Tensor, dim: int, outer_length: int) -> Tensor:
    """One dimension as two, the outer of a given length."""
    shape = [*a.shape]
    return a.reshape([*shape[:dim], outer_length, shape[dim] // outer_length, *shape[dim + 1 :]])


def slice_in_dim(
    a: Tensor, start_index: int, limit_index: int, stride: int = 1, axis: int = 0
) -> Tensor:
    """A range along one dimension."""
    return F.slice(a, axis, start_index, limit_index, stride)


def slice(  # noqa: A001
    a: Tensor,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Tensor:
    """A range along every dimension."""
    steps = [1] * a.dim() if strides is None else strides
    for dim, (start, stop, step) in enumerate(
        zip(start_indices, limit_indices, steps, strict=True)
    ):
        a = F.slice(a, dim, start, stop, step)
    return a


def transpose(a: Tensor, permutation: Sequence[int]) -> Tensor:
    """The dimensions in another order."""
    return a.permute(tuple(permutation))


def squeeze(a: Tensor, dimensions: Sequence[int]) -> Tensor:
    """Without some dimensions of size 1."""
    return F.squeeze(a, tuple(dimensions))


def reshape(a: Tensor, shape: Sequence[int]) -> Tensor:
    """The elements in another shape."""
    return a.reshape(tuple(shape))


def view_of(a: Tensor) -> Tensor:
    """A view of everything."""
    return a.view_as(a)


def rev(a: Tensor, dims: Sequence[int]) -> Tensor:
    """The elements in reverse order along dimensions."""
    return a.flip(tuple(dims))


def iota(
    length: int,
    *,
    start: int = 0,
    step: int = 1,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`start`, `start + step`, ..: `length` numbers."""
    kind = core.int64 if dtype is None else dtype
    made = F.arange(start, start + step * length, step, dtype=kind, device=device)
    return made.requires_grad_() if requires_grad else made


def item(a: Tensor) -> Any:
    """The one element as a number."""
    return a.item()


def copy_to(a: Tensor, b: Tensor) -> Tensor:
    """Write the elements of `b` to `a`."""
    return a.copy_(b)


def var(inp: Tensor, dims: Sequence[int] | None, correction: float = 1) -> Tensor:
    """The variance over dimensions."""
    return F.var_correction(inp, None if dims is None else tuple(dims), float(correction), False)


def _reduced(name: str) -> Callable[..., Any]:
    operator: Any = TABLE[name]

    def reduction(inp: Tensor, dims: Sequence[int] | None = None, **options: object) -> Tensor:
        return operator(inp, () if dims is None and name[0] == "a" else dims, **options)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = operator.__doc__
    return reduction


def _prims() -> dict[str, Any]:
    found: dict[str, Any] = {
        name: operator
        for name, operator in own_operators().items()
        if operator.definition.kind == "pointwise" and is_primitive(operator) and name[0] != "_"
    }
    written = (
        broadcast_in_dim, convert_element_type, device_put, collapse_view, split_dim, slice_in_dim,
        slice, transpose, squeeze, reshape, view_of, rev, iota, item, copy_to, var,
    )  # fmt: skip
    found |= {function.__name__: function for function in written}
    found |= {name: _reduced(name) for name in ("sum", "amax", "amin")}
    found |= {name: TABLE[name] for name in ("prod", "cat", "as_strided", "clone", "full", "full_like",
                                             "empty", "empty_strided", "empty_permuted",
                                             "scalar_tensor", "normal", "conj")}  # fmt: skip
    return found


PRIMS = _prims()
