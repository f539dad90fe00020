"""Units whose piece is a part of all parameters behind each other.

Takes: parameters, and the ranks among which they are cut. Gives: `FlatUnit`.
Keeps true: ranks have parts of one length, the last of which ends with zeros; either one flat parameter is shown,
or each parameter with what this rank has of it.
"""

from __future__ import annotations

from typing import Any

from facula import core, nn
from facula.distributed.fsdp.leaf import Leaf, Place
from facula.distributed.fsdp.unit import Unit, accumulate
from facula.distributed.operations import all_gather_into_tensor
from facula.distributed.strips import Part, Strip
from facula.ops.table.registry import F

__all__ = ["FlatUnit"]

Tensor = core.Tensor


class FlatUnit(Unit):
    """Parameters that are cut together."""

    def __init__(
        self, holder: nn.Module, places: list[list[Place]], shard_group: Any, replicate_group: Any,
        name: str, dtype: core.dtype, original: bool,
    ) -> None:  # fmt: skip
        """Cut parameters.

        Args:
            holder: the module that shows the flat parameter.
            original: whether each parameter is shown instead.
        """
        given = [p[0][0]._parameters[p[0][1]] for p in places]
        self.own = given[0].dtype if given else core.float32
        leaves = [
            Leaf(p, v.shape, dtype or v.dtype, v.requires_grad)
            for p, v in zip(places, given, strict=True)
        ]
        super().__init__(leaves, shard_group, replicate_group, name)
        self.holder, self.original = holder, original
        sizes = [v.numel() for v in given]
        self.starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.total = sum(sizes)
        self.size = -(-self.total // self.count)
        whole = F.zeros((self.size * self.count,), dtype=self.own)
        for start, value in zip(self.starts, given, strict=True):
            whole[start : start + value.numel()].copy_(value.detach().reshape(-1))
        mine = whole[self.rank * self.size : (self.rank + 1) * self.size].clone()
        self.flat = nn.Parameter(mine, any(v.requires_grad for v in given))
        self.shown = [
            nn.Parameter(self._part(self.flat.detach(), leaf), leaf.parameter.requires_grad)
            for leaf in leaves
        ]
        if leaves:
            self.install_pieces()

    def _range(self, leaf: Leaf) -> tuple[int, int]:
        """Where a parameter lies in this rank's part; an empty range where it does not."""
        start = self.starts[self.leaves.index(leaf)] - self.rank * self.size
        low = min(max(start, 0), self.size)
        return low, min(max(start + leaf.tensor.numel(), low), self.size)

    def _part(self, flat: Tensor, leaf: Leaf) -> Tensor:
        low, high = self._range(leaf)
        return flat[low:high]

    def versions(self) -> list[int]:
        """How often this rank's part was written to."""
        return [self.flat._version, *(p._version for p in self.shown)]

    def mine(self) -> Strip:
        """This rank's part."""
        return Strip([(self.flat.detach(), self.size)], self.leaves[0].dtype)

    def places(self) -> list[Strip]:
        """Where each rank's part goes in the whole forms."""
        flats = [leaf.flat for leaf in self.leaves]
        return self._cut(flats, self.leaves[0].dtype)

    def _cut(self, flats: list[Tensor | None], dtype: core.dtype) -> list[Strip]:
        """For each rank its part of tensors like the parameters, behind each other."""
        parts: list[Part] = [
            (flat, leaf.tensor.numel()) for flat, leaf in zip(flats, self.leaves, strict=True)
        ]
        whole = Strip([*parts, (None, self.size * self.count - self.total)], dtype)
        return [whole[rank * self.size : (rank + 1) * self.size] for rank in range(self.count)]

    def uninstall_pieces(self) -> None:
        """Whole parameters are shown from now on."""
        if not self.original:
            self.holder._parameters.pop("_flat_param", None)

    def install_pieces(self) -> None:
        """Show this rank's part."""
        for leaf, shown in zip(self.leaves, self.shown, strict=True):
            if self.original:
                leaf.install(shown)
                continue
            for module, name in leaf.places:
                module._parameters.pop(name, None)
        if not self.original:
            self.holder._parameters["_flat_param"] = self.flat

    def take_again(self) -> None:
        """The modules have other parameters now, as after `.to()`: take these."""
        if not self.original:
            self.flat = self.holder._parameters["_flat_param"]
            return
        shown = [leaf.places[0][0]._parameters[leaf.places[0][1]] for leaf in self.leaves]
        flat = F.zeros((self.size,), dtype=shown[0].dtype)
        for leaf, value in zip(self.leaves, shown, strict=True):
            self._part(flat, leaf).copy_(value.detach())
        self.flat = nn.Parameter(flat, self.flat.requires_grad)
        self.shown = shown
        for leaf, value in zip(self.leaves, shown, strict=True):
            value.data = self._part(flat, leaf)

    # ---------------------------------------------------------------- gradients

    def gradients(self, leaves: list[Leaf], dtype: core.dtype) -> list[list[Part]]:
        """For each rank its part of the gradients."""
        grads = [leaf.parameter.grad for leaf in self.leaves]
        flats = [None if grad is None else grad.detach().reshape(-1) for grad in grads]
        return [strip.parts for strip in self._cut(flats, dtype)]

    def give(self, leaves: list[Leaf], pieces: Tensor, used: list[bool]) -> None:
        """Add this rank's part to its gradients."""
        if not any(used):
            return
        pieces = pieces.to(self.own)
        if not self.original:
            accumulate(self.flat, pieces)
            return
        for leaf, is_used in zip(leaves, used, strict=True):
            if is_used:
                accumulate(self.shown[self.leaves.index(leaf)], self._part(pieces, leaf))

    def local_gradient(self) -> Tensor | None:
        """This rank's part of the gradients."""
        if not self.original:
            return self.flat.grad
        grads = [(leaf, p.grad) for leaf, p in zip(self.leaves, self.shown, strict=True)]
        if all(g is None for _, g in grads):
            return None
        made = F.zeros((self.size,), dtype=self.own)
        for leaf, grad in grads:
            if grad is not None:
                self._part(made, leaf).copy_(grad)
        return made

    # ---------------------------------------------------------------- whole forms, and back

    def write_back(self) -> None:
        """Take what was written to the whole parameters."""
        mine = self.flat.detach()
        for leaf in self.leaves:
            low, high = self._range(leaf)
            if low < high:
                start = low + self.rank * self.size - self.starts[self.leaves.index(leaf)]
                flat = leaf.parameter.detach().reshape(-1)
                mine[low:high].copy_(flat[start : start + high - low])

    def whole_of(self, part: Tensor) -> list[Tensor]:
        """What this rank has of a vector like the parameters, gathered: a tensor for each parameter."""
        if self.count > 1:
            whole = core.empty((part.numel() * self.count,), dtype=part.dtype)
            all_gather_into_tensor(whole, part, self.shard_group)
            part = whole
        return [
            part[start : start + leaf.tensor.numel()].view(leaf.shape).clone()
            for start, leaf in zip(self.starts, self.leaves, strict=True)
        ]

    def part_of(self, values: list[Tensor]) -> Tensor:
        """This rank's part of a tensor for each parameter."""
        whole = F.zeros((self.size * self.count,), dtype=values[0].dtype)
        for start, value in zip(self.starts, values, strict=True):
            whole[start : start + value.numel()].copy_(value.detach().reshape(-1))
        return whole[self.rank * self.size : (self.rank + 1) * self.size].clone()
