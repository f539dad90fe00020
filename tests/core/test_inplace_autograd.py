"""Gradients through in-place writes, on tensors and on views, against functional rewrites."""

import pytest

import facula
from facula.autograd import gradcheck


def leaf(*shape):
    return facula.randn(*shape, dtype=facula.float64, requires_grad=True)


def replaced(x, index, value):
    """`x` with `value` at `index`, without writing in place."""
    mask = facula.zeros(x.shape, dtype=facula.bool)
    mask[index] = True
    filled = facula.zeros(x.shape, dtype=x.dtype).index_put(
        tuple(mask.nonzero().t()), (value + facula.zeros(x.shape, dtype=x.dtype)[index]).reshape(-1)
    )
    return facula.where(mask, filled, x)


# in place -> the same without it
PAIRS = {
    "row times a number": (
        lambda x, w: change(x, lambda y: y[0].mul_(3)),
        lambda x, w: replaced(x, (0,), x[0] * 3),
    ),
    "column times a tensor": (
        lambda x, w: change(x, lambda y: y[:, 1].mul_(w[:, 0])),
        lambda x, w: replaced(x, (slice(None), 1), x[:, 1] * w[:, 0]),
    ),
    "assignment": (
        lambda x, w: change(
            x, lambda y: y.__setitem__((slice(1, 3), slice(None, None, 2)), w[:2, :2])
        ),
        lambda x, w: replaced(x, (slice(1, 3), slice(None, None, 2)), w[:2, :2]),
    ),
    "view of a view": (
        lambda x, w: change(x, lambda y: y.t()[1:].narrow(1, 0, 2).exp_()),
        lambda x, w: replaced(x, (slice(0, 2), slice(1, None)), x[:2, 1:].exp()),
    ),
    "view taken before the write": (
        lambda x, w: views_follow(x),
        lambda x, w: (x * 2).sin()[1] * x[1] * 2,
    ),
    "base written after the view": (
        lambda x, w: base_written(x, w),
        lambda x, w: (x * 2)[:, 0] * w[:, 0],
    ),
    "two writes to overlapping views": (
        lambda x, w: change(x, lambda y: (y[:2].mul_(w[:2]), y[1:].mul_(w[1:]))),
        lambda x, w: x * facula.cat([w[:1], w[1:2] * w[1:2], w[2:]]),
    ),
    "copy": (
        lambda x, w: change(x, lambda y: y[0].copy_(w[1])),
        lambda x, w: replaced(x, (0,), w[1]),
    ),
    "fill cuts off": (
        lambda x, w: change(x, lambda y: y[0].fill_(2.0)),
        lambda x, w: replaced(x, (0,), facula.full((3,), 2.0, dtype=x.dtype)),
    ),
    "zero": (
        lambda x, w: change(x, lambda y: y[:, 2].zero_()),
        lambda x, w: replaced(x, (slice(None), 2), facula.zeros(3, dtype=x.dtype)),
    ),
    "addcmul": (
        lambda x, w: change(x, lambda y: y.addcmul_(w, w, value=0.5)),
        lambda x, w: x * 2 + 0.5 * w * w,
    ),
    "diagonal": (
        lambda x, w: change(x, lambda y: y.diagonal().mul_(w[0])),
        lambda x, w: x * 2 * (1 + facula.diag(w[0] - 1)),
    ),
    "masked fill": (
        lambda x, w: change(x, lambda y: y.masked_fill_(facula.eye(3, dtype=facula.bool), 7.0)),
        lambda x, w: facula.where(facula.eye(3, dtype=facula.bool), 7.0, x * 2),
    ),
    "index put": (
        lambda x, w: change(x, lambda y: y.index_put_((facula.tensor([0, 2]),), w[:2])),
        lambda x, w: facula.stack([w[0], x[1] * 2, w[1]]),
    ),
    "scatter": (
        lambda x, w: change(x, lambda y: y.scatter_(0, facula.tensor([[2, 2, 2]]), w[:1])),
        lambda x, w: facula.cat([(x * 2)[:2], w[:1]]),
    ),
    "squeeze in place": (
        lambda x, w: (x * 2)[:1].squeeze_().mul_(w[0]),
        lambda x, w: x[0] * 2 * w[0],
    ),
    "transpose in place": (
        lambda x, w: (x * 2).t_() * w,
        lambda x, w: x.t() * 2 * w,
    ),
    "sigmoid": (
        lambda x, w: change(x, lambda y: y[1].sigmoid_()),
        lambda x, w: replaced(x, (1,), x[1].sigmoid()),
    ),
    "real part": (
        lambda x, w: real_written(x, w),
        lambda x, w: w * (x * 2),
    ),
    "a part added to itself": (
        lambda x, w: change(x, lambda y: y[0].add_(y[1])),
        lambda x, w: facula.cat([(x[0] * 2 + x[1] * 2)[None], x[1:] * 2]),
    ),
    "complex numbers as pairs": (
        lambda x, w: pairs_written(x, w),
        lambda x, w: facula.stack([x * 2 * w, w * 3 * w], -1),
    ),
    "view of a constant": (
        lambda x, w: view_of_constant(x),
        lambda x, w: x[:2] * 2,
    ),
    "split": (
        lambda x, w: facula.cat([a * 2 for a in (x * 2).split(1)]),
        lambda x, w: x * 4,
    ),
}
#: the functional form is that of a change to `x * 2`
OF_THE_DOUBLE = {
    "row times a number",
    "column times a tensor",
    "view of a view",
    "assignment",
    "copy",
    "fill cuts off",
    "zero",
    "sigmoid",
    "two writes to overlapping views",
}


def change(x, action):
    """`x * 2`, changed."""
    y = x * 2
    action(y)
    return y


def views_follow(x):
    y = x * 2
    v = y[1]
    y.sin_()
    return v * x[1] * 2


def base_written(x, w):
    y = x * 2
    v = y[:, 0]
    y.mul_(w)
    return v


def pairs_written(x, w):
    pairs = facula.stack([x * 2, w * 3], -1)
    facula.view_as_complex(pairs).mul_(w)
    return pairs


def view_of_constant(x):
    y = facula.zeros(3, 3, dtype=x.dtype)
    v = y[:2]
    y.add_(x)
    return v * 2


def real_written(x, w):
    z = facula.complex(x * 2, w * 3)
    z.real.mul_(w)
    return z.real


@pytest.mark.parametrize("name", PAIRS)
def test_equals_the_functional_form(name):
    written, plain = PAIRS[name]
    x, w = leaf(3, 3), leaf(3, 3)
    expected = plain(x * 2 if name in OF_THE_DOUBLE else x, w)
    actual = written(x, w)
    assert facula.allclose(actual, expected)
    seed = facula.randn_like(expected)
    for one, other in zip(
        facula.autograd.grad(actual, (x, w), seed, allow_unused=True, materialize_grads=True),
        facula.autograd.grad(expected, (x, w), seed, allow_unused=True, materialize_grads=True),
        strict=True,
    ):
        assert facula.allclose(one, other)


@pytest.mark.parametrize("name", PAIRS)
def test_finite_differences(name):
    written, _ = PAIRS[name]
    assert gradcheck(written, (leaf(3, 3), leaf(3, 3)))


def test_what_an_operator_needs_may_not_be_overwritten():
    x = leaf(3)
    y = x.exp()
    z = y.sin()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    x = leaf(3)
    y = x.exp()
    y.add_(1)  # exp keeps its result
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_overwriting_a_view_of_what_is_needed():
    x = leaf(3, 3)
    y = x * 1
    z = (y * y).sum()
    y[0, 0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_what_nobody_needs_may_be_overwritten():
    x = leaf(3)
    y = x * 2 + 1
    y.mul_(3).add_(1)
    y.sum().backward()
    assert facula.allclose(x.grad, facula.full((3,), 6.0, dtype=x.dtype))


def test_writes_through_data_and_without_recording():
    x = facula.ones(3, requires_grad=True)
    y = x * x
    x.data.mul_(10)  # not counted, as documented
    y.sum().backward()
    assert x.grad.tolist() == [20, 20, 20]
    with facula.no_grad():
        x.mul_(2)
    assert x.tolist() == [20, 20, 20] and x.is_leaf and x.requires_grad
    z = x * x
    with facula.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_leaves_and_their_views_are_protected():
    x = facula.ones(3, requires_grad=True)
    version = x._version
    for action in (
        lambda: x.mul_(2),
        lambda: x[0].mul_(2),
        lambda: x.__setitem__(0, 1.0),
        lambda: x.view(3).zero_(),
        lambda: x.copy_(facula.zeros(3)),
    ):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            action()
    assert x.tolist() == [1, 1, 1] and x._version == version


@pytest.mark.parametrize(
    "split",
    [lambda y: y.unsafe_split(2), lambda y: y.unsafe_chunk(2), lambda y: y.tensor_split(2)],
)
def test_views_out_of_one_call_may_be_written(split):
    x = leaf(4)
    y = x * 1
    parts = split(y)
    parts[0].mul_(3)
    (y.sum() + parts[1].sum()).backward()
    first = parts[0].numel()
    expected = facula.ones(4, dtype=x.dtype)
    expected[:first] = 3
    expected[first : first + parts[1].numel()] += 1
    assert facula.equal(x.grad, expected)


def test_a_view_sees_the_history_that_its_base_gets_later():
    x = leaf(3)
    y = facula.zeros(3, dtype=x.dtype)
    before, inner = y[1:], y[1:][:1]
    assert not before.requires_grad
    y.mul_(2).add_(x)
    assert before.requires_grad and inner.requires_grad
    (before.sum() + inner.sum()).backward()
    assert x.grad.tolist() == [0, 2, 1]


def test_strided_views_by_absolute_offset():
    x = leaf(12)
    assert gradcheck(lambda x: x[3:].as_strided((3, 2), (2, 1), 4), (x,))
    assert gradcheck(lambda x: x.as_strided((4, 3), (2, 1), 1).sin(), (x,))
    assert gradcheck(lambda x: (x * 1)[2:8].as_strided((2,), (2,), 3).mul_(2), (x,))


def test_a_view_made_without_recording():
    x = facula.ones(3, requires_grad=True)
    y = x * 1
    with facula.no_grad():
        v = y[:2]
    with pytest.raises(RuntimeError, match="no_grad mode"):
        v.mul_(2)
    with facula.no_grad():
        v.mul_(2)
    assert y.tolist() == [2, 2, 1]


def test_in_place_makes_a_constant_depend():
    x = leaf(3)
    y = facula.zeros(2, 3, dtype=facula.float64)
    y[0] = x * 2
    y[1].add_(x)
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_copy_into_a_slice_casts_the_gradient():
    x = facula.ones(3, dtype=facula.float32, requires_grad=True)
    y = facula.zeros(3, dtype=facula.float64)
    y.copy_(x * 2)
    y.sum().backward()
    assert x.grad.dtype == facula.float32 and x.grad.tolist() == [2, 2, 2]


def test_detach_in_place():
    x = leaf(3)
    y = x * 2
    assert y.detach_() is y and y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="view"):
        (x * 2)[0].detach_()
