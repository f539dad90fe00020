"""Tensors that are sent as if they lay behind each other in memory, and the two collectives that take them.

Takes: dense tensors of one dimension. Gives: `Strip`, `gather_strips`, `scatter_strips`.
Keeps true: nothing is copied to lie behind each other where an engine takes strips (`Exchange.strips`); elsewhere
ranks send what they would send of plain tensors; elements are converted where dtypes differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from facula import core
from facula.distributed.engine import Exchange
from facula.distributed.operations import (
    _started,
    all_gather_into_tensor,
    reduce_scatter_tensor,
)
from facula.distributed.process_group import ProcessGroup
from facula.distributed.types import Work

__all__ = ["Part", "Strip", "gather_strips", "scatter_strips"]

Tensor = core.Tensor
#: a tensor, or None: zeros, or what nobody wants; and how many elements it has
Part = tuple[Tensor | None, int]


class Strip:
    """Tensors behind each other.

    Example:
        >>> from facula.distributed.strips import Strip
        >>> strip = Strip([(facula.tensor([1.0, 2.0]), 2), (None, 1), (facula.tensor([3.0]), 1)], facula.float32)
        >>> strip[1:4].joined()
        tensor([2., 0., 3.])
    """

    def __init__(self, parts: Sequence[Part], dtype: core.dtype) -> None:
        """Take tensors.

        Args:
            parts: the tensors, each with its number of elements; None stands for zeros, and takes no elements.
            dtype: of what is sent.
        """
        self.parts, self.dtype = [part for part in parts if part[1]], dtype
        self._count = sum(count for _, count in self.parts)

    def numel(self) -> int:
        """How many elements there are."""
        return self._count

    def __getitem__(self, where: slice) -> Strip:
        start, stop, _ = where.indices(self._count)
        found: list[Part] = []
        at = 0
        for tensor, count in self.parts:
            low, high = max(start - at, 0), min(stop - at, count)
            if low < high:
                whole = tensor is None or high - low == count
                found.append((tensor if whole else tensor[low:high], high - low))  # type: ignore[index]
            at += count
            if at >= stop:
                break
        return Strip(found, self.dtype)

    def copy_to(self, target: Tensor) -> None:
        """Write the elements to a tensor of as many."""
        at = 0
        for tensor, count in self.parts:
            there = target[at : at + count]
            if tensor is None:
                there.zero_()
            else:
                there.copy_(tensor)
            at += count

    def copy_(self, source: Tensor | Strip) -> None:
        """Take the elements of a tensor, or of another strip, of as many."""
        if isinstance(source, Strip):
            for mine, theirs in _beside(self, source):
                if mine is None:
                    continue
                if theirs is None:
                    mine.zero_()
                else:
                    mine.copy_(theirs)
            return
        at = 0
        for tensor, count in self.parts:
            if tensor is not None:
                tensor.copy_(source[at : at + count])
            at += count

    def joined(self) -> Tensor:
        """The elements in a tensor of their own."""
        made = core.empty((self._count,), dtype=self.dtype)
        self.copy_to(made)
        return made


def _beside(one: Strip, other: Strip) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Pieces of two strips of one length that lie beside each other."""
    theirs = iter(other.parts)
    there, left = None, 0
    for here, count in one.parts:
        at = 0
        while at < count:
            if not left:
                there, left = next(theirs)
            step = min(count - at, left)
            yield _first(here, at, step, count), _first(there, 0, step, left)
            there = None if there is None else there[step:]
            at, left = at + step, left - step


def _first(tensor: Tensor | None, at: int, step: int, count: int) -> Tensor | None:
    return tensor if tensor is None or step == count else tensor[at : at + step]


def _stands_for(count: int, like: Strip) -> Tensor:
    """A tensor of so many elements, which has memory for one: what is told of a collective is its size."""
    simulated = any(tensor is not None and tensor.is_meta for tensor, _ in like.parts)
    return core.empty((1,), dtype=like.dtype, device="meta" if simulated else "cpu").expand(count)


def gather_strips(
    targets: Sequence[Strip], mine: Strip, group: ProcessGroup, async_op: bool, about: str = ""
) -> Work | None:
    """Write rank r's strip to target r: `all_gather_into_tensor` of what lies in several tensors.

    Args:
        targets: one for each rank, of one length.
        mine: this rank's.
        group: the ranks.
        async_op: whether a `Work` is given at once, to be waited for.
        about: what must be the same on all ranks, in words.

    Example:
        >>> from facula.distributed.strips import Strip, gather_strips
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> a, b, x = facula.empty(1), facula.empty(2), facula.arange(3.0)
        >>> group = dist.group.WORLD
        >>> gather_strips([Strip([(a, 1), (b, 2)], x.dtype)], Strip([(x, 3)], x.dtype), group, False)
        >>> a, b
        (tensor([0.]), tensor([1., 2.]))
        >>> dist.destroy_process_group()
    """
    if group.by_program:
        whole = core.empty((mine.numel() * group.size(),), dtype=mine.dtype)
        all_gather_into_tensor(whole, mine.joined(), group)
        _spread(targets, whole)
        return None

    def run(x: Exchange) -> None:
        x.about = about
        if x.strips:
            x.all_gather(targets, mine)  # type: ignore[arg-type]
            return
        flat = mine.joined()
        whole = core.empty((flat.numel() * x.size,), dtype=flat.dtype)
        x.all_gather(list(whole.view(x.size, -1).unbind(0)), flat)
        _spread(targets, whole)

    told = _stands_for(mine.numel() * group.size(), mine)
    return _started(group, "all_gather_into_tensor", run, [told], async_op)


def _spread(targets: Sequence[Strip], whole: Tensor) -> None:
    size = targets[0].numel()
    for number, target in enumerate(targets):
        target.copy_(whole[number * size : (number + 1) * size])


def scatter_strips(
    out: Tensor, chunks: Sequence[Strip], op: Any, group: ProcessGroup, async_op: bool
) -> Work | None:
    """Combine the ranks' strips r for rank r: `reduce_scatter_tensor` of what lies in several tensors.

    Args:
        out: this rank's part, written to.
        chunks: one for each rank, of one length.
        op: a `ReduceOp`: how strips become one.
        group: the ranks.
        async_op: whether a `Work` is given at once, to be waited for.

    Example:
        >>> from facula.distributed.strips import Strip, scatter_strips
        >>> dist = facula.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> out, x = facula.empty(3), facula.ones(2)
        >>> scatter_strips(out, [Strip([(x, 2), (None, 1)], x.dtype)], dist.ReduceOp.SUM, dist.group.WORLD, False)
        >>> out
        tensor([1., 1., 0.])
        >>> dist.destroy_process_group()
    """
    if group.by_program:
        flat = Strip([part for chunk in chunks for part in chunk.parts], out.dtype).joined()
        return reduce_scatter_tensor(out, flat, op, group, async_op)

    def run(x: Exchange) -> None:
        dense: Callable[[Strip], Any] = (lambda one: one) if x.strips else Strip.joined
        x.reduce_scatter(out, [dense(chunk) for chunk in chunks], op)

    return _started(group, "reduce_scatter", run, [out], async_op)
