"""A frozen module has one graph without attributes and gives the same numbers."""

import io

import pytest
import scripted_code as code

import facula
from facula import jit, nn


def model():
    facula.manual_seed(0)
    layers = [nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)]
    return nn.Sequential(*layers).eval()


def test_a_frozen_module_gives_the_same():
    made, x = model(), facula.randn(2, 1, 4, 4)
    frozen = jit.freeze(jit.script(made))
    assert facula.allclose(frozen(x), made(x))
    assert not list(frozen.parameters())
    kinds = {n.kind() for n in frozen.graph.all_nodes()}
    assert not kinds & {"prim::GetAttr", "prim::CallMethod"}
    file = io.BytesIO()
    jit.save(frozen, file)
    file.seek(0)
    assert facula.allclose(jit.load(file)(x), made(x))
    assert facula.allclose(jit.optimize_for_inference(jit.script(made))(x), made(x))


def test_the_inlined_graph_has_no_calls_and_leaves_the_graph():
    scripted = jit.script(model())
    before = str(scripted.graph)
    assert "prim::CallMethod" not in str(scripted.inlined_graph)
    assert str(scripted.graph) == before and "prim::CallMethod" in before


def test_what_is_not_to_be_frozen_is_refused():
    with pytest.raises(RuntimeError, match="eval mode"):
        jit.freeze(jit.script(model().train()))
    with pytest.raises(RuntimeError, match="ScriptModule"):
        jit.freeze(model())


def test_preserved_methods_stay():
    frozen = jit.freeze(jit.script(code.Scaled().eval()), ["other"])
    assert frozen.other(3) == 5
