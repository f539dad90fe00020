"""Products of scaled and of grouped matrices, and what PyTorch's `nn.functional` has beside its
functions.

Takes matrices of short dtypes with scales, or groups of rows. Gives compositions of products and
scalings, so gradients follow. Keeps true: scales multiply before the sum is taken, in float32.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.namespaces.overrides import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "ScalingType",
    "SwizzleType",
    "assert_int_or_pair",
    "boolean_dispatch",
    "grouped_mm",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "scaled_grouped_mm",
    "scaled_mm",
]


class _BroadcastingList:
    """`BroadcastingList2[int]` in an annotation: a list of a fixed length, or one item for all
    places.
    """

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = _BroadcastingList()
BroadcastingList3 = _BroadcastingList()


class ScalingType(enum.IntEnum):
    """How many values share a scale, in `scaled_mm`.

    Example:
        >>> facula.nn.functional.ScalingType.TensorWise.name
        'TensorWise'
    """

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In which order scales lie, in `scaled_mm`.

    Example:
        >>> facula.nn.functional.SwizzleType.NO_SWIZZLE.name
        'NO_SWIZZLE'
    """

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


_BLOCKS = {
    ScalingType.BlockWise1x16: (1, 16),
    ScalingType.BlockWise1x32: (1, 32),
    ScalingType.BlockWise1x128: (1, 128),
    ScalingType.BlockWise128x128: (128, 128),
}


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str | None,
    func_name: str,
) -> Callable[..., Any]:
    """A function that is one of two others, by the value of one of its arguments.

    Args:
        arg_name: its name
        arg_index: its position
        default: its value where it is left out
        if_true, if_false: the two functions
        module_name, func_name: of the result

    Example:
        >>> pick = facula.nn.functional.boolean_dispatch("flag", 1, False, max, min, None, "pick")
        >>> callable(pick)
        True
    """

    def chosen(*args: object, **kwargs: object) -> Any:
        value = args[arg_index] if arg_index < len(args) else kwargs.get(arg_name, default)
        return (if_true if value else if_false)(*args, **kwargs)

    chosen.__doc__ = if_true.__doc__ or if_false.__doc__
    chosen.__name__ = func_name
    if module_name is not None:
        chosen.__module__ = module_name
    return chosen


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raises unless an argument is one int or two.

    Args:
        arg: the argument
        arg_name: its name in the message
        message: with a place for the name

    Raises:
        AssertionError: it is something else.

    Example:
        >>> facula.nn.functional.assert_int_or_pair((1, 2), "size", "{} is wrong")
    """
    if not (isinstance(arg, int) or len(arg) == 2):
        fail(
            AssertionError,
            arg_name,
            message.format(arg_name),
            arg,
            hint="give an int or a pair of ints",
        )


def _dequantized(op: str, x: core.Tensor, scales: object, recipes: object, swizzles: object) -> Any:
    """Rows [m, k] of short floats times their scales, in float32."""
    result = x.to(facula.float32)
    scales = scales if isinstance(scales, (list, tuple)) else [scales]
    recipes = recipes if isinstance(recipes, (list, tuple)) else [recipes]
    swizzles = swizzles if isinstance(swizzles, (list, tuple)) else [swizzles]
    for swizzle in swizzles:
        if swizzle not in (None, SwizzleType.NO_SWIZZLE):
            fail(
                NotImplementedError,
                op,
                "scales in their plain order were required",
                swizzle,
                "pass SwizzleType.NO_SWIZZLE",
            )
    if len(scales) != len(recipes):
        fail(
            ValueError,
            op,
            "one recipe a scale was required",
            f"{len(recipes)}, {len(scales)}",
            hint="give lists of equal length, or a single scale with a single recipe",
        )
    for scale, recipe in zip(scales, recipes, strict=True):
        result = result * _spread(op, scale.to(facula.float32), ScalingType(recipe), x.shape)
    return result


def _spread(op: str, scale: core.Tensor, recipe: ScalingType, shape: Sequence[int]) -> Any:
    """A scale for every element, as something that broadcasts against [m, k]."""
    m, k = shape[-2:]
    if recipe is ScalingType.TensorWise:
        return scale.reshape(())
    if recipe is ScalingType.RowWise:
        if scale.numel() != m:
            fail(
                ValueError,
                op,
                f"{m} scales, one a row, were required",
                list(scale.shape),
                hint="ScalingType.TensorWise takes a single scale",
            )
        return scale.reshape((m, 1))
    rows, columns = _BLOCKS[recipe]
    wanted = (-(-m // rows), -(-k // columns))
    if scale.numel() != wanted[0] * wanted[1]:
        fail(
            ValueError,
            op,
            f"scales of shape {wanted} were required",
            list(scale.shape),
            hint="ScalingType.TensorWise takes a single scale",
        )
    scale = scale.reshape(wanted).repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return scale[:m, :k]


def scaled_mm(
    mat_a: core.Tensor,
    mat_b: core.Tensor,
    scale_a: core.Tensor,
    scale_recipe_a: Any,
    scale_b: core.Tensor,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: core.Tensor | None = None,
    output_dtype: core.dtype = facula.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """The product of two matrices of narrow numbers, each with scales.

    Args:
        mat_a, mat_b: matrices of a narrow dtype
        scale_a, scale_b: what their values are multiplied with
        scale_recipe_a, scale_recipe_b: a `ScalingType` each
        swizzle_a, swizzle_b: a `SwizzleType` each; None for none
        bias: added to the result
        output_dtype: of the result
        contraction_dim: kept as in PyTorch
        use_fast_accum: kept as in PyTorch

    Example:
        >>> a = facula.ones(16, 16).to(facula.float8_e4m3fn)
        >>> one, whole = facula.tensor(1.0), facula.nn.functional.ScalingType.TensorWise
        >>> facula.nn.functional.scaled_mm(a, a.t(), one, whole, one, whole)[0, :2]
        tensor([16., 16.], dtype=facula.bfloat16)
    """
    if contraction_dim and tuple(contraction_dim) not in ((1, 0), (-1, -2)):
        mat_a = mat_a.movedim(contraction_dim[0], -1)
        mat_b = mat_b.movedim(contraction_dim[1], -2)
    left = _dequantized("scaled_mm", mat_a, scale_a, scale_recipe_a, swizzle_a)
    right = _dequantized("scaled_mm", mat_b.mT, scale_b, scale_recipe_b, swizzle_b).mT
    result = left @ right
    if bias is not None:
        result = result + bias.to(facula.float32)
    return result.to(facula.bfloat16 if output_dtype is None else output_dtype)


def _limits(op: str, offs: core.Tensor | None, count: int) -> list[tuple[int, int]]:
    """Where the groups begin and end."""
    if offs is None:
        fail(
            ValueError,
            op,
            "offs was required where a matrix has two dimensions",
            "None",
            hint="offs holds the end of every group",
        )
    ends = [int(v) for v in offs.tolist()]
    begins = [0, *ends[:-1]]
    if any(b > e for b, e in zip(begins, ends, strict=True)) or (ends and ends[-1] > count):
        fail(
            ValueError,
            op,
            f"ascending offsets up to {count} were required",
            ends,
            hint="offs holds the end of every group, as group sizes summed by cumsum(0)",
        )
    return list(zip(begins, ends, strict=True))


def grouped_mm(
    mat_a: core.Tensor,
    mat_b: core.Tensor,
    *,
    offs: core.Tensor | None = None,
    bias: core.Tensor | None = None,
    out_dtype: core.dtype | None = None,
) -> Any:
    """Products of matrices in groups of different sizes, in bfloat16 and others.

    Args:
        mat_a: ``[rows, k]`` with ``offs`` the ends of row groups, or ``[groups, rows, k]``
        mat_b: ``[groups, k, columns]``, or ``[k, columns]`` with ``offs``
        offs: the end of each group, int32
        bias: added to the result
        out_dtype: None for that of the inputs

    Example:
        >>> a = facula.ones(16, 16, dtype=facula.bfloat16)
        >>> b = facula.ones(2, 16, 16, dtype=facula.bfloat16)
        >>> facula.nn.functional.grouped_mm(a, b, offs=facula.tensor([8, 16], dtype=facula.int32)).shape
        facula.Size([16, 16])
    """
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        fail(
            ValueError,
            "grouped_mm",
            "2-d or 3-d matrices",
            (mat_a.dim(), mat_b.dim()),
            hint="unsqueeze(0) makes a group of one matrix",
        )
    if mat_a.dim() == 3 and mat_b.dim() == 3:
        result = mat_a @ mat_b
    elif mat_a.dim() == 2 and mat_b.dim() == 3:
        limits = _limits("grouped_mm", offs, mat_a.shape[0])
        parts = [mat_a[b:e] @ mat_b[g] for g, (b, e) in enumerate(limits)]
        rest = mat_a.shape[0] - (limits[-1][1] if limits else 0)
        result = facula.cat([*parts, mat_a.new_zeros((rest, mat_b.shape[-1]))])
    elif mat_a.dim() == 3:
        limits = _limits("grouped_mm", offs, mat_b.shape[1])
        parts = [mat_a[g] @ mat_b[:, b:e] for g, (b, e) in enumerate(limits)]
        rest = mat_b.shape[1] - (limits[-1][1] if limits else 0)
        result = facula.cat([*parts, mat_b.new_zeros((mat_a.shape[1], rest))], 1)
    else:
        limits = _limits("grouped_mm", offs, mat_a.shape[1])
        result = facula.stack([mat_a[:, b:e] @ mat_b[b:e] for b, e in limits])
    if bias is not None:
        result = result + bias
    return result if out_dtype is None else result.to(out_dtype)


def scaled_grouped_mm(
    mat_a: Any,
    mat_b: Any,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: core.Tensor | None = None,
    offs: Any = None,
    output_dtype: Any = facula.bfloat16,
    contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:
    """`grouped_mm` of matrices with a scale a row of `mat_a` and a column of each matrix of
    `mat_b`.
    """
    op = "scaled_grouped_mm"
    recipes = {
        ScalingType(r[0] if isinstance(r, (list, tuple)) else r)
        for r in (scale_recipe_a, scale_recipe_b)
    }
    if recipes != {ScalingType.RowWise} or mat_a.dim() != 2 or mat_b.dim() != 3:
        fail(
            NotImplementedError,
            op,
            "a 2-d mat_a and a 3-d mat_b with RowWise scales were required",
            f"{mat_a.dim()}-d, {mat_b.dim()}-d, {sorted(r.name for r in recipes)}",
            hint="scaled_mm() takes two matrices and other recipes",
        )
    first = scale_a[0] if isinstance(scale_a, (list, tuple)) else scale_a
    second = scale_b[0] if isinstance(scale_b, (list, tuple)) else scale_b
    left = mat_a.to(facula.float32) * first.reshape((-1, 1))
    right = mat_b.to(facula.float32) * second.reshape((mat_b.shape[0], 1, -1))
    result = grouped_mm(left, right, offs=offs, bias=bias)
    return result.to(facula.bfloat16 if output_dtype is None else output_dtype)
