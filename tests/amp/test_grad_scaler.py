"""GradScaler: scaled losses, unscaled gradients, skipped steps, and a scale that adapts."""

import pickle

import pytest

import facula
from facula.amp import GradScaler


def made(**options):
    weight = facula.nn.Parameter(facula.tensor([2.0, -1.0]))
    return weight, facula.optim.SGD([weight], lr=0.5), GradScaler("cpu", **options)


def test_a_step_is_that_of_the_unscaled_gradient():
    weight, optimizer, scaler = made(init_scale=1024.0)
    loss = scaler.scale((weight * facula.tensor([3.0, 5.0])).sum())
    loss.backward()
    assert weight.grad.tolist() == [3072.0, 5120.0]
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, -3.5] and weight.grad.tolist() == [3.0, 5.0]
    assert scaler.get_scale() == 1024.0


def test_overflow_skips_the_step_and_backs_off():
    weight, optimizer, scaler = made(init_scale=8.0, backoff_factor=0.25)
    scaler.scale((weight * float("inf")).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert weight.tolist() == [2.0, -1.0] and scaler.get_scale() == 2.0


def test_the_scale_grows_after_good_steps():
    weight, optimizer, scaler = made(init_scale=4.0, growth_interval=2, growth_factor=3.0)
    scales = []
    for _ in range(4):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [4.0, 12.0, 12.0, 36.0]


def test_unscale_before_clipping():
    weight, optimizer, scaler = made(init_scale=16.0)
    scaler.scale((weight * facula.tensor([3.0, 4.0])).sum()).backward()
    scaler.unscale_(optimizer)
    norm = facula.nn.utils.clip_grad_norm_([weight], 1.0)
    assert norm.item() == pytest.approx(5.0)
    scaler.step(optimizer)
    scaler.update()
    assert facula.allclose(weight, facula.tensor([1.7, -1.4]))


def test_several_outputs_and_optimizers():
    first, optimizer, scaler = made(init_scale=2.0)
    second = facula.nn.Parameter(facula.ones(1))
    other = facula.optim.SGD([second], lr=1.0)
    for loss in scaler.scale([first.sum(), (second * float("nan")).sum()]):
        loss.backward()
    scaler.step(optimizer)
    scaler.step(other)
    scaler.update()
    assert first.tolist() == [1.5, -1.5] and second.tolist() == [1.0]
    assert scaler.get_scale() == 1.0


def test_misuse_is_named():
    weight, optimizer, scaler = made()
    with pytest.raises(AssertionError, match="scaled loss was required"):
        scaler.step(optimizer)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="Tensor or an iterable"):
        scaler.scale(3)
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        GradScaler("cpu", growth_factor=1.0)


def test_half_gradients_are_refused():
    weight = facula.nn.Parameter(facula.ones(2, dtype=facula.float16))
    optimizer, scaler = facula.optim.SGD([weight], lr=1.0), GradScaler("cpu", init_scale=2.0)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.step(optimizer)


def test_disabled_is_transparent():
    weight, optimizer, scaler = made(enabled=False)
    loss = weight.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.5, -1.5] and scaler.state_dict() == {}


def test_without_the_device_it_warns_and_is_off():
    with pytest.warns(UserWarning, match="cuda is not available"):
        scaler = GradScaler()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0


def test_state_round_trip():
    weight, optimizer, scaler = made(init_scale=32.0, growth_interval=7)
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert other.state_dict()["_growth_tracker"] == 1
    copy = pickle.loads(pickle.dumps(scaler))
    assert copy.get_scale() == 32.0 and copy.get_growth_interval() == 7


def test_training_in_half_precision_converges():
    facula.manual_seed(0)
    model = facula.nn.Linear(4, 1)
    optimizer, scaler = facula.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu")
    x = facula.randn(64, 4)
    target = x @ facula.tensor([[1.0], [-2.0], [0.5], [3.0]])
    for _ in range(100):
        optimizer.zero_grad()
        with facula.autocast("cpu", dtype=facula.float16):
            loss = facula.nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert loss.item() < 1e-2
