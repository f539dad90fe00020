"""Products of several matrices in one call, of which the rows or columns of one tensor are cut by offsets.

Takes: a tensor of two or three dimensions on each side. Gives: all products in one tensor.
Keeps true: rows behind the last offset are zeros; gradients follow from the products.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, product_hint
from facula.ops.registry import F, composite

_OP = "grouped_mm"
_DTYPES = (core.float32, core.bfloat16, core.float16)


def _check(a: Any, b: Any, offs: Any, bias: Any, dtype: Any) -> None:
    for name, value in (("mat_a", a), ("mat_b", b)):
        if value.dtype not in _DTYPES:
            fail(RuntimeError, _OP, f"Expected {name} to be Float32, BFloat16 or Float16 matrix",
                 value.dtype.type_word, hint=cast_hint(value, core.float32))  # fmt: skip
        if value.dim() not in (2, 3):
            fail(RuntimeError, _OP, f"{name} has to be 2 or 3d", f"{value.dim()} dimensions",
                 hint="reshape the leading dimensions to one")  # fmt: skip
    if (offs is None) != (a.dim() == 3 and b.dim() == 3):
        fail(RuntimeError, _OP, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices "
             "are 3d", "none" if offs is None else "offsets for two of 3 dimensions",
             hint="offs says where each group of rows (or columns) ends")  # fmt: skip
    if bias is not None:
        fail(RuntimeError, _OP, "no bias was required (Bias not supported yet)", list(bias.shape),
             hint="add it to the result")  # fmt: skip
    if dtype not in (None, a.dtype):
        fail(RuntimeError, _OP, "Grouped gemm output dtype must match `mat_a` dtype", dtype,
             hint="convert the result with .to(dtype)")  # fmt: skip
    if a.shape[-1] != b.shape[-2]:
        fail(RuntimeError, _OP, f"contraction dimension of mat_a and mat_b must match: {a.shape[-1]} was required",
             b.shape[-2], hint=product_hint(a.shape, b.shape))  # fmt: skip


def _ends(offs: Any, groups: int | None, size: int) -> list[int]:
    """Where groups end, checked."""
    if offs.dtype is not core.int32:
        fail(
            RuntimeError, _OP, "Offsets have to be int32", offs.dtype, hint="offs.to(facula.int32)"
        )
    if offs.dim() != 1:
        fail(RuntimeError, _OP, "offsets of one dimension were required", f"{offs.dim()} dimensions",
             hint="offs.flatten()")  # fmt: skip
    if groups is not None and offs.shape[0] != groups:
        fail(RuntimeError, _OP, f"matrix batch sizes have to match: {groups} offsets were required",
             offs.shape[0], hint="give an offset for each matrix of the other side")  # fmt: skip
    ends: list[int] = offs.tolist()
    if any(low > high for low, high in zip([0, *ends], [*ends, size], strict=True)):
        fail(RuntimeError, _OP, f"offsets that do not fall and end at {size} at most were required", ends,
             hint="offs is the running sum of the groups' sizes")  # fmt: skip
    return ends


def _filled(parts: list[Any], size: int, dim: int, like: Any) -> Any:
    """The parts behind each other, and zeros behind them."""
    shape = list(like)
    shape[dim] = size - sum(part.shape[dim] for part in parts)
    return F.cat([*parts, parts[0].new_zeros(shape)], dim) if shape[dim] else F.cat(parts, dim)


@composite(
    "_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, dtype? out_dtype=None) -> Tensor",
    names=("_grouped_mm", "nn.functional.grouped_mm"),
    keyword_aliases={"mat_a": "self", "mat_b": "mat2"},
    out=False,
    keeps=False,
)
def _grouped_mm(self, mat2, offs, bias, out_dtype):
    """Products of groups: rows of ``self`` (2d) with a matrix each (3d), a matrix each with columns of ``mat2``, or
    columns of one with rows of the other (both 2d), where ``offs`` says where groups end."""
    _check(self, mat2, offs, bias, out_dtype)
    if offs is None:
        if self.shape[0] != mat2.shape[0]:
            fail(RuntimeError, _OP, "batched dimension has to match", f"{self.shape[0]} and {mat2.shape[0]}",
                 hint="as many matrices on both sides")  # fmt: skip
        return F.bmm(self, mat2)
    if self.dim() == 2 and mat2.dim() == 3:
        ends = _ends(offs, mat2.shape[0], self.shape[0])
        parts = [self[a:b] @ mat2[i] for i, (a, b) in _spans(ends)]
        return _filled(parts, self.shape[0], 0, (0, mat2.shape[2]))
    if self.dim() == 3:
        ends = _ends(offs, self.shape[0], mat2.shape[1])
        parts = [self[i] @ mat2[:, a:b] for i, (a, b) in _spans(ends)]
        return _filled(parts, mat2.shape[1], 1, (self.shape[1], 0))
    ends = _ends(offs, None, self.shape[1])
    return F.stack([self[:, a:b] @ mat2[a:b] for _, (a, b) in _spans(ends)])


def _spans(ends: list[int]) -> Any:
    return enumerate(zip([0, *ends], ends, strict=False))
