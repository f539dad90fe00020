"""Operators: matrix products of every shape, and sums with them.

Takes matrices, vectors and batches in any strides; gives contiguous products. Keeps true: the
primitives are `mm`, `bmm`,
`addmm`, `baddbmm`, `dot` and `linear`, which call the `gemm` kernels; everything else is written in
terms of them;
gradients are products again, so they can be differentiated any number of times.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import batch_hint, cast_hint, fail, product_hint
from facula.ops.index import launch
from facula.ops.table import batch_forms
from facula.ops.table.older_forms import FACTORS_BEFORE_PRODUCT, take_older_forms
from facula.ops.table.registry import F, composite, operator

#: dtype codes with a gemm kernel
GEMM = frozenset("f32 f64 bf16 f16 i32 i64 c64 c128".split())


def transposed(x: core.Tensor) -> Any:
    """The conjugate transpose of the last two dimensions."""
    x = x.transpose(-2, -1)
    return x.conj() if x.dtype.is_complex else x


def check_product_dtypes(op: str, a: Any, b: Any) -> None:
    """Raise unless both dtypes are the same and have a product."""
    if a.dtype is not b.dtype:
        fail(
            RuntimeError,
            op,
            "expected m1 and m2 to have the same dtype",
            f"{a.dtype} != {b.dtype}",
            "convert one with .to()",
        )
    if a.dtype is core.bool_:
        fail(
            NotImplementedError,
            op,
            "a number dtype was required: \"addmm_impl_cpu_\" not implemented for 'Bool'",
            hint="convert both with .float(), or with .long() to count",
        )


def gemm(
    out: core.Tensor, a: Any, b: Any, alpha: Any = 1, beta: Any = 0, bias: core.Tensor | None = None
) -> None:
    """out = alpha * a @ b + beta * out + bias over matrices or batches of them; `out` has unit
    column stride.
    """
    if out.numel() == 0:
        return
    if a.shape[-1] == 0:
        _scale_only(out, beta, bias)
        return
    if out.dtype.code not in GEMM:
        _gemm_elsewhere(out, a, b, alpha, beta, bias)
        return
    late = alpha if isinstance(alpha, complex) else None
    if late is not None and beta:
        out.mul_(beta / late)
        beta = 1
    if isinstance(beta, complex):
        fail(
            RuntimeError,
            "gemm",
            "a real beta was required",
            beta,
            hint="give a real beta, or scale the summand first",
        )
    real = out.dtype.code not in ("i32", "i64")
    factors = (
        (float(1 if late is not None else alpha), float(beta)) if real else (int(alpha), int(beta))
    )
    tensors = (out, a, b, bias if late is None else None)
    core.kernel("gemm:" + out.dtype.code)(tensors, _gemm_numbers(out, a, b), factors)
    if late is not None:
        out.mul_(late)
        if bias is not None:
            out.add_(bias)


def _gemm_numbers(out: core.Tensor, a: core.Tensor, b: core.Tensor) -> tuple[int, ...]:
    """Sizes (batch, rows, columns, inner) and strides, a batch's first, as the kernel takes them."""
    sa, sb, so = a.stride(), b.stride(), out.stride()
    return (
        a.shape[0] if a.dim() == 3 else 1, a.shape[-2], b.shape[-1], a.shape[-1],
        sa[0] if a.dim() == 3 else 0, sa[-2], sa[-1],
        sb[0] if b.dim() == 3 else 0, sb[-2], sb[-1],
        so[0] if out.dim() == 3 else 0, so[-2], 0,
    )  # fmt: skip


def _scale_only(out: core.Tensor, beta: int, bias: core.Tensor | None) -> None:
    """A product over nothing is zero."""
    if beta == 0:
        out.zero_()
    elif beta != 1:
        out.mul_(beta)
    if bias is not None:
        out.add_(bias)


def _gemm_elsewhere(
    out: Any, a: Any, b: Any, alpha: Any, beta: Any, bias: core.Tensor | None
) -> None:
    """Small integers multiply as int32 (wrapping alike), other short floats as float32."""
    if out.dtype.is_complex:
        work = core.complex64
    elif out.dtype.is_floating_point:
        work = core.float32
    else:
        work = core.int64 if out.dtype.itemsize >= 4 else core.int32
    wide = out.to(work)
    gemm(wide, a.to(work), b.to(work), alpha, beta, None if bias is None else bias.to(work))
    out.copy_(wide)


def _matrix(op: str, name: str, x: core.Tensor) -> None:
    if x.dim() != 2:
        fail(
            RuntimeError,
            op,
            f"{name} must be a matrix",
            f"{x.dim()} dimensions",
            hint="matmul() takes vectors and batches of matrices too",
        )


def _check_mm(op: str, a: core.Tensor, b: core.Tensor) -> tuple[int, int]:
    if a.shape[1] != b.shape[0]:
        fail(
            RuntimeError,
            op,
            "mat1 and mat2 shapes cannot be multiplied",
            f"{a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]}",
            hint=product_hint(a.shape, b.shape),
        )
    check_product_dtypes(op, a, b)
    return a.shape[0], b.shape[1]


def _to_left(grad: Any, mat2: core.Tensor) -> Any:
    """The gradient of the left factor of ``left @ mat2``. That of a product with a vector is an outer
    product: differentiated again in 16 bits, it rounds each product before sums, as PyTorch's does.
    """
    if mat2.shape[1] == 1 and core.rounds_steps() and grad.itemsize == 2:
        return grad * transposed(mat2)
    return F.mm(grad, transposed(mat2))


@operator(
    "mm(Tensor self, Tensor mat2) -> Tensor",
    names=("mm", "Tensor.mm", "spmm"),
    autocast="lower",
)
class mm:
    """The product of two matrices, [m, k] and [k, n] -> [m, n]."""

    shards = "mk,kn->mn"

    vmap = batch_forms.product("mm", 2)
    jvp = "multilinear"

    fast = "mm"

    def flops(self, mat2):
        return 2 * self.numel() * mat2.shape[-1]

    def meta(self, mat2):
        _matrix("mm", "self", self)
        _matrix("mm", "mat2", mat2)
        return core.empty(_check_mm("mm", self, mat2), dtype=self.dtype, device=self.device)

    def cpu(out, self, mat2):
        gemm(out, self, mat2)

    def backward(grad, self, mat2, needs):
        return (
            _to_left(grad, mat2) if needs[0] else None,
            F.mm(transposed(self), grad) if needs[1] else None,
        )

    def samples(S):
        yield (S(3, 4), S(4, 5)), {}

    def errors(S):
        yield (S(3, 4), S(3, 4)), {}, RuntimeError, "cannot be multiplied"


@operator("bmm(Tensor self, Tensor mat2) -> Tensor", autocast="lower")
class bmm:
    """The products of two batches of matrices, [b, m, k] and [b, k, n] -> [b, m, n].

    Example:
        >>> input = facula.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> facula.bmm(input, input.mT)
        tensor([[[ 5.]],
        <BLANKLINE>
                [[25.]]])
    """

    shards = "xmk,xkn->xmn"

    vmap = batch_forms.product("bmm", 3)
    jvp = "multilinear"

    def flops(self, mat2):
        return 2 * self.numel() * mat2.shape[-1]

    def meta(self, mat2):
        return core.empty(_check_bmm("bmm", self, mat2), dtype=self.dtype, device=self.device)

    def cpu(out, self, mat2):
        gemm(out, self, mat2)

    def backward(grad, self, mat2, needs):
        return (
            F.bmm(grad, transposed(mat2)) if needs[0] else None,
            F.bmm(transposed(self), grad) if needs[1] else None,
        )

    def samples(S):
        yield (S(2, 3, 4), S(2, 4, 5)), {}

    def errors(S):
        yield (S(3, 4), S(3, 4)), {}, RuntimeError, "batch1 must be a 3D tensor"


def _check_bmm(op: str, a: core.Tensor, b: core.Tensor) -> tuple[int, int, int]:
    for name, x in (("batch1", a), ("batch2", b)):
        if x.dim() != 3:
            fail(
                RuntimeError,
                op,
                f"{name} must be a 3D tensor",
                f"{x.dim()} dimensions",
                hint="matmul() takes any number of dimensions; x[None] adds a batch dimension",
            )
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        fail(
            RuntimeError,
            op,
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}]",
            f"[{b.shape[0]}, {b.shape[1]}]",
            hint=batch_hint(a.shape, b.shape),
        )
    check_product_dtypes(op, a, b)
    return a.shape[0], a.shape[1], b.shape[2]


def _check_added(
    op: str,
    self: core.Tensor,
    shape: tuple[int, ...],
    product: core.Tensor,
    beta: float,
    alpha: float,
) -> None:
    """The summand must broadcast to the product's shape, have its dtype, and whole factors if it is
    whole.
    """
    target = launch.broadcast_shapes(op, self.shape, shape)
    if target != shape:
        fail(
            RuntimeError,
            op,
            "self must broadcast to the product",
            f"self of shape {list(self.shape)}, product {list(shape)}",
            hint="every size of self is 1 or the product's, from the last on",
        )
    if self.dtype is not product.dtype:
        fail(
            RuntimeError,
            op,
            "self and the product must have the same dtype",
            f"{self.dtype} and {product.dtype}",
            hint=cast_hint("self", product.dtype),
        )
    for name, factor in (("beta", beta), ("alpha", alpha)):
        core.check_number(op, name, factor, self.dtype, "computed")
    if not self.dtype.is_floating_point and not self.dtype.is_complex:
        for name, x in (("beta", beta), ("alpha", alpha)):
            if isinstance(x, (float, complex)):
                fail(
                    RuntimeError,
                    op,
                    f"For integral input tensors, argument {name} must not be floating point",
                    x,
                    hint="give an int, or convert the tensors with .float()",
                )


def _scaled(x: core.Tensor, factor: float) -> Any:
    if factor == 1:
        return x
    return x * (factor.conjugate() if isinstance(factor, complex) else factor)


def _added_product(out: Any, self: Any, a: Any, b: Any, beta: Any, alpha: Any) -> None:
    """out = beta * self + alpha * a @ b; self is not read when beta is 0, and whole tensors take
    whole factors.
    """
    if not out.dtype.is_floating_point and not out.dtype.is_complex:
        beta, alpha = int(beta), int(alpha)
    if beta != 0:
        out.copy_(self.expand(out.shape))
    gemm(out, a, b, alpha, beta)


@operator(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
    inplace=True,
    autocast="lower",
)
class addmm:
    """beta * self + alpha * mat1 @ mat2; self broadcasts, and is ignored when beta is 0."""

    shards = "product_with_sum"

    vmap = batch_forms.added_product("addmm", 2)

    def flops(self, mat1, mat2, beta, alpha):
        return 2 * mat1.numel() * mat2.shape[-1]

    def meta(self, mat1, mat2, beta, alpha):
        _matrix("addmm", "mat1", mat1)
        _matrix("addmm", "mat2", mat2)
        shape = _check_mm("addmm", mat1, mat2)
        _check_added("addmm", self, shape, mat1, beta, alpha)
        return core.empty(shape, dtype=mat1.dtype, device=mat1.device)

    def cpu(out, self, mat1, mat2, beta, alpha):
        _added_product(out, self, mat1, mat2, beta, alpha)

    def backward(grad, self_shape, mat1, mat2, beta, alpha, needs):
        return (
            F.sum_to_size(_scaled(grad, beta), self_shape) if needs[0] else None,
            _scaled(_to_left(grad, mat2), alpha) if needs[1] else None,
            _scaled(F.mm(transposed(mat1), grad), alpha) if needs[2] else None,
        )

    def samples(S):
        yield (S(3, 5), S(3, 4), S(4, 5)), {"beta": 0.5, "alpha": 2.0}
        yield (S(5), S(3, 4), S(4, 5)), {}


@operator(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) "
    "-> Tensor",
    inplace=True,
    autocast="lower",
)
class baddbmm:
    """beta * self + alpha * batch1 @ batch2, batch by batch.

    Example:
        >>> a = facula.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> facula.baddbmm(facula.ones(2, 1, 1), a, a.mT)
        tensor([[[ 6.]],
        <BLANKLINE>
                [[26.]]])
    """

    shards = "product_with_sum"

    vmap = batch_forms.added_product("baddbmm", 3)

    def flops(self, batch1, batch2, beta, alpha):
        return 2 * batch1.numel() * batch2.shape[-1]

    def meta(self, batch1, batch2, beta, alpha):
        shape = _check_bmm("baddbmm", batch1, batch2)
        _check_added("baddbmm", self, shape, batch1, 0, 0)
        return core.empty(shape, dtype=batch1.dtype, device=batch1.device)

    def cpu(out, self, batch1, batch2, beta, alpha):
        _added_product(out, self, batch1, batch2, beta, alpha)

    def backward(grad, self_shape, batch1, batch2, beta, alpha, needs):
        return (
            F.sum_to_size(_scaled(grad, beta), self_shape) if needs[0] else None,
            _scaled(F.bmm(grad, transposed(batch2)), alpha) if needs[1] else None,
            _scaled(F.bmm(transposed(batch1), grad), alpha) if needs[2] else None,
        )

    def samples(S):
        yield (S(2, 3, 5), S(2, 3, 4), S(2, 4, 5)), {"beta": 0.5, "alpha": 2.0}


def _vector(op: str, name: str, x: core.Tensor) -> None:
    if x.dim() != 1:
        fail(
            RuntimeError,
            op,
            f"{name}: 1D tensors expected",
            f"{x.dim()}D",
            hint="x.reshape(-1) is 1D; matmul() takes matrices",
        )


@operator("dot(Tensor self, Tensor tensor) -> Tensor", autocast="accelerator widest")
class dot:
    """The sum of products of two vectors, without conjugation."""

    shards = "k,k->"

    vmap = batch_forms.dot
    jvp = "multilinear"

    def flops(self, tensor):
        return 2 * self.numel()

    def meta(self, tensor):
        _vector("dot", "self", self)
        _vector("dot", "tensor", tensor)
        if self.dtype is not tensor.dtype:
            fail(
                RuntimeError,
                "dot",
                "dot : expected both vectors to have same dtype",
                f"{self.dtype} and {tensor.dtype}",
                hint=cast_hint("tensor", self.dtype),
            )
        if self.numel() != tensor.numel():
            fail(
                RuntimeError,
                "dot",
                "inconsistent tensor size: both must have the same number of elements",
                f"{self.numel()} and {tensor.numel()} elements respectively",
                hint="dot() does not broadcast; (x * y).sum() does",
            )
        if self.dtype is core.bool_:
            fail(
                NotImplementedError,
                "dot",
                "a number dtype was required: \"dot\" not implemented for 'Bool'",
                hint="(x & y).any() is the product of bools",
            )
        return core.empty((), dtype=self.dtype, device=self.device)

    def cpu(out, self, tensor):
        gemm(out.reshape((1, 1)), self.unsqueeze(0), tensor.unsqueeze(1))

    def backward(grad, self, tensor, needs):
        return (
            grad * _conjugate(tensor) if needs[0] else None,
            grad * _conjugate(self) if needs[1] else None,
        )

    def samples(S):
        yield (S(5), S(5)), {}


def _conjugate(x: core.Tensor) -> Any:
    return x.conj() if x.dtype.is_complex else x


@composite(
    "vdot(Tensor self, Tensor other) -> Tensor", autocast="accelerator widest", node="VdotBackward0"
)
def vdot(self, other):
    """The sum of products of two vectors, the first conjugated."""
    return F.dot(_conjugate(self), other)


@composite(
    "mv(Tensor self, Tensor vec) -> Tensor",
    autocast="accelerator lower, cpu unchanged",
    node="MvBackward0",
)
def mv(self, vec):
    """The product of a matrix and a vector, [m, k] and [k] -> [m].

    Example:
        >>> facula.mv(facula.tensor([[1.0, 2.0], [3.0, 4.0]]), facula.tensor([1.0, -1.0]))
        tensor([-1., -1.])
    """
    if self.dim() != 2 or vec.dim() != 1:
        fail(
            RuntimeError,
            "mv",
            "vector + matrix @ vector expected",
            f"{self.dim()}D and {vec.dim()}D",
            hint="matmul() takes vectors and matrices on either side",
        )
    if self.shape[1] != vec.shape[0]:
        fail(
            RuntimeError,
            "mv",
            f"size mismatch: a vector of {self.shape[1]} was required",
            f"{vec.shape[0]} (size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), "
            f"vec ({vec.shape[0]}))",
            hint=f"self.mT takes vectors of {self.shape[0]}",
        )
    check_product_dtypes("mv", self, vec)
    return F.mm(self, vec.unsqueeze(1)).squeeze(1)


@composite(
    "matmul(Tensor self, Tensor other) -> Tensor",
    names=("matmul", "Tensor.matmul", "linalg.matmul"),
    fast="matmul",
    autocast="lower",
    quantizers={"fx": "arithmetic"},
)
def matmul(self, other):
    """The matrix product; vectors get a dimension for the product and lose it, batch dimensions
    broadcast.
    """
    a, b = self.dim(), other.dim()
    if a == 2 and b == 2:
        return F.mm(self, other)
    if a == 0 or b == 0:
        fail(
            RuntimeError,
            "matmul",
            "both arguments to matmul need to be at least 1D",
            f"{a}D and {b}D",
            "use * with numbers",
        )
    if a == 1 and b == 1:
        return F.dot(self, other)
    if b == 1:
        return F.matmul(self, other.unsqueeze(1)).squeeze(-1) if a > 2 else F.mv(self, other)
    if a == 1:
        return F.matmul(self.unsqueeze(0), other).squeeze(-2)
    if b == 2:
        return _folded(self, other, (self.shape, other.shape))
    if a == 2:
        # the transposed product folds the batch into rows, so no matrix is repeated
        given = self.shape, other.shape
        return _folded(other.transpose(-2, -1), self.transpose(0, 1), given).transpose(-2, -1)
    return _batched(self, other)


def _mismatch(self: Any, other: Any) -> None:
    fail(
        RuntimeError,
        "matmul",
        "mat1 and mat2 shapes cannot be multiplied",
        f"{list(self.shape)} and {list(other.shape)}",
        hint=product_hint(self.shape, other.shape),
    )


def _folded(self: core.Tensor, other: core.Tensor, given: tuple[Any, Any]) -> Any:
    """[..., m, k] @ [k, n] as one product of a tall matrix; given: the factors' shapes as the
    caller has them.
    """
    *lead, inner = self.shape
    if inner != other.shape[0]:
        rows = launch.product(lead)
        fail(
            RuntimeError,
            "matmul",
            "mat1 and mat2 shapes cannot be multiplied",
            f"{rows}x{inner} and {other.shape[0]}x{other.shape[1]}",
            hint=product_hint(*given),
        )
    flat = self.reshape((launch.product(lead), inner))
    return F.mm(flat, other).reshape((*lead, other.shape[1]))


def _batched(self: core.Tensor, other: core.Tensor) -> Any:
    """Broadcast batches and multiply them as one batch."""
    if self.shape[-1] != other.shape[-2]:
        _mismatch(self, other)
    batch = launch.broadcast_shapes("matmul", self.shape[:-2], other.shape[:-2])
    count = launch.product(batch)
    m, k, n = self.shape[-2], self.shape[-1], other.shape[-1]
    a = self.expand((*batch, m, k)).reshape((count, m, k))
    b = other.expand((*batch, k, n)).reshape((count, k, n))
    return F.bmm(a, b).reshape((*batch, m, n))


def _product_node(call: core.NodeCall) -> str:
    """What PyTorch's last step of a linear layer is: a product of matrices, in the shape of the input's rows."""
    if call.rank == 2:
        return "MmBackward0" if "bias" in call.missing else "AddmmBackward0"
    if "bias" not in call.missing:
        return "ViewBackward0"
    return "UnsafeViewBackward0" if call.rank > 2 else "SqueezeBackward4"


def _product_edges(call: core.NodeCall) -> tuple[str, ...]:
    return ("input", "weight") if "bias" in call.missing else ("bias", "input", "weight")


@operator(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    names=("nn.functional.linear",),
    home="_C._nn.linear",
    autocast="lower",
    quantizers={"xnnpack": "layer", "x86": "layer"},
    node=_product_node,
    edges=_product_edges,
)
class linear:
    """input @ weight.T + bias, [..., k] with weight [n, k] and bias [n] -> [..., n]."""

    shards = "affine"
    weighted = "rows"

    vmap = batch_forms.linear

    fast = "linear"

    def flops(input, weight, bias):
        return 2 * input.numel() * launch.product(weight.shape[:-1])

    def meta(input, weight, bias):
        if weight.dim() not in (1, 2) or input.dim() == 0:
            fail(
                RuntimeError,
                "linear",
                "weight of 1 or 2 dimensions and input of 1 or more were required",
                f"{weight.dim()} and {input.dim()}",
                hint="weight is [out_features, in_features]; matmul() takes batches of matrices",
            )
        if input.shape[-1] != weight.shape[-1]:
            n = weight.shape[0] if weight.dim() == 2 else 1
            rows = launch.product(input.shape[:-1])
            fail(
                RuntimeError,
                "linear",
                "mat1 and mat2 shapes cannot be multiplied",
                f"{rows}x{input.shape[-1]} and {weight.shape[-1]}x{n}",
                "weight is [out_features, in_features]",
            )
        check_product_dtypes("linear", input, weight)
        if bias is not None and (bias.dim() > 1 or bias.numel() not in (1, weight.shape[0])):
            fail(
                RuntimeError,
                "linear",
                f"a bias of shape [{weight.shape[0]}] was required",
                list(bias.shape),
                hint="bias has one element for each row of weight; leave it out for none",
            )
        if bias is not None and bias.dtype is not input.dtype:
            fail(
                RuntimeError,
                "linear",
                f"a bias of dtype {input.dtype} was required",
                bias.dtype,
                hint=cast_hint("bias", input.dtype),
            )
        shape = (*input.shape[:-1], *weight.shape[:-1])
        return core.empty(shape, dtype=input.dtype, device=input.device)

    def cpu(out, input, weight, bias):
        k = input.shape[-1]
        n = weight.shape[0] if weight.dim() == 2 else 1
        rows = launch.product(input.shape[:-1])
        if bias is not None:
            bias = bias.expand((n,)).contiguous()
        gemm(
            out.reshape((rows, n)),
            input.reshape((rows, k)),
            weight.reshape((n, k)).transpose(0, 1),
            1,
            0,
            bias,
        )

    def backward(grad, input, weight, bias_shape, needs):
        k = input.shape[-1]
        n = weight.shape[0] if weight.dim() == 2 else 1
        flat = (
            grad.reshape((-1, n))
            if grad.numel()
            else grad.reshape((launch.product(input.shape[:-1]), n))
        )
        grad_input = grad_weight = grad_bias = None
        if needs[0]:
            grad_input = F.mm(flat, _conjugate(weight).reshape((n, k))).reshape(input.shape)
        if needs[1]:
            rows = _conjugate(input).reshape((flat.shape[0], k))
            grad_weight = F.mm(flat.transpose(0, 1), rows).reshape(weight.shape)
        if needs[2]:
            grad_bias = F.sum_to_size(flat, (n,) if len(bias_shape) else ()).reshape(bias_shape)
        return grad_input, grad_weight, grad_bias

    def samples(S):
        yield (S(3, 4), S(5, 4), S(5)), {}
        yield (S(2, 3, 4), S(5, 4)), {}
        yield (S(4), S(4)), {}

    def errors(S):
        yield (S(3, 4), S(5, 5)), {}, RuntimeError, "cannot be multiplied"


for _op in (addmm, baddbmm):
    take_older_forms(_op, FACTORS_BEFORE_PRODUCT, "beta", "alpha")
