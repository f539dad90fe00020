"""Products and powers of matrices, and equations between tensors, as `linalg` names them.

Takes tensors; gives compositions of products, inverses and solutions, so gradients and transforms
follow. Products of groups cut the rows or columns of one tensor by offsets: all products stand in one
tensor, and rows behind the last offset are zeros.
"""

from __future__ import annotations

from math import prod
from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail, product_hint
from facula.ops.linalg.launch import check_kind, check_square
from facula.ops.matmul.composites import cheapest_order
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.registry import F, composite


@composite(
    "linalg_matrix_power(Tensor A, int n) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.matrix_power",),
    keyword_aliases={"input": "A"},
)
def linalg_matrix_power(A, n):  # noqa: N803
    """The n-th power of square matrices, by repeated squaring; of the inverse where n is negative."""
    check_square("linalg.matrix_power", A)
    if n == 0:
        one = F.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return A.clone(memory_format=core.contiguous_format).copy_(one.expand(A.shape))
    base = F.linalg_inv(A) if n < 0 else A
    exponent, result = abs(n), None
    while True:
        if exponent & 1:
            result = base if result is None else result @ base
        exponent >>= 1
        if not exponent:
            return result.clone() if result is A else result
        base = base @ base


@composite("matrix_power(Tensor self, int n) -> Tensor")
def matrix_power(self, n):
    """As `linalg.matrix_power`."""
    return F.linalg_matrix_power(self, n)


def _check_factors(tensors: tuple[Any, ...], op: str) -> None:
    if len(tensors) < 2:
        fail(
            RuntimeError,
            op,
            f"{op}(): expected at least 2 tensors",
            len(tensors),
            hint="a single matrix is its own product",
        )
    for position, x in enumerate(tensors):
        edge = position in (0, len(tensors) - 1)
        if x.dim() != 2 and not (edge and x.dim() == 1):
            allowed = "1D or 2D" if edge else "2D"
            fail(
                RuntimeError,
                op,
                f"{op}(): tensor {position} must be {allowed}",
                f"{x.dim()}D",
                hint="unsqueeze() makes a matrix of a vector; matmul() takes batches",
            )
        if x.dtype is not tensors[0].dtype:
            fail(
                RuntimeError,
                op,
                f"{op}(): expected all tensors to have the same dtype",
                f"{tensors[0].dtype} and {x.dtype}",
                hint=f"convert it with .to({tensors[0].dtype})",
            )


@composite("linalg_multi_dot(Tensor[] tensors) -> Tensor", names=("linalg.multi_dot",))
def linalg_multi_dot(tensors: tuple[Any, ...]) -> Any:
    """The product of two or more matrices in the cheapest order; the first and the last may be
    vectors.
    """
    op = "multi_dot"
    _check_factors(tensors, op)
    matrices = list(tensors)
    row, column = matrices[0].dim() == 1, matrices[-1].dim() == 1
    if row:
        matrices[0] = matrices[0].unsqueeze(0)
    if column:
        matrices[-1] = matrices[-1].unsqueeze(1)
    for position, (a, b) in enumerate(zip(matrices, matrices[1:], strict=False)):
        if a.shape[1] != b.shape[0]:
            fail(
                RuntimeError,
                op,
                f"{op}(): tensors {position} and {position + 1} with shapes {list(a.shape)} and "
                f"{list(b.shape)} cannot be multiplied",
                hint=product_hint(
                    a.shape, b.shape, (f"tensors[{position}]", f"tensors[{position + 1}]")
                ),
            )
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    split = cheapest_order(sizes)
    if len(matrices) == 3:  # at a tie from the left, as in PyTorch; of more matrices from the right
        m, k, n, p = sizes
        split[0][2] = 0 if m * n * (k + p) > k * p * (m + n) else 1

    def multiply(first: int, last: int) -> Any:
        if first == last:
            return matrices[first]
        middle = split[first][last]
        return F.mm(multiply(first, middle), multiply(middle + 1, last))

    result = multiply(0, len(matrices) - 1)
    if row:
        result = result.squeeze(0)
    return result.squeeze(-1) if column else result


@composite(
    "linalg_tensorinv(Tensor A, int ind=2) -> Tensor",
    file_arguments={"A": "self"},
    names=("linalg.tensorinv",),
    keyword_aliases={"input": "A"},
)
def linalg_tensorinv(A, ind):  # noqa: N803
    """The inverse of A as a map from its last dimensions to its first `ind` ones.

    Example:
        >>> A = facula.eye(4).reshape(2, 2, 4)
        >>> facula.linalg.tensorinv(A, ind=2).shape
        facula.Size([4, 2, 2])
    """
    op = "linalg.tensorinv"
    if ind <= 0:
        fail(
            RuntimeError,
            op,
            "Expected a strictly positive integer for 'ind'",
            ind,
            hint="ind=2 is the default",
        )
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if prod(first) != prod(last):
        fail(
            RuntimeError,
            op,
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            "prod(self.shape[:ind])",
            f"{prod(last)} != {prod(first)}",
            hint="ind splits the dimensions in two groups, those of the result and those of the "
            "argument",
        )
    flat = A.reshape((prod(first), prod(last)))
    return F._linalg_inverse(_inexact(op, flat), op)[0].reshape((*last, *first))


def _inexact(op: str, x: core.Tensor) -> Any:
    check_kind(op, x)
    return x


@composite(
    "linalg_tensorsolve(Tensor A, Tensor B, int[]? dims=None) -> Tensor",
    file_arguments={"A": "self", "B": "other"},
    names=("linalg.tensorsolve",),
    keyword_aliases={"input": "A", "other": "B"},
)
def linalg_tensorsolve(A, B, dims):  # noqa: N803
    """X with tensordot(A, X, X.dim()) = B, after the dimensions `dims` of A went to its end.

    Example:
        >>> A = facula.eye(4).reshape(4, 2, 2)
        >>> facula.linalg.tensorsolve(A, facula.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([[1., 2.],
                [3., 4.]])
    """
    op = "linalg.tensorsolve"
    a = A
    if dims is not None:
        moved = [wrap_dim(op, d, A.dim()) for d in dims]
        a = A.movedim(tuple(moved), tuple(range(A.dim() - len(moved), A.dim())))
    shape = tuple(a.shape[B.dim() :])
    if prod(shape) != prod(a.shape[: B.dim()]):
        fail(
            RuntimeError,
            op,
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            "prod(self.shape[:other.ndim])",
            f"{prod(shape)} != {prod(a.shape[: B.dim()])}",
            hint="dims moves dimensions of A to its end first",
        )
    flat = _inexact(op, a.reshape((prod(shape), prod(shape))))
    return F.linalg_solve(flat, B.reshape(-1)).reshape(shape)


@composite("linalg_vander(Tensor x, *, int? N=None) -> Tensor", names=("linalg.vander",), out=False)
def linalg_vander(x, N):  # noqa: N803
    """The powers 0 to N - 1 of elements, as a new last dimension."""
    op = "linalg.vander"
    if x.dtype is core.bool_:
        fail(
            RuntimeError, op, f"{op}: bool is not supported", x.dtype, hint="convert it with .int()"
        )
    if x.dim() == 0:
        x = x.reshape(1)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        fail(
            RuntimeError,
            op,
            f"{op}: N must be greater than 1.",
            count,
            hint="N=2 gives ones and the elements themselves",
        )
    dtype = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else core.int64
    first = F.ones((*x.shape, 1), dtype=dtype, device=x.device)
    powers = x.to(dtype).unsqueeze(-1).expand((*x.shape, count - 1)).cumprod(-1)
    return F.cat([first, powers], -1)


@composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", names=("linalg.vecdot",))
def linalg_vecdot(x, y, dim):
    """The sums of conj(x) * y along a dimension."""
    for name, value in (("x", x), ("y", y)):
        if not (value.dtype.is_floating_point or value.dtype.is_complex):
            fail(
                RuntimeError,
                "linalg.vecdot",
                "linalg.vecdot: Expected a floating point or complex tensor as input",
                f"{name} of {value.dtype.type_word}",
                hint="convert it with .float()",
            )
    if x.dtype is not y.dtype:
        fail(
            RuntimeError,
            "linalg.vecdot",
            "linalg.vecdot: Expected vectors of same dtype",
            f"{x.dtype} and {y.dtype}",
            hint=cast_hint("y", x.dtype),
        )
    left = x.conj() if x.is_complex() else x
    return (left * y).sum(dim)


_GROUPED = "grouped_mm"
_GROUPED_DTYPES = (core.float32, core.bfloat16, core.float16)


def _check_groups(a: Any, b: Any, offs: Any, bias: Any, dtype: Any) -> None:
    for name, value in (("mat_a", a), ("mat_b", b)):
        if value.dtype not in _GROUPED_DTYPES:
            fail(RuntimeError, _GROUPED, f"Expected {name} to be Float32, BFloat16 or Float16 matrix",
                 value.dtype.type_word, hint=cast_hint(value, core.float32))  # fmt: skip
        if value.dim() not in (2, 3):
            fail(RuntimeError, _GROUPED, f"{name} has to be 2 or 3d", f"{value.dim()} dimensions",
                 hint="reshape the leading dimensions to one")  # fmt: skip
    if (offs is None) != (a.dim() == 3 and b.dim() == 3):
        fail(RuntimeError, _GROUPED, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices "
             "are 3d", "none" if offs is None else "offsets for two of 3 dimensions",
             hint="offs says where each group of rows (or columns) ends")  # fmt: skip
    if bias is not None:
        fail(RuntimeError, _GROUPED, "no bias was required (Bias not supported yet)", list(bias.shape),
             hint="add it to the result")  # fmt: skip
    if dtype not in (None, a.dtype):
        fail(RuntimeError, _GROUPED, "Grouped gemm output dtype must match `mat_a` dtype", dtype,
             hint="convert the result with .to(dtype)")  # fmt: skip
    if a.shape[-1] != b.shape[-2]:
        fail(RuntimeError, _GROUPED, f"contraction dimension of mat_a and mat_b must match: {a.shape[-1]} was required",
             b.shape[-2], hint=product_hint(a.shape, b.shape))  # fmt: skip


def _ends(offs: core.Tensor, groups: int | None, size: int) -> list[int]:
    """Where groups end, checked."""
    if offs.dtype is not core.int32:
        fail(
            RuntimeError,
            _GROUPED,
            "Offsets have to be int32",
            offs.dtype,
            hint="offs.to(facula.int32)",
        )
    if offs.dim() != 1:
        fail(RuntimeError, _GROUPED, "offsets of one dimension were required", f"{offs.dim()} dimensions",
             hint="offs.flatten()")  # fmt: skip
    if groups is not None and offs.shape[0] != groups:
        fail(RuntimeError, _GROUPED, f"matrix batch sizes have to match: {groups} offsets were required",
             offs.shape[0], hint="give an offset for each matrix of the other side")  # fmt: skip
    ends: list[int] = offs.tolist()
    if any(low > high for low, high in zip([0, *ends], [*ends, size], strict=True)):
        fail(RuntimeError, _GROUPED, f"offsets that do not fall and end at {size} at most were required", ends,
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
    _check_groups(self, mat2, offs, bias, out_dtype)
    if offs is None:
        if self.shape[0] != mat2.shape[0]:
            fail(RuntimeError, _GROUPED, "batched dimension has to match", f"{self.shape[0]} and {mat2.shape[0]}",
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
