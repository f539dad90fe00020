"""Scripted functions that call operators whose arguments `functools.partial` bound."""

import functools

import pytest

import facula

X = [-1.0, 3.0]


def apply_to(function):
    def applied(x):
        return function(x) + 1

    return facula.jit.script(applied)


@pytest.mark.parametrize(
    "bound, wanted",
    [
        (functools.partial(facula.abs), [2.0, 4.0]),
        (functools.partial(facula.clamp, min=0.5), [1.5, 4.0]),
        (functools.partial(facula.pow, 2.0), [1.5, 9.0]),
        (functools.partial(functools.partial(facula.clamp, min=0.5), max=2.0), [1.5, 3.0]),
    ],
)
def test_an_operator_with_bound_arguments(bound, wanted):
    """They were refused as no Python functions."""
    assert apply_to(bound)(facula.tensor(X)).tolist() == wanted
