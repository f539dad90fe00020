"""Pruning of rows: the small model computes what the masked one did, whatever stands between its layers."""

import copy

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.pruning._experimental.pruner import (
    BaseStructuredSparsifier,
    FakeStructuredSparsity,
    FPGMPruner,
    LSTMSaliencyPruner,
    SaliencyPruner,
)
from facula.ao.pruning._experimental.pruner.base_structured_sparsifier import (
    _get_supported_activation_modules,
)
from facula.nn import functional as F


class Flat(nn.Module):
    """A convolution whose pooled rows a linear layer reads."""

    def __init__(self):
        super().__init__()
        self.first, self.pool, self.last = (
            nn.Conv2d(1, 4, 3),
            nn.AdaptiveAvgPool2d(2),
            nn.Linear(16, 3),
        )

    def forward(self, x):
        return self.last(facula.flatten(self.pool(self.first(x)), 1))


class Called(nn.Module):
    """Functions with settings between convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 3, 3)

    def forward(self, x):
        return self.last(F.leaky_relu(F.avg_pool2d(self.first(x), 2, padding=1), 0.3))


MODELS = {
    "linear": (nn.Linear(4, 6), nn.Linear(6, 5), nn.Linear(5, 2)),
    "per row": (nn.Linear(4, 6), nn.PReLU(6), nn.Linear(6, 2)),
    "pool": (nn.Conv2d(1, 6, 3), nn.MaxPool2d(2, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 3)),
    "padded": (nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 2, 3, padding=1)),
    "padded half": (nn.Conv2d(1, 6, 3), nn.Sigmoid(), nn.Conv2d(6, 2, 3, padding="same")),
    "padded pool": (nn.Conv2d(1, 6, 3), nn.ReLU(), nn.AvgPool2d(2, padding=1), nn.Conv2d(6, 2, 3)),
    "flat": Flat(),
    "called": Called(),
    **{
        kind.__name__: (nn.Linear(4, 6), kind(), nn.Linear(6, 2))
        for kind in sorted(_get_supported_activation_modules(), key=lambda kind: kind.__name__)
    },
}


def parts_of(name):
    model = MODELS[name]
    model = nn.Sequential(*model) if isinstance(model, tuple) else model
    return copy.deepcopy(model).eval()


@pytest.mark.parametrize("prune_bias", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_small_model_computes_what_the_masked_one_did(name, prune_bias):
    model = parts_of(name)
    layers = [n for n, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
    first = model.get_submodule(layers[0])
    linear = isinstance(first, nn.Linear)
    x = facula.randn(3, 4) if linear else facula.randn(2, 1, 12, 12)
    rows = first.weight.detach().abs().flatten(1).sum(1).numpy()
    weight, bias = first.weight.detach().numpy().copy(), first.bias.detach().numpy().copy()
    pruner = SaliencyPruner({"sparsity_level": 0.5, "prune_bias": prune_bias})
    pruner.prepare(model, [{"tensor_fqn": f"{layer}.weight"} for layer in layers[:-1]])
    pruner.step()
    gone = np.sort(np.argsort(rows)[: len(rows) // 2])
    weight[gone] = 0
    if prune_bias:
        bias[gone] = 0
    with facula.no_grad():
        masked = model(x)
        plain = F.linear if linear else F.conv2d
        own = plain(x, facula.tensor(weight), facula.tensor(bias))
        assert facula.allclose(first(x), own, atol=1e-5)
        small = pruner.prune()
        assert facula.allclose(small(x), masked, atol=1e-5)
    assert not any(isinstance(module, FakeStructuredSparsity) for module in small.modules())
    first = small.get_submodule(layers[0])
    constant = prune_bias and name not in ("padded half",)
    if constant or name in ("linear", "pool", "flat", "per row"):
        assert first.weight.shape[0] == len(rows) - len(rows) // 2 == len(first.bias)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_lstms_lose_rows_of_every_gate(layers, norm):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, num_layers=layers)
            self.norm = nn.LayerNorm(4) if norm else None
            self.linear = nn.Linear(4, 2)

        def forward(self, x):
            out, state = self.lstm(x)
            return self.linear(self.norm(out) if norm else out), state

    class Bottom(BaseStructuredSparsifier):
        def update_mask(self, module, tensor_name, **config):
            module.parametrizations[tensor_name][0].mask.reshape(4, 4)[:, 2:] = False

    model = Model().eval()
    before = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}
    pruner = Bottom()
    names = [f"lstm.weight_{kind}_l{k}" for k in range(layers) for kind in ("ih", "hh")]
    pruner.prepare(model, [{"tensor_fqn": name} for name in names])
    pruner.step()
    small = pruner.prune()
    small(facula.randn(5, 3))
    assert small.lstm.hidden_size == 2
    for k in range(layers):
        for kind in ("ih", "hh"):
            whole = before[f"lstm.weight_{kind}_l{k}"].reshape(4, 4, -1)[:, :2]
            whole = whole if kind == "ih" and k == 0 else whole[..., :2]
            got = getattr(small.lstm, f"weight_{kind}_l{k}").detach().numpy()
            np.testing.assert_array_equal(got, whole.reshape(8, -1))
            bias = before[f"lstm.bias_{kind}_l{k}"].reshape(4, 4)[:, :2].ravel()
            np.testing.assert_array_equal(getattr(small.lstm, f"bias_{kind}_l{k}").detach(), bias)
    np.testing.assert_array_equal(small.linear.weight.detach(), before["linear.weight"][:, :2])


def test_saliency_within_gates():
    model = nn.Sequential(nn.LSTM(2, 2))
    rows = facula.tensor([1.0, 2, 2, 1, -1, -2, -2, -1])
    model[0].weight_ih_l0 = nn.Parameter(rows[:, None].repeat(1, 2))
    pruner = LSTMSaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": "0.weight_ih_l0"}])
    pruner.step()
    mask = model[0].parametrizations.weight_ih_l0[0].mask
    assert mask.tolist() == [False, True, True, False, False, True, True, False]


@pytest.mark.parametrize("dist", [None, 1, 2, lambda x, y: (x[:, None] - y).abs().amax(-1)])
def test_rows_that_others_stand_for(dist):
    weight = np.random.default_rng(0).standard_normal((6, 3)).astype("f")
    model = nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 2))
    model[0].weight.data.copy_(facula.tensor(weight))
    pruner = FPGMPruner(0.5, dist)
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    pruner.step()
    difference = np.abs(weight[:, None] - weight)
    far = {None: (difference**2).sum(-1) ** 0.5, 1: difference.sum(-1)}
    far[2] = far[None]
    sums = far.get(dist, difference.max(-1)).sum(1)
    mask = model[0].parametrizations.weight[0].mask.numpy()
    assert set(np.flatnonzero(~mask)) == set(np.argsort(sums)[:3])


def test_what_cannot_get_smaller_is_refused():
    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            y = self.a(x)
            return self.b(y) + y

    pruner = SaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(Skip(), [{"tensor_fqn": "a.weight"}])
    pruner.step()
    with pytest.raises(RuntimeError, match="a still contains FakeStructuredSparsity.*\nhint: "):
        pruner.prune()
    model = nn.Sequential(nn.Conv2d(2, 4, 1, groups=2), nn.Conv2d(4, 2, 1))
    pruner = SaliencyPruner({"sparsity_level": 0.5})
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    with pytest.raises(NotImplementedError, match="convolutions of one group"):
        pruner.prune()
    with pytest.raises(NotImplementedError, match="distance 1, 2 or a function"):
        FPGMPruner(dist=7)
    with pytest.raises(AssertionError, match="a tensor with 2 rows"):
        FakeStructuredSparsity(facula.tensor([True, False]))(facula.ones(3, 2))


def test_chains_of_a_program():
    def halves(layer, step, last):
        calls.append((type(step).__name__, type(last).__name__))
        nn.utils.parametrize.remove_parametrizations(layer, "weight")

    calls = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))
    pruner = SaliencyPruner({"sparsity_level": 0.5}, {(nn.Linear, nn.Dropout, nn.Linear): halves})
    pruner.prepare(model, [{"tensor_fqn": "0.weight"}])
    pruner.prune()
    assert calls == [("Dropout", "Linear")]
