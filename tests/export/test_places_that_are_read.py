"""Programs that slice, pick, assert and choose by numbers that are known only where they run."""

from __future__ import annotations

import builtins
import math
import threading

import pytest

import facula
from facula import export, nn

ASSERTS = """
def asserts(x):
    assert x.max().item() > 0 and x.min().item() < 5, "other numbers"
    return x + 1
"""


def exported(function, *args, **options):  # type: ignore[no-untyped-def]
    class Program(nn.Module):
        def forward(self, *given):  # type: ignore[no-untyped-def]
            return function(*given)

    return export.export(Program(), args, **options).module()


def test_slices_between_numbers_that_are_read():
    def between(x, ends):  # type: ignore[no-untyped-def]
        start, stop = ends.tolist()
        return x[start:stop] * 2

    x = facula.arange(10)
    program = exported(between, x, facula.tensor([3, 6]))
    for ends in ([3, 6], [-9, -1], [-10000, 10000], [0, -10], [7, 2], [0, 0]):
        found = program(x, facula.tensor(ends))
        assert found.tolist() == [2 * n for n in range(10)[slice(*ends)]]


def test_slices_of_sizes_that_may_change():
    def first(x, n):  # type: ignore[no-untyped-def]
        return x[: n.item()].sum()

    shapes = {"given": ({0: export.Dim("n")}, None)}
    program = exported(first, facula.arange(6), facula.tensor(3), dynamic_shapes=shapes)
    for size, stop in ((6, 3), (9, 9), (4, 100), (5, -1)):
        expected = sum(range(size)[:stop])
        assert program(facula.arange(size), facula.tensor(stop)).item() == expected


def test_an_entry_at_a_number_that_is_read_is_checked_where_the_program_runs():
    program = exported(lambda x, n: x[n.item(), 1], facula.eye(3), facula.tensor(1))
    assert [program(facula.eye(3), facula.tensor(n)).item() for n in (0, 1, -2)] == [0, 1, 1]
    with pytest.raises(IndexError):
        program(facula.eye(3), facula.tensor(3))


def test_tensors_of_numbers_that_are_read():
    def made(n, f, b):  # type: ignore[no-untyped-def]
        return facula.tensor([[n.item(), 7], [2, n]]), facula.tensor([f.item()])

    program = exported(made, facula.tensor(3), facula.tensor(0.5), facula.tensor(True))
    whole, real = program(facula.tensor(-4), facula.tensor(1.25), facula.tensor(False))
    assert whole.tolist() == [[-4, 7], [2, -4]] and whole.dtype == facula.int64
    assert real.tolist() == [1.25] and real.dtype == facula.float32


def test_what_a_program_asserts_of_a_number_is_checked_where_it_runs():
    known: dict[str, object] = {}  # the text of a program, whose asserts are those of Python
    exec(ASSERTS, known)
    asserts = known["asserts"]
    program = exported(asserts, facula.zeros(2, dtype=facula.int64))
    assert program(facula.tensor([1, 0])).tolist() == [2, 1]
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program(facula.tensor([-1, 0]))
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program(facula.tensor([7, 8]))
    with pytest.raises(RuntimeError, match="data-dependent"):  # a branch is none
        exported(lambda x: x + 1 if x.max().item() > 0 else x, facula.tensor([1, 0]))


def test_a_shape_with_one_number_that_is_read_says_what_it_is():
    program = exported(lambda n: facula.ones(24).view(n.item(), 4), facula.tensor(6))
    assert program(facula.tensor(6)).shape == (6, 4)
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program(facula.tensor(5))


def test_a_number_up_to_a_size_is_not_taken_for_the_size():
    def kth(x, k):  # type: ignore[no-untyped-def]
        return x.kthvalue(min(k.item(), 20), dim=0).values

    x = facula.arange(8).flip(0)
    program = exported(kth, x, facula.tensor(3))
    assert [program(x, facula.tensor(k)).item() for k in (1, 3, 8)] == [0, 2, 7]
    with pytest.raises(RuntimeError, match="Runtime assertion failed"):
        program(x, facula.tensor(9))


def test_slices_that_checks_bound_begin_where_they_should():
    def part(x, ends):  # type: ignore[no-untyped-def]
        start, stop = ends.tolist()
        facula._check(stop >= 0)
        facula._check(stop < x.shape[0])
        return x[start:stop].clone(), x[:stop] * 2

    shapes = {"given": ({0: export.Dim("n")}, None)}
    program = exported(part, facula.arange(9), facula.tensor([2, 5]), dynamic_shapes=shapes)
    for size, start, stop in ((9, 2, 5), (20, 0, 19), (6, 3, 3)):
        first, second = program(facula.arange(size), facula.tensor([start, stop]))
        assert first.tolist() == list(range(start, stop))
        assert second.tolist() == [2 * n for n in range(stop)]


def test_a_size_may_be_a_tensor():
    program = exported(lambda n: facula.ones(n, 2) + facula.full([n, 1], n), facula.tensor(3))
    assert program(facula.tensor(4)).tolist() == [[5.0, 5.0]] * 4


def test_a_choice_by_how_many_elements_there_are():
    def chooses(x):  # type: ignore[no-untyped-def]
        found = x.nonzero()
        return facula.cond(found.size(0) > 2, lambda y: y + 1, lambda y: y - 1, (found,))

    program = exported(chooses, facula.tensor([1, 0, 1, 1]))
    assert program(facula.tensor([1, 1, 0, 1])).flatten().tolist() == [1, 2, 4]
    assert program(facula.tensor([0, 0, 1, 0])).flatten().tolist() == [1]


def test_powers_and_choices_of_numbers_that_are_read():
    def chosen(n, x):  # type: ignore[no-untyped-def]
        return x * math.pow(min(n.item(), 10), 2), max([n, x[0]]), max(n, 5)

    program = exported(chosen, facula.tensor(5), facula.ones(2, dtype=facula.int64))
    for n in (3, 12):
        power, larger, bounded = program(facula.tensor(n), facula.tensor([4, 5]))
        assert power.tolist() == [4.0 * min(n, 10) ** 2, 5.0 * min(n, 10) ** 2]
        assert (larger.item(), bounded.item()) == (max(n, 4), max(n, 5))


def test_other_threads_see_pythons_own_functions_while_a_program_is_exported():
    seen = []

    def looks(x):  # type: ignore[no-untyped-def]
        thread = threading.Thread(target=lambda: seen.append(max([facula.ones(()), 3.0])))
        thread.start()
        thread.join()
        return x + max(x.shape[0], 3)

    before = builtins.max, math.pow
    exported(looks, facula.ones(4), dynamic_shapes={"given": ({0: export.Dim("n")},)})
    assert seen == [3.0] and isinstance(seen[0], float)
    assert (builtins.max, math.pow) == before
