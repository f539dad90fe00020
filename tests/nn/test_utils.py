"""Utilities: clipping, parametrizations, pruning, functional calls, fusion."""

import copy

import numpy as np
import pytest

import facula
from facula import nn
from facula.nn.utils import parametrizations, parametrize, prune


def gradients(module):
    module.zero_grad()
    module(facula.ones(2, module.in_features)).pow(2).sum().backward()
    return [p.grad for p in module.parameters()]


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_clip_grad_norm(norm_type):
    module = nn.Linear(3, 4)
    before = np.concatenate([g.numpy().ravel() for g in gradients(module)])
    total = nn.utils.clip_grad_norm_(module.parameters(), 0.5, norm_type)
    expected = np.linalg.norm(before, norm_type)
    assert abs(float(total) - expected) < 1e-4 * expected
    after = np.concatenate([p.grad.numpy().ravel() for p in module.parameters()])
    np.testing.assert_allclose(after, before * (0.5 / (expected + 1e-6)), rtol=1e-4)


def test_clip_grad_norm_finds_infinity():
    p = nn.Parameter(facula.ones(2))
    p.grad = facula.tensor([1.0, float("inf")])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    p = nn.Parameter(facula.ones(3))
    p.grad = facula.tensor([-3.0, 0.5, 3.0])
    nn.utils.clip_grad_value_(p, 1.0)
    assert p.grad.tolist() == [-1.0, 0.5, 1.0]


def test_parameters_as_vector():
    a, b = nn.Linear(2, 3), nn.Linear(2, 3)
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(a.parameters()), b.parameters())
    assert all(bool((x == y).all()) for x, y in zip(a.parameters(), b.parameters(), strict=True))


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)

    def right_inverse(self, x):
        return x.triu()


def test_parametrization():
    module = nn.Linear(3, 3)
    parametrize.register_parametrization(module, "weight", Symmetric())
    assert parametrize.is_parametrized(module, "weight")
    assert bool((module.weight == module.weight.t()).all())
    assert list(module.state_dict()) == ["bias", "parametrizations.weight.original"]
    module(facula.ones(1, 3)).sum().backward()
    assert module.parametrizations.weight.original.grad is not None
    target = facula.ones(3, 3)
    module.weight = target
    assert bool((module.weight == target).all())
    with parametrize.cached():
        assert module.weight is module.weight
    twin = copy.deepcopy(module)
    assert bool((twin.weight == module.weight).all())
    parametrize.remove_parametrizations(module, "weight")
    assert type(module) is nn.Linear and isinstance(module.weight, nn.Parameter)


def test_weight_norm_both_ways():
    new, old = nn.Linear(3, 4), nn.Linear(3, 4)
    old.load_state_dict(new.state_dict())
    parametrizations.weight_norm(new)
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(old)
    x = facula.randn(2, 3)
    assert float((new(x) - old(x)).abs().max()) < 1e-6
    new.load_state_dict(old.state_dict())  # keys of the older form
    nn.utils.remove_weight_norm(old)
    assert "weight" in dict(old.named_parameters())


@pytest.mark.parametrize("new", [True, False])
def test_spectral_norm(new):
    module = nn.Linear(6, 4)
    (parametrizations.spectral_norm if new else nn.utils.spectral_norm)(module)
    for _ in range(50):
        module(facula.ones(1, 6))
    assert abs(np.linalg.norm(module.weight.detach().numpy(), 2) - 1) < 1e-2


def test_fused_convolution_and_norm():
    conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    norm(conv(facula.randn(8, 3, 6, 6)) * 2 + 1)
    conv.eval()
    norm.eval()
    x = facula.randn(2, 3, 6, 6)
    fused = nn.utils.fuse_conv_bn_eval(conv, norm)
    assert float((fused(x) - norm(conv(x))).abs().max()) < 1e-4
    with pytest.raises(AssertionError, match="evaluation mode"):
        nn.utils.fuse_conv_bn_eval(conv.train(), norm)


def test_pruning():
    module = nn.Linear(4, 4)
    prune.l1_unstructured(module, "weight", amount=0.5)
    assert int(module.weight_mask.sum()) == 8
    assert bool((module.weight == module.weight_orig * module.weight_mask).all())
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    assert int((module.weight_mask.sum(1) == 0).sum()) >= 1
    prune.remove(module, "weight")
    assert "weight" in dict(module.named_parameters()) and not prune.is_pruned(module)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(module, "weight")


def test_functional_call():
    from facula.nn.utils.stateless import call_with

    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    replacement = {"0.weight": facula.zeros(2, 2), "1.running_mean": facula.zeros(2)}
    original = module[0].weight
    out = call_with(module.eval(), replacement, (facula.ones(1, 2),))
    expected = module[1](module[0].bias.unsqueeze(0))
    assert float((out - expected).abs().max()) < 1e-6 and module[0].weight is original
    more = {**replacement, "0.nope": facula.ones(1)}  # a name for the time of the call
    assert facula.equal(call_with(module, more, (facula.ones(1, 2),)), out)
    assert not hasattr(module[0], "nope")
    with pytest.raises(AttributeError, match=r"Unexpected key\(s\): 'nope.weight'"):
        call_with(module, {"nope.weight": facula.ones(1)}, (facula.ones(1, 2),))
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): '0.bias'"):
        call_with(module, replacement, (facula.ones(1, 2),), strict=True)


def test_skip_init():
    module = nn.utils.skip_init(nn.Linear, 3, 4)
    assert tuple(module.weight.shape) == (4, 3) and not module.weight.is_meta


@pytest.mark.parametrize("kind", ["householder", "matrix_exp", "cayley"])
@pytest.mark.parametrize("sizes", [(3, 3), (2, 4), (4, 2)])
def test_an_orthogonal_weight_stays_what_it_was(kind, sizes):
    rows = facula.linalg.qr(facula.arange(16.0).reshape(4, 4).sin() + facula.eye(4))[0]
    module = nn.Linear(*sizes)
    with facula.no_grad():
        whole = facula.linalg.qr(rows[: max(sizes), : max(sizes)])[0]
        module.weight.copy_(whole[: sizes[1], : sizes[0]])
    before = module.weight.detach().clone()
    parametrizations.orthogonal(module, orthogonal_map=kind)
    assert float((module.weight - before).abs().max()) < 1e-5
    original = module.parametrizations.weight.original
    assert facula.equal(original.detach(), -facula.eye(sizes[1], sizes[0]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
def test_gradients_are_clipped_to_a_norm_in_every_dtype(norm_type, dtype):
    kind = getattr(facula, dtype)
    random = np.random.default_rng(1)
    params = [facula.zeros(shape, dtype=kind, requires_grad=True) for shape in ((3, 5), (40,))]
    for p in params:
        p.grad = facula.tensor(random.uniform(-2, 2, tuple(p.shape))).to(kind)
    before = [p.grad.double().numpy().copy() for p in params]
    whole = np.linalg.norm(np.concatenate([g.ravel() for g in before]), norm_type)
    total = nn.utils.clip_grad_norm_(params, 0.5, norm_type)
    eps = facula.finfo(kind).eps
    assert abs(float(total) - whole) <= 8 * eps * whole
    for p, g in zip(params, before, strict=True):
        np.testing.assert_allclose(p.grad.double().numpy(), g * (0.5 / whole), 16 * eps, 1e-5)
