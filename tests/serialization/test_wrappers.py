"""Tensors that show a shape and keep other tensors: what their files hold, and what damaged files may not do."""

import dataclasses
import io
import pickle

import numpy as np
import pytest

import facula
from facula import nn
from facula.serialization import safe_globals


@dataclasses.dataclass(frozen=True)
class Way:
    """How integers were made: it refuses assignments."""

    dim: int


class Scaled(facula.Tensor):
    """Integers and a scale that show themselves as numbers."""

    @staticmethod
    def __new__(cls, integers, scale, way):
        return facula.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype)

    def __init__(self, integers, scale, way):
        self.integers, self.scale, self.way = integers, scale, way

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is facula.ops.aten.detach.default:
            return cls(args[0].integers, args[0].scale, args[0].way)

        def plain(value):
            return value.integers * value.scale if isinstance(value, cls) else value

        return function(*map(plain, args), **(kwargs or {}))


def scaled():
    return Scaled(facula.tensor([[1, -2, 3]], dtype=facula.int8), facula.tensor(0.5), Way(1))


def written(value):
    stream = io.BytesIO()
    facula.save(value, stream)
    return stream.getvalue()


def test_a_wrapper_comes_back_with_its_parts():
    data = written({"w": scaled(), "p": nn.Parameter(scaled(), requires_grad=False)})
    with safe_globals([Scaled, Way]):
        found = facula.load(io.BytesIO(data))
    for name in ("w", "p"):
        made = found[name]
        assert type(made) is Scaled and made.shape == (1, 3) and made.dtype is facula.float32
        assert made.integers.dtype is facula.int8 and made.way == Way(1)
        np.testing.assert_array_equal((made + 0).numpy(), [[0.5, -1.0, 1.5]])


def test_its_class_is_asked_for_first():
    with pytest.raises(pickle.UnpicklingError, match="Scaled"):
        facula.load(io.BytesIO(written(scaled())))


def test_words_for_narrow_numbers_come_back():
    found = facula.load(io.BytesIO(written([facula.uint4, facula.int7, facula.float4_e2m1fn_x2])))
    assert found == [facula.uint4, facula.int7, facula.float4_e2m1fn_x2]
    assert not facula.uint3.is_signed and facula.int3.is_signed and facula.int3.itemsize == 1
    assert facula.float8_e8m0fnu.is_floating_point
    with pytest.raises(NotImplementedError, match="facula.uint8 holds the numbers"):
        facula.zeros(3, dtype=facula.uint4)
    with pytest.raises(NotImplementedError, match="facula.int8 holds the numbers"):
        facula.ones(3).to(facula.int4)
