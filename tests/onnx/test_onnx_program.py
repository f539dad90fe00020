"""What an exported model is called, holds, and is written to files as."""

from __future__ import annotations

import io
import os
import threading

import numpy
import onnx
import onnx.reference
import pytest

import facula
from facula import nn
from facula.export import Dim
from facula.onnx import OnnxExporterError
from tests.onnx.onnx_support import Calls, compare, exported, same


def small():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def sizes(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_weights_have_the_names_of_the_state():
    model = small()
    held = {
        w.name: onnx.numpy_helper.to_array(w)
        for w in exported(model, (facula.ones(2, 4),)).model_proto.graph.initializer
    }
    assert set(held) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        numpy.testing.assert_array_equal(held[name], tensor.numpy())


def test_inputs_outputs_and_sizes_have_the_names_that_were_given():
    program = exported(
        small(), (facula.ones(2, 4),), input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "rows"}},
    )  # fmt: skip
    graph = program.model_proto.graph
    assert [(v.name, sizes(v)) for v in graph.input] == [("x", ["rows", 4])]
    assert [(v.name, sizes(v)) for v in graph.output] == [("y", ["rows", 2])]
    program.rename_axes({"rows": "batch"})
    assert sizes(program.model_proto.graph.input[0]) == ["batch", 4]


def test_axes_without_names_get_some():
    program = exported(small(), (facula.ones(2, 4),), input_names=["x"], dynamic_axes={"x": [0]})
    assert sizes(program.model_proto.graph.input[0]) == ["x_dynamic_axes_1", 4]


def test_sizes_that_follow_from_others_are_described():
    program = same(
        Calls(lambda x: facula.cat([x, x, x[:1]], 0)),
        (facula.randn(3, 2),), (facula.randn(7, 2),),
        dynamic_shapes={"args": ({0: Dim("n")},)},
    )  # fmt: skip
    assert sizes(program.model_proto.graph.output[0]) == ["1 + 2*n", 2]


def test_names_are_those_of_parameters_and_nested_values_stand_in_order():
    class Model(nn.Module):
        def forward(self, image, masks, *, scale):
            return {"a": image * scale, "b": [masks[0], masks[1] + 1]}

    args, kwargs = (facula.ones(2), (facula.ones(3), facula.ones(1))), {"scale": facula.ones(())}
    program = exported(Model(), args, kwargs=kwargs)
    names = [v.name for v in program.model_proto.graph.input]
    assert names == ["image", "masks_0", "masks_1", "scale"]
    compare(program(*args, **kwargs), Model()(*args, **kwargs))


def test_an_exported_program_is_a_model_too():
    model, x = small(), facula.randn(2, 4)
    program = facula.export.export(model, (x,))
    compare(facula.onnx.export(program)(x), model(x))


def test_the_same_model_gives_the_same_bytes():
    model, x = small(), facula.randn(2, 4)
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        facula.onnx.export(model, (x,), dynamic_shapes=({0: "n"},)).save(file)
    assert files[0].getvalue() == files[1].getvalue()


def test_weights_in_a_second_file(tmp_path):
    model, x = nn.Linear(40, 40), facula.randn(2, 40)
    path = tmp_path / "model.onnx"
    facula.onnx.export(model, (x,), path)
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    whole = onnx.load(path)
    onnx.checker.check_model(str(path))
    found = onnx.reference.ReferenceEvaluator(whole).run(None, {"input": x.numpy()})
    numpy.testing.assert_allclose(found[0], model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    facula.onnx.export(model, (x,), tmp_path / "one.onnx", external_data=False)
    assert "one.onnx.data" not in os.listdir(tmp_path)


def test_models_above_the_limit_have_a_second_file(tmp_path, monkeypatch):
    model, x = nn.Linear(40, 40), facula.randn(2, 40)
    program = facula.onnx.export(model, (x,))
    monkeypatch.setattr("facula.onnx.program.LIMIT", 2**20 + 2000)
    with pytest.raises(TypeError, match="second file"):
        program.save(io.BytesIO())
    program.save(tmp_path / "model.onnx")
    assert len(os.listdir(tmp_path)) == 2
    monkeypatch.setattr("facula.onnx.program.LIMIT", 4000)
    with pytest.raises(OnnxExporterError, match="2 GB"):
        program.save(tmp_path / "model.onnx", external_data=False)
    compare(program(x), model(x))


def test_weights_may_be_left_out_or_be_inputs(tmp_path):
    program = facula.onnx.export(small(), (facula.ones(2, 4),))
    program.save(tmp_path / "none.onnx", include_initializers=False)
    assert not onnx.load(tmp_path / "none.onnx").graph.initializer
    program.save(tmp_path / "both.onnx", keep_initializers_as_inputs=True)
    graph = onnx.load(tmp_path / "both.onnx").graph
    assert len(graph.input) == 1 + len(graph.initializer)


def test_a_file_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"old")
    program = facula.onnx.export(small(), (facula.ones(2, 4),))

    def full(*args):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        program.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.onnx"]


def test_a_second_file_needs_a_path():
    program = facula.onnx.export(small(), (facula.ones(2, 4),))
    with pytest.raises(TypeError, match="hint:"):
        program.save(io.BytesIO(), external_data=True)


def test_weights_are_exchanged():
    model, other, x = small(), small(), facula.randn(2, 4)
    program = facula.onnx.export(model, (x,))
    compare(program(x), model(x))
    program.apply_weights(other.state_dict())
    compare(program(x), other(x))
    with pytest.raises(ValueError, match="0.weight"):
        program.apply_weights({"0.weight": facula.ones(1, 1)})


def test_values_inside_are_computed_and_verification_passes(tmp_path):
    model, x = small(), facula.randn(2, 4)
    program = facula.onnx.export(
        model, (x,), verify=True, report=True, profile=True, dump_exported_program=True,
        artifacts_dir=tmp_path,
    )  # fmt: skip
    (inner,) = program.compute_values(["relu/Relu"], (x,)).values()
    compare([inner], model[1](model[0](x)))
    assert len(os.listdir(tmp_path)) == 3
    assert "Gemm: 2" in (tmp_path / "onnx_export_report.md").read_text()
    compare([facula.export.load(tmp_path / "onnx_export.pt2").module()(x)], model(x))


def test_equal_nodes_and_constants_are_joined():
    model, x = Calls(lambda x: x.exp() + x.exp() * (facula.ones(()) * 3)), facula.randn(3)
    plain = facula.onnx.export(model, (x,), optimize=False)
    short = facula.onnx.export(model, (x,))
    count = [len(p.model_proto.graph.node) for p in (plain, short)]
    assert count[1] < count[0]
    compare(short(x), model(x))


def test_a_model_knows_that_it_is_exported_in_its_thread():
    class Model(nn.Module):
        def forward(self, x):
            return x + 1 if facula.onnx.is_in_onnx_export() else x

    found = []
    other = threading.Thread(target=lambda: found.append(facula.onnx.is_in_onnx_export()))
    other.start()
    other.join()
    x = facula.ones(2)
    compare(facula.onnx.export(Model(), (x,))(x), x + 1)
    assert found == [False]
    assert not facula.onnx.is_in_onnx_export()


def test_the_older_interface_writes_and_returns_nothing(tmp_path):
    path = tmp_path / "model.onnx"
    x = facula.ones(2, 4)
    assert facula.onnx.export(small(), x, path, dynamo=False) is None
    onnx.checker.check_model(str(path))


@pytest.mark.parametrize("settings", [
    {"opset_version": 5}, {"input_names": ["a", "b"]}, {"output_names": ["a", "b"]},
    {"input_names": ["0.weight"]}, {"output_names": ["input"]}, {"dynamic_axes": {"z": {0: "n"}}},
])  # fmt: skip
def test_what_can_not_be_is_refused(settings):
    with pytest.raises(OnnxExporterError, match="hint:"):
        facula.onnx.export(small(), (facula.ones(2, 4),), **settings)


def test_functions_are_no_models():
    with pytest.raises(TypeError, match="hint:"):
        facula.onnx.export(lambda x: x, (facula.ones(2),))


def test_a_missing_package_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install onnx"):
        facula.onnx.export(small(), (facula.ones(2, 4),))


def test_a_mode_for_a_while():
    model = small()
    with facula.onnx.select_model_mode_for_export(model, facula.onnx.TrainingMode.EVAL):
        assert not model[0].training
    assert model[0].training
