"""Points that fill the unit cube evenly: Sobol sequences [Sobol 1967], with the direction numbers of Joe & Kuo (2008).

Takes: a number of dimensions, at most 21,201; a seed for scrambled points. Gives: `SobolEngine`.
Keeps true: the points are those that PyTorch draws, also scrambled ones of the same seed (under PyTorch's
stream of random
numbers); the first is the origin, or the shift. Coordinates have 30 bits.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

from .directions import BITS, DIMENSIONS, direction_numbers

__all__ = ["SobolEngine"]


def _parity(x: core.Tensor) -> Any:
    """Whether the number of set bits is odd, of each element of 30 bits."""
    for shift in (16, 8, 4, 2, 1):
        x = x ^ (x >> shift)
    return x & 1


class SobolEngine:
    """Draws the points of a Sobol sequence, plain or scrambled [Owen 1998] by random triangular matrices and a
    shift.
    """

    MAXBIT = BITS
    MAXDIM = DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            fail(
                ValueError,
                "SobolEngine",
                "a dimension in the range [1, 21201] was required (Supported range of dimensionality "
                f"for SobolEngine is [1, {self.MAXDIM}])",
                dimension,
                hint="draw further coordinates from rand()",
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        columns = direction_numbers(dimension)
        self.sobolstate = core.tensor(columns, dtype=core.int64, device="cpu")
        self.shift = F.zeros(dimension, dtype=core.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = core.Generator()
            generator.manual_seed(self.seed)
        bits = self.MAXBIT
        place = 2 ** F.arange(bits, device="cpu")
        coins = F.randint(2, (self.dimension, bits), device="cpu", generator=generator)
        self.shift = (coins * place).sum(1)
        size = (self.dimension, bits, bits)
        lower = F.tril(F.randint(2, size, device="cpu", generator=generator))
        lower.diagonal(0, -2, -1).fill_(1)
        rows = (lower * place.flip(0)).sum(-1)  # the rows as numbers, the first bit highest
        state = F.zeros_like(self.sobolstate)
        for p in range(bits):
            state |= _parity(rows[:, p : p + 1] & self.sobolstate) << (bits - 1 - p)
        self.sobolstate = state

    def draw(self, n: int = 1, out: Any = None, dtype: core.dtype | None = None) -> Any:
        """The next `n` points, one a row."""
        dtype = core.get_default_dtype() if dtype is None else dtype
        points = self._advance(n).to(dtype)
        if out is None:
            return points
        out.resize_(points.shape).copy_(points)
        return out

    def draw_base2(self, m: int, out: object = None, dtype: core.dtype | None = None) -> Any:
        """The next `2 ** m` points; with those drawn before they must be a power of two, where the sequence is
        balanced.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            fail(
                ValueError,
                "SobolEngine.draw_base2",
                "a power of two of points in all was required (The balance properties of Sobol' points "
                "require n to be a power of 2)",
                f"{self.num_generated} drawn before and {n} more",
                hint="call reset() first, or draw(n) where balance does not matter",
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Pass over `n` points."""
        self._advance(n, keep=False)
        return self

    def _advance(self, n: int, keep: bool = True) -> Any:
        """The next n points in float64, and the state behind them: point i is the first one changed by the direction
        numbers of the set bits of i's Gray code.
        """
        at = F.arange(self.num_generated, self.num_generated + n, device="cpu")
        if not keep:
            at = at[-1:]
        gray = (at ^ (at >> 1)).reshape(-1, 1)
        points = self.shift.expand(len(at), self.dimension).clone()
        last = self.num_generated + n - 1
        for bit in range(max(last, 0).bit_length()):
            points ^= (gray >> bit & 1) * self.sobolstate[:, bit]
        if len(at):
            self.quasi.copy_(points[-1])
        self.num_generated += n
        return points.to(core.float64) / 2**self.MAXBIT

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
