"""Modules over devices, products of scaled matrices, attention of one's own scores."""

import pytest

import facula
from facula import nn
from facula.nn import functional as F
from facula.nn.attention import bias
from facula.nn.attention import flex_attention as flex
from facula.nn.functional import ScalingType


@pytest.fixture(autouse=True)
def seeded():
    facula.manual_seed(4)


def test_a_module_without_accelerators_is_called_as_it_is(monkeypatch):
    monkeypatch.setattr(facula.accelerator, "is_available", lambda: False)
    module = nn.Linear(3, 2)
    wrapped = nn.DataParallel(module)
    x = facula.randn(5, 3)
    assert facula.equal(wrapped(x), module(x))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]


def test_copies_give_gradients_to_the_module():
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = facula.randn(6, 3)
    found = nn.parallel.data_parallel(module, x, ["cpu", "cpu"])
    assert facula.allclose(found, module(x))
    grads = facula.autograd.grad(found.square().sum(), list(module.parameters()))
    wanted = facula.autograd.grad(module(x).square().sum(), list(module.parameters()))
    assert all(facula.allclose(a, b, atol=1e-6) for a, b in zip(grads, wanted, strict=True))


def test_nestings_are_parted_and_put_together():
    x = facula.arange(4.0)
    parts = nn.parallel.scatter({"a": x, "b": [x, 1]}, ["cpu", "cpu"])
    assert parts[1]["a"].tolist() == [2.0, 3.0] and parts[0]["b"][1] == 1
    whole = nn.parallel.gather([{"a": x[:2]}, {"a": x[2:]}], "cpu")
    assert whole["a"].tolist() == x.tolist()
    with pytest.raises(ZeroDivisionError):
        nn.parallel.parallel_apply([lambda v: v, lambda v: 1 // 0], [x, x])


def test_scaled_products():
    a, b = facula.randn(4, 256), facula.randn(256, 6)
    rows, columns = facula.rand(4), facula.rand(6)
    found = F.scaled_mm(
        a, b, rows, ScalingType.RowWise, columns, ScalingType.RowWise, output_dtype=facula.float32
    )
    assert facula.allclose(found, (a * rows[:, None]) @ (b * columns), atol=1e-4)
    blocks = facula.rand(4, 2)
    found = F.scaled_mm(
        a,
        b,
        blocks,
        ScalingType.BlockWise1x128,
        facula.tensor(2.0),
        ScalingType.TensorWise,
        output_dtype=facula.float32,
    )
    wanted = (a.unflatten(1, (2, 128)) * blocks[..., None]).flatten(1) @ b * 2
    assert facula.allclose(found, wanted, atol=1e-3)


def test_grouped_products():
    a, b = facula.randn(7, 3), facula.randn(2, 3, 5)
    offs = facula.tensor([2, 6], dtype=facula.int32)
    found = F.grouped_mm(a, b, offs=offs)
    assert facula.allclose(found[:2], a[:2] @ b[0]) and facula.allclose(found[2:6], a[2:6] @ b[1])
    assert not found[6:].any()
    both = F.grouped_mm(a.mT, facula.ones(7, 4), offs=offs)
    assert both.shape == (2, 3, 4) and facula.allclose(both[0], a[:2].mT @ facula.ones(2, 4))
    with pytest.raises(ValueError, match=r"^\[grouped_mm\] offs was required"):
        F.grouped_mm(a, b)


def causal(b, h, q, k):
    return q >= k


def test_flex_attention_is_attention():
    q, k, v = (facula.randn(2, 4, 40, 8, requires_grad=True) for _ in range(3))
    blocks = flex.create_block_mask(causal, None, None, 40, 40, BLOCK_SIZE=16)
    assert blocks.shape == (1, 1, 40, 40) and 0 < blocks.sparsity() < 40
    found = flex.flex_attention(q, k, v, block_mask=blocks)
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert facula.allclose(found, wanted, atol=1e-5)
    weight = facula.randn(*found.shape)
    grads = facula.autograd.grad((found * weight).sum(), (q, k, v))
    others = facula.autograd.grad((wanted * weight).sum(), (q, k, v))
    assert all(facula.allclose(a, b, atol=1e-4) for a, b in zip(grads, others, strict=True))


def test_scores_of_ones_own():
    q, k, v = (facula.randn(1, 2, 6, 4) for _ in range(3))
    slope = facula.randn(2, requires_grad=True)
    found, lse = flex.flex_attention(
        q, k, v, lambda s, b, h, i, j: s + slope[h] * (i - j), return_lse=True
    )
    distance = (facula.arange(6)[:, None] - facula.arange(6)).float()
    scores = q @ k.mT / 2 + slope[:, None, None] * distance
    assert facula.allclose(found, scores.softmax(-1) @ v, atol=1e-5)
    assert facula.allclose(lse, scores.logsumexp(-1), atol=1e-5)
    found.sum().backward()
    assert slope.grad is not None
    nothing = flex.create_block_mask(lambda b, h, i, j: i < 0, None, None, 6, 6)
    assert not flex.flex_attention(q, k, v, block_mask=nothing).any()
    either = flex.or_masks(causal, lambda b, h, i, j: j == 5)
    both = flex.and_masks(causal, lambda b, h, i, j: i - j < 2)
    assert flex.create_mask(either, None, None, 6, 6)[0, 0, 0].tolist() == [
        True,
        *[False] * 4,
        True,
    ]
    assert flex.create_mask(both, 1, 1, 6, 6).sum().item() == 11
    with pytest.raises(ValueError, match="enable_gqa"):
        flex.flex_attention(q, k[:, :1], v[:, :1])


def test_causal_corners():
    assert bias.causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    assert bias.causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]
