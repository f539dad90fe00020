"""Operators of a `Library` whose gradient nobody registered: that of what the kernel calls, with a warning."""

import itertools
import warnings

import numpy as np
import pytest

import facula
from facula.library import Library, custom_op
from facula.torch_api.library.fallback import fallback_mode, set_fallback_mode

_COUNT = itertools.count()


@pytest.fixture
def lib():
    made = Library(f"without_gradient_{next(_COUNT)}", "DEF")
    yield made
    made._destroy()


@pytest.fixture
def quiet():
    before = fallback_mode()
    set_fallback_mode("nothing")
    yield
    set_fallback_mode(before)


def operator(lib, schema, kernel):
    lib.define(f"f{schema}")
    lib.impl("f", kernel, "CPU")
    return getattr(facula.ops, lib.ns).f


def test_the_gradient_is_that_of_the_operators_in_the_kernel(lib):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: x.sin().sum())
    x = facula.tensor([0.5, 1.0], requires_grad=True)
    y = f(x)
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]), rtol=1e-6)


def test_in_the_quiet_mode_nothing_is_said(lib, quiet):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: x.sin().sum())
    x = facula.tensor([0.5, 1.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]), rtol=1e-6)


def test_what_is_made_by_other_means_has_no_gradient_and_says_so(lib):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: facula.tensor(np.sin(x.detach().numpy())))
    x = facula.tensor([0.5], requires_grad=True)
    y = f(x)
    assert y.requires_grad
    with pytest.warns(UserWarning, match=f"{lib.ns}::f"):
        y.sum().backward()
    assert x.grad is None


def test_in_the_quiet_mode_such_results_need_no_gradient(lib, quiet):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: facula.tensor(np.sin(x.detach().numpy())))
    assert not f(facula.tensor([0.5], requires_grad=True)).requires_grad


def test_writes_to_a_view_warn_behind_the_view_and_its_base(lib):
    def kernel(x):
        with facula.no_grad():
            x.sin_()
        return x

    f = operator(lib, "(Tensor(a!) x) -> Tensor(a!)", kernel)
    base = facula.ones(2, 2, requires_grad=True).clone()
    f(base[0])
    with pytest.warns(UserWarning, match="not registered"):
        base.sum().backward()


def test_without_gradients_nothing_is_said(lib):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: x.sin())
    with warnings.catch_warnings(), facula.no_grad():
        warnings.simplefilter("error")
        assert not f(facula.ones(2, requires_grad=True)).requires_grad


def test_custom_op_still_asks_for_a_gradient():
    @custom_op(f"without_gradient::g{next(_COUNT)}", mutates_args=())
    def g(x: facula.Tensor) -> facula.Tensor:
        return x.sin()

    with pytest.raises(RuntimeError, match="no autograd formula"):
        g(facula.ones(2, requires_grad=True)).sum().backward()


def test_a_registered_gradient_counts(lib):
    f = operator(lib, "(Tensor x) -> Tensor", lambda x: x.sin())
    facula.library.register_autograd(f"{lib.ns}::f", lambda ctx, grad: grad * 7)
    x = facula.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="one of"):
        set_fallback_mode("loud")


def test_a_library_that_lets_go_of_its_operators_makes_room():
    first = Library("lets_go", "FRAGMENT")
    first.define("f(Tensor x) -> Tensor")
    second = Library("lets_go", "FRAGMENT")
    with pytest.raises(ValueError, match="defined once"):
        second.define("f(Tensor x) -> Tensor")
    del first.m
    second.define("f(Tensor x, int n) -> Tensor")
    second.impl("f", lambda x, n: x * n, "CPU")
    assert facula.ops.lets_go.f(facula.ones(1), 3).tolist() == [3.0]
    second._destroy()


def test_undefined_gradients_stop():
    from facula.torch_api._C._functions import UndefinedGrad

    x, y = facula.ones(2, requires_grad=True), facula.ones(2, requires_grad=True)
    (UndefinedGrad()(x * 2) + y * 3).sum().backward()
    assert x.grad is None or x.grad.tolist() == [0.0, 0.0]
    assert y.grad.tolist() == [3.0, 3.0]
