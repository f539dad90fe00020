"""Algorithms of collectives, on messages between numbered ranks.

Takes: `Messages` (this rank's number, `send`, `receive`) and dense tensors of one dimension.
Gives: functions that every rank runs at the same time.
Keeps true: all ranks get the same bits; each rank sends no more than twice what it was given in a
reduction (rings), and what is small goes in few steps (trees).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from facula import core
from facula.distributed.buffers import fill, tensor_of, view_of
from facula.ops.table.registry import F

Tensor = core.Tensor
#: up to this many bytes, the number of steps costs more than what is sent
_SMALL = 16384


class Messages(Protocol):
    """One collective among some ranks, as this rank sees it."""

    rank: int
    size: int

    def send(self, peer: int, step: int, payload: object) -> None:
        """Send bytes."""

    def receive(self, peer: int, step: int, size: int | None) -> Any:
        """Get bytes; of this number, where it is known."""


def _bounds(count: int, parts: int) -> list[tuple[int, int]]:
    """Where parts of nearly equal size begin and end."""
    edges = [count * i // parts for i in range(parts + 1)]
    return list(zip(edges, edges[1:], strict=False))


def all_reduce(x: Messages, flat: Tensor, combine: Any) -> Tensor:
    """The combination of all ranks' tensors, on each rank."""
    if x.size == 1:
        return flat
    if flat.numel() * flat.element_size() <= _SMALL or flat.numel() < x.size:
        return _reduce_to_first(x, flat, combine, broadcast_back=True)
    chunks = [flat[a:b] for a, b in _bounds(flat.numel(), x.size)]
    chunks = _ring_reduce(x, chunks, combine)
    _ring_gather(x, chunks, 2 * x.size)
    return F.cat(chunks)


def _ring_reduce(x: Messages, chunks: list[Tensor], combine: Any) -> list[Tensor]:
    """After it, rank r has the whole combination of chunk r."""
    right, left = (x.rank + 1) % x.size, (x.rank - 1) % x.size
    for step in range(x.size - 1):
        out, into = (x.rank - 1 - step) % x.size, (x.rank - 2 - step) % x.size
        x.send(right, step, view_of(chunks[out].contiguous()))
        mine = chunks[into]
        got = x.receive(left, step, mine.numel() * mine.element_size())
        chunks[into] = combine(tensor_of(got, mine), mine)
    return chunks


def _ring_gather(x: Messages, chunks: list[Tensor], first: int) -> None:
    """Rank r has chunk r; after it, all chunks."""
    right, left = (x.rank + 1) % x.size, (x.rank - 1) % x.size
    for step in range(x.size - 1):
        out, into = (x.rank - step) % x.size, (x.rank - 1 - step) % x.size
        x.send(right, first + step, view_of(chunks[out].contiguous()))
        like = chunks[into]
        got = x.receive(left, first + step, like.numel() * like.element_size())
        chunks[into] = tensor_of(got, like)


def _reduce_to_first(x: Messages, flat: Tensor, combine: Any, broadcast_back: bool) -> Tensor:
    """A binomial tree up to rank 0, and back."""
    result = reduce(x, flat, combine, 0)
    return broadcast(x, result, 0, first=64) if broadcast_back else result


def reduce(x: Messages, flat: Tensor, combine: Any, root: int) -> Tensor:
    """The combination of all ranks' tensors, on the root; elsewhere, what was given."""
    place, bit, total = (x.rank - root) % x.size, 1, flat
    while bit < x.size:
        if place & bit:
            x.send((place - bit + root) % x.size, bit.bit_length(), view_of(total.contiguous()))
            return flat
        if place + bit < x.size:
            size = flat.numel() * flat.element_size()
            got = x.receive((place + bit + root) % x.size, bit.bit_length(), size)
            total = combine(total, tensor_of(got, flat))
        bit *= 2
    return total


def broadcast(x: Messages, flat: Tensor, root: int, first: int = 0) -> Tensor:
    """The root's tensor, on each rank: a binomial tree."""
    place, bit = (x.rank - root) % x.size, 1
    while bit < x.size:
        if place & bit:
            size = flat.numel() * flat.element_size()
            got = x.receive((place - bit + root) % x.size, first + bit.bit_length(), size)
            flat = tensor_of(got, flat)
            break
        bit *= 2
    bit //= 2
    while bit:
        if place + bit < x.size:
            x.send(
                (place + bit + root) % x.size, first + bit.bit_length(), view_of(flat.contiguous())
            )
        bit //= 2
    return flat


def all_gather(x: Messages, flat: Tensor, likes: Sequence[Tensor]) -> list[Tensor]:
    """Each rank's tensor; `likes[r]` has the size of rank r's."""
    chunks = list(likes)
    chunks[x.rank] = flat
    _ring_gather(x, chunks, 0)
    return chunks


def reduce_scatter(x: Messages, chunks: Sequence[Tensor], combine: Any) -> Tensor:
    """The combination of all ranks' chunk number `rank`."""
    return _ring_reduce(x, list(chunks), combine)[x.rank]


def all_to_all(x: Messages, chunks: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Chunk r goes to rank r; what comes from rank r is written to target r."""
    for shift in range(1, x.size):
        peer = (x.rank + shift) % x.size
        x.send(peer, 0, view_of(chunks[peer]))
    fill(targets[x.rank], view_of(chunks[x.rank]))
    for shift in range(1, x.size):
        peer = (x.rank - shift) % x.size
        target = targets[peer]
        fill(target, x.receive(peer, 0, target.numel() * target.element_size()))


def gather(x: Messages, flat: Tensor, targets: Sequence[Tensor], root: int) -> None:
    """Each rank's tensor, written to the root's targets."""
    if x.rank != root:
        x.send(root, 0, view_of(flat))
        return
    for peer, target in enumerate(targets):
        size = target.numel() * target.element_size()
        fill(target, view_of(flat) if peer == root else x.receive(peer, 0, size))


def scatter(x: Messages, target: Tensor, chunks: Sequence[Tensor], root: int) -> None:
    """The root's chunk r, written to the target of rank r."""
    if x.rank == root:
        for peer, chunk in enumerate(chunks):
            if peer != root:
                x.send(peer, 0, view_of(chunk))
        fill(target, view_of(chunks[root]))
    else:
        fill(target, x.receive(root, 0, target.numel() * target.element_size()))


def barrier(x: Messages) -> None:
    """Nobody leaves before everybody has entered: dissemination, log2(size) steps."""
    distance, step = 1, 0
    while distance < x.size:
        x.send((x.rank + distance) % x.size, step, b"")
        x.receive((x.rank - distance) % x.size, step, 0)
        distance, step = 2 * distance, step + 1
