"""Names with which programs and tests end a graph, and what backends read of inputs."""

import pytest

import facula
from facula._dynamo.eval_frame import unsupported


@pytest.mark.breaks
def test_a_function_outside_of_every_graph():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = facula.compile(lambda x: unsupported(x, x + 1) * 2, backend=backend)
    assert compiled(facula.ones(2)).tolist() == [4.0, 4.0]
    assert len(graphs) == 2


def test_backends_read_the_attributes_of_inputs():
    seen = []

    def backend(module, inputs):
        seen.extend(n.meta["tensor_dict"] for n in module.graph.nodes if n.op == "placeholder")
        return module.forward

    x = facula.ones(2)
    x.tag = "first"
    facula.compile(lambda x, y: x + y, backend=backend)(x, facula.ones(2))
    assert seen == [{"tag": "first"}, {}]
