"""Products of sparse and dense matrices: the kernels' operators, and what users call.

Takes: the structure of a matrix in compressed rows, values, a dense matrix. Gives: dense products,
sums, means and extremes over the entries of each row; products of two sparse matrices.
Keeps true: gradients of values are products sampled at the entries, those of dense operands products
with the transposed structure, both of them operators of this module, so that they differentiate
again; entries are checked before memory is touched.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import cast_hint, fail
from facula.ops.index import launch
from facula.ops.sparse_layouts.convert import (
    coalesced,
    compress,
    compressed,
    elements,
    expand_pointers,
    flatten,
    to_coo,
)
from facula.ops.sparse_layouts.rules import rule
from facula.ops.sparse_layouts.tensor import (
    BLOCKED,
    COO,
    CSC,
    CSR,
    SparseTensor,
    compose,
    values_of,
)
from facula.ops.table.older_forms import FACTORS_BEFORE_PRODUCT, take_older_forms
from facula.ops.table.registry import F, composite, operator

GRAIN = 32768
_KERNELS = (core.float32, core.float64)


def _rows(starts: core.Tensor) -> int:
    return starts.shape[0] - 1


def _structure(op: str, starts: core.Tensor, plain: core.Tensor, columns: int) -> tuple[Any, Any]:
    """The structure as contiguous int64, checked to lie inside a matrix of so many columns."""
    starts, plain = starts.to(core.int64).contiguous(), plain.to(core.int64).contiguous()
    launch.check_bounds(op, plain, columns, 1, IndexError, negative=False)
    launch.check_bounds(op, starts, plain.shape[0] + 1, 0, IndexError, negative=False)
    if bool((starts[1:] < starts[:-1]).any()) or starts[-1].item() != plain.shape[0]:
        fail(
            RuntimeError,
            op,
            "rows that start in order and end with the entries were required",
            hint="entry i is the number of values before row i",
        )
    return starts, plain


def _items(width: int, entries: int, rows: int) -> int:
    """How many rows are worth a thread."""
    return max(1, GRAIN // max(1, width * (entries // max(1, rows) + 1)))


@operator(
    "_csr_matmul(Tensor crow, Tensor col, Tensor values, Tensor dense) -> Tensor",
    names=(),
    out=False,
)
class CsrMatmul:
    """The product of a matrix in compressed rows and a dense one."""

    jvp = "multilinear"

    def meta(crow, col, values, dense):
        shape = (_rows(crow), dense.shape[1])
        return core.empty(shape, dtype=dense.dtype, device=dense.device)

    def cpu(out, crow, col, values, dense):
        starts, plain = _structure("sparse.mm", crow, col, dense.shape[0])
        width = dense.shape[1]
        core.kernel(f"csr.matmul:{out.dtype.code}")(
            (out, starts, plain, values.contiguous(), dense.contiguous()),
            (width, plain.shape[0]),
            (),
            total=out.shape[0] if width else 0,
            grain=_items(width, plain.shape[0], out.shape[0]),
        )

    def backward(grad, crow, col, values, dense, needs):
        structure = F._csr_transpose(crow, col, dense.shape[0]) if needs[3] else None
        return (
            None,
            None,
            F._csr_sampled(crow, col, grad, dense) if needs[2] else None,
            _transposed_product(structure, values, grad) if needs[3] else None,
        )


def _transposed_product(structure: Any, values: Any, dense: core.Tensor | None) -> Any:
    starts, rows, order = structure
    return F._csr_matmul(starts, rows, values.index_select(0, order), dense)


@operator(
    "_csr_sampled(Tensor crow, Tensor col, Tensor left, Tensor right) -> Tensor",
    names=(),
    out=False,
)
class CsrSampled:
    """The entries of `left @ right.T` at the places of a matrix in compressed rows."""

    jvp = "multilinear"

    def meta(crow, col, left, right):
        return core.empty(col.shape, dtype=left.dtype, device=left.device)

    def cpu(out, crow, col, left, right):
        starts, plain = _structure("sparse.mm", crow, col, right.shape[0])
        core.kernel(f"csr.sampled:{out.dtype.code}")(
            (out, starts, plain, left.contiguous(), right.contiguous()),
            (left.shape[1],),
            (),
            total=_rows(starts),
            grain=_items(left.shape[1], plain.shape[0], _rows(starts)),
        )

    def backward(grad, crow, col, left, right, needs):
        structure = F._csr_transpose(crow, col, right.shape[0]) if needs[3] else None
        return (
            None,
            None,
            F._csr_matmul(crow, col, grad, right) if needs[2] else None,
            _transposed_product(structure, grad, left) if needs[3] else None,
        )


@operator(
    "_csr_transpose(Tensor crow, Tensor col, int columns) -> (Tensor, Tensor, Tensor)",
    names=(),
    out=False,
)
class CsrTranspose:
    """The structure by columns: starts, rows, and where each entry stands by rows."""

    def meta(crow, col, columns):
        def like(count):
            return core.empty((count,), dtype=core.int64, device=col.device)

        return like(columns + 1), like(col.shape[0]), like(col.shape[0])

    def cpu(out, crow, col, columns):
        starts, plain = _structure("sparse.mm", crow, col, columns)
        core.kernel("csr.transpose")(
            (*out, starts, plain), (_rows(starts), columns, plain.shape[0]), ()
        )


@operator(
    "_csr_extreme(Tensor crow, Tensor col, Tensor values, Tensor dense, bool largest) -> "
    "(Tensor, Tensor)",
    names=(),
    out=False,
    nondifferentiable=(1,),
)
class CsrExtreme:
    """The largest (or smallest) product of each row's entries, and which entry it is."""

    def meta(crow, col, values, dense, largest):
        shape = (_rows(crow), dense.shape[1])
        made = core.empty(shape, dtype=dense.dtype, device=dense.device)
        return made, core.empty(shape, dtype=core.int64, device=dense.device)

    def cpu(out, crow, col, values, dense, largest):
        starts, plain = _structure("sparse.mm", crow, col, dense.shape[0])
        width = dense.shape[1]
        core.kernel(f"csr.extreme:{dense.dtype.code}")(
            (*out, starts, plain, values.contiguous(), dense.contiguous()),
            (width, int(largest)),
            (),
            total=_rows(starts) if width else 0,
            grain=_items(width, plain.shape[0], _rows(starts)),
        )

    def backward(grads, col, values, dense, result_1, needs):
        grad, entry = grads[0], result_1
        if grad is None:
            return None, None, None, None
        there = entry >= 0
        grad, entry = grad.masked_fill(~there, 0), entry.clamp(min=0)
        row = col.to(core.int64)[entry]
        to_values = to_dense = None
        if needs[2]:
            products = (grad * dense.gather(0, row)).reshape(-1)
            to_values = values.new_zeros(values.shape).index_add(0, entry.reshape(-1), products)
        if needs[3]:
            to_dense = dense.new_zeros(dense.shape).scatter_add(0, row, grad * values[entry])
        return None, None, to_values, to_dense


# ------------------------------------------------------------------ any sparse matrix


def rows_of(matrix: SparseTensor) -> tuple[Any, Any, Any]:
    """A sparse matrix in compressed rows: starts, columns, values; places may repeat."""
    if matrix._form is CSR:
        return (*matrix._places, values_of(matrix))
    if matrix._form in (CSC, *BLOCKED):
        matrix = to_coo(matrix)
    index, values = matrix._places[0], values_of(matrix)
    if not matrix._unique:
        order = F.argsort(index[0], stable=True)
        index, values = index.index_select(1, order), values.index_select(0, order)
    return compress(index[0], matrix.shape[0]), index[1], values


def product(matrix: SparseTensor, dense: core.Tensor) -> Any:
    """The product of a sparse and a dense matrix, by the kernel where there is one for the dtype."""
    starts, plain, values = rows_of(matrix)
    dtype = values.dtype
    if dtype in _KERNELS:
        return F._csr_matmul(starts, plain, values, dense)
    if dtype in (core.float16, core.bfloat16):
        wide = F._csr_matmul(starts, plain, values.float(), dense.float())
        return wide.to(dtype)
    lines = expand_pointers(starts, plain.shape[0])
    parts = dense.index_select(0, plain) * values.unsqueeze(1)
    return parts.new_zeros((matrix.shape[0], dense.shape[1])).index_add(0, lines, parts)


def _check(op: str, a: core.Tensor, b: core.Tensor) -> None:
    if a.dim() != 2 or b.dim() != 2:
        fail(
            RuntimeError,
            op,
            "two matrices were required",
            f"{a.dim()}-D and {b.dim()}-D tensors",
            hint="mv() and matmul() take vectors",
        )
    if a.shape[1] != b.shape[0]:
        shapes = f"{a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]}"
        fail(
            RuntimeError,
            op,
            "mat1 and mat2 shapes cannot be multiplied",
            shapes,
            hint=f"give mat2 {a.shape[1]} row(s), or mat1 {b.shape[0]} column(s)",
        )
    if a.dtype is not b.dtype:
        fail(
            RuntimeError,
            op,
            "expected mat1 and mat2 to have the same dtype",
            f"{a.dtype} and {b.dtype}",
            hint=cast_hint("mat2", a.dtype),
        )
    for x in (a, b):
        if isinstance(x, SparseTensor) and x.dense_dim():
            fail(
                RuntimeError,
                op,
                "a sparse matrix of numbers was required",
                "dense dimensions",
                hint="use to_dense() first",
            )


def _sparse_product(a: SparseTensor, b: SparseTensor) -> Any:
    """The product of two sparse matrices: every pair of entries that meet, added up."""
    first, second = coalesced(to_coo(a)), coalesced(to_coo(b))
    (row, inner), values = first._places[0].unbind(0), values_of(first)
    (line, column), others = second._places[0].unbind(0), values_of(second)
    starts = compress(line, b.shape[0])
    lengths = (starts[1:] - starts[:-1]).index_select(0, inner)
    total = int(lengths.sum())
    one = F.repeat_interleave(F.arange(inner.shape[0]), lengths, output_size=total)
    before = lengths.cumsum(0) - lengths
    other = F.arange(total) - (before - starts.index_select(0, inner)).index_select(0, one)
    index = F.stack([row.index_select(0, one), column.index_select(0, other)])
    made = values.index_select(0, one) * others.index_select(0, other)
    result = coalesced(compose((index,), made, (a.shape[0], b.shape[1])))
    return result if a._form is COO and b._form is COO else compressed(result, CSR)


@rule("mm")
def mm(self: Any, mat2: core.Tensor) -> Any:
    """The product of two matrices of which one or both are sparse."""
    _check("mm", self, mat2)
    if not isinstance(mat2, SparseTensor):
        return product(self, mat2)
    if isinstance(self, SparseTensor):
        return _sparse_product(self, mat2)
    return product(F.transpose(mat2, 0, 1), self.t()).t()


@rule("mv")
def mv(self: Any, vec: core.Tensor) -> Any:
    """The product of a sparse matrix and a vector."""
    if self.dim() != 2 or vec.dim() != 1:
        fail(
            RuntimeError,
            "mv",
            "a matrix and a vector were required",
            f"{self.dim()}-D, {vec.dim()}-D",
            hint="mm() takes two matrices",
        )
    dense = vec.to_dense() if isinstance(vec, SparseTensor) else vec
    return F.mm(self, dense.unsqueeze(1)).squeeze(1)


@rule("bmm")
def bmm(self: Any, mat2: core.Tensor) -> Any:
    """Products of a batch of sparse matrices and dense ones: one product of a matrix of blocks."""
    if isinstance(mat2, SparseTensor) or self._form is not COO:
        fail(
            RuntimeError,
            "bmm",
            "a COO and a dense tensor were required",
            "another sparse layout",
            hint="to_sparse() converts to the COO layout, to_dense() to a dense tensor",
        )
    if self.dim() != 3 or mat2.dim() != 3 or self.shape[0] != mat2.shape[0]:
        fail(
            RuntimeError,
            "bmm",
            "two batches of equally many matrices were required",
            list(mat2.shape),
            hint="mm() takes two matrices",
        )
    if self.shape[2] != mat2.shape[1]:
        fail(
            RuntimeError,
            "bmm",
            "matrices that can be multiplied were required",
            list(mat2.shape),
            hint=f"give mat2 {self.shape[2]} row(s)",
        )
    batch, rows, inner = self.shape
    index, values = elements(self)
    line, column = flatten(index[:2], (batch, rows)), index[0] * inner + index[2]
    blocks = compose(
        (F.stack([line, column]),), values, (batch * rows, batch * inner), COO, self._unique
    )
    made = product(blocks, mat2.reshape((batch * inner, mat2.shape[2])))
    return made.reshape((batch, rows, mat2.shape[2]))


@rule("matmul")
def matmul(self: core.Tensor, other: Any) -> Any:
    """The matrix product by the numbers of dimensions."""
    a, b = self.dim(), other.dim()
    if (a, b) == (2, 2):
        return F.mm(self, other)
    if (a, b) == (2, 1):
        return F.mv(self, other)
    if (a, b) == (1, 2):
        return F.mv(F.transpose(other, 0, 1), self)
    if (a, b) == (3, 3):
        return F.bmm(self, other)
    if (a, b) == (1, 1):
        return (self * other).sum()
    if a == 2 and b > 2 and not isinstance(other, SparseTensor):
        inner, batch, width = other.shape[-2], other.shape[:-2], other.shape[-1]
        made = F.mm(self, other.movedim(-2, 0).reshape((inner, -1)))
        return made.reshape((self.shape[0], *batch, width)).movedim(0, -2)
    if b == 2 and a > 2 and not isinstance(self, SparseTensor):
        made = F.mm(self.reshape((-1, self.shape[-1])), other)
        return made.reshape((*self.shape[:-1], other.shape[1]))
    fail(
        NotImplementedError,
        "matmul",
        "sparse matrices and vectors were required",
        f"{a}-D, {b}-D",
        hint="use to_dense() first",
    )


def _scaled(tensor: core.Tensor, factor: float) -> Any:
    return tensor if factor == 1 and type(factor) is not bool else tensor * factor


@rule("addmm")
def addmm(self: Any, mat1: core.Tensor, mat2: core.Tensor, beta: Any, alpha: Any) -> Any:
    """``beta * self + alpha * mat1 @ mat2``."""
    made = _scaled(F.mm(mat1, mat2), alpha)
    if beta == 0:
        return made if not isinstance(self, SparseTensor) else F.to_sparse(made, None)
    if isinstance(made, SparseTensor) and not isinstance(self, SparseTensor):
        return F.add(_scaled(self, beta), made)
    return (
        F.add(_scaled(self, beta), made)
        if not isinstance(self, SparseTensor)
        else F.add(made, _scaled(self, beta))
    )


@rule("addmv")
def addmv(self: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Any:
    """``beta * self + alpha * mat @ vec``."""
    made = _scaled(F.mv(mat, vec), alpha)
    return made if beta == 0 else _scaled(self, beta) + made


@rule("linear")
def linear(input: Any, weight: Any, bias: Any) -> Any:
    """``input @ weight.T + bias`` with a sparse operand."""
    made = F.matmul(input, F.transpose(weight, 0, 1))
    return made if bias is None else made + bias


# ------------------------------------------------------------------ facula.sparse


@composite(
    "sparse_mm(Tensor mat1, Tensor mat2, str? reduce=None) -> Tensor",
    names=("sparse.mm",),
    out=False,
)
def sparse_mm(mat1, mat2, reduce):
    """The product of a sparse matrix and a dense or sparse one.

    reduce: how the products of a row's entries are combined, for a CSR matrix: "sum", "mean",
    "amax" or "amin".

    Example:
        >>> facula.sparse.mm(facula.eye(2).to_sparse(), facula.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    op = "sparse.mm"
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        fail(RuntimeError, op, "a sparse matrix was required", "two dense ones", "use mm()")
    if reduce is None:
        return F.mm(mat1, mat2)
    if reduce not in ("sum", "mean", "amax", "amin"):
        fail(
            RuntimeError,
            op,
            f"reduce argument must be sum, mean, amax or amin, {reduce} has not been enabled",
            hint="reduce='sum' is the usual product",
        )
    if not isinstance(mat1, SparseTensor) or mat1._form is not CSR:
        fail(
            NotImplementedError,
            op,
            "a CSR matrix was required with reduce",
            mat1.layout,
            hint="mat1.to_sparse_csr() converts it",
        )
    _check(op, mat1, mat2)
    if reduce == "sum":
        return F.mm(mat1, mat2)
    starts, plain, values = rows_of(mat1)
    if reduce == "mean":
        counts = (starts[1:] - starts[:-1]).clamp(min=1).to(mat2.dtype)
        return F.mm(mat1, mat2) / counts.unsqueeze(1)
    if values.dtype in _KERNELS:
        return F._csr_extreme(starts, plain, values, mat2, reduce == "amax")[0]
    wide = (values.float(), mat2.float())
    return F._csr_extreme(starts, plain, *wide, reduce == "amax")[0].to(mat2.dtype)


@composite(
    "sparse_addmm(Tensor mat, Tensor mat1, Tensor mat2, *, Number beta=1.0, Number alpha=1.0) -> Tensor",
    names=("sparse.addmm",),
    out=False,
)
def sparse_addmm(mat, mat1, mat2, beta, alpha):
    """``beta * mat + alpha * mat1 @ mat2`` with a sparse `mat1`."""
    return F.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


@composite(
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
    names=("_sparse_addmm",),
    out=False,
)
def _sparse_addmm(self, mat1, mat2, beta, alpha):
    """`sparse.addmm` under the name that tensor subclasses of libraries override."""
    return F.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


@composite(
    "sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1.0, "
    "Number alpha=1.0) -> Tensor",
    names=("sparse.sampled_addmm",),
)
def sparse_sampled_addmm(self, mat1, mat2, beta, alpha):
    """``alpha * (mat1 @ mat2)`` at the places of a CSR matrix, plus ``beta`` times its values."""
    op = "sparse.sampled_addmm"
    if not isinstance(self, SparseTensor) or self._form is not CSR:
        fail(
            RuntimeError,
            op,
            "Expected self to have sparse csr layout",
            self.layout,
            hint="self.to_sparse_csr() converts it",
        )
    if self.dim() != 2 or mat1.dim() != 2 or mat2.dim() != 2 or mat1.shape[1] != mat2.shape[0]:
        fail(
            RuntimeError,
            op,
            "mat1 and mat2 shapes cannot be multiplied",
            list(mat1.shape),
            hint="shapes are self [n, m], mat1 [n, k], mat2 [k, m]",
        )
    if tuple(self.shape) != (mat1.shape[0], mat2.shape[1]):
        fail(
            RuntimeError,
            op,
            "self.shape must match the product's",
            list(self.shape),
            hint=f"the product is {[mat1.shape[0], mat2.shape[1]]}",
        )
    starts, plain, values = rows_of(self)
    if values.dtype in _KERNELS:
        made = F._csr_sampled(starts, plain, mat1, mat2.t())
    else:
        lines = expand_pointers(starts, plain.shape[0])
        made = (mat1.index_select(0, lines) * mat2.t().index_select(0, plain)).sum(1)
    total = _scaled(made, alpha) + (0 if beta == 0 else _scaled(values, beta))
    return compose(self._places, total, self.shape, CSR, True)


@composite("smm(Tensor self, Tensor mat2) -> Tensor", names=("smm", "Tensor.smm"), out=False)
def smm(self, mat2):
    """The product of a sparse and a dense matrix, as a sparse tensor."""
    return F.to_sparse(F.mm(self, mat2), None)


@composite(
    "sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
    out=False,
)
def sspaddmm(self, mat1, mat2, beta, alpha):
    """``beta * self + alpha * mat1 @ mat2`` of sparse `self` and `mat1`, as a sparse tensor."""
    made = F.to_sparse(_scaled(F.mm(mat1, mat2), alpha), None)
    return F.add(made, _scaled(self, beta))


@composite("hspmm(Tensor mat1, Tensor mat2) -> Tensor", names=("hspmm",), out=False)
def hspmm(mat1, mat2):
    """The product of a sparse and a dense matrix, with one sparse dimension: rows."""
    return F.to_sparse(F.mm(mat1, mat2), 1)


take_older_forms(sspaddmm, FACTORS_BEFORE_PRODUCT, "beta", "alpha")
