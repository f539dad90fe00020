"""What `vmap` refuses: entries of another rank, other trees, `.data`, and, when told so, entries one by one."""

import warnings

import numpy as np
import pytest

import facula
from facula.func import vmap
from facula.torch_api._C import _functorch

X = facula.arange(12.0).reshape(3, 2, 2)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (facula.dot, (X, X[:, 0])),
        (facula.dot, (X, X)),
        (facula.mm, (X[:, 0], X[:, 0])),
        (facula.mm, (X.unsqueeze(1), X.unsqueeze(1))),
        (facula.bmm, (X, X)),
        (facula.addmm, (X, X[:, 0], X)),
        (facula.baddbmm, (X, X, X)),
    ],
)
def test_products_take_entries_of_their_own_rank(function, arguments):
    with pytest.raises(RuntimeError, match="Shape mismatch"):
        vmap(function)(*arguments)
    with pytest.raises(RuntimeError):
        function(*[a[0] for a in arguments])


def test_products_of_entries_that_fit_are_numpys():
    a, b = X.numpy(), X.flip(0).numpy()
    np.testing.assert_allclose(vmap(facula.mm)(X, X.flip(0)).numpy(), a @ b)
    np.testing.assert_allclose(
        vmap(facula.dot)(X[:, 0], X[:, 1]).numpy(), (a[:, 0] * a[:, 1]).sum(-1)
    )
    added = vmap(facula.addmm, in_dims=(0, None, None))(X, X[0], X[1])
    np.testing.assert_allclose(added.numpy(), a + a[0] @ a[1])


@pytest.mark.parametrize("in_dims", [[0, 0], {0}, "ab", 0.5])
def test_in_dims_is_an_int_or_a_tuple(in_dims):
    with pytest.raises(ValueError, match="expected `in_dims` to be int or a"):
        vmap(facula.mul, in_dims=in_dims)(X, X)


@pytest.mark.parametrize("in_dims", [([0],), ((0, 0),), ([0, 0], 0)])
def test_in_dims_has_the_structure_of_the_inputs(in_dims):
    with pytest.raises(ValueError, match="in_dims is not compatible with the structure"):
        vmap(lambda pair: pair[0] + pair[1], in_dims=in_dims)([X, X])
    both = vmap(lambda pair: pair[0] + pair[1], in_dims=([0, 0],))([X, X])
    np.testing.assert_array_equal(both.numpy(), 2 * X.numpy())


def test_data_is_not_reached_behind_the_transform():
    with pytest.raises(RuntimeError, match="accessing `data` under vmap"):
        vmap(lambda x: x.data)(X)

    def write(x):
        x.data = facula.ones(2, 2)
        return x

    with pytest.raises(RuntimeError, match="mutating directly with `.data` under vmap"):
        vmap(write)(X)


def test_entries_run_one_by_one_only_where_that_is_allowed():
    def counts(x):
        return facula.histc(x, 2, 0.0, 12.0)

    assert _functorch._is_vmap_fallback_enabled()
    _functorch._set_vmap_fallback_enabled(False)
    try:
        assert not _functorch._is_vmap_fallback_enabled()
        with pytest.raises(RuntimeError, match="histc hit the vmap fallback"):
            vmap(counts)(X)
    finally:
        _functorch._set_vmap_fallback_enabled(True)
    _functorch._set_vmap_fallback_warning_enabled(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = vmap(counts)(X)
    finally:
        _functorch._set_vmap_fallback_warning_enabled(True)
    np.testing.assert_array_equal(found.numpy(), [[4, 0], [2, 2], [0, 4]])


@pytest.mark.parametrize(
    ("change", "dims"),
    [
        (lambda x, d: x.roll(1, d), (2, -3, 5)),
        (lambda x, d: x[0].roll(1, d), (1, -2)),
        (lambda x, d: x[0, 0].roll(1, d), (0, -1, 1)),
        (lambda x, d: x.unbind(d), (2, -3)),
        (lambda x, d: x[0, 0].unbind(d), (0, -1)),
    ],
)
def test_dimensions_are_those_of_an_entry(change, dims):
    for dim in dims:
        for call in (lambda d=dim: change(X[0], d), lambda d=dim: vmap(lambda x: change(x, d))(X)):
            with pytest.raises(IndexError, match="(?i)dimension"):
                call()


def test_rolled_and_unbound_entries_are_those_of_a_loop():
    assert vmap(lambda x: x.roll((1, 1), (0, -1)))(X).equal(
        facula.stack([x.roll((1, 1), (0, 1)) for x in X])
    )
    for dim in (0, -1):
        pieces = vmap(lambda x, d=dim: x.unbind(d))(X)
        alone = [x.unbind(dim) for x in X]
        assert len(pieces) == 2
        assert all(p.equal(facula.stack([a[i] for a in alone])) for i, p in enumerate(pieces))
