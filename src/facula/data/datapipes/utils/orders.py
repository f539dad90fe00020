"""What steps that shuffle have in common: whether they do, and out of which seed.

Takes nothing. Gives `SeededOrder`. Keeps true: a seed that is set holds for the next pass alone, as
PyTorch's; without one, each pass draws its seed from the default generator.
"""

from __future__ import annotations

import random
from typing import Self

from facula.data.datapipes.utils.common import drawn_seed

__all__ = ["SeededOrder"]


class SeededOrder:
    """A mixin of pipes: `set_shuffle`, `set_seed`, and a generator that a new pass seeds."""

    def _begin_order(self) -> None:
        """What a constructor calls: shuffling is on, no seed is set."""
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Whether the order is random."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next order."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Begin a pass; a seed that is set waits while shuffling is off."""
        if self._enabled:
            self._rng.seed(drawn_seed() if self._seed is None else self._seed)
            self._seed = None
