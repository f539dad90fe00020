"""Fake modes: what they remember, that they do not mix, copies of modules, constants that are resized."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import facula
from facula.fx.experimental.symbolic_shapes import ShapeEnv
from facula.fx.fake_tensor import FakeCopyMode, FakeTensor, FakeTensorConverter, FakeTensorMode
from facula.nn.utils import stateless


def test_a_mode_remembers_fake_tensors_as_long_as_the_real_ones_live():
    mode, x = FakeTensorMode(), facula.rand(2, 3)
    converter = mode.fake_tensor_converter
    made = converter.from_real_tensor(mode, x)
    assert mode.from_tensor(x) is made and len(converter.tensor_memo) == 1
    del x, made
    gc.collect()
    assert len(converter.tensor_memo) == 0


def test_tensors_without_data_stand_for_ones_elsewhere():
    mode, meta = FakeTensorMode(), facula.rand(2, 2, device="meta")
    converter = FakeTensorConverter()
    made = converter.from_meta_and_device(mode, meta, "cpu")
    assert made.device.type == "cpu" and made.shape == (2, 2)
    assert converter.from_meta_and_device(mode, meta, "cpu") is made


def test_operators_take_fake_tensors_of_one_mode():
    one, other = FakeTensorMode(), FakeTensorMode()
    x = one.from_tensor(facula.rand(3, 1).T)
    y = other.from_tensor(x)
    assert y.fake_mode is other and y.shape == x.shape and y.stride() == x.stride()
    assert (y + y).fake_mode is other
    with one, pytest.raises(AssertionError, match="Mixing fake modes"):
        x + y
    with other, pytest.raises(AssertionError, match="Mixing fake modes"):
        facula.cat([x, y])


def test_modes_with_the_same_symbols_pass_tensors_on():
    env = ShapeEnv()
    one, other, alone = (FakeTensorMode(shape_env=e) for e in (env, env, ShapeEnv()))
    x = one.from_tensor(facula.rand(10))
    y = other.from_tensor(x)
    assert y.fake_mode is other and str(y.shape[0]) == str(x.shape[0])
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        alone.from_tensor(x)


def test_a_constant_that_is_resized_is_none_any_more():
    with FakeTensorMode():
        x = facula.tensor([1])
        assert x.constant is not None
        x.resize_([2])
        assert x.constant is None and x.shape == (2,)


def test_copies_of_modules_are_fake_parameters_too():
    module = facula.nn.BatchNorm1d(3)
    with FakeCopyMode(FakeTensorMode()):
        copied = copy.deepcopy(module)
    for name, real in (*module.named_parameters(), *module.named_buffers()):
        fake = getattr(copied, name)
        assert isinstance(fake, FakeTensor) and fake.shape == real.shape
        assert isinstance(fake, facula.nn.Parameter) == isinstance(real, facula.nn.Parameter)
        assert fake.requires_grad == real.requires_grad
    assert type(copy.deepcopy(module).weight) is facula.nn.Parameter


def test_arrays_of_numpy_become_fake_in_the_block_of_a_mode():
    with FakeTensorMode():
        x = facula.tensor(np.zeros([4, 2]))
        y = facula.tensor(np.ones(3), dtype=facula.float32)
    assert isinstance(x, FakeTensor) and x.shape == (4, 2) and x.dtype is facula.float64
    assert isinstance(y, FakeTensor) and y.dtype is facula.float32


def test_a_block_with_other_tensors_in_a_module():
    layer = facula.nn.Linear(2, 2, bias=False)
    own = layer.weight
    with stateless._reparametrize_module(layer, {"weight": facula.eye(2) * 3}):
        assert layer(facula.ones(2)).tolist() == [3.0, 3.0]
    assert layer.weight is own
