"""The same elements in any memory order give the same results; empty tensors are no special case."""

import pytest
from operator_cases import (
    DEFINITIONS,
    EVERY,
    POINTWISE,
    SAMPLED,
    TABLE,
    Samples,
    admits,
    assert_same,
    calls,
    map_tensors,
    reads_memory,
    results_near,
    tensors_in,
)

import facula
from facula.testing.samples import layouts

OF_ELEMENTS = [name for name in EVERY if not reads_memory(name)]


@pytest.mark.parametrize("layout", layouts)
@pytest.mark.parametrize("name", OF_ELEMENTS)
def test_layout_does_not_matter(name, layout):
    for args, kwargs in calls(
        name, Samples(facula.float64 if admits(name, "float") else facula.int64)
    ):
        moved, moved_kwargs = map_tensors(layouts[layout], (args, kwargs))
        expected = TABLE[name](*args, **kwargs)
        try:
            actual = TABLE[name](*moved, **moved_kwargs)
        except RuntimeError as error:
            # some views exist only of some strides
            assert DEFINITIONS[name].kind == "view" and "strid" in str(error)
            continue
        results_near(actual, expected, facula.float64)


def expanded(x):
    """One row, repeated by a stride of zero."""
    return x[:1].expand(x.shape) if x.dim() and x.shape[0] else x


def test_expanded_operands_pointwise():
    for name in POINTWISE:
        for args, kwargs in calls(
            name, Samples(facula.float64 if admits(name, "float") else facula.int64)
        ):
            args, kwargs = map_tensors(expanded, (args, kwargs))
            full, full_kwargs = map_tensors(lambda x: x.contiguous(), (args, kwargs))
            results_near(
                TABLE[name](*args, **kwargs), TABLE[name](*full, **full_kwargs), facula.float64
            )


@pytest.mark.parametrize("name", [name for name in SAMPLED if DEFINITIONS[name].kind != "view"])
def test_expanded_operands(name):
    for args, kwargs in calls(name, Samples(facula.float64)):
        args, kwargs = map_tensors(expanded, (args, kwargs))
        full, full_kwargs = map_tensors(lambda x: x.clone().contiguous(), (args, kwargs))
        results_near(
            TABLE[name](*args, **kwargs), TABLE[name](*full, **full_kwargs), facula.float64
        )


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 1, 1), (5,)])
def test_shapes_pointwise(name, shape):
    """Each element is computed by itself: any shape gives the elements of the flat computation."""
    S = Samples(facula.float64 if admits(name, "float") else facula.int64)
    for args, kwargs in calls(name, S, shape=shape):
        result = TABLE[name](*args, **kwargs)
        assert tuple(result.shape) == shape
        flat, flat_kwargs = map_tensors(lambda x: x.reshape(-1), (args, kwargs))
        results_near(result.reshape(-1), TABLE[name](*flat, **flat_kwargs), facula.float64)


@pytest.mark.parametrize("name", POINTWISE)
def test_broadcasting_pointwise(name):
    S = Samples(facula.float64 if admits(name, "float") else facula.int64)
    shapes = [(3, 1, 2), (4, 1), (1, 2)]
    for args, kwargs in calls(name, S, shape=(3, 4, 2)):
        sizes = iter(shapes)

        def narrowed(x, sizes=sizes):
            shape = next(sizes)
            index = tuple(slice(0, n) for n in ((1,) * (3 - len(shape)) + shape))
            return x[index].reshape(shape)

        args, kwargs = map_tensors(narrowed, (args, kwargs))
        whole = facula.broadcast_tensors(*tensors_in((args, kwargs)))
        equal = iter([x.contiguous() for x in whole])
        full, full_kwargs = map_tensors(lambda x, equal=equal: next(equal), (args, kwargs))
        assert_same(TABLE[name](*args, **kwargs), TABLE[name](*full, **full_kwargs))


@pytest.mark.parametrize("name", SAMPLED)
def test_empty_first_dimension(name):
    """With a first size of zero an operator gives what its meta says, or says what is wrong."""
    definition = DEFINITIONS[name]
    for args, kwargs in calls(name, Samples(facula.float64, empty=True)):
        try:
            result = TABLE[name](*args, **kwargs)
        except (RuntimeError, IndexError, ValueError) as error:
            assert str(error).startswith("["), error
            continue
        for tensor in tensors_in(result):
            assert tensor.cpu().numpy().shape == tuple(tensor.shape)
        if not getattr(definition, "dynamic", False):
            on_meta, meta_kwargs = map_tensors(lambda x: x.to("meta"), (args, kwargs))
            shapes = [x.shape for x in tensors_in(TABLE[name](*on_meta, **meta_kwargs))]
            assert shapes == [x.shape for x in tensors_in(result)]
