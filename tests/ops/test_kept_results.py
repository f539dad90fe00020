"""A gradient that needs positions only leaves the values free to be changed in place."""

import pytest

import facula

F = facula.nn.functional
CALLS = {
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None, None], 2),
    "max": lambda x: x.max(-1).values,
    "min": lambda x: x.min(-1).values,
    "sort": lambda x: x.sort(-1).values,
    "topk": lambda x: x.topk(2).values,
    "kthvalue": lambda x: x.kthvalue(2).values,
    "median": lambda x: x.median(-1).values,
    "mode": lambda x: x.round().mode(-1).values,
    "cummax": lambda x: x.cummax(-1).values,
    "cross_entropy": lambda x: F.cross_entropy(x, facula.arange(4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_may_be_changed_before_the_backward_pass(name):
    start = facula.arange(24.0).reshape(4, 6).sin()
    grads = []
    for changed in (False, True):
        x = start.clone().requires_grad_()
        values = CALLS[name](x)
        values = values.mul_(2) if changed else values * 2
        values.sum().backward()
        grads.append(x.grad)
    assert facula.equal(*grads)
