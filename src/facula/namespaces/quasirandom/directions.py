"""The direction numbers of Sobol sequences of up to 21,201 dimensions [Joe & Kuo 2008].

Takes: a number of dimensions. Gives: `direction_numbers`, 30 numbers of 30 bits for each.
Keeps true: the file (`directions.bin`) holds what the numbers follow from: the differences of the primitive
polynomials,
two bytes each, packed by zlib; behind them the first numbers of each dimension, the k-th without its last bit, which is
always set, in k bits (the first, which is 1, in none).
"""

from __future__ import annotations

import zlib
from pathlib import Path

__all__ = ["BITS", "DIMENSIONS", "direction_numbers"]

#: bits of a coordinate
BITS = 30
DIMENSIONS = 21201


def _first_numbers(dimension: int) -> list[tuple[int, list[int]]]:
    """The polynomial of each dimension behind the first, and as many numbers as its degree."""
    unpack = zlib.decompressobj()
    steps = unpack.decompress((Path(__file__).parent / "directions.bin").read_bytes())
    numbers = unpack.unused_data
    found, polynomial, at = [], 1, 0
    for d in range(dimension - 1):
        polynomial += int.from_bytes(steps[2 * d : 2 * d + 2], "little")
        degree = polynomial.bit_length() - 1
        count = degree * (degree - 1) // 2
        word = int.from_bytes(numbers[at >> 3 : (at + count + 7) >> 3], "big")
        word >>= -(at + count) % 8
        first = []
        for k in range(degree):
            count -= k
            first.append(word >> count & (1 << k) - 1)
        found.append((polynomial, [x << 1 | 1 for x in first]))
        at += degree * (degree - 1) // 2
    return found


def direction_numbers(dimension: int) -> list[list[int]]:
    """For each dimension the numbers that change a point's coordinate, one for each bit of its place."""
    columns = [[1] * BITS]
    for polynomial, first in _first_numbers(dimension):
        degree = len(first)
        column = list(first)
        for j in range(degree, BITS):
            new = column[j - degree]
            for k in range(degree):
                if polynomial >> (degree - 1 - k) & 1:
                    new ^= column[j - k - 1] << (k + 1)
            column.append(new)
        columns.append(column)
    return [[x << (BITS - 1 - j) for j, x in enumerate(column)] for column in columns]
