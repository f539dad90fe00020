"""PT2E: annotated graphs get observers, observed graphs get integers, and bad ones are refused by name."""

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao.quantization import observer as ob
from facula.ao.quantization.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from facula.ao.quantization.quantizer import (
    ComposableQuantizer,
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)
from facula.ao.quantization.quantizer import x86_inductor_quantizer as x86
from facula.ao.quantization.quantizer import xnnpack_quantizer as xnn
from facula.export.input_check import GuardsFn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = facula.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(y + y, 2)
        return self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))


@pytest.fixture
def net():
    facula.manual_seed(3)
    made = Net().eval()
    made.norm.running_mean.normal_()
    made.norm.running_var.uniform_(0.5, 2)
    return made


@pytest.fixture
def x():
    return facula.randn(4, 3, 8, 8, generator=facula.Generator().manual_seed(1))


def exported(module, *inputs):
    return facula.export.export(module, inputs).module()


def quantizers():
    symmetric = xnn.get_symmetric_quantization_config
    yield "xnnpack", xnn.XNNPACKQuantizer().set_global(symmetric())
    yield "channels", xnn.XNNPACKQuantizer().set_global(symmetric(is_per_channel=True))
    yield "dynamic", xnn.XNNPACKQuantizer().set_global(symmetric(is_dynamic=True))
    config = x86.get_default_x86_inductor_quantization_config()
    yield "x86", x86.X86InductorQuantizer().set_global(config)


def words(model):
    return [str(n.target).partition(".")[2] for n in model.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("name", [name for name, _ in quantizers()])
def test_integers_are_near_the_numbers(net, x, name):
    want = net(x).detach()
    prepared = prepare_pt2e(exported(net, x), dict(quantizers())[name])
    assert facula.allclose(prepared(x), want, atol=1e-5)  # the norm is in the weights
    made = convert_pt2e(prepared)
    assert (made(x) - want).abs().max() < 0.03 * want.abs().max()
    found = words(made)
    assert "batch_norm_eval.default" not in found
    called = [n.target for n in made.graph.nodes if n.op == "call_module"]
    assert called in ([], ["_guards_fn"])  # no observer; the check of the inputs may stay
    frozen = [value for key, value in made.named_buffers() if "_frozen_param" in key]
    assert [value.dtype for value in frozen] == [facula.int8] * 2


def test_compiled_integers_are_the_same(net, x):
    prepared = prepare_pt2e(exported(net, x), dict(quantizers())["xnnpack"])
    prepared(x)
    made = convert_pt2e(prepared)
    assert facula.allclose(facula.compile(made)(x), made(x), atol=1e-6)


def test_the_integers_of_a_linear_layer():
    facula.manual_seed(0)
    layer, x = nn.Linear(20, 7), facula.randn(9, 20)
    quantizer = dict(quantizers())["x86"]
    prepared = prepare_pt2e(exported(layer, x), quantizer)
    prepared(x)
    made = convert_pt2e(prepared)
    quantize = next(n for n in made.graph.nodes if "quantize_per_tensor" in str(n.target))
    scale, zero, low, high = quantize.args[1:5]
    q = np.clip(np.rint(x.numpy().astype("float64") / scale) + zero, low, high)
    w = layer.weight.detach().numpy().astype("float64")
    steps = np.abs(w).max(1) / 127.5
    integers = made._frozen_param_0.numpy().astype("float64")
    # the largest weight lies between two integers, of which 127 is there
    assert (np.abs(integers - w / steps[:, None]) <= 0.5 + 1e-4).all()
    want = (q - zero) @ integers.T * (scale * steps) + layer.bias.detach().numpy()
    np.testing.assert_allclose(made(x).detach().numpy(), want, rtol=1e-4, atol=1e-5)


def test_weights_stay_numbers_on_request(net, x):
    prepared = prepare_pt2e(exported(net, x), dict(quantizers())["channels"])
    prepared(x)
    made = convert_pt2e(prepared, fold_quantize=False)
    assert words(made).count("quantize_per_channel.default") == 2


def test_modules_and_operators_have_settings_of_their_own(net, x):
    config = xnn.get_symmetric_quantization_config()
    by_name = xnn.XNNPACKQuantizer().set_global(config).set_module_name("head", None)
    by_type = xnn.XNNPACKQuantizer().set_global(config)
    by_type.set_operator_type(facula.ops.aten.linear.default, None)
    for quantizer in (by_name, by_type):
        prepared = prepare_pt2e(exported(net, x), quantizer)
        prepared(x)
        made = convert_pt2e(prepared)
        assert len([key for key, _ in made.named_buffers() if "_frozen_param" in key]) == 1


ACTIVATION = QuantizationSpec(facula.uint8, ob.MinMaxObserver, 0, 255, facula.per_tensor_affine)


class Annotating(Quantizer):
    def __init__(self, say):
        self.say = say

    def annotate(self, model):
        for node in model.graph.nodes:
            if node.op == "call_function" and "quantization_annotation" not in node.meta:
                made = self.say(node)
                if made is not None:
                    node.meta["quantization_annotation"] = made
        return model

    def validate(self, model):
        pass


def run(say, forward, *inputs):
    class Module(nn.Module):
        def forward(self, *args):
            return forward(*args)

    prepared = prepare_pt2e(
        exported(Module(), *inputs), say if isinstance(say, Quantizer) else Annotating(say)
    )
    prepared(*inputs)
    observers = [m for m in prepared.children() if not isinstance(m, GuardsFn)]
    return observers, convert_pt2e(prepared)


def test_shared_parameters_have_one_observer():
    a, b = facula.tensor([1.0, 2.0]), facula.tensor([-5.0, 10.0])

    def say(node):
        first, second = node.args[:2]
        shared = SharedQuantizationSpec((first, node))
        return QuantizationAnnotation({first: ACTIVATION, second: shared}, shared)

    observers, made = run(say, lambda a, b: a + b, a, b)
    assert len(observers) == 1
    parameters = {n.args[1:3] for n in made.graph.nodes if "quantize_per" in str(n.target)}
    assert len(parameters) == 1 and parameters.pop()[0] == pytest.approx(17 / 255, rel=1e-5)


def test_known_and_derived_parameters():
    fixed = FixedQParamsQuantizationSpec(facula.uint8, 1 / 256, 0, 0, 255, facula.per_tensor_affine)

    def say(node):
        if "sigmoid" in str(node.target):
            return QuantizationAnnotation({node.args[0]: ACTIVATION}, fixed)
        a, b = node.args[:2]
        twice = DerivedQuantizationSpec(
            [(a, node)],
            lambda observers: tuple(p * 2 for p in observers[0].calculate_qparams()),
            facula.int32, -(2**31), 2**31 - 1, facula.per_tensor_affine,
        )  # fmt: skip
        return QuantizationAnnotation({a: ACTIVATION, b: twice})

    x = facula.linspace(-2, 3, 9)
    _, made = run(say, lambda x, y: facula.sigmoid(x) * y, x, x)
    scales = [n.args[1] for n in made.graph.nodes if "quantize_per" in str(n.target)]
    assert 1 / 256 in scales
    first = min(s for s in scales if s != 1 / 256)
    assert any(s == pytest.approx(2 * first) for s in scales)


def test_one_quantizer_after_another(net, x):
    symmetric = xnn.get_symmetric_quantization_config()
    only = xnn.XNNPACKQuantizer().set_operator_type(facula.ops.aten.linear.default, symmetric)
    second = dict(quantizers())["x86"]
    prepared = prepare_pt2e(exported(net, x), ComposableQuantizer([only, second]))
    prepared(x)
    kinds = {
        n.args[-1] for n in convert_pt2e(prepared).graph.nodes if "quantize_per" in str(n.target)
    }
    assert kinds == {facula.int8, facula.uint8}


def test_training_with_levels():
    facula.manual_seed(0)
    layer, x = nn.Linear(6, 3), facula.randn(32, 6)
    config = xnn.get_symmetric_quantization_config(is_qat=True)
    prepared = prepare_qat_pt2e(exported(layer, x), xnn.XNNPACKQuantizer().set_global(config))
    optimizer = facula.optim.SGD(prepared.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        loss = ((prepared(x) - x[:, :3]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    want = prepared(x).detach()
    assert (convert_pt2e(prepared)(x) - want).abs().max() < 0.05


def test_errors(net, x):
    quantizer = dict(quantizers())["xnnpack"]
    with pytest.raises(ValueError, match="module of an exported program was required"):
        prepare_pt2e(net, quantizer)
    with pytest.raises(TypeError, match="a Quantizer was required"):
        prepare_pt2e(exported(net, x), xnn)
    with pytest.raises(ValueError, match="with observers was required"):
        convert_pt2e(exported(net, x))
    with pytest.raises(ValueError, match="quant_min must be less"):
        QuantizationSpec(facula.int8, ob.MinMaxObserver, 5, 5)
    with pytest.raises(ValueError, match="inside of that of"):
        QuantizationSpec(facula.int8, ob.MinMaxObserver, 0, 255)
    with pytest.raises(ValueError, match="Ch_axis"):
        QuantizationSpec(facula.int8, ob.MinMaxObserver, ch_axis=-1)
    with pytest.raises(TypeError, match="QuantizationConfig was required"):
        x86.X86InductorQuantizer().set_global("all")
    shared = lambda node: QuantizationAnnotation(  # noqa: E731
        {node.args[0]: SharedQuantizationSpec(node)}, SharedQuantizationSpec((node.args[0], node))
    )
    with pytest.raises(RuntimeError, match="a circle at node"):
        run(shared, lambda x: x * 2, x)
    nowhere = lambda node: QuantizationAnnotation({}, SharedQuantizationSpec(node.args[0]))  # noqa: E731
    with pytest.raises(RuntimeError, match="which others share and nothing annotates"):
        run(nowhere, lambda x: x * 2, x)
