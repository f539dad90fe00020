"""`print_readable`: groups of statements by the user's lines, blank lines between them, one newline at the end."""

import facula
from facula import nn


def test_groups_are_apart_and_the_text_ends_with_its_line():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    def function(x):
        y = x.sin()
        return y + 1

    facula.compile(function, backend=backend)(facula.ones(2))
    text = graphs[0].print_readable(print_output=False)
    lines = text.split("\n")
    assert lines[-1] == "" and lines[-2].strip() == "return (add,)"
    plain = [line.strip() for line in lines if not line.strip().startswith("#")]
    assert plain == [
        "class GraphModule(torch.nn.Module):" if "torch." in text else "class GraphModule(facula.nn.Module):",
        'def forward(self, L_x_: "f32[2]"):', "l_x_ = L_x_", "",
        'y: "f32[2]" = l_x_.sin();  l_x_ = None', "",
        'add: "f32[2]" = y + 1;  y = None', "return (add,)", "",
    ]  # fmt: skip


def test_graphs_without_lines_say_so_once_and_inner_classes_are_indented():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = facula.fx.symbolic_trace(nn.Sequential(nn.ReLU()))

        def forward(self, x):
            return self.inner(x) * 2

    tracer = facula.fx.Tracer()
    tracer.is_leaf_module = lambda module, path: path == "inner"
    outer = Outer()
    module = facula.fx.GraphModule(outer, tracer.trace(outer))
    lines = module.print_readable(print_output=False).split("\n")
    assert sum("No stacktrace found" in line for line in lines) == 2
    assert not any(line != line.rstrip() for line in lines)
    assert any(line.startswith("    class inner(") for line in lines)


def test_the_results_of_a_graph_are_shown_by_name():
    traced = facula.fx.symbolic_trace(lambda x: (x, {"k": facula.relu(x)}))
    assert str(traced.graph).rstrip().endswith("return (x, {'k': relu})")
