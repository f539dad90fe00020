"""Batches cut into micro-batches, and results put together.

Takes: arguments, and along which dimension each is cut. Gives: arguments of each micro-batch; whole results.
Keeps true: tensors are cut along their first dimension and other values go to all, where nothing else is said.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.fx._pytree import tree_flatten, tree_unflatten
from facula.ops.table.registry import F

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """A tensor that is cut along a dimension.

    Example:
        >>> from facula.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """One for each argument."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each named argument."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


class _Replicate:
    """A value that goes to all micro-batches."""


class _CustomReducer:
    """A value that micro-batches' values are reduced to.

    Args:
        init_value: what it begins with.
        reduce_fn: gives it of itself and of a micro-batch's.
    """

    def __init__(self, init_value: Any, reduce_fn: Any) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


def _cut(value: object, spec: object, count: int) -> list[Any]:
    """A value for each micro-batch."""
    if not isinstance(value, core.Tensor) or isinstance(spec, _Replicate):
        return [value] * count
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    if value.dim() == 0 and spec is None:
        return [value] * count
    if value.shape[dim] < count:
        fail(ValueError, "schedule", f"a batch of at least {count} was required", tuple(value.shape),
             f"give a larger batch, or less than {count} micro-batches")  # fmt: skip
    return list(value.tensor_split(count, dim))


def _cut_tree(values: object, specs: object, count: int) -> list[Any]:
    leaves, tree = tree_flatten(values)
    if specs is None:
        wanted = [None] * len(leaves)
    else:
        wanted, _ = tree_flatten(specs)
        if len(wanted) != len(leaves):
            fail(ValueError, "schedule", f"a chunk spec for each of {len(leaves)} values was required", len(wanted),
                 "TensorChunkSpec.from_tuple((0, 0)) names dimensions")  # fmt: skip
    parts = [_cut(leaf, spec, count) for leaf, spec in zip(leaves, wanted, strict=True)]
    return [tree_unflatten([part[i] for part in parts], tree) for i in range(count)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int, args_chunk_spec: object = None,
    kwargs_chunk_spec: object = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:  # fmt: skip
    """The arguments of each micro-batch.

    Args:
        args_chunk_spec, kwargs_chunk_spec: a `TensorChunkSpec` for each argument; default: the first dimension.

    Example:
        >>> from facula.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
        >>> split_args_kwargs_into_chunks((facula.arange(4), "x"), {}, 2)
        ([(tensor([0, 1]), 'x'), (tensor([2, 3]), 'x')], [{}, {}])
    """
    positional = _cut_tree(tuple(args), args_chunk_spec, chunks)
    return positional, _cut_tree(dict(kwargs or {}), kwargs_chunk_spec, chunks)


def merge_chunks(chunks: list[Any], chunk_spec: object = None) -> Any:
    """Micro-batches' results as one.

    Example:
        >>> from facula.distributed.pipelining.microbatch import merge_chunks
        >>> merge_chunks([facula.zeros(1), facula.ones(1)])
        tensor([0., 1.])
    """
    flat = [tree_flatten(chunk) for chunk in chunks]
    tree, count = flat[0][1], len(flat[0][0])
    specs = [None] * count if chunk_spec is None else tree_flatten(chunk_spec)[0]
    merged = [_joined([leaves[i] for leaves, _ in flat], specs[i]) for i in range(count)]
    return tree_unflatten(merged, tree)


def _joined(values: list[Any], spec: object) -> Any:
    if isinstance(spec, _CustomReducer):
        found = spec.init_value
        for value in values:
            found = spec.reduce_fn(found, value)
        return found
    first = values[0]
    if not isinstance(first, core.Tensor) or isinstance(spec, _Replicate) or first.dim() == 0:
        return first
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    return F.cat([v.detach() for v in values], dim)
