"""Integers beyond 64 bits, and steps near their end: refused in one form, or read as Python reads them."""

import pytest

import facula

B = 2**70
F = facula.nn.functional


def x():
    return facula.arange(12.0).reshape(3, 4)


REFUSED = {
    "sizes": lambda: facula.zeros(B),
    "a list of sizes": lambda: facula.zeros((2, B)),
    "a view": lambda: x().view(-1, B),
    "a view with history": lambda: x().requires_grad_().view(B),
    "reshape": lambda: x().reshape(B, -1),
    "expand": lambda: x().expand(B, 3, 4),
    "strides": lambda: x().as_strided((2,), (B,)),
    "a dimension": lambda: x().unsqueeze(B),
    "two dimensions": lambda: x().transpose(0, B),
    "the size of a dimension": lambda: x().size(B),
    "the stride of a dimension": lambda: x().stride(-B),
    "a float as dimension": lambda: x().size(1.5),
    "a position": lambda: x()[B],
    "a position of several": lambda: x()[None, B],
    "a position to write to": lambda: x().__setitem__(B, 0),
    "select": lambda: x().select(0, B),
    "roll": lambda: x().roll(B),
    "tril": lambda: x().tril(B),
    "a range": lambda: facula.arange(0, B, B),
    "a long range": lambda: facula.arange(1e30),
    "a step that is no number": lambda: facula.arange(0, 1, float("nan")),
    "an end that is no integer": lambda: facula.linspace(0, float("inf"), 3, dtype=facula.int32),
    "an exponent": lambda: facula.logspace(float("nan"), 1, 3, dtype=facula.int8),
    "strides of a convolution": lambda: F.conv2d(
        facula.ones(1, 1, 4, 4), facula.ones(1, 1, 1, 1), stride=B
    ),
    "padding": lambda: F.pad(x(), (B, 0)),
    "classes": lambda: F.one_hot(facula.tensor([1]), B),
    "bins": lambda: facula.bincount(facula.tensor([1]), minlength=B),
    "an offset in memory": lambda: x().set_(x().untyped_storage(), B, (1,), (1,)),
    "a count": lambda: facula.frombuffer(bytearray(8), dtype=facula.uint8, count=B),
    "an offset": lambda: facula.frombuffer(bytearray(8), dtype=facula.uint8, offset=B),
    "three numbers for two dimensions": lambda: F.unfold(facula.ones(1, 1, 4, 4), (1, 1, 1)),
    "no numbers for two dimensions": lambda: F.unfold(facula.ones(1, 1, 4, 4), ()),
    "a list as a number": lambda: facula.histogram(x(), range=[None, 1.0]),
    "a range of three": lambda: facula.histogram(x(), range=[0.0, 1.0, 2.0]),
    "vectors beside matrices": lambda: facula.cat([x(), facula.ones(4)], -1),
    "stacked rows": lambda: facula.hstack([x(), facula.ones(4)]),
    "a table without rows": lambda: facula.embedding_renorm_(
        facula.tensor(1.0), facula.tensor([0]), 1.0, 2.0
    ),
    "an area below a number": lambda: facula.trapezoid(facula.tensor(1.0)),
    "areas below a number": lambda: facula.cumulative_trapezoid(facula.tensor(1.0)),
    "a vector product of numbers": lambda: facula.linalg.cross(
        facula.tensor(1.0), facula.tensor(1.0)
    ),
    "a form of numbers": lambda: F.bilinear(
        facula.tensor(1.0), facula.ones(5), facula.ones(1, 1, 5)
    ),
    "an order that is no number": lambda: facula.polygamma(float("nan"), x()),
    "an order without end": lambda: facula.polygamma(float("inf"), x()),
    "nothing to place": lambda: facula.sparse_coo_tensor(values=None),
    "no size to spread over": lambda: F.max_unpool2d(
        facula.ones(1, 1, 2, 2), facula.zeros(1, 1, 2, 2).long(), 2, output_size=[]
    ),
    "no kernel": lambda: facula.convolution(
        facula.ones(2), facula.ones(2), None, [1], [0], [1], False, [0], 1
    ),
    "more pairs than memory": lambda: facula.combinations(facula.ones(1).expand(2**31)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_call_can_mean_is_refused_in_our_own_form(name):
    with pytest.raises(
        (RuntimeError, ValueError, TypeError, IndexError), match=r"^\[[\w.:]+\] "
    ) as caught:
        REFUSED[name]()
    assert "hint: " in str(caught.value)


@pytest.mark.parametrize("far", [2**63 - 1, 2**63, B])
def test_slices_end_where_pythons_do(far):
    listed, tensor = [0, 1, 2], facula.arange(3)
    for cut in (
        slice(far),
        slice(-far, None),
        slice(None, -far),
        slice(1, far),
        slice(None, None, far),
        slice(1, None, far),
        slice(5, None, far),
        slice(-far, far, 2),
    ):
        assert tensor[cut].tolist() == listed[cut], cut
        assert tensor.reshape(1, 3)[:, cut].tolist() == [listed[cut]], cut


def test_the_step_of_a_slice_may_be_as_long_as_integers_are():
    """`(length + step - 1) / step` wrapped around: sizes below zero came out."""
    for step in (2**62, 2**63 - 1):
        assert facula.slice_copy(x(), 0, 0, 3, step).tolist() == [[0, 1, 2, 3]]
        assert x()[3::step].shape == (0, 4)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_combinations_are_those_of_itertools(with_replacement):
    import itertools

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    for count in range(6):
        values = [float(7 * i % 5) for i in range(count)]
        for r in range(1, 5):
            found = facula.combinations(facula.tensor(values), r, with_replacement)
            assert found.shape[1] == r
            assert found.tolist() == [list(row) for row in choose(values, r)], (count, r)


def test_a_source_without_dimensions_gets_a_gradient():
    source = facula.tensor(1.0, requires_grad=True)
    out = facula.zeros(0).scatter_add(0, facula.zeros(0, dtype=facula.int64), source)
    (grad,) = facula.autograd.grad(out.sum(), source)
    assert grad.shape == () and grad.item() == 0


def test_a_correction_that_is_no_number_gives_gradients_that_are_none():
    y = facula.ones(3, requires_grad=True)
    (grad,) = facula.autograd.grad(y.var(correction=float("nan")), y)
    assert grad.isnan().all()
