"""Every optimizer takes the steps that its paper describes (`tests/oracles/optimizer_steps.py`)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import facula
from facula import optim

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracles"))

from optimizer_steps import STEPS, lbfgs, muon, sparse_adam  # noqa: E402

COUNT = 8
DECAYS = [{}, {"weight_decay": 0.1}, {"maximize": True, "weight_decay": 0.05}]
OPTIONS = {
    "SGD": [
        *DECAYS,
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"momentum": 0.8, "nesterov": True, "maximize": True},
    ],
    "Adam": [
        *DECAYS,
        {"amsgrad": True, "betas": (0.5, 0.6)},
        {"betas": (0.7, 0.8), "eps": 0.1},
        {"decoupled_weight_decay": True, "weight_decay": 0.2},
    ],
    "AdamW": [*DECAYS, {"amsgrad": True, "betas": (0.5, 0.6), "eps": 0.01}],
    "Adamax": [*DECAYS, {"betas": (0.5, 0.6), "eps": 0.1}],
    "NAdam": [
        *DECAYS,
        {"momentum_decay": 0.3, "betas": (0.5, 0.7)},
        {"decoupled_weight_decay": True, "weight_decay": 0.2},
    ],
    "RAdam": [
        *DECAYS,
        {"betas": (0.5, 0.7), "eps": 0.01},
        {"decoupled_weight_decay": True, "weight_decay": 0.2},
    ],
    "RMSprop": [
        *DECAYS,
        {"alpha": 0.5, "centered": True, "eps": 0.01},
        {"momentum": 0.7},
        {"alpha": 0.5, "centered": True, "momentum": 0.7, "eps": 0.01},
    ],
    "Adagrad": [*DECAYS, {"lr_decay": 0.3, "initial_accumulator_value": 0.2, "eps": 0.01}],
    "Adadelta": [*DECAYS, {"rho": 0.5, "eps": 0.01}],
    "Rprop": [{}, {"maximize": True}, {"etas": (0.3, 2.0), "step_sizes": (0.05, 0.2)}],
    "ASGD": [*DECAYS, {"lambd": 0.1, "alpha": 0.5, "t0": 3}],
    "Adafactor": [
        *DECAYS,
        {"beta2_decay": -0.5, "eps": (1e-3, 0.2), "d": 2.0},
    ],
}
CASES = [(name, options) for name, sets in OPTIONS.items() for options in sets]
#: how an optimizer may be told to run
FORMS = [{}, {"foreach": False}, {"foreach": True}]
SHAPES = ((4, 3), (5,))
FLOAT32 = float(np.finfo(np.float32).eps)
#: optimizers that keep numbers of their own between steps, in the default dtype as PyTorch does
KEEP_NUMBERS = ("ASGD", "NAdam")


def problem(shape, seed=0):
    """A parameter and the gradients of some steps."""
    random = np.random.default_rng(seed)
    return random.standard_normal(shape), list(random.standard_normal((COUNT, *shape)))


def taken(cls, starts, gradients, dtype, **options):
    """The parameters after a step for every gradient."""
    params = [facula.tensor(p, dtype=dtype).requires_grad_() for p in starts]
    optimizer = cls(params, **options)
    for step in zip(*gradients, strict=True):
        for p, g in zip(params, step, strict=True):
            p.grad = facula.tensor(g, dtype=dtype)
        optimizer.step()
    return [p.detach().numpy() for p in params]


def test_every_optimizer_is_judged():
    elsewhere = {"Optimizer", "LBFGS", "Muon", "SparseAdam"}
    assert {name for name in optim.__all__ if name[0].isupper()} - elsewhere == set(OPTIONS)
    assert set(OPTIONS) == set(STEPS)


@pytest.mark.parametrize("dtype", [facula.float64, facula.float32])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps(name, options, form, dtype):
    starts, gradients = zip(*[problem(shape, n) for n, shape in enumerate(SHAPES)], strict=True)
    options = {"lr": 0.1, **options}
    actual = taken(getattr(optim, name), starts, gradients, dtype, **options, **form)
    eps = FLOAT32 if name in KEEP_NUMBERS else float(np.finfo(actual[0].dtype).eps)
    for got, start, steps in zip(actual, starts, gradients, strict=True):
        wanted = STEPS[name](start, steps, **options)
        # each step rounds a few times what it adds to an element of about one
        np.testing.assert_allclose(got, wanted, rtol=64 * eps, atol=64 * eps * COUNT)


@pytest.mark.parametrize("dtype", [facula.bfloat16, facula.float16], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_steps_of_16_bits(name, options, dtype):
    """Values that these dtypes hold, and whose squares they hold with all digits."""
    random = np.random.default_rng(5)
    shapes = ((4, 3), (37,))

    def values(shape):
        size = random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape)
        return facula.tensor(size).to(dtype).double().numpy()

    starts = [values(shape) for shape in shapes]
    gradients = [[values(shape) for _ in range(3)] for shape in shapes]
    options = {"lr": 0.1, **options}
    params = [facula.tensor(p).to(dtype).requires_grad_() for p in starts]
    optimizer = getattr(optim, name)(params, **options)
    for step in zip(*gradients, strict=True):
        for p, g in zip(params, step, strict=True):
            p.grad = facula.tensor(g).to(dtype)
        optimizer.step()
    eps = facula.finfo(dtype).eps
    for got, start, steps in zip(params, starts, gradients, strict=True):
        wanted = STEPS[name](start, steps, **options)
        np.testing.assert_allclose(
            got.detach().double().numpy(), wanted, rtol=4 * eps, atol=4 * eps
        )


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps(name):
    start, gradients = problem((4, 3))
    actual = taken(getattr(optim, name), [start], [gradients], facula.float64, lr=0.1, fused=True)
    np.testing.assert_allclose(actual[0], STEPS[name](start, gradients, lr=0.1), rtol=1e-13)


def test_averages_of_asgd():
    """`ax` is the mean of the parameters after step `t0`."""
    start, gradients = problem((3,))
    p = facula.tensor(start).requires_grad_()
    optimizer = optim.ASGD([p], lr=0.1, t0=3)
    seen = []
    for g in gradients:
        p.grad = facula.tensor(g)
        optimizer.step()
        seen.append(p.detach().numpy().copy())
    # the average begins with the step after t0; its weight is kept in the default dtype
    average = optimizer.state[p]["ax"].numpy()
    np.testing.assert_allclose(average, np.mean(seen[4:], 0), rtol=4 * FLOAT32)


@pytest.mark.parametrize("options", [{}, {"betas": (0.5, 0.7), "eps": 0.01}, {"maximize": True}])
def test_sparse_adam(options):
    random = np.random.default_rng(3)
    start = random.standard_normal((6, 2))
    gradients = [(random.permutation(6)[:3], random.standard_normal((3, 2))) for _ in range(COUNT)]
    p = facula.tensor(start).requires_grad_()
    optimizer = optim.SparseAdam([p], lr=0.1, **options)
    for rows, values in gradients:
        p.grad = facula.sparse_coo_tensor(rows[None], facula.tensor(values), (6, 2))
        optimizer.step()
    wanted = sparse_adam(start, gradients, lr=0.1, **options)
    np.testing.assert_allclose(p.detach().numpy(), wanted, rtol=1e-13)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw"}],
    ids=str,
)
def test_muon(shape, options):
    """The polynomial is computed in bfloat16: directions are right to some of its roundings."""
    start, gradients = problem(shape)
    actual = taken(optim.Muon, [start], [gradients[:3]], facula.float32, lr=0.1, **options)[0]
    wanted = muon(start, gradients[:3], lr=0.1, **options)
    moved = np.linalg.norm(wanted - start)
    assert np.linalg.norm(actual - wanted) < 16 * facula.finfo(facula.bfloat16).eps * moved


def quadratic():
    random = np.random.default_rng(5)
    a = random.standard_normal((6, 6))
    return a @ a.T / 6 + np.eye(6), random.standard_normal(6)


@pytest.mark.parametrize(
    "options",
    [{"max_iter": 4}, {"max_iter": 3, "history_size": 2, "lr": 0.5}, {"max_iter": 1}],
    ids=str,
)
def test_lbfgs(options):
    a, b = quadratic()
    x = facula.zeros(6, dtype=facula.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], **options)

    def closure():
        optimizer.zero_grad()
        loss = 0.5 * x @ facula.tensor(a) @ x - facula.tensor(b) @ x
        loss.backward()
        return loss

    wanted = lbfgs(np.zeros(6), lambda v: a @ v - b, 3, **options)
    for point in wanted:
        optimizer.step(closure)
        np.testing.assert_allclose(x.detach().numpy(), point, rtol=1e-9, atol=1e-10)


def test_line_search_of_lbfgs_fulfils_wolfe():
    """One iteration goes along minus the gradient, to a point that is lower and flatter."""

    def value(v):
        return float(100 * (v[1] - v[0] ** 2) ** 2 + (1 - v[0]) ** 2)

    def slope(v):
        first = -400 * v[0] * (v[1] - v[0] ** 2) - 2 * (1 - v[0])
        return np.array([first, 200 * (v[1] - v[0] ** 2)])

    x = facula.tensor([-1.2, 1.0], dtype=facula.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=1, max_eval=20, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        loss.backward()
        return loss

    start = x.detach().numpy().copy()
    optimizer.step(closure)
    end = x.detach().numpy()
    g = slope(start)
    step = end - start
    length = -(step @ g) / (g @ g)
    np.testing.assert_allclose(step, -length * g, rtol=1e-12)
    assert length > 0
    assert value(end) <= value(start) - 1e-4 * length * (g @ g)
    assert abs(slope(end) @ g) <= 0.9 * (g @ g)
