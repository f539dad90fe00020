"""Views in pieces: unbind, split, chunk and their like.

Takes: a tensor, a dimension, and where to cut. Gives: a tuple of views that together cover the
tensor. Keeps true: no element is read or written; the pieces' gradients are joined again along the
dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.reduce.launch import wrap_dim
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator

Tensor = core.Tensor
MOST_PIECES = 2**31


def _check_divisible(op: str, tensor: Tensor, required: str) -> None:
    if tensor.dim() == 0:
        fail(RuntimeError, op, required, hint="x.reshape(1) has a dimension to split")


@operator("unbind(Tensor self, int dim=0) -> Tensor[]", out=False, copied=("",), overload="int")
class unbind:
    """All slices along a dimension, as a tuple of views."""

    rearranges = True

    shards = "unbound"

    vmap = batch_forms.unbind
    jvp = "linear"

    def meta(self, dim):
        if self.dim() == 0:
            fail(
                IndexError,
                "unbind",
                "Dimension specified as 0 but tensor has no dimensions",
                hint="x.reshape(1) has a dimension to unbind",
            )
        d = wrap_dim("unbind", dim, self.dim())
        _check_count("unbind", self.shape[d])
        shape = [*self.shape[:d], *self.shape[d + 1 :]]
        stride = self.stride()
        rest = [*stride[:d], *stride[d + 1 :]]
        return tuple(core.make_view(self, shape, rest, i * stride[d]) for i in range(self.shape[d]))

    def cpu(out, self, dim):
        """Nothing: the views are the result."""

    def backward(grads, self_meta, dim):
        shape = [*self_meta.shape]
        del shape[dim]
        filled = [
            g if g is not None else F.zeros(shape, dtype=self_meta.dtype, device=self_meta.device)
            for g in grads
        ]
        return F.stack(filled, dim)

    def samples(S):
        yield (S(3, 4), 1), {}


def _split_points(self: Tensor, sizes: Sequence[int], d: int, op: str) -> list[int]:
    if any(s < 0 for s in sizes) or sum(sizes) != self.shape[d]:
        fail(
            RuntimeError,
            op,
            f"split_with_sizes expects split_sizes to sum exactly to {self.shape[d]} (input "
            f"tensor's size at dimension {d})",
            f"split_sizes={list(sizes)}",
            hint=f"these sum to {sum(sizes)}, and none may be negative; chunk() makes nearly equal "
            "pieces",
        )
    return list(sizes)


def _check_count(op: str, count: int) -> None:
    """Raise for more pieces than a tuple can hold in earnest: of an empty tensor a dimension may be of
    any size."""
    if count > MOST_PIECES:
        fail(
            RuntimeError,
            op,
            f"at most {MOST_PIECES} pieces were required",
            count,
            hint="x.narrow(dim, start, length) and indexing take pieces one at a time",
        )


@operator(
    "split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
    out=False,
    copied=("",),
)
class split_with_sizes:
    """Pieces of given sizes along a dimension, as a tuple of views."""

    rearranges = True

    vmap = "dims"
    jvp = "linear"

    def meta(self, split_sizes, dim):
        _check_divisible("split", self, "split expects at least a 1-dimensional tensor")
        d = wrap_dim("split", dim, self.dim())
        shape, stride, start, pieces = list(self.shape), self.stride(), 0, []
        for size in _split_points(self, split_sizes, d, "split"):
            shape[d] = size
            pieces.append(core.make_view(self, shape, stride, start * stride[d]))
            start += size
        return tuple(pieces)

    def cpu(out, self, split_sizes, dim):
        """Nothing: the views are the result."""

    def backward(grads, self_meta, split_sizes, dim):
        d = dim % len(self_meta.shape)
        shape, filled = list(self_meta.shape), []
        for g, size in zip(grads, split_sizes, strict=True):
            shape[d] = size
            filled.append(
                g
                if g is not None
                else F.zeros(shape, dtype=self_meta.dtype, device=self_meta.device)
            )
        return F.cat(filled, d)

    def samples(S):
        yield (S(5, 4), (2, 3), 0), {}


def _even(self: Tensor, size: int, d: int) -> list[int]:
    n = self.shape[d]
    if size == 0:
        return [0]
    count = max(int(-(-n // size)), 1)  # how many there are is fixed, their sizes may be symbols
    _check_count("split", count)
    return [size] * (count - 1) + [n - size * (count - 1)]


@composite(
    "split(Tensor self, any split_size, int dim=0) -> Tensor[]",
    names=("split", "Tensor.split"),
    home="functional.split",
    overload="split_size:int=Tensor, sizes",
    out=False,
    keyword_aliases={"tensor": "self", "split_size_or_sections": "split_size"},
    copied=("",),
    quantizers={"fx": "shared"},
    node=lambda result, self, split_size, dim: (
        "SplitBackward0" if isinstance(split_size, int) else "SplitWithSizesBackward0"
    ),
)
def split(self, split_size, dim):
    """Pieces of `split_size` (the last may be smaller), or of a list of sizes, along a
    dimension.
    """
    _check_divisible("split", self, "split expects at least a 1-dimensional tensor")
    d = wrap_dim("split", dim, self.dim())
    if isinstance(split_size, (list, tuple)):
        return F.split_with_sizes(self, split_size, d)
    if not hasattr(split_size, "__index__"):
        required = "an int or a list of ints was required: argument 'split_size' must be int"
        hint = "split(2) makes pieces of 2, split([1, 2]) pieces of these sizes"
        fail(TypeError, "split", required, type(split_size).__name__, hint)
    split_size = split_size.__index__()
    if split_size < 0 or (split_size == 0 and self.shape[d] != 0):
        fail(
            RuntimeError,
            "split",
            "split expects split_size be non-negative (and positive unless the size is 0)",
            split_size,
            hint="split_size=1 gives single slices",
        )
    return F.split_with_sizes(self, _even(self, split_size, d), d)


@composite(
    "chunk(Tensor self, int chunks, int dim=0) -> Tensor[]",
    out=False,
    quantizers={"fx": "shared"},
    node="SplitBackward0",
)
def chunk(self, chunks, dim):
    """At most `chunks` pieces of equal size along a dimension."""
    _check_divisible("chunk", self, "chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        fail(
            RuntimeError,
            "chunk",
            "chunk expects `chunks` to be greater than 0",
            chunks,
            hint="chunks=1 gives the whole tensor",
        )
    d = wrap_dim("chunk", dim, self.dim())
    size = (self.shape[d] + chunks - 1) // chunks
    if size == 0:
        _check_count("chunk", chunks)
        return F.split_with_sizes(self, [0] * chunks, d)
    return F.split_with_sizes(self, _even(self, size, d), d)


def _check_sections(op: str, value: object) -> None:
    """Raise for what is neither an int nor a list of ints."""
    if not (hasattr(value, "__index__") or isinstance(value, (list, tuple))):
        fail(
            TypeError,
            op,
            "an int or a list of ints was required (received an invalid combination of arguments)",
            type(value).__name__,
            hint="for example 3 for three pieces, or [2, 5] to cut before the indices 2 and 5",
        )


def _numbers_of_tensor(given: Tensor) -> Any:
    """Indices or a number of sections, out of the tensor that holds them."""
    if given.dtype != core.int64:
        fail(
            RuntimeError,
            "tensor_split",
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{given.dtype.type_word}",
            hint="convert it with .long(), or give a tuple of ints",
        )
    if given.dim() > 1 or given.device.type != "cpu":
        fail(
            RuntimeError,
            "tensor_split",
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {given.dim()} dims; it has to be on the cpu",
            got=f"one on {given.device}",
            hint="give a tuple of ints instead",
        )
    return given.tolist()


@composite(
    "tensor_split(Tensor self, any indices_or_sections, int dim=0) -> Tensor[]",
    out=False,
    overload="indices_or_sections:int=sections, indices_or_sections:Tensor=tensor_indices_or_sections, indices",
    file_arguments={
        "sections.indices_or_sections": "sections",
        "indices.indices_or_sections": "indices",
        "tensor_indices_or_sections.indices_or_sections": "tensor_indices_or_sections",
    },
    # the names of PyTorch's overloads
    keyword_aliases={
        "indices": "indices_or_sections",
        "sections": "indices_or_sections",
        "tensor_indices_or_sections": "indices_or_sections",
    },
)
def tensor_split(self, indices_or_sections, dim):
    """Pieces between given indices, or a number of nearly equal pieces."""
    _check_divisible(
        "tensor_split",
        self,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
    )
    d = wrap_dim("tensor_split", dim, self.dim())
    n = self.shape[d]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = _numbers_of_tensor(indices_or_sections)
    _check_sections("tensor_split", indices_or_sections)
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            fail(
                RuntimeError,
                "tensor_split",
                "at least one section was required: number of sections must be larger than 0, "
                f"got {indices_or_sections}",
                hint="1 section is the whole tensor",
            )
        _check_count("tensor_split", indices_or_sections)
        base, extra = divmod(n, indices_or_sections)
        sizes = [base + (i < extra) for i in range(indices_or_sections)]
        return core.allow_writes(F.split_with_sizes(self, sizes, d))
    bounds = [0, *indices_or_sections, n]
    return tuple(F.slice(self, d, a, b, 1) for a, b in zip(bounds, bounds[1:], strict=False))


def _axis_split(name: str, self: Tensor, indices_or_sections: Any, least: int, d: int) -> Any:
    if self.dim() < least:
        fail(
            RuntimeError,
            name,
            f"torch.{name} requires a tensor with at least {least} "
            f"dimension, but got a tensor with {self.dim()} dimensions!",
            hint=f"facula.atleast_{least}d(x) adds the missing dimensions",
        )
    _check_sections(name, indices_or_sections)
    if isinstance(indices_or_sections, int) and (
        indices_or_sections <= 0 or self.shape[d] % indices_or_sections
    ):
        fail(
            RuntimeError,
            name,
            f"torch.{name} attempted to split along dimension {d}, but the size of the dimension "
            f"{self.shape[d]} is not divisible by the split_size {indices_or_sections}!",
            hint=f"facula.tensor_split(x, n, dim={d}) takes every n > 0, with pieces of unequal "
            "size",
        )
    return F.tensor_split(self, indices_or_sections, d)


_PARTS = {"int.indices_or_sections": "sections", "array.indices_or_sections": "indices"}


@composite(
    "hsplit(Tensor self, any indices_or_sections) -> Tensor[]",
    out=False,
    overload="indices_or_sections:int=int, array",
    file_arguments=_PARTS,
)
def hsplit(self, indices_or_sections):
    """Split along columns (the only dimension of a 1-d tensor)."""
    return _axis_split("hsplit", self, indices_or_sections, 1, 0 if self.dim() == 1 else 1)


@composite(
    "vsplit(Tensor self, any indices_or_sections) -> Tensor[]",
    out=False,
    overload="indices_or_sections:int=int, array",
    file_arguments=_PARTS,
)
def vsplit(self, indices_or_sections):
    """Split along rows."""
    return _axis_split("vsplit", self, indices_or_sections, 2, 0)


@composite(
    "dsplit(Tensor self, any indices_or_sections) -> Tensor[]",
    out=False,
    overload="indices_or_sections:int=int, array",
    file_arguments=_PARTS,
)
def dsplit(self, indices_or_sections):
    """Split along the third dimension."""
    return _axis_split("dsplit", self, indices_or_sections, 3, 2)
