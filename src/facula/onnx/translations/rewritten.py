"""Operators that are made of others for ONNX only.

Takes and gives what the operators do.
Keeps true: each is what its definition says, by operators that have an ONNX form; none is faster than
the kernel that it replaces, which is why others do not use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula import core
from facula.onnx.table import rewrite
from facula.ops.table.registry import F

Tensor = core.Tensor


def _total(x: Tensor, mean: bool) -> Tensor:
    return x.mean() if mean else x.sum()


@rewrite("bce_logits_total")
def bce_logits_total(input: Tensor, target: Tensor, mean: bool) -> Tensor:
    """The sum or mean of binary cross entropies of logits."""
    decay = F.log1p(F.exp(-F.abs(input)))
    return _total(F.clamp(input, min=0) - input * target + decay, mean)


@rewrite("binary_cross_entropy_elements")
def binary_cross_entropy_elements(input: Tensor, target: Tensor) -> Tensor:
    """Binary cross entropies, logarithms cut at -100."""
    yes, no = F.clamp(F.log(input), min=-100), F.clamp(F.log1p(-input), min=-100)
    return (target - 1) * no - target * yes


@rewrite("cross_entropy_rows")
def cross_entropy_rows(
    input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, label_smoothing: float
) -> Any:
    """Each row's loss, and the logarithm of its sum of exponentials."""
    dim = min(input.dim() - 1, 1)
    wide = input.to(core.float32) if input.dtype.itemsize < 4 else input
    total = F.logsumexp(wide, (dim,))
    kept = target != ignore_index
    places = F.where(kept, target, 0)
    loss = total - F.gather(wide, dim, places.unsqueeze(dim)).squeeze(dim)
    shape = [-1] + [1] * (input.dim() - 1 - dim)
    scale = None if weight is None else weight.to(wide.dtype)
    if scale is not None:
        loss = loss * F.embedding(scale.unsqueeze(1), places).squeeze(-1)
    if label_smoothing:
        scale = F.ones((input.shape[dim],), dtype=wide.dtype) if scale is None else scale
        spread = total * F.sum(scale) - F.sum(wide * scale.reshape(shape), dim)
        loss = loss * (1.0 - label_smoothing) + spread * (label_smoothing / input.shape[dim])
    return F.where(kept, loss, 0.0), total


@rewrite("searchsorted")
def searchsorted(
    sorted_sequence: Tensor, self: Any, *, out_int32: bool = False, right: bool = False,
    side: object = None, sorter: object = None,
) -> Tensor:  # fmt: skip
    """Where values would stand: how many of a row are smaller."""
    rows = sorted_sequence if sorter is None else F.gather(sorted_sequence, -1, sorter)
    values = self if isinstance(self, Tensor) else F.scalar_tensor(self, dtype=rows.dtype)
    pairs = rows.unsqueeze(-2), values.unsqueeze(-1)
    before = pairs[0] <= pairs[1] if right or side == "right" else pairs[0] < pairs[1]
    return F.sum(before, -1, dtype=core.int32 if out_int32 else core.int64).reshape(values.shape)


@rewrite("masked_scatter")
def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements under a mask replaced by those of a source, in order."""
    self, mask = F.broadcast_tensors(self, mask)
    places = F.cumsum(mask.reshape(-1).to(core.int64), 0) - 1
    found = F.take(source, F.clamp(places, min=0)).reshape(self.shape)
    return F.where(mask, found, self)


@rewrite("put")
def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Elements written by their place among all."""
    flat, places, given = self.reshape(-1), index.reshape(-1), source.reshape(-1)
    places = F.where(places < 0, places + flat.shape[0], places)
    done = (
        F.scatter_add(flat, 0, places, given) if accumulate else F.scatter(flat, 0, places, given)
    )
    return done.reshape(self.shape)


@rewrite("_embedding_bag")
def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, per_sample_weights: Any, mode: int,
    padding_idx: int, scale_grad_by_freq: bool, sparse: bool = False,
) -> Any:  # fmt: skip
    """Sums (0), means (1) or maxima (2) of bags of rows; the second result is for gradients."""
    places = F.arange(indices.shape[0]).unsqueeze(1)
    offsets = offsets.narrow(0, 0, offsets.shape[0] - 1)  # the last is where all end
    bags = (offsets.unsqueeze(0) <= places).sum(1) - 1
    rows = F.embedding(weight, indices)
    kept = (indices != padding_idx).unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    shape, whole = (offsets.shape[0], weight.shape[1]), kept.to(weight.dtype)
    empty = F.zeros(shape, dtype=weight.dtype)
    counts = F.index_add(F.zeros((shape[0], 1), dtype=weight.dtype), 0, bags, whole)
    if mode == 2:
        low = F.full(shape, -float("inf"), dtype=weight.dtype)
        rows = F.where(kept, rows, low[:1])
        best = F.scatter_reduce(low, 0, bags.unsqueeze(1).expand(rows.shape), rows, "amax")
        return F.where(counts > 0, best, empty), bags
    found = F.index_add(empty, 0, bags, F.where(kept, rows, empty[:1]))
    return (found / F.clamp(counts, min=1) if mode == 1 else found), bags


def _scanned(x: list[Any], dim: int, join: Callable[..., Any]) -> list[Any]:
    """A scan whose every step doubles how many elements are in; `join` gets earlier, then later ones."""
    size, step = x[0].shape[dim], 1
    while step < size:
        first = [t.narrow(dim, 0, step) for t in x]
        joined = join([t.narrow(dim, 0, size - step) for t in x],
                      [t.narrow(dim, step, size - step) for t in x])  # fmt: skip
        x = [F.cat(pair, dim) for pair in zip(first, joined, strict=True)]
        step *= 2
    return x


@rewrite("logcumsumexp")
def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    """Logarithms of sums of exponentials up to each element."""
    if not self.dim():
        return self.clone()
    return _scanned([self], dim, lambda a, b: [F.logaddexp(a[0], b[0])])[0]


def _extreme(better: Callable[..., Any]) -> Any:
    def scan(self: Tensor, dim: int) -> Any:
        if not self.dim():
            return self.clone(), F.zeros((), dtype=core.int64)
        shape = [1] * self.dim()
        shape[dim] = self.shape[dim]
        places = F.arange(self.shape[dim]).reshape(shape).expand(self.shape)

        def join(a: Any, b: Any) -> Any:
            later = better(b[0], a[0]) | F.isnan(b[0])
            return [F.where(later, y, x) for x, y in zip(a, b, strict=True)]

        return tuple(_scanned([self, places], dim, join))

    return scan


rewrite("cummax")(_extreme(lambda x, y: x >= y))
rewrite("cummin")(_extreme(lambda x, y: x <= y))


@rewrite("_plane_scatter")
def plane_scatter(source: Tensor, indices: Tensor, sizes: Any) -> Tensor:
    """Planes of zeros with elements at flat places."""
    lead = list(source.shape[: source.dim() - len(sizes)])
    planes = F.zeros([*lead, math.prod(sizes)], dtype=source.dtype)
    places = indices.reshape([*lead, -1]).to(core.int64)
    return F.scatter(planes, -1, places, source.reshape([*lead, -1])).reshape([*lead, *sizes])


@rewrite("_plane_gather")
def plane_gather(source: Tensor, indices: Tensor, space: int) -> Tensor:
    """Elements of planes at flat places."""
    lead = list(source.shape[: source.dim() - space])
    places = indices.reshape([*lead, -1]).to(core.int64)
    return F.gather(source.reshape([*lead, -1]), -1, places).reshape(indices.shape)
