"""What a program has let go of is gone, compiled too; what it may still read is there."""

from __future__ import annotations

import gc
import weakref

import pytest
from capturing import Graphs

import facula


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.breaks("explicit")
def test_deleted_values_are_gone_behind_a_break():
    gone = []

    def program(x):
        y = x + 1
        watch = weakref.ref(y)
        z = y * 2
        del y
        facula._dynamo.graph_break()
        gone.append(watch() is None)
        return z

    call = facula.compile(program, backend="eager")
    call(facula.ones(2))
    call(facula.ones(2))
    assert gone == [True, True]


@pytest.mark.breaks("explicit")
def test_a_parameter_that_is_not_read_again_is_gone():
    gone = []

    def program(x):
        watch = weakref.ref(x)
        facula._dynamo.graph_break()
        y = x + 1
        del x
        facula._dynamo.graph_break()
        gone.append(watch() is None)
        return y

    call = facula.compile(program, backend="eager")
    call(facula.ones(2))
    call(facula.ones(2))
    assert gone == [True, True]


@pytest.mark.breaks("explicit")
def test_tensors_that_are_not_read_again_are_no_outputs():
    def program(x):
        a = x.sin()
        b = a * 2
        facula._dynamo.graph_break()
        return b + 1

    graphs = Graphs()
    facula.compile(program, backend=graphs)(facula.ones(2))
    (first, _), _ = graphs
    assert len(first.graph.output_node().args[0]) == 1


@pytest.mark.breaks("explicit", "fake-error")
def test_what_is_read_on_any_way_is_kept():
    def program(x, n):
        a, b, c = x + 1, x + 2, x + 3
        facula._dynamo.graph_break()
        try:
            if n > 1:
                b = a
            c = c[n]
        except IndexError:
            return b
        for _ in range(n):
            a = a + c
        return a

    call = facula.compile(program, backend="eager")
    for n in (0, 1, 2, 7):
        assert call(facula.ones(2), n).equal(program(facula.ones(2), n))

    def everything(x):
        a = x + 1
        facula._dynamo.graph_break()
        return sorted(locals())

    assert facula.compile(everything, backend="eager")(facula.ones(1)) == ["a", "x"]


@pytest.mark.breaks("explicit")
def test_other_objects_live_as_long_as_the_frame():
    class Owner:
        pass

    alive = []

    def program(x, make):
        owner = make()
        watch = weakref.ref(owner)
        facula._dynamo.graph_break()
        y = x + 1
        facula._dynamo.graph_break()
        alive.append(watch() is not None)
        return y

    facula.compile(program, backend="eager")(facula.ones(1), Owner)
    assert alive == [True]
