"""Operators written in terms of matrix products: addmv, addbmm, addr, outer, inner, tensordot,
kron, bilinear, cdist.

Takes what their names say; gives tensors whose gradients follow from the primitives of `matmul`.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import batch_hint, fail, one_dtype, told
from facula.ops.index import launch
from facula.ops.matmul.products import check_product_dtypes
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table.older_forms import FACTORS_BEFORE_PRODUCT, take_older_forms
from facula.ops.table.pointwise_rules import one_node
from facula.ops.table.registry import F, composite


@composite(
    "_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1, "
    "bool use_gelu=False) -> Tensor",
    names=("_addmm_activation",),
    autocast="lower",
)
def addmm_activation(self, mat1, mat2, beta, alpha, use_gelu):
    """beta * self + alpha * mat1 @ mat2 behind a gelu, or a relu."""
    found = F.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    return F.gelu(found) if use_gelu else found.relu()


@composite(
    "addmv(Tensor self, Tensor mat, Tensor vec, *, Number beta=1, Number alpha=1) -> Tensor",
    inplace=True,
    autocast="accelerator lower, cpu unchanged",
    node="AddmvBackward0",
)
def addmv(self, mat, vec, beta, alpha):
    """beta * self + alpha * mat @ vec; self broadcasts.

    Example:
        >>> mat, vec = facula.tensor([[1.0, 2.0], [3.0, 4.0]]), facula.tensor([1.0, -1.0])
        >>> facula.addmv(facula.ones(2), mat, vec)
        tensor([0., 0.])
    """
    if mat.dim() != 2 or vec.dim() != 1 or self.dim() > 1:
        fail(
            RuntimeError,
            "addmv",
            "vector + matrix @ vector expected",
            f"{self.dim()}, {mat.dim()}, {vec.dim()} dimensions",
            hint="addmm() multiplies matrices; vec[:, None] is one",
        )
    if mat.shape[1] != vec.shape[0]:
        fail(
            RuntimeError,
            "addmv",
            "size mismatch: the matrix's columns must be as many as the vector's elements",
            f"{list(mat.shape)} and {list(vec.shape)} (size mismatch, got input ({self.numel()}), mat "
            f"({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]}))",
            hint=f"mat.mT takes vectors of {mat.shape[0]}",
        )
    if not (mat.dtype.is_floating_point or mat.dtype.is_complex):
        beta, alpha = int(beta), int(alpha)  # here PyTorch drops the fraction, elsewhere it refuses
    return F.addmm(self.reshape((-1, 1)), mat, vec.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


@composite(
    "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
    autocast="lower",
    node="AddbmmBackward0",
)
def addbmm(self, batch1, batch2, beta, alpha):
    """beta * self + alpha * the sum of the batch's products, taken as one product over (batch,
    k).

    Example:
        >>> a = facula.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> facula.addbmm(facula.ones(1, 1), a, a.mT)
        tensor([[31.]])
    """
    for name, x in (("batch1", batch1), ("batch2", batch2)):
        if x.dim() != 3:
            fail(
                RuntimeError,
                "addbmm",
                f"{name} must be a 3D tensor",
                f"{x.dim()} dimensions",
                hint="matmul() takes any number of dimensions; x[None] adds a batch dimension",
            )
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        fail(
            RuntimeError,
            "addbmm",
            "batch1 and batch2 must have the same number of batches and fit",
            f"{list(batch1.shape)} and {list(batch2.shape)}",
            hint=batch_hint(batch1.shape, batch2.shape),
        )
    if not batch1.dtype.is_floating_point and not batch1.dtype.is_complex:
        beta, alpha = int(beta), int(alpha)
    count, m, k = batch1.shape
    a = batch1.transpose(0, 1).reshape((m, count * k))
    return F.addmm(self, a, batch2.reshape((count * k, batch2.shape[2])), beta=beta, alpha=alpha)


@composite(
    "addbmm_(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) "
    "-> Tensor",
    names=("Tensor.addbmm_",),
    out=False,
)
def addbmm_(self, batch1, batch2, beta, alpha):
    """In-place form of `addbmm`; a smaller `self` is resized to the product's shape."""
    result = F.addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    if self.shape != result.shape:
        self.resize_(result.shape)
    return self.copy_(result)


@composite(
    "outer(Tensor self, Tensor vec2) -> Tensor",
    names=("outer", "Tensor.outer", "ger", "Tensor.ger"),
    out_cast=True,
)
def outer(self, vec2):
    """All products of the elements of two vectors, [m] and [n] -> [m, n]."""
    if self.dim() != 1 or vec2.dim() != 1:
        fail(
            RuntimeError,
            "outer",
            "outer: Expected 1-D arguments self and vec2",
            f"{self.dim()} and {vec2.dim()} dimensions",
            hint="x.reshape(-1) is 1-D",
        )
    return self.unsqueeze(1) * vec2.unsqueeze(0)


def _check_factors(beta: Any, alpha: Any, dtype: core.dtype) -> None:
    whole = not (dtype.is_floating_point or dtype.is_complex)
    for name, x in (("beta", beta), ("alpha", alpha)):
        if whole and isinstance(x, (float, complex)):
            fail(
                RuntimeError,
                "addr",
                f"For integral input tensors, argument {name} must not be floating point",
                x,
                hint="give an int, or convert the tensors with .float()",
            )
        core.check_number("addr", name, x, dtype)


@composite(
    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Number beta=1, Number alpha=1) -> Tensor",
    inplace=True,
    out_cast=True,
    autocast="accelerator lower, cpu unchanged",
    node="AddrBackward0",
)
def addr(self, vec1, vec2, beta, alpha):
    """beta * self + alpha * the outer product; self broadcasts and is ignored when beta is 0."""
    if vec1.dim() != 1 or vec2.dim() != 1:
        fail(
            RuntimeError,
            "addr",
            "addr: Expected 1-D arguments vec1 and vec2",
            f"{vec1.dim()} and {vec2.dim()} dimensions",
            hint="x.reshape(-1) is 1-D",
        )
    shape = (vec1.shape[0], vec2.shape[0])
    if launch.broadcast_shapes("addr", self.shape, shape) != shape:
        fail(
            RuntimeError,
            "addr",
            f"self must broadcast to {list(shape)}",
            list(self.shape),
            hint="every size of self is 1 or the product's, from the last on",
        )
    product = F.outer(vec1, vec2)
    dtype = core.promote_types(self.dtype, product.dtype)
    _check_factors(beta, alpha, dtype)
    if product.dtype is core.bool_ and self.dtype is core.bool_:
        product = product & bool(alpha)
        return product if not beta else product | self
    if one_node(self, vec1, vec2):
        return F._addr(self, vec1, vec2, beta, alpha)
    if dtype.itemsize == 2 and dtype.is_floating_point:  # rounded once
        wide = F.outer(vec1.to(core.float32), vec2.to(core.float32)) * alpha
        return (wide if beta == 0 else self.to(core.float32) * beta + wide).to(dtype)
    # in the result's dtype first: a number that is an integer or no integer would choose another
    product = product.to(dtype) if alpha == 1 else product.to(dtype) * alpha
    return product if beta == 0 else self.to(dtype) * beta + product


@composite("inner(Tensor self, Tensor other) -> Tensor")
def inner(self, other):
    """The sum of products over the last dimensions of both."""
    if self.dim() == 0 or other.dim() == 0:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        fail(
            RuntimeError,
            "inner",
            "inner() the last dimension must match on both input tensors",
            f"shapes {list(self.shape)} and {list(other.shape)}",
            hint="tensordot(x, y, dims=([i], [j])) sums over dimension i of x with j of y",
        )
    return F.tensordot(self, other, ((-1,), (-1,)))


def _contraction_dims(dims: Any, a: int, b: int) -> tuple[list[int], list[int]]:
    if isinstance(dims, core.Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a, b):
            fail(
                RuntimeError,
                "tensordot",
                f"dims must be in [0, {min(a, b)}]",
                f"tensordot expects dims {'>= 0' if dims < 0 else '< ndim_a or ndim_b'}, but got dims={dims}",
                hint="dims counts the last dimensions of a and the first of b; 0 gives the outer "
                "product",
            )
        return list(range(a - dims, a)), list(range(dims))
    first, second = dims
    first = [first] if isinstance(first, int) else list(first)
    second = [second] if isinstance(second, int) else list(second)
    if len(first) != len(second):
        fail(
            RuntimeError,
            "tensordot",
            "both dimension lists should have same length",
            f"{first} and {second}",
            hint="every dimension of a is paired with one of b",
        )
    return (
        [wrap_dim("tensordot", d, a) for d in first],
        [wrap_dim("tensordot", d, b) for d in second],
    )


@composite(
    "tensordot(Tensor a, Tensor b, any dims=2) -> Tensor",
    names=("tensordot",),
    home="functional.tensordot",
    autocast="accelerator widest",
    file_form="tensordot",
)
def tensordot(a, b, dims):
    """Sums of products over pairs of dimensions: the last `dims` with the first, or two lists."""
    first, second = _contraction_dims(dims, a.dim(), b.dim())
    for d, e in zip(first, second, strict=True):
        if a.shape[d] != b.shape[e]:
            if a.shape[d] != 1 and b.shape[e] != 1:
                fail(
                    RuntimeError,
                    "tensordot",
                    f"contracted dimensions need to match: dim {d} of a and dim {e} of b",
                    f"{a.shape[d]} and {b.shape[e]}",
                    hint="dims=([i], [j]) pairs dimension i of a with j of b",
                )
            if b.shape[e] == 1:
                a = a.sum(d, keepdim=True, dtype=a.dtype)
            else:
                b = b.sum(e, keepdim=True, dtype=b.dtype)
    check_product_dtypes("tensordot", a, b)
    kept_a = [d for d in range(a.dim()) if d not in first]
    kept_b = [d for d in range(b.dim()) if d not in second]
    count = launch.product([a.shape[d] for d in first])
    rows, columns = [a.shape[d] for d in kept_a], [b.shape[d] for d in kept_b]
    left = a.permute(kept_a + first).reshape((launch.product(rows), count))
    right = b.permute(second + kept_b).reshape((count, launch.product(columns)))
    return F.mm(left, right).reshape((*rows, *columns))


@composite("kron(Tensor self, Tensor other) -> Tensor", out_cast=True)
def kron(self, other):
    """The Kronecker product: each element of `self` times the whole of `other`."""
    ndim = max(self.dim(), other.dim())
    a = [1] * (ndim - self.dim()) + list(self.shape)
    b = [1] * (ndim - other.dim()) + list(other.shape)
    left = self.reshape([n for size in a for n in (size, 1)])
    right = other.reshape([n for size in b for n in (1, size)])
    return (left * right).reshape([m * n for m, n in zip(a, b, strict=True)])


@composite(
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    names=("nn.functional.bilinear", "bilinear"),
    out=False,
    autocast="accelerator widest",
)
def bilinear(input1, input2, weight, bias):
    """sum_ij input1_i weight_kij input2_j + bias_k over the last dimensions.

    Example:
        >>> input1, input2 = facula.tensor([[1.0, 2.0]]), facula.tensor([[3.0, 4.0]])
        >>> facula.nn.functional.bilinear(input1, input2, facula.ones(1, 2, 2))
        tensor([[21.]])
    """
    scalars = not input1.dim() or not input2.dim()
    if scalars or tuple(input1.shape[:-1]) != tuple(input2.shape[:-1]):
        fail(
            RuntimeError,
            "bilinear",
            "bilinear(): input dimensions except the last must match",
            f"{list(input1.shape)} and {list(input2.shape)}",
            hint="bilinear() does not broadcast: expand() one of them first",
        )
    if (
        weight.dim() != 3
        or input1.shape[-1] != weight.shape[1]
        or input2.shape[-1] != weight.shape[2]
    ):
        fail(
            RuntimeError,
            "bilinear",
            "bilinear(): weight must be [out, last size of input1, last size of input2]",
            f"{list(weight.shape)} for {input1.shape[-1]} and {input2.shape[-1]}",
            hint=f"a weight of shape [n, {input1.shape[-1]}, {input2.shape[-1]}] gives n outputs",
        )
    n, i, j = weight.shape
    lead = tuple(input1.shape[:-1])
    a, b = input1.reshape((-1, i)), input2.reshape((-1, j))
    partial = F.mm(a, weight.transpose(0, 1).reshape((i, n * j))).reshape((-1, n, j))
    result = F.bmm(partial, b.unsqueeze(2)).squeeze(2).reshape((*lead, n))
    return result if bias is None else result + bias


@composite(
    "chain_matmul(Tensor[]... matrices) -> Tensor",
    names=("chain_matmul",),
    home="functional.chain_matmul",
)
def chain_matmul(matrices: tuple[Any, ...]) -> Any:
    """The product of a chain of matrices in the cheapest order."""
    told(
        "chain_matmul",
        "facula.chain_matmul is deprecated and will be removed in a future release. "
        "Use facula.linalg.multi_dot instead",
        "linalg.multi_dot() takes the matrices as a list",
    )
    if not matrices:
        fail(
            RuntimeError,
            "chain_matmul",
            "chain_matmul(): Expected one or more matrices",
            "none",
            hint="chain_matmul(a, b, c) multiplies three matrices",
        )
    for matrix in matrices:
        if matrix.dim() != 2:
            fail(
                RuntimeError,
                "chain_matmul",
                "matrices were required",
                f"a tensor of {matrix.dim()} dimensions",
                hint="linalg.multi_dot() takes vectors at both ends, matmul() takes batches",
            )
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    split = cheapest_order(sizes)

    def multiply(first: int, last: int) -> Any:
        if first == last:
            return matrices[first]
        middle = split[first][last]
        return F.mm(multiply(first, middle), multiply(middle + 1, last))

    return multiply(0, len(matrices) - 1)


def cheapest_order(sizes: list[int]) -> list[list[int]]:
    """Where to split each subchain of matrices [sizes[i], sizes[i + 1]]; dynamic programming over
    subchains. [CLRS 15.2]
    """
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            options = [
                (
                    cost[first][m]
                    + cost[m + 1][last]
                    + sizes[first] * sizes[m + 1] * sizes[last + 1],
                    m,
                )
                for m in range(first, last)
            ]
            cost[first][last], split[first][last] = min(options)
    return split


@composite(
    "pdist(Tensor self, float p=2.0) -> Tensor",
    names=("pdist", "_pdist_forward", "nn.functional.pdist"),
    node="PdistBackward0",
)
def pdist(self, p):
    """The distances of all pairs of rows, those of the first row first."""
    if self.dim() != 2:
        fail(
            RuntimeError,
            "pdist",
            "pdist only supports 2D tensors",
            f"{self.dim()}D",
            hint="cdist(x, x) takes batches of matrices",
        )
    if not self.is_floating_point():
        fail(
            RuntimeError,
            "pdist",
            "pdist only supports floating-point dtypes",
            self.dtype,
            hint="convert it with .float()",
        )
    if p < 0:
        fail(
            RuntimeError,
            "pdist",
            "pdist only supports non-negative p values",
            p,
            hint="p=2.0 is the Euclidean distance",
        )
    first, second = F.triu_indices(self.shape[0], self.shape[0], 1, device=self.device)
    difference = self.index_select(0, first) - self.index_select(0, second)
    return _unequal(difference) if p == 0 else difference.norm(p, 1)


def _unequal(difference: core.Tensor) -> Any:
    """How many elements of each row are not zero; NaN where there is no telling.

    Counts have the gradient 0, which must still reach the rows."""
    return (difference != 0).to(difference.dtype).sum(-1) + (difference * 0).sum(-1)


def _what_points_lack(x1: Any, x2: Any) -> str:
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            return f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D"
    return f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"


def _check_points(x1: Any, x2: Any, p: float) -> None:
    if x1.dim() < 2 or x2.dim() < 2 or x1.shape[-1] != x2.shape[-1]:
        fail(
            RuntimeError,
            "cdist",
            "two tensors of 2 or more dimensions with as many columns were required",
            f"{list(x1.shape)} and {list(x2.shape)} ({_what_points_lack(x1, x2)})",
            hint="every row is a point; x[None] makes one of a vector",
        )
    one_dtype("cdist", x1, x2, "expected scalar type {0} but found {1}")
    if p < 0:
        fail(
            RuntimeError,
            "cdist",
            "cdist only supports non-negative p values",
            p,
            hint="p=2.0 is the Euclidean distance",
        )


@composite(
    "cdist(Tensor x1, Tensor x2, float p=2.0, any compute_mode=None) -> Tensor",
    names=("cdist", "_cdist_forward"),
    home="functional.cdist",
    out=False,
    autocast="float32",
)
def cdist(x1, x2, p, compute_mode):
    """The p-norm distances between all rows of x1 [..., m, k] and x2 [..., n, k] -> [..., m, n]."""
    _check_points(x1, x2, p)
    modes = (
        None,
        0,
        1,
        2,
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    )
    if compute_mode not in modes:
        fail(
            ValueError,
            "cdist",
            "a known compute_mode was required",
            f"{compute_mode} is not a valid value for compute_mode",
            hint="leave compute_mode out to have it chosen",
        )
    by_product = compute_mode in (1, "use_mm_for_euclid_dist") or (
        compute_mode in (None, 0, "use_mm_for_euclid_dist_if_necessary")
        and max(x1.shape[-2], x2.shape[-2]) > 25
    )
    if p == 2.0 and by_product:
        return _euclidean_by_product(x1, x2)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == 0:
        return _unequal(difference)
    return F.linalg_vector_norm(difference, p, -1)


def _euclidean_by_product(x1: Any, x2: Any) -> Any:
    """sqrt(|a|^2 + |b|^2 - 2 a.b); the square root of a distance of 0 has the gradient 0."""
    square1 = (x1 * x1).sum(-1, keepdim=True)
    square2 = (x2 * x2).sum(-1, keepdim=True)
    squared = square1 + square2.transpose(-2, -1) - 2 * F.matmul(x1, x2.transpose(-2, -1))
    zero = squared <= 0
    return F.sqrt(squared.masked_fill(zero, 1)).masked_fill(zero, 0)


for _op in (addmv, addbmm, addbmm_, addr):
    take_older_forms(_op, FACTORS_BEFORE_PRODUCT, "beta", "alpha")
