"""Masked tensors against NumPy's masked arrays, which leave out where their mask is true."""

import copy
import pickle

import numpy as np
import pytest

import facula
from facula.masked import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

RNG = np.random.default_rng(7)


def parts(*shape):
    """Elements and a mask with both kinds of elements in every row."""
    mask = RNG.random(shape) > 0.4
    mask[..., 0], mask[..., 1] = True, False
    return RNG.standard_normal(shape), mask


def pair(*shape):
    """A masked tensor and NumPy's masked array of the same elements."""
    data, mask = parts(*shape)
    ours = masked_tensor(facula.tensor(data), facula.tensor(mask))
    return ours, np.ma.masked_array(data, ~mask)


def same(ours, theirs):
    """Compare what counts, and what counts."""
    assert is_masked_tensor(ours)
    theirs = np.ma.asarray(theirs)
    counted = ~np.ma.getmaskarray(theirs)
    mask, data = ours.get_mask().to_dense().numpy(), ours.get_data().detach().to_dense().numpy()
    assert (mask == counted).all() and mask.shape == counted.shape
    np.testing.assert_allclose(data[mask], theirs.data[counted], rtol=1e-9)


UNARY = "exp sin tanh floor abs negative square sign sqrt log reciprocal".split()
BINARY = "add subtract multiply divide maximum minimum arctan2 logaddexp less equal".split()
REDUCTIONS = "sum prod mean var std".split()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", UNARY)
def test_elementwise(name):
    ours, theirs = pair(3, 5)
    np_function = getattr(np, name)
    expected = np.ma.masked_array(np_function(theirs.data), theirs.mask)
    found = getattr(facula, name)(ours)
    mask = ours.get_mask()
    assert facula.equal(found.get_mask(), mask)
    np.testing.assert_allclose(found.get_data().numpy()[~theirs.mask], expected.data[~theirs.mask])


@pytest.mark.parametrize("name", BINARY)
def test_two_operands_of_one_mask(name):
    ours, theirs = pair(3, 5)
    other = RNG.standard_normal((3, 5))
    second = masked_tensor(facula.tensor(other), ours.get_mask())
    expected = np.ma.masked_array(getattr(np, name)(theirs.data, other), theirs.mask)
    function = getattr(facula, {"equal": "eq"}.get(name, name))
    same(function(ours, second), expected)
    same(function(ours, facula.tensor(other)), expected)
    swapped = np.ma.masked_array(getattr(np, name)(other, theirs.data), theirs.mask)
    same(function(facula.tensor(other), ours), swapped)


def test_operands_of_different_masks_are_refused():
    ours, _ = pair(2, 4)
    other = masked_tensor(ours.get_data(), ~ours.get_mask())
    for call in (lambda: ours + other, lambda: ours.add_(other), lambda: ours.copy_(other)):
        with pytest.raises(ValueError, match="Input masks must match"):
            call()


def test_numbers_and_broadcasting():
    ours, theirs = pair(3, 4)
    same(2 - ours * 3, 2 - theirs * 3)
    same(ours + facula.arange(4.0, dtype=facula.float64), theirs + np.arange(4.0))
    row = masked_tensor(ours.get_data()[:1], ours.get_mask()[:1])
    same(row + facula.ones(3, 4), np.ma.masked_array(theirs[:1] + np.ones((3, 4))))


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dim, keepdim):
    data, mask = parts(4, 6)
    mask[:2], mask[:, 2] = True, True  # NumPy masks the variance of one element; here it is nan
    ours = masked_tensor(facula.tensor(data), facula.tensor(mask))
    options = {"ddof": 1} if name in ("var", "std") else {}
    found = getattr(ours, name)(dim, keepdim=keepdim)
    same(found, getattr(np.ma.masked_array(data, ~mask), name)(dim, keepdims=keepdim, **options))


@pytest.mark.parametrize(("name", "theirs"), [("amax", "max"), ("amin", "min")])
def test_extremes(name, theirs):
    ours, array = pair(3, 4)
    same(getattr(ours, name)(), getattr(array, theirs)())
    same(getattr(ours, name)(dim=1), getattr(array, theirs)(axis=1))


def test_places_of_extremes():
    ours, array = pair(5, 4)
    assert ours.argmax().item() == array.argmax() and ours.argmin().item() == array.argmin()
    assert ours.argmax(1).get_data().tolist() == array.argmax(axis=1).tolist()
    assert ours.to_sparse().argmax().item() == array.argmax()


def test_a_row_without_elements_is_masked():
    ours = masked_tensor(facula.ones(2, 3), facula.tensor([[True, False, True], [False] * 3]))
    assert ours.sum(1).get_mask().tolist() == [True, False]
    assert ours.sum().item() == 2 and ours.mean().item() == 1


def test_bools():
    data = facula.tensor([[True, True, False], [False, True, True]])
    mask = facula.tensor([[True, False, False], [False, True, False]])
    ours = masked_tensor(data, mask)
    assert ours.all().item() is True and ours.any().item() is True
    assert (~ours).any().item() is False
    assert ours.all(dim=0).get_mask().tolist() == [True, True, False]


def test_norms():
    ours, theirs = pair(3, 4)
    flat = theirs.compressed()
    assert ours.norm().item() == pytest.approx(np.linalg.norm(flat))
    assert ours.norm(p=1).item() == pytest.approx(abs(flat).sum())


def test_softmax():
    ours, theirs = pair(3, 5)
    exponentials = np.ma.exp(theirs)
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    same(facula.softmax(ours, 1), expected)
    same(facula.nn.functional.log_softmax(ours, dim=-1), np.ma.log(expected))
    same(ours.softmax(1), expected)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x[1], lambda x: x[:, 1:3], lambda x: x.T, lambda x: x.reshape(4, 3),
        lambda x: x[[2, 0]], lambda x: x.reshape(2, 6)[1, ::2],
    ],
)  # fmt: skip
def test_moving_elements_moves_masks(move):
    ours, theirs = pair(3, 4)
    same(move(ours), move(theirs))


def test_functions_that_move_elements():
    ours, theirs = pair(3, 4)
    same(facula.cat([ours, ours], 1), np.ma.concatenate([theirs, theirs], axis=1))
    same(facula.stack([ours, ours]), np.ma.stack([theirs, theirs]))
    same(ours.flip(0), theirs[::-1])
    same(ours.roll(1, 1), np.roll(theirs, 1, axis=1))
    same(ours.index_select(1, facula.tensor([3, 1])), theirs[:, [3, 1]])
    same(ours.unsqueeze(0).expand(2, 3, 4), np.ma.stack([theirs, theirs]))
    for piece, expected in zip(ours.split(2, 1), (theirs[:, :2], theirs[:, 2:]), strict=True):
        same(piece, expected)
    for row, expected in zip(ours, theirs, strict=True):
        same(row, expected)
    assert len(ours) == 3


def test_where_takes_masks_along():
    ours, theirs = pair(3, 4)
    condition = RNG.random((3, 4)) > 0.5
    found = facula.where(facula.tensor(condition), ours, facula.tensor(0.0, dtype=facula.float64))
    same(found, np.ma.where(condition, theirs, 0.0))


def test_in_place():
    ours, theirs = pair(3, 4)
    before = ours.get_data().clone()
    assert ours.mul_(2).add_(ours) is ours
    same(ours, theirs * 4)
    ours.copy_(before)
    same(ours, theirs)


def test_dtypes_and_copies():
    ours, theirs = pair(2, 3)
    assert ours.to(facula.float32).dtype is facula.float32
    same(ours.float().double(), np.ma.masked_array(theirs.data.astype("f4"), theirs.mask))
    for made in (ours.clone(), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        same(made, theirs)
        made.zero_()
    same(ours, theirs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * x).sum(), lambda x: x.exp().mean(), lambda x: (x.softmax(1) ** 2).sum(),
        lambda x: x[1].amax() * x.T.sum(), lambda x: x.var(1).sum() + x.clone().mul_(x).sum(),
        lambda x: facula.cat([x, x.tanh()]).norm(), lambda x: x.to(facula.float64).prod(1).sum(),
    ],
)  # fmt: skip
def test_gradients_are_those_of_differences(function):
    data, mask = parts(3, 5)
    mask[:, 2] = True
    ours = masked_tensor(facula.tensor(data), facula.tensor(mask), requires_grad=True)
    function(ours).backward()
    gradient = ours.grad
    assert is_masked_tensor(gradient) and facula.equal(gradient.get_mask(), facula.tensor(mask))
    step = 1e-6
    for place in zip(*np.nonzero(mask), strict=True):
        found = []
        for sign in (1, -1):
            moved = data.copy()
            moved[place] += sign * step
            found.append(function(masked_tensor(facula.tensor(moved), facula.tensor(mask))).item())
        expected = (found[0] - found[1]) / (2 * step)
        assert gradient.get_data()[place].item() == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_masked_elements_get_no_gradient_though_they_are_nan():
    data = facula.tensor([1.0, float("nan"), 3.0])
    mask = facula.tensor([True, False, True])
    ours = masked_tensor(data, mask, requires_grad=True)
    (ours * ours).sum().backward()
    assert ours.grad.to_tensor(0).tolist() == [2, 0, 6]


def test_second_derivatives():
    data, mask = parts(6)
    ours = masked_tensor(facula.tensor(data), facula.tensor(mask), requires_grad=True)
    (first,) = facula.autograd.grad((ours**3).sum(), ours, create_graph=True)
    (second,) = facula.autograd.grad(first.sum(), ours)
    np.testing.assert_allclose(second.to_tensor(0).numpy(), np.where(mask, 6 * data, 0))


def test_as_masked_tensor_passes_gradients_on():
    data, mask = parts(4)
    leaf = facula.tensor(data, requires_grad=True)
    ours = as_masked_tensor(leaf * 2, facula.tensor(mask))
    (ours * ours).sum().backward()
    np.testing.assert_allclose(leaf.grad.to_tensor(0).numpy(), np.where(mask, 8 * data, 0))
    with pytest.warns(UserWarning, match="not recommended"):
        other = masked_tensor(leaf, facula.tensor(mask))
    assert not other.requires_grad


@pytest.mark.parametrize("layout", [facula.sparse_coo, facula.sparse_csr])
def test_sparse_layouts(layout):
    ours, theirs = pair(3, 4)
    mask = ours.get_mask().to_sparse(layout=layout)
    sparse = masked_tensor(ours.get_data().sparse_mask(mask), mask, requires_grad=True)
    assert sparse.layout is layout and sparse.is_sparse
    same(sparse.exp(), np.ma.exp(theirs))
    same(sparse * sparse, theirs * theirs)
    same(sparse.cos().to_dense(), np.ma.cos(theirs))
    assert sparse.sum().item() == pytest.approx(theirs.sum())
    (sparse * sparse).sum().backward()
    same(sparse.grad, 2 * theirs)
    back = ours.to_sparse(layout=layout)
    assert back.layout is layout
    same(back, theirs)
    assert sparse.is_sparse_coo() is (layout is facula.sparse_coo)
    with pytest.raises(ValueError, match="do not have is_contiguous"):
        sparse.is_contiguous()
    with pytest.raises(TypeError, match="reduction of all elements"):
        sparse.sum(0)


def test_what_does_not_fit_is_refused():
    data, mask = facula.zeros(3, 4), facula.ones(3, 4).bool()
    ours = masked_tensor(data, mask)
    for arguments, error, words in (
        ((ours, mask), TypeError, "data must be a Tensor"),
        ((data, 0), TypeError, "mask must be a Tensor"),
        ((data.to_sparse(), mask), TypeError, "same layout"),
        ((data.to_sparse_csc(), mask.to_sparse_csc()), TypeError, "not supported"),
        ((data, data), TypeError, "mask must have dtype bool"),
        ((data, mask[0]), ValueError, r"data.dim\(\) must equal"),
        ((data, mask[:2]), ValueError, r"data.size\(\) must equal"),
    ):
        with pytest.raises(error, match=words):
            masked_tensor(*arguments)
    for call in (
        lambda: ours @ ours.T,
        lambda: ours.median(1),
        lambda: facula.add(ours, 1, out=data),
    ):
        with pytest.raises(TypeError, match="required"):
            call()
    with pytest.raises(RuntimeError, match="floating"):
        masked_tensor(mask, mask, requires_grad=True)


def test_printing():
    data = facula.arange(6.0).reshape(2, 3)
    mask = facula.tensor([[True, False, True], [True, True, False]])
    assert repr(masked_tensor(data, mask)) == (
        "MaskedTensor(\n  [\n    [  0.0000,       --,   2.0000],\n    [  3.0000,   4.0000,       --]\n  ]\n)"
    )
    assert repr(masked_tensor(data, mask).sum()) == "MaskedTensor(  9.0000, True)"
    assert repr(masked_tensor(facula.tensor(1), facula.tensor(False))) == "MaskedTensor(--, False)"
    assert repr(masked_tensor(data.long()[0], mask[0])) == "MaskedTensor(\n  [0,       --, 2]\n)"


def test_numbers_of_masked_elements():
    one = MaskedTensor(facula.tensor([1.5, 2.0]), facula.tensor([True, False]))
    assert float(one[0]) == 1.5 and int(one[0]) == 1 and bool(one[0] > 1)
    with pytest.raises(ValueError, match="element that counts"):
        one[1].item()
    assert one.is_contiguous() and one.get_data().tolist() == [1.5, 2.0]
