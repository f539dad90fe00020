"""What programs note beside their calls, and sizes that are written in containers of programs."""

import traceback
from dataclasses import dataclass

import facula
from facula import export, fx, nn
from facula._library.utils import hop_schema_from_fx_node


@dataclass
class Inputs:
    x: facula.Tensor
    more: list


export.register_dataclass(Inputs, serialized_type_name="notes.Inputs")


class Summed(nn.Module):
    def forward(self, inputs):
        return inputs.x + inputs.more[0]


def test_sizes_stand_in_the_containers_of_the_inputs():
    args = (Inputs(facula.ones(4), [facula.ones(4)]),)
    shapes = export.ShapesCollection()
    size = export.Dim("size", max=10)
    shapes[args[0].x] = shapes[args[0].more[0]] = (size,)
    written = shapes.dynamic_shapes(Summed(), args)
    program = export.export(Summed(), args, dynamic_shapes=written)
    other = Inputs(facula.ones(7), [facula.ones(7)])
    assert program.module()(other).tolist() == [2] * 7


def test_notes_survive_decompositions_and_a_second_export():
    args = (Inputs(facula.ones(4), [facula.ones(4)]),)
    program = export.export(Summed(), args)
    program.graph_module.meta["custom"] = {"of": "module"}
    for node in program.graph.nodes:
        node.meta["custom"] = {"of": "node"}
    decomposed = program.run_decompositions()
    assert decomposed.graph_module.meta["custom"] == {"of": "module"}
    assert all(n.meta["custom"] == {"of": "node"} for n in decomposed.graph.nodes)
    again = export.export(program.module(), args)
    assert again.graph_module.meta["custom"] == {"of": "module"}


class Chosen(nn.Module):
    def forward(self, x):
        return facula.cond(x.shape[0] > 4, lambda x: x.cos(), lambda x: x.sin(), [x])


def test_a_condition_of_sizes_stands_in_front_of_its_functions():
    sizes = {"x": {0: export.Dim("size", min=3)}}
    program = export.export(Chosen(), (facula.ones(6, 4),), dynamic_shapes=sizes)
    names = [n.name for n in program.graph.nodes]
    assert names.index("gt") < names.index("true_graph_0")
    (call,) = [n for n in program.graph.nodes if n.name == "cond"]
    assert str(hop_schema_from_fx_node(call)) == (
        "cond(SymBool pred, GraphModule true_fn, GraphModule false_fn, Tensor[1] operands) -> Tensor[1]"
    )


class LastFrame(fx.Tracer):
    record_stack_traces = True

    def _filter_traceback_frames(self, frames):
        return traceback.StackSummary.from_list([frames[-1]])


def test_a_tracer_picks_the_frames_of_a_node():
    graph = LastFrame().trace(nn.ReLU())
    (node,) = graph.find_nodes(op="placeholder")
    assert node.stack_trace.count("File") == 1
    assert "in create_node" in node.stack_trace
