"""Parameters that are gathered together and whose gradients are reduced together.

Takes: whole forms of parameters (`Leaf`), and among which ranks they are cut. Gives: `Unit`, whose subclasses
say what a piece is: of each parameter (`fully_shard`), or of all behind each other (`FullyShardedDataParallel`).
Keeps true: between two steps this rank has its pieces only; a gradient is the mean of all ranks', each rank has
its pieces of it; a parameter that no rank used gets none.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.distributed.fsdp.leaf import Leaf, gathered_together
from facula.distributed.operations import all_reduce
from facula.distributed.strips import Part, Strip, gather_strips, scatter_strips
from facula.distributed.types import ReduceOp, Work

__all__ = ["Unit"]

Tensor = core.Tensor


class _Pending:
    """Gradients under way."""

    def __init__(self, work: Work | None, out: Tensor, rest: float, leaves: list[Leaf]) -> None:
        self.work, self.out, self.leaves = work, out, leaves
        #: what `out` is still to be divided by
        self.rest = rest


class Unit:
    """Some parameters of a module."""

    def __init__(
        self, leaves: Sequence[Leaf], shard_group: Any, replicate_group: Any, name: str
    ) -> None:
        """Take parameters that are whole no more.

        Args:
            shard_group: the ranks that have pieces of each other's; None: each rank has all.
            replicate_group: the ranks that have the same pieces; None: nobody has.
        """
        self.leaves, self.name = list(leaves), name
        gathered_together(self.leaves)
        self.shard_group, self.replicate_group = shard_group, replicate_group
        self.count = shard_group.size() if shard_group is not None else 1
        self.rank = shard_group.rank() if shard_group is not None else 0
        self.whole = False
        self.reduce_dtype: Any = None
        #: switches that users have
        self.syncs, self.all_reduces = True, True
        self.divisor: float | None = None
        self.comm_hook: Any = None
        self._versions: list[int] = []
        #: a gathering, and how often each piece had been written to when it began
        self._gathering: tuple[Work | None, list[int]] | None = None
        self._reducing: _Pending | None = None
        self._unsummed: Tensor | None = None

    # ---------------------------------------------------------------- what a piece is

    def mine(self) -> Strip:
        """This rank's pieces of all parameters."""
        raise NotImplementedError

    def places(self) -> list[Strip]:
        """Where each rank's pieces go in the whole forms."""
        raise NotImplementedError

    def put_in_place(self) -> None:
        """All pieces have come to their places."""

    def gradients(self, leaves: list[Leaf], dtype: core.dtype) -> list[list[Part]]:
        """For each rank its pieces of the gradients, None where there are none."""
        raise NotImplementedError

    def give(self, leaves: list[Leaf], pieces: Tensor, used: list[bool]) -> None:
        """Add reduced pieces to the gradients of this rank's."""
        raise NotImplementedError

    def install_pieces(self) -> None:
        """Have the modules show this rank's pieces."""
        raise NotImplementedError

    def uninstall_pieces(self) -> None:
        """Whole parameters are about to be shown."""

    def versions(self) -> list[int]:
        """How often each of this rank's pieces was written to."""
        raise NotImplementedError

    def take_replaced(self) -> bool:
        """Take parameters that somebody put in the place of pieces; gives whether there were any."""
        return False

    # ---------------------------------------------------------------- gathering

    @functools.cached_property
    def _about(self) -> str:
        """The parameters in words: pieces of others may be of the same size."""
        text = " ".join(f"{leaf.places[0][1]} {tuple(leaf.shape)}" for leaf in self.leaves)
        return f"of {text[:80]} ({zlib.crc32(text.encode()):08x})"

    def start_unshard(self) -> None:
        """Begin to gather the parameters."""
        if not self.whole and self._gathering is None and self.leaves:
            self._gather(async_op=True)

    def _gather(self, async_op: bool) -> None:
        self.take_replaced()
        versions, work = self.versions(), None
        recording = core.set_grad_enabled(False)
        try:
            mine = self.mine()
            for leaf in self.leaves:
                leaf.take()
            if not self.leaves[0].tensor.is_meta and self.count == 1:
                self.places()[0].copy_(mine)
            elif self.count > 1:
                work = gather_strips(self.places(), mine, self.shard_group, async_op, self._about)
        finally:
            core.set_grad_enabled(recording)
        self._gathering = work, versions

    def unshard(self) -> None:
        """Have whole parameters in the modules."""
        if self.whole and (self.take_replaced() or self.versions() != self._versions):
            self.reshard()  # somebody, such as an optimizer, wrote to the pieces meanwhile
        if self.whole or not self.leaves:
            return
        if self._gathering is not None:
            work, versions = self._gathering
            if work is not None:
                work.wait()
            if versions != self.versions():
                self._gathering = None
        if self._gathering is None:
            self._gather(async_op=False)
        self._gathering = None
        recording = core.set_grad_enabled(False)
        try:
            self.put_in_place()
        finally:
            core.set_grad_enabled(recording)
        self.uninstall_pieces()
        for leaf in self.leaves:
            leaf.install(leaf.parameter)
        self.whole, self._versions = True, self.versions()

    def reshard(self) -> None:
        """Keep this rank's pieces only."""
        if not self.whole:
            return
        self.install_pieces()
        for leaf in self.leaves:
            leaf.free()
        self.whole = False

    # ---------------------------------------------------------------- reducing

    def trained(self) -> list[Leaf]:
        """The parameters that get gradients."""
        return [leaf for leaf in self.leaves if leaf.parameter.requires_grad]

    def start_reduce(self) -> None:
        """Begin to reduce the gradients of the whole parameters."""
        leaves = self.trained()
        if not leaves or not self.syncs:
            return
        self.finish_reduce()
        recording = core.set_grad_enabled(False)
        try:
            used = [float(leaf.parameter.grad is not None) for leaf in leaves]
            dtype = self.reduce_dtype or leaves[0].dtype
            pending = self._reduced(self.gradients(leaves, dtype), used, leaves, dtype)
            for leaf in leaves:
                leaf.parameter.grad = None
            self._reducing = pending
        finally:
            core.set_grad_enabled(recording)

    def _reduced(
        self, pieces: list[list[Part]], used: list[float], leaves: list[Leaf], dtype: core.dtype
    ) -> _Pending:
        """Start the reduction; each rank's part ends with how many ranks used each parameter."""
        device, total = self.leaves[0].tensor.device, self._total()
        flags, rest = core.tensor(used, dtype=dtype, device=device), total
        op = ReduceOp.SUM
        if dtype is core.float16:  # sums of what was not divided would leave its range
            pieces = [
                [(p if p is None else p.to(dtype) / total, n) for p, n in one] for one in pieces
            ]
            rest = 1.0
        elif total == self.count:
            op, rest = ReduceOp.AVG, 1.0
        chunks = [Strip([*one, (flags, len(used))], dtype) for one in pieces]
        out = core.empty((chunks[0].numel(),), dtype=dtype, device=device)
        if self.count > 1:
            work = scatter_strips(out, chunks, op, self.shard_group, True)
            return _Pending(work, out, rest, leaves)
        if not out.is_meta:
            chunks[0].copy_to(out)
        return _Pending(None, out, rest, leaves)

    def _total(self) -> float:
        if self.divisor is not None:
            return self.divisor
        copies = self.replicate_group.size() if self.replicate_group is not None else 1
        return float(self.count * copies)

    def finish_reduce(self) -> None:
        """Give this rank's pieces their gradients."""
        pending, self._reducing = self._reducing, None
        if pending is None:
            return
        if pending.work is not None:
            pending.work.wait()
        out = pending.out
        recording = core.set_grad_enabled(False)
        try:
            if pending.rest != 1.0:
                out.div_(pending.rest)
            if self.replicate_group is not None:
                if self._unsummed is not None:
                    out = out.add_(self._unsummed)
                    self._unsummed = None
                if not self.all_reduces:
                    self._unsummed = out
                    return
                all_reduce(out, ReduceOp.SUM, self.replicate_group)
            size = out.numel() - len(pending.leaves)
            flags = [1.0] * len(pending.leaves) if out.is_meta else out[size:].tolist()
            used = [bool(flag) for flag in flags]
            pieces = out[:size]
            if self.comm_hook is not None:
                self.comm_hook(pieces)
            self.give(pending.leaves, pieces, used)
        finally:
            core.set_grad_enabled(recording)


def accumulate(parameter: Any, gradient: Any) -> None:
    """Add a gradient to that of a parameter."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad = parameter.grad + gradient
