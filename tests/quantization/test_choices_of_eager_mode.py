"""Eager mode: which layers are observed, classes of a program's own, normalized layers whose norm has zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import quantization as Q
from facula.ao.nn import quantized as nnq
from facula.ao.nn.intrinsic import qat as nniq


def convolved(x: Any, weight: Any, bias: Any) -> Any:
    """A convolution by plain loops over the places of its result."""
    out = np.empty(
        (
            x.shape[0],
            weight.shape[0],
            x.shape[2] - weight.shape[2] + 1,
            x.shape[3] - weight.shape[3] + 1,
        )
    )
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            part = x[:, :, i : i + weight.shape[2], j : j + weight.shape[3]]
            out[:, :, i, j] = np.tensordot(part, weight, ([1, 2, 3], [1, 2, 3]))
    return out + bias.reshape(1, -1, 1, 1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("slow", [True, False])
def test_normalized_layers_compute_what_their_parts_do(training: bool, slow: bool):
    facula.manual_seed(0)
    layer = nniq.ConvBnReLU2d(2, 3, 2, bias=True, qconfig=Q.default_qat_qconfig).double()
    layer._enable_slow_path_for_better_numerical_stability = slow
    layer.apply(Q.disable_fake_quant)
    layer.train(training)
    with facula.no_grad():
        layer.bn.weight.copy_(facula.tensor([0.5, 0.0 if slow else -2.0, 2.0]))
        layer.bn.bias.uniform_()
        layer.bn.running_mean.uniform_()
        layer.bn.running_var.uniform_(0.5, 2.0)
    x = np.random.default_rng(0).normal(size=(4, 2, 4, 3))
    plain = convolved(x, layer.weight.detach().numpy(), layer.bias.detach().numpy())
    mean, variance = layer.bn.running_mean.numpy().copy(), layer.bn.running_var.numpy().copy()
    running = mean.copy(), variance.copy()
    if training:
        count = plain.size // 3
        mean, variance = plain.mean((0, 2, 3)), plain.var((0, 2, 3))
        new = mean, variance * count / (count - 1)
        running = tuple(0.9 * a + 0.1 * b for a, b in zip(running, new, strict=True))  # type: ignore[assignment]
    gamma, beta = layer.bn.weight.detach().numpy(), layer.bn.bias.detach().numpy()
    scale = gamma / np.sqrt(variance + 1e-5)
    wanted = plain * scale.reshape(1, -1, 1, 1) + (beta - mean * scale).reshape(1, -1, 1, 1)
    y = layer(facula.tensor(x))
    np.testing.assert_allclose(y.detach().numpy(), wanted.clip(0), atol=1e-12)
    np.testing.assert_allclose(layer.bn.running_mean.numpy(), running[0], atol=1e-12)
    np.testing.assert_allclose(layer.bn.running_var.numpy(), running[1], atol=1e-12)
    assert int(layer.bn.num_batches_tracked) == training


def test_gradients_of_a_layer_whose_norm_has_zeros():
    """By finite differences: the weight of the norm may be 0, and learns."""
    facula.manual_seed(1)
    layer = nniq.ConvBn2d(1, 2, 2, qconfig=Q.default_qat_qconfig).double()
    layer._enable_slow_path_for_better_numerical_stability = True
    layer.apply(Q.disable_fake_quant)
    nn.init.zeros_(layer.bn.weight)
    x, seed = facula.rand(3, 1, 3, 3).double(), facula.rand(3, 2, 2, 2).double()

    def loss() -> Any:
        return (layer(x) * seed).sum()

    loss().backward()
    for parameter in (layer.bn.weight, layer.bn.bias, layer.weight):
        flat, found = parameter.detach().view(-1), parameter.grad.view(-1)
        for k in range(flat.numel()):
            before = float(flat[k])
            flat[k] = before + 1e-5
            above = float(loss())
            flat[k] = before - 1e-5
            below = float(loss())
            flat[k] = before
            assert abs((above - below) / 2e-5 - float(found[k])) < 1e-7


def test_a_norm_of_zeros_is_quantized_too():
    layer = nniq.ConvBn2d(1, 2, 1, qconfig=Q.default_qat_qconfig)
    layer._enable_slow_path_for_better_numerical_stability = True
    nn.init.zeros_(layer.bn.weight)
    nn.init.constant_(layer.bn.bias, 0.25)
    y = layer(facula.rand(2, 1, 3, 3))
    assert y.flatten().tolist() == [0.25] * 36


# ------------------------------------------------------------------ what is observed


class Between(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.quant, self.inner, self.dequant = (
            Q.QuantStub(),
            nn.Sequential(*layers),
            Q.DeQuantStub(),
        )

    def forward(self, x: Any) -> Any:
        return self.dequant(self.inner(self.quant(x)))


def observed(model: nn.Module) -> list[str]:
    """The modules behind which an observer stands."""
    holders = [(name, vars(module)["_modules"]) for name, module in model.named_modules()]
    return sorted(
        name
        for name, parts in holders
        if "activation_post_process" in parts
        and "fake_quant_enabled" not in dir(model.get_submodule(name))
    )


@pytest.mark.parametrize("kind", [nn.Sigmoid, nn.Tanh, nn.Hardsigmoid])
def test_functions_of_known_intervals_are_observed_in_training_only(kind: Any):
    x = facula.linspace(-64, 63, 12).reshape(3, 4) / 32  # 7 bits have both ends
    model = Between(kind()).eval()
    model.qconfig = Q.default_qconfig
    ready = Q.prepare(model)
    assert observed(ready) == ["quant"]
    ready(x)
    made = Q.convert(ready)
    assert type(made.inner[0]) is kind
    exact = kind()(x).numpy()
    np.testing.assert_allclose(made(x).numpy(), exact, atol=0.05)
    model = Between(kind()).train()
    model.qconfig = Q.default_qat_qconfig
    trained = Q.prepare_qat(model)
    assert observed(trained) == ["inner.0", "quant"]
    before = trained(x)
    assert facula.equal(before, Q.convert(trained)(x))


def test_lists_choose_what_is_observed():
    model = Between(nn.Conv2d(1, 1, 1), nn.Sequential(nn.Conv2d(1, 1, 1), nn.ELU())).eval()
    model.qconfig = Q.default_qconfig
    assert observed(Q.prepare(model)) == ["inner.0", "inner.1.0", "inner.1.1", "quant"]
    assert observed(Q.prepare(model, allow_list={nn.ELU})) == ["inner.1.1"]
    parts = {nn.Sequential}
    found = observed(Q.prepare(model, observer_non_leaf_module_list=parts))
    assert found == ["inner", "quant"]
    apart = {"non_traceable_module_name": ["1"]}
    assert observed(Q.prepare(model, prepare_custom_config_dict=apart)) == ["inner.0", "quant"]


def test_normalized_layers_are_observed_as_one():
    layer = nniq.ConvBn2d(1, 1, 1, qconfig=Q.default_qat_qconfig)
    model = Between(layer).train()
    model.qconfig = Q.default_qat_qconfig
    assert observed(Q.prepare_qat(model)) == ["inner.0", "quant"]


class Doubling(nn.Module):
    """A float module of a program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1)

    def forward(self, x: Any) -> Any:
        return self.conv(x)


class Watched(Doubling):
    @classmethod
    def from_float(cls, module: Any) -> Any:
        made = cls()
        made.conv, made.qconfig = module.conv, module.qconfig
        return made


class Whole(nn.Module):
    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.conv = conv

    def forward(self, x: Any) -> Any:
        return self.conv(x)

    @classmethod
    def from_observed(cls, module: Any) -> Any:
        module.conv.activation_post_process = module.activation_post_process
        return cls(nnq.Conv2d.from_float(module.conv))


def test_modules_of_a_programs_own():
    """They compute what a model of the usual layers does."""
    x = facula.rand(2, 1, 3, 3)
    own, usual = Between(Doubling()), Between(nn.Conv2d(1, 1, 1))
    usual.inner[0].load_state_dict(own.inner[0].conv.state_dict())
    results = []
    for model in (own, usual):
        model.eval().qconfig = Q.default_qconfig
        before = {"float_to_observed_custom_module_class": {Doubling: Watched}}
        after = {"observed_to_quantized_custom_module_class": {Watched: Whole}}
        ready = Q.prepare(model, prepare_custom_config_dict=before)
        assert observed(ready) == ["inner.0", "quant"]
        ready(x)
        results.append(Q.convert(ready, convert_custom_config_dict=after))
    assert type(results[0].inner[0]) is Whole
    assert facula.equal(results[0](x), results[1](x))


def test_a_table_without_a_configuration_says_which_is_missing():
    bag = nn.EmbeddingBag(4, 2)
    with pytest.raises(AssertionError, match="must have qconfig defined"):
        nn.qat.EmbeddingBag.from_float(bag)  # type: ignore[attr-defined]
    bag.qconfig = None
    with pytest.raises(AssertionError, match="must have a valid qconfig"):
        nn.qat.EmbeddingBag.from_float(bag)  # type: ignore[attr-defined]


def test_tables_that_are_trained_are_observed():
    """By an observer that does nothing, as what is made of them expects one; converted, their numbers stay."""
    model = nn.Sequential(nn.Embedding(6, 4))
    model[0].qconfig = Q.default_embedding_qat_qconfig
    ready = Q.prepare_qat(model.train(), Q.get_embedding_qat_module_mappings())
    assert observed(ready) == ["0"]
    assert type(ready[0].activation_post_process) is Q.NoopObserver
    x = facula.tensor([[0, 5], [2, 3]])
    before = ready(x)
    made = Q.convert(ready.eval(), Q.get_embedding_static_quant_module_mappings())
    assert type(made[0]) is nnq.Embedding
    np.testing.assert_allclose(made(x).numpy(), before.detach().numpy(), atol=1e-6)
