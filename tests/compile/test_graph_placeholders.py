"""What the placeholders of captured graphs say of themselves: names, types, and how they are printed."""

import facula
from facula import nn


def captured(function, *calls, **options):
    """The graphs that a function is captured in over some calls."""
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = facula.compile(function, backend=keep, **options)
    for args in calls:
        compiled(*args)
    return graphs


def placeholders(graph):
    return {node.target: node.type for node in graph.graph.nodes if node.op == "placeholder"}


def test_tensors_parameters_and_numbers_have_types():
    layer = nn.Linear(3, 3)

    def program(x, n):
        return layer(x) * n

    x = facula.randn(2, 3)
    _, graph = captured(program, (x, 3), (x, 4))
    types = placeholders(graph)
    assert types["L_x_"] is facula.Tensor and types["L_n_"] is facula.SymInt
    assert sum(kind is nn.Parameter for kind in types.values()) == 2
    assert "L_x_ : facula.Tensor" in graph.code and "L_n_ : facula.SymInt" in graph.code
    assert "%l_x_ : facula.Tensor [num_users=1] = placeholder[target=L_x_]" in str(graph.graph)


def test_the_code_of_a_graph_with_types_runs():
    (graph,) = captured(lambda x, y: x @ y + 1, (facula.ones(2, 2), facula.ones(2, 2)))
    assert graph(facula.ones(2, 2), facula.ones(2, 2))[0].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    again = facula.fx.GraphModule({}, graph.graph)
    assert again(facula.ones(2, 2), facula.zeros(2, 2))[0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert '"f32[2, 2]"' in graph.print_readable(print_output=False)
