"""Optimizers as functions of lists: the formulas, written in NumPy, and the steps of the classes."""

import inspect
from importlib import import_module

import numpy as np
import pytest

import facula
from facula.optim import _functional

START = [np.linspace(-1.0, 1.0, 6).reshape(2, 3), np.ones((2, 2))]


def tensors(arrays=START):
    return [facula.tensor(a, dtype=facula.float64) for a in arrays]


def zeros():
    return [facula.zeros(a.shape, dtype=facula.float64) for a in START]


def counts():
    return [facula.tensor(0.0) for _ in START]


def test_sgd_makes_the_buffers_of_momentum():
    params, buffers = tensors(), [None, None]
    expected, velocity = [a.copy() for a in START], None
    for _ in range(3):
        grads = [0.5 * p + 0.1 for p in params]
        slopes = [0.5 * p + 0.1 for p in expected]
        _functional.sgd(
            params, grads, buffers, weight_decay=0.1, momentum=0.9, lr=0.2, dampening=0.0,
            nesterov=False, maximize=False,
        )  # fmt: skip
        slopes = [s + 0.1 * p for s, p in zip(slopes, expected, strict=True)]
        velocity = (
            slopes
            if velocity is None
            else [0.9 * v + s for v, s in zip(velocity, slopes, strict=True)]
        )
        expected = [p - 0.2 * v for p, v in zip(expected, velocity, strict=True)]
    for p, e, b, v in zip(params, expected, buffers, velocity, strict=True):
        np.testing.assert_allclose(p.numpy(), e, rtol=1e-12)
        np.testing.assert_allclose(b.numpy(), v, rtol=1e-12)


@pytest.mark.parametrize("maximize", [False, True])
def test_adam_counts_and_keeps_its_moments(maximize):
    params, first, second, steps = tensors(), zeros(), zeros(), counts()
    expected = [a.copy() for a in START]
    m, v = [0 * a for a in START], [0 * a for a in START]
    for t in (1, 2, 3):
        grads = [0.5 * p + 0.1 for p in params]
        _functional.adam(
            params, grads, first, second, [], steps, amsgrad=False, beta1=0.9, beta2=0.99, lr=0.1,
            weight_decay=0.0, eps=1e-8, maximize=maximize,
        )  # fmt: skip
        for i, p in enumerate(expected):
            g = (0.5 * p + 0.1) * (-1 if maximize else 1)
            m[i] = 0.9 * m[i] + 0.1 * g
            v[i] = 0.99 * v[i] + 0.01 * g * g
            root = np.sqrt(v[i] / (1 - 0.99**t)) + 1e-8
            expected[i] = p - 0.1 * m[i] / (1 - 0.9**t) / root
    for p, e in zip(params, expected, strict=True):
        np.testing.assert_allclose(p.numpy(), e, rtol=1e-9)
    np.testing.assert_allclose(second[1].numpy(), v[1], rtol=1e-9)
    assert [float(s) for s in steps] == [3.0, 3.0]


def test_a_scaler_divides_gradients_and_forbids_steps():
    def step(**options):
        params = tensors()
        grads = [8.0 * p for p in tensors()]
        _functional.adagrad(
            params, grads, zeros(), counts(), **options, lr=0.5, weight_decay=0.0, lr_decay=0.0,
            eps=0.0, maximize=False,
        )  # fmt: skip
        return params[1].numpy()

    np.testing.assert_allclose(step(grad_scale=facula.tensor(4.0)), START[1] - 0.5)
    np.testing.assert_array_equal(step(found_inf=facula.tensor(1.0)), START[1])


def test_what_is_differentiable_is_recorded():
    lr = facula.tensor(0.1, dtype=facula.float64, requires_grad=True)
    params = [facula.tensor([1.0, 2.0], dtype=facula.float64, requires_grad=True).clone()]
    start = params[0].detach().clone()
    sums = [facula.zeros(2, dtype=facula.float64)]
    _functional.rmsprop(
        params, [facula.tensor([1.0, -3.0], dtype=facula.float64)], sums, [], [], [facula.tensor(0.0)],
        differentiable=True, lr=lr, alpha=0.0, eps=0.0, weight_decay=0.0, momentum=0, centered=False,
    )  # fmt: skip
    np.testing.assert_allclose(params[0].detach().numpy(), start.numpy() - 0.1 * np.array([1, -1]))
    (slope,) = facula.autograd.grad(params[0].sum(), lr)
    np.testing.assert_allclose(float(slope), 0.0, atol=1e-12)


CLASSES = {
    "adamw": (
        "AdamW",
        "exp_avg exp_avg_sq max_exp_avg_sq step",
        "amsgrad=True lr=0.1 weight_decay=0.1 eps=1e-8",
    ),
    "adamax": ("Adamax", "exp_avg exp_inf step", "lr=0.1 weight_decay=0.1 eps=1e-8"),
    "nadam": (
        "NAdam",
        "exp_avg exp_avg_sq mu_product step",
        "lr=0.1 weight_decay=0.1 momentum_decay=0.01 eps=1e-8",
    ),
    "radam": ("RAdam", "exp_avg exp_avg_sq step", "lr=0.1 weight_decay=0.1 eps=1e-8"),
    "adadelta": (
        "Adadelta",
        "square_avg acc_delta step",
        "lr=0.1 rho=0.9 eps=1e-6 weight_decay=0.1",
    ),
    "asgd": ("ASGD", "ax mu eta step", "lambd=0.01 lr=0.1 t0=1.0 alpha=0.75 weight_decay=0.1"),
    "rprop": ("Rprop", "prev step_size step", ""),
}


@pytest.mark.parametrize("name", CLASSES)
def test_functions_step_as_facula_s_own_classes(name):
    kind, states, text = CLASSES[name]
    settings = {k: eval(v) for k, v in (item.split("=") for item in text.split())}
    apart, together = dict(settings), dict(settings)
    if name == "rprop":
        apart = {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2}
        together = {"lr": 0.1, "etas": (0.5, 1.2), "step_sizes": (1e-6, 50)}
    elif name.endswith(("adam", "adamw", "adamax")):
        apart |= {"beta1": 0.9, "beta2": 0.99}
        together |= {"betas": (0.9, 0.99)}
    if name in ("adamw", "adadelta"):
        apart["maximize"] = False
    own = [facula.nn.Parameter(t) for t in tensors()]
    optimizer = getattr(facula.optim, kind)(own, **together)
    params = tensors()
    lists: dict = {}
    function = getattr(import_module(f"facula.optim.{name}"), name)
    for number in range(3):
        for p in own:
            p.grad = 0.5 * p.detach() + 0.1 * number
        if number == 0:
            optimizer.step()
            params = [p.detach().clone() for p in own]
            lists = {s: [optimizer.state[p][s].clone() for p in own] for s in states.split()}
            continue
        optimizer.step()
        function(params, [0.5 * p + 0.1 * number for p in params], *lists.values(), **apart)
    for p, q in zip(params, own, strict=True):
        np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=1e-12)
    for state, values in lists.items():
        np.testing.assert_allclose(
            float(values[0].sum()), float(optimizer.state[own[0]][state].sum()), rtol=1e-6
        )


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="missing a required argument: 'lr'"):
        _functional.sgd(
            [], [], [], weight_decay=0, momentum=0, dampening=0, nesterov=False, maximize=False
        )
    with pytest.raises(RuntimeError, match="as many entries of 'grads' as parameters"):
        _functional.adamax(
            tensors(),
            [],
            zeros(),
            zeros(),
            counts(),
            eps=0,
            beta1=0.9,
            beta2=0.9,
            lr=0.1,
            weight_decay=0,
        )
    names = list(inspect.signature(_functional.adam).parameters)
    assert names[:6] == [
        "params",
        "grads",
        "exp_avgs",
        "exp_avg_sqs",
        "max_exp_avg_sqs",
        "state_steps",
    ]
    assert names[6:10] == ["foreach", "capturable", "differentiable", "fused"]
