"""How a Fourier transform of some length is computed: its passes, its way, and its tables.

Takes a length, a kind, a dtype, and how many rows there are; gives a `Plan`: the kernel's name, the
integers that describe the passes, and one table of roots of unity. Two ways lead to a result:

lanes  a vector holds one place of many rows; all passes run on a tile of whole rows
rows   a row of length first * second is a matrix: transforms of its columns, a factor, transforms of
       its rows, each with vectors of neighbours; lengths with a large prime factor become a
       convolution of a smooth length [Bluestein 1970]; real rows of even length are complex ones of
       half of it

Keeps true: tables are computed in double, with exact integer phases, once for a length and dtype.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from facula import core

#: the lengths of passes written out in C, with what one costs for an element (a load and store is 1)
PASSES = {2: 1.1, 3: 1.3, 4: 1.2, 5: 1.6, 7: 2.1, 8: 1.5, 9: 1.9, 16: 2.2}
#: the largest prime that the pass for any odd prime takes
LARGEST_PRIME = 61
#: lengths up to which many tables are kept, and up to which roots are computed one by one
SMALL = 1 << 15  # speed only
#: the length of the finer of two tables whose products are roots
FINE = 1 << 10  # speed only
#: what a transform takes and gives: complex to complex, real to complex, half a spectrum to real
COMPLEX, REAL, HALF = 0, 1, 2


class Plan(NamedTuple):
    """`way`: lanes or rows; `passes`: the integers that follow a kernel's geometry; `table`: roots."""

    way: str
    passes: tuple[int, ...]
    table: Any


def pass_cost(radix: int) -> float:
    """What a pass costs for an element: speed only."""
    return PASSES.get(radix) or 1.2 + 0.16 * radix


@lru_cache(4096)
def factors(length: int) -> tuple[int, ...] | None:
    """The cheapest passes of a length; None where a prime factor is too large."""
    rest, primes = length, []
    prime = 2
    while prime * prime <= rest:
        while rest % prime == 0:
            primes.append(prime)
            rest //= prime
        prime += 1
    primes += [rest] if rest > 1 else []
    if any(prime > LARGEST_PRIME for prime in primes):
        return None
    odd = [prime for prime in primes if prime > 3]
    two, three = _powers(2, primes.count(2)), _powers(3, primes.count(3))
    # powers of two last and first: these passes also read and write memory
    return (*two[1:], *sorted(odd, reverse=True), *three, *two[:1])


def _powers(base: int, count: int) -> tuple[int, ...]:
    """The cheapest passes that multiply to base ** count, the longest first."""
    best: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for total in range(1, count + 1):
        choices = [
            (best[total - k][0] + PASSES[base**k], (*best[total - k][1], base**k))
            for k in range(1, total + 1)
            if base**k in PASSES
        ]
        best.append(min(choices))
    return tuple(sorted(best[count][1], reverse=True))


def lane_cost(length: int) -> float:
    """What the passes of a tile of that length cost for an element: speed only."""
    chosen = factors(length)
    assert chosen is not None
    return sum(map(pass_cost, chosen))


@lru_cache(4096)
def split(length: int, lanes: int) -> tuple[int, int]:
    """first * second = length, so that columns and rows fill vectors and passes are few."""

    def cost(first: int) -> float:
        """What both passes cost: speed only."""
        second = length // first
        wide, high = -(-second // lanes) * lanes, -(-first // lanes) * lanes
        columns = wide * first * (lane_cost(first) + 1.5) + high * wide
        return columns + high * second * (lane_cost(second) + 1) + 4e-3 * (first**2 + second**2)

    divisors = [d for d in range(1, int(length**0.5) + 1) if length % d == 0]
    return min(((d, length // d) for d in _both(divisors, length)), key=lambda pair: cost(pair[0]))


def _both(divisors: list[int], length: int) -> list[int]:
    return sorted({*divisors, *(length // d for d in divisors)})


@lru_cache(4096)
def smooth(least: int) -> int:
    """The cheapest length of at least `least` whose factors are 2, 3 and 5."""
    lengths = []
    fives = 1
    while fives < 2 * least:
        threes = fives
        while threes < 2 * least:
            twos = threes
            while twos < least:
                twos *= 2
            lengths.append(twos)
            threes *= 3
        fives *= 5
    return min(lengths, key=lambda length: length * (lane_cost(length) + 3))  # speed only


def row_length(count: int, kind: int) -> int:
    """The length of the complex transform that a row of `count` becomes."""
    return count // 2 if kind != COMPLEX and count % 2 == 0 else count


def row_cost(count: int, kind: int, lanes: int) -> float:
    """What one row costs on the way of rows: speed only."""
    length = row_length(count, kind)
    whole = length if factors(length) else smooth(2 * length - 1)
    first, second = split(whole, lanes)
    wide, high = -(-second // lanes) * lanes, -(-first // lanes) * lanes
    cost = wide * first * (lane_cost(first) + 1.5) + high * wide
    cost += high * second * (lane_cost(second) + 1) + (0 if kind == COMPLEX else 2.2 * length)
    # neighbours that do not fill a vector are moved one by one
    cost += 2 * lanes * ((first if second % lanes else 0) + (second if first % lanes else 0))
    return (cost + 6 * lanes) * (1 if whole == length else 2.5) + 150


def lanes_cost(count: int, kind: int, lanes: int, blocks: int, item: int) -> float:
    """What all blocks of rows cost on the way of lanes: speed only."""
    tile = count * 4 * lanes * item
    slower = 1.0 if tile <= 1 << 15 else 1.3 if tile <= 1 << 19 else 2.0
    around = 3.0 if kind == COMPLEX else 5.0
    return blocks * (lanes * count * (lane_cost(count) * slower + around) + 20 * lanes)


@lru_cache(256)
def lanes_of(code: str) -> int:
    """How many numbers a vector of the loaded kernels holds."""
    return next(v for v in (16, 8, 4, 2) if core.has_kernel(f"fft.lanes{v}:{code}"))


@lru_cache(4096)
def way(count: int, kind: int, code: str, rows: int, group: int, straight: bool) -> str:
    """Which way is faster: speed only.

    group: rows that may share a block; straight: a row's places are near.
    """
    lanes, item = lanes_of(code), 4 if code == "f32" else 8
    if factors(count) is None:
        return "rows"
    width = lanes if kind == COMPLEX else 2 * lanes
    across = lanes_cost(count, kind, lanes, rows // group * -(-group // width), item)
    along = rows * (row_cost(count, kind, lanes) + (0 if straight else 4 * count))
    return "rows" if along < across else "lanes"


def plan(count: int, kind: int, code: str, chosen: str) -> Plan:
    """The passes and the table of a way; few of those whose tables are large are remembered."""
    return (_small_plan if count <= SMALL else _large_plan)(count, kind, code, chosen)


def _made(count: int, kind: int, code: str, chosen: str) -> Plan:
    if chosen == "lanes":
        steps = factors(count)
        assert steps is not None
        return Plan(chosen, (len(steps), *steps), _table(_pass_roots(steps), code))
    lanes, length = lanes_of(code), row_length(count, kind)
    whole = length if factors(length) else smooth(2 * length - 1)
    first, second = split(whole, lanes)
    one, two = factors(first) or (), factors(second) or ()
    roots = _pass_roots(one) + _pass_roots(two) + _matrix_roots(first, second, lanes)
    if length != count:
        roots += _half_roots(count)
    if whole != length:
        roots += _chirp(length, whole)
    passes = (length, whole, first, second, len(one), *one, len(two), *two)
    return Plan(chosen, passes, _table(roots, code))


_small_plan, _large_plan = lru_cache(256)(_made), lru_cache(4)(_made)


def _table(parts: list[Any], code: str) -> Any:
    import numpy

    flat = numpy.concatenate([*parts, numpy.zeros(1)])
    return core.from_numpy(flat.astype(numpy.float32 if code == "f32" else numpy.float64))


def _interleaved(values: object) -> Any:
    import numpy

    return numpy.ascontiguousarray(values, dtype=numpy.complex128).reshape(-1).view(numpy.float64)


def _roots(steps: Any, count: int) -> Any:
    """exp(-2 pi i steps / count) for integers, out of angles of at most an eighth of a turn."""
    import numpy

    steps = numpy.asarray(steps, numpy.int64) % count
    if steps.size > SMALL:  # products of two tables, each of which is quickly made
        high = _roots(numpy.arange(0, count, FINE), count)
        return high[steps // FINE] * _roots(numpy.arange(FINE), count)[steps % FINE]
    quarter, rest = numpy.divmod(4 * steps, count)
    angle = numpy.pi / 2 * numpy.minimum(rest, count - rest) / count
    near, far = numpy.cos(angle), numpy.sin(angle)
    swapped = 2 * rest > count
    value = numpy.where(swapped, far, near) - 1j * numpy.where(swapped, near, far)
    return value * numpy.array([1, -1j, -1, 1j])[quarter]


def _pass_roots(steps: tuple[int, ...]) -> list[Any]:
    """For each pass: a prime's own roots (cosine, sine), then its factors [place, output - 1]."""
    import numpy

    parts, length = [], 1
    for radix in steps:
        length *= radix
    for radix in steps:
        if radix not in PASSES:
            parts.append(_interleaved(_roots(numpy.arange(radix), radix).conj()))
        if length > radix:
            places = numpy.arange(length // radix)[:, None] * numpy.arange(1, radix)
            parts.append(_interleaved(_roots(places, length)))
        length //= radix
    return parts


def _matrix_roots(first: int, second: int, lanes: int) -> list[Any]:
    """[block of columns, row, part, lane]: what columns' transforms are multiplied with."""
    import numpy

    blocks = -(-second // lanes)
    places = numpy.arange(first)[:, None] * numpy.arange(blocks * lanes)
    roots = _roots(places, first * second).reshape(first, blocks, lanes)
    both = numpy.stack([roots.real, roots.imag], 2)
    return [numpy.ascontiguousarray(both.transpose(1, 0, 2, 3)).reshape(-1)]


def _half_roots(count: int) -> list[Any]:
    """Real parts, then imaginary parts, of the factors that join half-length transforms."""
    import numpy

    roots = _roots(numpy.arange(count // 4 + 1), count)
    return [roots.real, roots.imag]


def _chirp(length: int, whole: int) -> list[Any]:
    """The chirp of a convolution, and the transform of its conjugate over `whole`."""
    import numpy

    chirp = _roots(numpy.arange(length) ** 2, 2 * length)
    around = numpy.zeros(whole, numpy.complex128)
    around[:length] = chirp.conj()
    around[whole - length + 1 :] = chirp[:0:-1].conj()
    return [_interleaved(chirp), _interleaved(numpy.fft.fft(around) / whole)]
