"""Compiled functions that write to their inputs, called with tensors that share memory in changing ways.

The oracle is the function itself, run by Python on a copy of the same memory.
"""

import random

import pytest

import facula
from facula.lower.aot.api import aot_function


def _doubled(a, b):
    a.mul_(2)
    return a + b


def _both(a, b):
    a.mul_(2)
    b.add_(1)
    return a - b


def _views(memory, places):
    return [memory[start : start + 3] for start in places]


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("function", [_doubled, _both])
def test_writes_are_seen_through_other_inputs(function, backend):
    compiled = facula.compile(function, backend=backend)
    draw = random.Random(5)
    places = [(0, 3), (0, 2), (2, 0), (0, 5), (1, 1)] + [
        (draw.randrange(6), draw.randrange(6)) for _ in range(6)
    ]
    for pair in places:
        memory = facula.arange(9.0)
        wanted_memory = memory.clone()
        wanted = function(*_views(wanted_memory, pair))
        found = compiled(*_views(memory, pair))
        assert facula.equal(found, wanted), pair
        assert facula.equal(memory, wanted_memory), pair


def test_inputs_of_their_own_come_first():
    compiled = facula.compile(_doubled)
    assert facula.equal(compiled(facula.ones(3), facula.ones(3)), facula.full((3,), 3.0))
    memory = facula.ones(5)
    found = compiled(memory[:3], memory[1:4])
    assert found.tolist() == [4.0, 4.0, 3.0]
    assert memory.tolist() == [2.0, 2.0, 2.0, 1.0, 1.0]


def test_a_graph_has_few_programs_and_stays_right():
    compiled = facula.compile(_doubled)
    for start in range(20):
        memory = facula.arange(40.0)
        other = memory.clone()
        wanted = _doubled(other[start : start + 3], other[start + 1 : start + 4])
        found = compiled(memory[start : start + 3], memory[start + 1 : start + 4])
        assert facula.equal(found, wanted)
        assert facula.equal(memory, other)


def test_a_view_of_a_modules_own_buffer_sees_what_the_module_writes():
    class Counting(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", facula.zeros(4))

        def forward(self, x):
            self.count.add_(1)
            return x * 2

    module = Counting()
    compiled = facula.compile(module)
    assert compiled(facula.ones(2)).tolist() == [2.0, 2.0]
    assert compiled(module.count[:2]).tolist() == [4.0, 4.0]
    assert compiled(module.count[1:3]).tolist() == [6.0, 6.0]


@pytest.mark.parametrize("count", [3, 16, 17, 40])
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_of_many_inputs_two_share_memory(count, backend):
    def function(*tensors):
        tensors[0].add_(1)
        total = tensors[0] * 1
        for tensor in tensors[1:]:
            total = total + tensor
        return total

    compiled = facula.compile(function, backend=backend)
    for one, other in [(None, None), (0, count - 1), (1, 2), (0, 1), (None, None)]:
        memory = facula.arange(4.0 * count)
        places = [4 * i for i in range(count)]
        if one is not None:
            places[other] = places[one] + 1
        # memory of their own for all but the two
        given = [
            memory[p : p + 3] if i in (one, other) else memory[p : p + 3].clone()
            for i, p in enumerate(places)
        ]
        oracle = memory.clone()
        plain = [
            oracle[p : p + 3] if i in (one, other) else oracle[p : p + 3].clone()
            for i, p in enumerate(places)
        ]
        assert facula.equal(compiled(*given), function(*plain))
        assert facula.equal(memory, oracle)
        assert facula.equal(given[0], plain[0])


def test_numbers_among_inputs_have_no_memory():
    def function(x, n, y):
        x.mul_(n)
        return x + y

    compiled = facula.compile(function)
    for n in (2, 3, 5):
        memory, oracle = facula.arange(8.0), facula.arange(8.0)
        assert facula.equal(compiled(facula.ones(3), n, facula.ones(3)), facula.full((3,), n + 1.0))
        wanted = function(oracle[:3], n, oracle[1:4])
        assert facula.equal(compiled(memory[:3], n, memory[1:4]), wanted)
        assert facula.equal(memory, oracle)


def _fresh(columns):
    """A memory of rows of so many numbers, or of one row; nothing else has made it a view."""
    size = (3, columns) if columns else (10,)
    return facula.tensor(range(3 * columns or 10), dtype=facula.float32).reshape(size).clone()


def _halves(memory):
    """Two pieces that overlap."""
    if memory.dim() == 1:
        return memory[:6].view(2, 3), memory[3:9].view(2, 3)
    return memory[:-1, :3], memory[1:, :3]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [_doubled, _both])
@pytest.mark.parametrize("order", [(3, 0, 5, 4, 3), (0, 3, 4), (5, 0, 3)])
def test_views_of_bases_of_other_shapes(function, order, dynamic):
    """Same sizes, strides and places, as views of another base: the program for the first does not fit."""
    compiled = facula.compile(function, dynamic=dynamic)
    for columns in order:
        memory, other = _fresh(columns), _fresh(columns)
        found = compiled(*_halves(memory))
        assert facula.equal(found, function(*_halves(other)))
        assert facula.equal(memory, other)


@pytest.mark.parametrize("function", [_doubled, _both])
def test_functions_compiled_ahead_look_where_inputs_lie(function):
    def as_it_is(graph, inputs):
        return graph

    compiled = aot_function(function, as_it_is)
    for pair in [(0, 1), (0, 2), (2, 0), (0, 3), (1, 1), (0, 5)]:
        memory, other = facula.arange(9.0), facula.arange(9.0)
        wanted = function(*_views(other, pair))
        assert facula.equal(compiled(*_views(memory, pair)), wanted), pair
        assert facula.equal(memory, other), pair


def reshaped_beside_a_write(view, whole):
    view.unsqueeze_(0)
    whole.add_(1)
    return view * 2


def both_reshaped(view, whole):
    whole[0] = 3
    whole.t_()
    view.unsqueeze_(0)
    return view


@pytest.mark.parametrize("program", [reshaped_beside_a_write, both_reshaped])
def test_inputs_that_end_in_another_shape_keep_it(program):
    """Sizes of the inputs after the call, by hand; elements of the memory that they share, too."""
    whole = facula.arange(6.0).view(2, 3)
    view = whole[0]
    result = facula.compile(program)(view, whole)
    assert view.shape == (1, 3)
    if program is both_reshaped:
        assert result is view and whole.shape == (3, 2)
        assert whole.tolist() == [[3, 3], [3, 4], [3, 5]] and view.tolist() == [[3, 3, 3]]
    else:
        assert result.tolist() == [[2, 4, 6]] and whole.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert view.tolist() == [[1, 2, 3]]
