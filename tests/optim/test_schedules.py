"""Learning-rate schedules against their closed forms, and weight averaging."""

import math

import numpy as np
import pytest

import facula
from facula import nn, optim
from facula.optim import lr_scheduler as schedules
from facula.optim import swa_utils


def optimizer(lr=0.1, **options):
    return optim.SGD([facula.ones(1).requires_grad_()], lr=lr, momentum=0.9, **options)


def rates(make, steps=12):
    o = optimizer()
    schedule = make(o)
    seen = []
    for _ in range(steps):
        seen.append(o.param_groups[0]["lr"])
        o.step()
        schedule.step()
    return seen


CLOSED = [
    (lambda o: schedules.LambdaLR(o, lambda e: 0.9**e), lambda e: 0.9**e),
    (lambda o: schedules.MultiplicativeLR(o, lambda e: 0.9), lambda e: 0.9**e),
    (lambda o: schedules.StepLR(o, 3, 0.5), lambda e: 0.5 ** (e // 3)),
    (
        lambda o: schedules.MultiStepLR(o, [2, 5, 5], 0.5),
        lambda e: 0.5 ** ((e >= 2) + 2 * (e >= 5)),
    ),
    (lambda o: schedules.ConstantLR(o, 0.5, 4), lambda e: 0.5 if e < 4 else 1.0),
    (lambda o: schedules.LinearLR(o, 0.5, 1.0, 4), lambda e: 0.5 + 0.5 * min(e, 4) / 4),
    (lambda o: schedules.ExponentialLR(o, 0.9), lambda e: 0.9**e),
    (lambda o: schedules.PolynomialLR(o, 6, 2.0), lambda e: (1 - min(e, 6) / 6) ** 2),
    (lambda o: schedules.CosineAnnealingLR(o, 5), lambda e: (1 + math.cos(math.pi * e / 5)) / 2),
    (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 4),
        lambda e: (1 + math.cos(math.pi * (e % 4) / 4)) / 2,
    ),
    (
        lambda o: schedules.SequentialLR(
            o, [schedules.ConstantLR(o, 0.5, 100), schedules.ExponentialLR(o, 0.9)], [3]
        ),
        lambda e: 0.5 if e < 3 else 0.9 ** (e - 3),
    ),
    (
        lambda o: schedules.ChainedScheduler(
            [schedules.ConstantLR(o, 0.5, 4), schedules.ExponentialLR(o, 0.9)]
        ),
        lambda e: 0.9**e * (0.5 if e < 4 else 1.0),
    ),
]


@pytest.mark.parametrize(("make", "factor"), CLOSED)
def test_closed_forms(make, factor):
    np.testing.assert_allclose(
        rates(make), [0.1 * factor(e) for e in range(12)], rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize(("make", "factor"), CLOSED)
def test_state_goes_on_where_it_was(make, factor):
    o = optimizer()
    schedule = make(o)
    for _ in range(5):
        o.step()
        schedule.step()
    other = optimizer()
    again = make(other)
    other.load_state_dict(o.state_dict())
    again.load_state_dict(schedule.state_dict())
    for _ in range(4):
        for a, b in ((o, schedule), (other, again)):
            a.step()
            b.step()
        assert o.param_groups[0]["lr"] == pytest.approx(other.param_groups[0]["lr"])


def test_one_cycle_and_cyclic():
    seen = rates(lambda o: schedules.OneCycleLR(o, 1.0, total_steps=13))
    assert seen[0] == pytest.approx(0.04) and max(seen) > 0.9 and seen[-1] < 0.03
    seen = rates(lambda o: schedules.CyclicLR(o, 0.1, 0.5, step_size_up=4))
    np.testing.assert_allclose(seen[:9], [0.1, 0.2, 0.3, 0.4, 0.5, 0.4, 0.3, 0.2, 0.1], rtol=1e-9)


def test_momentum_is_cycled():
    o = optimizer()
    schedule = schedules.OneCycleLR(o, 1.0, total_steps=10)
    assert o.param_groups[0]["momentum"] == pytest.approx(0.95)
    for _ in range(2):
        o.step()
        schedule.step()
    assert o.param_groups[0]["momentum"] == pytest.approx(0.85)


def test_plateau():
    o = optimizer()
    schedule = schedules.ReduceLROnPlateau(o, patience=1, factor=0.5)
    for metric in (1.0, 1.0, 1.0, 0.5, 0.5, 0.5):
        schedule.step(metric)
    assert o.param_groups[0]["lr"] == pytest.approx(0.025)


def test_order_of_steps_is_checked():
    o = optimizer()
    schedule = schedules.StepLR(o, 2)
    with pytest.warns(UserWarning, match="lr_scheduler.step"):
        schedule.step()


def test_tensor_rate_keeps_its_identity():
    lr = facula.tensor(0.1)
    o = optim.SGD([facula.ones(1).requires_grad_()], lr=lr)
    schedule = schedules.ExponentialLR(o, 0.5)
    o.step()
    schedule.step()
    assert o.param_groups[0]["lr"] is lr and float(lr) == pytest.approx(0.05)


def test_averaged_model():
    model = nn.Linear(2, 1, bias=False)
    averaged = swa_utils.AveragedModel(model)
    values = []
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        averaged.update_parameters(model)
        values.append(value)
    assert float(averaged.module.weight[0, 0]) == pytest.approx(3.0)
    ema = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5))
    ema.update_parameters(model)
    nn.init.constant_(model.weight, 0.0)
    ema.update_parameters(model)
    assert float(ema.module.weight[0, 0]) == pytest.approx(3.0)


def test_update_bn():
    model = nn.BatchNorm1d(2)
    batches = [facula.randn(16, 2) for _ in range(3)]
    swa_utils.update_bn(batches, model)
    expected = np.mean([b.numpy().mean(0) for b in batches], 0)
    np.testing.assert_allclose(model.running_mean.numpy(), expected, atol=1e-6)
    assert model.momentum == 0.1


def test_averages_of_buffers_that_count():
    """Counters among the buffers are averaged towards the model's, in whole numbers."""
    net = facula.nn.BatchNorm1d(2)
    averaged = facula.optim.swa_utils.AveragedModel(net, use_buffers=True)
    counts = []
    for _ in range(4):
        net(facula.randn(3, 2))
        averaged.update_parameters(net)
        counts.append(averaged.module.num_batches_tracked.item())
    expected, value = [], 0
    for n, count in enumerate((1, 2, 3, 4)):
        value = count if n == 0 else int(value + (count - value) / (n + 1))
        expected.append(value)
    assert counts == expected
    assert averaged.module.num_batches_tracked.dtype is facula.int64


def test_a_schedule_prints_its_rates_where_it_is_asked_to(capsys) -> None:
    def optimizer():
        return facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=0.1)

    schedules = facula.optim.lr_scheduler
    with pytest.warns(UserWarning, match="verbose parameter is deprecated"):
        schedule = schedules.StepLR(optimizer(), 1, 0.5, -1, True)
    schedule.optimizer.step()
    schedule.step()
    assert capsys.readouterr().out.splitlines() == [
        "Adjusting learning rate of group 0 to 1.0000e-01.",
        "Adjusting learning rate of group 0 to 5.0000e-02.",
    ]
    with pytest.warns(UserWarning, match="verbose"):
        plateau = schedules.ReduceLROnPlateau(optimizer(), patience=0, verbose=True)
    plateau.step(1.0)
    plateau.step(1.0)
    assert (
        capsys.readouterr().out == "Epoch 00002: reducing learning rate of group 0 to 1.0000e-02.\n"
    )
    with pytest.warns(UserWarning, match="verbose"):
        quiet = schedules.CosineAnnealingWarmRestarts(optimizer(), 3, verbose=False)
    quiet.step()
    assert capsys.readouterr().out == "" and "verbose" not in quiet.state_dict()


def test_a_schedule_of_the_users_own_hands_verbose_on(capsys) -> None:
    class Own(facula.optim.lr_scheduler._LRScheduler):
        def __init__(self, optimizer, last_epoch=-1, verbose=False):
            super().__init__(optimizer, last_epoch, verbose)

        def get_lr(self):
            return [2.0]

    with pytest.warns(UserWarning, match="verbose"):
        Own(facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=0.1), verbose=True)
    assert capsys.readouterr().out == "Adjusting learning rate of group 0 to 2.0000e+00.\n"
