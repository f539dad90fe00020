"""Numbers out of tensors in captured programs, and questions about sizes that fix nothing."""

import dataclasses

import pytest

import facula
from facula import _dynamo
from facula.export import Dim, export
from facula.fx.experimental.symbolic_shapes import (
    guard_or_false,
    has_static_value,
    statically_known_true,
)


def whole(f, **words):
    return facula.compile(f, backend="eager", fullgraph=True, **words)


def test_the_smaller_and_the_greater_of_tensors():
    def f(a, b):
        low = min(max(a, 0), 1)
        high = max(0, min(1, b))
        return max(low, high) - min(low, high), max([a, b, a + b])

    compiled = whole(f)
    for a, b in ((0.5, 2.0), (-1.0, 0.25), (3.0, -3.0)):
        a, b = facula.tensor(a), facula.tensor(b)
        for found, wanted in zip(compiled(a, b), f(a, b), strict=True):
            assert float(found) == float(wanted)


def test_tensors_that_are_constants_are_numbers():
    def f(x):
        rows = [x, x + 1, x + 2]
        return rows[facula.as_tensor(2)] * facula.tensor(3).item()

    assert whole(f)(facula.zeros(2)).tolist() == [6, 6]


def test_a_constant_that_was_written_to_is_none():
    def f(x):
        place = facula.tensor(1)
        place.add_(x)
        return x * place.item()

    compiled = whole(f)
    assert compiled(facula.tensor(2)).item() == 6
    assert compiled(facula.tensor(4)).item() == 20


def test_a_tensor_where_an_operator_takes_a_number():
    def f(x, y, z, s):
        return x.addcmul_(y, z, value=s), facula.nn.functional.elu(z, alpha=s)

    compiled = whole(f)
    y, z = facula.tensor([1.0, 2.0]), facula.tensor([3.0, -1.0])
    for s in (0.5, 4.0):
        found = compiled(facula.zeros(2), y, z, facula.tensor(s))
        assert found[0].tolist() == [3 * s, -2 * s]
        assert facula.allclose(found[1], facula.nn.functional.elu(z, alpha=s))


def test_the_default_dtype_inside():
    def f():
        facula.set_default_dtype(facula.float64)
        x = facula.tensor([3.0])
        facula.set_default_dtype(facula.float32)
        return x

    compiled = whole(f)
    for _ in range(2):
        assert compiled().dtype is facula.float64
        assert facula.get_default_dtype() is facula.float32


def test_hooks_that_are_forbidden_inside():
    def f(x):
        with facula.autograd.graph.disable_saved_tensors_hooks("not here"):
            return x + 1

    assert whole(f)(facula.zeros(1)).item() == 1
    with facula.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass  # allowed again


def test_what_is_known_of_sizes():
    def f(x):
        first = statically_known_true(x.shape[0] > 9), has_static_value(x.shape[0])
        facula._check(x.shape[0] >= 10)
        return first, statically_known_true(x.shape[0] > 9)

    x = facula.zeros(10)
    _dynamo.mark_dynamic(x, 0)
    assert whole(f)(x) == ((False, False), True)


def test_what_nobody_knows_of_a_number_that_is_read():
    def f(x):
        n = x.item()
        return x + (1 if guard_or_false(n > 3) else 2)

    compiled = whole(f)
    assert [compiled(facula.tensor(n)).item() for n in (2, 7)] == [4, 9]


def test_a_frozen_dataclass_given_to_a_node():
    @dataclasses.dataclass(frozen=True)
    class Pair:
        x: facula.Tensor
        y: facula.Tensor
        more: list = dataclasses.field(default_factory=lambda: [5])

    @facula.compiler.allow_in_graph
    def total(pair):
        return pair.x + pair.y + pair.more[0]

    compiled = whole(lambda x, y: total(Pair(x, y)))
    for x in (facula.ones(2), facula.zeros(2)):
        assert facula.equal(compiled(x, x), 2 * x + 5)


def test_run_compiles_nothing():
    counts = []

    def backend(module, inputs):
        counts.append(1)
        return module

    f = facula.compile(lambda x: x + 1, backend=backend)
    f(facula.ones(2))
    g = _dynamo.run(f)
    assert g(facula.ones(2)).tolist() == [2, 2] and g(facula.ones(2, 2)).shape == (2, 2)
    assert len(counts) == 1
    f(facula.ones(2, 2))
    assert len(counts) == 2


class Row(facula.nn.Module):
    def forward(self, table, place):
        n = place.item()
        facula._check(n >= 0)
        facula._check(n < table.shape[0])
        rows = table.clone()
        rows.select(0, n).copy_(table[n] + n)
        return rows


@pytest.mark.parametrize("shapes", [None, ({0: Dim.AUTO}, None)])
def test_a_number_that_is_read_as_an_index(shapes):
    program = export(Row(), (facula.zeros(3, 2), facula.tensor(1)), dynamic_shapes=shapes)
    sizes = (3,) if shapes is None else (3, 5)
    for size in sizes:
        for n in range(size):
            wanted = facula.zeros(size, 2)
            wanted[n] = n
            assert facula.equal(program.module()(facula.zeros(size, 2), facula.tensor(n)), wanted)
    with pytest.raises(RuntimeError, match="u0"):
        program.module()(facula.zeros(3, 2), facula.tensor(3))


def test_the_bound_of_random_numbers_may_be_a_tensor():
    compiled = facula.compile(facula.randint_like, backend="aot_eager", fullgraph=True)
    places = facula.zeros(50, dtype=facula.int64)
    drawn = [compiled(places, facula.tensor(bound)) for bound in (1, 5, 3)]
    assert [int(x.max()) < bound for x, bound in zip(drawn, (1, 5, 3), strict=True)] == [True] * 3
    assert drawn[1].unique().numel() > 1
