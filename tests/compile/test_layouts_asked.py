"""What compiled programs are told of strides, offsets and bytes, when other sizes come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import facula


def strides(x: Any) -> Any:
    return x.stride(), x.t().stride(), (x + 1).stride(0), x[:, None].stride()


def strides_of_a_cut(x: Any) -> Any:
    return x[:, :2].stride(), x[:, :2].is_contiguous(), x + 1


def offset(x: Any) -> Any:
    return x + x[1:].storage_offset()


def size_in_bytes(x: Any) -> Any:
    return x.nbytes, x.t().is_contiguous(), x.t().dim_order(), x + 1


def strides_of_repeated(x: Any) -> Any:
    return x.expand(3, *x.shape).stride(), x.as_strided((2, 2), x.stride())


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "program", [strides, strides_of_a_cut, offset, size_in_bytes, strides_of_repeated]
)
def test_layouts_of_other_sizes(program: Callable[[Any], Any], dynamic: bool | None) -> None:
    """Answers follow the sizes that come: those of the uncompiled program."""
    call = facula.compile(program, backend="eager", dynamic=dynamic)
    for shape in ((4, 6), (5, 3), (3, 7), (6, 2), (2, 5)):
        x = facula.arange(float(shape[0] * shape[1])).reshape(shape)
        assert repr(call(x)) == repr(program(x))


def test_layouts_of_inputs_with_gaps() -> None:
    """Dense inputs and those with gaps, of the same sizes."""
    call = facula.compile(strides, backend="eager", dynamic=True)
    whole = facula.arange(40.0).reshape(5, 8)
    for x in (whole, whole[:, :6], whole[:4], whole.t(), whole[::2, ::2]):
        assert repr(call(x)) == repr(strides(x))


def test_offsets_of_inputs() -> None:
    """Two inputs that differ in where they begin alone."""
    call = facula.compile(lambda x: x * 0 + x.storage_offset(), backend="eager")
    base = facula.arange(6.0)
    assert [call(part)[0].item() for part in base.chunk(3)] == [0, 2, 4]
    for dynamic in (None, True):
        cut = facula.compile(
            lambda x: (x + 1)[1:].sum() * 0 + x[1:].storage_offset(), dynamic=dynamic
        )
        rows = facula.arange(40.0).reshape(8, 5)
        parts = (rows, rows[1:], rows[2:], rows[:, 1:])
        assert [cut(part).item() for part in parts] == [5, 10, 15, 6]


def test_a_generator_that_ignores_its_end() -> None:
    """`close()` of a generator that yields once more raises."""

    def generator() -> Any:
        try:
            yield 1
        except GeneratorExit:
            yield 2

    @facula.compile(backend="eager", fullgraph=True)
    def program(x: Any) -> Any:
        begun = generator()
        next(begun)
        try:
            begun.close()
        except RuntimeError as error:
            return x + 1, str(error)

    assert program(facula.ones(2))[1] == "generator ignored GeneratorExit"


def in_format(x: Any) -> Any:
    rows = x.is_contiguous(memory_format=facula.channels_last)
    made = (x * 2).is_contiguous(memory_format=facula.contiguous_format)
    return rows, made, x.dim_order(ambiguity_check=[facula.contiguous_format]), x + 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_layouts_asked_with_a_memory_format(dynamic: bool | None) -> None:
    """A keyword of the question is part of what is guarded."""
    call = facula.compile(in_format, backend="eager", dynamic=dynamic, fullgraph=True)
    for shape in ((2, 3, 4, 5), (3, 2, 5, 4), (2, 4, 3, 3)):
        x = facula.arange(float(math.prod(shape))).reshape(shape)
        assert repr(call(x)) == repr(in_format(x))
    turned = facula.compile(
        lambda x: x + 1 if x.is_contiguous(memory_format=facula.channels_last) else x - 1
    )
    x = facula.zeros(2, 3, 4, 5)
    assert turned(x).sum() == -120
    assert turned(x.to(memory_format=facula.channels_last)).sum() == 120


def test_layouts_asked_wrongly() -> None:
    """Arguments that the method does not take are named as its error, not as a fault of the compiler."""
    asks = facula.compile(lambda x: x.is_contiguous(facula.channels_last), fullgraph=True)
    with pytest.raises(facula._dynamo.exc.TorchRuntimeError, match="is_contiguous"):
        asks(facula.zeros(2))
