"""Numbers that depend on sizes are what whole numbers of these sizes are: for all small sizes, by counting.

The oracle is Python's own arithmetic on plain ints, at every combination of sizes from 2 to 7.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import facula
from facula.fx.fake_tensor import FakeTensorMode
from facula.fx.shape_env import ShapeEnv
from facula.fx.symbols import SymInt, expr_of, sym_max, sym_min

NAMES = ("s0", "s1")
EXAMPLES = {"s0": 5, "s1": 3}
BOX = [dict(zip(NAMES, sizes, strict=True)) for sizes in itertools.product(range(2, 8), repeat=2)]

OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "//": (operator.floordiv, operator.floordiv),
    "%": (operator.mod, operator.mod),
    "max": (sym_max, max),
    "min": (sym_min, min),
}

#: nested (operation, left, right); leaves are names and numbers
TREES = st.recursive(
    st.sampled_from(NAMES) | st.integers(-4, 8),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=7,
)
RELATIONS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
             ">": operator.gt, ">=": operator.ge}  # fmt: skip


def evaluated(tree: Any, leaves: dict[str, Any], symbolic: bool) -> Any:
    """A tree's number; with symbols or with plain numbers for the leaves."""
    if isinstance(tree, str):
        return leaves[tree]
    if isinstance(tree, int):
        return tree
    name, left, right = tree
    a, b = (evaluated(part, leaves, symbolic) for part in (left, right))
    return OPERATIONS[name][not symbolic](a, b)


def environment() -> tuple[ShapeEnv, dict[str, Any]]:
    """Symbols for the example sizes, as numbers."""
    env = ShapeEnv()
    env.fixes_quotients = True
    return env, {name: env.create_symint(EXAMPLES[name]) for name in NAMES}


def counted(tree: Any) -> list[tuple[dict[str, int], int]]:
    """The number of a tree at all sizes where it is one."""
    found = []
    for sizes in BOX:
        try:
            found.append((sizes, evaluated(tree, sizes, symbolic=False)))
        except ZeroDivisionError:
            continue
    return found


@settings(max_examples=300, deadline=None)
@given(TREES)
def test_expressions_have_the_values_of_whole_numbers(tree: Any) -> None:
    env, leaves = environment()
    table = counted(tree)
    if all(sizes != EXAMPLES for sizes, _ in table):
        with pytest.raises(ZeroDivisionError):
            evaluated(tree, leaves, symbolic=True)
        return
    got = evaluated(tree, leaves, symbolic=True)
    expr, bound = expr_of(got), expr_of(got).least()
    assert int.__int__(got) == evaluated(tree, EXAMPLES, symbolic=False)
    assert not env.guards  # arithmetic alone decides nothing
    for sizes, want in table:
        if len(table) < len(BOX):
            break  # where a divisor is 0 somewhere, quotients may have been cancelled
        assert expr.value(sizes) == want
        assert eval(str(expr), dict(sizes)) == want
        assert bound is None or bound <= want


@settings(max_examples=300, deadline=None)
@given(TREES, TREES, st.sampled_from(sorted(RELATIONS)))
def test_sizes_that_meet_the_guards_compare_alike(left: Any, right: Any, relation: str) -> None:
    tables = counted(left), counted(right)
    if any(len(table) < len(BOX) for table in tables):
        return
    env, leaves = environment()
    a, b = (evaluated(tree, leaves, symbolic=True) for tree in (left, right))
    outcome = RELATIONS[relation](a, b)
    for (sizes, x), (_, y) in zip(*tables, strict=True):
        if env.evaluate_guards(sizes):
            assert RELATIONS[relation](x, y) is outcome


# ------------------------------------------------------------------ everything that an int can do

#: calls of a number and what Python's own ints give
CALLS: dict[str, Callable[[Any], Any]] = {
    "and 1": lambda n: n & 1,
    "1 and": lambda n: 1 & n,
    "and 6": lambda n: n & 6,
    "or": lambda n: n | 4,
    "4 or": lambda n: 4 | n,
    "xor": lambda n: n ^ 3,
    "3 xor": lambda n: 3 ^ n,
    "and itself": lambda n: n & (n - 1),
    "invert": lambda n: ~n,
    "left": lambda n: n << 2,
    "left by": lambda n: 1 << n,
    "right": lambda n: n >> 1,
    "right by": lambda n: 100 >> n,
    "by itself": lambda n: n << n,
    "power": lambda n: n**2,
    "power of": lambda n: 2**n,
    "power of itself": lambda n: n**n,
    "power by modulus": lambda n: pow(n, 2, 5),
    "inverse": lambda n: n**-1,
    "root": lambda n: n**0.5,
    "divmod": lambda n: divmod(n, 3),
    "divmod of": lambda n: divmod(17, n),
    "quotient": lambda n: n / 4,
    "quotient of": lambda n: 4 / n,
    "floored": lambda n: math.floor(n / 4),
    "raised": lambda n: math.ceil(n / 4),
    "int": lambda n: int(n * 0.7),
    "rounded": lambda n: round(n, -1),
    "rounded up": lambda n: round(n, 2),
    "bits": lambda n: n.bit_length(),
    "ones": lambda n: n.bit_count(),
    "bytes": lambda n: n.to_bytes(2, "little"),
    "fraction": lambda n: n.as_integer_ratio(),
    "parts": lambda n: (n.real, n.imag, n.numerator, n.denominator, n.conjugate()),
    "absolute": lambda n: abs(n - 6),
    "negative": lambda n: -n + +n,
    "text": lambda n: f"{n:03d}",
    "float": lambda n: float(n),
    "square root": lambda n: math.sqrt(n),
    "truth": lambda n: bool(n - 5),
    "items": lambda n: [1] * n,
    "so many items": lambda n: n * [1],
}


def at(x: Any, sizes: dict[str, int]) -> Any:
    """What a result is for other sizes."""
    if isinstance(x, (tuple, list)):
        return type(x)(at(item, sizes) for item in x)
    return x.env.simplified(x.expr).value(sizes) if isinstance(x, SymInt) else x


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("example", [2, 4, 5, 7, 8, 40])
def test_a_method_of_int_keeps_the_expression_or_fixes_the_number(name: str, example: int) -> None:
    env = ShapeEnv()
    env.fixes_quotients = True
    got = CALLS[name](env.create_symint(example))
    assert at(got, {"s0": example}) == CALLS[name](example)
    for n in range(2, 70):
        if env.evaluate_guards({"s0": n}):
            assert at(got, {"s0": n}) == CALLS[name](n)


def test_a_sum_of_sizes_is_told_from_twice_the_size_between_them():
    """3 + 5 = 2 * 4 holds for the example only, whatever evenly spaced sizes are tried."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x, y = mode.from_tensor(facula.ones(3, 4)), mode.from_tensor(facula.ones(5, 4))
    rows = facula.cat([x, y]).shape[0]
    assert str(rows) in ("s0 + s2", "s2 + s0")


def test_exported_programs_show_the_sizes_of_joined_tensors():
    class Join(facula.nn.Module):
        def forward(self, x, y):
            return facula.cat([x, y])

    any_size = facula.export.Dim.DYNAMIC
    program = facula.export.export(
        Join(),
        (facula.ones(3, 4), facula.ones(5, 4)),
        dynamic_shapes=({0: any_size, 1: any_size},) * 2,
    )
    value = next(n for n in program.graph.nodes if n.op == "call_function").meta["val"]
    assert len(value.shape[0].node.expr.free_symbols) == 2
