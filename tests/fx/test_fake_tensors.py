"""Fake tensors: no elements, and otherwise like the real ones."""

import pytest

import facula
import facula.nn.functional as F
from facula import nn
from facula._subclasses import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from facula._subclasses.fake_tensor import DataDependentOutputException
from facula.fx.experimental.symbolic_shapes import ShapeEnv
from facula.utils._python_dispatch import TorchDispatchMode


def test_a_fake_tensor_looks_like_the_real_one():
    mode = FakeTensorMode()
    base = facula.randn(4, 6)
    real = base.t()[1:]
    fake = mode.from_tensor(real)
    assert isinstance(fake, FakeTensor) and fake is mode.from_tensor(real)
    assert (fake.shape, fake.stride(), fake.storage_offset()) == (
        real.shape,
        real.stride(),
        4 and real.storage_offset(),
    )
    assert fake._base is mode.from_tensor(base) and fake.device.type == "cpu" and not fake.is_meta
    leaf = facula.ones(2, requires_grad=True)
    assert mode.from_tensor(leaf).is_leaf and not mode.from_tensor(leaf * 2).is_leaf


def test_creation_is_fake_inside_of_the_mode_only():
    with FakeTensorMode() as mode:
        made = [facula.zeros(2), facula.rand(2), facula.tensor([1.0]), facula.arange(3), F.dropout(facula.ones(2)),
                facula.multinomial(facula.ones(4), 2), facula.empty_strided((2,), (3,))]  # fmt: skip
        with mode:
            assert isinstance(facula.ones(1), FakeTensor)
    assert all(isinstance(t, FakeTensor) for t in made) and not isinstance(
        facula.ones(1), FakeTensor
    )


def test_history_and_gradients_without_elements():
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 5)
    )
    x = mode.from_tensor(facula.randn(2, 3, 4, 4).requires_grad_())
    loss = F.cross_entropy(net(x), mode.from_tensor(facula.tensor([1, 2])))
    loss.backward()
    assert isinstance(x.grad, FakeTensor) and x.grad.shape == x.shape


def test_writes_and_geometry():
    mode = FakeTensorMode()
    x = mode.from_tensor(facula.ones(3))
    y = x
    x.add_(1)
    x[0] = 2
    x.unsqueeze_(0)
    assert y is x and x.shape == (1, 3)
    assert x.to("cpu") is x and x.to(facula.float64).dtype is facula.float64
    assert x.to("meta").device.type == "meta"


def test_what_needs_elements_says_so():
    mode = FakeTensorMode()
    x = mode.from_tensor(facula.ones(3))
    with pytest.raises(DataDependentOutputException, match="a fake tensor has none"):
        x.sum().item()
    with pytest.raises(DataDependentOutputException):
        bool(x[0] > 1)
    with pytest.raises(DynamicOutputShapeException, match="nonzero"):
        x.nonzero()
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors first"):
        x + facula.ones(3)
    with mode, pytest.raises(AssertionError, match="Mixing fake modes"):
        x + FakeTensorMode().from_tensor(facula.ones(3))


def test_overloads_are_one_operator():
    aten = facula.ops.aten
    assert (
        str(aten.add.Tensor) == "aten.add.Tensor" and aten.add.Tensor.name() == "aten::add.Tensor"
    )
    assert aten.add.Tensor == aten.add.Scalar and facula.add in {aten.add.default: 1}
    assert aten.sin.default.overloadpacket == aten.sin and aten.sin.default.name() == "aten::sin"
    assert aten.add_.Tensor._schema.is_mutable and not aten.add.Tensor._schema.is_mutable
    assert (
        aten.clone.default == facula.Tensor.clone and aten.sin.default(facula.zeros(1)).item() == 0
    )


def test_real_tensors_print_while_fake_ones_are_made():
    x = facula.tensor([1.0, 2.0])
    seen = []

    class Listens(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with FakeTensorMode(), Listens():
        assert repr(x) == "tensor([1., 2.])"
    assert seen == []


def test_the_gradient_of_a_tensor_is_fake_too():
    x = facula.ones(2, 3, requires_grad=True)
    x.grad = facula.ones(2, 3)
    fake = FakeTensorMode().from_tensor(x)
    assert isinstance(fake.grad, FakeTensor) and fake.grad.shape == (2, 3)


def test_what_lies_nowhere_may_stand_for_what_lies_somewhere():
    with FakeTensorMode():
        x = facula.ones(2, 3, device="meta")
        for moved in (x.to("cpu"), x.to("cpu", facula.float64)):
            assert type(moved).__name__ == "FakeTensor"
            assert moved.device == facula.device("cpu")
            assert moved.shape == (2, 3)
    assert moved.dtype is facula.float64


def test_sizes_know_who_knows_their_symbols():
    from facula.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    x = FakeTensorMode(shape_env=env).from_tensor(facula.ones(4, 5))
    assert {size.node.shape_env for size in x.shape} == {env}


@pytest.mark.parametrize("compare", [facula.equal, facula.allclose])
def test_a_comparison_of_all_elements_is_not_guessed(compare):
    """With symbols the answer is a number without an example (it was True); without them it is refused."""
    with FakeTensorMode(shape_env=ShapeEnv()):
        answer = compare(facula.empty(3), facula.empty(3))
        assert type(answer) is not bool
        with pytest.raises(RuntimeError, match="data-dependent"):
            bool(answer)
    with FakeTensorMode(), pytest.raises(DataDependentOutputException):
        compare(facula.empty(3), facula.empty(3))
    assert compare(facula.ones(3), facula.ones(3)) is True


@pytest.mark.parametrize("symbols", [False, True])
def test_shapes_that_follow_from_numbers_are_known(symbols):
    with FakeTensorMode(shape_env=ShapeEnv() if symbols else None):
        assert facula.combinations(facula.empty(5), 3).shape == (10, 3)
        assert facula.combinations(facula.empty(3), 2, True).shape == (6, 2)
