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
from facula.distributed.fsdp.leaf import Leaf
from facula.distributed.operations import all_reduce, gathered_into, reduce_scatter_tensor
from facula.distributed.types import ReduceOp, Work

__all__ = ["Unit"]

Tensor = core.Tensor


class _Pending:
    """Gradients under way."""

    def __init__(self, work: Work | None, out: Tensor, whole: Any, leaves: list[Leaf]) -> None:
        self.work, self.out, self.whole, self.leaves = work, out, whole, leaves


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
        self._gathering: tuple[Work | None, Tensor, Tensor] | None = None
        self._reducing: _Pending | None = None
        self._unsummed: Tensor | None = None

    # ---------------------------------------------------------------- what a piece is

    def packed(self) -> Tensor:
        """This rank's pieces of all parameters behind each other, in the dtype of computation."""
        raise NotImplementedError

    def unpack(self, gathered: Tensor) -> None:
        """Fill the leaves from all ranks' pieces."""
        raise NotImplementedError

    def packed_gradients(self, leaves: list[Leaf], dtype: core.dtype) -> Tensor:
        """For each rank its pieces of the gradients behind each other."""
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
        if self.whole or self._gathering is not None or not self.leaves:
            return
        self.take_replaced()
        mine = self.packed()
        if self.count == 1:
            self._gathering = None, mine, mine
            return
        whole = core.empty((mine.numel() * self.count,), dtype=mine.dtype, device=mine.device)
        work = gathered_into(whole, mine, self.shard_group, True, self._about)
        self._gathering = work, whole, mine

    def unshard(self) -> None:
        """Have whole parameters in the modules."""
        if self.whole and (self.take_replaced() or self.versions() != self._versions):
            self.reshard()  # somebody, such as an optimizer, wrote to the pieces meanwhile
        if self.whole or not self.leaves:
            return
        self.start_unshard()
        assert self._gathering is not None
        work, gathered, _ = self._gathering
        if work is not None:
            work.wait()
        self._gathering = None
        for leaf in self.leaves:
            leaf.take()
        self.unpack(gathered)
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
            packed = self.packed_gradients(leaves, dtype)
            flags = core.tensor(used, dtype=dtype, device=packed.device)
            for leaf in leaves:
                leaf.parameter.grad = None
            self._reducing = self._reduced(packed, flags, leaves)
        finally:
            core.set_grad_enabled(recording)

    def _reduced(self, packed: Tensor, flags: Tensor, leaves: list[Leaf]) -> _Pending:
        """Start the reduction; each rank's part ends with how many ranks used each parameter."""
        size = packed.numel() // self.count
        packed.div_(self._total())
        shape = (self.count, size + flags.numel())
        whole = core.empty(shape, dtype=packed.dtype, device=packed.device)
        whole[:, :size].copy_(packed.view(self.count, size))
        whole[:, size:].copy_(flags)
        flat = whole.view(-1)
        if self.count == 1:
            return _Pending(None, flat, flat, leaves)
        out = core.empty((whole.shape[1],), dtype=packed.dtype, device=packed.device)
        work = reduce_scatter_tensor(out, flat, ReduceOp.SUM, self.shard_group, async_op=True)
        return _Pending(work, out, flat, leaves)

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
