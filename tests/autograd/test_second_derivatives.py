"""Second derivatives of functions whose first gradient is linear, empty or met at zero.

The first gradient is differentiated against finite differences of itself (`gradgradcheck`), or
against what is known of it: of a linear function it is a function of the arguments all the same, so
that differentiating it again gives zeros.
"""

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.autograd import grad, gradcheck, gradgradcheck


def leaf(*shape, dtype=facula.float64):
    return facula.randn(*shape, dtype=dtype, requires_grad=True)


def second(function, *leaves):
    """Gradients of the sum of all first gradients; None where a leaf has no part in them."""
    out = function(*leaves)
    firsts = grad(out, leaves, facula.ones_like(out), create_graph=True)
    assert all(g.requires_grad for g in firsts)
    return grad(firsts, leaves, [facula.ones_like(g) for g in firsts], allow_unused=True)


CONVOLUTIONS = {
    "conv1d": (F.conv1d, (1, 2, 5), (4, 1, 3), {"stride": 2, "groups": 2}),
    "conv2d": (F.conv2d, (1, 2, 4, 3), (2, 2, 2, 2), {"padding": 1}),
    "conv3d": (F.conv3d, (1, 1, 2, 3, 2), (2, 1, 2, 2, 1), {}),
    "conv_transpose1d": (F.conv_transpose1d, (2, 4), (2, 2, 3), {"stride": 2, "output_padding": 1}),
    "conv_transpose2d": (F.conv_transpose2d, (1, 2, 3, 2), (2, 1, 2, 2), {"groups": 2}),
    "conv_transpose3d": (F.conv_transpose3d, (1, 1, 2, 2, 2), (1, 2, 2, 1, 2), {"dilation": 2}),
}


@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_with_a_bias(name, dtype):
    function, x, weight, settings = CONVOLUTIONS[name]
    channels = weight[1] * settings.get("groups", 1) if "transpose" in name else weight[0]
    leaves = leaf(*x, dtype=dtype), leaf(*weight, dtype=dtype), leaf(channels, dtype=dtype)
    run = lambda x, w, b: function(x, w, b, **settings)  # noqa: E731
    plain = function(leaves[0], leaves[1], **settings).detach().numpy()
    along = leaves[2].detach().numpy().reshape(-1, *[1] * (len(weight) - 2))
    np.testing.assert_allclose(run(*leaves).detach().numpy(), plain + along, rtol=1e-12)
    assert gradcheck(run, leaves)
    assert gradgradcheck(run, leaves)
    found = second(run, *leaves)  # the bias's own first gradient has a history too
    assert found[0] is not None and found[1] is not None and found[2] is None


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (3,)])
def test_nll_loss(shape, reduction):
    x = leaf(*shape)
    target = facula.randint(0, 3, [n for d, n in enumerate(shape) if d != min(1, len(shape) - 1)])
    weight = facula.tensor([0.5, 2.0, 1.5], dtype=facula.float64)
    for settings in ({}, {"weight": weight}, {"ignore_index": 1}):
        run = lambda x: F.nll_loss(x, target, reduction=reduction, **settings)  # noqa: B023, E731
        if reduction != "mean" or not bool((target == 1).all()):
            assert gradcheck(run, (x,))
            assert bool((second(run, x)[0] == 0).all())
    # exp makes the outer function curved, so that the second derivative is not zero
    assert gradgradcheck(lambda x: F.nll_loss(x.exp(), target, weight, reduction=reduction), (x,))


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_max_pool(dims):
    pool = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
    samples = facula.rand(1, 2, dims, dtype=facula.float64)
    x = leaf(1, 2, *[5] * dims)
    run = lambda x: pool(x, 2, output_size=2, _random_samples=samples)  # noqa: E731
    values, indices = pool(x, 2, output_size=2, return_indices=True, _random_samples=samples)
    flat = x.detach().numpy().reshape(1, 2, -1)
    chosen = np.take_along_axis(flat, indices.numpy().reshape(1, 2, -1), -1)
    np.testing.assert_array_equal(values.detach().numpy().reshape(1, 2, -1), chosen)
    assert gradcheck(run, (x,))
    assert gradgradcheck(lambda x: run(x.sin()), (x,))
    assert bool((second(run, x)[0] == 0).all())


def test_extremes_have_no_history_by_their_positions():
    x = leaf(3, 4)
    values, _ = x.max(-1)
    (first,) = grad(values.sum(), x, create_graph=True)
    assert not first.requires_grad  # linear in what came in, and in nothing else
    assert gradgradcheck(lambda x: x.sin().max(-1)[0], (x,))
    assert gradgradcheck(lambda x: x.exp().sort(-1)[0].cumsum(-1), (x,))


@pytest.mark.parametrize("hermitian", [False, True])
def test_pseudo_inverse_of_nothing(hermitian):
    for shape in ((0, 3, 3), (2, 0, 0)):
        x = leaf(*shape)
        (found,) = second(lambda x: facula.linalg.pinv(x, hermitian=hermitian), x)
        assert found.shape == shape
    assert facula.linalg.pinv(facula.ones(2, 0, 3)).shape == (2, 3, 0)


def test_numbers_beside_complex_tensors():
    z, w = leaf(3, 4, dtype=facula.complex128), leaf(4, dtype=facula.complex128)
    a, b = leaf(3, dtype=facula.complex128), leaf(4, dtype=facula.complex128)
    assert gradgradcheck(facula.trapezoid, (z, w))
    assert gradgradcheck(facula.cumulative_trapezoid, (z, w))
    assert gradgradcheck(lambda z, a, b: facula.addr(z, a, b, beta=2, alpha=3), (z, a, b))
    assert gradgradcheck(facula.cov, (z,))


def test_modulus_at_zero():
    z = facula.tensor([0j, 3 + 4j], dtype=facula.complex128, requires_grad=True)
    (first,) = grad(z.abs().sum(), z, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [0, 0.6 + 0.8j])
    (found,) = grad(first, z, facula.tensor([1 + 2j, 1 + 2j], dtype=facula.complex128))
    # the derivative of z / |z| in direction d is i z Im(conj(z) d) / |z|^3
    direction = 1j * (3 + 4j) * ((3 - 4j) * (1 + 2j)).imag / 125
    np.testing.assert_allclose(found.numpy(), [0, direction], atol=1e-15)


def normalized(x, axes, centres):
    """What the norms below do, in NumPy."""
    centred = x - x.mean(axes, keepdims=True) if centres else x
    return centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)


NORMS = {
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), (-1,), True),
    "rms_norm": (lambda x: F.rms_norm(x, (4,), eps=1e-5), (-1,), False),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), (0, 2), True),
    "instance_norm": (lambda x: F.instance_norm(x), (2,), True),
    "group_norm": (lambda x: F.group_norm(x, 1), (1, 2), True),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_halves_beyond_the_root_of_their_range(name):
    function, axes, centres = NORMS[name]
    random = np.random.RandomState(4)
    values, weights, direction = (random.randint(-900, 900, (2, 2, 4)).astype("f8") for _ in "abc")
    weights *= 20  # derivatives of a norm are small where its argument is large

    x = facula.tensor(values, dtype=facula.float16, requires_grad=True)
    total = (function(x).float() * facula.tensor(weights, dtype=facula.float32)).sum()
    (first,) = grad(total, x, create_graph=True)
    assert first.dtype is facula.float16
    (found,) = grad(first, x, facula.tensor(direction, dtype=facula.float16))

    def scalar(at):
        return (normalized(at, axes, centres) * weights).sum()

    expected_first, expected = np.empty_like(values), np.empty_like(values)
    for place in np.ndindex(values.shape):
        step = np.zeros_like(values)
        step[place] = 0.25
        along = direction * 5e-4
        ahead, behind = values + step, values - step
        expected_first[place] = (scalar(ahead) - scalar(behind)) / 0.5
        mixed = scalar(ahead + along) - scalar(ahead - along)
        mixed -= scalar(behind + along) - scalar(behind - along)
        expected[place] = mixed / (4 * 0.25 * 5e-4)
    for got, want in ((first.detach(), expected_first), (found, expected)):
        bound = 4e-3 * np.abs(want).max()
        np.testing.assert_allclose(got.numpy().astype("f8"), want, rtol=4e-3, atol=bound)


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3.5, float("inf"), -1])
def test_tangents_of_norms_at_zero(order):
    norm = lambda x: facula.linalg.vector_norm(x, order)  # noqa: E731
    _, tangent = facula.func.jvp(norm, (facula.zeros(4),), (facula.ones(4),))
    assert tangent.item() == 0.0  # the subgradient zero, as backward gives it
    x = facula.zeros(4, requires_grad=True)
    (first,) = grad(norm(x), x)
    assert bool((first == 0).all())


@pytest.mark.parametrize("order", [1.1, 1.5, 1.9])
def test_second_derivatives_of_norms_beside_a_zero(order):
    values = np.array([1.0, -2.0, 0.5])
    power = (np.abs(values) ** order).sum()
    ratio = np.abs(values) ** (order - 1) * np.sign(values)
    # d2/dx_i dx_j of (sum |x|^p)^(1/p), applied to a vector of ones
    expected = np.abs(values) ** (order - 2) * power - ratio * ratio.sum()
    expected *= (order - 1) * power ** (1 / order - 2)
    x = facula.tensor([1.0, 0.0, -2.0, 0.5], dtype=facula.float64, requires_grad=True)
    (found,) = second(lambda x: facula.linalg.vector_norm(x, order), x)
    assert found[1].isnan()  # the slope of |x|^(p - 1) at zero has no bound
    np.testing.assert_allclose(found[[0, 2, 3]].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_halves(masked):
    random = np.random.RandomState(2)
    query, key, value, weights, direction = (
        np.round(random.uniform(-6, 6, (1, 1, 3, 4))) for _ in "abcde"
    )
    mask = random.uniform(-2, 2, (1, 1, 3, 3)).astype("f2").astype("f8") if masked else 0.0

    def scalar(q):
        scores = q @ key.swapaxes(-1, -2) / 2 + mask
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return (powers / powers.sum(-1, keepdims=True) @ value * weights).sum()

    q, k, v, w, d = (
        facula.tensor(x, dtype=facula.float16) for x in (query, key, value, weights, direction)
    )
    q.requires_grad_()
    bias = facula.tensor(mask, dtype=facula.float16) if masked else None
    out = F.scaled_dot_product_attention(q, k, v, bias)
    (first,) = grad((out.float() * w).sum(), q, create_graph=True)
    (found,) = grad(first, q, d)
    assert found.dtype is facula.float16
    expected = np.empty_like(query)
    for place in np.ndindex(query.shape):
        step = np.zeros_like(query)
        step[place] = 1e-4
        along = direction * 1e-4
        ahead, behind = query + step, query - step
        mixed = scalar(ahead + along) - scalar(ahead - along)
        expected[place] = (mixed - scalar(behind + along) + scalar(behind - along)) / 4e-8
    bound = 4e-3 * np.abs(expected).max()
    np.testing.assert_allclose(found.numpy().astype("f8"), expected, rtol=4e-3, atol=bound)


@pytest.mark.parametrize("space", [1, 2, 3])
@pytest.mark.parametrize("adaptive", [False, True])
def test_largest_of_windows(space, adaptive):
    """Which element is the largest does not change with it: the second derivative is zero."""
    name = f"{'adaptive_' if adaptive else ''}max_pool{space}d"
    run = lambda x: getattr(F, name)(x, 2)  # noqa: E731
    x = leaf(1, 2, *(4,) * space)
    (found,) = second(run, x)
    assert found.shape == x.shape and not found.any()
    assert gradgradcheck(run, (x,))


def test_random_slopes():
    """The slope does not change with the element; without elements there is a history too."""
    for x in (leaf(5), leaf(1, 0, 3)):
        y = F.rrelu(x, training=True)
        (found,) = second(lambda x: F.rrelu(x, 0.1, 0.3, training=True), x)
        assert found.shape == x.shape and not found.any()
        (slope,) = grad(y, x, facula.ones_like(y))
        assert bool(((slope == 1) == (x > 0)).all())
        np.testing.assert_allclose(y.detach().numpy(), (slope * x).detach().numpy(), rtol=1e-15)


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_equal_exponents(name):
    """The share of one of two equals is 1/2 and has a slope: it was taken for a constant."""
    function = getattr(facula, name)
    x = facula.tensor([1.5, -2.0, 0.0, 3.0], dtype=facula.float64, requires_grad=True)
    y = facula.tensor([1.5, -2.0, 0.0, 2.0], dtype=facula.float64, requires_grad=True)
    assert gradcheck(function, (x, y))
    assert gradgradcheck(function, (x, y))
    ends = facula.tensor([float("inf"), -float("inf")], dtype=facula.float64, requires_grad=True)
    (first,) = grad(function(ends, ends.detach()).sum(), ends, create_graph=True)
    assert first.tolist() == [0.5, 0.5]
    assert grad(first.sum(), ends)[0].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [facula.float64, facula.complex128])
def test_slopes_of_damped_waves_at_zero(dtype):
    """sin(x) / x and its like have series around zero: second derivatives were NaN there."""
    x = facula.tensor([0.0, 0.02, -0.3, 1.25], dtype=dtype, requires_grad=True)
    assert gradgradcheck(facula.sinc, (x,))
    (first,) = grad(facula.sinc(x).sum().real, x, create_graph=True)
    (found,) = grad(first.sum().real, x)
    assert found[0].item() == pytest.approx(-(np.pi**2) / 3, rel=1e-14)
    if dtype is facula.float64:
        bessel = facula.special.spherical_bessel_j0
        assert gradgradcheck(bessel, (x,))
        (first,) = grad(bessel(x).sum(), x, create_graph=True)
        assert grad(first.sum(), x)[0][0].item() == pytest.approx(-1 / 3, rel=1e-14)


#: functions of complex numbers and the axes on which none of them is singular or cut
ON_AXES = {
    "exp": "ri", "exp2": "ri", "sin": "ri", "cos": "ri", "tan": "r", "sinh": "ri", "cosh": "ri",
    "tanh": "ri", "sinc": "ri", "sqrt": "r", "atanh": "i", "nn.functional.silu": "r",
    "nn.functional.tanhshrink": "ri",
}  # fmt: skip


def named(name):
    place = facula
    for part in name.split("."):
        place = getattr(place, part)
    return place


@pytest.mark.parametrize("name", ON_AXES)
def test_complex_functions_on_the_axes(name):
    """A part of the argument that is exactly zero has a slope like others: it was a constant."""
    points = []
    if "r" in ON_AXES[name]:
        points += [1.25, 0.05] if name == "sqrt" else [1.25, -0.7, 0.05]
    if "i" in ON_AXES[name]:
        points += [0.5j, -0.3j]
    if "ri" == ON_AXES[name]:
        points.append(0.0)
    x = facula.tensor(points, dtype=facula.complex128, requires_grad=True)
    assert gradcheck(named(name), (x,))
    assert gradgradcheck(named(name), (x,))


@pytest.mark.parametrize("name", ["logaddexp", "pow"])
def test_complex_pairs_on_the_axes(name):
    x = facula.tensor([0.5, 2.0, 1.5, 0.5j, 1.0], dtype=facula.complex128, requires_grad=True)
    y = facula.tensor([2.0, 1.0, -1.5, 1.0, 1j], dtype=facula.complex128, requires_grad=True)
    assert gradcheck(named(name), (x, y))
    assert gradgradcheck(named(name), (x, y))


def test_a_root_on_its_cut():
    """Above the negative numbers the root's real part grows with the imaginary part."""
    z = facula.tensor([complex(-4.0, 0.0), complex(-4.0, -0.0)], dtype=facula.complex128)
    z.requires_grad_()
    (first,) = grad(facula.sqrt(z), z, facula.ones_like(z), create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [0.25j, -0.25j], atol=1e-15)
    (found,) = grad(first, z, facula.ones_like(z))
    # conj(-1/4 z**(-3/2)), with z**(-3/2) = 1/8 (-i)**3 = i/8 above, -i/8 below
    np.testing.assert_allclose(found.numpy(), [0.03125j, -0.03125j], atol=1e-15)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_products_with_zeros(name, include_self):
    """Two zeros at a place: the gradient is zero, and its slope the product of the others."""
    index = facula.tensor([0, 1, 0, 1, 0, 1, 1])
    run = lambda own, x: getattr(own, name)(  # noqa: E731
        0, index, x, "prod", include_self=include_self
    )
    for own in ([0.0, 2.0], [1.5, 0.0]):
        for x in ([1.5, 0, -2, 0, 0.3, 2, 3], [0, 0, 0, 1, 2, 0, 0], [0, 0, 0, 1, 2, 3, -1]):
            leaves = [facula.tensor(v, dtype=facula.float64, requires_grad=True) for v in (own, x)]
            assert gradcheck(run, leaves)
            assert gradgradcheck(run, leaves)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
def test_losses_of_exact_predictions(name, reduction):
    """The square is curved where prediction and target agree: the square of abs() was not."""
    target = facula.tensor([0.5, -1.0, 0.0, 3.0], dtype=facula.float64)
    x = facula.tensor([0.5, -1.0, 0.25, 0.0], dtype=facula.float64, requires_grad=True)
    run = lambda x: getattr(F, name)(x, target, reduction=reduction)  # noqa: E731
    assert gradcheck(run, (x,))
    assert gradgradcheck(run, (x,))


@pytest.mark.parametrize("settings", ["plain", "weight", "pos_weight"])
@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_cross_entropy_of_zero_scores(settings, reduction):
    """sigmoid(0) is 1/2: abs() and clamp(), which had no share of that slope, made it 0 or 1."""
    target = facula.tensor([0.0, 1.0, 0.25], dtype=facula.float64)
    number = facula.tensor([0.5, 2.0, 3.0], dtype=facula.float64)
    more = {} if settings == "plain" else {settings: number}
    x = facula.tensor([0.0, 0.0, 0.0], dtype=facula.float64, requires_grad=True)
    run = lambda x: F.binary_cross_entropy_with_logits(  # noqa: E731
        x, target, reduction=reduction, **more
    )
    weight = number.numpy() if settings == "weight" else np.ones(3)
    positive = number.numpy() if settings == "pos_weight" else np.ones(3)
    expected = weight * ((1 - target.numpy()) - positive * target.numpy()) / 2
    (found,) = grad(run(x).sum(), x)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)
    batch = facula.func.vmap(facula.func.grad(lambda x: run(x).sum()))(x.detach().expand(2, 3))
    np.testing.assert_allclose(batch.numpy(), [expected, expected], rtol=1e-15)
    assert gradcheck(run, (x,))
    assert gradgradcheck(run, (x,))


def test_hessians_beside_functions_in_steps():
    """The zero gradient of sign() was a tensor without elements below `vmap`: an error of devices."""
    x = facula.tensor([0.5, -2.0, 3.0], dtype=facula.float64)
    for step in (facula.sign, facula.abs, facula.round, lambda x: x * x.sign()):
        found = facula.func.hessian(lambda x: (x * x + step(x)).sum())(x)  # noqa: B023
        assert found.tolist() == (2 * np.eye(3)).tolist()
        twice = facula.func.jacrev(facula.func.jacrev(lambda x: (x**3 + step(x)).sum()))(x)  # noqa: B023
        np.testing.assert_allclose(twice.numpy(), np.diag(6 * x.numpy()))


def test_powers_of_the_number_zero():
    """log(0) of a Python number was an error of Python's where the gradient was to be differentiated again."""
    y = facula.tensor([1.0, 2.0, 0.5], dtype=facula.float64, requires_grad=True)
    for run in (lambda y: 0.0**y, lambda y: facula.pow(0.0, y)):
        assert gradcheck(run, (y,))
        assert gradgradcheck(run, (y,))
    (first,) = grad((facula.tensor(0.0).double() ** y).sum(), y, create_graph=True)
    assert first.tolist() == [0, 0, 0]


def test_no_slope_at_a_margin():
    """Scores that lie on the margin exactly count as far enough."""
    x = facula.tensor([[1.0, 0.0, 0.5]], dtype=facula.float64, requires_grad=True)
    (found,) = grad(F.multi_margin_loss(x, facula.tensor([0])), x)
    np.testing.assert_allclose(found.numpy(), [[-1 / 3, 0, 1 / 3]], rtol=1e-15)
    (found,) = grad(F.multilabel_margin_loss(x, facula.tensor([[0, -1, 1]])), x)
    np.testing.assert_allclose(found.numpy(), [[-1 / 3, 0, 1 / 3]], rtol=1e-15)
