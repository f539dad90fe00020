"""Graphs to be quantized in which sizes and other numbers are computed: they are no activations."""

import pytest

import facula
from facula import nn
from facula.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping
from facula.ao.quantization.quantize_fx import (
    convert_fx,
    convert_to_reference_fx,
    prepare_fx,
    prepare_qat_fx,
)


class Dimensions(nn.Module):
    def forward(self, x):
        return facula.add(x, x.ndim - 2) * x.size(0)


class Sizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 6), nn.BatchNorm1d(6)

    def forward(self, x):
        y = self.norm(self.linear(x))
        count = y.size(0) * y.shape[1]
        return y.reshape(count) * (count // 2 + 1) + facula.mul(y.reshape(-1), count)


class Elements(nn.Module):
    """What stands behind an element of a tensor is not known without elements."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 6)

    def forward(self, x):
        y = self.linear(x) + x.ndim
        return y.add(x.sum().item() * 0 + y.dim())


@pytest.mark.parametrize("made", [Dimensions, Sizes, Elements])
def test_models_that_compute_with_sizes(made):
    facula.manual_seed(2)
    model, x = made().eval(), facula.rand(3, 4)
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), example_inputs=(x,))
    assert prepared(x).allclose(model(x), rtol=1e-5)
    converted = convert_fx(prepared)
    wanted = model(x)
    if made is not Sizes:
        assert (converted(x) - wanted).abs().max() <= 0.05 * wanted.abs().max() + 0.05
    # a product with a number has the observer of what it is made of: bytes are as wide as the largest asks, and
    # the integers are those that the reference model's floats stand for
    reference = convert_to_reference_fx(prepared)(x)
    assert (converted(x) - reference).abs().max() <= wanted.abs().max() * 2 / 127
    if made is Sizes:
        # its layer is quantized all the same
        assert any("quantized" in type(m).__module__ for m in converted.modules())


def test_looking_at_sizes_changes_nothing_of_a_model():
    model = nn.Sequential(Sizes(), nn.Dropout(0.5)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state, x = facula.get_rng_state(), facula.rand(3, 4)
    facula.set_rng_state(state)
    prepared = prepare_fx(model.eval(), get_default_qconfig_mapping("x86"), example_inputs=x)
    assert facula.get_rng_state().equal(state)
    assert all(v.equal(before[k]) for k, v in model.state_dict().items())
    assert all(type(v) is facula.Tensor for v in prepared.state_dict().values())
    trained = prepare_qat_fx(
        model.train(), get_default_qat_qconfig_mapping("x86"), example_inputs=(x,)
    )
    assert all(type(v) is facula.Tensor for v in trained.state_dict().values())
    trained(x).sum().backward()
    assert all(p.grad is not None for p in trained.parameters())
