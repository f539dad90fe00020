"""Passes over exported programs, and the report of what can be exported."""

import pytest

import facula
from facula import export, nn
from facula._export.tools import report_exportability


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = nn.Buffer(facula.zeros(2))
        self.scale = nn.Parameter(facula.full((2,), 3.0))

    def forward(self, x):
        self.count.add_(1)
        return x * self.scale + self.count


def program():
    return export.export(Counted(), (facula.ones(2),))


def renamed(module):
    for node in module.graph.nodes:
        if node.op in ("placeholder", "call_function"):
            node.name += "_new"
    module.recompile()


def test_a_pass_may_rename_all_nodes():
    before = program()
    after = before._transform_do_not_use(renamed)
    assert after.graph_signature.user_inputs == ("x_new",)
    assert all(name.endswith("_new") for name in after.graph_signature.user_outputs)
    assert before.graph_signature.user_inputs == ("x",)
    assert [n.name for n in before.graph.nodes][0] == "p_scale"
    assert after.run_decompositions().module()(facula.ones(2)).tolist() == [4.0, 4.0]


def test_a_pass_may_replace_operators():
    def other(module):
        for node in module.graph.nodes:
            if node.target is facula.ops.aten.mul.Tensor:
                node.target = facula.ops.aten.sub.Tensor
        return facula.fx.passes.infra.pass_base.PassResult(module, True)

    before = program()
    after = before._transform_do_not_use(other)
    assert after.module()(facula.ones(2)).tolist() == [-1.0, -1.0]
    # one state serves both: it was counted once
    assert before.module()(facula.ones(2)).tolist() == [5.0, 5.0]


def test_a_pass_that_adds_a_result_is_refused():
    def more(module):
        results = module.graph.output_node()
        results.args = ((*results.args[0], results.args[0][0]),)
        module.recompile()

    with pytest.raises(RuntimeError, match=r"passes that keep the 1 outputs .* got 2"):
        program()._transform_do_not_use(more)


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Branching(), nn.ReLU()])
        self.never = nn.Linear(1, 1)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize("strict", [False, True])
def test_the_report_names_the_part_that_cannot_be_exported(strict):
    report = report_exportability(Whole(), (facula.ones(2),), strict=strict)
    assert set(report) == {"", "parts.0", "parts.1"}
    assert isinstance(report[""], Exception) and isinstance(report["parts.0"], Exception)
    assert report["parts.1"] is None


def test_the_report_of_a_module_that_can_be_exported():
    assert report_exportability(nn.ReLU(), (facula.ones(2),)) == {"": None}
