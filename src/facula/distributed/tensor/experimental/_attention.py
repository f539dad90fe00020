"""Attention over sequences whose places lie on several ranks. [Liu et al. 2023]

Takes: a mesh, and the tensors of a batch. Gives: `context_parallel`, a block in which each rank has some places of
each sequence, and `scaled_dot_product_attention` sees all of them.
Keeps true: results and gradients are those of whole sequences; a rank has its queries, and keys and values of one
other rank at a time, which go around a ring (`alltoall`), or of all (`allgather`). With balance, rank r has parts r and
2n-1-r of 2n, so that a causal mask leaves all ranks as much to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from facula import core, nn
from facula.autograd import Function
from facula.core.errors import fail
from facula.distributed import operations
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.messages import irecv, isend
from facula.namespaces.overrides import TorchFunctionMode
from facula.ops.table.registry import F

__all__ = ["context_parallel", "context_parallel_unshard", "set_rotate_method"]


@dataclass
class _Options:
    """How sequences are cut, and how keys and values come to other ranks."""

    enable_load_balance: bool = True
    rotate_method: str = "allgather"


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """Choose how keys and values come to other ranks.

    Args:
        rotate_method: `allgather`: all at once; `alltoall`: from rank to rank, which needs less memory

    Example:
        >>> from facula.distributed.tensor.experimental._attention import set_rotate_method
        >>> set_rotate_method("allgather")
    """
    if rotate_method not in ("allgather", "alltoall"):
        fail(NotImplementedError, "set_rotate_method", "allgather or alltoall was required", repr(rotate_method),
             "alltoall needs less memory")  # fmt: skip
    _cp_options.rotate_method = rotate_method


def _places(length: int, count: int, rank: int) -> Any:
    """Which places of a sequence of some length a rank has."""
    parts = 2 * count if _cp_options.enable_load_balance else count
    if length % parts:
        fail(ValueError, "context_parallel", f"sequences of a multiple of {parts} places were required", length,
             "pad them, or have less ranks")  # fmt: skip
    size = length // parts
    which = (rank, parts - 1 - rank) if parts > count else (rank,)
    return F.cat([F.arange(part * size, (part + 1) * size) for part in which])


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh, *, buffers: list[Any] | None = None, buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Any] | None = None,
) -> Iterator[None]:  # fmt: skip
    """A block in which ranks have some places of each sequence, and attention sees all.

    >>> with context_parallel(mesh, buffers=[tokens, targets], buffer_seq_dims=[1, 1]):
    ...     loss_of(model(tokens), targets).backward()

    Args:
        mesh: of one dimension, along which places are cut.
        buffers: tensors with a dimension of places: in the block they have this rank's places alone.
        buffer_seq_dims: that dimension of each.
        no_restore_buffers: tensors that need not be whole again behind the block.
    """
    given, dims = list(buffers or ()), list(buffer_seq_dims or ())
    if len(given) != len(dims):
        fail(ValueError, "context_parallel", f"a dimension for each of {len(given)} buffers was required "
             "(`seq_dims` must have the same number of elements as `buffers`)", len(dims),
             "buffer_seq_dims names the dimension of places")  # fmt: skip
    left = {id(t) for t in no_restore_buffers or ()}
    if not left <= {id(t) for t in given}:
        fail(ValueError, "context_parallel", "buffers were required in no_restore_buffers", "other tensors",
             "it names some of the buffers")  # fmt: skip
    whole = [(t, None if id(t) in left else t.detach().clone()) for t in given]
    _each(given, [_part(t.detach(), mesh, dim) for t, dim in zip(given, dims, strict=True)])
    try:
        with _Attention(mesh):
            yield
    finally:
        kept = [(t, old) for t, old in whole if old is not None]
        _each([t for t, _ in kept], [old for _, old in kept])


def _part(whole: Any, mesh: DeviceMesh, dim: int) -> Any:
    return whole.index_select(dim, _places(whole.shape[dim], mesh.size(), mesh.get_local_rank()))


def _each(tensors: list[Any], values: list[Any]) -> None:
    """Give tensors other shapes and elements, in place."""
    recording = core.set_grad_enabled(False)
    try:
        for tensor, value in zip(tensors, values, strict=True):
            tensor.resize_(tuple(value.shape)).copy_(value)
    finally:
        core.set_grad_enabled(recording)


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Any], seq_dims: list[int], load_balancer: Any = None
) -> list[Any]:
    """Whole sequences of this rank's places.

    Args:
        seq_dims: the dimension of places of each.
        load_balancer: kept for PyTorch's API.
    """
    found, count = [], mesh.size()
    recording = core.set_grad_enabled(False)
    try:
        for tensor, dim in zip(buffers, seq_dims, strict=True):
            parts = [core.empty_like(tensor) for _ in range(count)]
            operations.all_gather(parts, tensor.detach().contiguous(), mesh.get_group())
            length = tensor.shape[dim] * count
            order = F.cat([_places(length, count, rank) for rank in range(count)])
            found.append(F.cat(parts, dim).index_select(dim, order.argsort()))
    finally:
        core.set_grad_enabled(recording)
    return found


# ------------------------------------------------------------------ attention


class _Attention(TorchFunctionMode):
    """Has attention see the places of all ranks."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.mesh = mesh

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func is not nn.functional.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        return self._run(*args, **(kwargs or {}))

    def _run(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        if attn_mask is not None or dropout_p:
            fail(NotImplementedError, "context_parallel", "attention without a mask and without dropout was "
                 "required", f"dropout_p={dropout_p}" if dropout_p else "a mask",
                 "is_causal=True masks what comes later")  # fmt: skip
        if enable_gqa and query.shape[-3] != key.shape[-3]:
            times = query.shape[-3] // key.shape[-3]
            key, value = (t.repeat_interleave(times, -3) for t in (key, value))
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        return _Ring.apply(
            query, key, value, is_causal, factor, self.mesh, _cp_options.rotate_method
        )


class _Blocks:
    """Keys and values of one rank after the other, and what goes with them."""

    def __init__(self, mesh: DeviceMesh, tensors: Sequence[Any], method: str) -> None:
        self.group, self.count, self.rank = mesh.get_group(), mesh.size(), mesh.get_local_rank()
        self.tensors, self.method = [t.detach().contiguous() for t in tensors], method

    def of_each(self) -> Iterator[tuple[int, list[Any]]]:
        """The rank whose they are, and the tensors."""
        if self.method == "alltoall":
            for step in range(self.count):
                yield (self.rank - step) % self.count, self.tensors
                if step + 1 < self.count:
                    self.turn()
            return
        gathered = []
        for tensor in self.tensors:
            parts = [core.empty_like(tensor) for _ in range(self.count)]
            operations.all_gather(parts, tensor, self.group)
            gathered.append(parts)
        for rank in range(self.count):
            yield rank, [parts[rank] for parts in gathered]

    def turn(self) -> None:
        """Pass the tensors on to the next rank."""
        came = [core.empty_like(t) for t in self.tensors]
        after, before = (self.rank + 1) % self.count, (self.rank - 1) % self.count
        works: list[Any] = [
            irecv(t, group=self.group, group_src=before, tag=i) for i, t in enumerate(came)
        ]
        for i, tensor in enumerate(self.tensors):
            isend(tensor.contiguous(), group=self.group, group_dst=after, tag=i)
        for work in works:
            work.wait()
        self.tensors = came


def _scores(
    query: Any, key: Any, factor: float, mine: Any, theirs: Any, causal: bool
) -> Any | None:
    """Products of queries and keys, without those that the mask hides; None where it hides all."""
    if causal and int(theirs.min()) > int(mine.max()):
        return None
    found = (query.to(_wide(query)) @ key.to(_wide(key)).transpose(-1, -2)) * factor
    return found.masked_fill(theirs[None, :] > mine[:, None], float("-inf")) if causal else found


def _wide(tensor: Any) -> Any:
    """The dtype that sums are made in."""
    return core.float64 if tensor.dtype is core.float64 else core.float32


class _Ring(Function):
    """Attention block by block: results of blocks are weighted by their sums of exponentials."""

    @staticmethod
    def forward(
        ctx: Any, query: core.Tensor, key: Any, value: Any, causal: bool, factor: float, mesh: DeviceMesh, method: str
    ) -> Any:  # fmt: skip
        length, count = query.shape[-2], mesh.size()
        places = [_places(length * count, count, rank) for rank in range(count)]
        mine = places[mesh.get_local_rank()]
        result = F.zeros((*query.shape[:-1], value.shape[-1]), dtype=_wide(query))
        total = F.full((*query.shape[:-1], 1), float("-inf"), dtype=_wide(query))
        for rank, (k, v) in _Blocks(mesh, (key, value), method).of_each():
            scores = _scores(query, k, factor, mine, places[rank], causal)
            if scores is None:
                continue
            block = F.logsumexp(scores, -1, keepdim=True)
            new = F.logaddexp(total, block)
            result = result * (total - new).exp() + (scores - new).exp() @ v.to(result.dtype)
            total = new
        result = result.to(query.dtype)
        ctx.save_for_backward(query, key, value, result, total)
        ctx.how = causal, factor, mesh, method, places, mine
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        query, key, value, result, total = ctx.saved_tensors
        causal, factor, mesh, method, places, mine = ctx.how
        wide = _wide(query)
        up, q = grad.to(wide), query.to(wide)
        inner = (up * result.to(wide)).sum(-1, keepdim=True)
        to_query = F.zeros_like(q)

        def add(rank: int, k: Any, v: Any, to_key: Any, to_value: Any) -> None:
            scores = _scores(query, k, factor, mine, places[rank], causal)
            if scores is None:
                return
            weights = (scores - total).exp()
            to_value.add_(weights.transpose(-1, -2) @ up)
            change = weights * (up @ v.to(wide).transpose(-1, -2) - inner) * factor
            to_query.add_(change @ k.to(wide))
            to_key.add_(change.transpose(-1, -2) @ q)

        empty = [F.zeros(tuple(t.shape), dtype=wide) for t in (key, value)]
        if method == "alltoall":
            blocks = _Blocks(mesh, (key, value, *empty), method)
            for rank, tensors in blocks.of_each():
                add(rank, *tensors)
            blocks.turn()  # home again
            found = blocks.tensors[2:]
        else:
            parts = [[F.zeros_like(t) for t in empty] for _ in places]
            for rank, tensors in _Blocks(mesh, (key, value), method).of_each():
                add(rank, *tensors, *parts[rank])
            found = [core.empty_like(t) for t in empty]
            for i, target in enumerate(found):
                operations.reduce_scatter(target, [p[i] for p in parts], group=mesh.get_group())
        to_key, to_value = (t.to(key.dtype) for t in found)
        return to_query.to(query.dtype), to_key, to_value, None, None, None, None
