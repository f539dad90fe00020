"""Root functions that are no operators, called with objects that handle functions and are no tensors."""

import pytest

import facula

NAMES = (
    "is_floating_point is_complex is_nonzero numel clone detach detach_ zero_ is_signed is_conj is_neg "
    "is_inference is_distributed get_device"
).split()


class Like:
    heard = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.heard.append((func, types, args, kwargs or {}))
        return "handled"


@pytest.fixture
def like():
    Like.heard = []
    return Like()


@pytest.mark.parametrize("name", NAMES)
def test_they_are_offered(name, like):
    function = getattr(facula, name)
    assert function(like) == "handled"
    assert Like.heard == [(function, (Like,), (like,), {})]
    assert function(input=like) == "handled"


def test_any_argument_counts(like):
    assert facula.is_same_size(facula.ones(2), like) == "handled"
    assert facula.fill(like, 3) == "handled"
    assert facula.unravel_index(like, (2, 3)) == "handled"
    assert [func.__name__ for func, *_ in Like.heard] == ["is_same_size", "fill", "unravel_index"]


def test_tensors_are_answered():
    assert facula.numel(facula.ones(2, 3)) == 6
    with pytest.raises(AttributeError):
        facula.numel(3)
