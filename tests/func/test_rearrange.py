"""`func.rearrange`: dimensions by names, against NumPy's reshape and transpose."""

import numpy as np
import pytest

import facula
from facula.func import rearrange

X = np.arange(2 * 6 * 4).reshape(2, 6, 4)

CASES = {
    "a b c -> c b a": ({}, lambda x: x.transpose(2, 1, 0)),
    "a (b two) c -> (a two) b c": (
        {"two": 2},
        lambda x: x.reshape(2, 3, 2, 4).transpose(0, 2, 1, 3).reshape(4, 3, 4),
    ),
    "a (two b) c->a b (c two)": (
        {"two": 2},
        lambda x: x.reshape(2, 2, 3, 4).transpose(0, 2, 3, 1).reshape(2, 3, 8),
    ),
    "... c -> c ...": ({}, lambda x: x.transpose(2, 0, 1)),
    "... -> (...)": ({}, lambda x: x.reshape(-1)),
    "... a -> (a ...)": ({}, lambda x: x.transpose(2, 0, 1).reshape(-1)),
    "a b c ... -> ... a b c": ({}, lambda x: x),
    "a b c -> a 1 b () c": ({}, lambda x: x[:, None, :, None]),
    "a b c -> (b c) a": ({"a": 2}, lambda x: x.reshape(2, 24).T),
}


@pytest.mark.parametrize("pattern", CASES)
def test_patterns(pattern):
    sizes, expected = CASES[pattern]
    x = facula.tensor(X, dtype=facula.float64, requires_grad=True)
    found = rearrange(x, pattern, **sizes)
    np.testing.assert_array_equal(found.detach().numpy(), expected(X))
    (found * found).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)


def test_orders_are_views_and_several_tensors_are_put_together():
    x = facula.tensor(X)
    assert rearrange(x, "a b c -> c a b").data_ptr() == x.data_ptr()
    both = rearrange([x, 2 * x], "k a b c -> a k b c")
    np.testing.assert_array_equal(both.numpy(), np.stack([X, 2 * X], 1))
    ones = rearrange(x[:, None], "a 1 b c -> a b c")
    np.testing.assert_array_equal(ones.numpy(), X)
    none = rearrange(facula.zeros(2, 0), "a (b c) -> a b c", b=3)
    assert none.shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("pattern", "sizes", "message"),
    [
        ("a b c", {}, "one '->'"),
        ("a b c -> a b", {}, "same names on both sides"),
        ("a b -> b a", {}, "a tensor of the dimensions"),
        ("a b b -> a b", {}, "each name once"),
        ("(a ...) c -> a ... c", {}, "outside of brackets"),
        ("a (b d) c -> a b d c", {}, "the sizes of all but one"),
        ("a (b d) c -> a b d c", {"b": 4}, "sizes that make 6"),
        ("a b c -> c b a", {"a": 3}, "sizes that make 2"),
        ("a b c -> c b a", {"z": 1}, "sizes of names of the pattern"),
        ("a b c -> (a (b c))", {}, "brackets inside"),
        ("a b c -> (a b c", {}, "a closing bracket"),
        ("a b c -> a b) c", {}, "an opening bracket"),
        ("_a b c -> b c _a", {}, "names, '1'"),
        ("a . c -> c a", {}, "names, '1'"),
        ("2 b c -> b c", {}, "names, '1'"),
        ("a 1 c -> a c", {}, "sizes that make 6"),
    ],
)
def test_what_fits_no_pattern_is_refused(pattern, sizes, message):
    with pytest.raises(ValueError, match=message):
        rearrange(facula.tensor(X), pattern, **sizes)
