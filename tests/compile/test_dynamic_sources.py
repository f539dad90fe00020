"""`dynamic_sources` names what may change from the start."""

import facula


def _counted(function, **options):
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    return facula.compile(function, backend=backend, **options), graphs


def test_named_inputs_change_without_another_graph():
    compiled, graphs = _counted(lambda x, y: x * y)
    with facula.compiler.config.patch(dynamic_sources="L['x'], L['y']"):
        for n in (2, 3, 4):
            assert compiled(n, facula.ones(n)).tolist() == [float(n)] * n
    assert len(graphs) == 1


def test_patterns_name_inputs_and_win_over_static_sizes():
    compiled, graphs = _counted(lambda x1: x1 * 2, dynamic=False)
    with facula.compiler.config.patch(dynamic_sources=r"L\['x.*'\]"):
        for n in (2, 3, 4):
            assert compiled(facula.ones(n)).shape[0] == n
    assert len(graphs) == 1


def test_others_stay_static_at_first():
    compiled, graphs = _counted(lambda x, z: x + z.sum())
    with facula.compiler.config.patch(dynamic_sources="L['x']"):
        compiled(facula.ones(2), facula.ones(2))
        compiled(facula.ones(3), facula.ones(3))
    assert len(graphs) == 2
