"""Reference layers: the numbers of their weights, and the range within which their observer kept them."""

from __future__ import annotations

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.nn import quantized as nnq
from facula.ao.nn.quantized import reference
from facula.quantization import default_dynamic_qconfig

WEIGHT = np.array([[-12.8, 0.26], [12.7, -0.04]], np.float32)


def layer_of(**given) -> nn.Module:
    """A reference layer of `WEIGHT`."""
    floats = nn.Linear(2, 2, bias=False)
    with facula.no_grad():
        floats.weight.copy_(facula.from_numpy(WEIGHT))
    return reference.Linear.from_float(floats, {"dtype": facula.qint8, **given})


@pytest.mark.parametrize("least", [-128, -127, -3])
@pytest.mark.parametrize("decomposed", [True, False])
def test_a_range_holds_where_the_weight_is_decomposed(least, decomposed) -> None:
    layer = layer_of(
        qscheme=facula.per_tensor_affine, scale=0.1, zero_point=0, quant_min=least, quant_max=127,
        is_decomposed=decomposed,
    )  # fmt: skip
    least = least if decomposed else -128
    levels = np.clip(np.round(WEIGHT / 0.1), least, 127)
    found = layer(facula.eye(2)).detach().numpy().T
    np.testing.assert_allclose(found, levels * 0.1, rtol=1e-6)


def test_a_range_holds_for_scales_of_channels() -> None:
    scales = np.array([0.2, 0.05], np.float32)
    layer = layer_of(
        qscheme=facula.per_channel_affine, scale=facula.from_numpy(scales), axis=0, quant_min=-50,
        zero_point=facula.zeros(2, dtype=facula.int64), quant_max=50, is_decomposed=True,
    )  # fmt: skip
    levels = np.clip(np.round(WEIGHT / scales[:, None]), -50, 50)
    np.testing.assert_allclose(
        layer.get_weight().detach().numpy(), levels * scales[:, None], rtol=1e-6
    )


def test_traces_show_the_steps_with_their_range() -> None:
    layer = layer_of(
        qscheme=facula.per_tensor_affine, scale=0.1, zero_point=0, quant_min=-127, quant_max=127,
        is_decomposed=True,
    )  # fmt: skip
    run = facula.ops.quantized_decomposed
    steps = {run.quantize_per_tensor, run.dequantize_per_tensor}
    nodes = [n for n in facula.fx.symbolic_trace(layer).graph.nodes if n.target in steps]
    assert [node.args[3:5] for node in nodes] == [(-127, 127)] * 2


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose2d"])
def test_dynamic_convolutions_name_the_layer_that_they_replace(name) -> None:
    kind = getattr(nnq.dynamic, name)
    assert kind._FLOAT_MODULE is getattr(nn, name)
    floats = kind._FLOAT_MODULE(2, 3, 3)
    floats.qconfig = default_dynamic_qconfig
    x = facula.randn([1, 2, *[6] * (2 if name.endswith("2d") else 1)])
    found, wanted = kind.from_float(floats)(x), floats(x)
    assert (found - wanted).abs().max() < 0.1
