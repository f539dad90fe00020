"""Seeds of a pass: those that all readers share, and those of one reader.

Takes a number. Gives further ones. Keeps true: they follow from the number and from the reader alone.
"""

from __future__ import annotations

import random

from facula.data.datapipes.utils.common import drawn_seed

__all__ = ["SeedGenerator"]


class SeedGenerator:
    """Two rows of seeds out of one: a shared one, and one of this reader."""

    def __init__(self, seed: int | None = None, path: tuple[int, ...] = ()) -> None:
        self._path = path
        self.seed(drawn_seed() if seed is None else seed)

    #: what both rows follow from
    number: int

    def seed(self, seed: int) -> None:
        """Begin both rows anew."""
        self.number = seed
        self._shared = random.Random(f"shared {seed}")
        self._own = random.Random(f"own {seed} {self._path}")

    def generate_shared_seed(self) -> int:
        """The next seed that all readers have."""
        return self._shared.getrandbits(63)

    def generate_seed(self) -> int:
        """The next seed of this reader."""
        return self._own.getrandbits(63)

    def spawn(self, worker_id: int, inplace: bool = False) -> SeedGenerator:
        """The rows of one of the readers below this one; `inplace` changes this object."""
        path = (*self._path, worker_id)
        if not inplace:
            return SeedGenerator(self.number, path)
        self._path = path
        self.seed(self.number)
        return self
