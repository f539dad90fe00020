"""Numbers that a program writes down are known under a fake mode, until something unknown is written over them."""

import pytest

import facula
from facula._subclasses import CrossRefFakeMode, FakeTensorMode
from facula._subclasses.fake_utils import MetadataMismatchError, try_convert_fake_to_real
from facula.fx.fake_tensor import DataDependentOutputException


def test_a_constant_is_read_and_computed_with():
    with FakeTensorMode():
        x = facula.tensor(5.0)
        assert x.item() == 5
        assert x.tolist() == 5
        assert (x * 2 + 1).item() == 11
        assert x.add_(1).item() == 6
        assert x.item() == 6
        view = x.view(1)
        view.mul_(2)
        assert x.item() == 12


def test_unknown_writes_make_it_unknown_with_all_its_views():
    with FakeTensorMode():
        x = facula.tensor(5.0)
        view = x.view(1)
        x.add_(facula.rand(()))
        assert x.constant is None
        assert view.constant is None
        with pytest.raises(DataDependentOutputException):
            view.item()


def test_random_numbers_and_many_elements_are_not_computed():
    with FakeTensorMode():
        x = facula.tensor(5.0)
        with pytest.raises(DataDependentOutputException):
            facula.rand_like(x).item()
        assert (facula.tensor([1.0, 2.0]) + 1).constant is None
        assert facula.tensor([1.0, 2.0]).tolist() == [1, 2]


def test_an_operator_whose_fake_result_differs_is_found():
    with CrossRefFakeMode():
        x = facula.ones(2, 3).t()
        assert (x.reshape(6) + 1).sum().item() == 12
        x.add_(1)

    @facula.library.custom_op("fake_constants::wrong", mutates_args=())
    def wrong(x: facula.Tensor) -> facula.Tensor:
        return x.sum()

    wrong.register_fake(lambda x: facula.empty_like(x))
    with CrossRefFakeMode(), pytest.raises(MetadataMismatchError, match="shape"):
        wrong(facula.ones(3))


def test_fake_tensors_become_real_ones_with_their_geometry():
    with FakeTensorMode():
        x = facula.empty(4, 3)
        given = [x, x.t(), x[1:], 7]
    real = try_convert_fake_to_real(given)
    assert [t.stride() for t in real[:3]] == [(3, 1), (1, 3), (3, 1)]
    assert real[2].storage_offset() == 3
    assert real[3] == 7
    real[0].fill_(2)
    assert (real[1] == 2).all()


def test_a_write_through_a_larger_view_is_seen():
    with FakeTensorMode():
        x = facula.tensor(5.0)
        wide = x.expand(4)
        assert wide.constant is None
        assert x.item() == 5
        x.view(1).expand(1)[0] = facula.rand(())
        with pytest.raises(DataDependentOutputException):
            x.item()


def test_a_copy_of_a_constant_lies_in_memory_of_its_own():
    program = facula.fx.Graph()
    x = program.placeholder("x")
    program.output(program.call_function(facula.ops.aten.lift_fresh_copy.default, (x,)))
    module = facula.fx.GraphModule(facula.nn.Module(), program)
    with CrossRefFakeMode():
        assert module(facula.ones(3)).tolist() == [1.0, 1.0, 1.0]
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(facula.ones(2, 3).t())
        copy = module(fake)
    assert copy.shape == (3, 2)
    assert copy.untyped_storage() != fake.untyped_storage()
