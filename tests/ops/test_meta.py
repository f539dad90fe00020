"""On the meta device an operator gives shapes, dtypes and strides without data."""

import re

import pytest
from operator_cases import (
    DEFINITIONS,
    EVERY,
    TABLE,
    Samples,
    admits,
    calls,
    map_tensors,
    tensors_in,
)

import facula
from facula.testing.samples import layouts

STATIC = [name for name in EVERY if not getattr(DEFINITIONS[name], "dynamic", False)]


@pytest.mark.parametrize("layout", ["contiguous", *layouts])
@pytest.mark.parametrize("name", STATIC)
def test_meta_describes_the_result(name, layout):
    S = Samples(facula.float32 if admits(name, "float") else facula.int64)
    for args, kwargs in calls(name, S):
        if layout != "contiguous":
            args, kwargs = map_tensors(layouts[layout], (args, kwargs))
        on_meta, meta_kwargs = map_tensors(meta_of, (args, kwargs))
        try:
            expected = tensors_in(TABLE[name](*args, **kwargs))
        except RuntimeError as error:
            # some views exist only of some strides: then meta says the same
            assert DEFINITIONS[name].kind == "view"
            with pytest.raises(RuntimeError, match=re.escape(str(error))):
                TABLE[name](*on_meta, **meta_kwargs)
            continue
        actual = tensors_in(TABLE[name](*on_meta, **meta_kwargs))
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert a.device.type == "meta"
            assert (a.shape, a.dtype, a.stride()) == (e.shape, e.dtype, e.stride())


def meta_of(x):
    """A tensor of the same geometry without data."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    offset = x.storage_offset()
    storage = facula.empty((offset + max(span, 0),), dtype=x.dtype, device="meta")
    return storage.as_strided(x.shape, x.stride(), offset)


@pytest.mark.parametrize("name", [n for n in EVERY if n not in STATIC])
def test_sizes_that_depend_on_data_are_refused(name):
    for args, kwargs in calls(name, Samples()):
        args, kwargs = map_tensors(lambda x: x.to("meta"), (args, kwargs))
        with pytest.raises(NotImplementedError, match=r"^\[.*tensors with data were required"):
            TABLE[name](*args, **kwargs)


@pytest.mark.parametrize("dtype", [facula.float16, facula.bfloat16])
def test_statistics_of_narrow_norms_are_those_of_accelerators(dtype):
    """On the meta device the statistics are float32 tensors that are always filled, as PyTorch says."""
    x = facula.empty(4, 3, 5, dtype=dtype, device="meta")
    running = [facula.empty(3, dtype=dtype, device="meta") for _ in "ab"]
    for training in (True, False):
        _, mean, scale = facula.native_batch_norm(x, None, None, *running, training, 0.1, 1e-5)
        assert mean.shape == scale.shape == (3,)
        assert mean.dtype is scale.dtype is facula.float32
    _, mean, scale = facula.native_layer_norm(x, (5,), None, None, 1e-5)
    assert mean.shape == (4, 3, 1)
    assert mean.dtype is scale.dtype is facula.float32
    here = facula.zeros(4, 3, 5, dtype=dtype)
    assert facula.native_layer_norm(here, (5,), None, None, 1e-5)[1].dtype is dtype
