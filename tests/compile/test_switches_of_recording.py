"""Blocks that switch recording, as graphs hold them: what changes nothing is no node."""

import pytest

import facula


def graphs_of(program, *args):
    found = []

    def backend(graph_module, example_inputs):
        found.append(graph_module)
        return graph_module.forward

    facula.compile(program, backend=backend, fullgraph=True)(*args)
    return found


def switches(program, *args):
    (graph_module,) = graphs_of(program, *args)
    nodes = list(graph_module.graph.nodes)
    return [
        n.args[0] if "set_grad_enabled" in n.name else "+" for n in nodes if n.op.startswith("call")
    ]


def block(kind):
    def program(x):
        with kind():
            y = x + 1
        return y + 2

    return program


def test_blocks_that_change_nothing_are_no_nodes():
    x = facula.ones(2)
    assert switches(block(facula.enable_grad), x) == ["+", "+"]
    assert switches(block(facula.no_grad), x) == [False, "+", True, "+"]
    with facula.no_grad():
        assert switches(block(facula.no_grad), x) == ["+", "+"]
        assert switches(block(facula.enable_grad), x) == [True, "+", False, "+"]


def test_of_switches_in_a_row_the_last_counts():
    def program(x):
        for state in (False, True, False):
            facula._C._set_grad_enabled(state)
        y = x + 1
        for state in (True, False, True):
            facula._C._set_grad_enabled(state)
        with facula.no_grad():
            pass
        return y * 2

    x = facula.ones(2, requires_grad=True)
    assert switches(program, x) == [False, "+", True, "+"]
    for backend in ("eager", "aot_eager", "inductor"):
        result = facula.compile(program, backend=backend, fullgraph=True)(x)
        assert not result.requires_grad
        assert result.tolist() == [4.0, 4.0]
        assert facula.is_grad_enabled()


def test_calls_of_the_program_are_nodes_though_they_change_nothing():
    def program(x):
        facula._C._set_grad_enabled(True)
        return x + 1

    assert switches(program, facula.ones(2)) == [True, "+"]


def test_the_text_of_a_graph_names_switches_by_what_programs_can_call():
    (graph_module,) = graphs_of(block(facula.no_grad), facula.ones(2))
    assert "facula._C._set_grad_enabled(False)" in graph_module.code
    (graph_module,) = graphs_of(
        lambda x: (facula.set_default_dtype(facula.float32), x + 1)[1], facula.ones(2)
    )
    assert "facula.set_default_dtype(facula.float32)" in graph_module.code


UNRECORDED = {
    "a row": lambda x: x[0],
    "a transposition": lambda x: x.t(),
    "a view of a view": lambda x: x.view(-1)[1:],
    "of a value": lambda x: (x * 2).view(-1),
}


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("name", UNRECORDED)
def test_views_taken_without_recording_have_no_history(name, leaf):
    def viewed(x):
        with facula.no_grad():
            part = UNRECORDED[name](x)
        return part, x * 3

    x = facula.arange(6.0).view(2, 3).requires_grad_()
    source = x if leaf else x * 1
    part, whole = facula.compile(viewed)(source)
    assert not part.requires_grad and whole.requires_grad
    assert part.tolist() == UNRECORDED[name](x.detach()).tolist()
    if name != "of a value":
        assert part.data_ptr() == UNRECORDED[name](source.detach()).data_ptr()
    whole.sum().backward()
    assert x.grad.tolist() == [[3.0] * 3] * 2
