"""Matrices with two of four elements left, in the compressed form that products of NVIDIA's devices take.

Takes: matrices. Gives: the classes that programs ask after with `isinstance`, and the conversion.
Keeps true: as in PyTorch, the CPU has no such form: a conversion there is an error, and no tensor has these classes.
"""

from __future__ import annotations

from typing import Any, NoReturn

from facula import core
from facula.core.errors import fail

__all__ = [
    "SparseSemiStructuredTensor",
    "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS",
    "to_sparse_semi_structured",
]


def _no_device(original: Any) -> NoReturn:
    where = original.device if isinstance(original, core.Tensor) else type(original).__name__
    fail(RuntimeError, "to_sparse_semi_structured", "a tensor on an NVIDIA device was required (Only CUDA tensors are "
         "currently supported)", where, hint="x.to_sparse_csr() is a form that the CPU computes with")  # fmt: skip


class SparseSemiStructuredTensor(core.Tensor):
    """A matrix with two of each four elements, compressed: see `to_sparse_semi_structured`."""

    _DEFAULT_ALG_ID: int = 0

    @staticmethod
    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises: there is no device with this form here."""
        _no_device(args[0] if args else None)

    @classmethod
    def from_dense(cls, original_tensor: core.Tensor) -> NoReturn:
        """Raises: there is no device with this form here."""
        _no_device(original_tensor)


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """The form that CUTLASS multiplies."""

    BACKEND = "cutlass"


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """The form that cuSPARSELt multiplies."""

    BACKEND = "cusparselt"


def to_sparse_semi_structured(
    original_tensor: core.Tensor, transposed: bool = False
) -> SparseSemiStructuredTensor:
    """The compressed form of a matrix of which each four elements of a row have two zeros.

    Args:
        original_tensor: a matrix on an NVIDIA device
        transposed: kept for PyTorch's API

    Raises:
        RuntimeError: the tensor is on another device; here each is.

    Example:
        >>> facula.sparse.to_sparse_semi_structured(facula.eye(64))
        Traceback (most recent call last):
            ...
        RuntimeError: [to_sparse_semi_structured] a tensor on an NVIDIA device was required ...
    """
    _no_device(original_tensor)
