"""Masks of weights: which entries go is found by sorting blocks one by one; schedules by their formulas."""

import copy
import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

import facula
from facula import nn
from facula.ao import pruning
from facula.ao.pruning._experimental.activation_sparsifier.activation_sparsifier import (
    ActivationSparsifier,
)
from facula.ao.pruning._experimental.data_scheduler import BaseDataScheduler
from facula.ao.pruning._experimental.data_sparsifier import DataNormSparsifier
from facula.ao.pruning._experimental.data_sparsifier.quantization_utils import (
    post_training_sparse_quantize,
)
from facula.ao.pruning.sparsifier.utils import get_arg_info_from_tensor_fqn, swap_module


def of_weight(values, sparsifier):
    """A model of one layer with this weight, and the mask after a step."""
    height, width = values.shape
    model = nn.Sequential(nn.Linear(width, height, bias=False))
    model[0].weight.data.copy_(facula.tensor(values))
    sparsifier.prepare(model, None)
    sparsifier.step()
    return model, model[0].parametrizations.weight[0].mask.numpy()


def expected(norms, level, shape, zeros):
    """The mask, block by block; one block stays below a level of 1."""
    height, width = norms.shape
    mask = np.ones_like(norms)
    values = shape[0] * shape[1]
    places = list(itertools.product(range(0, height, shape[0]), range(0, width, shape[1])))
    inside = {(i, j): norms[i : i + shape[0], j : j + shape[1]] for i, j in places}
    order = sorted(places, key=lambda place: inside[place].mean())
    count = len(places) if level >= 1 else min(round(level * len(places)), len(places) - 1)
    for i, j in order[: max(count, 0)]:
        block = inside[i, j]
        flat = np.argsort(block, axis=None)[: block.size if zeros == values else zeros]
        for place in flat:
            a, b = np.unravel_index(place, block.shape)
            mask[i + a, j + b] = 0
    return mask


@pytest.mark.parametrize("norm", [None, 1, 2])
@pytest.mark.parametrize("level", [-1.0, 0.0, 0.3, 0.5, 0.9, 1.0, 2.0])
@pytest.mark.parametrize(("shape", "zeros"), [((1, 4), 4), ((1, 4), 2), ((2, 3), 6), ((3, 1), 0)])
def test_the_blocks_with_the_smallest_norms_go(norm, level, shape, zeros):
    values = np.random.default_rng(3).standard_normal((6, 12)).astype("f")
    _, mask = of_weight(values, pruning.WeightNormSparsifier(level, shape, zeros, norm))
    norms = np.abs(values) if norm == 1 else values**2
    np.testing.assert_array_equal(mask, expected(norms, level, shape, zeros))


def test_blocks_over_the_edge_count_by_what_they_have():
    values = np.random.default_rng(4).standard_normal((7, 11)).astype("f")
    _, mask = of_weight(values, pruning.WeightNormSparsifier(0.5, (3, 4), norm=1))
    np.testing.assert_array_equal(mask, expected(np.abs(values), 0.5, (3, 4), 12))


def test_the_mask_is_in_the_product_and_stays_in_it():
    values = np.random.default_rng(5).standard_normal((4, 8)).astype("f")
    sparsifier = pruning.WeightNormSparsifier(0.5, (1, 1))
    model, mask = of_weight(values, sparsifier)
    x = np.random.default_rng(6).standard_normal((3, 8)).astype("f")
    wanted = x @ (values * mask).T
    np.testing.assert_allclose(model(facula.tensor(x)).detach().numpy(), wanted, rtol=1e-5)
    model(facula.tensor(x)).sum().backward()
    grad = model[0].parametrizations.weight.original.grad.numpy()
    np.testing.assert_allclose(grad, mask * x.sum(0), rtol=1e-5)
    sparsifier.squash_mask(("sparsity_level",), {"0": ("zeros_per_block",)})
    assert not hasattr(model[0], "parametrizations")
    np.testing.assert_allclose(model[0].weight.detach().numpy(), values * mask)
    assert model[0].sparse_params == {"sparsity_level": 0.5, "zeros_per_block": 1}


@pytest.mark.parametrize("nearliness", [-3, 0, 1, 3, 5])
def test_diagonals(nearliness):
    _, mask = of_weight(np.ones((3, 4), "f"), pruning.NearlyDiagonalSparsifier(nearliness))
    rows, columns = np.indices((3, 4))
    near = np.abs(rows - columns) <= nearliness // 2 if nearliness > 0 else np.zeros((3, 4))
    np.testing.assert_array_equal(mask, near)


def test_states_go_over_to_another_model():
    first, second = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4))
    one, other = pruning.WeightNormSparsifier(0.5, (1, 2)), pruning.WeightNormSparsifier()
    one.prepare(first, None)
    one.step()
    other.prepare(second, None)
    other.load_state_dict(one.state_dict())
    masks = [model[0].parametrizations.weight[0].mask for model in (first, second)]
    assert facula.equal(*masks) and float(masks[1].mean()) == 0.5
    assert other.groups[0]["sparse_block_shape"] == (1, 2)
    assert other.groups[0]["module"] is second[0]
    assert "FakeSparsity" in repr(other) and repr(other).startswith("WeightNormSparsifier (\n")
    state = one.state_dict()
    state["groups"][0]["tensor_fqn"] = "7.weight"
    with pytest.raises(RuntimeError, match=r"every group: got 7\.weight\nhint: "):
        other.load_state_dict(state)
    other.load_state_dict(state, strict=False)
    assert other.groups == []


def test_layers_are_exchanged():
    class Other(nn.Linear):
        @classmethod
        def from_dense(cls, layer):
            return cls(layer.in_features, layer.out_features)

    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2)))
    sparsifier = pruning.WeightNormSparsifier()
    sparsifier.prepare(model, [{"tensor_fqn": "1.0.weight"}])
    seen = []
    model[1][0].register_forward_hook(lambda *_: seen.append(1))
    new = sparsifier.convert(model, {nn.Linear: Other})
    assert type(new[0]) is nn.Linear and type(new[1][0]) is Other and type(model[1][0]) is not Other
    new(facula.ones(1, 2))
    assert seen == [1]
    assert swap_module(new[0], {}) is new[0]
    with pytest.raises(NotImplementedError, match="a mapping of classes"):
        sparsifier.convert(model)


def of_config(entry):
    pruning.WeightNormSparsifier().prepare(nn.ReLU(), [entry])


ELSEWHERE = {"tensor_fqn": "a.weight", "module_fqn": "b"}
REFUSED = [
    (lambda: pruning.BaseSparsifier(), TypeError, "abstract"),
    (lambda: pruning.WeightNormSparsifier(norm=3), NotImplementedError, "L-3 is not yet"),
    (lambda: of_weight(np.ones((2, 2), "f"), pruning.WeightNormSparsifier(zeros_per_block=9)), ValueError, "more than"),
    (lambda: of_weight(np.ones((2, 2), "f"), pruning.WeightNormSparsifier(zeros_per_block=-1)), ValueError, "positive"),
    (lambda: of_weight(np.ones((2, 2), "f"), pruning.NearlyDiagonalSparsifier(2)), ValueError, "an odd number: got 2"),
    (lambda: of_weight(np.ones((2, 2), "f"), pruning.NearlyDiagonalSparsifier(5)), ValueError, "larger than the dim"),
    (lambda: pruning.WeightNormSparsifier().prepare(nn.Linear(2, 2), [{}]), AssertionError, "tensor_fqn is a required"),
    (lambda: pruning.WeightNormSparsifier().prepare(nn.Linear(2, 2), ["weight"]), AssertionError, "should be dicts"),
    (lambda: of_config(ELSEWHERE), AssertionError, "expected them to agree"),
    (lambda: pruning.FakeSparsity(facula.ones(2))(facula.ones(3)), AssertionError, "of the mask's shape"),
    (lambda: pruning.LambdaSL(pruning.WeightNormSparsifier(), [abs]), ValueError, "0 functions"),
    (lambda: pruning.CubicSL(pruning.WeightNormSparsifier(), init_sl=[0.1]), ValueError, "of length 0: got 1"),
    (lambda: pruning.BaseScheduler(3), TypeError, "an instance of BaseSparsifier"),
    (lambda: DataNormSparsifier(norm="L3"), AssertionError, "only L1 and L2"),
    (lambda: DataNormSparsifier([("a", 3)]), AssertionError, "not supported at the moment"),
    (lambda: DataNormSparsifier([("a", facula.ones(2, 2, 2))]).step(), ValueError, "only supports 2-D"),
    (lambda: DataNormSparsifier().get_data("a"), ValueError, "does not exist: got a"),
    (lambda: DataNormSparsifier().prepare(1, 2), NotImplementedError, "data, by name"),
    (lambda: ActivationSparsifier(nn.ReLU()).get_mask(), AssertionError, "Need at least name or layer"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert "abstract" in words or "\nhint: " in str(caught.value)


def prepared(*levels):
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in levels])
    sparsifier = pruning.WeightNormSparsifier()
    sparsifier.prepare(
        model,
        [{"tensor_fqn": f"{i}.weight", "sparsity_level": level} for i, level in enumerate(levels)],
    )
    return sparsifier


def test_levels_by_functions(capsys):
    sparsifier = prepared(0.5, 0.2)
    scheduler = pruning.LambdaSL(sparsifier, [lambda e: e, lambda e: 1 - e / 10], verbose=True)
    assert capsys.readouterr().out.splitlines()[0] == (
        "Adjusting sparsity level of group 0 to 0.0000e+00."
    )
    with pytest.warns(UserWarning, match="before `sparsifier.step"):
        scheduler.step()
    sparsifier.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step(epoch=7)
    assert scheduler.get_last_sl() == [1.0, pytest.approx(0.16)]
    assert "Epoch     7: Adjusting" in capsys.readouterr().out
    other = pruning.LambdaSL(prepared(0.1, 0.1), abs)
    other.load_state_dict(scheduler.state_dict())
    assert other.last_epoch == 2 and other.base_sl == [0.5, 0.2]
    with pytest.warns(UserWarning, match="get_last_sl"):
        other.get_sl()


@pytest.mark.parametrize("zero", [True, False])
def test_levels_by_a_cubic(zero):
    sparsifier = prepared(0.8, 0.4)
    scheduler = pruning.CubicSL(sparsifier, 0.1, [2, 0], 3, 4, initially_zero=zero)
    for epoch in range(16):
        for level, last, start in zip(scheduler.get_last_sl(), (0.8, 0.4), (2, 0), strict=True):
            share = min(max((epoch - start) / 12, 0), 1)
            wanted = 0 if zero and epoch < start else last - (last - 0.1) * (1 - share) ** 3
            assert math.isclose(level, wanted, abs_tol=1e-12)
        sparsifier.step()
        scheduler.step()


def test_data_has_masks_of_its_own():
    tensor, table = facula.randn(4, 4), nn.Embedding(6, 4)
    sparsifier = DataNormSparsifier([("t", tensor), ("e", table)], 0.5, (1, 4))
    sparsifier.step()
    for name, values in (("t", tensor.numpy()), ("e", table.weight.detach().numpy())):
        rows = np.argsort(np.abs(values).sum(1))[: len(values) // 2]
        wanted = values.copy()
        wanted[rows] = 0
        got = sparsifier.get_data(name, return_original=False).detach().numpy()
        np.testing.assert_array_equal(got, wanted)
    assert sparsifier.get_data("e") is table.weight
    again = pickle.loads(pickle.dumps(sparsifier))
    assert facula.equal(again.get_mask("t"), sparsifier.get_mask("t"))
    other = DataNormSparsifier()
    other.load_state_dict(sparsifier.state_dict())
    assert facula.equal(other.get_data("t", return_original=False), tensor * again.get_mask("t"))
    with pytest.warns(UserWarning, match="there already"):
        sparsifier.add_data("t", facula.zeros(4, 4))
    assert facula.equal(sparsifier.get_mask("t"), again.get_mask("t"))
    sparsifier.squash_mask()
    with pytest.raises(ValueError, match="mask squashed"):
        sparsifier.get_data("t")


def test_settings_of_data_follow_a_schedule():
    class Halving(BaseDataScheduler):
        def get_schedule_param(self):
            return {name: value / 2**self.last_epoch for name, value in self.base_param.items()}

    sparsifier = DataNormSparsifier([("a", facula.ones(4, 4))], 0.8)
    scheduler = Halving(sparsifier, "sparsity_level")
    with pytest.warns(UserWarning, match="data_sparsifier.step"):
        scheduler.step()
    sparsifier.step()
    scheduler.step()
    assert scheduler.get_last_param() == {"a": 0.2} and scheduler._step_count == 3
    assert sparsifier.data_groups["a"]["sparsity_level"] == 0.2


@pytest.mark.parametrize("first", [True, False])
def test_tables_become_sparse_and_integers(first):
    # every row has entries of both signs: levels of a row without lie on one side of zero
    model = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 8))
    with facula.no_grad():
        model[0].weight[:, 0].abs_()
        model[0].weight[:, 1].abs_().neg_()
    before = model[0].weight.detach().numpy().copy()
    post_training_sparse_quantize(
        model, DataNormSparsifier, first, sparsity_level=0.5, sparse_block_shape=(1, 1)
    )
    weight = model[0].weight().dequantize().numpy()
    size, middle = np.abs(before), np.median(np.abs(before))
    large = size > 1.1 * middle  # levels of integers may exchange neighbours
    np.testing.assert_allclose(weight[large], before[large], atol=0.05)
    assert np.abs(weight[size < 0.9 * middle]).max() < 0.05
    assert type(model[1]) is nn.Linear


def test_activations_are_gathered_and_masked():
    model = nn.Sequential(nn.Identity(), nn.Identity())

    def least(data, share):
        kept = np.ones(data.numel(), "f")
        kept[np.argsort(np.abs(data.numpy()), axis=None)[: round(share * data.numel())]] = 0
        return facula.tensor(kept.reshape(data.shape))

    sparsifier = ActivationSparsifier(model, facula.add, lambda x: x.mean(0), least, share=0.5)
    sparsifier.register_layer(model[0])
    sparsifier.register_layer(model[1], features=[1, 3], feature_dim=1, share=0.25)
    with pytest.raises(ValueError, match="shape unknown"):
        sparsifier.get_mask("0")
    inputs = [facula.randn(2, 4, 4) for _ in range(3)]
    for x in inputs:
        model(x)
    sparsifier.step()
    gathered = sum(x.numpy() for x in inputs).mean(0)
    mask = sparsifier.get_mask(layer=model[0]).numpy()
    assert set(np.argsort(np.abs(gathered), axis=None)[:8]) == set(np.flatnonzero(mask == 0))
    sparsifier.squash_mask()
    x = facula.randn(2, 4, 4)
    np.testing.assert_array_equal(model[0](x).numpy(), x.numpy() * mask)
    one, three = sparsifier.get_mask("1")
    wanted = x.numpy().copy()
    wanted[:, 1:2] *= one.numpy()
    wanted[:, 3:4] *= three.numpy()
    np.testing.assert_array_equal(model[1](x).numpy(), wanted)
    other = ActivationSparsifier(copy.deepcopy(nn.Sequential(nn.Identity(), nn.Identity())))
    state = sparsifier.state_dict()
    assert state["state"]["0"]["mask"].is_sparse
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.model[0](x).numpy(), x.numpy() * mask)
    sparsifier.unregister_layer("0")
    assert facula.equal(model[0](x), x)


def test_names_in_models():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 3)))
    assert pruning.module_to_fqn(model, model[0][0]) == "0.0"
    assert pruning.module_to_fqn(model, model) == ""
    assert pruning.module_to_fqn(model, nn.ReLU()) is None
    assert pruning.fqn_to_module(model, "0.0.weight") is model[0][0].weight
    assert pruning.fqn_to_module(model, "a.b") is None
    found = get_arg_info_from_tensor_fqn(model, "a.b.c")
    assert (found["module"], found["module_fqn"], found["tensor_name"]) == (None, "a.b", "c")
    assert pruning.FakeSparsity(facula.ones(2)).state_dict() == {}


@pytest.mark.parametrize("train", [False, True])
def test_sparse_layers_become_integers(train):
    """Quantization of a parametrized layer takes the masked weight, in eager mode and for training."""
    from facula.ao import quantization as tq

    model = nn.Sequential(nn.Linear(8, 4)).train(train)
    sparsifier = pruning.WeightNormSparsifier(0.5, (1, 1))
    sparsifier.prepare(model, None)
    sparsifier.step()
    mask = model[0].parametrizations.weight[0].mask.numpy()
    model.qconfig = (tq.get_default_qat_qconfig if train else tq.get_default_qconfig)("fbgemm")
    (tq.prepare_qat if train else tq.prepare)(model, inplace=True)
    model(facula.randn(16, 8))
    sparsifier.squash_mask()
    tq.convert(model.eval(), inplace=True)
    assert type(model[0]) is nn.quantized.Linear
    np.testing.assert_array_equal(model[0].weight().dequantize().numpy()[mask == 0], 0)
    assert (model[0].weight().dequantize().numpy()[mask == 1] != 0).mean() > 0.9
