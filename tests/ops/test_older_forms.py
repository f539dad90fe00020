"""Calls in the forms that PyTorch took once, and warns of."""

import pytest

import facula

A, B, C = facula.ones(2), facula.full((2,), 2.0), facula.full((2,), 4.0)


@pytest.mark.parametrize("name, wanted", [("addcmul", 1 + 0.5 * 8), ("addcdiv", 1 + 0.5 / 2)])
def test_the_factor_behind_the_first_tensor(name, wanted):
    with pytest.warns(UserWarning, match=f"This overload of {name} is deprecated"):
        assert getattr(facula, name)(A, 0.5, B, C).tolist() == [wanted] * 2
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(A, name)(0.5, B, C).tolist() == [wanted] * 2
    with pytest.warns(UserWarning, match="deprecated"):
        assert getattr(A.clone(), f"{name}_")(0.5, B, C).tolist() == [wanted] * 2
    with pytest.raises(TypeError, match="positional"):
        getattr(facula, name)(A, 0.5, B, C, A)
