"""Names in captured graphs: inputs by where they come from, values by the variables that hold them."""

import facula
from facula import nn

TABLE = facula.ones(2)


class _Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.rest = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.register_buffer("scale", facula.ones(1))
        self.plain = facula.ones(2)

    def forward(self, x):
        return self.rest(self.first(x)) * self.scale + self.plain


def _captured(function, *args, **kwargs):
    """The graphs that a call of a compiled function gives to its backend."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    facula.compile(function, backend=backend)(*args, **kwargs)
    return graphs


def _targets(module):
    return {node.target for node in module.graph.nodes if node.op == "placeholder"}


def test_inputs_of_modules_are_named_by_their_paths():
    (module,) = _captured(_Net(), facula.ones(2, 2))
    assert _targets(module) == {
        "L_x_", "L_self_modules_first_parameters_weight_", "L_self_modules_first_parameters_bias_",
        "L_self_modules_rest_modules_0_parameters_weight_", "L_self_modules_rest_modules_0_parameters_bias_",
        "L_self_buffers_scale_", "L_self_plain",
    }  # fmt: skip


def test_inputs_are_locals_items_globals_and_free_variables():
    free = facula.ones(2)

    def function(x, items, table, *args, k, **more):
        total = x + items[1] + table["a"] + args[0] + k + more["q"] + TABLE + free
        return total * 2

    one = facula.ones(2)
    (module,) = _captured(
        function, one, [1, one + 1], {"a": one + 2}, one + 3, k=one + 4, q=one + 5
    )
    assert _targets(module) == {
        "L_x_", "L_items_1_", "L_table_a_", "L_args_0_", "L_k_", "L_more_q_", "G_TABLE_", "L_free_",
    }  # fmt: skip
    assert "total" in {node.name for node in module.graph.nodes}


def test_every_value_has_an_example():
    (module,) = _captured(lambda x: (x * 2).sum(0), facula.ones(3, 4))
    shapes = [tuple(n.meta["example_value"].shape) for n in module.graph.nodes if n.op != "output"]
    assert shapes == [(3, 4), (3, 4), (4,)]


def test_a_variable_that_is_written_again_names_both_values():
    def function(x):
        y = x.sin()
        y = y.cos()
        return y + 1

    (module,) = _captured(function, facula.ones(2))
    assert [n.name for n in module.graph.nodes if n.op != "output"] == ["l_x_", "y", "y_1", "add"]
