"""What libraries of quantizers take from PyTorch's own rooms."""

import abc

import pytest

import facula
from facula import nn
from facula._dynamo import utils
from facula._inductor import config, decomposition
from facula._library.infer_schema import infer_schema
from facula._subclasses.functional_tensor import FunctionalTensor
from facula.capture import config as capture
from facula.sparse import SparseSemiStructuredTensor, _triton_ops_meta, to_sparse_semi_structured
from facula.utils._triton import has_triton


def test_options_are_attributes():
    assert (
        config.max_autotune is False
        and config.triton.cudagraphs is False
        and config.freezing is True
    )
    with config.patch({"triton.cudagraphs": True, "max_autotune": True}):
        assert config.triton.cudagraphs and config.max_autotune
    with config.patch(max_autotune=True), config.patch("trace.enabled", True):
        assert config.max_autotune and config.trace.enabled
    assert not config.triton.cudagraphs and not config.max_autotune and not config.trace.enabled
    for act in (lambda: config.bogus, lambda: config.triton.bogus, lambda: config.patch(bogus=1)):
        with pytest.raises(AttributeError, match="bogus"):
            act()
    with pytest.raises(AttributeError, match="bogus"):
        config.bogus = 1


def test_options_without_effect_say_so():
    with pytest.warns(UserWarning, match="cpp_wrapper has no effect here"):
        config.cpp_wrapper = True
    assert config.cpp_wrapper is True
    config.cpp_wrapper = False


def test_functions_compile_as_often_as_a_block_says():
    before = capture.recompile_limit
    with utils.disable_cache_limit():
        assert capture.recompile_limit > 10**9
    assert capture.recompile_limit == before


def test_modules_have_abstract_classes_above_them():
    class Layer(abc.ABC, nn.Module):
        @abc.abstractmethod
        def forward(self, x): ...

    class Double(Layer):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(facula.tensor(2.0))

        def forward(self, x):
            return self.scale * x

    assert float(Double()(facula.tensor(3.0))) == 6
    with pytest.raises(TypeError, match="abstract"):
        Layer()


def test_a_search_ends_at_the_least():
    cost = {(a, b): (a - 3) ** 2 + (b - 1) ** 2 + 1 for a in range(8) for b in range(8)}

    def target(parameters):
        return float(cost[parameters["a"], parameters["b"]])  # raises outside

    def step(name, value, direction, parameters):
        return value + direction

    found, gain, least, said = _triton_ops_meta.minimize(
        target, {"a": 7, "b": 6}, {"a": 7, "b": 6}, step
    )
    assert found == {"a": 3, "b": 1} and least == 1 and gain == pytest.approx(100 * (1 - 1 / 42))
    assert "'a': 2" in said


def test_parameters_are_found_by_key():
    version = (0, facula.float32, 0.5)
    assert _triton_ops_meta.get_meta("bsr_dense_addmm", (1, 2), "device", version) is None
    _triton_ops_meta.update("bsr_dense_addmm", "device", version, (1, 2), (1, 2, 3, 4))
    want = {"GROUP_SIZE_ROW": 1, "SPLIT_N": 2, "num_stages": 3, "num_warps": 4}
    assert _triton_ops_meta.get_meta("bsr_dense_addmm", (1, 2), "device", version) == want
    assert _triton_ops_meta.get_meta("bsr_dense_addmm", (1, "*"), "device", version) == {
        (1, 2): want
    }
    with pytest.raises(NotImplementedError, match="scatter_mm"):
        _triton_ops_meta.update("mm", "device", version, (1,), (1,))
    with pytest.raises(ValueError, match="4 numbers"):
        _triton_ops_meta.update("bsr_dense_addmm", "device", version, (1,), (1,))


def test_forms_of_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="Only CUDA tensors"):
        to_sparse_semi_structured(facula.eye(64))
    assert not isinstance(facula.eye(4), (SparseSemiStructuredTensor, FunctionalTensor))
    assert has_triton() is False and facula.backends.kleidiai.is_available() is False


def test_small_questions():
    assert facula.ops.aten.is_pinned.default(facula.ones(2)) is False
    assert facula._has_compatible_shallow_copy_type(facula.ones(2), facula.ones(3))
    assert not facula._has_compatible_shallow_copy_type(facula.ones(2), facula.eye(2).to_sparse())
    assert facula._C._cpu._is_avx2_supported() == facula.cpu._is_avx2_supported()
    assert decomposition.decompositions is facula._decomp.decomposition_table

    def f(x: facula.Tensor, n: int = 2) -> facula.Tensor:
        return x

    assert infer_schema(f, mutates_args=()) == "(Tensor x, SymInt n=2) -> Tensor"


def test_states_go_to_dictionaries_and_slots():
    class Slotted:
        __slots__ = ("__dict__", "b")

    made = facula._utils._set_obj_state(Slotted(), ({"a": 1}, {"b": 2}))
    assert (made.a, made.b) == (1, 2)
    with pytest.raises(RuntimeError, match="Invalid serialized state"):
        facula._utils._set_obj_state(Slotted(), (1, 2, 3))
