"""What decompositions ask of tensors and dtypes, under PyTorch's name (`torch._prims_common`, `torch._prims.utils`).

Takes: tensors, shapes, dimensions, dtypes. Gives: answers, or the errors that decompositions raise.
Keeps true: the answers are those that the operators of the table act on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dim

__all__ = [
    "canonicalize_dim",
    "check_all_strides",
    "check_significant_strides",
    "canonicalize_dims",
    "compare_tensor_meta",
    "compute_required_storage_length",
    "corresponding_complex_dtype",
    "corresponding_real_dtype",
    "dtype_to_type",
    "is_boolean_dtype",
    "is_complex_dtype",
    "is_contiguous",
    "is_float_dtype",
    "is_integer_dtype",
    "is_same_shape",
    "make_contiguous_strides_for",
    "suggest_memory_format",
    "type_to_dtype",
]

_TYPES = {bool: core.bool_, int: core.int64, complex: core.complex64}


def is_boolean_dtype(dtype: core.dtype) -> bool:
    """Whether it is that of truth values."""
    return dtype is core.bool_


def is_integer_dtype(dtype: core.dtype) -> bool:
    """Whether it is one of whole numbers."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is core.bool_)


def is_float_dtype(dtype: core.dtype) -> bool:
    """Whether it is one of real numbers."""
    return bool(dtype.is_floating_point)


def is_complex_dtype(dtype: core.dtype) -> bool:
    """Whether it is one of complex numbers."""
    return bool(dtype.is_complex)


def dtype_to_type(dtype: core.dtype) -> type:
    """The class of the Python number that an element is."""
    if dtype.is_complex:
        return complex
    if dtype.is_floating_point:
        return float
    return bool if dtype is core.bool_ else int


def type_to_dtype(typ: type) -> Any:
    """The dtype of a tensor of Python numbers of a class."""
    return core.get_default_dtype() if typ is float else _TYPES[typ]


def corresponding_real_dtype(dtype: core.dtype) -> Any:
    """The dtype of the parts of complex numbers."""
    return dtype.to_real()


def corresponding_complex_dtype(dtype: core.dtype) -> Any:
    """The dtype of complex numbers with such parts."""
    return dtype.to_complex()


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the first one."""
    if rank == 0 and not wrap_scalar:
        fail(
            IndexError,
            "canonicalize_dim",
            f"a tensor of one dimension or more was required (Dimension specified as {idx} but tensor "
            "has no dimensions)",
            rank,
            hint="unsqueeze(0) adds one",
        )
    return wrap_dim("canonicalize_dim", idx, rank)


def canonicalize_dims(rank: int, indices: Any, wrap_scalar: bool = True) -> Any:
    """Dimensions counted from the first one."""
    if isinstance(indices, Sequence):
        return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)
    return canonicalize_dim(rank, indices, wrap_scalar)


def is_same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a dense tensor of a shape; `row_major=False`: of matrices stored by columns."""
    order = list(range(len(shape)))
    if not row_major and len(order) > 1:
        order[-2], order[-1] = order[-1], order[-2]
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)


def compute_required_storage_length(
    shape: Sequence[int], strides: Sequence[int], storage_offset: int
) -> int:
    """How many elements the memory of a tensor has at least."""
    if prod(shape) == 0:
        return 0
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return storage_offset + last + 1


def check_significant_strides(
    a: core.Tensor, b: core.Tensor, *, only_cuda: bool = True, significant_only: bool = True
) -> tuple[bool, int | None]:
    """(whether two tensors have the same steps in memory, the first dimension where they differ).

    Args:
        a, b: the tensors
        only_cuda: whether tensors elsewhere count as alike
        significant_only: whether steps of dimensions without a second element do not matter
    """
    compared = not only_cuda or "cuda" in (a.device.type, b.device.type)
    if not compared or (significant_only and not a.numel()):
        return True, None
    for d, size in enumerate(a.shape):
        if a.stride(d) != b.stride(d) and (size > 1 or not significant_only):
            return False, d
    return True, None


def check_all_strides(
    a: core.Tensor, b: core.Tensor, *, only_cuda: bool = True
) -> tuple[bool, int | None]:
    """The same of all steps, those that do not matter too."""
    return check_significant_strides(a, b, only_cuda=only_cuda, significant_only=False)


def is_contiguous(a: core.Tensor) -> bool:
    """Whether the elements lie in order, without gaps."""
    return a.is_contiguous()


def suggest_memory_format(x: core.Tensor) -> Any:
    """The memory format in which a result lies best."""
    for layout, ndim in ((core.channels_last, 4), (core.channels_last_3d, 5)):
        if x.dim() == ndim and x.is_contiguous(memory_format=layout):
            return core.contiguous_format if x.is_contiguous() else layout
    return core.contiguous_format


def compare_tensor_meta(
    a: core.Tensor,
    b: core.Tensor,
    check_sizes: bool = True,
    check_strides: bool = False,
    *,
    allow_rhs_unbacked: bool = False,
    check_conj: bool = True,
) -> None:
    """Raise where two tensors differ in shape, dtype, device or, if asked, strides and offset.

    Raises:
        AssertionError: the shapes, dtypes or devices differ.
        RuntimeError: the strides or offsets do.
    """
    parts: list[tuple[str, Any, Any]] = (
        [("shapes", tuple(a.shape), tuple(b.shape))] if check_sizes else []
    )
    parts += [("dtypes", a.dtype, b.dtype), ("devices", str(a.device), str(b.device))]
    for what, one, other in parts:
        if one != other:
            required = f"{what} that are equal were required ({what.capitalize()} {one} and {other} are not equal!)"
            fail(AssertionError, "compare_tensor_meta", required, hint="convert one of both")
    if not check_strides:
        return
    moved = [d for d, n in enumerate(a.shape) if n > 1 and a.numel()]
    if [a.stride(d) for d in moved] != [b.stride(d) for d in moved]:
        required = f"equal strides were required (Stride mismatch! Strides are {a.stride()} and {b.stride()})"
        fail(RuntimeError, "compare_tensor_meta", required, hint="contiguous() gives both the same")
    if a.storage_offset() != b.storage_offset():
        required = "equal offsets were required (Storage offset mismatch!)"
        got = f"{a.storage_offset()} and {b.storage_offset()}"
        fail(RuntimeError, "compare_tensor_meta", required, got, "clone() begins at 0")
