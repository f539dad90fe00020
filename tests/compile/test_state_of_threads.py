"""Objects of `threading.local` in compiled programs: each thread has its own values. The oracle is Python."""

import threading

import pytest

import facula


class Defaults(threading.local):
    step = 5


def test_what_a_thread_keeps_is_read_written_and_guarded():
    state = threading.local()
    state.value = 1

    def program(x):
        state.count = getattr(state, "count", 0) + 1
        return x + state.value + 10 * hasattr(state, "extra") + 100 * state.count

    compiled = facula.compile(program, backend="eager", fullgraph=True)
    assert compiled(facula.zeros(1)).tolist() == [101.0]
    state.extra = True
    assert compiled(facula.zeros(1)).tolist() == [211.0]
    del state.extra
    state.value = 3
    assert compiled(facula.zeros(1)).tolist() == [303.0]
    found = []

    def elsewhere():
        state.value = 7
        found.append(compiled(facula.zeros(1)).tolist())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [[107.0]]
    assert (state.value, state.count) == (3, 3)


def test_classes_of_state_with_defaults():
    state = Defaults()
    compiled = facula.compile(lambda x: x + state.step, backend="eager", fullgraph=True)
    assert compiled(facula.zeros(1)).tolist() == [5.0]
    state.step = 8
    assert compiled(facula.zeros(1)).tolist() == [8.0]
    del state.step
    assert compiled(facula.zeros(1)).tolist() == [5.0]


def test_whether_a_trace_runs_is_asked_inside_of_a_graph():
    asks = facula.fx._symbolic_trace.is_fx_tracing
    compiled = facula.compile(lambda x: x + asks(), backend="eager", fullgraph=True)
    assert compiled(facula.ones(1)).tolist() == [1.0]


def test_a_trace_of_compiled_code_is_an_error_or_one_of_what_it_is_made_of():
    compiled = facula.compile(lambda x: x + x, backend="eager")
    compiled(facula.ones(2))
    with pytest.raises(RuntimeError, match="FX to symbolically trace a dynamo-optimized function"):
        facula.fx.symbolic_trace(compiled)
    with facula._dynamo.config.patch(error_on_nested_fx_trace=False):
        traced = facula.fx.symbolic_trace(compiled)
    assert traced(facula.full((2,), 3.0)).tolist() == [6.0, 6.0]
    assert compiled(facula.ones(2)).tolist() == [2.0, 2.0]
