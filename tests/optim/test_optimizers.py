"""Optimizers: steps against NumPy and against the formula path, state dictionaries, hooks."""

import copy

import numpy as np
import pytest

import facula
from facula import optim

CASES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    (optim.Adam, {"lr": 0.1}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    (optim.AdamW, {"lr": 0.1, "maximize": True}),
    (optim.Adamax, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.NAdam, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (optim.RAdam, {"lr": 0.1}),
    (optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.5}),
    (optim.RMSprop, {"lr": 0.1, "weight_decay": 0.1}),
    (optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    (optim.Adadelta, {"weight_decay": 0.1}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1, "t0": 3, "weight_decay": 0.1}),
]


def make(dtype=facula.float64, shapes=((4, 3), (3,))):
    facula.manual_seed(0)
    return [facula.randn(*s, dtype=dtype).requires_grad_() for s in shapes]


def run(cls, options, steps=7, dtype=facula.float64, **more):
    params = make(dtype)
    optimizer = cls(params, **options, **more)
    generator = np.random.default_rng(1)
    for _ in range(steps):
        for p in params:
            p.grad = facula.from_numpy(generator.standard_normal(tuple(p.shape))).to(dtype)
        optimizer.step()
    return params, optimizer


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_kernel_equals_formula(cls, options, monkeypatch):
    fast, _ = run(cls, options)
    monkeypatch.setattr("facula.optim.elementwise.find_kernel", lambda name, dtype: None)
    monkeypatch.setattr("facula.optim.sgd.find_kernel", lambda name, dtype: None)
    slow, _ = run(cls, options)
    for a, b in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_differentiable_step_takes_the_same_step(cls, options):
    plain, _ = run(cls, options)
    params = make()
    optimizer = cls([p.clone() for p in params], **options, differentiable=True)
    live = optimizer.param_groups[0]["params"]
    generator = np.random.default_rng(1)
    for _ in range(7):
        for p in live:
            p.grad = facula.from_numpy(generator.standard_normal(tuple(p.shape)))
        optimizer.step()
    for a, b in zip(plain, live, strict=True):
        # Adam's step count stays a float32 tensor, as in PyTorch: 1 - 0.999**step has lost three digits
        t = 1e-4 if issubclass(cls, optim.Adam) else 1e-6
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=t, atol=t / 10)
    sum(p.sum() for p in live).backward()
    assert all(p.grad is not None for p in params)


def test_sgd_against_numpy():
    (p, _), _ = run(optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, steps=3)
    expected = make()[0].detach().numpy().copy()
    generator, buffer = np.random.default_rng(1), None
    for _ in range(3):
        grad = generator.standard_normal((4, 3)) + 0.01 * expected
        generator.standard_normal((3,))
        buffer = grad if buffer is None else 0.9 * buffer + grad
        expected = expected - 0.1 * buffer
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-10)


def test_adam_against_numpy():
    (p, _), _ = run(optim.Adam, {"lr": 0.1}, steps=4)
    expected = make()[0].detach().numpy().copy()
    generator = np.random.default_rng(1)
    m = v = np.zeros((4, 3))
    for step in range(1, 5):
        grad = generator.standard_normal((4, 3))
        generator.standard_normal((3,))
        m = 0.9 * m + 0.1 * grad
        v = 0.999 * v + 0.001 * grad**2
        denominator = np.sqrt(v / (1 - 0.999**step)) + 1e-8
        expected = expected - 0.1 * (m / (1 - 0.9**step)) / denominator
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(("cls", "options"), CASES)
def test_state_dict_round_trip(cls, options):
    _, reference = run(cls, options, steps=4)
    params, optimizer = run(cls, options, steps=4)
    fresh = [p.detach().clone().requires_grad_() for p in params]
    again = cls(fresh, **options)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for o in (reference, again):
        for p in o.param_groups[0]["params"]:
            p.grad = p.detach().clone()
        o.step()
    for a, b in zip(reference.param_groups[0]["params"], fresh, strict=True):
        assert bool((a == b).all())


def test_state_dict_format():
    _, optimizer = run(optim.AdamW, {"lr": 0.1}, steps=2)
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert sorted(state["state"][0]) == ["exp_avg", "exp_avg_sq", "step"]
    assert state["param_groups"][0]["params"] == [0, 1]
    assert float(state["state"][0]["step"]) == 2 and state["state"][0]["step"].dim() == 0


def test_state_is_read_anew_when_replaced():
    params, optimizer = run(optim.Adam, {"lr": 0.1}, steps=2)
    optimizer.state[params[0]]["exp_avg"] = facula.zeros(4, 3, dtype=facula.float64)
    before = optimizer.state[params[0]]["exp_avg"]
    for p in params:
        p.grad = facula.ones_like(p).detach()
    optimizer.step()
    assert abs(float(before[0, 0]) - 0.1) < 1e-6


def test_steps_count_as_in_place_changes():
    params = make()
    optimizer = optim.SGD(params, lr=0.1)
    loss = (params[0] * params[0]).sum()
    params[0].grad = facula.ones(4, 3, dtype=facula.float64)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_transposed_and_half_precision_parameters():
    p = facula.randn(4, 3).t().clone(memory_format=facula.preserve_format).requires_grad_()
    half = facula.randn(4).bfloat16().requires_grad_()
    optimizer = optim.Adam([p, half], lr=0.1)
    before = p.detach().clone()
    p.grad = facula.ones(3, 4)
    half.grad = facula.ones(4).bfloat16()
    optimizer.step()
    np.testing.assert_allclose((before - p.detach()).numpy(), 0.1, rtol=1e-4)
    assert optimizer.state[half]["exp_avg"].dtype == facula.bfloat16


def test_complex_parameters():
    z = facula.randn(3, dtype=facula.complex128).requires_grad_()
    optimizer = optim.Adam([z], lr=0.1)
    before = z.detach().clone()
    z.grad = facula.full((3,), 1 - 2j, dtype=facula.complex128)
    optimizer.step()
    np.testing.assert_allclose((before - z.detach()).numpy(), 0.1 - (-0.1j) * -1, rtol=1e-6)


def test_groups_and_learning_rate_tensor():
    a, b = make()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=facula.tensor(0.5))
    a.grad, b.grad = facula.ones_like(a).detach(), facula.ones_like(b).detach()
    before = a.detach().clone(), b.detach().clone()
    optimizer.step()
    assert abs(float((before[0] - a)[0, 0]) - 0.5) < 1e-9
    assert abs(float((before[1] - b)[0]) - 1.0) < 1e-9


def test_closure_and_hooks():
    params = make()
    optimizer = optim.SGD(params, lr=0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre"))
    handle = optimizer.register_step_post_hook(lambda o, a, k: calls.append("post"))

    def closure():
        optimizer.zero_grad()
        loss = params[0].pow(2).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    assert float(loss) > 0 and calls == ["pre", "post"]
    handle.remove()
    optimizer.step()
    assert calls == ["pre", "post", "pre"]


@pytest.mark.parametrize(
    ("make_optimizer", "error", "message"),
    [
        (lambda p: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda p: optim.SGD(p[0], lr=0.1), TypeError, "iterable of Tensors"),
        (lambda p: optim.SGD(p, lr=-1), ValueError, "Invalid learning rate"),
        (lambda p: optim.SGD(p, nesterov=True), ValueError, "Nesterov momentum"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda p: optim.SGD([p[0] * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda p: optim.SGD([{"params": p}, {"params": p}]), ValueError, "more than one"),
        (lambda p: optim.SGD({"a"}), TypeError, "can only optimize Tensors"),
        (lambda p: optim.Adam(p, fused=True, foreach=True), RuntimeError, "cannot be `True`"),
        (lambda p: optim.Muon([p[1]]), ValueError, "2D"),
    ],
)
def test_errors(make_optimizer, error, message):
    with pytest.raises(error, match=message):
        make_optimizer(make())


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_rosenbrock(search):
    x = facula.tensor([-1.0, 1.5], dtype=facula.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], lr=1.0 if search else 0.1, line_search_fn=search, max_iter=100)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    for _ in range(20):
        optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), [1, 1], atol=1e-3)


@pytest.mark.parametrize("cls", [optim.Adafactor, optim.Muon])
def test_whole_tensor_optimizers_go_downhill(cls):
    p = facula.randn(6, 4).requires_grad_()
    optimizer = cls([p], lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (p - 1).pow(2).sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_one_by_one_and_together_are_the_same(name) -> None:
    """`foreach=False` updates a parameter after the other, and gives the same numbers."""
    start = [facula.randn(n) for n in (3, 700, 1)]
    results = []
    for foreach in (False, None):
        params = [x.clone().requires_grad_() for x in start]
        optimizer = getattr(optim, name)(params, lr=0.01, foreach=foreach)
        for step in range(3):
            for p in params:
                p.grad = facula.full_like(p, 0.5 - step)
            versions = [p._version for p in params]
            optimizer.step()
            assert all(p._version > v for p, v in zip(params, versions, strict=True))
        results.append(params)
    for a, b in zip(*results, strict=True):
        assert facula.equal(a, b)


@pytest.mark.parametrize("kind", [facula.optim.Adam, facula.optim.AdamW])
def test_betas_are_of_one_kind(kind):
    number, tensor = 0.9, facula.tensor(0.9)
    for betas in ((number, tensor), (tensor, number)):
        with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
            kind([facula.nn.Parameter(facula.ones(2))], betas=betas)
    with pytest.raises(ValueError, match=r"betas\[0\] as a Tensor is not supported"):
        kind([facula.nn.Parameter(facula.ones(2))], betas=(tensor, tensor), foreach=True)


def test_sparse_adam_names_parameters_that_it_does_not_take():
    dense, sparse = facula.ones(3), facula.zeros(3).to_sparse()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[1, 0\], \[1, 2\]\]"):
        facula.optim.SparseAdam(
            [{"params": [facula.ones(2)]}, {"params": [sparse, dense, sparse.clone()]}]
        )
    with pytest.raises(ValueError, match="does not support complex parameters"):
        facula.optim.SparseAdam([facula.ones(2, dtype=facula.complex64)])


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_steps_take_real_parameters_with_memory(kind):
    kind = getattr(facula.optim, kind)
    for options in ({"device": "meta"}, {"dtype": facula.complex64}):
        p = facula.nn.Parameter(facula.ones(2, **options))
        optimizer = kind([p], fused=True)
        p.grad = facula.ones_like(p)
        with pytest.raises(RuntimeError, match="requires all the params to be floating point"):
            optimizer.step()
    p = facula.nn.Parameter(facula.ones(2))
    p.grad = facula.ones(2)
    kind([p], fused=True).step()
    assert (p < 1).all()


@pytest.mark.parametrize("dtype", [facula.float32, facula.complex64])
def test_plain_descent_keeps_no_state(dtype):
    parameter = facula.nn.Parameter(facula.ones(3, dtype=dtype))
    optimizer = optim.SGD([parameter], lr=0.1)
    parameter.grad = facula.ones(3, dtype=dtype)
    optimizer.step()
    assert optimizer.state_dict()["state"] == {} and len(optimizer.state) == 0
    assert np.allclose(parameter.detach().numpy(), 0.9)
