"""Gradients for each entry of a batch (`call_for_per_sample_grads`), against a loop over the entries."""

import pytest

import facula
from facula import nn
from facula.nn.utils._expanded_weights import ExpandedWeight
from facula.nn.utils._expanded_weights import expanded_weights_utils as utils
from facula.nn.utils._per_sample_grad import call_for_per_sample_grads


def by_loop(model, x, targets, reduction):
    loss_of = nn.CrossEntropyLoss(reduction=reduction)
    found = []
    for i in range(len(x)):
        loss = loss_of(model(x[i : i + 1]), targets[i : i + 1])
        found.append(facula.autograd.grad(loss, list(model.parameters())))
    return [facula.stack(list(column)) for column in zip(*found, strict=True)]


MODELS = {
    "conv2d": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
            nn.Linear(64, 5),
        ),
        (3, 4, 4),
    ),
    "conv1d": (
        lambda: nn.Sequential(
            nn.Conv1d(3, 4, 2, stride=2),
            nn.InstanceNorm1d(4, affine=True),
            nn.Flatten(),
            nn.Linear(12, 5),
        ),
        (3, 6),
    ),
    "layer_norm": (lambda: nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 5)), (6,)),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(12, 5)),
        (4,),
    ),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODELS)
def test_each_entry_has_its_gradient(name, reduction):
    make, shape = MODELS[name]
    model = make().double()
    x = facula.randn(3, *shape, dtype=facula.float64)
    if name == "embedding":
        x = facula.randint(0, 7, (3, *shape))
    targets = facula.tensor([0, 4, 2])
    loss_of = nn.CrossEntropyLoss(reduction=reduction)
    result = call_for_per_sample_grads(model, loss_reduction=reduction)(x)
    assert facula.allclose(result, model(x))
    loss_of(result, targets).backward()
    for parameter, expected in zip(
        model.parameters(), by_loop(model, x, targets, reduction), strict=True
    ):
        assert parameter.grad is None
        assert facula.allclose(parameter.grad_sample, expected, rtol=1e-9, atol=1e-11)


def test_a_layer_called_twice_adds_and_the_input_has_its_gradient():
    layer = nn.Linear(3, 2).double()
    x = facula.randn(4, 3, dtype=facula.float64, requires_grad=True)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x) + self.layer(x * 2)

    call_for_per_sample_grads(Twice())(x).sum().backward()
    assert facula.allclose(layer.weight.grad_sample, 3 * x.detach().unsqueeze(1).expand(4, 2, 3))
    assert facula.allclose(layer.bias.grad_sample, facula.full((4, 2), 2.0, dtype=facula.float64))
    assert facula.allclose(x.grad, 3 * layer.weight.detach().sum(0).expand(4, 3))


def test_running_statistics_are_written_once():
    layer = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    plain = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    x = facula.randn(3, 2, 5)
    call_for_per_sample_grads(layer)(x).sum().backward()
    plain(x)
    assert facula.allclose(layer.running_mean, plain.running_mean)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x: call_for_per_sample_grads("fail")(x), "Module passed must be nn.Module"),
        (lambda m, x: call_for_per_sample_grads(m, batch_size=6.4)(x), "None or an integer"),
        (lambda m, x: call_for_per_sample_grads(m, batch_size=-1)(x), "must be positive"),
        (lambda m, x: call_for_per_sample_grads(m, loss_reduction="")(x), "to be sum or mean"),
        (
            lambda m, x: call_for_per_sample_grads(m)(x, x[:2]),
            "batch size 4 and one with batch size 2",
        ),
        (lambda m, x: call_for_per_sample_grads(m)(""), "cannot compute the batch size"),
        (lambda m, x: call_for_per_sample_grads(m, batch_size=3)(x), "batch size matching input"),
        (lambda m, x: call_for_per_sample_grads(m)(x[0]), "at least one|Expanded Weights"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(nn.Linear(3, 2), facula.randn(4, 3))


def test_a_second_call_before_the_gradients_are_taken_is_refused():
    layer, x = nn.Linear(3, 2), facula.randn(4, 3)
    call_for_per_sample_grads(layer)(x).sum().backward()
    with pytest.raises(RuntimeError, match="incorrect for multiple calls"):
        call_for_per_sample_grads(layer)(x)


def test_other_operators_and_ordinary_parameters_beside_are_refused():
    weight = facula.randn(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot handle function"):
        facula.add(facula.randn(3, 4), ExpandedWeight(weight, 3, "sum"))
    with pytest.raises(RuntimeError, match="mixture of ExpandedWeight"):
        expanded = ExpandedWeight(facula.randn(2, 4, requires_grad=True), 3, "sum")
        bias = facula.randn(2, requires_grad=True)
        nn.functional.linear(facula.randn(3, 4), expanded, bias)
    with pytest.raises(RuntimeError, match="Tensors"):
        ExpandedWeight(3, 3, "sum")
    with pytest.raises(RuntimeError, match="requires grad"):
        ExpandedWeight(weight.detach(), 3, "sum")
    with pytest.raises(RuntimeError, match="Expanded Weights"):
        norm = ExpandedWeight(facula.randn(3, 4, requires_grad=True), 3, "sum")
        nn.functional.layer_norm(facula.randn(3, 4), (3, 4), norm)


def test_smaller_batches_are_padded_where_that_is_allowed():
    weight = facula.randn(2, 4, requires_grad=True)
    expanded = ExpandedWeight(weight, 5, "sum")
    expanded.set_allow_smaller_batches(True)
    x = facula.randn(3, 4)
    nn.functional.linear(x, expanded).sum().backward()
    assert facula.allclose(weight.grad_sample[:3], x.unsqueeze(1).expand(3, 2, 4))
    assert weight.grad_sample.shape == (5, 2, 4) and not weight.grad_sample[3:].any()


def test_helpers():
    x = facula.randn(2, 3, 4)
    assert facula.allclose(utils.sum_over_all_but_batch_and_last_n(x, 1), x.sum(1))
    assert utils.sum_over_all_but_batch_and_last_n(x, 2) is x
    assert utils.standard_kwargs(("bias",), (1, 2, 3)) == ((1, 2), {"bias": 3})
    assert utils.unpack_expanded_weight_or_tensor(4) is None
    with pytest.raises(RuntimeError, match="0 is not a valid batch size"):
        utils.forward_helper(nn.functional.linear, (facula.randn(0, 2), facula.randn(2, 2)), {})
