"""What the linear-algebra definitions share: checks, batches of matrices, and LAPACK through NumPy.

Takes tensors whose last two dimensions are matrices. Gives checked shapes, 3-d batches for kernels,
and the errors that LAPACK's `info` stands for. Keeps true: nothing here is differentiable; a check
never reads elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import LinAlgError, cast_hint, fail
from facula.ops.index.launch import broadcast_shapes
from facula.ops.table.registry import F


def check_kind(op: str, x: core.Tensor, name: str = "A", low: bool = False) -> None:
    """Raise unless `x` holds floating-point or complex numbers, of at least 32 bits unless `low`."""
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        fail(
            RuntimeError,
            op,
            f"{op}: Expected a floating point or complex tensor as input",
            f"{name} of {x.dtype.type_word}",
            "convert first: x.float()",
        )
    if not low and x.dtype.code not in ("f32", "f64", "c64", "c128"):
        fail(
            RuntimeError,
            op,
            f"{op}: Low precision dtypes not supported",
            f"{name} of {x.dtype.type_word}",
            "convert first: x.float()",
        )


def check_matrix(op: str, x: core.Tensor, name: str = "A") -> None:
    """Raise unless `x` has at least two dimensions."""
    if x.dim() < 2:
        fail(
            RuntimeError,
            op,
            f"{op}: The input tensor {name} must have at least 2 dimensions",
            f"{x.dim()} dimensions",
            hint="unsqueeze(-1) makes a column of a vector",
        )


def check_square(op: str, x: core.Tensor, name: str = "A") -> None:
    """Raise unless `x` is a batch of square matrices."""
    check_matrix(op, x, name)
    if x.shape[-1] != x.shape[-2]:
        fail(
            RuntimeError,
            op,
            f"{op}: {name} must be batches of square matrices",
            f"{x.shape[-2]} by {x.shape[-1]} matrices",
            hint="linalg.svd(), linalg.lstsq() and linalg.pinv() take other shapes",
        )


def check_numbers(op: str, x: core.Tensor, name: str = "A") -> None:
    """Raise unless `x` is a batch of square matrices of floating-point or complex numbers."""
    check_square(op, x, name)
    check_kind(op, x, name)


def check_same_dtype(op: str, a: Any, b: Any, names: tuple[str, str] = ("A", "B")) -> None:
    """Raise unless both tensors have one dtype and lie on one device."""
    if a.dtype is not b.dtype:
        fail(
            RuntimeError,
            op,
            f"{op}: Expected {names[0]} and {names[1]} to have the same dtype",
            f"{a.dtype} and {b.dtype}",
            hint=cast_hint(names[1], a.dtype),
        )
    if a.device != b.device:
        fail(
            RuntimeError,
            op,
            f"{op}: Expected {names[0]} and {names[1]} to be on the same device",
            f"{a.device} and {b.device}",
            hint=f"{names[1]}.to('{a.device}') moves it",
        )


def like(x: core.Tensor, shape: Any, dtype: core.dtype | None = None) -> Any:
    """An empty tensor beside `x`."""
    return core.empty(tuple(shape), dtype=x.dtype if dtype is None else dtype, device=x.device)


def real_dtype(x: core.Tensor) -> Any:
    """The dtype of absolute values of `x`."""
    return x.dtype.to_real() if x.dtype.is_complex else x.dtype


def adjoint(x: core.Tensor) -> Any:
    """The conjugate transpose of the last two dimensions."""
    transposed = x.transpose(-2, -1)
    return transposed.conj() if x.dtype.is_complex else transposed


def batch_shape(op: str, a: Any, b: Any) -> tuple[int, ...]:
    """The shape to which the leading dimensions of two batches of matrices broadcast."""
    return tuple(broadcast_shapes(op, a.shape[:-2], b.shape[:-2]))


def broadcast(op: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two batches of matrices with the same leading dimensions."""
    shape = batch_shape(op, a, b)
    return a.expand((*shape, *a.shape[-2:])), b.expand((*shape, *b.shape[-2:]))


def batch_of(x: Any) -> Any:
    """Matrices as a 3-d batch; one matrix that stands for all keeps its stride of zero."""
    if x.dim() == 3:
        return x
    if x.dim() > 3 and not any(x.stride()[:-2]) and x.numel():
        return x[(0,) * (x.dim() - 2)].expand((x.shape[:-2].numel(), *x.shape[-2:]))
    return x.reshape((-1, *x.shape[-2:])) if x.numel() else x.flatten(0, -3)


def count_of(x: core.Tensor) -> int:
    """How many matrices a batch has."""
    count = 1
    for size in x.shape[:-2]:
        count *= size
    return count


def raise_for(check: str, info: core.Tensor, text: Callable[[int], str], hint: str) -> None:
    """Raise `LinAlgError` for the first matrix whose `info` is not 0; `check` names the operator,
    "" checks nothing.
    """
    if not check or info.numel() == 0 or not bool(info.any()):
        return
    flat = info.reshape(-1).tolist()
    at = next(i for i, value in enumerate(flat) if value)
    where = f"(Batch element {at}): " if info.dim() else ""
    fail(LinAlgError, check, f"{check}: {where}{text(flat[at])}", hint=hint)


#: matrices up to this size are worth one thread of LAPACK's only
SERIAL = 192


def lapack(check: str, function: str, *arguments: Any, **settings: object) -> Any:
    """A function of `numpy.linalg` on the arguments (tensors as arrays): LAPACK on every matrix of
    a batch.
    """
    import numpy

    # lazily: it belongs to NumPy, which is loaded here
    from facula.core import blas_threads

    given = [a.detach().numpy() if isinstance(a, core.Tensor) else a for a in arguments]
    largest = max(max(a.shape[-2:]) for a in given)
    blas_threads.hold(1 if largest <= SERIAL else core.get_num_threads())
    try:
        return getattr(numpy.linalg, function)(*given, **settings)
    except numpy.linalg.LinAlgError as error:
        finite = all(bool(F.isfinite(a).all()) for a in arguments if isinstance(a, core.Tensor))
        reason = (
            f"the algorithm failed to converge ({error})"
            if finite
            else "The algorithm failed to converge because the input matrix contained non-finite values"
        )
        fail(
            LinAlgError,
            check,
            f"{check}: {reason}",
            hint="scale the matrix, or compute in float64"
            if finite
            else "x.isfinite() tells where they are",
        )
    finally:
        blas_threads.release()


def store(out: core.Tensor, array: Any) -> None:
    """Copy an array into a result."""
    if out.numel():
        out.copy_(core.from_numpy(array))


__all__ = [
    "adjoint",
    "batch_of",
    "batch_shape",
    "broadcast",
    "check_kind",
    "check_matrix",
    "check_numbers",
    "check_same_dtype",
    "check_square",
    "count_of",
    "lapack",
    "like",
    "raise_for",
    "real_dtype",
    "store",
]
