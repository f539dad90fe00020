"""Straight-line C of small discrete Fourier transforms on vectors: what a pass does at one place.

Takes a length; gives statements that turn `x<j>r`, `x<j>i` (vectors of real and imaginary parts)
into the names of the transform's parts. Composite lengths are built out of their factors, primes
are sums over pairs `x[j] +- x[n - j]`. Keeps true: the transform is forward (`exp(-2 pi i / n)`),
factors that are 1, -i or multiples of an eighth of a turn cost no more than they must, and constants
are rounded once, from double.
"""

from __future__ import annotations

import re as regular
from collections.abc import Iterator, Sequence
from math import cos, pi, sin

_INPUT = regular.compile(r"x(\d+)[ri]\b")
#: the names of a complex vector's parts
Pair = tuple[str, str]
#: how composite lengths split
_SPLITS = {4: (2, 2), 8: (2, 4), 16: (4, 4), 9: (3, 3)}


class Butterfly:
    """Collects the statements of one transform. loads: the statements that make each input, which
    come right before its first use, so that fewer vectors are alive.
    """

    def __init__(self, ctype: str, vector: str, loads: Sequence[list[str]]) -> None:
        self.lines: list[str] = []
        self.ctype, self.vector = ctype, vector
        self._loads = dict(enumerate(loads))
        self._count = 0

    def name(self, expression: str) -> str:
        """A fresh variable that holds an expression."""
        for number in _INPUT.findall(expression):
            self.lines += self._loads.pop(int(number), [])
        self._count += 1
        self.lines.append(f"const {self.vector} t{self._count} = {expression};")
        return f"t{self._count}"

    def constant(self, value: float) -> str:
        """A number in the compute type."""
        return f"({self.ctype}){value!r}"

    def add(self, a: Pair, b: Pair) -> Pair:
        """a + b"""
        return self.name(f"{a[0]} + {b[0]}"), self.name(f"{a[1]} + {b[1]}")

    def subtract(self, a: Pair, b: Pair) -> Pair:
        """a - b"""
        return self.name(f"{a[0]} - {b[0]}"), self.name(f"{a[1]} - {b[1]}")

    def turn(self, a: Pair, step: int, count: int) -> Pair:
        """a * exp(-2 pi i step / count)"""
        step %= count
        eighths, rest = divmod(8 * step, count)
        if rest == 0:
            return self.turn_eighths(a, eighths)
        c, d = cos(2 * pi * step / count), -sin(2 * pi * step / count)
        re, im = self.constant(c), self.constant(d)
        return (
            self.name(f"{a[0]} * {re} - {a[1]} * {im}"),
            self.name(f"{a[0]} * {im} + {a[1]} * {re}"),
        )

    def turn_eighths(self, a: Pair, eighths: int) -> Pair:
        """a * exp(-2 pi i eighths / 8)"""
        re, im = a
        if eighths % 2:
            root = self.constant(0.5**0.5)
            re, im = self.name(f"({re} + {im}) * {root}"), self.name(f"({im} - {re}) * {root}")
        for _ in range(eighths // 2):  # a quarter: times -i
            re, im = im, self.name(f"-{re}")
        return re, im

    def outputs(self) -> Iterator[tuple[int, Pair]]:
        """The whole transform's parts, with their numbers, as they get ready."""
        x = [(f"x{j}r", f"x{j}i") for j in range(len(self._loads))]
        if len(x) in _SPLITS and len(x) > 4:
            yield from self.composite(x, *_SPLITS[len(x)])
        else:
            yield from enumerate(self.transform(x))

    def transform(self, x: Sequence[Pair]) -> list[Pair]:
        """The transform of any of the lengths that passes have."""
        count = len(x)
        if count == 1:
            return list(x)
        if count == 2:
            return [self.add(x[0], x[1]), self.subtract(x[0], x[1])]
        if count == 4:
            return self.four(x)
        if count in _SPLITS:
            return [pair for _, pair in sorted(self.composite(x, *_SPLITS[count]))]
        return self.prime(x)

    def four(self, x: Sequence[Pair]) -> list[Pair]:
        """Length 4, where the quarter turn is an exchange of parts."""
        a, b = self.add(x[0], x[2]), self.subtract(x[0], x[2])
        c, d = self.add(x[1], x[3]), self.subtract(x[1], x[3])
        return [
            self.add(a, c),
            (self.name(f"{b[0]} + {d[1]}"), self.name(f"{b[1]} - {d[0]}")),
            self.subtract(a, c),
            (self.name(f"{b[0]} - {d[1]}"), self.name(f"{b[1]} + {d[0]}")),
        ]

    def composite(self, x: Sequence[Pair], outer: int, inner: int) -> Iterator[tuple[int, Pair]]:
        """`outer` transforms of every outer-th input, then `inner` across them. [Cooley & Tukey]"""
        count = outer * inner
        parts = [self.transform(x[start::outer]) for start in range(outer)]
        for k in range(inner):
            turned = [self.turn(part[k], start * k, count) for start, part in enumerate(parts)]
            for number, pair in enumerate(self.transform(turned)):
                yield k + inner * number, pair

    def prime(self, x: Sequence[Pair]) -> list[Pair]:
        """Odd lengths: cosines of the sums and sines of the differences of opposite inputs."""
        count, half = len(x), len(x) // 2
        sums = [self.add(x[j], x[count - j]) for j in range(1, half + 1)]
        differences = [self.subtract(x[j], x[count - j]) for j in range(1, half + 1)]
        result = [x[0]] * count
        for pair in sums:
            result[0] = self.add(result[0], pair)
        for k in range(1, half + 1):
            angles = [2 * pi * (j * k % count) / count for j in range(1, half + 1)]
            even = [
                x[0][part]
                + "".join(
                    f" + {pair[part]} * {self.constant(cos(angle))}"
                    for pair, angle in zip(sums, angles, strict=True)
                )
                for part in (0, 1)
            ]
            odd = [
                " + ".join(
                    f"{pair[part]} * {self.constant(sin(angle))}"
                    for pair, angle in zip(differences, angles, strict=True)
                )
                for part in (0, 1)
            ]
            a = self.name(even[0]), self.name(even[1])
            b = self.name(odd[0]), self.name(odd[1])
            result[k] = self.name(f"{a[0]} + {b[1]}"), self.name(f"{a[1]} - {b[0]}")
            result[count - k] = self.name(f"{a[0]} - {b[1]}"), self.name(f"{a[1]} + {b[0]}")
        return result
