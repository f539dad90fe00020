"""Exports under a fake mode of the user's, of scripted modules, under settings; membership of sizes that change."""

from __future__ import annotations

import pytest

import facula
from facula import export, nn
from facula._subclasses.fake_tensor import FakeTensorMode
from facula.export import Dim
from facula.export._trace import DEFAULT_EXPORT_DYNAMO_CONFIG, _export_to_torch_ir


def test_a_program_of_fake_tensors_is_exported_under_their_mode():
    with FakeTensorMode(), facula.device("meta"):
        module, x = nn.Linear(2, 3), facula.rand(5, 2)
        program = export.export(module, (x,))
        assert program.module()(x).shape == (5, 3)
        values = [n.meta["val"] for n in program.graph.nodes if "val" in n.meta]
        assert len({id(value.fake_mode) for value in values}) == 1
        assert all(value.device == x.device for value in values)
        assert program.run_decompositions().module()(x).shape == (5, 3)
        assert facula.ones(2).device.type == "meta"  # the user's mode is active still


def test_recurrent_layers_are_refused_where_the_settings_say_so():
    module, x = nn.GRU(2, 3), facula.ones(4, 1, 2)
    export.export(module, (x,), strict=True)
    DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn = False
    try:
        with pytest.raises(facula._dynamo.exc.Unsupported, match="RNN, GRU, or LSTM"):
            export.export(module, (x,), strict=True)
    finally:
        DEFAULT_EXPORT_DYNAMO_CONFIG.allow_rnn = True


def test_a_scripted_module_becomes_a_program():
    from facula._export.converter import TS2EPConverter

    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: facula.Tensor, n: facula.Tensor):
            return self.layer(x) + n.item()

    module = Adds()
    args = facula.ones(1, 2), facula.tensor(2)
    program = TS2EPConverter(facula.jit.script(module), args).convert()
    assert list(program.state_dict) == ["layer.weight", "layer.bias"]
    other = facula.zeros(1, 2), facula.tensor(5)
    assert facula.allclose(program.module()(*other), module(*other))


def test_the_module_of_a_program_has_the_state_of_the_original():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    made = _export_to_torch_ir(module, (facula.ones(3, 2),))
    assert made.state_dict().keys() == module.state_dict().keys()
    assert "1e-05, False)" in made.code  # what has no default in PyTorch is written


def test_membership_has_one_way_for_all_sizes():
    class Member(nn.Module):
        def forward(self, x, tests):  # type: ignore[no-untyped-def]
            return facula.isin(x, tests)

    shapes = ({0: Dim("n")}, {0: Dim("m")})
    x = facula.arange(6)
    program = export.export(Member(), (x, facula.tensor([2, 4])), dynamic_shapes=shapes)
    for one in (program, program.run_decompositions()):
        for tests in ([2, 4], [5, 0, 1], list(range(3, 40))):
            found = one.module()(x, facula.tensor(tests))
            assert found.tolist() == [n in tests for n in range(6)]


def test_the_mark_of_constructors_is_for_constructors():
    from facula._export.wrappers import mark_subclass_constructor_exportable_experimental as mark

    class Pair(facula.Tensor):
        @facula._disable_dynamo
        @mark
        def __init__(self, a, b):  # type: ignore[no-untyped-def]
            self.a, self.b = a, b

    with pytest.raises(RuntimeError, match="fn which is not supported"):

        @mark
        def adds(a, b):  # type: ignore[no-untyped-def]
            return a + b
