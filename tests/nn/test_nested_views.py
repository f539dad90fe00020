"""Views of nested tensors share the memory of their entries, and are views; the last dimensions may be indexed."""

import numpy as np
import pytest

import facula

LENGTHS = (2, 0, 4)


def made(requires_grad=False):
    values = [facula.arange(n * 6.0).reshape(n, 3, 2) + 10 * n for n in LENGTHS]
    return facula.nested.nested_tensor(values, layout=facula.jagged, requires_grad=requires_grad)


VIEWS = {
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "squeeze": (lambda x: x[..., :1].squeeze(-1), lambda a: a[..., 0]),
    "select": (lambda x: x.select(2, 1), lambda a: a[:, 1]),
    "transpose": (lambda x: x.transpose(2, 3), lambda a: a.swapaxes(1, 2)),
    "swapaxes": (lambda x: x.swapaxes(-1, -2), lambda a: a.swapaxes(1, 2)),
    "swapdims": (lambda x: x.swapdims(2, 3), lambda a: a.swapaxes(1, 2)),
    "movedim": (lambda x: x.movedim(-1, -2), lambda a: a.swapaxes(1, 2)),
    "permute": (lambda x: x.permute(0, 1, 3, 2), lambda a: a.swapaxes(1, 2)),
    "mT": (lambda x: x.mT, lambda a: a.swapaxes(1, 2)),
    "adjoint": (lambda x: x.adjoint(), lambda a: a.swapaxes(1, 2)),
    "view_as": (lambda x: x.view_as(x), lambda a: a),
    "expand_as": (lambda x: x[..., :1].expand_as(x), lambda a: a[..., :1].repeat(2, -1)),
    "reshape_as": (lambda x: x.reshape_as(x), lambda a: a),
    "index": (lambda x: x[..., 1:, 0], lambda a: a[:, 1:, 0]),
    "negative": (lambda x: x[..., -1], lambda a: a[..., -1]),
    "new": (lambda x: x[..., None, 0], lambda a: a[..., None, 0]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_hold_the_elements_of_each_entry_and_share_them(name):
    view, reference = VIEWS[name]
    x = made()
    found = view(x)
    for entry, got in zip(x.unbind(), found.unbind(), strict=True):
        np.testing.assert_array_equal(got.numpy(), reference(entry.numpy()))
    assert found._is_view()
    assert found.size(1) is x.size(1) or found.size(1) == x.size(1)
    before = found.unbind()[2].clone()
    x.values().mul_(2)
    assert facula.equal(found.unbind()[2], before * 2)


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_views_reach_the_entries(name):
    view, reference = VIEWS[name]
    x = made(requires_grad=True)
    view(x * 1).values().sum().backward()
    whole = np.zeros((sum(LENGTHS), 3, 2))
    flat = np.arange(whole.size, dtype="i8").reshape(whole.shape)
    np.add.at(whole.reshape(-1), reference(flat).reshape(-1), 1)
    np.testing.assert_array_equal(x.grad.values().numpy(), whole)


def test_views_of_results_are_views():
    x = made() * 2
    assert not x._is_view() and x.unsqueeze(-1)._is_view() and x.transpose(2, 3)._is_view()
    assert facula.ops.aten._unsafe_view(x, [3, -1, 3, 2])._base is None
    assert not x.clone()._is_view() and not (x.unsqueeze(-1) + 1)._is_view()


@pytest.mark.parametrize("index", [slice(None), (slice(None), 0), slice(0, 1)])
def test_slices_of_the_batch_say_what_serves(index):
    with pytest.raises(RuntimeError, match=r"slice\(\): not supported for NestedTensor on dim=0"):
        made()[index]


@pytest.mark.parametrize("index", [(..., 0, 0, 0), (..., slice(1), 0, 0)])
def test_an_index_that_reaches_the_ragged_dimension_is_refused(index):
    with pytest.raises(RuntimeError, match="behind the ragged one"):
        made()[index]


def test_squeezing_the_ragged_dimension_is_refused():
    x = facula.nested.nested_tensor([facula.ones(1, 2), facula.ones(1, 2)], layout=facula.jagged)
    with pytest.raises(RuntimeError, match="not supported for NestedTensor on ragged dim"):
        x.squeeze(1)


def test_a_linear_map_of_other_columns_names_both_sizes():
    x = facula.nested.nested_tensor([facula.ones(2, 6), facula.ones(4, 6)])
    linear = facula.nn.functional.linear
    with pytest.raises(RuntimeError, match=r"last_dim = 6, and weight.size\(1\) = 4"):
        linear(x, facula.ones(3, 4))
    with pytest.raises(RuntimeError, match="a nested input and an ordinary weight"):
        linear(facula.ones(2, 6), x)
    with pytest.raises(
        RuntimeError, match="does not support nested weight when input is a nested tensor"
    ):
        linear(x, x)
