"""Index arithmetic holds for every value of the variables."""

from __future__ import annotations

import itertools
import random

import pytest

from facula.lower.loops import index as ix


def value(index: ix.Index, at: dict[ix.Var, int]) -> int:
    """An index by definition."""
    total = index.number
    for atom, multiple in index.terms:
        if isinstance(atom, ix.Var):
            total += multiple * at[atom]
        else:
            inner = value(atom.inner, at)
            whole = isinstance(atom, ix.Quotient)
            total += multiple * (inner // atom.number if whole else inner % atom.number)
    return total


def everywhere(variables: list[ix.Var]) -> itertools.product:
    """All values of some variables."""
    return itertools.product(*(range(v.extent) for v in variables))


@pytest.mark.parametrize("seed", range(60))
def test_simplified_quotients_and_remainders_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    variables = [ix.Var(f"v{k}", rng.choice([1, 2, 3, 4, 6])) for k in range(3)]
    plain = [rng.choice([0, 1, 2, 3, 4, 6, 12]) for _ in variables]
    number = rng.choice([0, 0, 1, 5])
    index = ix.constant(number)
    for v, m in zip(variables, plain, strict=True):
        index = index + ix.of(v) * m
    steps = [(rng.choice("/%*+"), rng.choice([1, 2, 3, 4, 6, 12])) for _ in range(4)]
    rules = {"/": ix.floordiv, "%": ix.mod, "*": lambda i, n: i * n, "+": lambda i, n: i + n}
    for sign, n in steps:
        index = rules[sign](index, n)
    low, high = index.bounds()
    for values in everywhere(variables):
        at = dict(zip(variables, values, strict=True))
        want = number + sum(m * x for m, x in zip(plain, values, strict=True))
        for sign, n in steps:
            want = {"/": want // n, "%": want % n, "*": want * n, "+": want + n}[sign]
        assert value(index, at) == want
        assert low <= want <= high


def test_digits_and_their_sum_cancel() -> None:
    m = ix.of(ix.Var("m", 6 * 8 * 32))
    places = ix.digits(m, (6, 8, 32), (256, 32, 1))
    assert ix.linear(places, (256, 32, 1)) == m


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4), (3, 1, 5), (2, 2, 2, 3)])
def test_splitting_takes_quotients_away(shape: tuple[int, ...]) -> None:
    total = 1
    for n in shape:
        total *= n
    m = ix.Var("m", total)
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    strides.reverse()
    swapped = ix.linear(ix.digits(ix.of(m), shape, strides), strides[::-1])
    points = ix.split_points([swapped], m)
    assert points is not None
    ends = [1, *points, total]
    digits = [ix.Var(f"d{k}", ends[k + 1] // ends[k]) for k in range(len(ends) - 1)]
    whole = ix.ZERO
    for digit, place in zip(digits, ends, strict=False):
        whole = whole + ix.of(digit) * place
    after = ix.substitute(swapped, {m: whole})
    assert all(isinstance(atom, ix.Var) for atom in after.atoms())


def divided(index: ix.Index) -> list[ix.Index]:
    """What stands in quotients and remainders."""
    inner = [a.inner for a, _ in index.terms if isinstance(a, (ix.Quotient, ix.Remainder))]
    return inner + [deeper for each in inner for deeper in divided(each)]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_divided_is_never_negative_where_variables_fall(seed: int) -> None:
    # C rounds quotients up where they are negative
    rng = random.Random(seed)
    variables = [ix.Var(f"v{k}", rng.choice([2, 3, 4, 5, 6])) for k in range(2)]
    index = ix.constant(rng.randrange(30))
    for v in variables:
        index = index + ix.of(v) * rng.choice([-12, -5, -3, -2, -1, 1, 2, 3, 4])
    index = index - min(index.bounds()[0], 0)
    for n in (rng.choice([2, 3, 4, 5, 6, 10]) for _ in range(2)):
        quotient, rest = ix.floordiv(index, n), ix.mod(index, n)
        for values in everywhere(variables):
            at = dict(zip(variables, values, strict=True))
            whole = value(index, at)
            assert (value(quotient, at), value(rest, at)) == divmod(whole, n)
            assert all(value(part, at) >= 0 for part in divided(quotient) + divided(rest))
        index = quotient
