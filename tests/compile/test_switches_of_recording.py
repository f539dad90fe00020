"""Blocks that switch recording, as graphs hold them: what changes nothing is no node."""

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
