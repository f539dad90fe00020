"""Functions that hear of compilations, backends that explain, and comparisons of results."""

from __future__ import annotations

import pytest

import facula
from facula._dynamo import callback_handler, on_compile_end, on_compile_start
from facula._dynamo.backends.debugging import ExplainWithBackend
from facula._dynamo.utils import same


@pytest.fixture
def heard():
    found = []
    on_compile_start(lambda told: found.append(("start", told.compile_id)))
    on_compile_end(lambda told: found.append(("end", told.compile_id)))
    yield found
    callback_handler.clear()


def test_beginnings_and_ends(heard):
    program = facula.compile(lambda x: x.sin() + 1, backend="eager")
    program(facula.ones(2))
    program(facula.ones(2))
    assert [kind for kind, _ in heard] == ["start", "end"]
    assert heard[0][1] == heard[1][1]
    program(facula.ones(2, dtype=facula.float64))
    assert [kind for kind, _ in heard] == ["start", "end"] * 2
    assert heard[0][1] != heard[2][1]


def test_functions_without_arguments(heard):
    on_compile_start(lambda: heard.append("plain start"))
    on_compile_end(lambda: heard.append("plain end"))
    facula.compile(lambda x: x.cos(), backend="eager")(facula.ones(2))
    assert heard[1::2] == ["plain start", "plain end"]


@pytest.mark.breaks("explicit")
def test_each_part_of_a_program_is_announced(heard):
    def program(x):
        x = x + 1
        facula._dynamo.graph_break()
        return x.sin()

    facula.compile(program, backend="eager")(facula.ones(2))
    assert [kind for kind, _ in heard] == ["start", "end"] * 2


def test_an_end_is_announced_where_compiling_fails(heard):
    def backend(module, inputs):
        raise ValueError("no")

    with pytest.raises(Exception, match="no"):
        facula.compile(lambda x: x + 1, backend=backend)(facula.ones(2))
    assert [kind for kind, _ in heard] == ["start", "end"]


@pytest.mark.breaks("explicit")
def test_a_backend_that_explains():
    def program(x):
        x = x.sin() * 2
        facula._dynamo.graph_break()
        return x.cos()

    explained = ExplainWithBackend("eager")
    x = facula.ones(2)
    facula.compile(program, backend=explained)(x)
    found = explained.output()
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 3)
    for part in ("Graph Count: 2", "Graph Break Count: 1", "Op Count: 3", "Break Reasons:"):
        assert part in str(found)


@pytest.mark.parametrize(
    "backend", ["eager", "eager_noexcept", "aot_eager", "aot_eager_default_partitioner"]
)
def test_backends_that_run_the_graph_take_options(backend):
    program = facula.compile(lambda x: x * 2 + 1, backend=backend, options={"whatever": 2})
    for size in (2, 3, 4):
        assert program(facula.ones(size)).tolist() == [3.0] * size


def test_a_graph_that_fails_under_eager_noexcept():
    program = facula.compile(lambda x, i: x[i], backend="eager_noexcept")
    with pytest.raises(facula._dynamo.exc.TorchDynamoException, match="eager_noexcept") as found:
        program(facula.ones(2), facula.tensor([5]))
    assert isinstance(found.value.__cause__, IndexError)


class Holder:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (facula.tensor([105]), 105, True),
        (facula.tensor([105]), 104, False),
        (Holder(facula.ones(2)), Holder(facula.ones(2)), True),
        (Holder(facula.ones(2)), Holder(facula.zeros(2)), False),
        ([Holder("a")], [Holder("a")], True),
        (Holder(1), 1, False),
    ],
)
def test_same(a, b, expected):
    assert same(a, b) is expected
