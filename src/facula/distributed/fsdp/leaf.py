"""A parameter in its whole form: memory that comes and goes.

Takes: a shape, a dtype, and the places of modules where the parameter stands. Gives: `Leaf`.
Keeps true: while the memory is away nothing may compute with the tensor; tensors that share its storage, as those
kept for a backward pass, find the same elements when it is back.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from facula import core, nn
from facula.distributed.buffers import give_back
from facula.distributed.fsdp.pages import LEAST, move, span_of

__all__ = ["Leaf", "Place", "gathered_together", "rest"]

#: a module, and the name of a parameter of it
Place = tuple[nn.Module, str]


#: bytes that whole forms between uses may keep in memory at most: to have pages again takes the system longer than to
#: fill them
IDLE = 256 << 20
#: bytes that are left for all else that a step leaves in memory
SLACK = 8 << 20


class _Idle:
    """Whole forms between uses that still have their memory, or the first part of it; who was used longest ago gives
    it to those that are gathered next, or back to the system."""

    def __init__(self) -> None:
        self.bytes = self.largest = 0
        self.lock = threading.RLock()  # threads may stand for ranks; forms die at any time
        self.sizes: dict[weakref.ref[Leaf], int] = {}

    def add(self, leaf: Leaf) -> None:
        """A form is not in use."""
        with self.lock:
            self._keep(weakref.ref(leaf, self._forget), leaf.bytes)
            self.shrink(IDLE)

    def shrink(self, most: int) -> None:
        """Keep at most so many bytes."""
        with self.lock:
            while self.bytes > most:
                oldest = next(iter(self.sizes))
                found = oldest()
                self._forget(oldest)
                if found is not None:
                    give_back(found.tensor)

    def remove(self, leaf: Leaf) -> None:
        """A form is in use: it has pages of others where it lacks its own."""
        with self.lock:
            had = self._forget(weakref.ref(leaf))
            if had >= leaf.bytes or leaf.bytes < LEAST:
                return
            start, size = span_of(leaf.tensor)
            while size - had >= LEAST:
                other = self._richest(size - had)
                if other is None:
                    return
                had += self._take(other, start + had, size - had)

    def _richest(self, wanted: int) -> weakref.ref[Leaf] | None:
        """Who can spare about as much, else who was used longest ago of those with much."""
        first = None
        for key, size in self.sizes.items():
            if size >= LEAST:
                first = first or key
                if wanted <= size < wanted + LEAST:
                    return key
        return first

    def _take(self, key: weakref.ref[Leaf], target: int, most: int) -> int:
        """Move the last of the pages that a form has; gives how many bytes came."""
        other, size = key(), self.sizes[key]
        self._forget(key)
        if other is None:
            return 0
        start, whole = span_of(other.tensor)
        has = min(whole, size)
        count = min(has, most)
        if not move(start + has - count, target, count):
            give_back(other.tensor)
            return 0
        if has - count >= LEAST:
            self._keep(key, has - count)
        elif has > count:
            give_back(other.tensor)
        return count

    def _keep(self, key: weakref.ref[Leaf], size: int) -> None:
        self.sizes[key] = size
        self.bytes += size

    def _forget(self, key: weakref.ref[Leaf]) -> int:
        with self.lock:
            size = self.sizes.pop(key, 0)
            self.bytes -= size
            return size


_IDLE = _Idle()


def gathered_together(leaves: Sequence[Leaf]) -> None:
    """Tell that these are whole at the same time.

    Args:
        leaves: a unit's.
    """
    _IDLE.largest = max(_IDLE.largest, sum(leaf.bytes for leaf in leaves))


def rest() -> None:
    """A backward pass is over: until the next step this process keeps the memory of its pieces, and less than that of
    the largest unit; what else was freed goes back to the system."""
    most = max(_IDLE.largest // 2, _IDLE.largest - SLACK)
    _IDLE.shrink(min(IDLE, most))
    if core.memory_stats()["cached"] > max(most - _IDLE.bytes, SLACK // 2):
        core.empty_cache()


class Leaf:
    """The whole form of one parameter."""

    def __init__(
        self, places: list[Place], shape: Sequence[int], dtype: core.dtype, requires_grad: bool,
        wrap: Callable[[Any], Any] = lambda tensor: tensor, device: core.device | str | int = "cpu",
    ) -> None:  # fmt: skip
        self.places, self.shape, self.dtype = places, tuple(shape), dtype
        self.tensor = core.empty(self.shape, dtype=dtype, device=device)
        self.bytes = self.tensor.numel() * self.tensor.element_size()
        #: the elements, to be written: that is no change that a backward pass would refuse
        self.flat = self.tensor.data.view(-1)
        self.parameter = nn.Parameter(wrap(self.tensor), requires_grad)
        if not self.tensor.is_meta and self.bytes:
            give_back(self.tensor)  # what was here before
            self.tensor.untyped_storage().resize_(0)

    def take(self) -> Any:
        """Memory for the elements; gives the tensor, to be written at once."""
        storage = self.tensor.untyped_storage()
        if not self.tensor.is_meta and storage.nbytes() != self.bytes:
            storage.resize_(self.bytes)
            _IDLE.remove(self)
        return self.tensor

    def free(self) -> None:
        """Give the memory back."""
        storage = self.tensor.untyped_storage()
        if not self.tensor.is_meta and storage.nbytes():
            storage.resize_(0)
            _IDLE.add(self)

    def install(self, parameter: Any) -> None:
        """Put a parameter where this one stands."""
        for module, name in self.places:
            module._parameters[name] = parameter
