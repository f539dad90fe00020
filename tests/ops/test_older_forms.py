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


def test_out_is_filled_in_an_older_form():
    """The keyword was dropped without a word."""
    out = facula.zeros(2)
    with pytest.warns(UserWarning, match="deprecated"):
        assert facula.addcmul(A, 0.5, B, C, out=out) is out
    assert out.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("name, wanted", [("add", 1 + 3 * 2), ("sub", 1 - 3 * 2)])
def test_alpha_before_the_other_tensor(name, wanted):
    out = facula.zeros(2)
    calls = [
        lambda: getattr(facula, name)(A, 3, B),
        lambda: getattr(facula, name)(A, 3.0, B, out=out),
        lambda: getattr(A, name)(3, B),
        lambda: getattr(A.clone(), f"{name}_")(3, B),
    ]
    for call in calls:
        with pytest.warns(UserWarning, match=f"This overload of {name}_? is deprecated"):
            assert call().tolist() == [wanted] * 2
    assert out.tolist() == [wanted] * 2
    for wrong in [(A, B, C), (A, 3, 4), (A, 3, B, C), (3, A, B)]:
        with pytest.raises(TypeError, match="positional"):
            getattr(facula, name)(*wrong)


PRODUCTS = {  # the added, the factors' shapes, and their product for all ones
    "addmm": ((2, 2), (2, 3), (3, 2), 3),
    "addbmm": ((2, 2), (4, 2, 3), (4, 3, 2), 12),
    "baddbmm": ((4, 2, 2), (4, 2, 3), (4, 3, 2), 3),
    "addmv": ((2,), (2, 3), (3,), 3),
    "addr": ((2, 2), (2,), (2,), 1),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_factors_before_a_product(name):
    *shapes, product = PRODUCTS[name]
    added, left, right = map(facula.ones, shapes)
    function, method = getattr(facula, name), getattr(added, name)
    calls = [
        (lambda: method(2, left, right), 2 + product),
        (lambda: method(2, 5, left, right), 2 + 5 * product),
        (lambda: function(2, added, left, right), 2 + product),
        (lambda: function(2, added, 5, left, right), 2 + 5 * product),
        (lambda: getattr(added.clone(), f"{name}_")(2, 5, left, right), 2 + 5 * product),
    ]
    for call, wanted in calls:
        with pytest.warns(UserWarning, match="deprecated"):
            result = call()
        assert result.shape == added.shape and result.unique().tolist() == [wanted]
    with pytest.raises(TypeError, match="positional"):
        method(left, right, 2, 5)


def test_factors_before_a_product_of_sparse_matrices():
    eye = facula.eye(2).to_sparse()
    with pytest.warns(UserWarning, match="deprecated"):
        found = facula.sspaddmm(eye, 2, 5, eye, facula.ones(2, 2))
    assert found.to_dense().tolist() == [[7.0, 5.0], [5.0, 7.0]]
