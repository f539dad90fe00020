"""How often a tensor was written: 0 for a new one, one more for each write of the user's."""

import pytest

import facula

NEW = {
    "ones": lambda: facula.ones(2),
    "zeros": lambda: facula.zeros(2),
    "full": lambda: facula.full((2,), 3.0),
    "eye": lambda: facula.eye(2),
    "rand": lambda: facula.rand(2),
    "randn": lambda: facula.randn(2),
    "randint": lambda: facula.randint(3, (2,)),
    "ones_like": lambda: facula.ones_like(facula.empty(2)),
    "new_full": lambda: facula.empty(2).new_full((2,), 1.0),
    "arange": lambda: facula.arange(3),
}


@pytest.mark.parametrize("name", list(NEW))
def test_new_tensors_have_not_been_written(name):
    made = NEW[name]()
    assert made._version == 0
    made.add_(1)
    assert made._version == 1 and made[:1]._version == 1
