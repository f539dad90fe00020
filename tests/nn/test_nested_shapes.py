"""Reductions and changes of shape of nested tensors, against NumPy entry by entry."""

import pickle

import numpy as np
import pytest

import facula

LENGTHS = (3, 1, 4)


def entries(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((n, 2, 3)) for n in LENGTHS]


def nested(rows, layout=facula.jagged, requires_grad=False):
    parts = [facula.from_numpy(r) for r in rows]
    return facula.nested.nested_tensor(parts, layout=layout, requires_grad=requires_grad)


def same(found, wanted):
    assert len(found.unbind()) == len(wanted)
    for a, b in zip(found.unbind(), wanted, strict=True):
        assert np.allclose(a.detach().numpy(), b)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    ("name", "plain"),
    [("sum", np.sum), ("mean", np.mean), ("amax", np.max), ("amin", np.min), ("argmax", np.argmax)],
)
def test_reductions_along_one_dimension(name, plain, keepdim):
    rows = entries()
    x = nested(rows)
    dense = getattr(x, name)(1, keepdim=keepdim)  # the ragged one
    assert np.allclose(dense.numpy(), np.stack([plain(r, 0, keepdims=keepdim) for r in rows]))
    for dim in (2, -1):
        found = getattr(x, name)(dim, keepdim=keepdim)
        at = dim - 1 if dim > 0 else dim
        same(found, [plain(r, at, keepdims=keepdim) for r in rows])


def test_reductions_along_several_dimensions():
    rows = entries()
    x = nested(rows)
    assert np.allclose(x.sum((0, 1)).numpy(), np.concatenate(rows).sum(0))
    assert np.allclose(x.sum((0, 1, 3)).numpy(), np.concatenate(rows).sum((0, 2)))
    same(x.mean((2, 3)), [r.mean((1, 2)) for r in rows])
    assert np.isclose(x.std().item(), np.concatenate(rows).std(ddof=1))
    with pytest.raises(RuntimeError, match="batch dimension"):
        x.sum(0)
    with pytest.raises(RuntimeError, match="ragged and non-batch"):
        x.sum((1, 2))
    with pytest.raises(IndexError, match="out of range"):
        x.sum(4)


def test_functions_along_a_dimension():
    rows = entries()
    x = nested(rows)
    for dim, at in ((1, 0), (2, 1), (-1, 2)):
        exact = [np.exp(r) / np.exp(r).sum(at, keepdims=True) for r in rows]
        same(facula.softmax(x, dim), exact)
        same(facula.nn.functional.log_softmax(x, dim), [np.log(e) for e in exact])
        same(x.cumsum(dim), [r.cumsum(at) for r in rows])
    with pytest.raises(RuntimeError, match="batch"):
        facula.softmax(x, 0)


def test_dimensions_come_go_and_change_places():
    rows = entries()
    x = nested(rows)
    y = x.unsqueeze(1)
    assert y._ragged_idx == 2
    same(y, [r[None] for r in rows])
    same(y.squeeze(1), rows)
    assert y.squeeze(1)._ragged_idx == 1
    z = x.transpose(1, 2)
    assert z._ragged_idx == 2
    assert not z.is_contiguous()
    same(z, [r.transpose(1, 0, 2) for r in rows])
    same(z.sin(), [np.sin(r.transpose(1, 0, 2)) for r in rows])
    same(z.transpose(1, 2), rows)
    same(facula.cat([x, x], -1), [np.concatenate([r, r], -1) for r in rows])
    same(facula.stack([x, x], 1), [np.stack([r, r]) for r in rows])
    with pytest.raises(RuntimeError, match="dim=0"):
        facula.cat([x, x])


def test_parts():
    rows = entries()
    x = nested(rows, facula.strided)
    assert np.array_equal(x[0, 1:, ...].numpy(), rows[0][1:])
    same(x[...], rows)
    same(x.select(2, 1), [r[:, 1] for r in rows])
    with pytest.raises(NotImplementedError, match="entry"):
        x[:, 0]


def test_elements_are_copied_and_pickled():
    x, y = nested(entries()), nested(entries(1))
    x.copy_(y)
    same(x, entries(1))
    z = pickle.loads(pickle.dumps(x.transpose(1, 2)))  # noqa: S301
    assert z._ragged_idx == 2
    same(z, [r.transpose(1, 0, 2) for r in entries(1)])
    with pytest.raises(RuntimeError, match="same sizes"):
        x.copy_(nested(entries()[:2]))


def test_gradients_with_respect_to_nested_tensors():
    rows = entries()
    x = nested(rows, requires_grad=True)
    (gradient,) = facula.autograd.grad((x * x).amax(1).sum(), x)
    wanted = [np.where(r * r == (r * r).max(0), 2 * r, 0) for r in rows]
    same(gradient, wanted)


@pytest.mark.breaks("tensor-subclass")
def test_compiled_programs_leave_them_to_python():
    rows = entries()
    run = facula.compile(lambda x: (x * 2).sin())
    same(run(nested(rows)), [np.sin(2 * r) for r in rows])
    assert np.allclose(run(facula.ones(2)).numpy(), np.sin(2))


def test_padded_batches_become_nested():
    from facula.nested._internal.nested_tensor import nested_from_padded

    x = nested(entries())
    again = nested_from_padded(x.to_padded_tensor(0.0), x.offsets())
    same(again, entries())
    with pytest.raises(RuntimeError, match="dim"):
        facula.nested.as_nested_tensor(facula.ones(3))


def test_stand_ins_without_elements_are_refused():
    from facula.fx.fake_tensor import FakeTensorMode

    with pytest.raises(NotImplementedError, match="NestedTensor"):
        FakeTensorMode().from_tensor(nested(entries()))


def test_dimensions_in_another_order():
    rows = [facula.arange(6.0).reshape(2, 3), facula.ones(4, 3)]
    x = facula.nested.nested_tensor(rows, layout=facula.jagged)
    turned = x.permute(0, 2, 1)
    assert [r.tolist() for r in turned.unbind()] == [r.T.tolist() for r in rows]
    assert turned.permute((0, -1, -2)).unbind()[0].tolist() == rows[0].tolist()
    with pytest.raises(RuntimeError, match="batch dimension"):
        x.permute(1, 0, 2)


def test_sizes_of_layout_jagged():
    x = facula.nested.nested_tensor([facula.ones(2, 3), facula.ones(4, 3)], layout=facula.jagged)
    assert x.size() == x.shape and x.transpose(1, 2).size()[1] == 3


def test_parts_of_the_batch():
    rows = [facula.full((n, 2), float(n)) for n in (1, 3, 2, 5, 4)]
    parts = facula.nested.nested_tensor(rows, layout=facula.jagged).chunk(2)
    assert [[r.shape[0] for r in p.unbind()] for p in parts] == [[1, 3, 2], [5, 4]]


def test_masks_fill():
    rows = [facula.tensor([[1.0, -1.0]]), facula.tensor([[-2.0, 2.0], [3.0, -3.0]])]
    x = facula.nested.nested_tensor(rows, layout=facula.jagged)
    found = x.masked_fill(x < 0, 9.0)
    assert found.values().tolist() == [[1.0, 9.0], [9.0, 2.0], [3.0, 9.0]]
    dense = facula.tensor([[[True, False]], [[False, True]]])
    assert x.masked_fill(dense, 0.0).values().tolist() == [[0.0, -1.0], [-2.0, 0.0], [3.0, 0.0]]


@pytest.mark.parametrize("name", ["positive", "real", "conj", "conj_physical", "resolve_neg"])
def test_what_leaves_real_numbers_as_they_are(name):
    x = facula.nested.nested_tensor([facula.ones(2, 3), facula.ones(4, 3)], layout=facula.jagged)
    assert facula.equal(getattr(facula, name)(x).values(), x.values())


def test_gradients_of_rows_without_a_dimension_of_one():
    a, b = (facula.ones(n, 3, 1, requires_grad=True) for n in (2, 4))
    rows = facula.nested.as_nested_tensor([a, b]).squeeze(-1)
    padded = facula.nested.to_padded_tensor(rows, 0.0)
    assert padded.shape == (2, 4, 3)
    (padded * 2).sum().backward()
    assert a.grad.tolist() == [[[2.0]] * 3] * 2
    assert b.grad.tolist() == [[[2.0]] * 3] * 4
