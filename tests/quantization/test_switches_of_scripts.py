"""Switches of fake quantization reach scripted models, and models out of files; models in eval mode are prepared."""

import io

import pytest

import facula
from facula import nn
from facula.ao import quantization
from facula.ao.quantization.quantize_fx import convert_fx, prepare_qat_fx


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.second(self.first(x).relu())


def prepared(training=True):
    facula.manual_seed(4)
    mapping = quantization.get_default_qat_qconfig_mapping("x86")
    return prepare_qat_fx(Layers().train(training), mapping, example_inputs=(facula.rand(3, 4),))


def switches(model, name):
    return [v.tolist() for k, v in model.state_dict().items() if k.endswith(name)]


@pytest.mark.parametrize("saved", [False, True])
def test_scripted_models_are_switched(saved):
    model, x = prepared(), facula.rand(5, 4)
    scripted = facula.jit.script(model)
    if saved:
        buffer = io.BytesIO()
        facula.jit.save(scripted, buffer)
        buffer.seek(0)
        scripted = facula.jit.load(buffer)
    scripted(x)
    count = len(switches(scripted, "observer_enabled"))
    assert count == len(switches(model, "observer_enabled")) > 3
    for name in ("observer", "fake_quant"):
        for word, value in (("disable", 0), ("enable", 1), ("disable", 0)):
            scripted.apply(getattr(quantization, f"{word}_{name}"))
            assert switches(scripted, f"{name}_enabled") == [[value]] * count
    # neither looks nor rounds any more
    before = {k: v.clone() for k, v in scripted.state_dict().items() if "post_process" in k}
    scripted.eval()
    found = scripted(x * 9)
    assert all(scripted.state_dict()[k].equal(v) for k, v in before.items())
    model.load_state_dict(scripted.state_dict())
    model.eval()
    model.apply(quantization.disable_observer)
    model.apply(quantization.disable_fake_quant)
    assert found.allclose(model(x * 9), atol=1e-6)


def test_models_in_eval_mode_are_prepared():
    model, x = prepared(training=False), facula.rand(64, 4)
    assert not model.training
    wanted = model(x)
    found = convert_fx(model)(x)
    assert (found - wanted).abs().max() <= 0.1 * wanted.abs().max() + 0.1
