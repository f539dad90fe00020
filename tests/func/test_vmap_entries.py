"""`vmap` of operators whose results depend on values or on an entry's rank, against a loop."""

import itertools

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula.func import grad, jvp, vmap

ROWS = facula.tensor([[1.0, 0.0, 2.5], [0.5, 0.0, 0.0]])
ENDS = facula.tensor([1.0, 2.0])
WHOLE = facula.tensor([[1, 0, 3], [0, 0, 1]])
X = facula.arange(24.0).reshape(2, 3, 4)

CASES = {
    "linspace": (lambda x: facula.linspace(x, 3, 4), ENDS),
    "linspace to": (lambda x: facula.linspace(0, x, 3, dtype=facula.int64), ENDS),
    "logspace": (lambda x: facula.logspace(x, 3, 4, base=2.0), ENDS),
    "nonzero_static": (lambda x: facula.nonzero_static(x, size=2, fill_value=-7), ROWS),
    "nonzero_static 0": (lambda x: facula.nonzero_static(x, size=0), ENDS),
    "histogram": (lambda x: facula.histogram(x, 2, range=(0.0, 3.0)).hist, ROWS),
    "histogram edges": (lambda x: facula.histogram(x, 2).bin_edges, ROWS),
    "one_hot": (lambda x: F.one_hot(x, 4), WHOLE),
    "unsqueeze_copy": (lambda x: facula.unsqueeze_copy(x, 2), X),
    "unsqueeze_copy -1": (lambda x: facula.unsqueeze_copy(x, -1), X),
    "transpose_copy": (lambda x: facula.transpose_copy(x, 0, 0), ENDS),
    "count_nonzero": (lambda x: facula.count_nonzero(x, dim=()), ENDS),
    "count_nonzero rows": (lambda x: facula.count_nonzero(x, dim=()), X),
    "gather 0-d": (lambda x: facula.gather(x, 0, facula.tensor([0, 0])), ENDS),
    "gather 0-d index": (lambda x: facula.gather(x, 0, facula.tensor(1)), ROWS),
    "gather": (lambda x: facula.gather(x, -1, facula.tensor([[3, 0], [1, 1]])), X),
    "gather by": (lambda i: facula.gather(X[0], 0, i), facula.tensor([[[2, 0]], [[1, 1]]])),
    "resize_": (lambda x: x.clone().resize_(4, 3), X),
    "resize_ less": (lambda x: x.clone().resize_((5,)), X),
    "conv_transpose": (
        lambda x: F.conv_transpose1d(x, WHOLE[:, None], stride=2),
        WHOLE[:, :2, None],
    ),
}


ALONG = {
    "sort": lambda x: x.sort(0).values,
    "argsort": lambda x: x.argsort(0),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: x.cummax(0).indices,
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "sum": lambda x: x.sum(0),
    "sum keepdim": lambda x: x.sum(-1, keepdim=True),
    "prod": lambda x: x.prod(0),
    "mean": lambda x: x.mean(),
    "amax": lambda x: x.amax(0),
    "argmax": lambda x: x.argmax(0),
    "argmin flat": lambda x: x.argmin(),
    "max": lambda x: x.max(0).values,
    "median": lambda x: x.median(0).values,
    "kthvalue": lambda x: x.kthvalue(1, 0).values,
    "topk": lambda x: x.topk(1, 0).values,
    "flip": lambda x: x.flip(0),
    "any": lambda x: x.any(0),
    "norm": lambda x: facula.linalg.vector_norm(x),
}


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 4, 1), (3, 1, 4)])
@pytest.mark.parametrize("name", ALONG)
def test_along_a_dimension_of_small_entries(name, shape):
    """Numbers have one dimension for the sake of `dim`, and sizes of 1 stay."""
    batch = facula.tensor(np.random.default_rng(3).uniform(0.5, 2, shape))
    found = vmap(ALONG[name])(batch).numpy()
    expected = np.stack([ALONG[name](entry).numpy() for entry in batch])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_as_in_a_loop(name):
    function, batch = CASES[name]
    found = vmap(function)(batch).numpy()
    expected = np.stack([function(entry).numpy() for entry in batch])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    behind = vmap(function, in_dims=-1)(batch.movedim(0, -1)).numpy()
    np.testing.assert_array_equal(behind, expected)
    np.testing.assert_array_equal(vmap(function)(batch[:1]).numpy(), expected[:1])


def test_resize_to_more():
    found = vmap(lambda x: x.clone().resize_(15))(X).numpy()
    assert found.shape == (2, 15)
    np.testing.assert_array_equal(found[:, :12], X.numpy().reshape(2, 12))


def test_gather_outside():
    with pytest.raises(IndexError, match="gather"):
        vmap(lambda x: facula.gather(x, 2, facula.tensor([[0]])))(X)


@pytest.mark.parametrize("mapped", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolution(mapped, groups):
    def function(x, w, b):
        return F.conv_transpose1d(x, w, b, stride=2, groups=groups)

    shapes = (2, 4, 3), (4, 2, 3), (2 * groups,)
    args = [
        facula.randn(*([3] if at == 0 else []), *shape, dtype=facula.float64)
        for at, shape in zip(mapped, shapes, strict=True)
    ]
    found = vmap(function, in_dims=mapped)(*args).numpy()
    rows = [
        function(*[a[i] if at == 0 else a for a, at in zip(args, mapped, strict=True)]).numpy()
        for i in range(3)
    ]
    np.testing.assert_allclose(found, np.stack(rows), rtol=1e-12)


SUBSETS = [m for m in itertools.product((0, None), repeat=3) if any(d == 0 for d in m)]


@pytest.mark.parametrize("mapped", SUBSETS, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_and_their_gradients(mapped, groups, bias):
    """Whichever of input, weight and bias has a batch."""

    def function(x, w, b):
        return F.conv2d(x, w, b if bias else None, stride=(2, 1), padding=1, groups=groups)

    def slopes(x, w, b):
        return grad(lambda *args: (function(*args) ** 2).sum(), (0, 1, 2) if bias else (0, 1))(
            x, w, b
        )

    shapes = (2, 4, 5, 3), (6, 4 // groups, 3, 2), (6,)
    args = [
        facula.randn(*([3] if at == 0 else []), *shape, dtype=facula.float64)
        for at, shape in zip(mapped, shapes, strict=True)
    ]
    for called in (function, slopes):
        found = vmap(called, in_dims=mapped)(*args)
        rows = [
            called(*[a[i] if at == 0 else a for a, at in zip(args, mapped, strict=True)])
            for i in range(3)
        ]
        if called is function:
            found, rows = (found,), [(row,) for row in rows]
        for part, expected in zip(found, zip(*rows, strict=True), strict=True):
            np.testing.assert_allclose(
                part.numpy(), np.stack([e.numpy() for e in expected]), rtol=1e-11
            )


@pytest.mark.parametrize("moved", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_tangent_of_a_transposed_convolution(moved):
    values = [facula.randn(*s, dtype=facula.float64) for s in ((2, 4, 3), (4, 2, 3), (2,))]
    tangents = [facula.randn_like(v) for v in values]

    def function(*chosen):
        given = dict(zip(moved, chosen, strict=True))
        return F.conv_transpose1d(*[given.get(i, v) for i, v in enumerate(values)])

    primals, directions = [values[i] for i in moved], [tangents[i] for i in moved]
    _, found = jvp(function, tuple(primals), tuple(directions))
    step = 1e-6
    ahead = function(*[p + step * d for p, d in zip(primals, directions, strict=True)])
    behind = function(*[p - step * d for p, d in zip(primals, directions, strict=True)])
    np.testing.assert_allclose(found.numpy(), ((ahead - behind) / (2 * step)).numpy(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4, 3, 2), (2, 3)])
def test_nll_rows(shape):
    x = facula.randn(*shape)
    target = facula.randint(0, 3, [n for d, n in enumerate(shape) if d != min(2, len(shape) - 1)])
    for reduction in ("none", "sum"):
        function = lambda x, t: F.nll_loss(x, t, reduction=reduction)  # noqa: B023, E731
        found = vmap(function)(x, target).numpy()
        rows = [function(a, b).numpy() for a, b in zip(x, target, strict=True)]
        np.testing.assert_allclose(found, np.stack(rows), rtol=1e-6)
        shared = vmap(function, in_dims=(0, None))(x, target[0]).numpy()
        rows = [function(a, target[0]).numpy() for a in x]
        np.testing.assert_allclose(shared, np.stack(rows), rtol=1e-6)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "rows, values, dims",
    [
        ((3, 2, 6), (3, 2, 4), (0, 0)),
        ((2, 6), (3, 2, 4), (None, 0)),
        ((3, 2, 6), (2, 4), (0, None)),
        ((3, 6), (3, 2, 4), (0, 0)),
        ((3, 6), (2, 4), (0, None)),
        ((6,), (3, 2, 4), (None, 0)),
        ((3, 6), (3,), (0, 0)),
    ],
)
def test_searchsorted(rows, values, dims, right):
    random = np.random.default_rng(0)
    rows = np.sort(random.integers(0, 9, rows), -1)
    values = random.integers(0, 9, values)
    found = facula.vmap(lambda r, v: facula.searchsorted(r, v, right=right), in_dims=dims)(
        facula.tensor(rows), facula.tensor(values)
    )
    for entry in range(3):
        row = rows[entry] if dims[0] == 0 else rows
        value = values[entry] if dims[1] == 0 else values
        row = np.broadcast_to(row, (*value.shape[:-1], 6))
        side = "right" if right else "left"
        flat = zip(row.reshape(-1, 6), value.reshape(row.reshape(-1, 6).shape[0], -1), strict=True)
        wanted = np.concatenate([np.searchsorted(r, v, side) for r, v in flat])
        assert np.array_equal(found[entry].numpy().reshape(-1), wanted)


@pytest.mark.parametrize("batched", [True, False])
def test_windows_of_images_with_and_without_a_batch(batched):
    images = facula.randn(3, 2, 4, 5, 6, dtype=facula.float64)
    images = images if batched else images[:, 0]
    columns = facula.stack([F.unfold(image, (2, 3)) for image in images])
    assert facula.equal(vmap(lambda x: F.unfold(x, (2, 3)))(images), columns)
    folded = facula.stack([F.fold(c, (5, 6), (2, 3)) for c in columns])
    assert facula.equal(vmap(lambda c: F.fold(c, (5, 6), (2, 3)))(columns), folded)
    image = images[0].clone().requires_grad_()
    result = F.unfold(image, (2, 3))
    (found,) = facula.autograd.grad(result, image, columns, is_grads_batched=True)
    np.testing.assert_allclose(found.numpy(), folded.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(), lambda x: x.unsqueeze_(1), lambda x: x.unsqueeze_(0).squeeze_(0),
        lambda x: x.transpose_(0, -1), lambda x: x.swapaxes_(0, 1), lambda x: x.as_strided_((4, 3), (1, 4)),
    ],
)  # fmt: skip
def test_views_in_place_change_an_entry_as_they_change_a_tensor(change):
    def function(x):
        x = x * 2
        assert change(x) is x
        shape = x.shape
        return x.mul_(x + 1), facula.tensor(shape)

    mapped, shapes = vmap(function, in_dims=(0,), out_dims=(0, None))(X)
    alone = [function(entry) for entry in X]
    assert mapped.equal(facula.stack([a for a, _ in alone])) and shapes.equal(alone[0][1])
    slopes = vmap(grad(lambda x: function(x)[0].sum()))(X)
    assert slopes.equal(facula.stack([grad(lambda x: function(x)[0].sum())(entry) for entry in X]))
