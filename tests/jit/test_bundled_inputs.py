"""Models that hold sample inputs: small files, the same inputs, and what is refused."""

import io

import pytest

import facula
from facula import jit, nn
from facula.utils import bundled_inputs


def script():
    """A model of a class of its own: methods are added to the class."""

    class Sum(nn.Module):
        def forward(self, x, times: int):
            return x * times

        @jit.export
        def twice(self, x):
            return x + x

    return jit.script(Sum())


def saved(model):
    file = io.BytesIO()
    jit.save(model, file)
    return file.getvalue()


def test_inputs_are_stored_small_and_come_back_as_they_were():
    model = script()
    before = len(saved(model))
    rows = [
        (facula.tensor([1, 2]), 3),
        (facula.zeros(1 << 16), 1),
        (facula.arange(1 << 16)[-4:], 2),
        (facula.ones(2, 8, 16, 16).contiguous(memory_format=facula.channels_last), 2),
        (facula.tensor([[2, 3, 4]]).expand(1 << 14, -1)[:, ::2], 5),
    ]
    bundled_inputs.augment_model_with_bundled_inputs(model, rows, info=["a", "b", "c", "d", "e"])
    data = saved(model)
    assert len(data) < before + 6000
    loaded = jit.load(io.BytesIO(data))
    assert loaded.get_num_bundled_inputs() == len(rows)
    for (x, n), (y, m) in zip(rows, loaded.get_all_bundled_inputs(), strict=True):
        assert facula.equal(x, y) and x.stride() == y.stride() and n == m
        assert facula.equal(loaded(y, m), x * n)
    told = loaded.get_bundled_inputs_functions_and_info()["forward"]
    assert told["info"] == ["a", "b", "c", "d", "e"]
    assert told["get_inputs_function_name"] == ["get_all_bundled_inputs_for_forward"]


def test_a_copy_has_inputs_and_the_model_stays():
    model = script()
    made = bundled_inputs.bundle_inputs(model, {model.twice: [(facula.ones(1),)]})
    assert not hasattr(model, "get_all_bundled_inputs_for_twice")
    assert made.get_all_bundled_inputs_for_twice()[0][0].tolist() == [1.0]
    other = bundled_inputs.bundle_inputs(made, {made.twice: [(facula.ones(2),)]})
    assert other.get_all_bundled_inputs_for_twice()[0][0].tolist() == [1.0, 1.0]
    assert made.twice(facula.ones(1)).tolist() == [2.0]


def test_inputs_by_an_expression_or_a_function():
    model = script()
    made = bundled_inputs.InflatableArg(
        facula.ones(1),
        fmt_fn="""
        def {}(self, value: Tensor):
            return torch.cat([value, value])
        """,
    )
    bundled_inputs.augment_model_with_bundled_inputs(
        model, [(bundled_inputs.bundle_randn(50, 40), 1), (made, 2)]
    )
    (x, _), (y, _) = model.get_all_bundled_inputs()
    assert x.shape == (50, 40) and x.std() > 0.5 and y.tolist() == [1.0, 1.0]


def test_what_is_refused():
    model = script()
    with pytest.raises(Exception, match="Bundled input argument"):
        bundled_inputs.augment_model_with_bundled_inputs(model, [(facula.randn(1000), 1)])
    with pytest.raises(TypeError, match="tuples of arguments"):
        bundled_inputs.augment_model_with_bundled_inputs(model, [facula.ones(1)])
    with pytest.raises(TypeError, match="list of tuples"):
        bundled_inputs.augment_model_with_bundled_inputs(model, "foo")
    with pytest.raises(TypeError, match="ScriptModule"):
        bundled_inputs.augment_model_with_bundled_inputs(nn.ReLU(), [(facula.ones(1), 1)])
    bundled_inputs.augment_model_with_bundled_inputs(model, [(facula.ones(1), 1)])
    with pytest.raises(Exception, match="augmented with bundled inputs once"):
        bundled_inputs.augment_model_with_bundled_inputs(model, [(facula.ones(1), 1)])
