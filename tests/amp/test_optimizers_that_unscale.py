"""Optimizers that unscale gradients, and skip steps, themselves; what autocast says of devices."""

import warnings

import pytest

import facula


class _OfItsOwn(facula.optim.Optimizer):
    _step_supports_amp_scaling = True

    def __init__(self, params):
        super().__init__(params, {})


class _OnItself(_OfItsOwn):
    def step(self, closure=None):
        self.seen = (self.grad_scale, self.found_inf)


class _ByKeyword(_OfItsOwn):
    def step(self, closure=None, *, grad_scaler=None):
        self.seen = grad_scaler


def _scaled(optimizer, factor=1.0, unscaled=False):
    scaler = facula.amp.GradScaler("cpu", init_scale=2.0)
    (p,) = optimizer.param_groups[0]["params"]
    scaler.scale((p * factor).sum()).backward()
    if unscaled:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    return scaler, p


def test_an_optimizer_that_unscales_itself_gets_scale_and_finding():
    optimizer = _OnItself([facula.nn.Parameter(facula.ones(2))])
    scaler, p = _scaled(optimizer)
    assert [t.item() for t in optimizer.seen] == [2.0, 0.0]
    assert p.grad.tolist() == [2.0, 2.0]  # as the loss was scaled
    assert not hasattr(optimizer, "grad_scale") and not hasattr(optimizer, "found_inf")
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_it_is_told_of_overflow_and_of_gradients_that_are_unscaled():
    optimizer = _OnItself([facula.nn.Parameter(facula.ones(2))])
    scaler, _ = _scaled(optimizer, float("inf"))
    assert optimizer.seen[1].item() == 1.0
    scaler.update()
    assert scaler.get_scale() == 1.0
    optimizer = _OnItself([facula.nn.Parameter(facula.ones(2))])
    _, p = _scaled(optimizer, unscaled=True)
    assert optimizer.seen[0] is None and p.grad.tolist() == [1.0, 1.0]


def test_the_older_way_hands_the_scaler_over():
    optimizer = _ByKeyword([facula.nn.Parameter(facula.ones(2))])
    with pytest.warns(FutureWarning, match="passes itself"):
        scaler, _ = _scaled(optimizer)
    assert optimizer.seen is scaler


def test_plain_optimizers_hear_no_warning():
    optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(2))], lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, p = _scaled(optimizer)
    assert p.tolist() == [0.0, 0.0]


def test_no_device_is_no_autocast():
    with pytest.raises(RuntimeError, match="Invalid device string: 'no such thing'"):
        facula.amp.is_autocast_available("no such thing")
    assert facula.amp.is_autocast_available("cpu:0")
    assert not facula.amp.is_autocast_available("meta")
