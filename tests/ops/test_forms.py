"""The in-place form and `out=` give what the functional form gives, and follow the rules of memory."""

import warnings

import pytest
from operator_cases import (
    DEFINITIONS,
    EVERY,
    POINTWISE,
    TABLE,
    Samples,
    admits,
    assert_same,
    calls,
    map_tensors,
    tensors_in,
)

import facula

INPLACE = [name for name in EVERY if DEFINITIONS[name].inplace]
OUT = [name for name in EVERY if DEFINITIONS[name].out and DEFINITIONS[name].kind != "view"]


def sample_dtype(name):
    return facula.float32 if admits(name, "float") else facula.int64


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_equals_functional(name):
    operator = TABLE[name]
    for args, kwargs in calls(name, Samples(sample_dtype(name))):
        expected = operator(*args, **kwargs)
        target = args[0].clone()
        version = target._version
        if expected.shape != target.shape and DEFINITIONS[name].kind != "view":
            with pytest.raises(RuntimeError, match=r"^\[.*doesn't match the broadcast shape"):
                operator.inplace(target, *args[1:], **kwargs)
            continue
        if expected.dtype != target.dtype and not fits(expected.dtype, target.dtype):
            with pytest.raises(RuntimeError, match=r"^\[.*can't be cast"):
                operator.inplace(target, *args[1:], **kwargs)
            assert_same(target, args[0])
            continue
        result = operator.inplace(target, *args[1:], **kwargs)
        assert result is target
        assert target._version > version or DEFINITIONS[name].kind == "view"
        assert_same(target, expected.to(target.dtype))


def fits(source, target):
    return facula.can_cast(source, target)


@pytest.mark.parametrize("name", [n for n in INPLACE if n in POINTWISE])
def test_inplace_on_a_strided_view(name):
    """Only the view's elements change."""
    operator = TABLE[name]
    for args, kwargs in calls(name, Samples(sample_dtype(name))):
        expected = operator(*args, **kwargs)
        if not fits(expected.dtype, args[0].dtype):
            continue
        wide = facula.full((6, 8), 7, dtype=args[0].dtype)
        view = wide[::2, 1::2]
        view.copy_(args[0])
        operator.inplace(view, *args[1:], **kwargs)
        assert_same(view.contiguous(), expected.to(view.dtype))
        assert bool((wide[1::2] == 7).all()) and bool((wide[:, ::2] == 7).all())


@pytest.mark.parametrize("name", OUT)
def test_out_equals_functional(name):
    operator = TABLE[name]
    for args, kwargs in calls(name, Samples(sample_dtype(name))):
        expected = operator(*args, **kwargs)
        outs = map_tensors(facula.empty_like, expected)
        result = operator(*args, **kwargs, out=outs)
        for given, got in zip(tensors_in(outs), tensors_in(result), strict=True):
            assert given is got
        assert_same(outs, expected)


@pytest.mark.parametrize("name", OUT)
def test_out_is_resized(name):
    """An empty output takes the result's shape in silence, another shape with a warning."""
    operator = TABLE[name]
    args, kwargs = calls(name, Samples(sample_dtype(name)))[0]
    expected = operator(*args, **kwargs)
    outs = map_tensors(lambda x: facula.empty((0,), dtype=x.dtype), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator(*args, **kwargs, out=outs)
    assert_same(outs, expected)
    outs = map_tensors(lambda x: facula.empty((x.numel() + 1,), dtype=x.dtype), expected)
    with pytest.warns(UserWarning, match="was resized"):
        operator(*args, **kwargs, out=outs)
    assert_same(outs, expected)


@pytest.mark.parametrize("name", OUT)
def test_out_takes_no_part_in_gradients(name):
    operator = TABLE[name]
    if not admits(name, "float"):
        return
    args, kwargs = calls(name, Samples(facula.float32))[0]
    outs = map_tensors(lambda x: facula.empty_like(x), operator(*args, **kwargs))
    args = map_tensors(lambda x: x.requires_grad_() if x.is_floating_point() else x, args)
    if not any(x.requires_grad for x in tensors_in(args)):
        return
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        operator(*args, **kwargs, out=outs)


@pytest.mark.parametrize("name", EVERY)
def test_inputs_are_unchanged(name):
    for args, kwargs in calls(name, Samples(sample_dtype(name))):
        kept = map_tensors(lambda x: x.clone(), (args, kwargs))
        TABLE[name](*args, **kwargs)
        assert_same((args, kwargs), kept)
