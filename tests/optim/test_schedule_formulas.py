"""Schedules of rates against formulas of the epoch, and against a loop for the one that watches a metric."""

import math

import numpy as np
import pytest

import facula
from facula.optim import SGD
from facula.optim import lr_scheduler as schedules

BASE = 0.2
COUNT = 20


def rates(make, key="lr"):
    optimizer = SGD([facula.zeros(1, requires_grad=True)], lr=BASE, momentum=0.9)
    schedule, seen = make(optimizer), []
    for _ in range(COUNT):
        seen.append(optimizer.param_groups[0][key])
        optimizer.step()
        schedule.step()
    return seen


def triangle(epoch, up, down):
    """How far up a cycle of `up` and `down` steps is, and which cycle it is, from 0."""
    cycle, inside = divmod(epoch, up + down)
    return (inside / up if inside <= up else 1 - (inside - up) / down), cycle


CYCLES = {
    "triangular": lambda cycle, epoch: 1.0,
    "triangular2": lambda cycle, epoch: 0.5**cycle,
    "exp_range": lambda cycle, epoch: 0.95**epoch,
}


@pytest.mark.parametrize("mode", CYCLES)
@pytest.mark.parametrize(("up", "down"), [(4, None), (3, 5)])
def test_cyclic(mode, up, down):
    def make(o):
        return schedules.CyclicLR(
            o, 0.1, 0.7, up, down, mode=mode, gamma=0.95, cycle_momentum=False
        )

    wanted = []
    for epoch in range(COUNT):
        height, cycle = triangle(epoch, up, down or up)
        wanted.append(0.1 + 0.6 * height * CYCLES[mode](cycle, epoch))
    np.testing.assert_allclose(rates(make), wanted, rtol=1e-9)


def test_momentum_goes_against_the_rate():
    def make(o):
        return schedules.CyclicLR(o, 0.1, 0.7, 4, base_momentum=0.6, max_momentum=0.9)

    wanted = [0.9 - 0.3 * triangle(epoch, 4, 4)[0] for epoch in range(COUNT)]
    np.testing.assert_allclose(rates(make, "momentum"), wanted, rtol=1e-9)


def between(start, end, part, strategy):
    if strategy == "linear":
        return start + (end - start) * part
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("three", [False, True])
def test_one_cycle(strategy, three):
    """Up to the largest rate, down to the smallest; in three phases the way down is as long as the way up."""
    start, top, total = 0.5 / 10, 0.5, 25
    bottom = start / 100
    up = 0.3 * total - 1
    ends = [up, 2 * up, total - 1] if three else [up, total - 1]
    values = [start, top, start, bottom] if three else [start, top, bottom]

    def make(o):
        return schedules.OneCycleLR(
            o, top, total_steps=total, pct_start=0.3, anneal_strategy=strategy, three_phase=three,
            div_factor=10, final_div_factor=100,
        )  # fmt: skip

    wanted = []
    for epoch in range(COUNT):
        phase = next(i for i, end in enumerate(ends) if epoch <= end)
        first = 0 if phase == 0 else ends[phase - 1]
        part = (epoch - first) / (ends[phase] - first)
        wanted.append(between(values[phase], values[phase + 1], part, strategy))
    np.testing.assert_allclose(rates(make), wanted, rtol=1e-9)


@pytest.mark.parametrize("longer", [1, 2])
def test_warm_restarts(longer):
    wanted, length, inside = [], 3, 0
    for _ in range(COUNT):
        wanted.append(0.05 + (BASE - 0.05) * (1 + math.cos(math.pi * inside / length)) / 2)
        inside += 1
        if inside == length:
            length, inside = length * longer, 0
    seen = rates(lambda o: schedules.CosineAnnealingWarmRestarts(o, 3, longer, eta_min=0.05))
    np.testing.assert_allclose(seen, wanted, rtol=1e-9)


FORMULAS = [
    (lambda o: schedules.CosineAnnealingLR(o, 7, 0.05),
     lambda e: 0.05 + (BASE - 0.05) * (1 + math.cos(math.pi * e / 7)) / 2),
    (lambda o: schedules.LinearLR(o, 0.25, 0.9, 6), lambda e: BASE * (0.25 + 0.65 * min(e, 6) / 6)),
    (lambda o: schedules.PolynomialLR(o, 9, 0.5), lambda e: BASE * (1 - min(e, 9) / 9) ** 0.5),
    (lambda o: schedules.ConstantLR(o, 0.1, 5), lambda e: BASE * (0.1 if e < 5 else 1)),
    (lambda o: schedules.MultiStepLR(o, [4, 9, 9], 0.3),
     lambda e: BASE * 0.3 ** ((e >= 4) + 2 * (e >= 9))),
    (lambda o: schedules.StepLR(o, 4, 0.3), lambda e: BASE * 0.3 ** (e // 4)),
    (lambda o: schedules.LambdaLR(o, lambda e: 1 / (1 + e)), lambda e: BASE / (1 + e)),
    (lambda o: schedules.MultiplicativeLR(o, lambda e: 1 + 1 / e), lambda e: BASE * (1 + e)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "formula"), FORMULAS)
def test_formulas(make, formula):
    np.testing.assert_allclose(rates(make), [formula(e) for e in range(COUNT)], rtol=1e-9)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("kind", ["rel", "abs"])
def test_plateau(mode, kind):
    metrics = np.random.default_rng(2).uniform(1, 2, 40).round(1)
    options = {"factor": 0.5, "patience": 2, "threshold": 0.05, "cooldown": 3, "min_lr": 0.01}
    optimizer = SGD([facula.zeros(1, requires_grad=True)], lr=BASE)
    schedule = schedules.ReduceLROnPlateau(optimizer, mode, threshold_mode=kind, **options)
    rate, best, bad, rest = BASE, None, 0, 0
    for metric in metrics:
        schedule.step(metric)
        if best is None:
            better = True
        else:
            margin = 0.05 * best if kind == "rel" else 0.05
            better = metric < best - margin if mode == "min" else metric > best + margin
        best, bad = (metric, 0) if better else (best, bad + 1)
        if rest:
            rest, bad = rest - 1, 0
        if bad > 2:
            rate, rest, bad = max(rate * 0.5, 0.01), 3, 0
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)
    assert rate < BASE
