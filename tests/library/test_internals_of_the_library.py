"""What packages with operators read: fake functions, kinds of types, functions of lists, notes of switches."""

import logging

import pytest

import facula
from facula import Tensor
from facula._library import autograd, simple_registry, utils


def test_the_fake_function_of_an_operator():
    @facula.library.custom_op("inner::halved", mutates_args=())
    def halved(x: Tensor) -> Tensor:
        return x / 2

    assert simple_registry.singleton.find("inner::halved").fake_impl.kernel is None
    halved.register_fake(lambda x: facula.empty_like(x))
    kernel = simple_registry.singleton.find("inner::halved").fake_impl.kernel
    assert kernel.source.rpartition(":")[0] == __file__
    assert kernel(facula.ones(2, device="meta")).shape == (2,)


def test_kinds_of_types():
    def kinds(text):
        return [a.type for a in facula._C.parse_schema(f"f({text}) -> ()").arguments]

    lists = kinds("Tensor[] a, Tensor?[] b, Tensor[]? c, Tensor?[]? d")
    others = kinds("Tensor a, Tensor? b, int[] c, int d")
    assert all(map(utils.is_tensorlist_like_type, lists))
    assert not any(map(utils.is_tensorlist_like_type, others))
    assert [utils.is_tensor_like_type(t) for t in others] == [True, True, False, False]


def test_functions_of_lists():
    @autograd.supports_tensorlist
    class Scaled(facula.autograd.Function):
        @staticmethod
        def forward(ctx, xs, y):
            ctx.save_for_backward(y)
            ctx.count = len(xs)
            return [x * y for x in xs]

        @staticmethod
        def backward(ctx, grads):
            assert ctx.needs_input_grad == ([True, False, True], True)
            (y,) = ctx.saved_tensors
            return [g * y for g in grads], sum(g.sum() for g in grads)

    xs = [facula.ones(2, requires_grad=True), facula.ones(2), facula.ones(2, requires_grad=True)]
    y = facula.tensor(3.0, requires_grad=True)
    found = Scaled.apply(xs, y)
    assert [f.tolist() for f in found] == [[3.0, 3.0]] * 3
    sum(f.sum() for f in found).backward()
    assert xs[0].grad.tolist() == [3.0, 3.0]
    assert xs[1].grad is None
    assert y.grad.item() == 6.0
    for name in ("forward", "backward"):
        with pytest.raises(NotImplementedError, match=f"Function.{name} directly"):
            getattr(Scaled, name)(None, xs)


def test_lists_of_gradients_have_the_lengths_of_the_arguments():
    @autograd.supports_tensorlist
    class Short(facula.autograd.Function):
        @staticmethod
        def forward(ctx, xs):
            return xs[0] + xs[1]

        @staticmethod
        def backward(ctx, grad):
            return [grad]

    xs = [facula.ones(1, requires_grad=True) for _ in range(2)]
    with pytest.raises(RuntimeError, match="a list of 2 gradients"):
        Short.apply(xs).backward()


def test_switches_that_change_nothing_say_so(caplog):
    @facula.library.custom_op("inner::plus_one", mutates_args=())
    def plus_one(x: Tensor) -> Tensor:
        return x + 1

    with caplog.at_level(logging.WARNING), plus_one.set_kernel_enabled("cpu", enabled=True):
        assert "no kernel was registered" in caplog.text
    plus_one.register_kernel("cpu")(lambda x: x + 2)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        with plus_one.set_kernel_enabled("cpu", enabled=False):
            assert plus_one(facula.zeros(1)).item() == 1
            assert not caplog.text
            with plus_one.set_kernel_enabled("cpu", enabled=False):
                assert "already disabled" in caplog.text
        assert plus_one(facula.zeros(1)).item() == 2


def test_the_overload_of_a_call():
    x = facula.ones(3)
    assert facula._C._jit_resolve_packet("aten::sum", x) == "default"
    assert facula._C._jit_resolve_packet("aten::sum", x, dim=0) == "dim_IntList"
    with pytest.raises(RuntimeError):
        facula._C._jit_resolve_packet("aten::sum", x, x, x)


def test_results_without_a_gradient():
    ops = facula._custom_ops

    @ops.custom_op("inner::both")
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    ops.impl("inner::both")(lambda x: (x * 2, x * 3))
    ops.impl_save_for_backward("inner::both")(lambda inputs, output: None)
    marked = ops.impl_backward("inner::both", output_differentiability=[True, False])
    marked(lambda ctx, saved, a, b: {"x": a * 2})
    x = facula.ones(2, requires_grad=True)
    a, b = facula.ops.inner.both(x)
    assert a.requires_grad
    assert not b.requires_grad


def test_a_number_has_no_gradient():
    ops = facula._custom_ops

    @ops.custom_op("inner::counted")
    def counted(x: Tensor) -> tuple[Tensor, int]:
        raise NotImplementedError

    ops.impl("inner::counted")(lambda x: (x.clone(), 3))
    ops.impl_save_for_backward("inner::counted")(lambda inputs, output: None)
    ops.impl_backward("inner::counted", output_differentiability=[True, True])(
        lambda ctx, saved, a, b: {"x": a}
    )
    with pytest.raises(RuntimeError, match="is not a Tensor"):
        facula.ops.inner.counted(facula.ones(2, requires_grad=True))


def test_gradients_by_name_are_refused_for_views():
    library = facula.library.Library("inner", "FRAGMENT")
    library.define("seen(Tensor(a) x) -> Tensor(a)")
    with pytest.raises(RuntimeError, match="operator that returns views"):
        facula._custom_ops.impl_backward("inner::seen")(lambda ctx, saved, g: {"x": g})
