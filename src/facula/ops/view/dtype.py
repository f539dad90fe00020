"""Views of the same bytes as another dtype: reinterpreted, complex as pairs of reals, real and
imaginary parts.

Takes: a tensor. Gives: a view whose strides count elements of the new dtype. Keeps true: no element
is read or written; strides and offset must divide where the new element is larger.
"""

from __future__ import annotations

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F, view

Tensor = core.Tensor


# what to do about memory that is not laid out as another element size needs it
_DENSE = "x.clone(memory_format=facula.contiguous_format) lies in memory as required"


def _check_resizable(dtype: core.dtype, shape: list[int], stride: list[int]) -> None:
    if not shape:
        fail(
            RuntimeError,
            "view",
            "self.dim() cannot be 0 to view a tensor as another dtype of different element size",
            hint=f"x.reshape(1) has a dimension, x.to({dtype}) converts the value",
        )
    if stride[-1] != 1:
        fail(
            RuntimeError,
            "view",
            "self.stride(-1) must be 1 to view a tensor as another dtype of different element size",
            stride[-1],
            hint=_DENSE,
        )


@view("view_as_dtype(Tensor self, dtype dtype) -> Tensor", names=(), copied=())
class view_as_dtype:
    """The same bytes as elements of another dtype; the last dimension grows or shrinks with the
    element size.
    """

    def geometry(self, dtype):
        old, new = self.dtype.itemsize, dtype.itemsize
        shape, stride = list(self.shape), list(self.stride())
        if old == new:
            return core.view_dtype(self, dtype, shape, stride)
        _check_resizable(dtype, shape, stride)
        if old > new:
            factor = old // new
            stride = [s * factor for s in stride[:-1]] + [1]
            shape[-1] *= factor
            return core.view_dtype(self, dtype, shape, stride)
        factor = new // old
        for name, divided, got in (
            ("self.size(-1)", not shape[-1] % factor, shape[-1]),
            ("self.storage_offset()", not self.storage_offset() % factor, self.storage_offset()),
            *((f"self.stride({d})", not s % factor, s) for d, s in enumerate(stride[:-1])),
        ):
            if not divided:
                fail(
                    RuntimeError,
                    "view",
                    f"{name} must be divisible by {factor} to view {self.dtype} as {dtype} "
                    "(different element sizes)",
                    f"{got}, of shape {shape} and strides {stride}",
                    hint=f"slice or pad the last dimension to a multiple of {factor}, then clone()",
                )
        stride = [s // factor for s in stride[:-1]] + [1]
        shape[-1] //= factor
        return core.view_dtype(self, dtype, shape, stride)


def _view_as(self: Tensor, dtype: core.dtype) -> Tensor:
    """`x.view(dtype)`: bytes read as other numbers have no gradient."""
    return F.view_as_dtype(self.detach() if self.requires_grad else self, dtype)


core.VIEW_AS_DTYPE[0] = _view_as


@view("view_as_real(Tensor self) -> Tensor", names=("view_as_real",))
class view_as_real:
    """A complex tensor as real and imaginary parts in a new last dimension of size 2."""

    def geometry(self):
        if not self.is_complex():
            fail(
                RuntimeError,
                "view_as_real",
                "view_as_real is only supported for complex tensors",
                self.dtype,
                hint="x.to(facula.complex64) makes a complex tensor of a real one",
            )
        return core.view_dtype(
            self, self.dtype.to_real(), [*self.shape, 2], [*(2 * s for s in self.stride()), 1]
        )

    def backward(grad):
        return F.view_as_complex(grad.contiguous())

    def samples(S):
        yield (S.complex(3, 4),), {}


def _check_pairs(stride: tuple[int, ...], offset: int) -> None:
    """Whether parts lie side by side, at even places."""
    if stride[-1] != 1:
        fail(
            RuntimeError,
            "view_as_complex",
            "Tensor must have a last dimension with stride 1",
            stride,
            hint=_DENSE,
        )
    if any(s % 2 for s in stride[:-1]) or offset % 2:
        fail(
            RuntimeError,
            "view_as_complex",
            "Tensor must have a stride divisible by 2 for all but last dimension (and "
            "storage_offset divisible by 2)",
            stride,
            hint=_DENSE,
        )


@view("view_as_complex(Tensor self) -> Tensor", names=("view_as_complex",), autocast="cpu float32")
class view_as_complex:
    """Pairs in the last dimension as complex numbers."""

    def geometry(self):
        if not self.is_floating_point() or self.dtype.name not in ("float32", "float64", "float16"):
            fail(
                RuntimeError,
                "view_as_complex",
                "view_as_complex is only supported for floating point tensors",
                self.dtype,
                hint="convert it with .float()",
            )
        if self.dim() == 0:
            fail(
                RuntimeError,
                "view_as_complex",
                "Input tensor must have one or more dimensions",
                "a tensor of none",
                hint="facula.complex(real, imag) joins two real tensors",
            )
        if self.shape[-1] != 2:
            fail(
                RuntimeError,
                "view_as_complex",
                "Tensor must have a last dimension of size 2",
                list(self.shape),
                hint="facula.complex(real, imag) joins two real tensors",
            )
        stride = self.stride()
        _check_pairs(stride, self.storage_offset())
        return core.view_dtype(
            self, self.dtype.to_complex(), self.shape[:-1], [s // 2 for s in stride[:-1]]
        )

    def backward(grad):
        return F.view_as_real(grad.resolve_conj())

    def samples(S):
        yield (S(3, 2),), {}


@view("real(Tensor self) -> Tensor", names=("real", "Tensor.real"), copied=(), elementwise=True)
class real:
    """The real part, a view; a real tensor as it is."""

    def geometry(self):
        if not self.is_complex():
            return core.make_view(self, self.shape, self.stride())
        return core.view_dtype(
            self, self.dtype.to_real(), self.shape, [2 * s for s in self.stride()]
        )

    def backward(grad, self_meta):
        return F.complex(grad, F.zeros_like(grad)) if self_meta.dtype.is_complex else grad

    def samples(S):
        yield (S.complex(3),), {}


@view("imag(Tensor self) -> Tensor", names=("imag", "Tensor.imag"), copied=())
class imag:
    """The imaginary part, a view."""

    def geometry(self):
        if not self.is_complex():
            fail(
                RuntimeError,
                "imag",
                "imag is not implemented for tensors with non-complex dtypes.",
                self.dtype,
                hint="the imaginary part of real numbers is facula.zeros_like(x)",
            )
        part = self.dtype.to_real()
        return core.view_dtype(
            self, part, self.shape, [2 * s for s in self.stride()], part.itemsize
        )

    def backward(grad):
        return F.complex(F.zeros_like(grad), grad)

    def samples(S):
        yield (S.complex(3),), {}


core.REAL_PART[0] = F.real
