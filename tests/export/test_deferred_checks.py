"""Relations of sizes that the program itself checks, and collectives and checks that it calls."""

import re

import pytest

import facula
from facula import distributed, export, nn


class Product(nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0] - 1, 4, -1)


def asserts(program):
    return [n for n in program.graph.nodes if str(n.target) == "aten._assert_scalar.default"]


def exported(deferred):
    sizes = {"x": export.dims("rows", "columns")}
    return export.export(
        Product(), (facula.ones(10, 72),), dynamic_shapes=sizes,
        prefer_deferred_runtime_asserts_over_guards=deferred,
    )  # fmt: skip


@pytest.mark.parametrize("decomposed", [False, True])
def test_what_relates_sizes_is_checked_in_the_graph(decomposed):
    program = exported(True)
    program = program.run_decompositions() if decomposed else program
    ran = program.module()
    assert asserts(program)
    assert ran(facula.ones(8, 7)).shape == (7, 4, 2)
    with pytest.raises(RuntimeError, match=re.escape("4*s77 - 4), 0) on node")):
        ran(facula.ones(8, 8))


def test_else_it_is_checked_at_the_door():
    program = exported(False)
    assert not asserts(program)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(facula.ones(8, 8))


def test_the_setting_leaves_it_there():
    facula._dynamo.config.do_not_emit_runtime_asserts = True
    try:
        program = exported(True)
    finally:
        facula._dynamo.config.do_not_emit_runtime_asserts = False
    assert not asserts(program)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(facula.ones(8, 8))


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.add = nn.Parameter(facula.ones(3))
        self.other = facula.ones(3)
        self.again = self.other

    def forward(self, x, div="floor"):
        facula.ops.aten._assert_async.msg((x > 0).all(), "positive")
        return facula.div(x + self.add + self.other, 2, rounding_mode=div)


def test_inputs_are_called_what_they_are_called():
    program = export.export(Held(), (facula.ones(3), "floor"))
    named = [spec.arg.name for spec in program.graph_signature.input_specs]
    assert named == ["p_add", "c_other", "x", "div"]
    assert set(program.constants) == {"other", "again"}


@pytest.mark.parametrize("decomposed", [False, True])
def test_elements_are_checked_where_the_program_runs(decomposed):
    program = export.export(Held(), (facula.ones(3), "floor"))
    program = program.run_decompositions() if decomposed else program
    assert program.module()(facula.ones(3), "floor").tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="positive"):
        program.module()(-facula.ones(3), "floor")


class Summed(nn.Module):
    def forward(self, x):
        y = x * 2
        distributed.all_reduce(y)
        parts = [facula.empty(3)]
        distributed.all_gather(parts, y)
        return parts[0]


def test_collectives_are_calls_of_the_program():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        program = export.export(Summed(), (facula.ones(3),))
        called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
        assert "_c10d_functional.all_reduce.default" in called
        # a sum over one rank
        assert program.module()(facula.tensor([1.0, 2.0, 3.0])).tolist() == [2, 4, 6]
    finally:
        distributed.destroy_process_group()
