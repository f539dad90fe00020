"""Stances, and marks on sizes: what is said about compiling is obeyed, or is an error that names it."""

from __future__ import annotations

import pytest
from capturing import Graphs

import facula
from facula._dynamo import (
    config,
    decorators,
    exc,
    mark_dynamic,
    mark_static,
    mark_unbacked,
    maybe_mark_dynamic,
)
from facula.compiler import set_stance
from facula.fx.experimental.symbolic_shapes import ConstraintViolationError


def counted(function=lambda x: x + 1, **options):
    graphs = Graphs()
    return facula.compile(function, backend=graphs, **options), graphs


def test_eager_on_recompile_never_captures():
    call, graphs = counted()
    with set_stance("eager_on_recompile"):
        call(facula.ones(2))
    assert not graphs
    call(facula.ones(2))
    with set_stance("eager_on_recompile"):
        call(facula.ones(2, dtype=facula.int32))
        call(facula.ones(2))
    assert len(graphs) == 1


def test_fail_on_recompile_names_the_function_and_the_guard():
    call, _ = counted()
    with set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="'fail_on_recompile'"):
        call(facula.ones(2))
    call(facula.ones(2))
    with set_stance("fail_on_recompile"):
        call(facula.ones(2))
        with pytest.raises(RuntimeError, match=r"'x' dtype mismatch. expected facula.float32"):
            call(facula.ones(2, dtype=facula.int32))


def test_eager_then_compile_learns_sizes():
    call, graphs = counted()
    seen = []
    with set_stance("eager_then_compile"):
        for n in (2, 3, 4, 5):
            assert call(facula.ones(n)).tolist() == [2.0] * n
            seen.append(len(graphs))
    assert seen == [0, 1, 1, 1]


def test_aot_eager_then_compile():
    call, graphs = counted()
    seen = []
    with set_stance("aot_eager_then_compile"):
        for n in (2, 2, 3):
            call(facula.ones(n))
            seen.append(len(graphs))
    assert seen == [0, 0, 1]


def test_a_forced_backend_leaves_the_functions_own_alone():
    call, graphs = counted()
    with set_stance("default", force_backend="eager"):
        call(facula.ones(2))
    assert not graphs
    call(facula.ones(2))
    assert len(graphs) == 1
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend"):
        set_stance("force_eager", force_backend="eager")
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        set_stance("never")


def test_a_decorator_sets_a_stance_for_its_function_only():
    call, graphs = counted()

    @set_stance("force_eager")
    def inside():
        return call(facula.ones(2))

    inside()
    assert not graphs
    call(facula.ones(2))
    assert len(graphs) == 1


@pytest.mark.breaks("recompile-limit")
def test_entries_outlive_the_limit():
    call, graphs = counted(lambda x, k: x + k, dynamic=False)
    with config.patch(recompile_limit=3):
        for k in range(6):
            assert call(facula.zeros(1), float(k)).item() == k
        assert len(graphs) == 3
        call(facula.zeros(1), 1.0)
        assert len(graphs) == 3


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x + 1 if x.shape[0] == 4 else x,
        lambda x: x + facula.ones(4, 2),
        lambda x: x.view(2, 4) * 2,
        lambda x: x * [1, 2, 3, 4, 5][x.shape[0]],
    ],
    ids=["branch", "operand", "view", "index"],
)
def test_a_marked_size_that_the_program_fixes_is_an_error(program):
    x = facula.ones(4, 2)
    mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match=r"L\['x'\].size..\[0\]"):
        counted(program)[0](x)
    y = facula.ones(4, 2)
    maybe_mark_dynamic(y, 0)
    assert counted(program)[0](y).equal(program(y))


def test_marked_sizes_that_can_change():
    def program(x, y):
        return (x * 2).reshape(x.shape[0] // 2, -1) if x.shape[0] > 3 and x.shape[0] % 2 == 0 else y

    x, y = facula.ones(4, 2), facula.ones(4, 2)
    mark_dynamic(x, 0)
    mark_dynamic(y, 0)
    call, graphs = counted(program)
    for n in (4, 8, 6):
        assert call(x.new_ones(n, 2) if n != 4 else x, x.new_ones(n, 2) if n != 4 else y).shape
    assert len(graphs) == 1
    both, _ = counted(lambda x, y: x + y)
    both(x, y)


def test_a_range_is_a_guard():
    x = facula.ones(3, 2)
    mark_dynamic(x, 0, min=2, max=10)
    call, graphs = counted()
    for n in (3, 9, 12):
        call(x if n == 3 else facula.ones(n, 2))
    assert len(graphs) == 2


def test_static_marks_and_no_decision_on_unbacked_sizes():
    call, graphs = counted()
    for n in (2, 3, 4):
        x = facula.ones(n)
        mark_static(x, 0)
        call(x)
    assert len(graphs) == 3
    x = facula.ones(3, 2)
    mark_unbacked(x, 0)
    assert counted(lambda x: x * 2, fullgraph=True)[0](x).shape == (3, 2)
    call, _ = counted(lambda x: x + 1 if x.shape[0] == 3 else x, fullgraph=True)
    with pytest.raises(exc.Unsupported, match=r"\[unbacked-size\].*x\.size\(\)\[0\]"):
        call(x)
    assert decorators.mark_static_address(x) is None
