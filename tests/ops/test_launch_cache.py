"""What an operator did once is done again without Python: with the same results, and never where it must not.

Takes: the operator table and its samples. Keeps true: a call that was kept gives, on other elements, exactly what the
implementation gives; errors, gradients, warnings and writes are those of the implementation.
"""

import warnings

import pytest
from operator_cases import SAMPLED, assert_same, calls

import facula
from facula import core
from facula.ops import TABLE
from facula.ops.table.registry import operator
from facula.testing.samples import Samples

DETERMINED = [name for name in SAMPLED if not TABLE[name].definition.random]


def plain(function, *args, **kwargs):
    """A call that neither keeps nor uses what was kept."""
    before = core.set_keeping(False)
    try:
        return function(*args, **kwargs)
    finally:
        core.set_keeping(before)


@pytest.mark.parametrize("name", DETERMINED)
def test_a_kept_call_gives_what_the_operator_gives(name):
    for dtype in (facula.float32, facula.float64):
        for number, (args, kwargs) in enumerate(calls(name, Samples(dtype))):
            TABLE[name](*args, **kwargs)
            others, keywords = calls(name, Samples(dtype, seed=1))[number]
            expected = plain(TABLE[name], *others, **keywords)
            assert_same(TABLE[name](*others, **keywords), expected)
            assert_same(TABLE[name](*others, **keywords), expected)


def test_gradients_are_recorded_on_kept_calls():
    for _ in range(3):
        x = facula.randn(2, 3, requires_grad=True)
        x.cumsum(1)[:, 2].sum().backward()
        assert facula.equal(x.grad, facula.ones(2, 3))


def test_results_of_two_kept_calls_are_two_tensors():
    x = facula.tensor([3.0, 1.0, 2.0])
    facula.topk(x, 2)
    first, second = facula.topk(x, 2), facula.topk(-x, 2)
    assert first.values.tolist() == [3.0, 2.0] and second.values.tolist() == [-1.0, -2.0]
    assert type(first) is type(second) is facula.return_types.topk


def test_a_kept_check_of_indices_still_raises():
    x = facula.arange(6.0).reshape(3, 2)
    for good in ([0, 1], [2, 2]):
        assert facula.index_select(x, 0, facula.tensor(good)).tolist() == x[good].tolist()
    for _ in range(2):
        with pytest.raises(IndexError, match="index 3 is out of bounds"):
            facula.index_select(x, 0, facula.tensor([0, 3]))
    assert facula.index_select(x, 0, facula.tensor([1, 0])).tolist() == [[2.0, 3.0], [0.0, 1.0]]


def test_writes_where_the_elements_are_count_versions():
    index = facula.tensor([[0], [1]])
    for step in range(3):
        x = facula.zeros(2, 3)
        version = x._version
        x.scatter_(1, index, float(step))
        assert x._version == version + 1
        assert x.tolist() == [[step, 0.0, 0.0], [0.0, step, 0.0]]


def test_arguments_that_share_memory_are_known_apart():
    x, y = facula.tensor([1.0, 2.0]), facula.tensor([3.0, 4.0])
    for _ in range(2):
        assert facula.cat([x, x]).tolist() == [1.0, 2.0, 1.0, 2.0]
        assert facula.cat([x, y]).tolist() == [1.0, 2.0, 3.0, 4.0]
        assert facula.cat([x[:1], x[1:]]).tolist() == [1.0, 2.0]
        assert facula.cat([x[1:], x[:1]]).tolist() == [2.0, 1.0]


def test_the_default_dtype_is_part_of_the_call():
    before = facula.get_default_dtype()
    x = facula.arange(4)
    try:
        for dtype in (facula.float32, facula.float64, facula.float32):
            facula.set_default_dtype(dtype)
            assert facula.softmax(x, 0, dtype=dtype).dtype == dtype
            assert facula.linspace(0, 1, 3).dtype == dtype
    finally:
        facula.set_default_dtype(before)


def test_warnings_come_with_every_call():
    x = facula.randn(2, 3)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            facula.nn.functional.mse_loss(x, x, size_average=True)
        assert len(caught) == 1


def test_random_numbers_differ_from_call_to_call():
    x = facula.ones(64)
    drawn = [facula.nn.functional.dropout(x, 0.5) for _ in range(3)]
    assert not facula.equal(drawn[0], drawn[1]) and not facula.equal(drawn[1], drawn[2])


def test_inference_tensors_come_out_of_kept_calls():
    x = facula.randn(3, 4)
    facula.sort(x)
    with facula.inference_mode():
        for _ in range(2):
            assert facula.sort(x).values.is_inference()
    assert not facula.sort(x).values.is_inference()


def test_a_number_in_the_guise_of_a_tensor_is_read_in_every_call():
    for n in (3, 4, 5):
        size = facula.tensor(n)
        assert facula.ones(size).shape == (n,)
        assert facula.zeros(size, 2).shape == facula.zeros((size, 2)).shape == (n, 2)
        assert facula.arange(size).tolist() == list(range(n))
        assert facula.ones(2).new_zeros(size).shape == (n,)
        assert facula.add(facula.ones(1), facula.ones(1), alpha=size).item() == 1 + n
        assert facula.ones(n).narrow(0, 0, size - 1).shape == (n - 1,)


def test_an_operator_keeps_the_launches_of_many_shapes():
    """A network calls one operator with a shape for each layer: none drives another out for ever."""
    runs = []

    def runs_of(function):
        def cpu(*args):
            runs.append(1)
            return function(*args)

        return cpu

    name = "many_shapes_kept"

    @operator(f"testing::{name}(Tensor self) -> Tensor", names=(), out=False, keeps=True)
    class _:
        def meta(self):
            return core.empty(self.shape)

        cpu = runs_of(lambda out, self: out.copy_(self))

    try:
        kept = TABLE[f"testing::{name}"]
        inputs = [facula.full((n, 2), float(n)) for n in range(1, 61)]
        for _ in range(4):
            for x in inputs:
                assert facula.equal(kept(x), x)
        first = len(runs)
        for x in inputs:
            assert facula.equal(kept(x + 1), x + 1)
        assert len(runs) - first <= 10  # the table has an end: a few meet in one place
    finally:
        del TABLE[f"testing::{name}"]


@pytest.mark.parametrize("refusals", [1, 10])
def test_a_first_call_that_makes_its_tables_does_not_stand_for_those_after_it(refusals):
    """Fourier transforms make the roots of unity of a length once; whatever reads elements every time stays unkept."""
    runs = []
    name = "tables_kept"

    @operator(f"testing::{name}(Tensor self) -> Tensor", names=(), out=False, keeps=True)
    class _:
        def meta(self):
            return core.empty(self.shape)

        def cpu(out, self):
            runs.append(1)
            if len(runs) <= refusals:
                self[0].item()
            out.copy_(self)

    try:
        kept = TABLE[f"testing::{name}"]
        for step in range(8):
            assert kept(facula.full((3,), float(step))).tolist() == [step] * 3
        assert len(runs) == (2 if refusals == 1 else 8)
    finally:
        del TABLE[f"testing::{name}"]
